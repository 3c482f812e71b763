"""A jellyfish that swims up to the position in a picture.

A bell of cloth with six tentacles floats weightlessly in still water. A network controls it: eight sine waves, a linear layer and
tanh determine for every frame the rest angle of each inner edge of the cloth (after gradSim, ICLR 2021, section 4.2 and appendix
E); edges that are equivalent under a rotation by 60 degrees have the same actuation. The only external forces are lift and drag
of the water on every triangle. The goal is a picture of the jellyfish farther up.
"""

import math

import numpy as np

from risp_torch import Actuation, Air, AmbientLight, Bending, Camera, DirectionalLight, PictureStyle, Scene, Shell, Surface
from risp_torch.control import ControlTask, Goal, SinePolicy, control_times
from ti_sim import bending_edges
from ti_sim.meshes import SheetMesh, sheet_disk

RADIUS = 0.5  # m, of the sphere; the bell is its cap
OPENING = math.radians(75.0)  # from the cap's pole to its rim
RINGS = 5
BELL_VERTICES = 1 + 3 * RINGS * (RINGS + 1)  # number of vertices of the bell, the first of the mesh
TENTACLE_LENGTH = 0.42  # m, length
MAX_ACTUATION = 0.15 * math.pi  # rad: an edge changes its rest angle by twice the actuation
HEIGHT = RADIUS * (1 - math.cos(OPENING)) + TENTACLE_LENGTH  # m, at rest, tentacles included
PINK, ROSE, CREAM = (0.85, 0.35, 0.5), (0.6, 0.12, 0.35), (0.95, 0.8, 0.75)


def make_scene(frames: int = 90, controls: int = 1, size: int = 128) -> Scene:
    """The jellyfish.

    Args:
        frames: frame intervals of 1/30 s.
        controls: rows of its edges' actuation in a frame, a divisor of 64.
        size: of the square picture [pixels].
    """
    scene = Scene(
        frame_dt=1 / 30, frames=frames, substeps=64, gravity=0.0, controls=controls, style=PictureStyle(two_sided=True),
        gamma=1e-2, name="jellyfish",
    )  # fmt: skip
    mesh = jellyfish_mesh()
    edges = bending_edges(mesh.triangles)
    # All edges are actuated, but those of the tentacles are too weak to have an effect.
    groups = edge_groups(mesh, edges)
    relative_stiffness = np.where((edges < BELL_VERTICES).all(axis=1), 1.0, 0.01)
    scene.add_cloth(
        "jellyfish",
        mesh=mesh,
        material=Shell(
            mu=2e3,
            lam=3e3,
            damping=20.0,
            bending=Bending(
                stiffness=10.0 * relative_stiffness,
                damping=np.where(relative_stiffness == 1, 1.0, 0.05),
                actuation=Actuation(values=np.zeros((frames * controls, groups.max() + 1)), groups=groups),
            ),
            air=Air(drag=500.0, lift=500.0),
        ),
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
    """Eight sine waves drive the edges; the goals are the jellyfish at rest at increasing heights."""
    groups = scene.table["jellyfish.bending.actuation"].value.shape[1]
    return ControlTask(
        controlled_parameter="jellyfish.bending.actuation",
        policy=lambda scene, seed: SinePolicy(
            groups, signals=8, frequency=3 * math.pi, limit=MAX_ACTUATION, times=control_times(scene), fade=0.5, seed=seed
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
    """[M] equivalence class of each edge under rotations by 60 degrees and the mirror planes between tentacles."""
    x, y, z = mesh.vertices[edges[:, 2:]].mean(axis=1).T
    sector = np.abs((np.arctan2(y, x) / (math.pi / 3)) % 1.0 - 0.5)
    orbit_coordinates = np.stack([z, np.hypot(x, y), sector], axis=1).round(6)
    return np.unique(orbit_coordinates, axis=0, return_inverse=True)[1].ravel()


def jellyfish_mesh(tentacles: int = 6, joints: int = 3) -> SheetMesh:
    """A cap of a sphere, open below, its pole at (0, 0, RADIUS), with strips that hang from edges of its rim.

    Args:
        tentacles: number of strips; a divisor of the rim's edges.
        joints: rectangles of a strip, which ends with a triangle.

    Returns:
        ``6 RINGS^2 + tentacles (2 joints + 1)`` triangles.
    """
    disk = sheet_disk(1.0, RINGS)
    distance = np.linalg.norm(disk.vertices[:, :2], axis=1)
    polar = OPENING * distance
    radial_scale = np.sin(polar) / np.maximum(distance, 1e-12)
    vertices = RADIUS * np.concatenate([radial_scale[:, None] * disk.vertices[:, :2], np.cos(polar)[:, None]], axis=1)
    points, triangles = [vertices], [disk.triangles]
    first_rim_vertex, rim_vertices, vertex_count = len(vertices) - 6 * RINGS, 6 * RINGS, len(vertices)
    for tentacle in range(tentacles):
        rim_index = tentacle * rim_vertices // tentacles
        edge_ends = [first_rim_vertex + rim_index, first_rim_vertex + (rim_index + 1) % rim_vertices]
        strip_triangles, new_points = _strip(vertices[edge_ends], joints)
        vertex_numbers = np.array(edge_ends + list(range(vertex_count, vertex_count + len(new_points))))
        points.append(new_points)
        triangles.append(vertex_numbers[strip_triangles])
        vertex_count += len(new_points)
    return SheetMesh(np.concatenate(points), np.concatenate(triangles), name="jellyfish")


def _strip(root: np.ndarray, joints: int) -> tuple[np.ndarray, np.ndarray]:
    """A strip that hangs from an edge: triangles [2 joints + 1, 3], whose indices 0 and 1 are the ends of the edge, and new
    points.

    Args:
        root: [2, 3] ends of the edge, counter-clockwise along the rim seen from above [m].
        joints: rectangles.
    """
    edge_vector, edge_centre = root[1] - root[0], root.mean(axis=0)
    step_down = np.array([0.0, 0.0, -TENTACLE_LENGTH / (joints + 1)])
    points, triangles = [], []
    for k in range(joints):
        half_width = 0.5 * (1 - 0.15 * (k + 1)) * edge_vector
        points += [edge_centre + (k + 1) * step_down - half_width, edge_centre + (k + 1) * step_down + half_width]
        a, b, c, d = 2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3
        triangles += [(a, c, b), (b, c, d)]
    points.append(edge_centre + (joints + 1) * step_down)
    triangles.append((2 * joints, 2 * joints + 2, 2 * joints + 1))
    return np.array(triangles), np.array(points)


def _colors(mesh: SheetMesh) -> np.ndarray:
    """Linear rgb [V, 3]: stripes from the pole to the rim, and pale tentacles."""
    x, y, _ = mesh.vertices.T
    sector = np.floor(np.arctan2(y, x) * 6 / np.pi + 1e-6).astype(int)
    stripe_colors = np.where(sector[:, None] % 2, PINK, ROSE)
    return np.where(np.arange(len(mesh.vertices))[:, None] < BELL_VERTICES, stripe_colors, CREAM)
