"""A thrown body that is pushed in flight, lands and slides: density, contact, friction, initial velocity (gradSim's rigid task).

The known push off the centre of mass, after the third frame, makes the density identifiable: without it, density, stiffness,
damping and tangential damping could be scaled together without a change of the pictures. The tangential damping is high
enough that contacts slip, without which friction is not identifiable.
"""

from pathlib import Path

import numpy as np

from risp_torch import AmbientLight, Camera, Contact, DirectionalLight, Mesh, Param, Scene, Start, Surface

PEBBLE = Path(__file__).parent / "assets" / "pebble.obj"

EIGHT_COLORS = np.array(
    [
        (0.85, 0.12, 0.1), (0.1, 0.45, 0.75), (0.95, 0.75, 0.1), (0.12, 0.5, 0.2),
        (0.9, 0.9, 0.85), (0.5, 0.15, 0.6), (0.95, 0.45, 0.1), (0.15, 0.75, 0.75),
    ]
)  # fmt: skip


def octant_colors(mesh: Mesh) -> np.ndarray:
    """A colour for each face [F, 3] by the octant of its normal, which makes rotations visible."""
    corners = mesh.mesh().vertices[mesh.mesh().faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return EIGHT_COLORS[(normal > 0) @ np.array([1, 2, 4])]


def make_scene(
    mesh: str | None = None,
    scale: float = 1.0,
    density: float = 600.0,
    friction: float = 0.3,
    impulse: tuple[float, float, float] = (0.003, 0.009, 0.003),
    size: int = 128,
) -> Scene:
    """The thrown body.

    Args:
        mesh: path of a watertight mesh file; a pebble of 8 cm by default.
        scale: metres per unit of the file.
        density: kg/m3.
        friction: coefficient mu of the ground.
        impulse: of the push, world frame [N s].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=0.01, frames=35, substeps=50, gamma=2e-3, name="toss")
    scene.add_ground(
        contact=Contact(
            stiffness=Param(800.0, low=80.0, high=8000.0, scale="log10"),
            damping=Param(1.0, low=0.1, high=10.0, scale="log10"),
            friction_stiffness=Param(20.0, low=2.0, high=200.0, scale="log10"),
            friction=Param(friction, low=0.05, high=1.5, scale="log10"),
        ),
        color=(0.35, 0.33, 0.3),
    )
    shape = Mesh(PEBBLE if mesh is None else mesh, scale=scale)
    scene.add_rigid(
        "body",
        shape=shape,
        density=Param(density, low=100.0, high=4000.0, scale="log10"),
        start=Start(
            position=(-0.09, -0.02, 0.08),
            orientation=(0.1, 0.2, 0.05, 1.0),
            velocity=Param((0.8, 0.0, 0.0), low=-2.0, high=2.0),
            angular_velocity=(0.0, 2.0, 1.0),
        ),
        surface=Surface(face_colors=octant_colors(shape)),
    )
    scene.add_force("push", body="body", impulse=impulse, point=(0.004, -0.008, 0.012), start=0.03, duration=0.02)
    scene.add_camera(
        Camera.look_at(
            eye=(0.03, -0.62, 0.34), target=(0.0, 0.0, 0.03), vertical_fov=24.0, width=size, height=size, near=0.2, far=1.6
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.75))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene
