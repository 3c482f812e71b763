"""Smoke in a box: bands of it rise and are wound up by four vortices (gradSim's smoke task); buoyancy, viscosity, the flow.

Viscosity shows by how soon the vortices, of half the box's side, lose their speed; buoyancy by how fast the bands rise.
Advection is cubic: the plain one blurs the bands as a viscosity would.
"""

import numpy as np

from risp_torch import Camera, Param, Scene


def make_scene(
    cells: int = 64,
    buoyancy: float = 0.5,
    viscosity: float = 2e-3,
    speed: float = 0.4,
    advection: str = "cubic",
    frames: int = 45,
    size: int = 128,
) -> Scene:
    """The box of one metre.

    Args:
        cells: along each side.
        buoyancy: upward acceleration of smoke of density 1, above 0 [m/s2].
        viscosity: kinematic, above 0 [m2/s].
        speed: largest of the vortices at the start [m/s].
        advection: "cubic", "maccormack" or "semi_lagrangian".
        frames: frame intervals of 1/30 s.
        size: of the square picture [pixels].
    """
    cell = 1 / cells
    # An explicit step of viscosity is stable up to a quarter of the squared side of a cell; bounds are five times the default.
    substeps = max(2, int(np.ceil(5 * viscosity / 30 / (0.24 * cell**2))))
    scene = Scene(frame_dt=1 / 30, frames=frames, substeps=substeps, name="smoke")
    edges = np.sin(2 * np.pi * np.linspace(0, 1, cells + 1))
    stream = speed / (2 * np.pi) * edges[:, None] * edges[None]
    middles = (np.arange(cells) + 0.5) * cell
    bands = 0.5 + 0.5 * np.cos(2 * np.pi * 4 * middles)
    bounds = {"low": 0.2, "high": 5.0}
    scene.add_smoke(
        "smoke", cells=(cells, cells), cell=cell, density=np.tile(bands * (middles < 0.75), (cells, 1)),
        velocity_x=np.diff(stream, axis=1) / cell, velocity_y=-np.diff(stream, axis=0) / cell,
        buoyancy=Param(buoyancy, **{key: factor * buoyancy for key, factor in bounds.items()}, scale="log10"),
        viscosity=Param(viscosity, **{key: factor * viscosity for key, factor in bounds.items()}, scale="log10"),
        advection=advection,
    )  # fmt: skip
    scene.set_background(color=(0.05, 0.06, 0.08))
    scene.add_camera(
        Camera.look_at(
            eye=(0.5, 0.5, 2.0), target=(0.5, 0.5, 0.0), up=(0.0, 1.0, 0.0), vertical_fov=28.0, width=size, height=size,
            near=0.1, far=5.0,
        )
    )  # fmt: skip
    return scene
