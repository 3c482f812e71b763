"""Parts of an articulated simulation: the immutable tree, the inputs of each world, the settings of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ti_sim.articulated.contact_bristles import PAIR_BRISTLE_SIZE, POINT_BRISTLE_SIZE
from ti_sim.articulated.joints import JOINT_TYPES
from ti_sim.base.arrays import Array, to_numpy
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, Real, checked
from ti_sim.contact.collision import (
    PAIR,
    SURFACES,
    WITH_ROUND,
    WITH_SURFACES,
    CollisionShape,
    check_shapes,
    mesh_rows,
    pair_rows,
    possible_pairs,
    shape_rows,
)
from ti_sim.contact.patch import STORED_PATCH_SIZE
from ti_sim.rollout.arrays import Arrays, array
from ti_sim.rollout.time_steps import ExplicitIntegrator, Plan, check_integrator, check_plan
from ti_sim.shapes.contact_points import WithContactPoints


@checked
@dataclass(frozen=True)
class ArticulatedModel(WithContactPoints):
    """Links, their joints and their contact points, equal in every world.

    Link i is attached by one joint to ``link_parent[i]``, which comes before it; its frame is the child frame of the joint. The
    coordinates (and the velocities) of all joints form one vector, in the order of the links.

    Attributes:
        link_names: N names, used in error messages.
        link_parent: N indices of links, -1 for the world.
        joint_type: N of "fixed", "revolute", "prismatic", "spherical" (unit quaternion; angular velocity in the link's frame),
            "free" (position of the link's origin in the joint frame and quaternion; velocity of the origin in the joint frame and
            angular velocity in the link's frame; attached to the world only).
        joint_axis: [N, 3] axis of each revolute or prismatic joint in its joint frame (normalised); the rows of other joints are
            not read.
        contact_points: one array per link: points that collide with the ground, relative to the link's centre of mass in link
            axes [m]: [P_i, 3] positions, or rows [P_i, POINT_SIZE] (see ``ti_sim.shapes.contact_points``); () if no link has any.
        ground_height: z of the ground plane [m].
        collision_shape: one per link: the shape with which it collides with other links, or None; () if no link has one.
        collision_pairs: pairs of links that may collide; None for all pairs of links with shapes, except those that are fixed to
            each other or have a single joint between them.
        joint_coupling: (link, leading link, multiplier) of each coupled joint, whose velocity is that of the other link's joint
            times the multiplier [1, m/rad, rad/m]; both are revolute or prismatic, and a leading joint is not coupled itself.
            Initial velocities must satisfy the couplings; offsets between the initial coordinates are kept.
    """

    link_names: tuple[str, ...]
    link_parent: tuple[int, ...]
    joint_type: tuple[str, ...]
    joint_axis: np.ndarray
    contact_points: tuple[np.ndarray, ...] = ()
    ground_height: Real = 0.0
    collision_shape: tuple[CollisionShape | None, ...] = ()
    collision_pairs: tuple[tuple[int, int], ...] | None = None
    joint_coupling: tuple[tuple[int, int, float], ...] = ()

    def __post_init__(self) -> None:
        n = len(self.link_names)
        if n == 0 or len(self.link_parent) != n or len(self.joint_type) != n or np.shape(self.joint_axis) != (n, 3):
            raise UserError(
                f"an articulated model needs a link, and for each of its {n} links a parent, a joint type and a row of joint_axis"
            )
        if self.contact_points and len(self.contact_points) != n:
            raise UserError(f"contact_points holds {len(self.contact_points)} arrays for {n} links: give one per link, or none")
        for i, (name, parent, kind) in enumerate(zip(self.link_names, self.link_parent, self.joint_type, strict=True)):
            if not -1 <= parent < n:
                raise UserError(f"link {name!r} has the parent {parent}, and there are links 0 to {n - 1} (-1 is the world)")
            if parent >= i:
                raise UserError(
                    f"link {name!r} has the parent {self.link_names[parent]!r}, which does not come before it: "
                    "list parents first; a joint that closes a loop cannot be simulated"
                )
            if kind not in JOINT_TYPES:
                raise UserError(f"the joint of link {name!r} is of unknown type {kind!r}: choose one of {', '.join(JOINT_TYPES)}")
            if kind == "free" and parent >= 0:
                raise UserError(f"link {name!r} has a free joint and a parent: only links without a parent can have free joints")
            if JOINT_TYPES[kind].has_axis and not 0 < np.linalg.norm(self.joint_axis[i]) < np.inf:
                raise UserError(f"the {kind} joint of link {name!r} has no axis: give a vector of finite length above zero")
        check_shapes(self.link_names, self.collision_shape, self.collision_pairs)
        self._check_couplings()

    def _check_couplings(self) -> None:
        coupled = [link for link, _leader, _multiplier in self.joint_coupling]
        for link, leader, multiplier in self.joint_coupling:
            for i in (link, leader):
                if not 0 <= i < self.link_count or not JOINT_TYPES[self.joint_type[i]].has_axis:
                    raise UserError(f"joint_coupling names link {i}: couple links that have a revolute or prismatic joint")
            name = self.link_names[link]
            if coupled.count(link) > 1 or leader in coupled:
                raise UserError(
                    f"the joint of link {name!r} is coupled twice, or to a joint that is coupled: couple it once, to a free one"
                )
            if not np.isfinite(multiplier):
                raise UserError(f"the joint of link {name!r} is coupled with the multiplier {multiplier:g}: give a finite number")

    @property
    def coupling(self) -> np.ndarray:
        """Joint velocities (coupled, leading) of the couplings, [C, 2] int32."""
        rows = [(self.qd_start[link], self.qd_start[leader]) for link, leader, _multiplier in self.joint_coupling]
        return np.array(rows, dtype=np.int32).reshape(-1, 2)

    @property
    def link_count(self) -> int:
        """Number of links N."""
        return len(self.link_names)

    @property
    def q_start(self) -> np.ndarray:
        """First coordinate of each joint, [N + 1] int32."""
        return np.cumsum([0] + [JOINT_TYPES[kind].coordinates for kind in self.joint_type]).astype(np.int32)

    @property
    def qd_start(self) -> np.ndarray:
        """First velocity of each joint, [N + 1] int32."""
        return np.cumsum([0] + [JOINT_TYPES[kind].velocities for kind in self.joint_type]).astype(np.int32)

    @property
    def coordinate_count(self) -> int:
        """Number of joint coordinates Q."""
        return int(self.q_start[-1])

    @property
    def velocity_count(self) -> int:
        """Number of joint velocities D."""
        return int(self.qd_start[-1])

    def state_columns(self, inputs: ArticulatedInputs) -> int:
        """Columns of a row of states: coordinates, velocities, accelerations, deflections where joints have dry friction, and
        those of ``contact_bristles`` where contacts have bristles.
        """
        first_column, column_count = self.bristle_columns(inputs)
        return first_column + 2 * column_count + (STORED_PATCH_SIZE * len(self.candidate_pairs) if inputs.has_bristles else 0)

    def bristle_columns(self, inputs: ArticulatedInputs) -> tuple[int, int]:
        """First column and number of columns of the displacements of contacts before a step in a row of states."""
        first_column = self.coordinate_count + (3 if inputs.has_dry_friction else 2) * self.velocity_count
        column_count = PAIR_BRISTLE_SIZE * len(self.candidate_pairs) + POINT_BRISTLE_SIZE * len(self.point)
        return first_column, column_count if inputs.has_bristles else 0

    @property
    def bristle_count(self) -> int:
        """Numbers of the displacements of all contacts; ``bristle_columns`` also has those of a placeholder for no points."""
        point_count = sum(len(points) for points in self.contact_points)
        return PAIR_BRISTLE_SIZE * len(self.candidate_pairs) + POINT_BRISTLE_SIZE * point_count

    def bar_columns(self, inputs: ArticulatedInputs) -> int:
        """Columns of a row of adjoints: of coordinates, velocities, deflections of joints and displacements of contacts."""
        return sum(self.bristle_columns(inputs)) - self.velocity_count

    @property
    def velocity_link(self) -> np.ndarray:
        """Link of each joint velocity, [D] int32."""
        return np.repeat(np.arange(self.link_count), np.diff(self.qd_start)).astype(np.int32)

    @property
    def moves(self) -> np.ndarray:
        """Whether a link can move: there is a joint that is not fixed between it and the world, [N] bool."""
        result = np.zeros(self.link_count, dtype=bool)
        for i, (parent, kind) in enumerate(zip(self.link_parent, self.joint_type, strict=True)):
            result[i] = kind != "fixed" or (parent >= 0 and result[parent])
        return result

    @property
    def spins_freely(self) -> np.ndarray:
        """Whether a link is attached to the world by a free or spherical joint and has no moving children, [N] bool."""
        has_free_rotation = np.array([kind in ("spherical", "free") for kind in self.joint_type])
        links = zip(self.link_parent, self.joint_type, strict=True)
        roots_with_moving_children = {self.fixed_root[parent] for parent, kind in links if parent >= 0 and kind != "fixed"}
        has_moving_children = np.isin(np.arange(self.link_count), list(roots_with_moving_children))
        return has_free_rotation & (np.array(self.link_parent) < 0) & ~has_moving_children

    @property
    def is_floating_base(self) -> np.ndarray:
        """Whether a link is attached to the world by a free or spherical joint and has moving children, [N] bool."""
        has_free_rotation = np.array([kind in ("spherical", "free") for kind in self.joint_type])
        return has_free_rotation & (np.array(self.link_parent) < 0) & ~self.spins_freely

    @cached_property
    def fixed_root(self) -> list[int]:
        """First of the links that are connected to a link by fixed joints, including itself, [N]."""
        roots = list(range(self.link_count))
        for i, (parent, kind) in enumerate(zip(self.link_parent, self.joint_type, strict=True)):
            if kind == "fixed" and parent >= 0:
                roots[i] = roots[parent]
        return roots

    @property
    def merged_into(self) -> np.ndarray:
        """The freely rotating link into which a link is merged (see ``merging``); -1 for links that are not merged, [N] int32."""
        roots = np.array(self.fixed_root)
        merged = self.spins_freely[roots] & (np.bincount(roots, minlength=self.link_count)[roots] > 1)
        return np.where(merged, roots, -1).astype(np.int32)

    @property
    def axis(self) -> np.ndarray:
        """Unit axes of the joints, zero for joints without axis, [N, 3] float64."""
        rows = np.zeros((self.link_count, 3))
        for i, kind in enumerate(self.joint_type):
            if JOINT_TYPES[kind].has_axis:
                rows[i] = np.asarray(self.joint_axis[i], dtype=np.float64) / np.linalg.norm(self.joint_axis[i])
        return rows

    @property
    def point_start(self) -> np.ndarray:
        """First row of each link's points in ``point``, [N + 1] int32."""
        counts = [len(p) for p in self.contact_points] or [0] * self.link_count
        return np.cumsum([0] + counts).astype(np.int32)

    @property
    def candidate_pairs(self) -> list[tuple[int, int]]:
        """Pairs of links that may collide: ``collision_pairs``, or its default."""
        if self.collision_pairs is not None:
            return list(self.collision_pairs)
        return possible_pairs(self.link_parent, self.joint_type, self.collision_shape)

    @cached_property
    def pair(self) -> np.ndarray:
        """Table of the pairs, see ``collision.pair_rows``, [max(P, 1), 6] int32."""
        return pair_rows(self.collision_shape, self.candidate_pairs)

    @cached_property
    def has_pairs(self) -> bool:
        """Whether any links may collide."""
        return bool(self.candidate_pairs)

    @cached_property
    def pair_kinds(self) -> int:
        """Kinds of pairs in the model, the bits ``collision.WITH_ROUND`` and ``WITH_SURFACES``; 0 for none."""
        kinds = {WITH_SURFACES if row[PAIR.contact_kind] == SURFACES else WITH_ROUND for row in self.pair}
        return sum(kinds) if self.has_pairs else 0

    @cached_property
    def has_meshes(self) -> bool:
        """Whether a link's shape is a mesh."""
        return any(shape is not None and shape.kind == "mesh" for shape in self.collision_shape)

    @cached_property
    def meshes(self) -> tuple[np.ndarray, np.ndarray]:
        """Tables of the shapes that are boxes or meshes, see ``collision.mesh_rows``."""
        return mesh_rows(self.collision_shape)

    @property
    def shape(self) -> np.ndarray:
        """Table of the shapes, see ``collision.shape_rows``, [max(N, 1), SHAPE.size] float64."""
        return shape_rows(self.collision_shape, self.moves)

    @property
    def tree(self) -> np.ndarray:
        """Rows (parent, type number, first coordinate, first velocity, last velocity + 1, moves, first point, last point + 1,
        spins freely, merged into), [N, 10] int32.
        """
        kinds = [list(JOINT_TYPES).index(kind) for kind in self.joint_type]
        columns = (
            self.link_parent, kinds, self.q_start[:-1], self.qd_start[:-1], self.qd_start[1:], self.moves,
            self.point_start[:-1], self.point_start[1:], self.spins_freely, self.merged_into,
        )  # fmt: skip
        return np.stack([np.asarray(column, dtype=np.int32) for column in columns], axis=1)


_DRY_FRICTION_INPUTS = ("joint_dry_friction", "joint_dry_stiffness", "joint_dry_damping", "joint_bristle0")


@dataclass(frozen=True)
class ArticulatedInputs(Arrays):
    """Inputs of a rollout of B worlds and F frame intervals, differentiable in all of them; also the container of their adjoints.

    The "force" at a joint velocity is in N or N m, its "position" x in m or rad: the coordinate of a revolute or prismatic joint,
    or a component of the rotation vector of a spherical one. A free joint has no stiffness and no position servo, and only
    revolute and prismatic joints have limits, whatever the arrays contain.

    The arrays are contiguous and of the working precision, all in one kind of container.
    """

    joint_q0: Array = array("B Q", "initial coordinates [m, rad]; quaternions x, y, z, w are normalised on reading")
    joint_qd0: Array = array("B D", "initial velocities [m/s, rad/s]")
    joint_frame: Array = array(
        "B N 7", "joint frame in the parent's link frame: position [m] and quaternion (normalised on reading)"
    )
    joint_stiffness: Array = array("B D", "spring force per position minus ``joint_rest`` [N/m, N m/rad]")
    joint_rest: Array = array("B D", "position without spring force [m, rad]")
    joint_damping: Array = array("B D", "force per velocity [N s/m, N m s/rad]")
    joint_armature: Array = array("B D", "inertia of the drive, added to the diagonal of the mass matrix [kg, kg m2]")
    joint_limit_low: Array = array("B D", "lower limit [m, rad]; -inf for none")
    joint_limit_high: Array = array("B D", "upper limit [m, rad]; inf for none")
    joint_limit_stiffness: Array = array(
        "B D",
        "of the springs beyond the limits [N/m, N m/rad]: for an overshoot o the force is k o^2 / (o + w), with w a "
        "hundredth of the range between the limits (0.01 where there is one limit only)",
    )
    motor_gain: Array = array("B D", "motor force of an action of 1 [N, N m]")
    motor_limit: Array = array("B D", "largest motor force, servo included [N, N m]; inf for none")
    servo_stiffness: Array = array("B D", "motor force per position below the servo's target [N/m, N m/rad]")
    servo_damping: Array = array("B D", "motor force per velocity, against it [N s/m, N m s/rad]")
    action: Array = array("B F D", "motor commands [1], constant over a frame interval")
    servo_target: Array = array("B F D", "target positions [m, rad], constant over a frame interval")
    link_mass: Array = array("B N", "kg")
    link_com: Array = array("B N 3", "centre of mass in the link frame [m]")
    link_inertia: Array = array(
        "B N 3 3", "about the centre of mass, axes of the link frame [kg m2]; only the symmetric part of the matrix is used"
    )
    link_contact: Array = array(
        "B N 4",
        "contact stiffness ke [N/m], damping kd [N s/m], tangential damping kf [N s/m], friction coefficient mu [1], "
        "per contact point (per m2 of a patch); a contact of two links has the mean of both, with a bristle one kf for all its "
        "points",
    )
    gravity: Array = array("B 3", "m/s2")
    link_wrench: Array = array(
        "B F N 6", "force [N] and torque [N m] on each link at its centre of mass, world frame, constant over a frame interval"
    )
    joint_dry_friction: Array | None = array(
        "B D",
        "dry friction f_c [N, N m]: up to this force the joint sticks, held by an elastic bristle, beyond it slips; not for free "
        "joints. Give all four arrays of dry friction, or none",
        default=None,
    )
    joint_dry_stiffness: Array | None = array(
        "B D", "force of the bristle per deflection [N/m, N m/rad]; above zero where there is dry friction", default=None
    )
    joint_dry_damping: Array | None = array(
        "B D", "force of the bristle per velocity [N s/m, N m s/rad]; with that of the deflection at most f_c", default=None
    )
    joint_bristle0: Array | None = array("B D", "initial deflection of the bristle [m, rad]", default=None)
    link_bristle: Array | None = array(
        "B N",
        "bristle stiffness kt of the contact [N/m], not negative: of each contact point with the ground (per m2 of a patch), and "
        "of the whole contact of two links, which has the mean of both; None for friction that is viscous at rest",
        default=None,
    )
    contact_bristle0: Array | None = array(
        "B K",
        "initial displacements of the bristles of contacts (columns of ``contact_bristles``: m and rad); None for zeros",
        default=None,
    )

    @property
    def world_count(self) -> int:
        """Number of worlds B."""
        return int(self.link_mass.shape[0])

    @property
    def frame_count(self) -> int:
        """Number of frame intervals F of the actions."""
        return int(self.action.shape[1])

    @property
    def has_dry_friction(self) -> bool:
        """Whether the joints have the arrays of dry friction."""
        return self.joint_dry_friction is not None

    @property
    def has_bristles(self) -> bool:
        """Whether contacts have bristles."""
        return self.link_bristle is not None

    def check(self, model: ArticulatedModel) -> None:
        """Raise a UserError for an array whose shape or precision does not fit the model."""
        if len({getattr(self, name) is None for name in _DRY_FRICTION_INPUTS}) > 1:
            missing = ", ".join(name for name in _DRY_FRICTION_INPUTS if getattr(self, name) is None)
            raise UserError(f"dry friction of joints needs {missing}: give all of {', '.join(_DRY_FRICTION_INPUTS)}, or none")
        frames = self.frame_count if len(self.action.shape) == 3 else 1
        axis_lengths = {"N": model.link_count, "Q": model.coordinate_count, "D": model.velocity_count}
        axis_lengths |= {"K": model.bristle_count if self.has_bristles else 0}
        self.check_shapes(axis_lengths | {"B": self.world_count, "F": frames})

    def check_values(self, model: ArticulatedModel) -> None:
        """Raise a UserError for values that make a simulation impossible."""
        for name in ("action", "servo_target"):
            invalid = np.argwhere(~np.isfinite(to_numpy(getattr(self, name))))
            if len(invalid):
                b, frame, d = (int(k) for k in invalid[0])
                link = model.link_names[model.velocity_link[d]]
                raise UserError(
                    f"{name} of the joint of {link!r} in frame {frame} of world {b} is not finite: give finite numbers"
                )
        invalid = np.argwhere(~(to_numpy(self.joint_limit_low) <= to_numpy(self.joint_limit_high)))
        if len(invalid):
            b, d = (int(k) for k in invalid[0])
            low, high = float(to_numpy(self.joint_limit_low)[b, d]), float(to_numpy(self.joint_limit_high)[b, d])
            raise UserError(
                f"the limits of the joint of {model.link_names[model.velocity_link[d]]!r} are reversed, {low:g} to {high:g}: "
                "give the lower one as joint_limit_low"
            )
        if model.joint_coupling:
            self._check_coupled_velocities(model)
        if self.has_dry_friction:
            self._check_dry_friction(model)
        if self.has_bristles:
            self._check_bristles(model)
        subtree_mass = np.abs(to_numpy(self.link_mass)) + np.abs(to_numpy(self.link_inertia)).sum(axis=(2, 3))
        for i in reversed(range(model.link_count)):
            if model.link_parent[i] >= 0:
                subtree_mass[:, model.link_parent[i]] += subtree_mass[:, i]
        has_no_inertia = (subtree_mass[:, model.velocity_link] == 0) & (to_numpy(self.joint_armature) <= 0)
        if has_no_inertia.any():
            b, d = (int(k) for k in np.argwhere(has_no_inertia)[0])
            raise UserError(
                f"the joint of {model.link_names[model.velocity_link[d]]!r} moves no mass in world {b}: "
                "give the links on it a mass, or the joint an armature"
            )

    def _check_bristles(self, model: ArticulatedModel) -> None:
        """Raise a UserError for a bristle stiffness that is negative or not finite."""
        values = to_numpy(self.link_bristle)
        invalid = np.argwhere(~(np.isfinite(values) & (values >= 0)))
        if len(invalid):
            b, i = (int(k) for k in invalid[0])
            raise UserError(
                f"link_bristle of link {model.link_names[i]!r} is {float(values[b, i]):g} in world {b}: it must be finite and "
                "not negative"
            )

    def _check_coupled_velocities(self, model: ArticulatedModel) -> None:
        velocities = to_numpy(self.joint_qd0).astype(np.float64)
        for (link, leader, multiplier), (d, e) in zip(model.joint_coupling, model.coupling, strict=True):
            is_violated = ~(np.abs(velocities[:, d] - multiplier * velocities[:, e]) <= 1e-3 * (1.0 + np.abs(velocities[:, d])))
            if is_violated.any():
                initial, coupled = velocities[is_violated, d][0], multiplier * velocities[is_violated, e][0]
                raise UserError(
                    f"the joint of {model.link_names[link]!r} begins with the velocity {initial:g}, and its coupling to that of "
                    f"{model.link_names[leader]!r} makes it {coupled:g}: begin with this velocity"
                )

    def _check_dry_friction(self, model: ArticulatedModel) -> None:
        """Raise a UserError for numbers of dry friction that are negative or not finite, and for friction without stiffness."""
        friction, stiffness = to_numpy(self.joint_dry_friction), to_numpy(self.joint_dry_stiffness)
        for name in _DRY_FRICTION_INPUTS:
            values = to_numpy(getattr(self, name))
            invalid = np.argwhere(~(np.isfinite(values) & ((values >= 0) | (name == "joint_bristle0"))))
            if len(invalid):
                b, d = (int(k) for k in invalid[0])
                link = model.link_names[model.velocity_link[d]]
                condition = "" if name == "joint_bristle0" else " and not negative"
                raise UserError(
                    f"{name} of the joint of {link!r} is {float(values[b, d]):g} in world {b}: it must be finite{condition}"
                )
        invalid = np.argwhere((friction > 0) & (stiffness == 0))
        if len(invalid):
            b, d = (int(k) for k in invalid[0])
            raise UserError(
                f"the joint of {model.link_names[model.velocity_link[d]]!r} has dry friction and no joint_dry_stiffness in world "
                f"{b}: give the stiffness with which it sticks"
            )


@checked
@dataclass(frozen=True)
class ArticulatedSettings:
    """Time stepping of an articulated simulation.

    Attributes:
        dt: physics step [s].
        substeps: steps per frame.
        integrator: "semi_implicit" (Euler; first order, robust in contact) or "rk4" (fourth order between contacts).
        plan: "world" (one thread per world), "element" (a team of threads per world, which share its links) or "auto" (selected
            by device and number of worlds).
    """

    dt: Positive
    substeps: Count
    integrator: ExplicitIntegrator = "semi_implicit"
    plan: Plan = "auto"

    def __post_init__(self) -> None:
        check_integrator(self.integrator)
        check_plan(self.plan)
