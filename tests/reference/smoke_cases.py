"""Small boxes of smoke, with and without obstacles."""

from __future__ import annotations

import numpy as np

from ti_sim.smoke import SmokeInputs, SmokeModel, SmokeSettings, SmokeSolver

CELLS, CELL, DT, FRAMES = (7, 6), 0.1, 0.02, 3


def obstructed() -> SmokeModel:
    """A grid with an obstacle of two cells, and a cell in a corner that obstacles cut off."""
    obstacle = np.zeros(CELLS, dtype=bool)
    obstacle[3, 2:4] = True
    obstacle[5, 5] = obstacle[6, 4] = True
    return SmokeModel(CELLS, CELL, obstacle)


def inputs_of(model: SmokeModel, frames: int = FRAMES, *, worlds: int = 2, seed: int = 0) -> SmokeInputs:
    """Random inputs of all cells."""
    random, (x, y) = np.random.default_rng(seed), model.cells
    return SmokeInputs(
        density0=random.uniform(0, 1, (worlds, x, y)), velocity_x0=random.normal(size=(worlds, x + 1, y)),
        velocity_y0=random.normal(size=(worlds, x, y + 1)), source=random.uniform(0, 1, (worlds, frames, x, y)),
        buoyancy=random.uniform(0.5, 1, worlds), viscosity=random.uniform(1e-3, 3e-3, worlds),
        confinement=random.uniform(0.2, 0.4, worlds),
    )  # fmt: skip


def solver_of(model: SmokeModel, advection: str = "semi_lagrangian", *, substeps: int = 2, dt: float = DT) -> SmokeSolver:
    """A solver of a grid."""
    return SmokeSolver(model, SmokeSettings(dt, substeps, advection))
