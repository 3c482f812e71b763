"""Rollouts of implicit steps and their adjoint, in double precision.

The result of every stage is stored for the adjoint: a frame has few stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ti_sim.base.arrays import to_numpy
from ti_sim.base.errors import ConvergenceError
from ti_sim.deformable.implicit.driving import Driving, last_driving, last_driving_adjoint
from ti_sim.deformable.implicit.linear import LinearSolver
from ti_sim.deformable.implicit.matrix import pattern_of
from ti_sim.deformable.implicit.newton import solve_stage
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.implicit.stages import Stage, stages_of, times_of
from ti_sim.deformable.implicit.starting_step import position_correction, position_correction_adjoint
from ti_sim.deformable.implicit.stepper import Stepper
from ti_sim.deformable.implicit.worlds import for_each_world, worker_count
from ti_sim.deformable.inputs import ContinuedInputs, DeformableInputs
from ti_sim.deformable.model import HELD, PRESCRIBED, DeformableModel


@dataclass(frozen=True)
class ImplicitMotion:
    """Stages of a rollout.

    Attributes:
        stages: the stages.
        initial_count: number of rows of states before that of the first stage.
        states: [B, rows, P, 6] f64, the initial state, after those that it continues, and the result of each stage; NaN from a
            stage on that failed.
        frame_rows: [frames + 1] rows of the frames.
        failed_step: [B] first step that did not converge, counted from 1; -1 if all did.
        failed_particle: [B] particle with the largest residual there, -1 if all converged.
        residual: [B] that residual [N].
        iterations: linear solves of all worlds.
        history: last arrays of the rollout by name, f64 (``ContinuedInputs``); NaN in worlds that failed.
    """

    stages: tuple[Stage, ...]
    initial_count: int
    states: np.ndarray
    frame_rows: np.ndarray
    failed_step: np.ndarray
    failed_particle: np.ndarray
    residual: np.ndarray
    iterations: int
    history: dict[str, np.ndarray]


def in_double(inputs: DeformableInputs) -> DeformableInputs:
    """The inputs as f64 numpy arrays."""
    return inputs.with_arrays(np.ascontiguousarray(to_numpy(array), dtype=np.float64) for array in inputs.arrays())


def simulate(
    model: DeformableModel, inputs: DeformableInputs, frames: int, *, integrator: str, dt: float, substeps: int,
    settings: ImplicitSettings, first_step: int = 0,
) -> ImplicitMotion:  # fmt: skip
    """Simulate ``frames`` frame intervals.

    Args:
        model: particles and elements.
        inputs: numbers of every world, f64 numpy arrays; ``ContinuedInputs`` continue the stages of another rollout.
        frames: number of frame intervals.
        integrator: see ``stages``.
        dt: step [s].
        substeps: steps per frame.
        settings: convergence and contact.
        first_step: steps that were taken before.
    """
    first_inputs, initial, previous_driving, factor_memory = inputs, _initial_rows(inputs), None, None
    if isinstance(inputs, ContinuedInputs):
        previous_driving, factor_memory, inputs = inputs.particle_driving0, inputs.particle_factor0, inputs.without_history()
    initial_count = initial.shape[1]
    stages = tuple(stages_of(integrator, frames * substeps, initial_count=initial_count))
    worlds, particles = inputs.particle_mass.shape
    states = np.full((worlds, len(stages) + initial_count, particles, 6), np.nan)
    states[:, :initial_count] = initial
    failed_step, failed_particle, residuals = np.full(worlds, -1), np.full(worlds, -1), np.zeros(worlds)
    iterations = np.zeros(worlds, dtype=int)
    driving = Driving(inputs, substeps, previous_driving)
    inputs = driving.inputs
    times = times_of(integrator, stages, initial_count=initial_count, first_step=first_step)
    last_memories = [np.zeros(0)] * worlds

    def run_world(stepper: Stepper, world: int) -> None:
        linear = LinearSolver(stepper.pattern)
        if factor_memory is not None:
            linear.restore(factor_memory[world])
        for stage in stages:
            control, frame = driving.rows(stage, world)
            hat = _hat(model, inputs, states[world], stage, dt, world, stage.step // substeps)
            stepper.begin(stage.gamma * dt, hat, reach=stage.reach)
            _write_initial_guess(model, states[world], stage, stepper.stage.hat, dt, times)
            result = solve_stage(
                stepper, linear, settings, gamma=stage.gamma * dt, world=world, row=stage.row, control=control, frame=frame
            )
            iterations[world] += result.iterations
            if not result.converged:
                failed_step[world], failed_particle[world], residuals[world] = stage.step + 1, result.particle, result.residual
                states[world, stage.row :] = np.nan
                break
        last_memories[world] = linear.memory()

    pattern = pattern_of(model)
    for_each_world([Stepper(model, inputs, states, settings, pattern) for _ in range(worker_count(worlds))], worlds, run_world)
    rows = [initial_count - 1] + [stage.row for stage in stages if stage.ends_step and (stage.step + 1) % substeps == 0]
    is_first_step = integrator == "bdf2" and initial_count == 1 and frames * substeps == 1
    history = {"particle_history": states[:, -3:] if is_first_step else states[:, -2:]}
    if integrator == "bdf2":
        history["particle_driving"] = last_driving(first_inputs, frames)
    if width := max(map(len, last_memories)):
        padded = (np.append(values, np.full(width - len(values), -1.0)) for values in last_memories)
        history["particle_factor"] = np.stack(list(padded))
    frame_rows, solves = np.array(rows), int(iterations.sum())
    return ImplicitMotion(stages, initial_count, states, frame_rows, failed_step, failed_particle, residuals, solves, history)


def _initial_rows(inputs: DeformableInputs) -> np.ndarray:
    """[B, initial_count, P, 6] rows of states before the first stage."""
    if isinstance(inputs, ContinuedInputs):
        return inputs.particle_history0
    return np.concatenate([inputs.particle_q0, inputs.particle_qd0], axis=-1)[:, None]


def converging_division(
    model: DeformableModel, inputs: DeformableInputs, motion: ImplicitMotion, world: int, *, integrator: str, dt: float,
    substeps: int, settings: ImplicitSettings,
) -> int | None:  # fmt: skip
    """Least power of two, up to 16, of equal steps that converge in place of the failed step of a world; None if none does.

    Args:
        model, inputs, integrator, dt, substeps, settings: as in ``simulate``.
        motion: its result.
        world: a world that failed.
    """
    if isinstance(inputs, ContinuedInputs):
        inputs = inputs.without_history()
    step = int(motion.failed_step[world]) - 1
    start = motion.states[world, next(stage.start for stage in motion.stages if stage.step == step)]
    arrays = {name: getattr(inputs, name)[world : world + 1] for name in inputs.named_arrays()}
    arrays |= {name: arrays[name][:, step // substeps :][:, :1] for name in ("load", "prescribed_qd")}
    control = step * inputs.controls // substeps
    arrays |= {name: arrays[name][:, control:][:, :1] for name in ("solid_actuation", "tri_actuation", "edge_actuation")}
    arrays |= {"particle_q0": start[None, :, :3], "particle_qd0": start[None, :, 3:]}
    world_inputs = inputs.with_arrays(np.ascontiguousarray(arrays[name]) for name in inputs.named_arrays())
    for division in (2, 4, 8, 16):
        trial = simulate(model, world_inputs, 1, integrator=integrator, dt=dt / division, substeps=division, settings=settings)
        if trial.failed_step[0] < 0:
            return division
    return None


def differentiate(
    model: DeformableModel, inputs: DeformableInputs, motion: ImplicitMotion, bars: tuple[np.ndarray, np.ndarray],
    history_bars: dict[str, np.ndarray], *, dt: float, substeps: int, settings: ImplicitSettings,
) -> DeformableInputs:  # fmt: skip
    """Adjoint of ``simulate``: by the implicit function theorem, one solve with the transposed Jacobian a stage.

    Args:
        model, inputs, dt, substeps, settings: as in ``simulate``.
        motion: its result.
        bars: [B, frames + 1, P, 3] adjoints of positions and velocities at the frames.
        history_bars: adjoints of ``ImplicitMotion.history``; no entries for zeros.

    Returns:
        Adjoints of the inputs. That of the factors, on which the result does not depend, is zero.
    """
    worlds, particles = inputs.particle_mass.shape
    first_inputs, previous_driving = inputs, None
    if isinstance(inputs, ContinuedInputs):
        previous_driving, inputs = inputs.particle_driving0, inputs.without_history()
    driving, initial_bars = Driving(inputs, substeps, previous_driving), np.zeros((worlds, motion.initial_count, particles, 6))
    inputs = driving.inputs
    result = inputs.with_arrays(np.zeros_like(array) for array in inputs.arrays())
    sums = replace(result, gravity=np.zeros((worlds, particles, 3)), wind=np.zeros((worlds, max(model.triangle_count, 1), 3)))
    is_held = model.particle_table[:, HELD] == 1

    def run_world(stepper: Stepper, world: int) -> None:
        if motion.failed_step[world] >= 0:
            return
        linear, row_bars = LinearSolver(stepper.pattern), np.zeros(motion.states.shape[1:])
        for frame, row in enumerate(motion.frame_rows):
            row_bars[row, :, :3] += bars[0][world, frame]
            row_bars[row, :, 3:] += bars[1][world, frame]
        if "particle_history" in history_bars:
            bar = history_bars["particle_history"][world]
            row_bars[-len(bar) :] += bar
        for stage in reversed(motion.stages):
            control, frame = driving.rows(stage, world)
            hat = _hat(model, inputs, motion.states[world], stage, dt, world, stage.step // substeps)
            stepper.begin(stage.gamma * dt, hat, reach=stage.reach)
            _stage_adjoint(
                model, stepper, linear, row_bars[stage.row], stage, dt, world, control, frame,
                tolerance=settings.adjoint_tolerance,
            )  # fmt: skip
            driving.rows_adjoint(sums, stage, world)
            for row, weight in zip(stage.rows, stage.weights, strict=True):
                row_bars[row][~is_held] += weight * stepper.hat_bar[~is_held, :6]
            if stage.corrected:
                bar = np.where(is_held[:, None], 0.0, stepper.hat_bar[:, :3])
                bar = position_correction_adjoint(model, inputs, sums, motion.states[world], stage, dt, world, frame, bar)
                row_bars[stage.rows[0], :, 3:] += bar
                row_bars[stage.start, :, 3:] -= bar
            row_bars[stage.before][~is_held, 2] += stepper.hat_bar[~is_held, 6]
            row_bars[stage.start][is_held, :3] += stepper.hat_bar[is_held, :3]
        initial_bars[world] = row_bars[: motion.initial_count]

    pattern = pattern_of(model)
    steppers = [Stepper(model, inputs, motion.states, settings, pattern, sums) for _ in range(worker_count(worlds))]
    for_each_world(steppers, worlds, run_world)
    result.gravity[:] = sums.gravity.sum(1)
    result.wind[:] = sums.wind.sum(1)
    result, previous_driving_bar = driving.without_added_rows(result)
    if "particle_driving" in history_bars:
        last_driving_adjoint(first_inputs, result, motion.frame_rows.size - 1, history_bars["particle_driving"])
    if not isinstance(first_inputs, ContinuedInputs):
        result.particle_q0[:], result.particle_qd0[:] = np.split(initial_bars[:, 0], 2, axis=-1)
        return result
    return ContinuedInputs(
        *result.arrays(), initial_bars,
        None if first_inputs.particle_driving0 is None else previous_driving_bar,
        None if first_inputs.particle_factor0 is None else np.zeros_like(first_inputs.particle_factor0),
    )  # fmt: skip


def _stage_adjoint(
    model: DeformableModel, stepper: Stepper, linear: LinearSolver, bar: np.ndarray, stage: Stage, dt: float, world: int,
    control: int, frame: int, *, tolerance: float,
) -> None:  # fmt: skip
    """Adjoint of a stage from that of its result, ``bar`` [P, 6]; writes ``Stepper.hat_bar``.

    Raises:
        ConvergenceError: its linear system has no solution within the tolerance.
    """
    free, gamma = stepper.pattern.free, stage.gamma * dt
    stepper.evaluate(world, stage.row, control, frame)
    data = stepper.jacobian(world, stage.row, control)
    rhs = (bar[free, :3] + bar[free, 3:] / gamma).ravel()
    solution = linear.solve(data, rhs, tolerance=tolerance, renew=linear.factor_is_cheap, transposed=True, indefinite=True)
    row = linear.unsolved_row(data, rhs, solution, tolerance=tolerance)
    if row is not None:
        particle = int(free[row // 3])
        raise ConvergenceError(
            f"the adjoint of step {stage.step + 1} did not converge at {model.particle_name(particle)}: its linear system left "
            "more than the adjoint_tolerance; take shorter steps (more substeps) or a larger tolerance (ImplicitSettings)",
            body=model.part_of(particle), step=stage.step + 1,
        )  # fmt: skip
    stepper.dual[world] = 0.0
    stepper.dual[world, free] = solution.reshape(-1, 3)
    stepper.bar[:] = bar
    stepper.elapsed[0] = stage.time * dt
    stepper.adjoint(world, stage.row, control, frame)


def _hat(
    model: DeformableModel, inputs: DeformableInputs, states: np.ndarray, stage: Stage, dt: float, world: int, frame: int
) -> np.ndarray:
    """``StageArrays.hat`` of a stage [P, 7] from the rows [rows, P, 6] before it."""
    hat = stage.weights[0] * states[stage.rows[0]] + stage.weights[1] * states[stage.rows[1]]
    if stage.corrected:
        hat[:, :3] += position_correction(model, inputs, states, stage, dt, world, frame)
    table = model.particle_table
    is_held = table[:, HELD] == 1
    hat[is_held, :3], hat[is_held, 3:] = states[stage.start, is_held, :3], 0.0
    is_prescribed = table[:, PRESCRIBED] >= 0
    hat[is_prescribed, 3:] = inputs.prescribed_qd[world, frame][table[is_prescribed, PRESCRIBED]]
    return np.column_stack([hat, states[stage.before, :, 2]])


def _write_initial_guess(
    model: DeformableModel, states: np.ndarray, stage: Stage, hat: np.ndarray, dt: float, times: np.ndarray
) -> None:
    """Write the initial positions of a stage to its row: the final ones of held particles; for others with velocities
    extrapolated from the two previous rows, at ``times`` [rows] in steps. Also writes the velocities of held particles.
    """
    is_held = model.particle_table[:, HELD] == 1
    row = states[stage.row]
    velocity = states[stage.row - 1, :, 3:]
    if stage.row > 1:
        previous_time, last_time, stage_time = times[stage.row - 2 : stage.row + 1]
        velocity = velocity + (stage_time - last_time) / (last_time - previous_time) * (velocity - states[stage.row - 2, :, 3:])
    row[:, :3] = hat[:, :3] + stage.gamma * dt * velocity
    row[:, 3:] = hat[:, 3:6]
    row[is_held, :3] = hat[is_held, :3] + stage.time * dt * hat[is_held, 3:6]
