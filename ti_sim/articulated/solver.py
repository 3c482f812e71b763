"""The articulated solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ti_sim.articulated.contact_bristles import initialise_contact_bristles
from ti_sim.articulated.contact_warnings import ContactWarnings
from ti_sim.articulated.dry_friction import initialise_bristles, initialise_bristles_adjoint
from ti_sim.articulated.forces import (
    JOINT_FORCE,
    PAIR_WRENCH,
    joint_and_contact_forces,
    joint_and_contact_forces_adjoint,
    with_all_links_loaded,
)
from ti_sim.articulated.link_team import LinkTeam, begin_launch, link_team, near_pair_columns, work_rows
from ti_sim.articulated.merging import merge, merge_adjoint
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.rollout import advance, advance_adjoint, initialise_state, initialise_state_adjoint
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, WORK, BarArrays, PackedArrays, WorldArrays, pack, unpack_adjoint
from ti_sim.base.arrays import (
    Array,
    assign,
    empty_in_same_library,
    ints_in_same_library,
    reals_in_same_library,
    section,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.bundles import views
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.runtime import without_subexpression_elimination
from ti_sim.base.teams import raise_if_timed_out
from ti_sim.contact.collision import NEAR
from ti_sim.rollout.adjoint import Adjoint, segment_length, storage_interval
from ti_sim.rollout.divergence import mark_diverged_frames, mark_diverged_worlds
from ti_sim.rollout.solver import Solver


@dataclass(frozen=True)
class ArticulatedRollout:
    """Result of a rollout, and the data that its adjoint needs.

    Attributes:
        joint_q: [B, frames + 1, Q] coordinates at the frames; frame 0 is the initial state (m, rad; quaternions x, y, z, w).
        joint_qd: [B, frames + 1, D] velocities (m/s, rad/s).
        body_q: [B, frames + 1, N, 7] pose of the frame of each link in the world (m, quaternion x, y, z, w).
        body_qd: [B, frames + 1, N, 6] velocity of its origin [m/s] and angular velocity [rad/s], world axes.
        diverged_step: [B] int32, first step after which the state of a world was not finite, -1 if it stayed finite.
        diverged_link: [B] int32, the link whose joint state it was, -1 if it stayed finite.
        pair_tests: [B, 2] int32, number of tests of two shapes against each other in all steps of the rollout, and number of
            builds of the list of near pairs; zeros for a model without pairs.
        inputs: inputs of the rollout.
        frames: number of frame intervals.
        adjoint: how states were stored, None for a rollout without gradient.
        states: [B, stored, Q + 2 D] coordinates, velocities and accelerations of all stages of every step, or coordinates and
            velocities at checkpoints, with dry friction followed by the D deflections of bristles, with bristles of contacts by
            the columns of ``contact_bristles``; None without gradient.
        first_frame: frame at which the rollout begins.
        last_arrays: deflections of the bristles of joints [B, D] with dry friction, and displacements of those of contacts [B, K]
            where contacts have bristles, after the last step.
    """

    joint_q: Array
    joint_qd: Array
    body_q: Array
    body_qd: Array
    diverged_step: Array
    diverged_link: Array
    pair_tests: np.ndarray
    inputs: ArticulatedInputs
    frames: int
    adjoint: Adjoint | None
    states: Array | None
    first_frame: int = 0
    last_arrays: tuple[Array, ...] = ()

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """The arrays at the frames."""
        return self.joint_q, self.joint_qd, self.body_q, self.body_qd

    @property
    def diverged(self) -> np.ndarray:
        """[B] bool, whether the world diverged."""
        return to_numpy(self.diverged_step) >= 0


def failed_links(rollout: ArticulatedRollout, links: int) -> np.ndarray:
    """[B, N] int32, step after which the state of a link's joint was the first that was not finite, -1 for all other links."""
    link, step = to_numpy(rollout.diverged_link), to_numpy(rollout.diverged_step)
    result = np.full((len(step), links), -1, dtype=np.int32)
    worlds = np.flatnonzero(link >= 0)
    result[worlds, link[worlds]] = step[worlds]
    return result


