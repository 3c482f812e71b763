"""A solver that keeps several states per frame interval, and its inputs, constant over each of the scene's intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import torch

from ti_sim.base.errors import UserError
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver


def finer_solver(solver: Solver, between: int) -> Solver:
    """The same solver with ``between`` frames in one, a divisor of its substeps."""
    return type(solver)(solver.model, replace(solver.settings, substeps=solver.settings.substeps // between))


def finer_inputs(inputs: Arrays, between: int) -> Arrays:
    """The inputs of ``finer_solver`` for the same motion: rows over time are repeated; differentiable.

    Raises:
        UserError: the control rows of a frame interval and ``between`` do not divide one another.
    """
    return inputs.with_arrays(_repeated(inputs, between))


def _repeated(inputs: Arrays, between: int) -> Iterator[torch.Tensor]:
    """The arrays in their order; those with an axis of frame intervals (F) or control rows (R) with more rows."""
    for field in fields(inputs):
        array = getattr(inputs, field.name)
        if isinstance(array, Arrays):
            yield from _repeated(array, between)
        elif array is not None:
            time_axis = field.metadata["shape"][1:2]
            repeats = {("F",): between, ("R",): _control_repeats(inputs, between)}.get(time_axis, 1)
            yield array if repeats == 1 else array.repeat_interleave(repeats, dim=1)


def _control_repeats(inputs: Arrays, between: int) -> int:
    """How often a control row is repeated."""
    controls = getattr(inputs, "controls", 1)
    if between % controls and controls % between:
        raise UserError(
            f"between={between} and controls={controls}: give numbers of which one divides the other, so that every state has "
            "whole rows of actuation"
        )
    return max(1, between // controls)
