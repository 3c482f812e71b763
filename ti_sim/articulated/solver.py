"""The articulated solver: rollouts of a batch of worlds, and their adjoint, for any container of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.adjoint import Adjoint, Checkpoint, StoreAll
from ti_sim.articulated.collision import FAULT_STEP, FAULTY_PAIR, FIRST_NEAR, LIST_COUNT, NEAR_COUNT, TEST_COUNT
from ti_sim.articulated.faults import FaultWarnings
from ti_sim.articulated.merging import merge, merge_adjoint
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.rollout import advance, advance_adjoint, begin, begin_adjoint
from ti_sim.articulated.tables import LINK_SIZE, VELOCITY_SIZE, VELOCITY_WORK_SIZE, WORK_SIZE, pack, unpack_adjoint
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_like_family,
    ints_like_family,
    kernel_view,
    reals_like_family,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.parallel import spread_of
from ti_sim.base.rules import Count, checked
from ti_sim.base.runtime import compiled_plainly, require

# Inputs that ``pack`` takes, in its order.
PACKED = (
    "joint_frame", "link_mass", "link_com", "link_inertia", "link_material", "joint_stiffness", "joint_rest", "joint_damping",
    "joint_armature", "joint_limit_low", "joint_limit_high", "joint_limit_stiffness", "motor_gain", "motor_limit",
    "servo_stiffness", "servo_damping",
)  # fmt: skip


@dataclass(frozen=True)
class ArticulatedRollout:
    """What a rollout gives, and what its adjoint needs.

    Attributes:
        joint_q: [B, frames + 1, Q] coordinates at the frames, frame 0 the start (m, rad; quaternions x, y, z, w).
        joint_qd: [B, frames + 1, D] velocities (m/s, rad/s).
        body_q: [B, frames + 1, N, 7] pose of every link's frame in the world (m, quaternion x, y, z, w).
        body_qd: [B, frames + 1, N, 6] velocity of its origin [m/s] and angular velocity [rad/s], world axes.
        diverged_step: [B] int32, first step after which a world's state was not finite, -1 where all went well.
        diverged_link: [B] int32, the link whose joint's state it was, -1 where all went well.
        pair_tests: [B, 2] int32, how often shapes of two links were tested against each other in the rollout, all steps
            together, and how often the list of pairs near enough for that was made; zeros for a model without pairs.
        inputs: what the rollout started from.
        frames: number of frame intervals.
        adjoint: how states were kept, None for a rollout without gradient.
        states: [B, kept, Q + 2 D] coordinates, velocities and accelerations of all stages of every step, or the first two at
            checkpoints; None without gradient.
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


@dataclass(frozen=True)
class PreparedInputs:
    """Inputs as kernels read them, in the container of the inputs: the model's tables, packed rows, and scratch."""

    tree: Array
    axis: Array
    point: Array
    link: Array
    velocity: Array
    inputs: ArticulatedInputs
    work: Array
    velocity_work: Array
    shape: Array
    pair: Array
    near: Array
    anchor: Array
    mesh: Array
    sample: Array
    with_pairs: int
    with_meshes: bool
    turning: bool

    def arguments(self) -> tuple[object, ...]:
        """The arrays, the kinds of pairs, whether there are meshes, and rims or patches, in the order of every kernel."""
        given = self.inputs
        return (
            self.tree, self.axis, self.point, self.link, self.velocity,
            given.action, given.servo_target, given.link_wrench, given.gravity, self.work, self.velocity_work,
            self.shape, self.pair, self.near, self.anchor, self.mesh, self.sample, self.with_pairs, self.with_meshes,
            self.turning,
        )  # fmt: skip


def prepare(model: ArticulatedModel, inputs: ArticulatedInputs) -> PreparedInputs:
    """Pack inputs for the kernels.

    Args:
        model: the tree.
        inputs: numbers of every world, of fitting shapes.
    """
    like = inputs.link_mass
    b, n, d = inputs.world_count, model.link_count, model.velocity_count
    pair, (mesh, sample) = model.pair, model.meshes
    near = np.zeros((b, FIRST_NEAR + len(pair)) if model.has_pairs else (1, FIRST_NEAR))
    near[:, [NEAR_COUNT, FAULTY_PAIR, FAULT_STEP]] = -1
    prepared = PreparedInputs(
        tree=ints_like_family(like, model.tree),
        axis=reals_like_family(like, model.axis),
        point=reals_like_family(like, model.point),
        link=empty_like_family(like, (b, n, LINK_SIZE)),
        velocity=empty_like_family(like, (b, max(d, 1), VELOCITY_SIZE)),
        inputs=inputs,
        work=empty_like_family(like, (b, n, WORK_SIZE)),
        velocity_work=empty_like_family(like, (b, max(d, 1), VELOCITY_WORK_SIZE)),
        shape=reals_like_family(like, model.shape),
        pair=ints_like_family(like, pair),
        near=ints_like_family(like, near),
        anchor=empty_like_family(like, (b, n, 3) if model.has_pairs else (1, 1, 3)),
        mesh=ints_like_family(like, mesh),
        sample=reals_like_family(like, sample),
        with_pairs=model.kinds_of_pairs,
        with_meshes=model.has_meshes,
        turning=model.turning,
    )
    pack(*views(*(getattr(inputs, name) for name in PACKED), prepared.link, prepared.velocity))
    if (model.merged_into >= 0).any():
        merge(*views(prepared.tree, prepared.link, prepared.work))
    return prepared


