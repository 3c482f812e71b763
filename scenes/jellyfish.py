"""A jellyfish that learns to swim: when must the muscles of its bell pull?

A bell of cloth with six tentacles floats in still water, without weight (after gradSim, ICLR 2021, section 4.2). Every inner edge of the
bell has a muscle that folds it; the lift and drag that the water gives to each triangle, at right angles to its flow and against it, are all
that it can push on.
"""

import math

import numpy as np

from risp_torch import Air, AmbientLight, Bending, Camera, DirectionalLight, Membrane, Scene, Surface
from ti_sim.deformable.bending import bending_edges
from ti_sim.meshes import SheetMesh, sheet_disk

RADIUS = 0.5  # of the sphere of which the bell is a cap [m]
OPENING = math.radians(75.0)  # from the cap's pole to its rim
RINGS = 5
TENTACLE = 0.42  # length [m]
FRAMES = 60
PINK, ROSE, CREAM = (0.85, 0.35, 0.5), (0.6, 0.12, 0.35), (0.95, 0.8, 0.75)


def make_scene(controls: int = 1, size: int = 128) -> Scene:
    """The jellyfish.

    Args:
        controls: rows of its muscles' actuation in a frame.
        size: of the square picture [pixels].
    """
    scene = Scene(
        frame_dt=1 / 30, frames=FRAMES, substeps=32, gravity=0.0, controls=controls, two_sided=True, gamma=1e-2, name="jellyfish"
    )
    mesh = jellyfish_mesh()
    edges = bending_edges(mesh.triangles)
    bell = 1 + 3 * RINGS * (RINGS + 1)  # its vertices
    muscular = (edges < bell).all(axis=1)
    scene.add_cloth(
        "jellyfish",
        mesh=mesh,
        material=Membrane(mu=2e3, lam=3e3, damping=10.0),
        bending=Bending(
            stiffness=np.where(muscular, 20.0, 0.2), damping=np.where(muscular, 0.3, 0.01),
            actuation=np.zeros((FRAMES * controls, len(edges))),
        ),  # fmt: skip
        air=Air(drag=200.0, lift=500.0),
        density=50.0,
        surface=Surface(vertex_colors=_colors(mesh), smooth=True),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -6.0, 0.2), target=(0.0, 0.0, 0.5), vertical_fov=30.0, width=size, height=size, near=3.0, far=12.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.35))
    scene.set_background((0.03, 0.1, 0.2))
    return scene


def jellyfish_mesh(tentacles: int = 6, joints: int = 3) -> SheetMesh:
    """A cap of a sphere, open below, its pole at (0, 0, RADIUS), with strips that hang from edges of its rim.

    Args:
        tentacles: strips; a divisor of the rim's edges.
        joints: rectangles of a strip; a triangle is its end.

    Returns:
        ``6 RINGS^2 + tentacles (2 joints + 1)`` triangles.
    """
    disk = sheet_disk(1.0, RINGS)
    distance = np.linalg.norm(disk.vertices[:, :2], axis=1)
    polar = OPENING * distance
    stretch = np.sin(polar) / np.maximum(distance, 1e-12)
    vertices = RADIUS * np.concatenate([stretch[:, None] * disk.vertices[:, :2], np.cos(polar)[:, None]], axis=1)
    points, triangles = [vertices], [disk.triangles]
    first, rim, count = len(vertices) - 6 * RINGS, 6 * RINGS, len(vertices)
    for tentacle in range(tentacles):
        start = tentacle * rim // tentacles
        ends = [first + start, first + (start + 1) % rim]
        strip, used = _strip(vertices[ends], joints)
        number = np.array(ends + list(range(count, count + len(used))))
        points.append(used)
        triangles.append(number[strip])
        count += len(used)
    return SheetMesh(np.concatenate(points), np.concatenate(triangles), name="jellyfish")


def _strip(root: np.ndarray, joints: int) -> tuple[np.ndarray, np.ndarray]:
    """A strip that hangs from an edge: triangles [2 joints + 1, 3], which count from the edge's ends, and its own points.

    Args:
        root: [2, 3] ends of the edge, counter-clockwise along the rim seen from above [m].
        joints: rectangles.
    """
    across, middle = root[1] - root[0], root.mean(axis=0)
    down = np.array([0.0, 0.0, -TENTACLE / (joints + 1)])
    points, triangles = [], []
    for k in range(joints):
        width = 0.5 * (1 - 0.15 * (k + 1)) * across
        points += [middle + (k + 1) * down - width, middle + (k + 1) * down + width]
        a, b, c, d = 2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3
        triangles += [(a, c, b), (b, c, d)]
    points.append(middle + (joints + 1) * down)
    triangles.append((2 * joints, 2 * joints + 2, 2 * joints + 1))
    return np.array(triangles), np.array(points)


def _colors(mesh: SheetMesh) -> np.ndarray:
    """[V, 3] twelve stripes from the pole to the rim, and pale tentacles."""
    sector = np.floor(np.arctan2(mesh.vertices[:, 1], mesh.vertices[:, 0]) * 6 / np.pi + 1e-6).astype(int)
    striped = np.where(sector[:, None] % 2, PINK, ROSE)
    return np.where(np.arange(len(mesh.vertices))[:, None] < 1 + 3 * RINGS * (RINGS + 1), striped, CREAM)
