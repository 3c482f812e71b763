"""A beam under gravity: how stiff is it, and how much does it thin where it is stretched?

A soft beam of 40 x 12 x 12 cm, clamped at one end, is released straight and swings down under its weight (after gradSim, ICLR
2021, section 4 and figure 4). The strain near the clamp is some 30 %, so that its deflection and frequency determine Young's
modulus, and the lateral contraction there Poisson's ratio. Its two halves may have different materials, the clamped one three
times as stiff, and then the stiffness of every element is unknown.
"""

import numpy as np

from risp_torch import AmbientLight, Camera, DirectionalLight, Elastic, Param, Scene, Surface
from ti_sim.meshes import SolidMesh, box_hexes

SIZE = (0.4, 0.12, 0.12)  # m
CELLS = (12, 4, 4)
TWO_PART_CELLS = (12, 3, 3)  # if every element has its own unknowns
STIFFNESS_RATIO = 3.0  # of the halves' stiffness
BLUE, WHITE = (0.1, 0.3, 0.6), (0.9, 0.9, 0.85)


def make_scene(E: float = 1e5, nu: float = 0.35, size: int = 128, parts: bool = False) -> Scene:
    """The beam.

    Args:
        E: Young's modulus, of a beam of two parts their geometric mean [Pa].
        nu: Poisson's ratio.
        size: of the square picture [pixels].
        parts: whether the half at the clamp is stiffer than the other; Lamé's constants of every element are then the unknowns.
    """
    cells, substeps = (TWO_PART_CELLS, 20) if parts else (CELLS, 50)
    scene = Scene(frame_dt=1 / 60, frames=30, substeps=substeps, gamma=1e-2, name="beam")
    mesh = box_hexes(SIZE, cells)
    if parts:
        material = two_parts(mesh, E, nu)
    else:
        material = Elastic(
            E=Param(E, low=3e4, high=6e5, scale="log10"), nu=Param(nu, low=0.05, high=0.45), damping=20.0,
        )  # fmt: skip
    # Bands one cell wide make the motion of the surface within its outline visible.
    node_column = np.rint((mesh.vertices[:, 0] / SIZE[0] + 0.5) * cells[0]).astype(int)
    scene.add_solid(
        "beam",
        mesh=mesh,
        material=material,
        density=1000.0,
        fixed=lambda x: x[:, 0] < -0.499 * SIZE[0],
        surface=Surface(vertex_colors=np.where(node_column[:, None] % 2, BLUE, WHITE)),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.1, -1.2, 0.12), target=(0.0, 0.0, -0.1), vertical_fov=26.0, width=size, height=size, near=0.4, far=2.5
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.3, 1.0, -0.8), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.7, 0.72, 0.75))
    return scene


def two_parts(mesh: SolidMesh, E: float, nu: float) -> Elastic:
    """A material with separate constants for each element: stiff where x < 0, soft elsewhere.

    Args:
        mesh: E elements.
        E: geometric mean of the parts' Young's moduli [Pa].
        nu: Poisson's ratio of both.
    """
    is_stiff = mesh.vertices[mesh.indices].mean(axis=1)[:, 0] < 0
    factor = np.where(is_stiff, np.sqrt(STIFFNESS_RATIO), 1 / np.sqrt(STIFFNESS_RATIO))
    mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
    return Elastic(
        mu=Param(mu * factor, low=0.12 * mu, high=8 * mu, scale="log10"),
        lam=Param(lam * factor, low=0.12 * lam, high=8 * lam, scale="log10"), damping=20.0,
    )  # fmt: skip
