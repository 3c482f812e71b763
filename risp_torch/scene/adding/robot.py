"""Robots from files: links, joints and motors of a URDF or MJCF file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from risp_torch.scene.adding.body_options import BodyGeometry, BodyOptions
from risp_torch.scene.adding.link import LinkFrame, make_link
from risp_torch.scene.adding.motors import add_motors
from risp_torch.scene.adding.rigid import make_body
from risp_torch.scene.arguments import UPRIGHT, Direction, Quaternion
from risp_torch.scene.parameters import check_name
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.contact import Contact, add_contact, is_per_area
from risp_torch.scene.parts.joints import Fixed, Joint, Prismatic, Revolute, Spherical
from risp_torch.scene.parts.links import JointCoupling
from risp_torch.scene.parts.surface import GREY, Surface
from risp_torch.scene.robot_files.check import SubtreeInertia, inertias_of_free_joints, subtree_inertias
from risp_torch.scene.robot_files.description import RobotDescription, RobotJoint, RobotLink, RobotShape
from risp_torch.scene.robot_files.read import read_robot
from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.rotations import unit_quaternion
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import Start
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.warn import warn
from ti_sim.shapes.contact_points import balls, patches, placed
from ti_sim.shapes.primitives import Box, Capsule, Cylinder, Sphere
from ti_sim.shapes.surface import TriangleMesh, merge_vertices

LIMIT_OVERSHOOT = 0.05  # of a joint's range: displacement beyond a limit under the largest motor force
MIN_LIMIT_FREQUENCY = 2.0 * math.pi * 10.0  # rad/s: least frequency of the moved mass on the spring of a limit
MAX_LIMIT_PHASE = 0.2  # rad: largest phase of that oscillation in a physics step
STICTION_PHASE = 0.1  # rad: phase of the oscillation of a joint that sticks in a physics step
_PRIMITIVES = {"box": Box, "sphere": Sphere, "cylinder": Cylinder, "capsule": Capsule}


@checked
def add_robot(
    scene: SceneSpec,
    path: str | Path,
    *,
    name: str = "",
    position: Direction = (0.0, 0.0, 0.0),
    orientation: Quaternion = UPRIGHT,
    free_base: bool = False,
    free_mimic: bool = False,
    contact: Contact | None = None,
    dry_friction: bool = True,
) -> RobotDescription:
    """Add the links, joints and motors of a URDF or MJCF file.

    Link "upper arm" of the robot "arm" becomes the body "arm_upper_arm", with the parameters "arm_upper_arm.mass",
    "arm_upper_arm.damping" and so on; the motor of its joint is "arm_upper_arm.motor". A link with a free joint becomes a
    rigid body. The springs of the limits withstand the joint's largest motor force, or oscillate at 10 Hz if that is stiffer, but
    are never too stiff for the physics step (``limit_stiffness``). Joint friction becomes dry friction; files do not give its
    stiffness and damping (``friction_numbers``).

    Args:
        scene: the scene.
        path: path of the file (``robot_files.read_robot``).
        name: first part of the names of its bodies, that of the file by default; it must be a valid
            name of a body.
        position: position of the file's origin [m].
        orientation: orientation of the file's axes, quaternion (x, y, z, w).
        free_base: give the root link a free joint instead of fixing it to the world.
        free_mimic: let joints that the file couples to others (``mimic``) move freely; otherwise their coordinates follow
            exactly, they have no numbers for their start, and no motors.
        contact: contact parameters of the robot with the ground ("<name>.contact.stiffness" and so on), those of the ground
            by default. Primitive collision shapes are used as they are, meshes by the vertices of their convex hulls.
        dry_friction: False to leave the joint friction of the file out, as in a scene with the integrator "rk4".

    Returns:
        The description of the file; ``unsupported`` has a sentence for each feature that is not imported.

    Warns:
        UserWarning: with these sentences, if there are any.

    Raises:
        UserError: the file cannot be read or describes no valid robot, a name is taken, or there are contact
            parameters and no ground.
    """
    base_position, base_rotation = _placement(position, orientation)
    robot = read_robot(path, free_base=free_base)
    name = name or _valid_name(robot.name or "robot")
    check_name(name)
    has_ground = scene.ground is not None
    if contact is not None:
        if not has_ground:
            raise UserError(f"{name} has a Contact and the scene has no ground: call add_ground first")
        add_contact(scene.table, f"{name}.contact", contact)
    per_area = is_per_area(scene.table, contact, has_ground=has_ground)
    unsupported = Unsupported()
    couplings = {} if free_mimic else _joint_couplings(robot, first=len(scene.bodies))
    for mimic in robot.mimics if free_mimic else ():
        unsupported.add("<mimic> is not used: the joint moves freely", f"joint {mimic.joint!r}")
    names = _body_names(name, robot.links)
    properties = zip(subtree_inertias(robot.links), inertias_of_free_joints(robot.links), strict=True)
    for link, body_name, (subtree, inertia) in zip(robot.links, names, properties, strict=True):
        geometry, surface = _link_geometry(link, unsupported, per_area=per_area)
        options = BodyOptions(shape=geometry, mass=link.mass, inertia=link.inertia, surface=surface, may_be_massless=True)
        frame = _joint_frame(link, robot.links, base_position, base_rotation)
        if link.joint.type == "free":
            scene_body = _free_body(scene, body_name, link, frame, options, unsupported)
        else:
            robot_joint = _with_supported_friction(scene, link.joint, unsupported, is_used=dry_friction)
            parent = names[link.parent] if link.parent >= 0 else None
            joint_frame = LinkFrame(
                parent=parent, position=frame.position, orientation=frame.rotation.as_quat(), center=link.com, share=0.0
            )
            scene_joint = _scene_joint(robot_joint, subtree, inertia, step=scene.stepping.dt)
            scene_body = make_link(
                scene, body_name, options, joint_frame, joint=scene_joint, coupling=couplings.get(robot_joint.name)
            )
        scene.bodies += (scene_body if contact is None else replace(scene_body, contact_name=f"{name}.contact"),)
    for link, body_name in zip(robot.links, names, strict=True):
        if link.joint.name in couplings:
            continue
        _add_motor(scene, body_name, link.joint, unsupported)
    _report_gravity(scene, robot, unsupported)
    robot = replace(robot, unsupported=robot.unsupported + unsupported.sentences())
    if robot.unsupported:
        warn(f"{path} is not imported completely: {'; '.join(robot.unsupported)}")
    return robot


def limit_stiffness(joint: RobotJoint, subtree: SubtreeInertia, *, step: float) -> float:
    """Stiffness of the springs at a joint's limits, which robot files do not give [N m/rad, N/m].

    The largest motor force of the joint displaces the spring by 5 % of the range. The spring is at least so stiff that the
    mass below the joint, as one rigid body, oscillates at 10 Hz, and never so stiff that its phase advances by more than
    0.2 rad in a physics step, which keeps the integration stable.

    Args:
        joint: revolute or prismatic, with limits.
        subtree: mass properties of the subtree that it moves.
        step: physics step [s].
    """
    axis_inertia = float(subtree.axis @ subtree.inertia @ subtree.axis)
    inertia = joint.armature + (subtree.mass if joint.type == "prismatic" else axis_inertia)
    has_limited_motor = _has_motor(joint) and math.isfinite(joint.motor_limit)
    motor_stiffness = joint.motor_limit / (LIMIT_OVERSHOOT * (joint.limit_high - joint.limit_low)) if has_limited_motor else 0.0
    return min(max(motor_stiffness, inertia * MIN_LIMIT_FREQUENCY**2), inertia * (MAX_LIMIT_PHASE / step) ** 2)


def friction_numbers(joint: RobotJoint, inertia: float, *, step: float) -> dict[str, float]:
    """Dry friction of a joint, with the stiffness and damping with which it sticks, which robot files do not give.

    The inertia that the joint moves oscillates on the spring with a phase that advances by 0.1 rad in a physics step, and with
    half of the critical damping.

    Args:
        joint: with dry friction.
        inertia: against which it moves while all other joints are free (``inertias_of_free_joints``) [kg m2, kg].
        step: physics step [s].

    Returns:
        ``dry_friction``, ``dry_stiffness`` and ``dry_damping`` (N m, N m/rad, N m s/rad; N, N/m, N s/m).
    """
    return {
        "dry_friction": joint.dry_friction, "dry_stiffness": inertia * (STICTION_PHASE / step) ** 2,
        "dry_damping": inertia * STICTION_PHASE / step,
    }  # fmt: skip


def _with_supported_friction(scene: SceneSpec, joint: RobotJoint, unsupported: Unsupported, *, is_used: bool) -> RobotJoint:
    """The joint, without its dry friction if the scene does not simulate it, which is recorded."""
    if not joint.dry_friction or (is_used and scene.stepping.integrator == "semi_implicit"):
        return joint
    unsupported.add("joint friction is not used" + (f" with the integrator {scene.stepping.integrator!r}" if is_used else ""),
                 f"joint {joint.name!r}")  # fmt: skip
    return replace(joint, dry_friction=0.0)


def _joint_couplings(robot: RobotDescription, *, first: int) -> dict[str, JointCoupling]:
    """Couplings of the joints by name; ``first``: index of the robot's first link among the scene's bodies."""
    index = {link.joint.name: first + k for k, link in enumerate(robot.links)}
    return {mimic.joint: JointCoupling(index[mimic.leader], mimic.multiplier, mimic.offset) for mimic in robot.mimics}


@dataclass(frozen=True)
class _Frame:
    """A joint's frame in its parent's, or in the world."""

    position: np.ndarray
    rotation: Rotation


def _placement(position: Sequence[float], orientation: Sequence[float]) -> tuple[np.ndarray, Rotation]:
    return np.asarray(position, dtype=np.float64), Rotation.from_quat(unit_quaternion("the robot", orientation))


def _valid_name(name: str) -> str:
    """A name with characters that are invalid in parameter names replaced."""
    valid = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return valid if re.match(r"[A-Za-z_]", valid) else f"_{valid}"


def _body_names(robot: str, links: Sequence[RobotLink]) -> list[str]:
    """Names of the bodies; equal ones are numbered."""
    names: list[str] = []
    for link in links:
        base_name = name = f"{robot}_{re.sub(r'[^A-Za-z0-9_-]', '_', link.name)}"
        number = 2
        while name in names:
            name, number = f"{base_name}_{number}", number + 1
        names.append(name)
    return names


def _joint_frame(link: RobotLink, links: Sequence[RobotLink], base_position: np.ndarray, base_rotation: Rotation) -> _Frame:
    """The frame of a link's joint; ``base_position`` and ``base_rotation`` are those of the file's axes in the world."""
    joint_rotation = Rotation.from_quat(link.joint.quaternion)
    if link.parent < 0:
        return _Frame(base_position + base_rotation.apply(link.joint.position), base_rotation * joint_rotation)
    parent = links[link.parent]
    # The frame of a rigid body is at its centre of mass, that of a link at its joint.
    origin = parent.com if parent.joint.type == "free" else np.zeros(3)
    return _Frame(link.joint.position - origin, joint_rotation)


def _free_body(
    scene: SceneSpec, name: str, link: RobotLink, frame: _Frame, options: BodyOptions, unsupported: Unsupported
) -> Body:
    """A link with a free joint as a rigid body, whose frame is at its centre of mass."""
    joint = link.joint
    if joint.damping or joint.armature:
        unsupported.add("damping and armature of free joints are not used", f"joint {joint.name!r}")
    if joint.dry_friction:
        unsupported.add("friction of free joints is not used", f"joint {joint.name!r}")
    body_rotation = frame.rotation * Rotation.from_quat(joint.start[3:])
    center = frame.position + frame.rotation.apply(joint.start[:3]) + body_rotation.apply(link.com)
    return make_body(scene, name, options, Start(position=center, orientation=body_rotation.as_quat()))


def _scene_joint(joint: RobotJoint, subtree: SubtreeInertia, inertia: float, *, step: float) -> Joint:
    """A joint of the scene, at its coordinates in the file; ``inertia``: as in ``friction_numbers``."""
    if joint.type == "fixed":
        return Fixed()
    springs: dict[str, Any] = {"stiffness": joint.stiffness, "damping": joint.damping, "armature": joint.armature}
    if joint.dry_friction:
        springs |= friction_numbers(joint, inertia, step=step)
    if joint.type == "spherical":
        return Spherical(turn=Rotation.from_quat(joint.start).as_rotvec(), **springs)
    springs |= {"axis": joint.axis, "rest": joint.rest}
    if math.isfinite(joint.limit_low) and math.isfinite(joint.limit_high):
        springs |= {
            "limit_low": joint.limit_low, "limit_high": joint.limit_high,
            "limit_stiffness": limit_stiffness(joint, subtree, step=step),
        }  # fmt: skip
    start = joint.start[0]
    return Revolute(angle=start, **springs) if joint.type == "revolute" else Prismatic(slide=start, **springs)


def _has_motor(joint: RobotJoint) -> bool:
    return any((joint.motor_gain, joint.servo_stiffness, joint.servo_damping))


def _add_motor(scene: SceneSpec, body: str, joint: RobotJoint, unsupported: Unsupported) -> None:
    """The motor of a joint, if it has one: without command, its servo holds the coordinate of the file's pose."""
    if not _has_motor(joint):
        return
    if not joint.motor_limit > 0:
        unsupported.add("motors without any force are left out", f"joint {joint.name!r}")
        return
    add_motors(
        scene, f"{body}.motor", joints=[body], gain=joint.motor_gain, limit=joint.motor_limit,
        targets=joint.start[0] if joint.servo_stiffness else None, servo_stiffness=joint.servo_stiffness,
        servo_damping=joint.servo_damping,
    )  # fmt: skip


