"""Settings of a solved look: its components, regularisation and tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from risp_torch.scene.view.unlit import Edges
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, NotNegative, Positive, PositiveOrInfinite, Rule, checked

COLORS = ("texel", "vertex", "face", "body")
PLATES = ("any", "smooth")
EDGES = ("camera", "fine", "scene")
CAMERA_EDGES = Edges(samples=2, width=0.06)
FINE_EDGES = Edges(samples=4, width=0.12)  # a pixel's colour then changes nearly evenly as an edge moves through it
LIGHTS = {"none": 1, "sh1": 4, "sh2": 9}  # number of spherical harmonics


@checked
@dataclass(frozen=True, kw_only=True)
class LookSettings:
    """Components of a film's look that are solved, and the solver's tolerances.

    Attributes:
        colors: colours per "vertex" (several at the creases of a mesh), "face" or "body"; with "texel" each face is a lattice
            of colours (mesh colours: Yuksel, Keyser and House, ACM TOG 29, 2010).
        texels: divisions of an edge, of "texel", at most 64.
        light: light that changes a face's brightness with its normal: "none", "sh1" (ambient and one soft direction) or "sh2"
            (nine spherical harmonics; Ramamoorthi and Hanrahan, SIGGRAPH 2001).
        shadow: whether the bodies cast soft shadows on the scene's ground, of unknown lights (``shadow``).
        plate: background plate: "any" picture, or a "smooth" one, which single frames need: with any plate, a single
            picture fits every motion.
        edges: how pixels show edges: as a "camera" has them, which averages over its pixels; the same with "fine" samples, for
            single pictures, in which edges along the rows are at one place of all pixels; or as the "scene" has them
            (``softness.sigma``, ``PictureStyle.antialias``), for films that its own rasteriser has made.
        exposure: whether each frame has a gain and an offset per channel.
        robust_scale: residual [linear colour] at which a pixel's weight is a quarter (Geman and McClure, 1987); infinite gives
            all pixels the weight 1.
        smoothness: weight of the squared difference of neighbouring colours, in pixels that show them.
        color_regularisation: weight of the squared difference of the colours from grey, in pixels.
        rounds: largest number of steps.
        tolerance: expected relative decrease of the objective below which the steps end, after one more step. Relative errors of
            gradients are up to the root of it.

    Raises:
        UserError: a choice is unknown, or a number is out of its range.
    """

    colors: Literal["texel", "vertex", "face", "body"] = "vertex"
    texels: Annotated[int, Rule(integer=True, minimum=1, maximum=64)] = 4
    light: Literal["none", "sh1", "sh2"] = "sh2"
    shadow: bool = False
    plate: Literal["any", "smooth"] = "any"
    edges: Literal["camera", "fine", "scene"] = "camera"
    exposure: bool = False
    robust_scale: PositiveOrInfinite = 0.1
    smoothness: NotNegative = 0.02
    color_regularisation: Positive = 1e-3
    rounds: Count = 40
    tolerance: Positive = 1e-8

    def __post_init__(self) -> None:
        for name, choices in (("colors", COLORS), ("light", tuple(LIGHTS)), ("plate", PLATES), ("edges", EDGES)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} is {getattr(self, name)!r}: choose {', '.join(choices)}")

    @property
    def own_edges(self) -> Edges | None:
        """The edges in place of the scene's, or None."""
        return {"camera": CAMERA_EDGES, "fine": FINE_EDGES}.get(self.edges)
