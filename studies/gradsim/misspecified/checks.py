"""A mass from a film by a model that may be wrong: the plain fit, the fit of the part that the model explains, and explanations.

The rule uses the film alone. A model that fits the whole film is believed. Where it does not, explanations are fitted one after
the other: friction or damping of the ground unknown, the other kind of body, the camera unknown with a prior, the look solved
from the film. The first one that fits is believed; if none fits, the one that leaves the least, if that is half of the model's
residual or less. Without an explanation, the mass is read from the frames before the residual departs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import (
    DivergenceError,
    Inversion,
    Loss,
    LuminanceLoss,
    MatchedLoss,
    MixedLoss,
    MixedPart,
    NewtonSteps,
    PixelLoss,
    Scene,
    film,
    invert,
)
from risp_torch.inversion import Unknowns
from studies.gradsim.misspecified.scenes import DAMPING, FRICTION, STIFFNESS, Model, Thrown, middle, scene_of
from studies.gradsim.tosses import MASS

CAMERA_TURN, CAMERA_SHIFT = math.radians(1.0), 0.01  # priors: rad, and m for a metre between the camera and what it looks at
FIRST = 10  # frame intervals that contain the push, and of which the first part of a film consists
DEPARTED = 9.0  # times the mean square of the part that fits: a frame with more has departed from the model
ROUNDING = 1 / 255**2 / 12  # mean square of rounding to 8 bits: what differs by less counts as no difference
MISFIT = 1.3  # times what noise explains, known to some tens of percent: more does not fit; the engine tests from there on
HALF = 0.5  # of the model's residual: an explanation that leaves more is none
SUSPECTS = {"the camera": "camera", "the look": "look"}  # title of a family of the inversion -> explanation
NO_EXPLANATION = "none"


@dataclass(frozen=True)
class Target:
    """A film that numbers are read from.

    Attributes:
        pictures: [T, H, W, 3] linear colours.
        path: of its file, if it is compressed: its luminance is compared then, which it keeps at full resolution.
    """

    pictures: torch.Tensor
    path: Path | None = None

    def loss(self) -> PixelLoss:
        """The compared pictures."""
        return PixelLoss() if self.path is None else LuminanceLoss()

    def part(self, frames: int) -> torch.Tensor | Path:
        """The film of the first ``frames`` intervals; of a file a scene of so many reads as many."""
        return self.pictures[: frames + 1] if self.path is None else self.path


@dataclass(frozen=True)
class Fit:
    """A fit of the density to a film, or to its first part.

    Attributes:
        density: kg/m3, of a cloth kg/m2.
        sd: decades.
        misfit: mean squared residual over what noise explains; None if unknown.
        residual: mean squared residual of the frames that were fitted.
        frames: frame intervals that were fitted.
        values: name of each unknown -> its value.
        suspects: titles of the families that the inversion calls likely wrong.
        remarks: its remarks and doubts.
    """

    density: float
    sd: float
    misfit: float | None
    residual: float
    frames: int
    values: Mapping[str, Any]
    suspects: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether noise explains the residual."""
        return self.misfit is not None and self.misfit <= MISFIT


@dataclass(frozen=True)
class Explanation:
    """A possible misspecification.

    Attributes:
        name: of it.
        model: the model without it.
        unknown: names of further numbers that are estimated -> their start; those of the camera start at the scene's.
        look: whether the look is solved from the film.
    """

    name: str
    model: Model
    unknown: Mapping[str, float | None]
    look: bool = False


@dataclass(frozen=True)
class Examined:
    """Results of the rule.

    Attributes:
        plain: the fit of the whole film by the model as it is.
        early: the fit of the part that the model explains; the plain one if that is the whole film.
        chosen: the fit that is believed.
        named: name of the explanation, "none" without one.
        fits: explanation that was tried -> the fit with it.
    """

    plain: Fit
    early: Fit
    chosen: Fit
    named: str
    fits: Mapping[str, Fit]


def fit(
    scene: Scene, target: Target | None, starts: Sequence[Mapping[str, Any]], *, further: Sequence[str] = (),
    loss: Loss | None = None, priors: Mapping[str, float] | None = None, settings: NewtonSteps | None = None,
) -> Fit:  # fmt: skip
    """Fit the density, and further numbers, to the first ``scene.frames`` intervals of a film.

    Args:
        scene: the model.
        target: the film; None for a loss that needs none.
        starts: name -> where each start of the search is.
        further: names of numbers beside the density that are unknown.
        loss: the target's by default.
        priors: name -> standard deviation.
        settings: of the search.
    """
    video = None if target is None else target.part(scene.frames)
    loss = loss if loss is not None or target is None else target.loss()
    result = invert(
        scene, video, [MASS, *further], starts=list(starts), loss=loss, priors=priors, search=settings, progress=False
    )
    return Fit(
        density=result.values[MASS], sd=result.sd[MASS], misfit=result.misfit, residual=float(result.losses[result.best]),
        frames=scene.frames, values=found_values(result), suspects=tuple(each["family"] for each in result.misspecifications),
        remarks=(*result.doubts, *result.remarks),
    )  # fmt: skip


def found_values(result: Inversion) -> dict[str, Any]:
    """Name of each unknown -> its estimate, a number or a list."""
    unknowns: Unknowns = result.unknowns
    row = result.final[result.best]
    return {
        name: (row[group].tolist() if group.stop - group.start > 1 else float(row[group][0]))
        for name, group in unknowns.groups.items()
    }


def pictures_of(scene: Scene, values: Mapping[str, Any], *, frames: int) -> torch.Tensor:
    """The film [frames + 1, H, W, 3] of a scene with these values."""
    rows = {name: torch.as_tensor(np.asarray(value)[None], dtype=torch.float32) for name, value in values.items()}
    with torch.no_grad():
        return film(scene, rows, worlds=1, frames=frames)[0][0]


def fit_before_departure(thrown: Thrown, model: Model, target: Target, start: float, *, size: int, frames: int) -> Fit:
    """Fit the density to the part of a film before its residual departs from the model.

    The first frames, with the push, are fitted; the part ends where the film of that fit departs from the target, is fitted
    again, and so on while it becomes longer.

    Args:
        thrown, model, size, frames: of the film (``scene_of``).
        target: the film.
        start: density where the search starts.
    """
    full_scene, length, density, last = scene_of(thrown, model, size=size, frames=frames), min(FIRST, frames), start, None
    while True:
        last = fit(scene_of(thrown, model, size=size, frames=length), target, [{MASS: density}])
        density = last.density
        squares = frame_squares(pictures_of(full_scene, last.values, frames=frames), target)
        longer = first_departed(squares, length) - 1
        if length == frames or longer <= length:
            return last
        length = longer


def frame_squares(pictures: torch.Tensor, target: Target) -> np.ndarray:
    """Mean squared difference of each frame [T] of a film [T, H, W, 3] and the target, of what is compared."""
    difference = target.loss().read(pictures - target.pictures[: len(pictures)])
    return (difference.double() ** 2).mean(dim=(1, 2, 3)).cpu().numpy()


def first_departed(squares: np.ndarray, length: int) -> int:
    """The first frame that departs from the model; the number of frames if none does.

    Args:
        squares: [T] mean squared residual of each frame.
        length: frame intervals that were fitted: their mean, or rounding, is the measure.
    """
    level = max(float(squares[: length + 1].mean()), ROUNDING)
    departed = np.flatnonzero(~(squares <= DEPARTED * level))
    return int(departed[0]) if len(departed) else len(squares)


def explanations(thrown: Thrown, model: Model) -> list[Explanation]:
    """Possible misspecifications of a model, the same list for every film of a kind."""
    candidates = [
        Explanation("friction", _without(model, FRICTION), {FRICTION: middle(FRICTION)}),
        Explanation("damping", _without(model, DAMPING), {DAMPING: contact_middle(thrown, model)}),
    ]
    if model.kind == "rigid":
        candidates.append(Explanation("kind", replace(model, kind="soft"), {STIFFNESS: middle(STIFFNESS)}))
    if model.kind == "soft":
        candidates.append(Explanation("kind", replace(model, kind="rigid"), {}))
    candidates.append(Explanation("camera", model, {"camera.turn": None, "camera.position": None}))
    return [*candidates, Explanation("look", model, {}, look=True)]


def contact_middle(thrown: Thrown, model: Model) -> float:
    """First guess of the damping of a contact point: the geometric mean of its bounds."""
    param = scene_of(thrown, Model(kind=model.kind), size=8).parameters[DAMPING]
    return math.sqrt(param.low * param.high)


