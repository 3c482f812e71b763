"""Renderer of smoke: pictures of its density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import torch

from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.backdrop import backdrop_names
from risp_torch.scene.parts.cameras import ALL
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.states import States
from risp_torch.scene.view.arrays import Field
from risp_torch.scene.view.view import PictureOptions, View
from ti_sim.base.errors import UserError

_LOSSES = "pixels, luminance or features of pictures (--loss pixel, luminance, perceptual)"


@dataclass(frozen=True, eq=False)
class SmokeView(View):
    """Renderer of a scene of smoke, which fills the picture whatever the pose of the camera."""

    has_projection: ClassVar[bool] = False

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``View.of``."""
        return None if spec.smoke is None else super().of(spec)

    def pictures(self, values: Values, options: PictureOptions, placement: torch.Tensor) -> torch.Tensor:
        """Pictures [B, T, H, W, C] of a density [B, T, X, Y], straight to pixels (``View.pictures``)."""
        if options.quantity != "color" or options.camera == ALL:
            raise UserError(f"smoke has colours of one camera, no depths and no normals: leave both out, and compare {_LOSSES}")
        if "background.image" in self.spec.table.params:
            raise UserError("smoke is shown before a colour, not before a picture: use set_background(color=...), or top, bottom")
        size, channels = self._chosen_cameras(options.camera)[0], 4 if options.alpha else 3
        return self.spec.smoke.pictures(values, placement, size)[..., :channels]

    def poses(self, states: States | torch.Tensor) -> torch.Tensor:
        """Density [B, T, X, Y] at the frames of a motion, on the device of the kernels.

        Args:
            states: from ``rollout``, or the density itself.

        Raises:
            UserError: it has another shape.
        """
        density = (states.placement if isinstance(states, States) else states).to(bridge_device())
        cells = self.spec.smoke.model.cells
        if density.ndim != 4 or tuple(density.shape[2:]) != tuple(cells):
            raise UserError(
                f"the density has shape {tuple(density.shape)}, and this scene needs [worlds, frames, {cells[0]}, {cells[1]}]"
            )
        return density

    def render_inputs(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Raise a UserError: smoke has no faces."""
        raise UserError(f"smoke has neither faces nor a look that is solved: compare {_LOSSES}")

    def picture_fields(self, worlds: int = 1, *, camera: str | None = ALL) -> dict[str, Field]:
        """None: the renderer's arrays are those of meshes."""
        return {}

    @property
    def shading_parameters(self) -> list[str]:
        """As ``View.shading_parameters``: colour and opacity of the smoke, and the background."""
        names = {*self.spec.smoke.picture_names, *backdrop_names(self.spec.table, "background")}
        return [name for name in self.spec.table.params if name in names]
