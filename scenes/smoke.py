"""Smoke in a box: bands rise and are stirred by four vortices (gradSim's smoke task); unknown buoyancy, viscosity and flow.

The decay of the vortices, of half the box's side, determines the viscosity, and the speed of the bands the buoyancy. Advection
is cubic: linear interpolation blurs the bands like a viscosity.
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
        speed: initial maximum in the vortices [m/s].
        advection: "cubic", "maccormack" or "semi_lagrangian".
        frames: frame intervals of 1/30 s.
        size: of the square picture [pixels].
    """
    cell = 1 / cells
    # An explicit step of viscosity is stable up to a quarter of the squared side of a cell; the upper bound is five times the
    # default.
    substeps = max(2, int(np.ceil(5 * viscosity / 30 / (0.24 * cell**2))))
    scene = Scene(frame_dt=1 / 30, frames=frames, substeps=substeps, name="smoke")
    node_sines = np.sin(2 * np.pi * np.linspace(0, 1, cells + 1))
    stream_function = speed / (2 * np.pi) * node_sines[:, None] * node_sines[None]
    cell_centres = (np.arange(cells) + 0.5) * cell
    bands = 0.5 + 0.5 * np.cos(2 * np.pi * 4 * cell_centres)
    bound_factors = {"low": 0.2, "high": 5.0}
    scene.add_smoke(
        "smoke", cells=(cells, cells), cell=cell, density=np.tile(bands * (cell_centres < 0.75), (cells, 1)),
        velocity=(np.diff(stream_function, axis=1) / cell, -np.diff(stream_function, axis=0) / cell),
        buoyancy=Param(buoyancy, **{key: factor * buoyancy for key, factor in bound_factors.items()}, scale="log10"),
        viscosity=Param(viscosity, **{key: factor * viscosity for key, factor in bound_factors.items()}, scale="log10"),
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
