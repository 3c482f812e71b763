"""A double pendulum of DFKI that a hand-held camera films: two links of 0.3 and 0.2 m with motors (BSD-3-Clause).

Links, motors and friction are those of the published models (``MODELS``); sizes of shapes are read off the published meshes.
Angles are the log's: 0 hangs down, the second relative to the first, positive counter-clockwise in the picture.

Two things of the published model are approximated. The gear inertia gr^2 Ir is an armature of each joint; the model couples the
joints by it, too (-gr Ir off the diagonal of the mass matrix, 1.5 % of the second link's inertia). Friction is a bristle, not
arctan of the rate. The counter-handle beyond the pivot and the tapes are measured in the film: the meshes lack them.

Shapes are separate links, fixed to the two that move, so that an unknown centre of mass does not move them, and an unknown
length moves the elbow and the weight. They weigh 0.1 g each.
"""

from __future__ import annotations

import numpy as np

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    Cylinder,
    Fixed,
    LinkFrame,
    Mesh,
    Param,
    PictureStyle,
    Revolute,
    Scene,
    Sphere,
    Surface,
)

RATE = 29.97  # Hz, of the film
UPPER_LENGTH, LOWER_LENGTH = 0.3, 0.2  # m
GEAR_RATIO = 6.0
MODELS = {  # of the published identification: kg, m, kg m2 about the joint, N m s/rad, N m, kg m2 of a rotor
    "1.0": {"m": (0.608, 0.630), "r": (0.275, 0.166), "I": (0.05472, 0.02522), "b": (0.081, 0.0), "cf": (0.093, 0.186),
            "Ir": 6.0719e-5},
    "2.0": {"m": (0.5593806151, 0.6043459469), "r": (0.3, 0.1837768608), "I": (0.0534708103, 0.0239237453), "b": (0.001, 0.001),
            "cf": (0.093, 0.078), "Ir": 7.659297953e-5},
}  # fmt: skip
CROP = (0, 130, 607, 700)  # of the film as shown: x, y, width, height
FILM_SIZE = (607, 1080)  # pixels
PIXELS_PER_METRE = 525.0  # of the film as shown, in the plane of the first link
PIVOT_PIXEL = (313.0, 485.0)  # pixels of the film as shown, in its frame 63 (the camera is hand-held)
CAMERA_DISTANCE = 1.6  # m, of the camera from the first link's plane, from a phone's field of view and the scale
LINK_OFFSET = 0.0522  # m, offset of the second link towards the camera
DRY_STIFFNESS, DRY_DAMPING = 300.0, 3.0
METAL, BLACK, WEIGHT = (0.45, 0.42, 0.38), (0.015, 0.015, 0.015), (0.08, 0.075, 0.07)
AXIS = (0.0, -1.0, 0.0)  # towards the camera
SHAPE_MASS = 1e-4  # kg, negligible mass of a link that only carries a shape


def make_scene(
    frames: int = 60,
    substeps: int = 64,
    size: int = 152,
    angles: tuple[float, float] = (0.5, 0.3),
    model: str = "1.0",
    antialias: int = 1,
    rate: float = RATE,
) -> Scene:
    """The double pendulum in front of a plain wall, as in the film.

    Args:
        frames: frame intervals.
        substeps: physics steps in each frame interval.
        size: width of the picture [pixels]; its height is 175 / 152 of that.
        angles: of the first link from the vertical, of the second from the first [rad].
        model: the published numbers, "1.0" (from the drawing) or "2.0" (identified).
        antialias: samples along each side of a pixel.
        rate: frames per second, the film's by default [Hz].
    """
    scene = Scene(
        frame_dt=1 / rate, frames=frames, substeps=substeps, sigma=1e-5 * (152 / size) ** 2, gamma=1e-4,
        style=PictureStyle(antialias=antialias), name="double_pendulum_real",
    )  # fmt: skip
    published = MODELS[model]
    for k, (name, length) in enumerate((("upper", UPPER_LENGTH), ("lower", LOWER_LENGTH))):
        mass, offset = published["m"][k], published["r"][k]
        central_inertia = published["I"][k] - mass * offset**2
        scene.add_link(
            name,
            frame=LinkFrame(
                parent="upper" if k else None, at_tip=k > 0, position=(0.0, -LINK_OFFSET if k else 0.0, 0.0),
                center=Param((0.0, -0.008, -offset), low=(-0.02, -0.02, -0.35), high=(0.02, 0.02, -0.1)),
                length=Param(length, low=0.15, high=0.4), share=0.0,
            ),
            joint=Revolute(
                axis=AXIS, angle=Param(angles[k], low=-2 * np.pi, high=2 * np.pi), rate=Param(0.0, low=-25.0, high=25.0),
                damping=Param(published["b"][k], low=0.0, high=0.15),
                armature=Param(GEAR_RATIO**2 * published["Ir"], low=0.0, high=0.02),
                dry_friction=Param(published["cf"][k], low=0.0, high=0.3), dry_stiffness=DRY_STIFFNESS, dry_damping=DRY_DAMPING,
            ),
            shape=Sphere(radius=0.004, subdivisions=1), mass=Param(mass, low=0.4, high=0.8),
            inertia=Param(central_inertia * np.eye(3), low=0.0, high=0.03), surface=Surface(color=METAL),
        )  # fmt: skip
    add_shapes(scene)
    scene.add_motors("motors", joints=["upper", "lower"], actions=np.zeros((frames, 2)), limit=10.0)
    scene.add_camera(film_camera(size))
    scene.add_light(AmbientLight(intensity=1.0))
    scene.set_background((0.45, 0.43, 0.4))
    return scene


