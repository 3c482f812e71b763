"""Bodies that touch: models of free links, their inputs and rollouts, shapes, and how deep cubes are in each other."""

import numpy as np

from tests.reference.articulated_adjoints import NAMES
from tests.reference.numpy_rigid import rotation
from ti_sim import Mesh, Shape, Sphere
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.contact.collision import CollisionShape, mesh_shape
from ti_sim.coupled.solver import CoupledRollout
from ti_sim.meshes.solid import SolidMesh
from ti_sim.rollout.adjoint import StoreAll

IDENTITY = (0.0, 0.0, 0.0, 1.0)
BALL = CollisionShape("sphere", (0.1,))
ROD = CollisionShape("capsule", (0.06, 0.12))
CRATE = CollisionShape("box", (0.12, 0.1, 0.08))
HALF = 0.02
CUBE = CollisionShape("box", (HALF, HALF, HALF))
FLOOR = CollisionShape("box", (0.5, 0.5, 0.1), position=(0.0, 0.0, -0.1))
COUPLED_FRAMES = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")


def bodies(*shapes: CollisionShape, kinds: tuple[str, ...] | None = None, **options: object) -> ArticulatedModel:
    """Links on the world, free ones unless other joints are named."""
    n = len(shapes)
    names, kinds = tuple(f"body {i}" for i in range(n)), kinds or ("free",) * n
    return ArticulatedModel(names, (-1,) * n, kinds, np.ones((n, 3)), collision_shape=shapes, **options)


def inputs_of(
    model: ArticulatedModel, q: np.ndarray, qd: np.ndarray, *, material: tuple, gravity: float = 0.0, frames: int = 1
) -> ArticulatedInputs:
    """Links of 1 kg and 0.004 kg m2 without springs, motors or other forces than gravity, joint frames at the origin."""
    n, d = model.link_count, model.velocity_count
    shapes = {field: (1, d) for field in NAMES} | {"action": (1, frames, d), "servo_target": (1, frames, d)}
    shapes |= {"joint_frame": (1, n, 7), "link_com": (1, n, 3), "link_wrench": (1, frames, n, 6)}
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    arrays["joint_q0"] = np.array(q, dtype=float).reshape(1, -1)
    arrays["joint_qd0"] = np.array(qd, dtype=float).reshape(1, -1)
    arrays["joint_frame"][..., 6] = 1
    arrays["joint_limit_low"] -= np.inf
    for name in ("joint_limit_high", "motor_limit"):
        arrays[name] += np.inf
    arrays["link_mass"] = np.ones((1, n))
    arrays["link_inertia"] = np.tile(0.004 * np.eye(3), (1, n, 1, 1))
    arrays["link_contact"] = np.tile(np.array(material, dtype=float), (1, n, 1))
    arrays["gravity"] = np.array([[0, 0, -gravity]])
    return ArticulatedInputs(**arrays)


def at(*position: float) -> list[float]:
    """Coordinates of a free body that is not turned."""
    return [*position, *IDENTITY]


def simulate(
    model: ArticulatedModel, inputs: ArticulatedInputs, dt: float, substeps: int, integrator: str = "semi_implicit"
) -> ArticulatedRollout:
    """A rollout over all frames, with states kept."""
    solver = ArticulatedSolver(model, ArticulatedSettings(dt, substeps, integrator))
    return solver.rollout(inputs, inputs.frame_count, adjoint=StoreAll())


def frames_of(rollout: CoupledRollout) -> dict[str, np.ndarray]:
    """Every array [B, T + 1, ...] of a coupled rollout at its frames."""
    return {name: getattr(rollout.links if name[0] != "p" else rollout.particles, name) for name in COUPLED_FRAMES}


def separating_axes(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit normals of faces and of pairs of edges of two cubes at poses [n, 7], and the reach of both along each, [n, 15, ...].

    The reach is infinite along normals of edges that are nearly parallel.
    """
    a, b = (np.swapaxes(rotation(q[:, 3:]), 1, 2) for q in (first, second))
    axes = np.concatenate([a, b, np.cross(a[:, :, None], b[:, None]).reshape(-1, 9, 3)], axis=1)
    length = np.linalg.norm(axes, axis=2)
    axes /= np.maximum(length, 1e-9)[..., None]
    reach = HALF * sum(np.abs(axes @ np.swapaxes(matrix, 1, 2)).sum(axis=2) for matrix in (a, b))
    return axes, np.where(length > 1e-3, reach, np.inf)


def depth_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How deep two cubes are in each other, along the best of 15 axes, [n], of their poses [n, 7]; negative while apart."""
    axes, reach = separating_axes(first, second)
    return (reach - np.abs(np.einsum("nak,nk->na", axes, second[:, :3] - first[:, :3]))).min(axis=1)


def distance_at_depth(first: np.ndarray, second: np.ndarray, direction: np.ndarray, depth: float) -> np.ndarray:
    """Distance [n, 1] along unit vectors [n, 3] at which the second cube is so deep in the first one, as ``depth_between``."""
    axes, reach = separating_axes(first, second)
    along = np.abs(np.einsum("nak,nk->na", axes, direction))
    return ((reach - depth) / np.maximum(along, 1e-12)).min(axis=1, keepdims=True)


def as_mesh(shape: Shape | SolidMesh, **options: object) -> Mesh:
    """The surface of a shape, as a mesh."""
    surface = shape.surface()
    return Mesh(vertices=surface.vertices, faces=surface.faces, **options)


def mesh_of(shape: Shape, **options: object) -> CollisionShape:
    """The surface of a shape, as a mesh of a link."""
    return mesh_shape(as_mesh(shape, **options))


PEBBLE = mesh_of(Sphere(0.12, subdivisions=1), field_cells=16)  # 42 vertices