def prepare(model: ArticulatedModel, inputs: ArticulatedInputs, *, dt: float, team: LinkTeam | None = None) -> WorldArrays:
    """Pack inputs for the kernels and allocate scratch memory.

    Args:
        model: the tree.
        inputs: numbers of every world, of fitting shapes.
        dt: physics step [s].
        team: of the threads of each world; None for one thread.
    """
    like = inputs.link_mass
    b, n, d = inputs.world_count, model.link_count, model.velocity_count
    pair, (mesh, mesh_data) = model.pair, model.meshes
    near_pairs = np.zeros((b, near_pair_columns(len(pair), team)) if model.has_pairs else (1, NEAR.first_pair))
    near_pairs[:, [NEAR.count, NEAR.faulty_pair, NEAR.fault_step]] = -1
    coupling_count = len(model.joint_coupling)
    coupling_work = np.zeros((b, coupling_count + 1, d + 1) if coupling_count else (1, 1, 1))
    coupling_work[:, :-1, -1] = [multiplier for _link, _leader, multiplier in model.joint_coupling]
    world = WorldArrays(
        tree=ints_in_same_library(like, model.tree),
        axis=reals_in_same_library(like, model.axis),
        point=reals_in_same_library(like, model.point),
        point_reach=reals_in_same_library(like, model.point_reach),
        link=empty_in_same_library(like, (b, n, LINK.size)),
        velocity=empty_in_same_library(like, (b, max(d, 1), JOINT.size)),
        action=inputs.action,
        target=inputs.servo_target,
        wrench=inputs.link_wrench,
        gravity=inputs.gravity,
        work=empty_in_same_library(like, (b, work_rows(n, len(model.point), len(pair), team), WORK.size)),
        velocity_work=empty_in_same_library(like, (b, max(d, 1), JOINT_WORK.size)),
        shape=reals_in_same_library(like, model.shape),
        pair=ints_in_same_library(like, pair),
        near_pairs=ints_in_same_library(like, near_pairs),
        anchor=empty_in_same_library(like, (b, n, 3) if model.has_pairs else (1, 1, 3)),
        mesh=ints_in_same_library(like, mesh),
        mesh_data=reals_in_same_library(like, mesh_data),
        coupling=ints_in_same_library(like, model.coupling if coupling_count else np.zeros((1, 2))),
        coupling_work=reals_in_same_library(like, coupling_work),
        with_pairs=model.pair_kinds,
        with_meshes=model.has_meshes,
        has_rims_or_patches=model.has_rims_or_patches,
        with_dry_friction=inputs.has_dry_friction,
        with_contact_bristles=inputs.has_bristles,
        with_couplings=coupling_count > 0,
        coordinates=model.coordinate_count,
        velocities=model.velocity_count,
        dt=float(dt),
        ground=float(model.ground_height),
    )
    pack(*views(packed_arrays(inputs), world.link, world.velocity))
    if (model.merged_into >= 0).any():
        merge(*views(world.tree, world.link, world.work))
    return world


def packed_arrays(inputs: ArticulatedInputs) -> PackedArrays:
    """Those of the inputs, or of their adjoints, that kernels read in rows."""
    arrays = {field.name: getattr(inputs, field.name) for field in fields(PackedArrays)}
    for name, array in arrays.items():
        if array is None:
            like = inputs.link_mass if name.startswith("link") else inputs.joint_stiffness
            arrays[name] = zeros_in_same_library(like, tuple(like.shape))
    return PackedArrays(**arrays)


def last_columns(model: ArticulatedModel, inputs: ArticulatedInputs, *, adjoint: bool = False) -> list[slice]:
    """Columns of ``ArticulatedRollout.last_arrays`` in a row of states, or in one of adjoints, without accelerations."""
    omitted_columns = model.velocity_count if adjoint else 0
    first_column = model.bristle_columns(inputs)[0]
    ranges = [(first_column - model.velocity_count, first_column)] if inputs.has_dry_friction else []
    ranges += [(first_column, first_column + model.bristle_count)] if inputs.has_bristles else []
    return [slice(start - omitted_columns, stop - omitted_columns) for start, stop in ranges]


def last_names(inputs: ArticulatedInputs) -> tuple[str, ...]:
    """Names of ``ArticulatedRollout.last_arrays``."""
    names = {"joint_bristle": inputs.has_dry_friction, "contact_bristle": inputs.has_bristles}
    return tuple(name for name, exists in names.items() if exists)


def start_links(model: ArticulatedModel, inputs: ArticulatedInputs, states: Array, first_frame: int) -> None:
    """Write the first state to row 0 of states [B, rows, columns]; above frame 0, the quaternions as they are.

    Adjoint: ``PackedBars.finish``, by hand.
    """
    q, d = model.coordinate_count, model.velocity_count
    if first_frame:
        assign(states, (slice(None), 0, slice(q)), inputs.joint_q0)
        assign(states, (slice(None), 0, slice(q, q + d)), inputs.joint_qd0)
    else:
        tree = ints_in_same_library(inputs.link_mass, model.tree)
        initialise_state(*views(inputs.joint_q0, inputs.joint_qd0, tree, states, q, d))
    if inputs.has_dry_friction:
        initialise_bristles(*views(inputs.joint_bristle0, states, q + 2 * d))
    if inputs.has_bristles:
        initialise_contact_bristles(*views(states, *model.bristle_columns(inputs)))
    if inputs.contact_bristle0 is not None:
        assign(states, (slice(None), 0, last_columns(model, inputs)[-1]), inputs.contact_bristle0)


