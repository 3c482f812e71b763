"""Result of a rollout of deformable bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.base.arrays import Array, to_numpy
from ti_sim.deformable.implicit.rollout import ImplicitMotion
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.rollout.adjoint import Adjoint


@dataclass(frozen=True)
class DeformableRollout:
    """Result of a rollout, and the data that its adjoint needs.

    Attributes:
        particle_q: [B, frames + 1, P, 3] positions at the frames; frame 0 is the initial state [m].
        particle_qd: [B, frames + 1, P, 3] velocities [m/s].
        diverged_step: [B] int32, first step after which the state of a world was not finite, -1 if it stayed finite.
        diverged_particle: [B] int32, the first particle with that state, -1 if it stayed finite.
        inputs: inputs of the rollout.
        frames: number of frame intervals.
        adjoint: how states were stored, None for a rollout without gradient.
        states: [B, stored, P, 6] positions and velocities at every step or checkpoint; None without gradient, and for
            implicit steps.
        motion: stages of implicit steps; None for explicit steps.
        last_arrays: arrays of ``ImplicitMotion.history``; empty for explicit steps, whose frames hold the whole state.
    """

    particle_q: Array
    particle_qd: Array
    diverged_step: Array
    diverged_particle: Array
    inputs: DeformableInputs
    frames: int
    adjoint: Adjoint | None
    states: Array | None
    motion: ImplicitMotion | None = None
    last_arrays: tuple[Array, ...] = ()

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """The arrays at the frames."""
        return self.particle_q, self.particle_qd

    @property
    def diverged(self) -> np.ndarray:
        """[B] bool, whether the world diverged."""
        return to_numpy(self.diverged_step) >= 0
