"""The matched loss: the look is solved from the film, for every value of the unknowns; the residual is compared.

For given physics, geometry and camera, the film is nearly linear in colours, light and background plate. The loss is
the residual after these are solved (variable projection, Golub and Pereyra 1973): no lights, materials, ground or background of
the scene are used. Its gradient is that at the solved look (envelope theorem), and differences of its observations are those of
the projected residual, so that error bars do not count changes that the look can absorb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from risp_torch.inversion.appearance.batch import SolvedLook, composed, observed_in, pixels_of, rendered, solve_worlds
from risp_torch.inversion.appearance.fit.background_mean import still_plate
from risp_torch.inversion.appearance.fit.frozen_appearance import FrozenAppearance
from risp_torch.inversion.appearance.model.shadow import check_ground
from risp_torch.inversion.appearance.rendering import shadows_in
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.appearance.sheet import write_look_sheet
from risp_torch.inversion.appearance.system_cache import LookCache, SystemCache
from risp_torch.inversion.losses.loss import PictureLoss, pixel_blocks
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from risp_torch.scene.view.unlit import UnlitRenderInputs
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

SOFTNESS = "softness.sigma"
SEARCH_SCALE, SEARCH_TOLERANCE = 8.0, 1e4  # robust scale and tolerance of the search, relative to those of the loss


class MatchedLoss(PictureLoss):
    """Mean robust squared difference of linear colours between the film and the motion in the look that fits it best.

    The camera must not move. Observations of a frame are the pixels' colours, moved towards the film where the residual is large
    (the square of what remains is Geman and McClure's function of it), and one number for the regularisation of the look.
    """

    kind = "matched"
    usual_noise = 0.02
    compression_by_refit = True
    serial = True
    colors_of_pixels = True

    @checked
    def __init__(self, settings: LookSettings | None = None, *, weights: PixelWeights | None = None) -> None:
        """A loss by the solved look.

        Args:
            settings: components of the look that are solved.
            weights: weight of each pixel, 1 by default.
        """
        self.settings, self.weights = settings or LookSettings(), weights
        self._film: torch.Tensor | None = None
        self._begin: SolvedLook | None = None
        self._held: tuple[tuple[int, ...], FrozenAppearance] | None = None  # frames, and the look that is held in them
        self._still: dict[tuple[Any, ...], np.ndarray] = {}  # plates of the film without bodies, by frames and robust scale
        self._looks = LookCache()  # of the film
        self._cache = SystemCache()  # of all copies

    def bind_target(self, video: torch.Tensor | None) -> MatchedLoss:
        """The loss for a film [T, H, W, 3] (``Loss.bind_target``)."""
        bound = copy(self)
        bound._film, bound._begin, bound._held, bound._still, bound._looks = video, None, None, {}, LookCache()
        return bound

    def rebind_target(self, video: torch.Tensor) -> MatchedLoss:
        """The loss for a similar film, whose looks start from the one that was solved last (``Loss.rebind_target``)."""
        bound = self.bind_target(video)
        bound._begin = self._begin
        return bound

    def coarse(self) -> MatchedLoss:
        """The loss with a wider robust scale, beyond which the residual hardly changes with the motion, and the scene's edges,
        which are softer and take fewer samples."""
        coarse = copy(self)
        robust_scale, tolerance = SEARCH_SCALE * self.settings.robust_scale, SEARCH_TOLERANCE * self.settings.tolerance
        coarse.settings = replace(self.settings, robust_scale=robust_scale, tolerance=tolerance, edges="scene")
        return coarse

    def frozen_at(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None,
        *, follows: bool = True,
    ) -> MatchedLoss:  # fmt: skip
        """The loss whose looks are one linear step from the one solved for a motion, or that one (``Loss.frozen_at``)."""
        with torch.no_grad():
            _, solved, numbers, film = self._solved(scene, states, values, frames)
        frozen_loss, first = copy(self), solved[0]
        residual = pixels_of(film, None)[0] - first.pictures
        frozen = FrozenAppearance.of(first.system, self.settings, first.look, first.plate, residual, follows=follows)
        frozen_loss._held = tuple(numbers), frozen
        return frozen_loss

    def for_several_films(self) -> MatchedFilms:
        """The loss that solves a look for each film (``PictureLoss.for_several_films``)."""
        return MatchedFilms(self)

    def check(self, scene: Scene) -> None:
        """Raise a UserError without a camera, or without the ground that a shadow falls on (``Loss.check``)."""
        super().check(scene)
        if self.settings.shadow:
            check_ground(scene.ground_height)

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """The frames (``Loss.known_frames``; UserError: a single one, before any plate)."""
        if len(frames) == 1 and self.settings.plate == "any":
            raise UserError(
                "the matched loss compares one picture, which fits every motion where anything may stand behind the bodies: "
                "compare more frames, or let a smooth picture stand there (--look plate=smooth)"
            )
        return frames

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """The pixels, and 0 for the regularisation (``PictureLoss.read``)."""
        return torch.nn.functional.pad(pictures.flatten(-3), (0, 1))

    def weigh(self, pictures: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """The pictures times the roots of their weights (``PictureLoss.weigh``)."""
        return pictures * self.weights.roots(frames)

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of the motion in the solved look (``Loss.observe``)."""
        unlit_inputs, solved, numbers, film = self._solved(scene, states, values, frames)
        inputs = [
            array
            for array in (*vars(unlit_inputs.arrays).values(), unlit_inputs.exposure_weights)
            if isinstance(array, torch.Tensor)
        ]
        has_derivatives = any(map(_has_derivative, inputs))
        if self.weights is None and not has_derivatives:
            observed = observed_in(solved, film, self.settings.robust_scale)
        else:
            residual = (rendered(unlit_inputs, solved) if has_derivatives else composed(solved, film)) - film
            factor = torch.rsqrt(1.0 + (residual * residual).sum(dim=-1, keepdim=True) / self.settings.robust_scale**2)
            observed = self.compared(film + factor * residual, numbers).clone()
        penalties = [max(solved_look.penalty, 0.0) / len(numbers) for solved_look in solved]
        observed[..., -1] = torch.tensor(penalties, dtype=torch.float64).sqrt().to(observed)[:, None]
        return observed

    def render(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None = None
    ) -> torch.Tensor:
        """The film in the solved look (``PictureLoss.render``)."""
        with torch.no_grad():
            _, solved, _, film = self._solved(scene, states, values, frames)
            return composed(solved, film)

    def write_pictures(self, folder: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> None:
        """Write look.png, what was solved of the film (``Loss.write_pictures``)."""
        self.write_sheet(folder / "look.png", scene, states, values)

    def write_sheet(self, path: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> None:
        """Write what was solved of the film as a picture (arguments: ``Loss.write_pictures``)."""
        with torch.no_grad():
            unlit_inputs, solved, _, film = self._solved(scene, states, values, None)
            bodies = rendered(unlit_inputs, [solved[0].before_black])[0]
            estimate = composed(solved, film)[0]
            plate = torch.as_tensor(solved[0].plate).to(film).reshape(film.shape[1:]).expand(film.shape)
            if shadows := solved[0].system.palette.shadows:
                cast = torch.as_tensor(solved[0].look.colors[-shadows:]).to(film)[None]
                plate = plate + unlit_inputs.film_of(shadows_in(unlit_inputs, cast))[0]
        write_look_sheet(path, film, estimate, bodies, plate)

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels, and one for the regularisation (``Loss.blocks``)."""
        pixels = np.repeat(pixel_blocks(*size), 3)
        return np.append(pixels, pixels.max() + 1)

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Variance of eight-bit pictures (``Loss.noise_floor``)."""
        return (1 / 255) ** 2 / 12

    def to_json(self) -> dict[str, Any]:
        """Its kind, the settings of the look, and the weights (``Loss.to_json``)."""
        weights = {} if self.weights is None else {"weights": self.weights.to_json()}
        return {"kind": self.kind, "look": asdict(self.settings)} | weights

    def _solved(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> tuple[UnlitRenderInputs, list[SolvedLook], Sequence[int], torch.Tensor]:
        """Render inputs of unlit pictures, the look of every world, frame numbers, and the film [n, H, W, 3] at them.

        Worlds begin with the look that was solved last: looks of near motions are similar.
        """
        if self._film is None:
            raise UserError("the matched loss needs the film that it solves the look from: use it in invert or a Comparison")
        edges = self.settings.own_edges
        if edges is not None and SOFTNESS in values:
            raise UserError(f"{SOFTNESS} is unknown, and edges are those of a camera: leave it out, or take --look edges=scene")
        unlit_inputs = UnlitRenderInputs.of(scene, states, values, frames, edges=edges)
        numbers = range(unlit_inputs.frames) if frames is None else frames
        film = self._film[list(numbers)]
        weights = None if self.weights is None else self.weights.of(numbers)
        key = (tuple(numbers), self.settings.robust_scale)
        if key not in self._still:
            self._still[key] = still_plate(*pixels_of(film, weights), self.settings)
        frozen = self._held[1] if self._held is not None and self._held[0] == tuple(numbers) else None
        solved = solve_worlds(
            unlit_inputs, film, self.settings, still=self._still[key], weights=weights, first_look=self._begin, frozen=frozen,
            cache=self._cache, looks=self._looks, frames=numbers,
        )  # fmt: skip
        self._begin = solved[0]
        return unlit_inputs, solved, numbers, film


class MatchedFilms(PictureLoss):
    """The matched loss of several films (a scene that is ``problem.films.multi_film.Films``), each with a separate look."""

    kind = MatchedLoss.kind
    usual_noise = MatchedLoss.usual_noise
    compression_by_refit = True
    serial = True
    colors_of_pixels = True

    def __init__(self, loss: MatchedLoss) -> None:
        """The same loss for several films (UserError: it has weights of pixels)."""
        if loss.weights is not None:
            raise UserError("weights of pixels belong to one film with the matched loss: leave them out, or compare pixels")
        self.loss = loss
        self.parts: list[MatchedLoss] = []  # one of each film
        self._widths: list[int] = []

    def check(self, scene: Scene) -> None:
        """Check every film (``Loss.check``)."""
        self._widths = [film.camera.width for film in scene.films]
        for film in scene.films:
            self.loss.check(film)

    def bind_target(self, video: torch.Tensor | None) -> MatchedFilms:
        """The loss for films [T, H, W, 3] side by side (``Loss.bind_target``)."""
        bound = copy(self)
        bound.parts = [self.loss.bind_target(film) for film in video.split(self._widths, dim=-2)]
        return bound

    def rebind_target(self, video: torch.Tensor) -> MatchedFilms:
        """The loss for similar films side by side (``Loss.rebind_target``)."""
        bound = copy(self)
        films = video.split(self._widths, dim=-2)
        bound.parts = [part.rebind_target(film) for part, film in zip(self.parts, films, strict=True)]
        return bound

    def coarse(self) -> MatchedFilms:
        """The loss with wider robust scales (``MatchedLoss.coarse``)."""
        coarse = copy(self)
        coarse.parts = [film_loss.coarse() for film_loss in self.parts]
        return coarse

    def frozen_at(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> MatchedFilms:
        """The loss with the look of every film held (``MatchedLoss.frozen_at``)."""
        frozen = copy(self)
        frozen.parts = [film_loss.frozen_at(*motion, frames) for film_loss, motion in self._each(scene, states, values)]
        return frozen

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Observations of all films as one row (``PictureLoss.read``)."""
        films = pictures.split(self._widths, dim=-2)
        return torch.cat([self.loss.read(film.contiguous()) for film in films], dim=-1)

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of every film in its solved look (``Loss.observe``)."""
        return torch.cat([film_loss.observe(*motion, frames) for film_loss, motion in self._each(scene, states, values)], dim=-1)

    def render(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None = None
    ) -> torch.Tensor:
        """The films in their solved looks, side by side (``PictureLoss.render``)."""
        return torch.cat([film_loss.render(*motion, frames) for film_loss, motion in self._each(scene, states, values)], dim=-2)

    def write_pictures(self, folder: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> None:
        """Write look@1.png and so on, what was solved of each film (``Loss.write_pictures``)."""
        for number, (film_loss, motion) in enumerate(self._each(scene, states, values), start=1):
            film_loss.write_sheet(folder / f"look@{number}.png", *motion)

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Blocks of the loss, separate for every film (``Loss.blocks``)."""
        film_blocks, first = [], 0
        for width in self._widths:
            film_blocks.append(first + self.loss.blocks((), (size[0], width)))
            first = int(film_blocks[-1].max()) + 1
        return np.concatenate(film_blocks)

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Variance of eight-bit pictures (``Loss.noise_floor``)."""
        return self.loss.noise_floor(pictures)

    def to_json(self) -> dict[str, Any]:
        """The loss, and the films' widths (``Loss.to_json``)."""
        return self.loss.to_json() | {"films": self._widths}

    def _each(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor]
    ) -> list[tuple[MatchedLoss, tuple[Scene, Any, dict[str, torch.Tensor]]]]:
        """Loss, and scene, motion and values, of every film."""
        films = zip(scene.films, scene.motions_of(states), strict=True)
        film_motions = [(film, motion, scene.values_of(k, values)) for k, (film, motion) in enumerate(films)]
        return list(zip(self.parts, film_motions, strict=True))


def _has_derivative(tensor: torch.Tensor) -> bool:
    """Whether a result of the tensor has a gradient, or a tangent in forward mode."""
    return (torch.is_grad_enabled() and tensor.requires_grad) or forward_ad.unpack_dual(tensor).tangent is not None
