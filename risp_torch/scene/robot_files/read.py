"""Read a robot file of either format."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from risp_torch.scene.robot_files.check import check_robot
from risp_torch.scene.robot_files.description import RobotDescription, RobotJoint
from risp_torch.scene.robot_files.mjcf import read_mjcf
from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.robot_files.urdf import read_urdf
from risp_torch.scene.robot_files.xml_elements import read_xml
from ti_sim.base.errors import UserError


def read_robot(path: str | Path, *, free_base: bool = False) -> RobotDescription:
    """Read a URDF or MJCF file; selected by the root element.

    URDF fixes the root link at the world's origin. Mesh files are also read, relative to its folder
    (package://name/... from the folder ``name`` around it); nothing is downloaded, and no plugin is run.

    Args:
        path: path of the file.
        free_base: give the root link that the file fixes to the world (the trunk of a walking robot) a free
            joint that starts in the pose of the file.

    Returns:
        The description; ``unsupported`` lists features that are not imported or should be checked.

    Raises:
        UserError: the file is missing, not XML, neither URDF nor MJCF, or does not describe a valid tree of links: an unknown
            joint type, a missing mesh file, reversed limits, a link with two parents, a loop, a link without mass on
            a moving joint; or the package that reads it is not installed.
    """
    path = Path(path)
    root = read_xml(path)
    if root.tag not in ("robot", "mujoco"):
        raise UserError(f"robot file {path} begins with <{root.tag}>: URDF begins with <robot>, MJCF with <mujoco>")
    robot = read_urdf(path, root) if root.tag == "robot" else read_mjcf(path)
    if free_base:
        robot = _with_free_base(robot, path)
    unsupported = Unsupported()
    check_robot(robot, path, unsupported)
    return dataclasses.replace(robot, unsupported=robot.unsupported + unsupported.sentences())


def _with_free_base(robot: RobotDescription, path: Path) -> RobotDescription:
    roots = [k for k, link in enumerate(robot.links) if link.parent < 0]
    if len(roots) != 1 or robot.links[roots[0]].joint.moves:
        listed = ", ".join(f"{robot.links[k].name!r} ({robot.links[k].joint.type})" for k in roots)
        raise UserError(f"{path}: free_base needs one root link that is fixed to the world, but the roots are {listed}")
    if any(link.joint.type == "free" for link in robot.links):
        raise UserError(f"{path}: the robot has a free joint already: leave free_base out")
    base = robot.links[roots[0]]
    pose = (*base.joint.position.tolist(), *base.joint.quaternion.tolist())
    free_joint = RobotJoint(f"{base.name}_base", "free", np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), start=pose)
    links = list(robot.links)
    links[roots[0]] = dataclasses.replace(base, joint=free_joint)
    return dataclasses.replace(robot, links=tuple(links))
