"""Checks of a robot description before simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from risp_torch.scene.robot_files.description import RobotDescription, RobotLink
from risp_torch.scene.robot_files.unsupported import Unsupported
from ti_sim.base.errors import UserError
from ti_sim.shapes.mass import check_mass

_INERTIA_TOLERANCE = 1e-3  # relative: files give inertias to three digits or more
_MIN_RELATIVE_INERTIA = 1e-12  # of the size of the inertia about a joint: roundoff of the sums


def check_robot(robot: RobotDescription, path: Path, unsupported: Unsupported) -> None:
    """Check numbers, limits and masses.

    Args:
        robot: the description, parents before children.
        path: path of the file, for errors.
        unsupported: collects remarks that are not errors.

    Raises:
        UserError: there is no link, limits are reversed, a mass or inertia is not physical, or a joint
            moves no inertia.
    """
    if not robot.links:
        raise UserError(f"{path}: the robot has no links: describe one at least")
    for link in robot.links:
        _check_link(link, path, unsupported)
    _check_subtree_inertias(robot.links, path)


def _check_link(link: RobotLink, path: Path, unsupported: Unsupported) -> None:
    joint = link.joint
    name = f"{path}: joint {joint.name!r}"
    if joint.moves and not joint.limit_low < joint.limit_high:
        raise UserError(
            f"{name} has the limits {joint.limit_low:g} and {joint.limit_high:g}: the lower one must be below the upper one "
            "(a joint that does not move is a fixed joint)"
        )
    for quantity in ("damping", "armature", "stiffness", "dry_friction", "motor_limit"):
        value = getattr(joint, quantity)
        if not value >= 0.0:
            raise UserError(f"{name}: {quantity.replace('_', ' ')} is {value:g}: it must not be below zero")
    if link.mass != 0.0 or link.inertia.any():
        check_mass(link.mass, f"{path}: the mass of link {link.name!r}")
    for shape in (*link.visuals, *link.collisions):
        if not all(np.isfinite(length) and length > 0.0 for length in shape.size):
            listed = ", ".join(f"{length:g}" for length in shape.size)
            raise UserError(f"{path}: the size of a {shape.kind} of link {link.name!r} is {listed}: lengths must be above zero")
    # Real files contain thin rods and point masses, so moments may be zero.
    moments = np.linalg.eigvalsh(link.inertia)
    if moments[0] < -_INERTIA_TOLERANCE * moments[2]:
        listed = ", ".join(f"{moment:.4g}" for moment in moments)
        raise UserError(
            f"{path}: the inertia of link {link.name!r} has the principal moments {listed} kg m2, and none may be below zero: "
            "check the signs of the products of inertia"
        )
    if moments[2] > (moments[0] + moments[1]) * (1.0 + _INERTIA_TOLERANCE):
        quantity = "an inertia that is not physical, with one principal moment above the sum of the others, is used as it is"
        unsupported.add(quantity, f"link {link.name!r}")


@dataclass(frozen=True, eq=False)
class SubtreeInertia:
    """Mass properties of the subtree that a joint moves: its link and all below, in the pose of the file.

    Attributes:
        mass: kg.
        inertia: [3, 3] kg m2 about the origin of the link frame, world axes.
        axis: [3] axis of the joint in the world; undefined if the kind has none.
        magnitude: kg m2, sum of the magnitudes of the terms of the inertia, for the tolerance of roundoff.
    """

    mass: float
    inertia: np.ndarray
    axis: np.ndarray
    magnitude: float


def subtree_inertias(links: Sequence[RobotLink]) -> list[SubtreeInertia]:
    """Mass properties of the subtree that each link's joint moves.

    Args:
        links: every parent before its children.
    """
    poses = start_poses(links)
    mass, first_moment, inertia = np.zeros(len(links)), np.zeros((len(links), 3)), np.zeros((len(links), 3, 3))
    for k in reversed(range(len(links))):  # children come after their parents: sums over all descendants
        link, (position, rotation) = links[k], poses[k]
        centre = position + rotation.apply(link.com)
        axes = rotation.as_matrix()
        mass[k] += link.mass
        first_moment[k] += link.mass * centre
        inertia[k] += axes @ link.inertia @ axes.T + link.mass * _inertia_form(centre, centre)
        if link.parent >= 0:
            mass[link.parent] += mass[k]
            first_moment[link.parent] += first_moment[k]
            inertia[link.parent] += inertia[k]
    inertias = []
    for k, (position, rotation) in enumerate(poses):
        inertia_about_joint = (
            inertia[k] - 2.0 * _inertia_form(position, first_moment[k]) + mass[k] * _inertia_form(position, position)
        )
        magnitude = float(np.trace(inertia[k]) + mass[k] * position @ position)
        inertias.append(SubtreeInertia(float(mass[k]), inertia_about_joint, rotation.apply(links[k].joint.axis), magnitude))
    return inertias


def inertias_of_free_joints(links: Sequence[RobotLink]) -> list[float]:
    """Inertia against which each joint moves while all other joints are free, in the pose of the file.

    It is the inverse of an entry on the diagonal of the inverse of the mass matrix; the latter from the mass properties of the
    subtrees (composite rigid bodies; Featherstone, Rigid Body Dynamics Algorithms, 2008, section 6.2).

    Args:
        links: every parent before its children.

    Returns:
        For each link, kg m2 or kg: the least of its joint's velocities; 0 for fixed joints.
    """
    twists: list[np.ndarray] = []  # [velocities, 6]: angular velocity, and velocity of the point at the world's origin
    for link, (position, rotation) in zip(links, start_poses(links), strict=True):
        kind, axes = link.joint.type, rotation.as_matrix().T
        axis = rotation.apply(link.joint.axis)[None]
        angular_axes = {"revolute": axis, "spherical": axes, "free": axes}.get(kind, np.zeros((0, 3)))
        linear_axes = {"prismatic": axis, "free": np.eye(3)}.get(kind, np.zeros((0, 3)))
        angular_twists = np.hstack([angular_axes, np.cross(position, angular_axes)])
        twists.append(np.vstack([angular_twists, np.hstack([np.zeros_like(linear_axes), linear_axes])]))
    offsets = np.cumsum([0, *(len(rows) for rows in twists)])
    mass_matrix = np.zeros((offsets[-1], offsets[-1]))
    for k, inertia in enumerate(_subtree_inertias(links)):
        columns, j = slice(offsets[k], offsets[k + 1]), k
        while j >= 0:
            mass_matrix[columns, offsets[j] : offsets[j + 1]] = twists[k] @ inertia @ twists[j].T
            mass_matrix[offsets[j] : offsets[j + 1], columns] = mass_matrix[columns, offsets[j] : offsets[j + 1]].T
            j = links[j].parent
        mass_matrix[columns, columns] += links[k].joint.armature * np.eye(len(twists[k]))
    values, vectors = np.linalg.eigh(mass_matrix)
    min_value = _MIN_RELATIVE_INERTIA * values.max(initial=0.0) + np.finfo(float).tiny
    mobility = (vectors**2 / np.maximum(values, min_value)).sum(axis=1)
    return [float(1.0 / mobility[a:b].max()) if b > a else 0.0 for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def _subtree_inertias(links: Sequence[RobotLink]) -> list[np.ndarray]:
    """[6, 6] inertia of each link and all below about the world's origin, for twists (angular, linear)."""
    spatial_inertias = [np.zeros((6, 6)) for _ in links]
    poses = start_poses(links)
    for k in reversed(range(len(links))):
        link, (position, rotation) = links[k], poses[k]
        x, y, z = position + rotation.apply(link.com)
        cross_matrix, axes = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]), rotation.as_matrix()
        spatial_inertias[k][:3, :3] += axes @ link.inertia @ axes.T - link.mass * cross_matrix @ cross_matrix
        spatial_inertias[k][:3, 3:] += link.mass * cross_matrix
        spatial_inertias[k][3:, :3] -= link.mass * cross_matrix
        spatial_inertias[k][3:, 3:] += link.mass * np.eye(3)
        if link.parent >= 0:
            spatial_inertias[link.parent] += spatial_inertias[k]
    return spatial_inertias


