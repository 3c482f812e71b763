"""Tosses simulated by PyBullet, whose contact differs: the simulator of the paper's black box.

Objects are the convex hulls of their meshes, since Bullet has no moving bodies that are not convex; mass, inertia, start, push
and friction are those of the toss. Here each vertex that touches has a spring; Bullet keeps four contact points at most, which
share the springs and dampers of half of the vertices. Bullet has no friction stiffness.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from risp_torch import Scene, UserError
from studies.gradsim.tosses import MASS, RANGES, Toss, shaped

FRICTION, STIFFNESS, DAMPING = (f"ground.contact.{number}" for number in ("friction", "stiffness", "damping"))
STEP = 1 / 240  # s, PyBullet's own
RIGID = 1e12  # N/m, of the ground
MANIFOLD = 4  # contact points that Bullet keeps of a pair: half of the vertices share them, of a box all that touch


def bullet_films(scene: Scene, toss: Toss, values: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Films [samples, T, H, W, 3] of a toss by PyBullet, in this engine's pictures, and which are finite [samples].

    Args:
        scene: of the toss, for its pictures and frames.
        toss: the toss.
        values: name of each number -> [samples], in place of the toss's.

    Raises:
        UserError: PyBullet is not installed.
    """
    count = len(next(iter(values.values())))
    draws = [toss.with_values({name: float(row[k]) for name, row in values.items()}) for k in range(count)]
    poses = np.stack([bullet_poses(draw, frames=scene.frames) for draw in draws])
    with torch.no_grad():
        films = scene.render(torch.as_tensor(np.nan_to_num(poses)[:, :, None], dtype=torch.float32))
    return films, torch.as_tensor(np.isfinite(poses).all(axis=(1, 2)))


def bullet_poses(toss: Toss, *, frames: int) -> np.ndarray:
    """Positions of the centre of mass and quaternions (x, y, z, w) of a toss by PyBullet, [frames + 1, 7] (m).

    Raises:
        UserError: PyBullet is not installed.
    """
    client = _client()
    client.resetSimulation()
    return _simulated(client, toss, frames)


@cache
def _client() -> Any:
    """One for the process: each connection takes memory and prints a line."""
    try:
        import pybullet
        from pybullet_utils.bullet_client import BulletClient
    except ImportError:
        raise UserError("PyBullet is not installed: pip install -e '.[baselines]'") from None
    client = BulletClient(pybullet.DIRECT)
    atexit.register(lambda: client.disconnect())  # the attribute alone would disconnect
    return client


def _simulated(client: Any, toss: Toss, frames: int) -> np.ndarray:
    ranges, mesh = RANGES[toss.units], shaped(toss.shape, toss.sides)
    substeps = max(1, round(ranges.frame_dt / STEP))
    client.setPhysicsEngineParameter(fixedTimeStep=ranges.frame_dt / substeps)
    client.setGravity(0, 0, -9.81)
    ground = client.createMultiBody(0, client.createCollisionShape(client.GEOM_PLANE))
    body = _body(client, toss, mesh)
    # The friction of a pair is the product, its damping the sum, its compliance too.
    client.changeDynamics(ground, -1, lateralFriction=1.0, contactStiffness=RIGID, contactDamping=0.0)
    share = len(mesh.mesh().vertices) / 2 / MANIFOLD
    client.changeDynamics(
        body, -1, lateralFriction=toss.values[FRICTION], contactStiffness=share * toss.values[STIFFNESS],
        contactDamping=share * toss.values[DAMPING], linearDamping=0, angularDamping=0,
    )  # fmt: skip
    axes = _principal_axes(mesh)
    poses = [_pose(client, body, axes)]
    for frame in range(frames):
        for _ in range(substeps):
            if 3 <= frame < 6:
                position, turn = np.split(_pose(client, body, axes), [3])
                point = position + _matrix(client, turn) @ np.array(toss.point)
                force = np.array(toss.impulse) / (3 * ranges.frame_dt)
                client.applyExternalForce(body, -1, force.tolist(), point.tolist(), client.WORLD_FRAME)
            client.stepSimulation()
        poses.append(_pose(client, body, axes))
    return np.array(poses)


def _body(client: Any, toss: Toss, mesh: Any) -> int:
    """The object in its principal axes, as Bullet wants it."""
    solid, axes = mesh.solid(), _principal_axes(mesh)
    vertices = mesh.mesh().vertices @ axes
    hull = client.createCollisionShape(client.GEOM_MESH, vertices=vertices.tolist())
    turn = _quaternion(_matrix(client, np.array(toss.orientation)) @ axes)
    density = toss.values[MASS]
    body = client.createMultiBody(density * solid.volume, hull, basePosition=toss.position, baseOrientation=turn)
    inertia = np.diag(axes.T @ solid.inertia_per_density @ axes) * density
    client.changeDynamics(body, -1, localInertiaDiagonal=inertia.tolist())
    client.resetBaseVelocity(body, toss.velocity, toss.angular_velocity)
    return body


def _principal_axes(mesh: Any) -> np.ndarray:
    """Columns [3, 3] of a rotation from principal to body axes."""
    _, axes = np.linalg.eigh(mesh.solid().inertia_per_density)
    return axes * np.array([1.0, 1.0, np.linalg.det(axes)])


def _pose(client: Any, body: int, axes: np.ndarray) -> np.ndarray:
    """Position and orientation of the body axes, [7]."""
    position, turn = client.getBasePositionAndOrientation(body)
    return np.concatenate([position, _quaternion(_matrix(client, np.array(turn)) @ axes.T)])


def _matrix(client: Any, quaternion: np.ndarray) -> np.ndarray:
    return np.array(client.getMatrixFromQuaternion(quaternion.tolist())).reshape(3, 3)


def _quaternion(matrix: np.ndarray) -> np.ndarray:
    return Rotation.from_matrix(matrix).as_quat()
