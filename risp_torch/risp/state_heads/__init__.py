"""State heads: what RISP reads from a picture, how it is normalised, and how states are drawn for training."""

from risp_torch.risp.state_heads.head import StateHead, head_from_json, warn_of_states_beyond
from risp_torch.risp.state_heads.joint_angles import JointAngleHead
from risp_torch.risp.state_heads.rigid_pose import RigidPoseHead
from risp_torch.risp.state_heads.sensors import SensorHead

__all__ = ["JointAngleHead", "RigidPoseHead", "SensorHead", "StateHead", "head_from_json", "warn_of_states_beyond"]
