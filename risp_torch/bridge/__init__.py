"""The thin bridge: torch functions around programs of kernels; no physics, no rendering, no learning in it."""

from risp_torch.bridge.articulated import articulated_rollout
from risp_torch.bridge.checks import bridge_dtype
from risp_torch.bridge.coupled import coupled_rollout
from risp_torch.bridge.deformable import deformable_rollout
from risp_torch.bridge.pictures import render, render_jacobian
from risp_torch.bridge.rollout import rollout

__all__ = ["articulated_rollout", "bridge_dtype", "coupled_rollout", "deformable_rollout", "render", "render_jacobian", "rollout"]