def _report_gravity(scene: SceneSpec, robot: RobotDescription, unsupported: Unsupported) -> None:
    scene_gravity = np.asarray(scene.table["gravity"].value)
    gravity_vector = scene_gravity if scene_gravity.ndim else np.array([0.0, 0.0, -float(scene_gravity)])
    if robot.gravity is not None and not np.allclose(robot.gravity, gravity_vector):
        listed = ", ".join(f"{component:g}" for component in robot.gravity)
        unsupported.add("the scene's own gravity is used", f"the file has {listed} m/s2")


# -- shapes -------------------------------------------------------------------------------------------------------------


def _link_geometry(link: RobotLink, unsupported: Unsupported, *, per_area: bool) -> tuple[BodyGeometry, Surface | None]:
    """Render mesh and contact points of a link, about its centre of mass."""
    points = [placed(_contact_points(shape, per_area=per_area), np.eye(3), -link.com) for shape in link.collisions]
    mesh, surface = _visual_mesh(link, unsupported) if link.visuals else (None, None)
    return BodyGeometry(mesh, np.concatenate(points) if points else balls(np.zeros((0, 3))), None), surface


def _link_triangles(shape: RobotShape) -> TriangleMesh:
    """The triangles of a shape in the link frame."""
    if shape.kind == "mesh":
        mesh = shape.mesh
    else:
        mesh = _PRIMITIVES[shape.kind](*shape.size).mesh()
    vertices = Rotation.from_quat(shape.quaternion).apply(mesh.vertices) + shape.position
    return replace(mesh, vertices=vertices)


