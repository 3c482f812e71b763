"""Timed functions: a picture, its adjoint, and its derivatives along eight directions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ti_render import RasterSettings, RenderInputs, render, render_adjoint, render_jvp

COLUMNS = 8

Passes = dict[str, Callable[[], object]]


def make_passes(inputs: RenderInputs, settings: RasterSettings, *, columns: bool = True) -> Passes:
    """Functions to time: "forward"; "backward" towards all inputs; and with ``columns`` the derivatives of the picture along
    8 rendering parameters ("appearance") and 8 numbers of pose and camera ("geometry"), without the picture itself.

    Args:
        inputs: torch tensors.
        settings: of the pictures.
        columns: whether to include forward derivatives.
    """
    result = render(inputs, settings)
    images_bar = torch.ones_like(result.images)
    passes: Passes = {"forward": lambda: render(inputs, settings), "backward": lambda: render_adjoint(result, images_bar)}
    if columns:
        appearance, geometry = appearance_tangents(inputs), geometry_tangents(inputs)
        passes["appearance"] = lambda: render_jvp(result, appearance)
        passes["geometry"] = lambda: render_jvp(result, geometry)
    return passes


def _zeros(inputs: RenderInputs, *names: str) -> dict[str, torch.Tensor]:
    return {name: getattr(inputs, name).new_zeros(COLUMNS, *getattr(inputs, name).shape) for name in names}


def appearance_tangents(inputs: RenderInputs) -> dict[str, torch.Tensor]:
    """Tangents of 8 rendering parameters: ambient light, direction of the light (2), its intensity, the body's red and green,
    specular, shininess."""
    tangents = _zeros(inputs, "ambient", "directional", "albedo", "material")
    tangents["ambient"][0] = 1.0
    light_direction = inputs.directional[0, 0, :3]
    perpendicular = torch.linalg.cross(light_direction, light_direction.new_tensor([0.0, 0.0, 1.0]))
    tangents["directional"][1, ..., :3] = perpendicular
    tangents["directional"][2, ..., :3] = torch.linalg.cross(light_direction, perpendicular)
    tangents["directional"][3, ..., 3:] = 1.0
    tangents["albedo"][4, ..., 0] = inputs.albedo[..., 0]
    tangents["albedo"][5, ..., 1] = inputs.albedo[..., 1]
    tangents["material"][6, ..., :3] = 1.0
    tangents["material"][7, ..., 3] = 1.0
    return tangents


def geometry_tangents(inputs: RenderInputs) -> dict[str, torch.Tensor]:
    """Tangents of the body's position (3) and rotation (3), the camera's focal length and its distance."""
    tangents = _zeros(inputs, "body_q", "camera")
    x, y, z, w = inputs.body_q[..., 3:].unbind(-1)
    for axis in range(3):
        tangents["body_q"][axis, ..., axis] = 1.0
    # Rotation about a fixed axis e: half the product of the quaternions (e, 0) and (x, y, z, w).
    for axis, quaternion_product in enumerate([(w, -z, y, -x), (z, w, -x, -y), (-y, x, w, -z)]):
        tangents["body_q"][3 + axis, ..., 3:] = 0.5 * torch.stack(quaternion_product, dim=-1)
    tangents["camera"][6, :, :2] = inputs.camera[:, :2]
    tangents["camera"][7, :, 15] = 1.0
    return tangents
