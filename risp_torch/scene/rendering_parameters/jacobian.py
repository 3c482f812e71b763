"""Pictures and their derivatives with respect to the rendering parameters, all columns in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.derivative_errors import without_second_derivative
from risp_torch.scene.numbers import constant, shared_rows
from risp_torch.scene.rendering_parameters.parameters import RenderingParameters
from risp_torch.scene.states import instant_placement
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

_NO_DERIVATIVE = "trying to differentiate pictures of image_jacobian: they have no derivatives, use Scene.render"

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene
    from risp_torch.scene.states import States
    from risp_torch.scene.view.view import Quantity


@checked
def image_jacobian(
    scene: Scene,
    states: States | torch.Tensor,
    psi: torch.Tensor,
    parameters: RenderingParameters,
    *,
    columns: Sequence[str] | None = None,
    parameter_values: Mapping[str, torch.Tensor] | None = None,
    camera: str | None = None,
    quantity: Quantity = "color",
    alpha: bool = False,
    memory_limit: Count | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Render pictures I and their derivatives dI/dpsi.

    The derivatives come from the renderer's forward mode: all K in one pass over the pixels. The results have no
    derivatives: if psi, poses or a given value require a gradient, a backward pass through them raises RuntimeError.

    Args:
        scene: the scene.
        states: from ``Scene.rollout``, or poses [B, T, N, 7], [B, N, 7] or [N, 7] (m, unit quaternions; with deformable bodies
            ``Scene.poses``, or without its first axes). Poses of one world are used for all rows of psi.
        psi: [K] for all worlds, or [B, K] for separate worlds.
        parameters: rendering parameters of psi.
        columns: parameter names or labels of the derivatives, all of psi by default.
        parameter_values: other parameter values that replace the scene's own.
        camera, quantity, alpha, memory_limit: see ``Scene.render``.

    Returns:
        Pictures [*batch, H, W, C] and derivatives [*batch, K, H, W, C] per unit of psi. batch is [B, T], without T for poses
        [B, N, 7], empty for [N, 7] and psi [K], and followed by the cameras for camera="all".

    Raises:
        UserError: shapes do not fit, a name is unknown, or see ``Scene.render``.
    """
    sources = (psi, instant_placement(states, "pictures with derivatives"), *(parameter_values or {}).values())
    psi = constant(psi).detach()
    placement, batch = _worlds_and_frames(scene, states, psi)
    worlds, frames = placement.shape[:2]
    indices = range(parameters.size) if columns is None else parameters.indices(columns)
    unit_vectors = torch.eye(parameters.size, dtype=psi.dtype, device=psi.device)[list(indices)]
    fields = scene.view.picture_fields(worlds, camera=camera)
    varied_fields = {name: field for name, field in fields.items() if set(field.names) & parameters.distributions.keys()}

    def arrays(step: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """The renderer's arrays that depend on psi, at a ``step`` [K] along the columns, for jacfwd and as auxiliary output."""
        varied_values = {**(parameter_values or {}), **parameters.values(psi + step @ unit_vectors)}
        rows = shared_rows(scene.table.values(varied_values, worlds=worlds))
        field_values = {name: field.make(rows) for name, field in varied_fields.items()}
        return field_values, field_values

    def render_with_jacobian() -> tuple[torch.Tensor, torch.Tensor]:
        derivatives, field_values = torch.func.jacfwd(arrays, has_aux=True)(psi.new_zeros(len(unit_vectors)))
        # Forward mode gives a float64 tangent to a float32 scalar combined with a Python number.
        tangents = {name: derivative.movedim(-1, 0).to(field_values[name].dtype) for name, derivative in derivatives.items()}
        values = scene.table.values({**(parameter_values or {}), **parameters.values(psi)}, worlds=worlds)
        inputs = scene.view.render_inputs(values, placement.detach(), camera=camera, quantity=quantity)
        inputs = replace(inputs, **field_values)  # with rows as in the tangents
        settings = scene.view.raster_settings(camera=camera, quantity=quantity)
        return bridge.render_jacobian(inputs, settings, tangents, memory_limit=memory_limit)

    pictures, jacobian = without_second_derivative(render_with_jacobian, RuntimeError(_NO_DERIVATIVE), *sources)
    film = (scene.view.film_of(x, worlds, frames, camera=camera, quantity=quantity, alpha=alpha) for x in (pictures, jacobian))
    image, image_derivatives = (x.reshape(*batch, *x.shape[2:]) for x in film)
    return image, image_derivatives


def _worlds_and_frames(scene: Scene, states: States | torch.Tensor, psi: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Poses [B, T, N, 7] for the worlds of psi, and the batch axes of the result."""
    poses = states if isinstance(states, torch.Tensor) else states.placement
    missing_axes = 4 - poses.ndim
    if not 0 <= missing_axes <= 2:
        raise UserError(f"the poses have shape {tuple(poses.shape)}: give [worlds, frames, bodies, 7], or without the first axes")
    placement = poses[:, None] if missing_axes == 1 else poses[None, None] if missing_axes == 2 else poses
    placement = scene.view.poses(placement)
    if psi.ndim == 2 and placement.shape[0] == 1:
        placement = placement.expand(psi.shape[0], -1, -1, -1)
    if psi.ndim == 2 and psi.shape[0] != placement.shape[0]:
        raise UserError(f"psi has {psi.shape[0]} rows and the poses are of {placement.shape[0]} worlds: give one row for each")
    worlds, frames = placement.shape[:2]
    batch = {0: (worlds, frames), 1: (worlds,), 2: (worlds,) if psi.ndim == 2 else ()}[missing_axes]
    return placement, batch
