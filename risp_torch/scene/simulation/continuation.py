"""Simulations that continue from a state: its arrays as inputs of a solver, rows over time from its frame, the last state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import torch

from risp_torch.scene.state import STATE_ARRAYS, State
from risp_torch.scene.states import States
from ti_sim.rollout.arrays import Arrays


def initial_arrays(inputs: Arrays) -> dict[str, torch.Tensor]:
    """The initial state in the inputs of a solver: array NAME of a state is its input NAME0."""
    arrays = {}
    for field in fields(inputs):
        value, name = getattr(inputs, field.name), field.name.removesuffix("0")
        if isinstance(value, Arrays):
            arrays |= initial_arrays(value)
        elif value is not None and name != field.name and name in STATE_ARRAYS:
            arrays[name] = value
    return arrays


def with_state(inputs: Arrays, state: State) -> Arrays:
    """The inputs with the initial state ``state``."""
    arrays, changes = state.arrays(), {}
    for field in fields(inputs):
        value, name = getattr(inputs, field.name), field.name.removesuffix("0")
        if isinstance(value, Arrays):
            changes[field.name] = with_state(value, state)
        elif name != field.name and name in arrays:
            changes[field.name] = arrays[name]
    return replace(inputs, **changes)


def after_frame(inputs: Arrays, frame: int) -> Arrays:
    """The inputs for the simulation from a frame on: without the rows over time of earlier frame intervals."""
    if not frame:
        return inputs
    changes = {}
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if isinstance(value, Arrays):
            changes[field.name] = after_frame(value, frame)
        elif value is not None:
            # F frame intervals, or R control rows, several in each of them.
            rows = {("F",): frame, ("R",): frame * getattr(inputs, "controls", 1)}.get(field.metadata["shape"][1:2], 0)
            if rows:
                changes[field.name] = value[:, rows:]
    return replace(inputs, **changes)


def last_state(
    states: States, arrays: Mapping[str, torch.Tensor], other_arrays: Mapping[str, torch.Tensor], *, frame: int
) -> State:
    """The state at the last frame of a motion.

    Args:
        states: the motion.
        arrays: the solver's arrays at the frames [B, T, ...] by name.
        other_arrays: all other arrays of a state [B, ...] by name.
        frame: number of the last frame.
    """
    bodies = {"body_q": states.body_q, "body_qd": states.body_qd} if states.body_q.shape[2] else {}
    last = {name: array[:, -1] for name, array in (arrays | bodies).items() if name in STATE_ARRAYS}
    return State(frame=frame, **last, **{name: array for name, array in other_arrays.items() if array.numel()})
