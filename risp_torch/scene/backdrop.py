"""What is behind and below the objects of a scene: background and ground, and the renderer's arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from risp_torch.scene.items import Picture, Vector, Wrap
from risp_torch.scene.numbers import Values, constant, joined
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.pictures import add_picture
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param

Pattern = Literal["plain", "checker", "texture"]
PATTERNS = ("plain", "checker", "texture")
GREY, WHITISH = (0.45, 0.45, 0.45), (0.9, 0.9, 0.9)


@dataclass
class Ground:
    """How the ground plane looks.

    Attributes:
        height: z of the plane [m].
        pattern: "plain", "checker" or "texture".
        wrap: of the texture.
    """

    height: float
    pattern: Pattern
    wrap: Wrap


@dataclass
class Backdrop:
    """Background and ground of a scene.

    Attributes:
        table: where their numbers are.
        ground: None without a ground.
    """

    table: ParameterTable
    ground: Ground | None = None

    def __post_init__(self) -> None:
        self.table.add("background.color", (0.9, 0.9, 0.92), unit="", shape=(3,), sign="color")

    def set_background(
        self, color: Vector | None, top: Vector | None, bottom: Vector | None, image: Picture | None
    ) -> None:
        """Replace the background (arguments: ``Scene.set_background``)."""
        gradient = top is not None and bottom is not None
        if (top is None) != (bottom is None) or (color is not None) + gradient + (image is not None) != 1:
            raise UserError("a background is a color, or top and bottom, or an image: give one of the three")
        self.table.drop("background.color", "background.top", "background.bottom", "background.image")
        for name, given in (("color", color), ("top", top), ("bottom", bottom)):
            if given is not None:
                self.table.add(f"background.{name}", given, unit="", shape=(3,), sign="color")
        if image is not None:
            add_picture(self.table, "background.image", image)

    def add_ground(
        self, *, height: float, color: Vector | None, pattern: Pattern, second_color: Vector | None, cell: float | Param,
        origin: Vector, texture: Picture | None, wrap: Wrap,
    ) -> None:  # fmt: skip
        """Name the ground's numbers (arguments: ``Scene.add_ground``)."""
        if pattern not in PATTERNS:
            raise UserError(f"the ground's pattern is {pattern!r}: choose one of {', '.join(PATTERNS)}")
        if (pattern == "texture") != (texture is not None):
            raise UserError(
                f"the ground has the pattern {pattern!r} and {'no' if texture is None else 'a'} texture: "
                "give pattern='texture' and a texture together"
            )
        if second_color is not None and pattern != "checker":
            raise UserError(f"the ground has a second colour and the pattern {pattern!r}: a checker has two colours")
        if wrap not in ("clamp", "repeat"):
            raise UserError(f"the ground has wrap {wrap!r}: choose clamp or repeat")
        usual = (1.0, 1.0, 1.0) if pattern == "texture" else GREY
        add = self.table.add
        add("ground.color", usual if color is None else color, unit="", shape=(3,), sign="color")
        if pattern == "checker":
            add("ground.second_color", WHITISH if second_color is None else second_color, unit="", shape=(3,), sign="color")
        if pattern != "plain":
            add("ground.cell", cell, unit="m", sign="positive")
            add("ground.origin", origin, unit="m", shape=(2,))
        if texture is not None:
            add_picture(self.table, "ground.texture", texture)
        self.ground = Ground(float(height), pattern, wrap)

    def names(self, prefix: str) -> tuple[str, ...]:
        """Names of the numbers of the "background" or the "ground" that its array of the renderer holds."""
        apart = ("background.image", "ground.texture")
        return tuple(
            name for name in self.table.params
            if name.startswith(f"{prefix}.") and not name.startswith("ground.contact.") and name not in apart
        )  # fmt: skip

    def background_rows(self, values: Values) -> torch.Tensor:
        """[n, 2, 3] colours at the top and at the bottom edge; black behind an image."""
        if "background.image" in values:
            return constant(np.zeros((1, 2, 3)))
        if "background.color" in values:
            return values["background.color"][:, None].expand(-1, 2, 3)
        return joined([values[f"background.{edge}"][:, None] for edge in ("top", "bottom")], dim=1)

    def ground_rows(self, values: Values) -> torch.Tensor | None:
        """[n, 10] of the ground (``ti_render.RenderInputs``); None without a ground."""
        if self.ground is None:
            return None
        color = values["ground.color"]
        second = values.get("ground.second_color", color)
        cell, origin = values.get("ground.cell"), values.get("ground.origin")
        return joined(
            [
                color, constant([[self.ground.height]]), second,
                constant([[1.0]]) if cell is None else cell[:, None], constant([[0.0, 0.0]]) if origin is None else origin,
            ],
            dim=1,
        )  # fmt: skip