def _contact_points(shape: RobotShape, *, per_area: bool) -> np.ndarray:
    """Contact points of a shape, rows in the link frame: for a mesh the vertices of its convex hull, which touch a plane first.
    """
    if per_area:
        return patches(_link_triangles(shape))
    if shape.kind == "mesh":
        points, _ = merge_vertices(shape.mesh.vertices)
        try:
            points = points[ConvexHull(points).vertices]
        except QhullError:  # a flat mesh: all its points are used
            pass
        rows = balls(points)
    else:
        rows = _PRIMITIVES[shape.kind](*shape.size).local_contact_points()
    return placed(rows, Rotation.from_quat(shape.quaternion).as_matrix(), shape.position)


def _visual_mesh(link: RobotLink, unsupported: Unsupported) -> tuple[TriangleMesh, Surface]:
    """All visual shapes of a link as one mesh about its centre of mass, and its surface.

    A single shape keeps the colours or texture of its mesh file, unless the robot file gives it a colour. Several have one colour
    each, or one for each face if a mesh file has colours.
    """
    meshes = [_link_triangles(shape).transformed(offset=-link.com) for shape in link.visuals]
    if len(meshes) == 1:
        shape = link.visuals[0]
        # The reader has reported a texture that cannot be read.
        mesh = replace(meshes[0], texture_fault="")
        return mesh, Surface() if shape.color is None else Surface(color=shape.color)
    offsets = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])[:-1]
    merged = TriangleMesh(
        vertices=np.concatenate([mesh.vertices for mesh in meshes]),
        faces=np.concatenate([mesh.faces + offset for mesh, offset in zip(meshes, offsets, strict=True)]).astype(np.int32),
        face_groups=np.repeat(np.arange(len(meshes), dtype=np.int32), [len(mesh.faces) for mesh in meshes]),
    )
    if any(mesh.textures and shape.color is None for mesh, shape in zip(meshes, link.visuals, strict=True)):
        unsupported.add("textures of a link with several visual shapes are not used", f"link {link.name!r}")
    colors = [_face_colors(shape, mesh) for shape, mesh in zip(link.visuals, meshes, strict=True)]
    if not all(len(rows) == 1 for rows in colors):
        face_colors = [np.broadcast_to(rows, (len(mesh.faces), 3)) for rows, mesh in zip(colors, meshes, strict=True)]
        return merged, Surface(face_colors=np.concatenate(face_colors))
    rows = np.concatenate(colors)
    return merged, Surface(color=rows[0]) if (rows == rows[0]).all() else Surface(face_colors=rows)


def _face_colors(shape: RobotShape, mesh: TriangleMesh) -> np.ndarray:
    """[1, 3] or [F, 3] linear rgb of a shape's faces."""
    if shape.color is not None:
        return np.array([shape.color])
    if mesh.face_colors is not None:
        return mesh.face_colors
    if mesh.vertex_colors is not None:
        return mesh.vertex_colors[mesh.faces].mean(axis=1)
    return np.array([GREY])
