"""Parts of a smoke simulation: the grid, the inputs of each world, the settings of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from ti_sim.base.arrays import Array, to_numpy
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, Rule, checked
from ti_sim.rollout.arrays import Arrays, array

Advection = Literal["semi_lagrangian", "maccormack", "cubic"]
STABLE = 0.25  # largest viscosity * dt / cell^2 of an explicit step in two dimensions


@checked
@dataclass(frozen=True, eq=False)
class SmokeModel:
    """A box of square cells with walls all around and obstacles in it, equal in every world.

    x points to the right and y up; cell (0, 0) is in the lower left corner.

    Attributes:
        cells: number of cells along x and y.
        cell: side of a cell [m].
        obstacle: [X, Y] bool, cells that no smoke enters; None for none.

    Raises:
        UserError: the obstacle has another shape, or leaves no open cell.
    """

    cells: Annotated[tuple[int, int], Rule(shape=(2,), exact=True, integer=True, minimum=2)]
    cell: Positive
    obstacle: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(int(count) for count in self.cells))
        if self.obstacle is not None:
            if np.shape(self.obstacle) != self.cells or not np.isin(self.obstacle, (0, 1)).all():
                raise UserError(
                    f"the obstacle has shape {np.shape(self.obstacle)}, and the grid {self.cells}: give True or False for each"
                )
            object.__setattr__(self, "obstacle", np.array(self.obstacle, dtype=bool))
        if not self.open_cells.any():
            raise UserError("the obstacle fills the whole box: leave cells open")

    @cached_property
    def open_cells(self) -> np.ndarray:
        """[X, Y] bool, cells without an obstacle."""
        return np.ones(self.cells, dtype=bool) if self.obstacle is None else ~self.obstacle

    @cached_property
    def open_x(self) -> np.ndarray:
        """[X + 1, Y] bool, faces between two open cells that lie beside each other: where smoke moves along x."""
        return _open_faces(self.open_cells)

    @cached_property
    def open_y(self) -> np.ndarray:
        """[X, Y + 1] bool, faces between two open cells of which one lies above the other: where smoke moves along y."""
        return _open_faces(self.open_cells.T).T

    @cached_property
    def beside_x(self) -> np.ndarray:
        """[X + 1, Y] bool, faces across x that an open cell touches: the others are inside obstacles."""
        return _faces_of_open_cells(self.open_cells)

    @cached_property
    def beside_y(self) -> np.ndarray:
        """[X, Y + 1] bool, faces across y that an open cell touches."""
        return _faces_of_open_cells(self.open_cells.T).T


def _faces_of_open_cells(cells: np.ndarray) -> np.ndarray:
    """Faces along the first axis at least one side of which is open; there is nothing open beyond the walls."""
    padded = np.pad(cells, ((1, 1), (0, 0)))
    return padded[1:] | padded[:-1]


def _open_faces(cells: np.ndarray) -> np.ndarray:
    """Faces between two open cells along the first axis; those of the walls are closed."""
    return np.pad(cells[1:] & cells[:-1], ((1, 1), (0, 0)))


@dataclass(frozen=True)
class SmokeInputs(Arrays):
    """Inputs of a rollout of B worlds, which is differentiable in all of them; also the container of their adjoints.

    Velocities are those at the faces of the cells (a staggered grid; Harlow and Welch, Phys. Fluids 8, 1965). Those at walls
    and obstacles are not used. The arrays are contiguous and of the working precision, all in one kind of container.
    """

    density0: Array = array("B X Y", "density of the smoke at the start [1]")
    velocity_x0: Array = array("B X1 Y", "velocity along x at the start [m/s]; what changes the volume is projected out")
    velocity_y0: Array = array("B X Y1", "velocity along y at the start [m/s]")
    source: Array = array("B F X Y", "density that is added [1/s], constant over a frame interval, for F intervals")
    buoyancy: Array = array("B", "upward acceleration of smoke of density 1 [m/s2]")
    viscosity: Array = array("B", "kinematic viscosity [m2/s], from 0")
    confinement: Array = array("B", "strength of vorticity confinement [1/s], from 0")

    @property
    def world_count(self) -> int:
        """Number of worlds B."""
        return int(self.density0.shape[0])

    @property
    def frame_count(self) -> int:
        """Number of frame intervals F of the sources."""
        return int(self.source.shape[1])

    def check(self, model: SmokeModel, settings: SmokeSettings) -> None:
        """Raise a UserError for an array whose shape or precision does not fit the model, and for an unstable viscosity."""
        x, y = model.cells
        frames = self.frame_count if len(self.source.shape) == 4 else 1
        self.check_shapes({"B": self.world_count, "X": x, "Y": y, "X1": x + 1, "Y1": y + 1, "F": frames})
        max_viscosity = STABLE * model.cell**2 / settings.dt
        viscosity = to_numpy(self.viscosity)
        if not (viscosity >= 0).all() or not (viscosity <= max_viscosity).all():
            raise UserError(
                f"the viscosity is {viscosity.min():.3g} to {viscosity.max():.3g} m2/s, and steps of {settings.dt:g} s in cells "
                f"of {model.cell:g} m need 0 to {max_viscosity:.3g}: take more substeps, or larger cells"
            )


@checked
@dataclass(frozen=True)
class SmokeSettings:
    """Time stepping of a smoke simulation.

    Attributes:
        dt: physics step [s].
        substeps: steps per frame.
        advection: "semi_lagrangian" (bilinear; it blurs), "cubic" (sharper; its density overshoots by up to .03),
            or "maccormack" (second order and linear, so that the density overshoots beside edges and in thin filaments). All are
            stable at any step.
    """

    dt: Positive
    substeps: Count
    advection: Advection = "semi_lagrangian"