class PackedBars:
    """Adjoints of the inputs of a rollout; those of the packed tables are in packed rows while the steps add to them."""

    def __init__(
        self, model: ArticulatedModel, inputs: ArticulatedInputs, first_frame: int, team: LinkTeam | None = None
    ) -> None:
        """Set all adjoints to zero.

        Args:
            model: the tree.
            inputs: inputs of the rollout.
            first_frame: frame at which it begins.
            team: of the threads of each world; None for one thread.
        """
        self._model, self._inputs, self._continued = model, inputs, first_frame > 0
        self._columns = last_columns(model, inputs, adjoint=True)
        like, (b, n), d = inputs.link_mass, inputs.link_mass.shape, inputs.joint_qd0.shape[1]
        self.bars = inputs.zeros()
        rows = work_rows(n, len(model.point), len(model.pair), team)
        link, link_total = (zeros_in_same_library(like, (b, count, LINK.size)) for count in (rows, n))
        velocity, velocity_total = (zeros_in_same_library(like, (b, max(d, 1), JOINT.size)) for _ in range(2))
        self.rows = BarArrays(
            link=link, velocity=velocity, action=self.bars.action, target=self.bars.servo_target, wrench=self.bars.link_wrench,
            gravity=self.bars.gravity, link_total=link_total, velocity_total=velocity_total,
        )  # fmt: skip

    def finish(self, world: WorldArrays, bar: Array) -> None:
        """Write the adjoints of the packed inputs and of the first state.

        Args:
            world: arrays of the rollout; the rows of links are packed again if links are fixed to each other.
            bar: [B, rows, columns], row 0 the adjoint of the first state (``ArticulatedModel.bar_columns``).
        """
        inputs, bars = self._inputs, self.bars
        if self._continued:
            column_count = world.coordinates + world.velocities
            assign(bars.joint_q0, (...,), section(bar, (slice(None), 0, slice(world.coordinates))))
            assign(bars.joint_qd0, (...,), section(bar, (slice(None), 0, slice(world.coordinates, column_count))))
        else:
            initialise_state_adjoint(*views(
                inputs.joint_q0, world.tree, bar, bars.joint_q0, bars.joint_qd0, world.coordinates, world.velocities
            ))  # fmt: skip
        if inputs.contact_bristle0 is not None:
            assign(bars.contact_bristle0, (...,), section(bar, (slice(None), 0, self._columns[-1])))
        if inputs.has_dry_friction:
            initialise_bristles_adjoint(*views(bar, bars.joint_bristle0, world.coordinates + world.velocities))
        if (self._model.merged_into >= 0).any():
            pack(*views(packed_arrays(inputs), world.link, world.velocity))
            merge_adjoint(*views(world.tree, world.link, world.work, self.rows.link_total))
        unpack_adjoint(*views(self.rows.link_total, self.rows.velocity_total, inputs.joint_frame, packed_arrays(bars)))


