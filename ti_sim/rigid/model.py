"""Parts of a rigid simulation: the immutable model, the inputs of each world, the settings of the solver."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ti_sim.base.arrays import Array
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, PositiveOrInfinite, Real, checked
from ti_sim.rollout.arrays import Arrays, array
from ti_sim.rollout.time_steps import ExplicitIntegrator, Plan, check_integrator, check_plan
from ti_sim.shapes.contact_points import WithContactPoints


@checked
@dataclass(frozen=True)
class RigidModel(WithContactPoints):
    """Bodies, their contact points and the table of applied forces, equal in every world.

    Attributes:
        body_names: N names, used in error messages.
        contact_points: one float64 array per body: [P_n, 3] positions of its contact points relative to the centre of mass in the
            body frame [m], or rows [P_n, POINT_SIZE] (see ``ti_sim.shapes.contact_points``); a body without points has no
            contact.
        force_body: A body indices, the body on which each applied force acts.
        force_steps: A pairs (first, past_last); the force acts in the steps first <= step < past_last.
        ground_height: z of the ground plane [m].
        has_wrenches: whether bodies have wrenches and drag.
        has_bristles: whether contact points have bristles, which make friction stick (see ``ti_sim.contact.bristle``).
        has_contact_radii: whether contact points are balls about their positions, with a radius that is an input.
    """

    body_names: tuple[str, ...]
    contact_points: tuple[np.ndarray, ...]
    force_body: tuple[int, ...] = ()
    force_steps: tuple[tuple[int, int], ...] = ()
    ground_height: Real = 0.0
    has_wrenches: bool = False
    has_bristles: bool = False
    has_contact_radii: bool = False

    def __post_init__(self) -> None:
        if not self.body_names or len(self.contact_points) != len(self.body_names):
            raise UserError(
                f"a rigid model needs one array of contact points for each of its {len(self.body_names)} bodies, and a body"
            )
        if len(self.force_body) != len(self.force_steps):
            raise UserError("a rigid model needs a pair of steps for each applied force")
        for body, (first, past_last) in zip(self.force_body, self.force_steps, strict=True):
            if not 0 <= body < len(self.body_names) or past_last <= first:
                raise UserError(f"the applied force on body {body} in steps {first} to {past_last} is empty or names no body")

    @property
    def body_count(self) -> int:
        """Number of bodies N."""
        return len(self.body_names)

    @property
    def force_count(self) -> int:
        """Number of applied forces A."""
        return len(self.force_body)

    @property
    def point_count(self) -> int:
        """Number of contact points of all bodies."""
        return sum(len(points) for points in self.contact_points)

    @property
    def point_start(self) -> np.ndarray:
        """First row of each body's points in ``point``, [N + 1] int32."""
        return np.cumsum([0] + [len(p) for p in self.contact_points]).astype(np.int32)

    @property
    def force_window(self) -> np.ndarray:
        """Rows (body, first step, last step + 1), [max(A, 1), 3] int32; an empty table has one row with body -1."""
        rows = [(body, *steps) for body, steps in zip(self.force_body, self.force_steps, strict=True)]
        return np.array(rows or [(-1, 0, 0)], dtype=np.int32)