def fit_explanation(
    thrown: Thrown, explanation: Explanation, target: Target, plain: Fit, densities: Sequence[float], *, size: int, frames: int
) -> Fit:
    """Fit a film with an explanation.

    Where neither priors nor a look are at work, the residual of the plain fit is stated as noise, so that nothing else is tested
    for being wrong; an explanation that fits is then fitted again without.

    Args:
        thrown, size, frames: of the film (``scene_of``).
        explanation: the explanation.
        target: the film.
        plain: the fit without the explanation.
        densities: where the searches start; with a wrong look or camera the plain fit may be far off, and a wrong contact is
            searched from the first of them alone.
    """
    scene = scene_of(thrown, explanation.model, size=size, frames=frames)
    further, fixed = list(explanation.unknown), {name: value for name, value in explanation.unknown.items() if value is not None}
    starts = [{MASS: density, **fixed} for density in densities]
    priors = camera_priors(scene, explanation.unknown)
    if explanation.look:
        estimate = fit(scene, target, starts, further=further, loss=MatchedLoss(), priors=priors)
        # A solved look leaves colours: as much of what the plain fit is compared by, luminance or colours, as its share of them.
        colours = pictures_of(scene, plain.values, frames=frames)
        loss_at_fixed = float(((colours - target.pictures[: len(colours)]).double() ** 2).mean())
        return replace(estimate, residual=estimate.residual / max(loss_at_fixed, ROUNDING) * plain.residual)
    if priors is not None:
        return fit(scene, target, starts, further=further, priors=priors)
    stated = MixedLoss(MixedPart(loss=target.loss(), noise=math.sqrt(plain.residual)))  # counts in squares of this noise
    tried = fit(scene, target, starts[:1], further=further, loss=stated)
    tried = replace(tried, residual=tried.residual * plain.residual)
    explained = plain.residual / plain.misfit if plain.misfit else ROUNDING
    if tried.residual > MISFIT * explained:
        return replace(tried, misfit=tried.residual / explained)
    return fit(scene, target, [tried.values], further=further, settings=NewtonSteps(first_frames=frames))


def camera_priors(scene: Scene, unknown: Mapping[str, Any]) -> dict[str, float] | None:
    """Priors of the camera's numbers among the unknown ones."""
    sizes = {"camera.turn": CAMERA_TURN, "camera.position": CAMERA_SHIFT * far_of(scene)}
    chosen = {name: size for name, size in sizes.items() if name in unknown}
    return chosen or None


def far_of(scene: Scene) -> float:
    """Distance of the camera from the world's origin [m]."""
    return float(np.linalg.norm(scene.parameters["camera.position"].value))


def examine(thrown: Thrown, model: Model, target: Target, start: float, *, size: int, frames: int) -> Examined:
    """Estimate the density by a model that may be wrong, with the rule of this file.

    Args:
        thrown: the object; of its numbers, those that the model does not replace are taken for known.
        model: what is taken for known.
        target: the film.
        start: density where the search starts.
        size, frames: of the film.
    """
    plain = fit(scene_of(thrown, model, size=size, frames=frames), target, [{MASS: start}])
    if plain.fits:
        return Examined(plain, plain, plain, NO_EXPLANATION, {})
    early = fit_before_departure(thrown, model, target, start, size=size, frames=frames)
    suspected = [SUSPECTS.get(title) for title in plain.suspects]
    order = sorted(explanations(thrown, model), key=lambda cause: cause.name not in suspected)
    fits: dict[str, Fit] = {}
    for cause in order:
        try:
            fits[cause.name] = fit_explanation(thrown, cause, target, plain, (early.density, start), size=size, frames=frames)
        except DivergenceError:  # with this cause nothing can be simulated: it is none
            continue
        if fits[cause.name].fits:
            break
    named = chosen_explanation(fits, plain.residual)
    return Examined(plain, early, early if named == NO_EXPLANATION else fits[named], named, fits)


def chosen_explanation(fits: Mapping[str, Fit], plain: float) -> str:
    """The explanation that fits, else that with the least residual if it is at most half of the plain fit's; "none" otherwise."""
    for name, candidate in fits.items():
        if candidate.fits:
            return name
    best = min(fits, key=lambda name: fits[name].residual, default=NO_EXPLANATION)
    return best if best in fits and fits[best].residual <= HALF * plain else NO_EXPLANATION


def _without(model: Model, name: str) -> Model:
    """The model that does not take a number for known; its start is given by the search."""
    return replace(model, known={key: value for key, value in model.known.items() if key != name})
