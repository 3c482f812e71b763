"""Time windows of a scene, each simulated from the last state of the previous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from risp_torch.scene.parts.elements import Sheet, Solid
from risp_torch.scene.scene import Scene
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.rules import checked
from ti_sim.rollout.adjoint import Adjoint


class Windows:
    """Rollouts of a scene from any frame, with the rows of time-dependent parameters that belong to the window's frames."""

    @checked
    def __init__(self, scene: Scene) -> None:
        """Prepare rollouts of a scene."""
        self.scene = scene
        self.rows_per_frame = timed_parameters(scene)

    def rollout(
        self,
        first_frame: int,
        frames: int,
        parameters: Mapping[str, torch.Tensor],
        *,
        state: State | None = None,
        adjoint: Adjoint | None = None,
    ) -> States:
        """Simulate some frames.

        Args:
            first_frame: frame at which the window begins.
            frames: frame intervals of the window.
            parameters: see ``Scene.rollout``; rows of time-dependent ones, without world axis, begin at the window's first frame.
            state: state at the first frame (``States.last``), the scene's initial state by default.
            adjoint: see ``Scene.rollout``.
        """
        values = dict(parameters)
        for name, rows_per_frame in self.rows_per_frame.items():
            if name in values:
                scene_rows, window_rows = torch.as_tensor(self.scene.table[name].value).to(values[name]), values[name]
                values[name] = torch.cat(
                    [
                        scene_rows[: first_frame * rows_per_frame],
                        window_rows,
                        scene_rows[first_frame * rows_per_frame + len(window_rows) :],
                    ]
                )
        return self.scene.simulator.rollout(self.scene.table, values, frames=frames, worlds=1, state=state, adjoint=adjoint)


def timed_parameters(scene: Scene) -> dict[str, int]:
    """Rows per frame of every time-dependent parameter of a scene's deformable bodies."""
    rows_per_frame = {}
    for deformable in scene.deformables:
        elements = deformable.elements
        if isinstance(elements, Sheet):
            actuations = (elements.actuation, elements.bending_actuation)
        else:
            actuations = (elements.actuation,) if isinstance(elements, Solid) else ()
        rows_per_frame |= {actuation.name: actuation.controls for actuation in actuations if actuation is not None}
        name = f"{deformable.name}.prescribed_velocity"
        if name in scene.table.params and scene.table[name].value.ndim > 1:
            rows_per_frame[name] = 1
    for load in scene.loads:
        num_constant_axes = 0 if load.direction is not None else 1
        name = f"{load.name}.force"
        if getattr(scene.table[name].value, "ndim", 0) > num_constant_axes:
            rows_per_frame[name] = 1
    return rows_per_frame


def joined_states(segments: Sequence[States], *, frames: int | None = None) -> States:
    """Concatenation of successive motions; optionally only the first frames."""

    def join(name: str) -> torch.Tensor | None:
        arrays = [getattr(segment, name) for segment in segments]
        if arrays[0] is None:
            return None
        return torch.cat([arrays[0], *(array[:, 1:] for array in arrays[1:])], dim=1)[:, :frames]

    names = ("joint_q", "joint_qd", "particle_q", "particle_qd")
    # Worlds that diverged end a rollout of one world with an error, so that the steps are -1 in all parts.
    motion = States(join("body_q"), join("body_qd"), segments[-1].diverged_step, **{name: join(name) for name in names})
    return motion if frames is not None else replace(motion, last=segments[-1].last)