def _check_subtree_inertias(links: Sequence[RobotLink], path: Path) -> None:
    """Raise a UserError unless every joint moves some inertia, in the pose of the file."""
    for link, subtree in zip(links, subtree_inertias(links), strict=True):
        if not link.joint.moves or link.joint.armature > 0.0:
            continue
        location = f"{path}: link {link.name!r} is attached to the moving joint {link.joint.name!r}"
        if subtree.mass <= 0.0:
            raise UserError(f"{location} and neither it nor a link below it has mass: give it a mass and an inertia")
        min_inertia = _MIN_RELATIVE_INERTIA * subtree.magnitude
        if link.joint.type == "revolute":
            has_inertia = subtree.axis @ subtree.inertia @ subtree.axis > min_inertia
        else:
            has_inertia = link.joint.type == "prismatic" or np.linalg.eigvalsh(subtree.inertia)[0] > min_inertia
        if not has_inertia:
            raise UserError(f"{location}, but the links there have no inertia about the joint: give it an inertia")


def _inertia_form(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Symmetric [3, 3] bilinear form whose value (a, a) is the inertia about the origin of a unit mass at a."""
    return a @ b * np.eye(3) - 0.5 * (np.outer(a, b) + np.outer(b, a))


def start_poses(links: Sequence[RobotLink]) -> list[tuple[np.ndarray, Rotation]]:
    """Pose of every link frame in the world, in the pose of the file.

    Args:
        links: every parent before its children.

    Returns:
        For each link its position [3] m and its rotation.
    """
    poses: list[tuple[np.ndarray, Rotation]] = []
    for link in links:
        position, rotation = poses[link.parent] if link.parent >= 0 else (np.zeros(3), Rotation.identity())
        joint = link.joint
        position = position + rotation.apply(joint.position)
        rotation = rotation * Rotation.from_quat(joint.quaternion)
        if joint.type == "revolute":
            rotation = rotation * Rotation.from_rotvec(joint.start[0] * joint.axis)
        elif joint.type == "prismatic":
            position = position + rotation.apply(joint.start[0] * joint.axis)
        elif joint.type == "spherical":
            rotation = rotation * Rotation.from_quat(joint.start)
        elif joint.type == "free":
            position = position + rotation.apply(joint.start[:3])
            rotation = rotation * Rotation.from_quat(joint.start[3:])
        poses.append((position, rotation))
    return poses
