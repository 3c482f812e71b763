"""The bridge: differentiable torch functions around the kernels of simulation and rendering."""

from risp_torch.scene.bridge.checks import bridge_device, bridge_dtype
from risp_torch.scene.bridge.forces import forces
from risp_torch.scene.bridge.pictures import render, render_jacobian
from risp_torch.scene.bridge.rollout import rollout

__all__ = ["bridge_device", "bridge_dtype", "forces", "render", "render_jacobian", "rollout"]
