"""Background and ground of a scene, and their arrays in the renderer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from risp_torch.scene.arguments import Wrap
from risp_torch.scene.numbers import Values, concatenated_rows, constant
from risp_torch.scene.parameters import ParameterTable

Pattern = Literal["plain", "checker", "texture"]


@dataclass(frozen=True)
class Ground:
    """Appearance of the ground plane.

    Attributes:
        height: z of the plane [m].
        pattern: "plain", "checker" or "texture".
        wrap: wrap mode of the texture.
    """

    height: float
    pattern: Pattern
    wrap: Wrap

    def rows(self, values: Values) -> torch.Tensor:
        """[n, 10] of the ground (``ti_render.RenderInputs``)."""
        color = values["ground.color"]
        second = values.get("ground.second_color", color)
        cell, origin = values.get("ground.cell"), values.get("ground.origin")
        return concatenated_rows(
            [
                color, constant([[self.height]]), second,
                constant([[1.0]]) if cell is None else cell[:, None], constant([[0.0, 0.0]]) if origin is None else origin,
            ],
            dim=1,
        )  # fmt: skip


def backdrop_names(table: ParameterTable, prefix: str) -> tuple[str, ...]:
    """Names of the parameters in the renderer's array of the "background" or the "ground"."""
    image_names = ("background.image", "ground.texture")
    return tuple(
        name for name in table.params
        if name.startswith(f"{prefix}.") and not name.startswith("ground.contact.") and name not in image_names
    )  # fmt: skip


def background_rows(values: Values) -> torch.Tensor:
    """[n, 2, 3] colours at the top and at the bottom edge; black behind an image."""
    if "background.image" in values:
        return constant(np.zeros((1, 2, 3)))
    if "background.color" in values:
        return values["background.color"][:, None].expand(-1, 2, 3)
    return concatenated_rows([values[f"background.{edge}"][:, None] for edge in ("top", "bottom")], dim=1)
