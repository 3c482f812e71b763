"""A jellyfish that swims up to where a picture shows it.

A bell of cloth with six tentacles floats in still water and has no weight. A network drives it: eight sine waves, a linear layer
and tanh say at every frame how far each inner edge of the cloth tries to fold (after gradSim, ICLR 2021, section 4.2 and appendix
E); edges that a turn by a sixth takes to one another do the same. It can push on nothing but the water, which gives lift and
drag to every triangle. The goal is a picture of the jellyfish farther up.
"""

import math

import numpy as np

from risp_torch import Air, AmbientLight, Bending, Camera, DirectionalLight, Membrane, Scene, Surface
from risp_torch.control import ControlTask, Goal, SinePolicy, control_times
from ti_sim import bending_edges
from ti_sim.meshes import SheetMesh, sheet_disk

RADIUS = 0.5  # m, of the sphere of which the bell is a cap
OPENING = math.radians(75.0)  # from the cap's pole to its rim
RINGS = 5
BELL = 1 + 3 * RINGS * (RINGS + 1)  # vertices of the bell, the first ones
TENTACLE = 0.42  # m, length
FOLD = 0.15 * math.pi  # rad, largest actuation: an edge tries to change its angle by twice as much
HEIGHT = RADIUS * (1 - math.cos(OPENING)) + TENTACLE  # m, of the whole at rest
PINK, ROSE, CREAM = (0.85, 0.35, 0.5), (0.6, 0.12, 0.35), (0.95, 0.8, 0.75)


def make_scene(frames: int = 90, controls: int = 1, size: int = 128) -> Scene:
    """The jellyfish.

    Args:
        frames: frame intervals of 1/30 s.
        controls: rows of its edges' actuation in a frame, a divisor of 64.
        size: of the square picture [pixels].
    """
    scene = Scene(
        frame_dt=1 / 30, frames=frames, substeps=64, gravity=0.0, controls=controls, two_sided=True, gamma=1e-2,
        name="jellyfish",
    )  # fmt: skip
    mesh = jellyfish_mesh()
    edges = bending_edges(mesh.triangles)
    # All edges are driven, but those of the tentacles are too weak to do anything.
    groups = edge_groups(mesh, edges)
    strength = np.where((edges < BELL).all(axis=1), 1.0, 0.01)
    scene.add_cloth(
        "jellyfish",
        mesh=mesh,
        material=Membrane(mu=2e3, lam=3e3, damping=20.0),
        bending=Bending(
            stiffness=10.0 * strength, damping=np.where(strength == 1, 1.0, 0.05),
            actuation=np.zeros((frames * controls, groups.max() + 1)), actuation_groups=groups,
        ),  # fmt: skip
        air=Air(drag=500.0, lift=500.0),
        density=100.0,
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


def make_control(scene: Scene) -> ControlTask:
    """Eight sine waves drive the edges; the goals are the jellyfish at rest, farther and farther up."""
    groups = scene.table["jellyfish.bending.actuation"].value.shape[1]
    return ControlTask(
        drives="jellyfish.bending.actuation",
        policy=lambda scene, seed: SinePolicy(
            groups, signals=8, frequency=3 * math.pi, limit=FOLD, times=control_times(scene), fade=0.5, seed=seed
        ),
        goal=goal,
        size=HEIGHT,
        measure="along",
        direction=(0.0, 0.0, 1.0),
        blur=(2.0, 8.0, 24.0),
        learning_rate=0.03,
        iterations=30,
        checkpoint=1,
    )


def goal(scene: Scene, number: int) -> Goal:
    """The jellyfish at rest a quarter of its height farther up, and a sixteenth more for each number."""
    heights = 0.25 + 0.0625 * number
    placement = scene.deformables[0].rest + (0.0, 0.0, heights * HEIGHT)
    return Goal(placement[None], f"{heights:g} of its heights up")


def edge_groups(mesh: SheetMesh, edges: np.ndarray) -> np.ndarray:
    """[M] edges that a turn by a sixth, or a mirror between two tentacles, takes to one another have the same number."""
    x, y, z = mesh.vertices[edges[:, 2:]].mean(axis=1).T
    sector = np.abs((np.arctan2(y, x) / (math.pi / 3)) % 1.0 - 0.5)
    places = np.stack([z, np.hypot(x, y), sector], axis=1).round(6)
    return np.unique(places, axis=0, return_inverse=True)[1].ravel()


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
    """Linear rgb [V, 3]: stripes from the pole to the rim, and pale tentacles."""
    x, y, _ = mesh.vertices.T
    sector = np.floor(np.arctan2(y, x) * 6 / np.pi + 1e-6).astype(int)
    striped = np.where(sector[:, None] % 2, PINK, ROSE)
    return np.where(np.arange(len(mesh.vertices))[:, None] < BELL, striped, CREAM)
