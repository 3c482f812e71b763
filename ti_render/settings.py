"""Settings of the renderer: size, softness, clipping, aggregation, shading, shadows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, NotNegative, Positive, Rule, checked

AGGREGATIONS = ("softras", "dibr")
QUANTITIES = ("color", "depth", "normal")


@checked
@dataclass(frozen=True, kw_only=True)
class ShadowSettings:
    """Soft shadows of the directional lights, by one shadow map a light of all faces in a ball.

    Faces outside the ball cast no shadow and receive none. Point lights and the environment cast none.

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

    center: Annotated[Sequence[float], Rule(shape=(3,), exact=True)]
    radius: Positive
    resolution: Annotated[int, Rule(integer=True, minimum=2, maximum=2**15)] = 128
    sigma: Positive = 2e-4
    bias: NotNegative = 0.04
    width: Positive = 0.01


@checked
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
        aggregation: how faces give a pixel its colour: "softras" (Liu et al. 2019: every face near the pixel contributes) or
            "dibr" (Chen et al. 2019: the nearest covering face). The alpha channel of both is the coverage by all faces together.
        composite: how the alpha channel enters the colour of "softras". "softmax" is strict SoftRas: the colour is the softmax
            over faces, ground and background, weighted with probability times exp(normalised depth / gamma). There exp()
            dominates every probability, so that the edge of an object in front of the ground or background is a steep step of
            the colour shortly before the cut-off distance, and the colours carry no silhouette gradient (the alpha channel does).
            "alpha" blends that colour over the backdrop's colour with the alpha channel, which is smooth and gives the colours
            that gradient. (An edge of one face in front of another face keeps a steep step in both, where the nearer face's
            probability
            fades out: a step between the colours of the two faces.)
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

    width: Count
    height: Count
    sigma: Positive = 1e-4
    gamma: Positive = 1e-4
    near: Positive = 0.1
    far: Positive = 100.0
    background_weight: Annotated[float, Rule(minimum=0, below=1)] = 1e-3
    aggregation: Literal["softras", "dibr"] = "softras"
    composite: Literal["alpha", "softmax"] = "alpha"
    shading: Literal["none", "lambert", "phong"] = "lambert"
    quantity: Literal["color", "depth", "normal"] = "color"
    two_sided: bool = False
    ground: Literal["plain", "checker", "texture"] | None = None
    ground_texture: FromZero = 0
    antialias: Annotated[int, Rule(integer=True, minimum=1, maximum=16)] = 1
    shadows: ShadowSettings | None = None
    tile: Count | None = None

    def __post_init__(self) -> None:
        if not self.near < self.far:
            raise UserError(f"near is {self.near} and far is {self.far}: near < far is needed")

    @property
    def background_depth(self) -> float:
        """Depth [m] at which the background takes part in the softmax."""
        return self.far - self.background_weight * (self.far - self.near)

    @property
    def depth_range(self) -> float:
        """far - near [m]."""
        return self.far - self.near

    @property
    def shaded_quantity(self) -> str:
        """Quantity of the colour channels: the shading, or "depth" or "normal" in place of it."""
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
