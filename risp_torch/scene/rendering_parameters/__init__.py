"""Rendering parameters psi: the appearance of a scene as a normalised vector, its distribution, and image derivatives."""

from risp_torch.scene.rendering_parameters.default import default_psi
from risp_torch.scene.rendering_parameters.jacobian import image_jacobian
from risp_torch.scene.rendering_parameters.parameters import RenderingParameters
from risp_torch.scene.rendering_parameters.ranges import Direction, Factor, Range
from risp_torch.scene.rendering_parameters.sheet import contact_sheet

__all__ = ["Direction", "Factor", "Range", "RenderingParameters", "contact_sheet", "default_psi", "image_jacobian"]
