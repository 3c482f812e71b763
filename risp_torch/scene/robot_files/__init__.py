"""Robot files: URDF and MJCF, read into one description of links, joints and shapes."""

from risp_torch.scene.robot_files.description import JointType, RobotDescription, RobotJoint, RobotLink, RobotShape, ShapeKind
from risp_torch.scene.robot_files.read import read_robot

__all__ = ["JointType", "RobotDescription", "RobotJoint", "RobotLink", "RobotShape", "ShapeKind", "read_robot"]
