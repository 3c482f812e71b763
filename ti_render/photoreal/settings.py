"""Settings of Mitsuba: samples, path length, variant, samples of the masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

LOOKS = ("photoreal", "match")
NoiseSeed = Annotated[int, Rule(integer=True, minimum=0, maximum=2**32 - 1)]
VARIANTS = ("auto", "scalar_rgb", "llvm_ad_rgb")


@checked
@dataclass(frozen=True, kw_only=True)
class MitsubaSettings:
    """Settings of a path-traced picture.

    Attributes:
        look: "photoreal" lights the scene with area lights and an environment map, gives the bodies principled materials and
            the ground a texture, all drawn at random (``Appearance``). "match" keeps the lights, colours and background of
            the scene and makes every surface ideally diffuse (highlights are left out), for comparisons with the rasteriser.
        samples: light paths for each pixel; rounded up to a full grid of strata, 50 to 56 for example.
        floor: whether a ground is added below a scene without one, at the depth of the appearance ("photoreal" only).
        depth: maximum number of segments of a path: 2 is direct light only. "match" always uses 2.
        variant: "scalar_rgb", which runs everywhere; "llvm_ad_rgb", faster, which needs LLVM 17 or newer; "auto", which uses
            llvm_ad_rgb where a test rendering succeeds.
        mask_side: the masks are made with ``mask_side`` x ``mask_side`` samples for each pixel.
        seed: of the noise; the seed of picture k is derived from this one and k.

    Raises:
        UserError: a setting is out of its range.
    """

    look: str = "photoreal"
    samples: Count = 64
    floor: bool = False
    depth: Annotated[int, Rule(integer=True, minimum=2, maximum=2**31 - 1)] = 6
    variant: str = "auto"
    mask_side: Count = 4
    seed: NoiseSeed = 0

    def __post_init__(self) -> None:
        if self.look not in LOOKS:
            raise UserError(f"look {self.look!r} is unknown: choose one of {', '.join(LOOKS)}")
        if self.variant not in VARIANTS:
            raise UserError(f"variant {self.variant!r} is unknown: choose one of {', '.join(VARIANTS)}")
        if self.floor and self.look != "photoreal":
            raise UserError("a floor was asked for in pictures that match the scene: leave it out, or take look='photoreal'")