@dataclass(frozen=True)
class RigidInputs(Arrays):
    """Inputs of a rollout of B worlds, which is differentiable in all of them; also the container of their adjoints.

    The arrays are contiguous and of the working precision, all in one kind of container.
    """

    body_q0: Array = array(
        "B N 7", "initial position of the centre of mass [m] and quaternion x, y, z, w (normalised on reading)"
    )
    body_qd0: Array = array("B N 6", "initial velocity [m/s] and angular velocity [rad/s], world frame")
    body_mass: Array = array("B N", "kg")
    body_inertia: Array = array(
        "B N 3 3", "about the centre of mass in the body frame [kg m2]; its adjoint treats the nine entries as independent"
    )
    body_contact: Array = array(
        "B N 4",
        "contact stiffness ke [N/m], damping kd [N s/m], tangential damping kf [N s/m], friction coefficient mu [1], "
        "per contact point (per m2 of a patch)",
    )
    gravity: Array = array("B 3", "m/s2")
    body_force: Array = array("B A 3", "applied forces, world frame [N]")
    force_point: Array = array("B A 3", "their points of application relative to the centre of mass, body frame [m]")
    body_wrench: Array | None = array(
        "B F N 6",
        "force [N] and torque about the centre of mass [N m] on each body, both in the body frame, constant over a frame "
        "interval, for F intervals (at least as many as are simulated); None in a model without wrenches",
        default=None,
    )
    body_drag: Array | None = array(
        "B N 2",
        "linear drag: opposing force per velocity [N s/m], and angular drag: opposing torque per angular velocity [N m s]; "
        "None in a model without wrenches",
        default=None,
    )
    body_bristle: Array | None = array(
        "B N",
        "bristle stiffness kt [N/m] per contact point (per m2 of a patch), not negative; None in a model without bristles",
        default=None,
    )
    body_radius: Array | None = array(
        "B N",
        "contact radius [m], added to that of every contact point, not negative; None in a model without contact radii",
        default=None,
    )

    body_momentum0: Array | None = array(
        "B N 3",
        "initial angular momentum [kg m2/s], world frame, of a rollout that continues another one: with it body_q0 is not "
        "normalised, and of body_qd0 the velocity alone is used; None at a start",
        default=None,
    )
    contact_bristle0: Array | None = array(
        "B K 2",
        "initial displacements of the bristles of the K contact points of all bodies, in the plane [m]; None for zeros",
        default=None,
    )

    @property
    def world_count(self) -> int:
        """Number of worlds B."""
        return int(self.body_mass.shape[0])

    @property
    def frame_count(self) -> int | None:
        """Number of frame intervals F of the wrenches; None in a model without wrenches."""
        return None if self.body_wrench is None else int(self.body_wrench.shape[1])

    def check(self, model: RigidModel) -> None:
        """Raise a UserError for an array whose shape or precision does not fit the model."""
        is_present = [array is not None for array in (self.body_wrench, self.body_drag)]
        if is_present != [model.has_wrenches, model.has_wrenches]:
            present_names = " and ".join(itertools.compress(("wrenches", "drag"), is_present))
            raise UserError(
                f"the inputs have {present_names or 'neither wrenches nor drag'}, "
                f"and the model has has_wrenches={model.has_wrenches}: a model with wrenches needs both, any other neither"
            )
        for name, flag in (("body_bristle", "has_bristles"), ("body_radius", "has_contact_radii")):
            is_needed = getattr(model, flag)
            if (getattr(self, name) is not None) != is_needed:
                raise UserError(
                    f"the inputs have {'no ' if is_needed else ''}{name}, and the model has {flag}={is_needed}: "
                    "a model in which this is True needs the array, any other must not have it"
                )
        frames = self.frame_count if model.has_wrenches and len(self.body_wrench.shape) == 4 else 1
        self.check_shapes({
            "B": self.world_count, "N": model.body_count, "A": max(model.force_count, 1), "F": frames, "K": model.point_count,
        })  # fmt: skip


@checked
@dataclass(frozen=True)
class RigidSettings:
    """Time stepping of a rigid simulation.

    Attributes:
        dt: physics step [s].
        substeps: steps per frame.
        integrator: "semi_implicit" (Euler; first order, robust in contact) or "rk4" (fourth order between contacts).
        plan: "world" (one thread per body and world), "element" (several threads that share the contact points of a body: a block
            on a GPU) or "auto" (selected by device and size). Launches compute whole rollouts in both plans.
        max_distance: largest distance of a centre of mass from the origin [m]; a body farther away is marked as diverged.
    """

    dt: Positive
    substeps: Count
    integrator: ExplicitIntegrator = "semi_implicit"
    plan: Plan = "auto"
    max_distance: PositiveOrInfinite = float("inf")

    def __post_init__(self) -> None:
        check_integrator(self.integrator)
        check_plan(self.plan, self.integrator)
