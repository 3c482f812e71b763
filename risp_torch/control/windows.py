"""Time windows of a scene, each simulated from the last state of the previous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.elements import Sheet, Solid
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.rollout.adjoint import Adjoint


class Windows:
    """Rollouts of a scene from any frame on; parameters over time are those of the window's frames."""

    @checked
    def __init__(self, scene: Scene) -> None:
        """Windows of a scene.

        Raises:
            UserError: the scene has forces, rotors or motors, whose times count from its start.
        """
        if scene.forces or scene.rotors or scene.motors:
            raise UserError(
                "a scene with forces on rigid bodies, rotors or motors is simulated from its start only: leave feedback out"
            )
        self.scene = scene
        self.rows = timed_parameters(scene)
        self._tables: dict[int, ParameterTable] = {}

    def rollout(
        self,
        first: int,
        frames: int,
        parameters: Mapping[str, torch.Tensor],
        *,
        state0: tuple[torch.Tensor, ...] | None = None,
        adjoint: Adjoint | None = None,
    ) -> States:
        """Simulate some frames.

        Args:
            first: frame at which the window begins.
            frames: frame intervals of the window.
            parameters: see ``Scene.rollout``; those over time, without world axis, begin at the window's first frame.
            state0: state there (``last_state``), the scene's start by default.
            adjoint: see ``Scene.rollout``.
        """
        given = dict(parameters)
        for name, per_frame in self.rows.items():
            if name not in given:
                rows = self.scene.table[name].value[first * per_frame : (first + frames) * per_frame]
                given[name] = torch.as_tensor(rows)
        return self.scene.simulator.rollout(
            self._table(frames), given, frames=frames, worlds=1, state0=state0, adjoint=adjoint
        )

    def _table(self, frames: int) -> ParameterTable:
        """The parameters of the scene; those over time have rows for ``frames`` frames."""
        if frames not in self._tables:
            params = dict(self.scene.table.params)
            for name, per_frame in self.rows.items():
                params[name] = replace(params[name], value=params[name].value[: frames * per_frame], low=None, high=None)
            self._tables[frames] = ParameterTable(params, self.scene.table.signs)
        return self._tables[frames]


def timed_parameters(scene: Scene) -> dict[str, int]:
    """Rows per frame of every time-dependent parameter of a scene's deformable bodies."""
    rows = {}
    for part in scene.deformables:
        elements = part.elements
        if isinstance(elements, Sheet):
            acted = (elements.actuation, elements.turn)
        else:
            acted = (elements.actuation,) if isinstance(elements, Solid) else ()
        rows |= {actuation.name: actuation.controls for actuation in acted if actuation is not None}
        name = f"{part.name}.prescribed_velocity"
        if name in scene.table.params and scene.table[name].value.ndim > 1:
            rows[name] = 1
    for load in scene.loads:
        constant_axes = 0 if load.direction is not None else 1
        name = f"{load.name}.force"
        if getattr(scene.table[name].value, "ndim", 0) > constant_axes:
            rows[name] = 1
    return rows


@checked
def last_state(scene: Scene, states: States) -> tuple[torch.Tensor, ...]:
    """The state at the last frame of a motion, as ``state0`` of ``Scene.rollout``."""
    state: list[torch.Tensor] = []
    if scene.bodies:
        own = (states.joint_q, states.joint_qd) if scene.articulated else (states.body_q, states.body_qd)
        state += [array[:, -1] for array in own]
    if scene.deformables:
        state += [states.particle_q[:, -1], states.particle_qd[:, -1]]
    return tuple(state)


def joined_states(parts: Sequence[States], *, frames: int | None = None) -> States:
    """Concatenation of successive motions; optionally only the first frames."""

    def join(name: str) -> torch.Tensor | None:
        arrays = [getattr(part, name) for part in parts]
        if arrays[0] is None:
            return None
        return torch.cat([arrays[0], *(array[:, 1:] for array in arrays[1:])], dim=1)[:, :frames]

    names = ("joint_q", "joint_qd", "particle_q", "particle_qd")
    # Worlds that diverged end a rollout of one world with an error, so that the steps are -1 in all parts.
    return States(join("body_q"), join("body_qd"), parts[-1].diverged_step, **{name: join(name) for name in names})