def film_camera(size: int) -> Camera:
    """The camera of the region ``CROP`` of the film, ``size`` pixels wide; the pivot is the origin; it looks along +y."""
    scale = size / CROP[2]
    film_centre = (0.5 * FILM_SIZE[0], 0.5 * FILM_SIZE[1])
    position = tuple(sign * (film_centre[k] - PIVOT_PIXEL[k]) / PIXELS_PER_METRE for k, sign in ((0, 1.0), (1, -1.0)))
    rotation = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    focal = PIXELS_PER_METRE * CAMERA_DISTANCE * scale
    return Camera(
        position=Param((position[0], -CAMERA_DISTANCE, position[1]), low=(-0.5, -6.0, -0.5), high=(0.5, -0.8, 0.5)),
        turn=Param((0.0, 0.0, 0.0), low=-0.2, high=0.2),
        rotation=rotation,
        focal=(focal, focal),
        center=((film_centre[0] - CROP[0]) * scale, (film_centre[1] - CROP[1]) * scale),
        width=size,
        height=round(size * CROP[3] / CROP[2] - 0.3),  # as in ``Cut``: whole pixels
        near=0.6 * CAMERA_DISTANCE,
        far=1.4 * CAMERA_DISTANCE,
    )


def add_shapes(scene: Scene) -> None:
    """Visible shapes of the links: strips with tapes and hubs, the elbow's motor, the weight at the tip."""
    strip = [
        (bar(0.03, 0.17, -0.27, 0.0, 0.017), METAL),
        (bar(0.034, 0.105, 0.052, -0.001, 0.019), BLACK),
        (bar(0.034, -0.078, -0.125, -0.001, 0.019), BLACK),
    ]
    elbow = [(disc(0.0485, 0.0, 0.046), BLACK)]
    forearm = [(bar(0.03, 0.0, -0.18, 0.0, 0.017), METAL), (disc(0.018, -0.006, 0.02), METAL)]
    weight = [(disc(0.0485, 0.016, 0.03), WEIGHT), (disc(0.033, 0.016, 0.034), BLACK)]
    for name, parent, parts, is_at_tip in (
        ("arm", "upper", strip, False), ("elbow", "upper", elbow, True), ("forearm", "lower", forearm, False),
        ("weight", "lower", weight, True),
    ):  # fmt: skip
        vertices, faces, colors = merge_parts(parts)
        mesh = Mesh(vertices=vertices, faces=faces)
        scene.add_link(
            name, frame=LinkFrame(parent=parent, at_tip=is_at_tip, center=mesh.solid().centre_of_mass), joint=Fixed(), shape=mesh,
            mass=SHAPE_MASS, inertia=1e-7 * np.eye(3), surface=Surface(face_colors=colors),
        )  # fmt: skip


def bar(width: float, top: float, bottom: float, back: float, front: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [8, 3] m and faces [12, 3] of a box about the link's middle line, from ``bottom`` to ``top`` (z).

    It extends from ``back`` to ``front`` (towards the camera).
    """
    mesh = Box(width, front - back, top - bottom).surface()
    return mesh.vertices + (0.0, -0.5 * (back + front), 0.5 * (top + bottom)), mesh.faces


def disc(radius: float, back: float, front: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] m and faces [F, 3] of a disc about the joint's axis, from ``back`` to ``front`` (towards the camera).

    Its 12 corners lie slightly outside of the circle, so that the areas are equal.
    """
    sections = 12
    outer_radius = radius * np.sqrt(2 * np.pi / (sections * np.sin(2 * np.pi / sections)))
    mesh = Cylinder(outer_radius, front - back, sections=sections).surface()
    x, y, z = mesh.vertices.T
    return np.stack([x, -z - 0.5 * (back + front), y], axis=1), mesh.faces


def merge_parts(
    parts: list[tuple[tuple[np.ndarray, np.ndarray], tuple[float, float, float]]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices [V, 3], faces [F, 3] and face colours [F, 3] of parts, each of one colour."""
    first_vertices = np.cumsum([0, *(len(vertices) for (vertices, _), _ in parts)])
    return (
        np.concatenate([vertices for (vertices, _), _ in parts]),
        np.concatenate([faces + first_vertex for ((_, faces), _), first_vertex in zip(parts, first_vertices, strict=False)]),
        np.concatenate([np.tile(color, (len(faces), 1)) for (_, faces), color in parts]),
    )
