"""Settings of the three rendering domains of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from risp_torch.scene.numbers import constant
from risp_torch.scene.rendering_parameters import RenderingParameters
from ti_sim.base.rules import Count, Rule, checked

if TYPE_CHECKING:
    import torch

    from risp_torch.scene.scene import Scene
    from risp_torch.scene.states import States
    from ti_render.photoreal import MitsubaRenderer

TINT = (0.3, 1.0)  # range of the tint of bodies in the default target


@checked
@dataclass(frozen=True)
class RasteriserDomain:
    """Pictures of the differentiable rasteriser.

    Attributes:
        parameters: rendering parameters with their ranges.
        psi: [K] a fixed appearance; None for appearances sampled uniformly in [-1, 1]^K.
    """

    parameters: RenderingParameters
    psi: Annotated[tuple[float, ...], Rule(shape=(None,), exact=True)] | None = None

    def appearances(self, count: int, *, seed: int) -> torch.Tensor:
        """Appearances psi [count, K]: sampled with this seed, or the fixed one repeated."""
        if self.psi is None:
            return self.parameters.sample(count, seed=seed)
        return constant(self.psi).expand(count, -1)

    def to_json(self) -> dict[str, Any]:
        """Ranges and the fixed appearance as JSON values."""
        return {"renderer": "rasteriser", "parameters": self.parameters.to_json(), "psi": self.psi}


@checked
@dataclass(frozen=True)
class PhotorealDomain:
    """Pictures of Mitsuba's path tracer with random materials, lamps, sky and ground.

    Attributes:
        ranges: ranges that replace the default ones (``ti_render.photoreal.draw_appearance``).
        colors: "keep" for the bodies' own colours, "tint" for these times a random colour for each body, "draw" for the random
            colour alone.
        samples: light paths per pixel.
        floor: whether to add a ground with a random pattern to scenes without one.
    """

    ranges: Annotated[Mapping[str, tuple[float, float]], Rule(named=True, shape=(2,), exact=True)] = field(default_factory=dict)
    colors: str = "keep"
    samples: Count = 64
    floor: bool = True

    def film(self, scene: Scene, states: States | torch.Tensor, *, seed: int) -> MitsubaRenderer:
        """The film of a motion (or of ``Scene.poses``) in a random appearance; its pictures are rendered on demand.

        Args:
            scene: with a camera.
            states: the motion.
            seed: seed of the appearance and of the noise, 0 to 2^32 - 1.

        Raises:
            UserError: Mitsuba is not installed, or as ``photoreal_film``.
        """
        from risp_torch.risp.photoreal import photoreal_film
        from ti_render.photoreal import MitsubaSettings, draw_appearance

        look = draw_appearance(scene.part_names, seed=seed, ranges=self.ranges, colors=self.colors)
        options = MitsubaSettings(samples=self.samples, floor=self.floor, seed=seed)
        return photoreal_film(scene, states, options=options, look=look)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        ranges = {name: list(span) for name, span in self.ranges.items()}
        return {"renderer": "mitsuba", "ranges": ranges, "colors": self.colors, "samples": self.samples, "floor": self.floor}


@checked
@dataclass(frozen=True)
class Domains:
    """The three domains of RISP (ICLR 2022, section 4.1).

    Attributes:
        training: domain of the training images; appearances are sampled.
        loop: domain of the inversion; one fixed appearance.
        target: domain of the target film, not part of training.
    """

    training: RasteriserDomain
    loop: RasteriserDomain
    target: PhotorealDomain

    @staticmethod
    def default(scene: Scene, parameters: RenderingParameters, *, target: PhotorealDomain | None = None) -> Domains:
        """Appearances over all of psi for training, its centre for the loop, and Mitsuba's default appearances for the target.

        The colours of bodies are tinted in the target, because its materials are also unknown.
        """
        middle = (0.0,) * parameters.size
        target = target or PhotorealDomain(dict.fromkeys(("red", "green", "blue"), TINT), colors="tint")
        return Domains(RasteriserDomain(parameters), RasteriserDomain(parameters, middle), target)

    def to_json(self) -> dict[str, Any]:
        """All three as JSON values."""
        return {name: getattr(self, name).to_json() for name in ("training", "loop", "target")}
