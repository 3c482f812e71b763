"""Chains of coupled joints."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from risp_torch.scene.robot_files.description import RobotMimic
from ti_sim.base.errors import UserError


def mimics_of_free_joints(mimics: Sequence[RobotMimic], path: Path, element: str) -> tuple[RobotMimic, ...]:
    """Couple each joint that follows a coupled joint to the one that moves freely at the end of the chain.

    Args:
        mimics: couplings to any joints.
        path: of the file, for errors.
        element: with which it couples joints, for errors.

    Raises:
        UserError: a joint is coupled twice, or follows itself.
    """
    mimic_of_joint: dict[str, RobotMimic] = {}
    for mimic in mimics:
        if mimic.joint in mimic_of_joint:
            raise UserError(f"{path}: {element} couples joint {mimic.joint!r} twice: couple it to one joint")
        mimic_of_joint[mimic.joint] = mimic
    return tuple(_to_free_joint(mimic, mimic_of_joint, path, element) for mimic in mimics)


def _to_free_joint(mimic: RobotMimic, mimic_of_joint: dict[str, RobotMimic], path: Path, element: str) -> RobotMimic:
    visited = {mimic.joint}
    while mimic.leader in mimic_of_joint and mimic.leader not in visited:
        visited.add(mimic.leader)
        next_mimic = mimic_of_joint[mimic.leader]
        offset = mimic.offset + mimic.multiplier * next_mimic.offset
        mimic = replace(mimic, leader=next_mimic.leader, multiplier=mimic.multiplier * next_mimic.multiplier, offset=offset)
    if mimic.leader in visited:
        raise UserError(f"{path}: joint {mimic.joint!r} follows itself by {element}: couple it to a joint that moves freely")
    return mimic
