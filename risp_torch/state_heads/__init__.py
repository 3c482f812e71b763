"""State heads: what RISP reads from a picture, how it is normalised, and how states are drawn for training."""

from risp_torch.state_heads.head import StateHead, head_from_json
from risp_torch.state_heads.rigid_pose import RigidPoseHead

__all__ = ["RigidPoseHead", "StateHead", "head_from_json"]
