"""Rollouts of deformable bodies in which every world takes as many steps as its own parameters need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import kernel_tensor
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.deformable.stable_step import stable_steps
from ti_sim.rollout.adjoint import Adjoint

# Iterations of stable_steps, safety margin, smallest fraction of a scene's steps, levels per factor of two.
_LANCZOS, _SAFETY_MARGIN, _MIN_STEP_DIVISOR, _LEVELS_PER_OCTAVE = 4, 1.4, 8, 4


def steps_of_worlds(solver: DeformableSolver, inputs: DeformableInputs, *, controls: int) -> list[int]:
    """Steps per frame that every world needs, in levels of a fifth, independent of the other worlds.

    Args:
        solver: solver of the scene; its number of steps is the maximum.
        inputs: inputs of every world.
        controls: rows of actuation per frame, which divide the steps.

    Returns:
        B numbers of steps, from an eighth of the solver's steps to all.
    """
    max_substeps = solver.settings.substeps
    kernel_inputs = inputs.with_arrays(kernel_tensor(tensor, name) for name, tensor in inputs.named_arrays().items())
    stable_dt = stable_steps(solver.model, kernel_inputs, iterations=_LANCZOS)
    needed_substeps = np.maximum(_SAFETY_MARGIN * solver.settings.dt * max_substeps / stable_dt, max_substeps / _MIN_STEP_DIVISOR)
    levels = np.where(needed_substeps < max_substeps, np.floor(_LEVELS_PER_OCTAVE * np.log2(max_substeps / needed_substeps)), 0)
    return [
        min(max_substeps, controls * math.ceil(max_substeps * 2 ** (-level / _LEVELS_PER_OCTAVE) / controls - 1e-9))
        for level in levels.tolist()
    ]


def adaptive_rollout(
    solver: DeformableSolver, inputs: DeformableInputs, frames: int, *, steps: Sequence[int], adjoint: Adjoint | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``bridge.rollout``, one call for the worlds with the same number of steps.

    Args:
        solver: solver of the scene.
        inputs: inputs of every world.
        frames: frame intervals.
        steps: [B] steps per frame of each world (``steps_of_worlds``).
        adjoint: as of ``bridge.rollout``.

    Returns:
        As ``bridge.rollout``; diverged steps are counted in the solver's steps.

    Raises:
        UserError: as there. DivergenceError: every world diverged.
    """
    steps, max_substeps = np.array(steps), solver.settings.substeps
    rollouts, order, failures = [], [], []
    for count in np.unique(steps).tolist():
        rows = np.flatnonzero(steps == count)
        settings = replace(solver.settings, dt=solver.settings.dt * max_substeps / count, substeps=count)
        subset = inputs if len(rows) == len(steps) else _inputs_of_worlds(inputs, rows)
        particle_q, particle_qd, diverged = bridge.rollout(
            DeformableSolver(solver.model, settings), subset, frames, adjoint=adjoint, failures=failures
        )
        diverged = torch.where(diverged < 0, diverged, (diverged * max_substeps + count - 1) // count)
        rollouts.append((particle_q, particle_qd, diverged))
        order.append(rows)
    if len(failures) == len(rollouts):
        raise min(failures, key=lambda error: error.step)
    if len(rollouts) == 1:
        return rollouts[0]
    original_order = torch.as_tensor(np.argsort(np.concatenate(order)), device=rollouts[0][0].device)
    particle_q, particle_qd, diverged = (torch.cat(arrays)[original_order] for arrays in zip(*rollouts, strict=True))
    return particle_q, particle_qd, diverged


def _inputs_of_worlds(inputs: DeformableInputs, rows: np.ndarray) -> DeformableInputs:
    """The inputs of some worlds."""
    return inputs.with_arrays(array[torch.as_tensor(rows, device=array.device)] for array in inputs.arrays())
