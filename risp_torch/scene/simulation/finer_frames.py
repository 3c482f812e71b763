"""A solver that keeps several states per frame interval, and its inputs, constant over each of the scene's intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import torch

from ti_sim.base.errors import UserError
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver


def finer_solver(solver: Solver, states_per_interval: int) -> Solver:
    """The same solver with ``states_per_interval`` frames in place of one, a divisor of its substeps."""
    return type(solver)(solver.model, replace(solver.settings, substeps=solver.settings.substeps // states_per_interval))


def finer_inputs(inputs: Arrays, states_per_interval: int) -> Arrays:
    """The inputs of ``finer_solver`` for the same motion: rows over time are repeated; differentiable.

    Raises:
        UserError: neither of the control rows of a frame interval and ``states_per_interval`` divides the other.
    """
    return inputs.with_arrays(_repeated(inputs, states_per_interval))


def _repeated(inputs: Arrays, states_per_interval: int) -> Iterator[torch.Tensor]:
    """The arrays in their order; those with an axis of frame intervals (F) or control rows (R) with more rows."""
    for field in fields(inputs):
        array = getattr(inputs, field.name)
        if isinstance(array, Arrays):
            yield from _repeated(array, states_per_interval)
        elif array is not None:
            time_axis = field.metadata["shape"][1:2]
            repeats = {("F",): states_per_interval, ("R",): _control_repeats(inputs, states_per_interval)}.get(time_axis, 1)
            yield array if repeats == 1 else array.repeat_interleave(repeats, dim=1)


def _control_repeats(inputs: Arrays, states_per_interval: int) -> int:
    """How often a control row is repeated."""
    controls = getattr(inputs, "controls", 1)
    if states_per_interval % controls and controls % states_per_interval:
        raise UserError(
            f"states_per_interval={states_per_interval} and controls={controls}: give numbers of which one divides the other, "
            "so that every state has whole rows of actuation"
        )
    return max(1, states_per_interval // controls)
