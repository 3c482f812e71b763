"""A soft ball that bounces: how dense is it?

A ball of 20 cm is thrown at the ground, flattens and bounces (after gradSim, ICLR 2021, table 3). Its elasticity and that of
the contact are known: the heavier it is, the more it flattens, and the later it leaves the ground. In flight its density is not
observable.
"""

import numpy as np

from risp_torch import AmbientLight, Camera, Contact, DirectionalLight, Elastic, Param, Scene, Start, Surface
from ti_sim.meshes import sphere_tets

RADIUS = 0.1  # m
RED, WHITE = (0.75, 0.15, 0.1), (0.9, 0.88, 0.8)


def make_scene(density: float = 100.0, mu: float = 4e3, lam: float = 4e3, stiffness: float = 300.0, size: int = 128) -> Scene:
    """The ball.

    Args:
        density: kg/m3.
        mu, lam: constants of the stable neo-Hookean energy, in the convention of gradSim [Pa].
        stiffness: ke of the contact, of every point of the ball's surface [N/m].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=1 / 60, frames=36, substeps=40, gamma=1e-2, name="ball_soft")
    scene.add_ground(
        contact=Contact(
            stiffness=Param(stiffness, low=100.0, high=1000.0, scale="log10", frozen=True),
            damping=0.1,
            friction_stiffness=0.5,
            friction=0.5,
        ),  # fmt: skip
        color=(0.35, 0.36, 0.33),
    )
    mesh = sphere_tets(RADIUS)
    # Six sectors about the vertical, like a beach ball.
    sector = np.floor(np.arctan2(mesh.vertices[:, 1], mesh.vertices[:, 0]) * 3 / np.pi + 1e-6).astype(int)
    scene.add_solid(
        "ball",
        mesh=mesh,
        material=Elastic(
            mu=Param(mu, low=1e3, high=2e4, scale="log10", frozen=True),
            lam=Param(lam, low=1e3, high=2e4, scale="log10", frozen=True),
            convention="energy",
            damping=1.0,
        ),  # fmt: skip
        density=Param(density, low=30.0, high=400.0, scale="log10"),
        start=Start(position=(-0.25, 0.0, 0.4), velocity=(1.0, 0.0, -0.5)),
        surface=Surface(vertex_colors=np.where(sector[:, None] % 2, RED, WHITE), smooth=True),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.05, -1.4, 0.45), target=(0.05, 0.0, 0.2), vertical_fov=36.0, width=size, height=size, near=0.4, far=3.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    return scene
