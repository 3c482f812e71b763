"""States of several frames as worlds of one batch: the inputs of a solver, with the rows over time of each frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import torch

from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.rollout.arrays import Arrays


def states_of_motion(motion: States) -> list[State]:
    """The states at the frames of a motion, without bristles (UserError: the motion is at the time stamps of a film)."""
    if motion.last is None:
        raise UserError("the motion is at the time stamps of a film: give states at frames, from Scene.state and Scene.step")
    arrays = {name: array for name, array in motion.arrays().items() if array.shape[2]}
    count = motion.body_q.shape[1]
    first = motion.last.frame + 1 - count
    return [State(frame=first + t, **{name: array[:, t] for name, array in arrays.items()}) for t in range(count)]


def frame_rows(states: Sequence[State]) -> list[int]:
    """Frame interval whose rows over time each state reads: the one that it begins; the last of several states ends one.

    Raises:
        UserError: the states are not those of successive frames.
    """
    first = states[0].frame
    if [state.frame for state in states] != list(range(first, first + len(states))):
        raise UserError(f"the states are of the frames {', '.join(str(state.frame) for state in states)}: give successive ones")
    return [min(state.frame, first + max(len(states) - 2, 0)) for state in states]


def stacked(states: Sequence[State]) -> dict[str, torch.Tensor]:
    """The arrays of T states [B, T, ...] by name; bristles that a state does not have get zero displacement."""
    arrays = [state.arrays() for state in states]
    names = [name for name in arrays[-1] if all(name in state_arrays or name.endswith("_bristle") for state_arrays in arrays)]
    return {
        name: torch.stack([state_arrays.get(name, torch.zeros_like(arrays[-1][name])) for state_arrays in arrays], dim=1)
        for name in names
    }


def inputs_at_states(inputs: Arrays, state: Mapping[str, torch.Tensor], rows: Sequence[int]) -> Arrays:
    """The inputs of B worlds as those of B T worlds, each of which begins at one of T states.

    Args:
        inputs: of B worlds.
        state: arrays [B, T, ...] by name (``stacked``); array NAME is the input NAME0.
        rows: T frame intervals, whose rows over time each state gets.
    """
    changes = {}
    for field in fields(inputs):
        value, name = getattr(inputs, field.name), field.name.removesuffix("0")
        if isinstance(value, Arrays):
            changes[field.name] = inputs_at_states(value, state, rows)
        elif name != field.name and name in state:
            changes[field.name] = state[name].flatten(0, 1)
        elif value is not None:
            # F frame intervals, or R control rows, several in each of them.
            per_frame = {("F",): 1, ("R",): getattr(inputs, "controls", 1)}.get(field.metadata["shape"][1:2], 0)
            if per_frame:
                value = value[:, [row * per_frame for row in rows]].flatten(0, 1)[:, None]
            else:
                value = value.repeat_interleave(len(rows), dim=0)
            changes[field.name] = value
    return replace(inputs, **changes)
