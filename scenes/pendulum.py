"""A pendulum: how long is it, how strong is gravity, how large is the damping of its joint, at which angle was it released?

A ball on a light rod swings in the plane of the picture. The motion depends on the quotient of gravity and length, but the
length is visible: each of the four numbers is identifiable if the others are known.
"""

import math

from risp_torch import AmbientLight, Camera, DirectionalLight, LinkFrame, Param, Revolute, Scene, Sphere, Surface

BALL_RADIUS = 0.09  # m, radius
PIVOT_HEIGHT = 0.4  # m, height


def make_scene(length: float = 0.5, gravity: float = 9.81, damping: float = 0.02, angle: float = 0.9, size: int = 128) -> Scene:
    """The pendulum.

    Args:
        length: from the pivot to the middle of the ball [m].
        gravity: its strength [m/s2].
        damping: of the joint [N m s/rad].
        angle: from the vertical at the start [rad], towards +x.
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=0.025, frames=60, substeps=10, gravity=Param(gravity, low=3.0, high=20.0), name="pendulum")
    scene.add_link(
        "pendulum",
        joint=Revolute(
            axis=(0.0, -1.0, 0.0),
            angle=Param(angle, low=-math.pi / 2, high=math.pi / 2),
            damping=Param(damping, low=0.002, high=0.2, scale="log10"),
        ),
        shape=Sphere(radius=BALL_RADIUS),
        mass=0.5,
        frame=LinkFrame(position=(0.0, 0.0, PIVOT_HEIGHT), length=Param(length, low=0.2, high=0.8)),
        surface=Surface(color=(0.85, 0.25, 0.1)),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -3.0, 0.0), target=(0.0, 0.0, 0.0), vertical_fov=28.0, width=size, height=size, near=1.0, far=5.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.75, 0.78, 0.8))
    return scene