class ArticulatedSolver(Solver):
    """Advances trees of links in reduced coordinates by the articulated-body algorithm.

    Warns once about each pair of links that contact could not resolve.
    """

    frame_names, per_interval_inputs = ("joint_q", "joint_qd", "body_q", "body_qd"), "actions"
    force_names = "ground_wrench", "pair_wrench", "joint_force"

    def __init__(self, model: ArticulatedModel, settings: ArticulatedSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: links, joints, contact points.
            settings: time stepping and integrator.
        """
        super().__init__(model, settings)
        self._contact_warnings = ContactWarnings(model, settings.dt)

    def _check(self, inputs: ArticulatedInputs) -> None:
        super()._check(inputs)
        inputs.check_values(self.model)
        if inputs.has_bristles and self.settings.integrator != "semi_implicit":
            raise UserError(
                f"the contact has bristles, and the integrator is {self.settings.integrator!r}: bristles need "
                "integrator='semi_implicit'"
            )
        if inputs.has_dry_friction and self.settings.integrator != "semi_implicit":
            raise UserError(
                f"joints have dry friction, and the integrator is {self.settings.integrator!r}: choose 'semi_implicit', or leave "
                "joint_dry_friction out"
            )

    def last_names(self, inputs: ArticulatedInputs) -> tuple[str, ...]:
        """As ``Solver.last_names``."""
        return last_names(inputs)

    @without_subexpression_elimination
    def _simulate(self, inputs: ArticulatedInputs, frames: int, adjoint: Adjoint | None, first_frame: int) -> ArticulatedRollout:
        """``rollout`` of checked arguments."""
        model, like, team = self.model, inputs.link_mass, self._team(inputs)
        world = prepare(model, inputs, dt=self.settings.dt, team=team)
        b, n, q, d = inputs.world_count, model.link_count, model.coordinate_count, model.velocity_count
        steps = frames * self.settings.substeps
        interval = storage_interval(adjoint, steps, last=bool(last_names(inputs)))
        states = empty_in_same_library(like, (b, self._rows(steps, interval), model.state_columns(inputs)))
        arrays = (zeros_in_same_library(like, (b, frames + 1, *tail)) for tail in ((q,), (d,), (n, 7), (n, 6)))
        divergence_marks = (ints_in_same_library(like, np.full(b, -1)) for _ in range(2))
        start_links(model, inputs, states, first_frame)
        stored_states, pair_tests = None if adjoint is None else states, np.zeros((b, 2), dtype=np.int32)
        result = ArticulatedRollout(*arrays, *divergence_marks, pair_tests, inputs, frames, adjoint, stored_states, first_frame)
        self._advance(world, team, result, states, 0, states, interval, True, 0, steps)
        if model.has_pairs:
            near_pairs = to_numpy(world.near_pairs)
            result.pair_tests[:] = near_pairs[:, [NEAR.tests, NEAR.lists]]
            self._contact_warnings.warn(near_pairs)
        mark_diverged_frames(result.frame_arrays, to_numpy(result.diverged_step), self.settings.substeps)
        return replace(result, last_arrays=self._last_arrays(world, team, result, states, interval, steps))

    def _last_arrays(
        self, world: WorldArrays, team: LinkTeam, rollout: ArticulatedRollout, states: Array, interval: int, steps: int
    ) -> tuple[Array, ...]:
        """``ArticulatedRollout.last_arrays``; NaN in worlds that diverged. Repeats the steps after the last checkpoint."""
        columns = last_columns(self.model, rollout.inputs)
        if not columns:
            return ()
        (row, remainder), shape = divmod(steps, interval), tuple(states.shape)
        if remainder:
            segment = empty_in_same_library(states, (shape[0], self._rows(remainder, remainder), shape[2]))
            self._advance(world, team, rollout, states, row, segment, remainder, False, steps - remainder, remainder)
            states = segment
        last_arrays = tuple(section(states, (slice(None), int(states.shape[1]) - 1, column)) for column in columns)
        mark_diverged_worlds(last_arrays, rollout.diverged)
        return last_arrays

    @without_subexpression_elimination
    def _differentiate(
        self, rollout: ArticulatedRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]
    ) -> ArticulatedInputs:
        """``rollout_adjoint`` of checked arguments."""
        model, inputs, like = self.model, rollout.inputs, rollout.inputs.link_mass
        b, columns, steps = inputs.world_count, model.state_columns(inputs), rollout.frames * self.settings.substeps
        team = self._team(inputs)
        packed_bars = PackedBars(model, inputs, rollout.first_frame, team)
        world = prepare(model, inputs, dt=self.settings.dt, team=team)
        segment_steps, states = segment_length(rollout.adjoint, steps), rollout.states
        if rollout.adjoint.interval > 1:
            states = empty_in_same_library(like, (b, self._rows(segment_steps, 1), columns))
        bar = zeros_in_same_library(like, (b, 3, model.bar_columns(inputs)))
        columns = [(slice(None), 0, column) for column in last_columns(model, inputs, adjoint=True)]
        if last_bars and inputs.has_dry_friction:
            assign(bar, columns[0], last_bars[0])

        def recompute_segment(first: int, count: int) -> None:
            self._advance(world, team, rollout, rollout.states, first // segment_steps, states, 1, False, first, count)

        def run(rows: Array, first: int, count: int, *, is_last: bool) -> None:
            advance_adjoint(*views(
                self.settings.integrator == "rk4", rows, rollout.diverged_step, bar, *bars, world, packed_bars.rows,
                begin_launch(team), first, count, int(is_last), self.settings.substeps,
            ))  # fmt: skip
            raise_if_timed_out(team.team)

        def differentiate_segment(first: int, count: int) -> None:
            is_last = first + count == steps
            if is_last and last_bars and inputs.has_bristles:
                # The adjoint of the last frame's poses clears the adjoints of displacements, so it runs before these are set.
                run(section(states, (slice(None), slice(count * self._stages, count * self._stages + 1))), steps, 0, is_last=True)
                assign(bar, columns[-1], last_bars[-1])
                is_last = False
            run(states, first, count, is_last=is_last)

        rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
        packed_bars.finish(world, bar)
        return packed_bars.bars

    @without_subexpression_elimination
    def _forces(self, inputs: ArticulatedInputs) -> tuple[Array, ...]:
        """``forces`` of checked inputs: ground_wrench [B, N, 6], pair_wrench [B, K, 12] and joint_force [B, D, 4]
        (``joint_and_contact_forces``).
        """
        model, like, b = self.model, inputs.link_mass, inputs.world_count
        world, states = self._initial_arguments(inputs)
        pairs, velocities = max(len(model.candidate_pairs), 1), max(model.velocity_count, 1)
        tails = (model.link_count, 6), (pairs, PAIR_WRENCH.size), (velocities, JOINT_FORCE.size)
        arrays = tuple(zeros_in_same_library(like, (b, *tail)) for tail in tails)
        joint_and_contact_forces(*views(states, *arrays, world))
        return arrays

    @without_subexpression_elimination
    def _forces_adjoint(self, inputs: ArticulatedInputs, bars: tuple[Array, ...]) -> ArticulatedInputs:
        """``forces_adjoint`` of checked inputs."""
        world, states = self._initial_arguments(inputs)
        packed_bars = PackedBars(self.model, inputs, 0)
        bar = zeros_in_same_library(inputs.link_mass, (inputs.world_count, 3, self.model.bar_columns(inputs)))
        joint_and_contact_forces_adjoint(*views(states, *bars, bar, world, packed_bars.rows))
        packed_bars.finish(world, bar)
        return packed_bars.bars

    def _initial_arguments(self, inputs: ArticulatedInputs) -> tuple[WorldArrays, Array]:
        """Kernel arguments of ``forces``, and the initial state in a row."""
        world = with_all_links_loaded(self.model, inputs, prepare(self.model, inputs, dt=self.settings.dt))
        states = zeros_in_same_library(inputs.link_mass, (inputs.world_count, 1, self.model.state_columns(inputs)))
        start_links(self.model, inputs, states, 0)
        return world, states

    def check_divergence(self, rollout: ArticulatedRollout) -> None:
        """Raise a DivergenceError that names link and step when every world of the rollout diverged."""
        steps = to_numpy(rollout.diverged_step)
        if not (steps >= 0).all():
            return
        world = int(steps.argmin())
        name, step = self.model.link_names[int(to_numpy(rollout.diverged_link)[world])], int(steps[world])
        raise DivergenceError(
            f"the simulation diverged: the joint of {name!r} stopped being finite at step {step} "
            f"({step * self.settings.dt:.4g} s): take smaller steps (more substeps), or softer springs, limits or contact",
            body=name,
            step=step,
        )

    def failed_steps(self, rollout: ArticulatedRollout) -> np.ndarray:
        """[B, N] int32, see ``failed_links``."""
        return failed_links(rollout, self.model.link_count)

    def _advance(
        self, world: WorldArrays, team: LinkTeam, rollout: ArticulatedRollout, source: Array, source_row: int, states: Array,
        store_every: int, write_frames: bool, first: int, steps: int,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment; ``rollout`` holds the frames and the marks of divergence."""
        b, columns = rollout.inputs.world_count, self.model.state_columns(rollout.inputs)
        stage_rows = zeros_in_same_library(world.link, (b, self._stages, columns + world.coordinates))
        advance(*views(
            self.settings.integrator == "rk4", source, source_row, states, store_every, stage_rows,
            rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd, int(write_frames),
            rollout.diverged_step, rollout.diverged_link, world, begin_launch(team), first, steps, self.settings.substeps,
        ))  # fmt: skip
        raise_if_timed_out(team.team)

    def _team(self, inputs: ArticulatedInputs) -> LinkTeam:
        """Team of threads of each world."""
        model = self.model
        return link_team(
            model.link_parent, np.diff(model.point_start), inputs.link_mass, inputs.world_count, self.settings.plan
        )

    @property
    def _stages(self) -> int:
        """Number of stages of a step."""
        return 4 if self.settings.integrator == "rk4" else 1

    def _rows(self, steps: int, store_every: int) -> int:
        """Number of rows that ``advance`` writes for this many steps."""
        return steps * self._stages + 1 if store_every == 1 else steps // store_every + 1
