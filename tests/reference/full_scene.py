"""A film in which everything that a scene may have is in the picture at once: every light, texture, pattern and lens."""

import numpy as np

from risp_torch import (
    AmbientLight,
    Camera,
    Contact,
    DirectionalLight,
    EnvironmentLight,
    PictureStyle,
    PointLight,
    Scene,
    Start,
    Surface,
)
from ti_sim import Box, Sphere

CONTACT = Contact(stiffness=400.0, damping=0.1, friction_stiffness=0.5, friction=0.3)
BALL = Sphere(0.02, subdivisions=1)


def picture(height: int, width: int, seed: int) -> np.ndarray:
    """Random linear rgb [height, width, 3] between 0.1 and 0.9."""
    return np.random.default_rng(seed).uniform(0.1, 0.9, (height, width, 3))


def camera(size: int, name: str = "", eye: tuple[float, float, float] = (0.08, -0.25, 0.09)) -> Camera:
    """A camera with a distorting lens."""
    return Camera.look_at(
        eye=eye, target=(0.0, 0.0, 0.02), vertical_fov=34.0, width=size, height=size, near=0.05, far=1.0,
        distortion=(-0.12, 0.05, 0.004, -0.003, 0.01), name=name,
    )  # fmt: skip


FULL_STYLE = PictureStyle(shading="phong")


def make_full_scene(
    *, size: int = 12, pictures: bool = False, cameras: bool = True, style: PictureStyle = FULL_STYLE, **options: object
) -> Scene:
    """A textured box and a smooth ball above the ground.

    Args:
        size: of the square picture [pixels].
        pictures: whether ground and background are pictures instead of a checker and a gradient.
        cameras: whether there is a camera.
        style: of the Scene, as its other options.
    """
    softness = {"sigma": 1e-3, "gamma": 2e-3, "name": "full"}
    scene = Scene(frame_dt=5e-3, frames=4, substeps=10, style=style, **(softness | options))
    if pictures:
        scene.set_background(image=picture(3, 4, 1))
        scene.add_ground(contact=CONTACT, pattern="texture", texture=picture(5, 4, 2), cell=0.08, origin=(0.013, -0.021))
    else:
        scene.set_background(top=(0.5, 0.6, 0.9), bottom=(0.8, 0.7, 0.6))
        scene.add_ground(
            contact=CONTACT, color=(0.7, 0.3, 0.2), pattern="checker", second_color=(0.2, 0.3, 0.5), cell=0.06,
            origin=(0.013, 0.021),
        )  # fmt: skip
    material = {"specular": (0.3, 0.2, 0.25), "shininess": 8.0} if style.shading == "phong" else {}
    scene.add_rigid(
        "box", shape=Box(0.05, 0.04, 0.03), density=800.0,
        start=Start(
            position=(-0.02, 0.0, 0.025), orientation=(0.1, 0.15, 0.05, 1.0), velocity=(0.5, 0.1, -0.8),
            angular_velocity=(3.0, -2.0, 1.0),
        ),
        surface=Surface(texture=picture(6, 9, 3), wrap="clamp", color=(0.9, 0.8, 0.7), **material),
    )  # fmt: skip
    colors = np.random.default_rng(4).uniform(0.2, 0.9, (len(BALL.mesh().vertices), 3))
    scene.add_rigid(
        "ball", shape=BALL, density=600.0,
        start=Start(position=(0.035, -0.02, 0.03), velocity=(-0.1, 0.2, -0.3), angular_velocity=(1.0, 4.0, -2.0)),
        surface=Surface(vertex_colors=colors, smooth=True, **material),
    )  # fmt: skip
    if cameras:
        scene.add_camera(camera(size))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=(0.5, 0.45, 0.4)))
    scene.add_light(DirectionalLight(direction=(0.7, 0.3, -0.8), intensity=0.2, name="fill"))
    scene.add_light(PointLight(position=(0.05, -0.1, 0.15), intensity=(0.004, 0.005, 0.006)))
    coefficients = 0.15 * np.random.default_rng(5).standard_normal((9, 3))
    coefficients[0] = 0.6
    scene.add_light(EnvironmentLight(coefficients=coefficients))
    scene.add_light(AmbientLight(intensity=0.1))
    scene.set_shadows(center=(0.0, 0.0, 0.02), radius=0.12, resolution=16, sigma=4e-3, width=0.03)
    return scene
