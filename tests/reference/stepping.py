"""A simulation frame by frame against one rollout."""

from __future__ import annotations

from typing import Any

import torch

from risp_torch import Scene, State, load_scene

# Sizes at which a scene takes a second: (scene, options of it).
SMALL: dict[str, dict[str, Any]] = {"smoke": {"cells": 12}, "strip": {"cells": (6, 2, 1)}, "rod": {"cells": (6, 1, 1)}}
# Integrators of a scene besides its own.
INTEGRATORS = {"rod": ("backward_euler", "bdf2", "sdirk2"), "strip": ("semi_implicit", "backward_euler", "bdf2", "sdirk2")}


def small_scene(name: str, **options: Any) -> Scene:
    """A shipped scene with few elements."""
    return load_scene(name, **SMALL.get(name, {}) | options)


def frames_of(state: State) -> dict[str, torch.Tensor]:
    """The arrays of a state that are also arrays of a motion at its frames."""
    shown = state.arrays()
    names = ("body_q", "body_qd", "joint_q", "joint_qd", "particle_q", "particle_qd")
    return {name: shown[name] for name in names if name in shown} | ({"smoke": shown["density"]} if "density" in shown else {})


def rollout_of(scene: Scene, frames: int, parameters: dict[str, torch.Tensor] | None = None, **options: Any) -> Any:
    """A rollout of a scene without the clock of its film."""
    return scene.simulator.rollout(scene.table, parameters, frames=frames, **options)


def steps_of(
    scene: Scene, frames: int, parameters: dict[str, torch.Tensor] | None = None, actions: torch.Tensor | None = None,
    **options: Any,
) -> list[State]:  # fmt: skip
    """The states at the frames of a scene, one step after the other."""
    states = [scene.state(parameters, **options)]
    for frame in range(frames):
        states.append(scene.step(states[-1], parameters, None if actions is None else actions[:, frame]))
    return states


def assert_equal_to_the_last_bit(steps: list[State], motion: Any) -> None:
    """Compare states of ``steps_of`` with a rollout of as many frames, and the last states of both."""
    arrays = motion.arrays()
    for frame, state in enumerate(steps, start=motion.last.frame + 1 - len(steps)):
        for name, array in frames_of(state).items():
            if frame:  # the start itself is normalised and projected by the first step
                expected = arrays[name][:, frame - motion.last.frame - 1]
                torch.testing.assert_close(array, expected, rtol=0.0, atol=0.0, equal_nan=True, msg=f"{name}, {frame}")
    last, end = steps[-1].arrays(), motion.last.arrays()
    assert last.keys() == end.keys() and steps[-1].frame == motion.last.frame
    for name, array in last.items():
        torch.testing.assert_close(array, end[name], rtol=0.0, atol=0.0, equal_nan=True, msg=name)


def random_sum(arrays: dict[str, torch.Tensor]) -> torch.Tensor:
    """A weighted sum of all numbers of arrays, with weights that depend on their names and shapes."""
    total = torch.zeros((), dtype=torch.float64)
    for name in sorted(arrays):
        if not arrays[name].requires_grad:
            continue
        array, generator = arrays[name], torch.Generator().manual_seed(len(name))
        total = total + (array * torch.randn(array.shape, generator=generator, dtype=array.dtype)).sum() / array.numel() ** 0.5
    return total