def unpack(
    model: ArticulatedModel, prepared: PreparedInputs, link_bar: Array, velocity_bar: Array, bars: ArticulatedInputs
) -> None:
    """Write the adjoints of the packed inputs to ``bars``, from those of the rows that ``prepare`` packs.

    Args:
        model: the tree.
        prepared: inputs of the rollout; its rows are packed anew.
        link_bar: [B, N, LINK_SIZE] adjoints of the rows of links; overwritten.
        velocity_bar: [B, D, VELOCITY_SIZE] adjoints of the rows of joint velocities.
        bars: written to.
    """
    packed = [getattr(prepared.inputs, name) for name in PACKED]
    if (model.merged_into >= 0).any():
        pack(*views(*packed, prepared.link, prepared.velocity))
        merge_adjoint(*views(prepared.tree, prepared.link, prepared.work, link_bar))
    unpack_adjoint(*views(link_bar, velocity_bar, prepared.inputs.joint_frame, *(getattr(bars, name) for name in PACKED)))


class ArticulatedSolver:
    """Advances trees of links in reduced coordinates by the articulated-body algorithm."""

    def __init__(self, model: ArticulatedModel, settings: ArticulatedSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: links, joints, contact points.
            settings: step, substeps, integrator.
        """
        self.model = model
        self.settings = settings
        self._faults = FaultWarnings(model, settings.dt)

    @compiled_plainly
    @checked
    def rollout(
        self, inputs: ArticulatedInputs, frames: Count, *, adjoint: Adjoint | None = None
    ) -> ArticulatedRollout:
        """Simulate ``frames`` frame intervals.

        Args:
            inputs: the numbers of every world.
            frames: frame intervals; the result has one frame more, the start.
            adjoint: ``StoreAll()`` or ``Checkpoint(every=k)`` to keep what ``rollout_adjoint`` needs; None keeps nothing.

        Returns:
            Frames and kept states. A world that diverges is marked in ``diverged_step``; its later frames are NaN. A warning
            tells of two links that contact could not resolve, each pair once.

        Raises:
            UserError: shapes, precision or numbers do not fit, or there are actions for fewer frame intervals.
        """
        require()
        inputs.check(self.model)
        inputs.check_values(self.model)
        if inputs.frame_count < frames:
            raise UserError(
                f"frames={frames}, and there are actions for {inputs.frame_count} frame intervals: simulate fewer frames, or "
                "give more actions"
            )
        model, like = self.model, inputs.link_mass
        b, n, q, d = inputs.world_count, model.link_count, model.coordinate_count, model.velocity_count
        steps = frames * self.settings.substeps
        store_every = {StoreAll: 1, type(None): steps + 1}.get(type(adjoint)) or adjoint.every
        prepared = prepare(model, inputs)
        states = empty_like_family(like, (b, self._rows(steps, store_every), q + 2 * d))
        joint_q = zeros_like_family(like, (b, frames + 1, q))
        joint_qd = zeros_like_family(like, (b, frames + 1, d))
        body_q = zeros_like_family(like, (b, frames + 1, n, 7))
        body_qd = zeros_like_family(like, (b, frames + 1, n, 6))
        diverged_step, diverged_link = (ints_like_family(like, np.full(b, -1)) for _ in range(2))
        begin(*views(inputs.joint_q0, inputs.joint_qd0, prepared.tree, states, q, d))
        result = ArticulatedRollout(
            joint_q, joint_qd, body_q, body_qd, diverged_step, diverged_link, np.zeros((b, 2), dtype=np.int32), inputs, frames,
            adjoint, None if adjoint is None else states,
        )  # fmt: skip
        self._advance(prepared, result, states, 0, states, store_every, True, 0, steps)
        if model.has_pairs:
            near = to_numpy(prepared.near)
            result.pair_tests[:] = near[:, [TEST_COUNT, LIST_COUNT]]
            self._faults.tell(near)
        mark_diverged_frames((joint_q, joint_qd, body_q, body_qd), to_numpy(diverged_step), self.settings.substeps)
        return result

    @compiled_plainly
    def rollout_adjoint(
        self, rollout: ArticulatedRollout, joint_q_bar: Array, joint_qd_bar: Array, body_q_bar: Array, body_qd_bar: Array
    ) -> ArticulatedInputs:
        """Adjoint of ``rollout``: from the adjoints of the frames to those of every input.

        Args:
            rollout: result of ``rollout`` with an adjoint.
            joint_q_bar: [B, frames + 1, Q] derivative of the loss with respect to ``joint_q``.
            joint_qd_bar: [B, frames + 1, D] derivative with respect to ``joint_qd``.
            body_q_bar: [B, frames + 1, N, 7] derivative with respect to ``body_q``.
            body_qd_bar: [B, frames + 1, N, 6] derivative with respect to ``body_qd``.

        Returns:
            Derivatives with respect to every array of ``ArticulatedInputs``; NaN for worlds that diverged, which have none. At
            the kinks of contacts and clamped motors they are those of the side that was active.

        Raises:
            UserError: the rollout kept nothing, or shapes or precision do not fit.
        """
        if rollout.states is None:
            raise UserError(
                "this rollout kept no states: run it with adjoint=StoreAll() or Checkpoint(every=k) to differentiate it"
            )
        model, inputs, frames = self.model, rollout.inputs, rollout.frames
        b, n, q, d = inputs.world_count, model.link_count, model.coordinate_count, model.velocity_count
        check_array(joint_q_bar, "joint_q_bar", (b, frames + 1, q))
        check_array(joint_qd_bar, "joint_qd_bar", (b, frames + 1, d))
        check_array(body_q_bar, "body_q_bar", (b, frames + 1, n, 7))
        check_array(body_qd_bar, "body_qd_bar", (b, frames + 1, n, 6))
        like, steps = inputs.link_mass, frames * self.settings.substeps
        bars = ArticulatedInputs(*(zeros_like_family(like, tuple(a.shape)) for a in inputs.arrays()))
        every = min(rollout.adjoint.every, steps) if isinstance(rollout.adjoint, Checkpoint) else 1
        span = every if every > 1 else steps
        states = rollout.states if every == 1 else empty_like_family(like, (b, self._rows(span, 1), q + 2 * d))
        bar = zeros_like_family(like, (b, 3, q + d))
        links = [zeros_like_family(like, (b, n, LINK_SIZE)) for _ in range(2)]
        velocities = [zeros_like_family(like, (b, max(d, 1), VELOCITY_SIZE)) for _ in range(2)]
        prepared = prepare(model, inputs)
        for first in reversed(range(0, steps, span)):
            count = min(span, steps - first)
            if every > 1:
                self._advance(prepared, rollout, rollout.states, first // every, states, 1, False, first, count)
            advance_adjoint(*views(
                self.settings.integrator == "rk4", states, rollout.diverged_step, bar,
                joint_q_bar, joint_qd_bar, body_q_bar, body_qd_bar, *prepared.arguments(),
                links[0], velocities[0], links[1], velocities[1],
                bars.action, bars.servo_target, bars.link_wrench, bars.gravity, q, d, spread_of(b), self.settings.dt,
                model.ground_height, first, count, int(first + count == steps), self.settings.substeps,
            ))  # fmt: skip
        begin_adjoint(*views(inputs.joint_q0, prepared.tree, bar, bars.joint_q0, bars.joint_qd0, q, d))
        unpack(model, prepared, links[1], velocities[1], bars)
        for world in np.flatnonzero(to_numpy(rollout.diverged_step) >= 0):
            for array in bars.arrays():
                fill_nan(array, (int(world),))
        return bars

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

    def _advance(
        self, prepared: PreparedInputs, rollout: ArticulatedRollout, source: Array, source_row: int, states: Array,
        store_every: int, write_frames: bool, first: int, steps: int,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment; ``rollout`` gives the frames and the marks of divergence."""
        model, like = self.model, prepared.inputs.link_mass
        b, q, d = prepared.inputs.world_count, model.coordinate_count, model.velocity_count
        run = empty_like_family(like, (b, self._stages, 2 * (q + d)))
        advance(*views(
            self.settings.integrator == "rk4", source, source_row, states, store_every, run,
            rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd, int(write_frames),
            rollout.diverged_step, rollout.diverged_link, *prepared.arguments(),
            q, d, spread_of(b), self.settings.dt, model.ground_height, first, steps, self.settings.substeps,
        ))  # fmt: skip

    @property
    def _stages(self) -> int:
        """Stages of a step."""
        return 4 if self.settings.integrator == "rk4" else 1

    def _rows(self, steps: int, store_every: int) -> int:
        """Rows that ``advance`` writes of so many steps."""
        return steps * self._stages + 1 if store_every == 1 else steps // store_every + 1


def views(*arguments: object) -> tuple[object, ...]:
    """Arguments of a kernel, its arrays as ``kernel_view`` gives them; numbers, numpy's too, stay as they are."""
    return tuple(kernel_view(argument) if getattr(argument, "shape", ()) else argument for argument in arguments)


def mark_diverged_frames(arrays: tuple[Array, ...], diverged_step: np.ndarray, substeps: int) -> None:
    """Set the frames of diverged worlds after their last finite one to NaN, in place."""
    for b in np.flatnonzero(diverged_step >= 0):
        frame = int(diverged_step[b] - 1) // substeps + 1
        for array in arrays:
            fill_nan(array, (int(b), slice(frame, None)))


def fill_nan(array: Array, index: tuple) -> None:
    """Set a part of an array of any container to NaN."""
    if hasattr(array, "from_numpy"):
        values = array.to_numpy()
        values[index] = np.nan
        array.from_numpy(values)
    else:
        array[index] = float("nan")
