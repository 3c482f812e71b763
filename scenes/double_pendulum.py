"""A double pendulum: how long are its two rods, and at which angles were they released?

Two balls on light rods swing in the plane of the picture for half a second, short enough for the loss to have one minimum.
"""

import math

from risp_torch import AmbientLight, Camera, DirectionalLight, LinkFrame, Param, Revolute, Scene, Sphere, Surface

PIVOT_HEIGHT = 0.45  # m, height


def make_scene(
    upper: float = 0.4, lower: float = 0.3, upper_angle: float = 1.0, lower_angle: float = 0.6, size: int = 128
) -> Scene:
    """The double pendulum.

    Args:
        upper, lower: lengths of the rods [m].
        upper_angle: of the upper rod from the vertical [rad], towards +x.
        lower_angle: of the lower rod from the upper one [rad].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=1.0 / 60.0, frames=29, substeps=32, name="double_pendulum")
    rods = (("upper", upper, upper_angle, 0.09, (0.85, 0.25, 0.1)), ("lower", lower, lower_angle, 0.08, (0.1, 0.3, 0.8)))
    for k, (name, length, angle, radius, color) in enumerate(rods):
        scene.add_link(
            name,
            frame=LinkFrame(
                parent="upper" if k else None, at_tip=k > 0, position=(0.0, 0.0, 0.0 if k else PIVOT_HEIGHT),
                length=Param(length, low=0.15, high=0.7),
            ),
            joint=Revolute(axis=(0.0, -1.0, 0.0), angle=Param(angle, low=-math.pi / 2, high=math.pi / 2)),
            shape=Sphere(radius=radius), mass=0.5, surface=Surface(color=color),
        )  # fmt: skip
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -3.2, 0.0), target=(0.0, 0.0, 0.0), vertical_fov=32.0, width=size, height=size, near=1.0, far=5.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.75, 0.78, 0.8))
    return scene
