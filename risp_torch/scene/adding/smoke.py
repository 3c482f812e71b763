"""Smoke."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from risp_torch.scene.arguments import Array, Number, Vector
from risp_torch.scene.parameters import ParameterTable, check_name
from risp_torch.scene.parts.smoke import Smoke
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, Rule, checked
from ti_sim.smoke import SmokeModel, SmokeSettings
from ti_sim.smoke.model import Advection

# Cells that no smoke enters: a mask, or a function of the x and y of the cell centres that returns one.
ObstacleMask = Callable[[np.ndarray, np.ndarray], np.ndarray] | Any
Cells = Annotated[tuple[int, int], Rule(shape=(2,), exact=True, integer=True, minimum=2)]


@checked
@dataclass(frozen=True, kw_only=True)
class SmokeAppearance:
    """Look of smoke.

    Attributes:
        color: of dense smoke, linear rgb.
        opacity: smoke of density d hides 1 - exp(-opacity d) of the background [1].
    """

    color: Vector = (0.95, 0.95, 0.95)
    opacity: Number = 3.0


@checked
def add_smoke(
    scene: SceneSpec,
    name: str,
    *,
    cells: Cells,
    cell: Positive,
    obstacle: ObstacleMask = None,
    density: Array = 0.0,
    velocity: tuple[Array, Array] = (0.0, 0.0),
    source: Array = 0.0,
    buoyancy: Number = 0.0,
    viscosity: Number = 0.0,
    confinement: Number = 0.0,
    advection: Advection = "semi_lagrangian",
    appearance: SmokeAppearance = SmokeAppearance(),  # noqa: B008 (it is frozen)
) -> None:
    """Add smoke in a plane: a box of square cells with walls around it, which fills the picture.

    x points to the right and y up; arrays begin in the lower left corner. A scene with smoke has no bodies; only the image
    size of its camera is used.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        cells: X and Y, the number of cells along x and y.
        cell: side of a cell [m].
        obstacle: [X, Y] bool, cells that no smoke enters, or a function of the x and y [m] of the cell centres; None for none.
        density: at the start [1], a number or [X, Y].
        velocity: x and y components at the start [m/s], each a number or an array, at the faces across x [X + 1, Y] and across y
            [X, Y + 1]; their divergence is projected out.
        source: rate at which density is added [1/s], a number, [X, Y], or [frames, X, Y] for each frame interval.
        buoyancy: upward acceleration of smoke of density 1 [m/s2].
        viscosity: kinematic [m2/s].
        confinement: strength of vorticity confinement [1/s]: eps of the acceleration eps h (N x vorticity) in cells of side h.
        advection: "semi_lagrangian", "cubic" or "maccormack" (``SmokeSettings``).
        appearance: colour and opacity.

    Raises:
        UserError: a number or shape is invalid, or the scene has bodies or smoke already.
    """
    if scene.bodies or scene.deformables or scene.smoke is not None:
        raise UserError(f"{name} fills the picture: a scene with smoke has no bodies and no other smoke")
    check_name(name)
    if len(velocity) != 2:
        raise UserError(f"{name}.velocity has {len(velocity)} components: give two, along x and y")
    if callable(obstacle):
        obstacle = obstacle(*np.meshgrid(*((np.arange(count) + 0.5) * cell for count in cells), indexing="ij"))
    model = SmokeModel(cells, cell, obstacle)
    SmokeSettings(dt=scene.stepping.dt, substeps=scene.stepping.substeps, advection=advection)
    (cells_x, cells_y), (velocity_x, velocity_y) = model.cells, velocity
    shape = np.shape(source.value if isinstance(source, Param) else source)
    fields = {
        "density": (density, "", (cells_x, cells_y)), "velocity_x": (velocity_x, "m/s", (cells_x + 1, cells_y)),
        "velocity_y": (velocity_y, "m/s", (cells_x, cells_y + 1)),
        "source": (source, "1/s", shape if len(shape) == 3 else (cells_x, cells_y)), "buoyancy": (buoyancy, "m/s2", ()),
    }  # fmt: skip
    if len(shape) == 3 and shape[0] < scene.frames:
        raise UserError(f"{name}: the source has {shape[0]} frame intervals, and the film {scene.frames}: give one for each")
    table = ParameterTable(dict(scene.table.params))  # an error leaves the scene unchanged
    for key, (value, unit, field_shape) in fields.items():
        table.add(f"{name}.{key}", value, unit=unit, shape=field_shape)
    table.add(f"{name}.viscosity", viscosity, unit="m2/s", sign="not negative")
    table.add(f"{name}.confinement", confinement, unit="1/s", sign="not negative")
    table.add(f"{name}.color", appearance.color, unit="", shape=(3,), sign="color")
    table.add(f"{name}.opacity", appearance.opacity, unit="", sign="positive")
    scene.table.params.update(table.params)
    scene.table.signs.update(table.signs)
    scene.smoke = Smoke(name, model, advection)
