"""Poses of rigid bodies in every frame of a film, without physics: each frame is fitted to its own pictures."""

from risp_torch.tracking.poses import TrackedPoses
from risp_torch.tracking.settings import TrackSettings
from risp_torch.tracking.track import track_poses

__all__ = ["TrackSettings", "TrackedPoses", "track_poses"]
