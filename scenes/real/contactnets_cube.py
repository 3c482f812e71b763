"""A cube of 10.5 cm that is tossed onto a table: ContactNets' 570 tosses (Pfrommer, Halm and Posa, 2020).

The scale of the measured poses is slightly too small, and a scene has a fixed geometry. Lengths of this scene are therefore in
units in which the nominal side of the cube is exact, and two numbers calibrate the unit: ``gravity`` determines its length, and
``poses.scale`` is the number of measured metres in one unit. With g = 9.81 m/s2, the real side is 9.81 / gravity times that of
the scene (``real_side``), and one real metre is measured as ``poses.scale`` gravity / 9.81 metres (``measured_metre``).

The corners of the collision shape are moved inwards by ``ROUNDING`` and are balls of radius ``ground.contact.radius``: rounded
corners, whose radius can be unknown.

A motion under contact and weight alone determines stiffness, damping and inertia only relative to the mass. The scene keeps the
published inertia, so that ``cube.mass`` determines their ratio (``inertia_ratio``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Mesh, Param, Scene, Start, Surface
from risp_torch.data import data_folder
from risp_torch.motions import Recording, Window

SIDE, INERTIA = 0.1048, 8.1e-4  # m, kg m2: of the published description
ROUNDING = 3e-3  # m, inward shift of the corners of the collision shape
RATE, GRAVITY = 148.0, 9.81  # Hz, m/s2
MEASURED_SIDE = 0.1024  # m, twice the measured height of the resting cube's centre
CONTACT_HEIGHT = 4e-3  # m: a corner below this height may be in contact
FLIGHT_NOISE, CONTACT_NOISE = 1e-4, 5e-4  # m, standard deviations of a coordinate before and after the first contact
COLORS = [(0.6, 0.05, 0.05), (0.75, 0.45, 0.1), (0.8, 0.75, 0.2), (0.2, 0.45, 0.2), (0.2, 0.3, 0.6), (0.8, 0.8, 0.78)]


def make_scene(
    frames: int = 100, substeps: int = 40, size: int = 128, radius: float = ROUNDING, bristle_stiffness: float = 0.0
) -> Scene:
    """The cube above a table.

    Args:
        frames: frame intervals at 148 Hz.
        substeps: physics steps in each frame interval.
        size: of the square picture [pixels].
        radius: of the balls about the corners [m].
        bristle_stiffness: of the friction [N/m]; 0 for friction that is viscous in sticking contact.
    """
    scene = Scene(
        frame_dt=1 / RATE, frames=frames, substeps=substeps, gamma=2e-3, name="contactnets_cube",
        gravity=Param(GRAVITY, low=7.0, high=13.0),
    )  # fmt: skip
    bristle = Param(bristle_stiffness, low=10.0, high=1e5, scale="log10") if bristle_stiffness else None
    scene.add_ground(
        contact=Contact(
            stiffness=Param(5e3, low=300.0, high=1e5, scale="log10"),
            damping=Param(60.0, low=3.0, high=1000.0, scale="log10"),
            friction_stiffness=Param(30.0, low=1.0, high=1000.0, scale="log10"),
            friction=Param(0.18, low=0.03, high=0.6, scale="log10"),
            bristle_stiffness=bristle,
            radius=Param(radius, low=0.0, high=0.01),
        ),
        color=(0.45, 0.42, 0.38),
    )
    corners = Box(SIDE, SIDE, SIDE).surface()
    collision_box = Box(SIDE - 2 * ROUNDING, SIDE - 2 * ROUNDING, SIDE - 2 * ROUNDING)
    scene.add_rigid(
        "cube",
        shape=Mesh(vertices=corners.vertices, faces=corners.faces, collision=collision_box),
        mass=Param(0.3, low=0.15, high=0.6, scale="log10"),
        inertia=INERTIA * np.eye(3),
        start=Start(
            position=(0.0, 0.0, 0.2), orientation=(0.2, 0.3, 0.1, 0.9), velocity=(0.8, 0.2, 0.0), angular_velocity=(0.0, 4.0, 0.0)
        ),
        surface=Surface(face_colors=np.repeat(COLORS, 2, axis=0)),
    )
    scene.add_number("poses.scale", Param(1.0, low=0.8, high=1.25))
    scene.add_camera(
        Camera.look_at(
            eye=(0.5, -0.9, 0.55), target=(0.05, 0.0, 0.06), vertical_fov=30.0, width=size, height=size, near=0.2, far=3.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def recordings() -> list[Recording]:
    """The 570 tosses, by name.

    Raises:
        UserError: the data set is not on this machine.
    """
    with np.load(data_folder("contactnets_cube") / "all570_si.npz", allow_pickle=False) as file:
        return [Recording(name, measured_poses(file[name])[:, None], 1 / RATE) for name in sorted(file)]


def measured_poses(rows: np.ndarray) -> np.ndarray:
    """Poses [T, 7] (m, quaternion x, y, z, w) of the data set's rows [T, 13] (position, quaternion w, x, y, z, velocities)."""
    quaternion = rows[:, [4, 5, 6, 3]]
    return np.concatenate([rows[:, :3], quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)], axis=1)


def real_side(values: Mapping[str, float]) -> float:
    """Side of the cube [m], balls included, from fitted values (``MotionFit.values``)."""
    return GRAVITY / values["gravity"] * (SIDE - 2 * ROUNDING + 2 * values["ground.contact.radius"])


def measured_metre(values: Mapping[str, float]) -> float:
    """Measured length of one metre [m]."""
    return values["poses.scale"] * values["gravity"] / GRAVITY


def inertia_ratio(values: Mapping[str, float]) -> float:
    """Inertia divided by mass and side squared: 1/6 for a solid cube, 5/18 for a hollow one."""
    side = SIDE - 2 * ROUNDING + 2 * values["ground.contact.radius"]
    return INERTIA / (values["cube.mass"] * side**2)


def lowest_corner(poses: np.ndarray) -> np.ndarray:
    """Height [T] m of the lowest corner of a cube of side ``MEASURED_SIDE``, for poses [T, 7]."""
    corners = 0.5 * MEASURED_SIDE * np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3), axis=-1).reshape(-1, 3)
    rotated_corners = np.einsum("tij,kj->tki", Rotation.from_quat(poses[:, 3:]).as_matrix(), corners)
    return poses[:, 2] + rotated_corners[..., 2].min(axis=1)


def with_contact_noise(window: Window) -> Window:
    """A window whose frames have a larger noise from the first contact on, as the model error of contact exceeds the pose noise.

    In free flight the model is exact, and so are the poses: residuals of a parabola are below 0.1 mm.
    """
    after_contact = np.maximum.accumulate(lowest_corner(window.body_q[:, 0]) < CONTACT_HEIGHT)
    return replace(window, noise=np.where(after_contact, CONTACT_NOISE, FLIGHT_NOISE))
