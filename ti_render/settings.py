"""What a picture is made with: size, softness, clipping, composition."""

from __future__ import annotations

from dataclasses import dataclass

from ti_sim.base.errors import UserError

COMPOSITES = ("alpha", "softmax")


@dataclass(frozen=True, kw_only=True)
class RasterSettings:
    """Settings of the soft rasteriser (Liu et al., Soft Rasterizer, ICCV 2019).

    Attributes:
        width, height: size of the images [pixels].
        sigma: softness of the faces' edges, in squared NDC of the shorter image side.
        gamma: softness of the depth order, in units of normalised depth (far - z) / (far - near).
        near, far: depths [m] that normalise the depth; a face with a vertex nearer than ``near`` is left out.
        background_weight: normalised depth at which the background takes part in the softmax (SoftRas: eps).
        composite: how coverage enters the colour. "softmax" is strict SoftRas: the colour is the softmax over faces,
            ground and background, weighted with coverage times exp(normalised depth / gamma). There exp() dwarfs every
            coverage, so that the edge of an object in front of the ground or background is a jump of the colour at the
            cut-off distance, and the colours carry no silhouette gradient (the alpha channel does). "alpha" blends that
            colour over the faceless colour with the alpha channel, which is smooth and gives the colours that gradient.
            (An edge of one face in front of another face keeps the jump in both, where the nearer face's coverage fades
            out; it is in the colour between the two faces.)
        ground: whether the horizontal plane of ``RenderInputs.ground`` is drawn.
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
    composite: str = "alpha"
    ground: bool = False
    tile: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise UserError(f"an image of {self.width} x {self.height} pixels was asked for: both sides must be at least 1")
        if not self.sigma > 0:
            raise UserError(f"sigma is {self.sigma}: the softness of the edges must be positive")
        if not self.gamma > 0:
            raise UserError(f"gamma is {self.gamma}: the softness of the depth order must be positive")
        if not 0 < self.near < self.far:
            raise UserError(f"near is {self.near} and far is {self.far}: 0 < near < far is needed")
        if self.composite not in COMPOSITES:
            raise UserError(f"composite {self.composite!r} is unknown: choose one of {', '.join(COMPOSITES)}")
        if self.tile is not None and self.tile < 1:
            raise UserError(f"tile is {self.tile}: the side of a tile must be at least 1 pixel")

    def tile_side(self, device: str) -> int:
        """Side of a tile [pixels] on "cpu" or "cuda"."""
        if self.tile is not None:
            return self.tile
        return 4 if device == "cuda" else 16

    @property
    def background_depth(self) -> float:
        """Depth [m] whose normalised depth is ``background_weight``."""
        return self.far - self.background_weight * (self.far - self.near)

    @property
    def depth_rate(self) -> float:
        """Softmax exponent per metre of depth, 1 / (gamma (far - near)) [1/m]."""
        return 1.0 / (self.gamma * (self.far - self.near))
