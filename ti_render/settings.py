"""What a picture is made with: size, softness, clipping, aggregation, shading, shadows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ti_sim.base.errors import UserError

AGGREGATIONS = ("softras", "dibr")
COMPOSITES = ("alpha", "softmax")
SHADING_NAMES = ("none", "lambert", "phong")
QUANTITIES = ("color", "depth", "normal")
GROUNDS = (None, "plain", "checker", "texture")


@dataclass(frozen=True, kw_only=True)
class ShadowSettings:
    """Soft shadows of the directional lights, by one shadow map a light of all faces in a ball.

    What leaves the ball casts no shadow and receives none. Point lights and the environment cast none.

    Attributes:
        center: [3] m, of the ball.
        radius: m.
        resolution: texels per side of a map.
        sigma: softness of a shadow's edge, in squared radii.
        bias: depth behind an occluder at which half of its shadow falls, in radii; it keeps lit surfaces from shading themselves.
        width: softness of that depth test, in radii.

    Raises:
        UserError: a setting is out of its range.
    """

    center: Sequence[float]
    radius: float
    resolution: int = 128
    sigma: float = 2e-4
    bias: float = 0.04
    width: float = 0.01

    def __post_init__(self) -> None:
        if len(self.center) != 3 or not all(math.isfinite(x) for x in self.center):
            raise UserError(f"the shadows' center is {self.center}: give three finite coordinates in m")
        for name in ("radius", "sigma", "width"):
            if not getattr(self, name) > 0:
                raise UserError(f"the shadows' {name} is {getattr(self, name)}: give a number above zero")
        if self.resolution < 2:
            raise UserError(f"the shadow maps have {self.resolution} texels a side: give at least 2")
        if not self.bias >= 0:
            raise UserError(f"the shadows' bias is {self.bias}: give a number that is not negative")


@dataclass(frozen=True, kw_only=True)
class RasterSettings:
    """Settings of the soft rasterisers.

    Attributes:
        width, height: size of the images [pixels].
        sigma: softness of the faces' edges, in squared NDC of the shorter image side.
        gamma: softness of the depth order, in units of normalised depth (far - z) / (far - near).
        near, far: depths [m] that normalise the depth. A face fades out as its nearest corner comes from 1.25 near to near,
            and is left out from there on.
        background_weight: normalised depth at which the background takes part in the softmax (SoftRas: eps).
        aggregation: "softras" (Liu et al. 2019: every face near a pixel contributes) or "dibr" (Chen et al. 2019: the nearest
            covering face gives the colour, all others near it the soft silhouette).
        composite: how coverage enters the colour of "softras". "softmax" is strict SoftRas: the colour is the softmax over
            faces, ground and background, weighted with coverage times exp(normalised depth / gamma). There exp() dwarfs every
            coverage, so that the edge of an object in front of the ground or background is a jump of the colour at the
            cut-off distance, and the colours carry no silhouette gradient (the alpha channel does). "alpha" blends that
            colour over the faceless colour with the alpha channel, which is smooth and gives the colours that gradient.
            (An edge of one face in front of another face keeps the jump in both, where the nearer face's coverage fades
            out; it is in the colour between the two faces.)
        shading: "none", "lambert" or "phong".
        quantity: what the first three channels hold: "color", "depth" (camera depth [m], three times; the background has that
            of ``background_weight``) or "normal" (world normals; ground (0, 0, 1), background 0).
        two_sided: normals are turned towards the eye: for open surfaces.
        ground: whether and with which pattern the horizontal plane of ``RenderInputs.ground`` is drawn: None, "plain",
            "checker" or "texture".
        ground_texture: number of the ground's texture.
        antialias: samples per pixel side; the picture is the mean of their squares.
        shadows: of the directional lights; None draws none.
        tile: side of a tile [pixels]; None chooses by device (16 on the CPU, 4 on CUDA).

    Raises:
        UserError: a setting is out of its range.
    """

    width: int
    height: int
    sigma: float = 1e-4
    gamma: float = 1e-4
    near: float = 0.1
    far: float = 100.0
    background_weight: float = 1e-3
    aggregation: Literal["softras", "dibr"] = "softras"
    composite: Literal["alpha", "softmax"] = "alpha"
    shading: Literal["none", "lambert", "phong"] = "lambert"
    quantity: Literal["color", "depth", "normal"] = "color"
    two_sided: bool = False
    ground: Literal["plain", "checker", "texture"] | None = None
    ground_texture: int = 0
    antialias: int = 1
    shadows: ShadowSettings | None = None
    tile: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise UserError(f"an image of {self.width} x {self.height} pixels was asked for: both sides must be at least 1")
        check_softness(self.sigma, self.gamma)
        if not 0 < self.near < self.far:
            raise UserError(f"near is {self.near} and far is {self.far}: 0 < near < far is needed")
        if not 0 <= self.background_weight < 1:
            raise UserError(f"background_weight is {self.background_weight}: give a normalised depth in [0, 1)")
        _check_choice("aggregation", self.aggregation, AGGREGATIONS)
        _check_choice("composite", self.composite, COMPOSITES)
        _check_choice("shading", self.shading, SHADING_NAMES)
        _check_choice("quantity", self.quantity, QUANTITIES)
        _check_choice("ground", self.ground, GROUNDS)
        if not 1 <= self.antialias <= 16:
            raise UserError(f"antialias is {self.antialias}: give 1 to 16 samples per pixel side")
        if self.tile is not None and self.tile < 1:
            raise UserError(f"tile is {self.tile}: the side of a tile must be at least 1 pixel")

    @property
    def background_depth(self) -> float:
        """Depth [m] at which the background takes part in the softmax."""
        return self.far - self.background_weight * (self.far - self.near)

    @property
    def depth_range(self) -> float:
        """far - near [m]."""
        return self.far - self.near

    @property
    def shown(self) -> str:
        """What the colour channels hold: the shading, or the quantity that takes its place."""
        return self.shading if self.quantity == "color" else self.quantity

    def tile_side(self, device: str) -> int:
        """Side of a tile [pixels] on this device: "cpu" or "cuda"."""
        if self.tile is not None:
            return self.tile
        return 16 if device == "cpu" else 4


def check_softness(sigma: float, gamma: float) -> None:
    """Raise a UserError unless both are positive numbers."""
    if not (sigma > 0 and math.isfinite(sigma)):
        raise UserError(f"sigma is {sigma}: the softness of the edges must be positive")
    if not (gamma > 0 and math.isfinite(gamma)):
        raise UserError(f"gamma is {gamma}: the softness of the depth order must be positive")


def _check_choice(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} is {value!r}: give one of {', '.join(str(choice) for choice in choices)}")
