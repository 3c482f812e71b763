"""The matched loss of several films: each film has a look of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.losses.loss import PictureLoss
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    from risp_torch.inversion.problem.films.multi_film import Films, FilmStates


class MatchedFilms(PictureLoss):
    """The matched loss of films that stand side by side; colours, light, plate and exposure are solved for each of them."""

    kind = "matched"
    usual_noise = MatchedLoss.usual_noise
    compression_by_refit = True
    colors_of_pixels = True

    def __init__(self, loss: MatchedLoss) -> None:
        """The same loss for several films (UserError: it has weights of pixels)."""
        if loss.weights is not None:
            raise UserError("weights of pixels belong to one film with the matched loss: leave them out, or compare pixels")
        self.loss = loss
        self.parts: list[MatchedLoss] = []  # one of each film
        self._widths: list[int] = []

    def check(self, scene: Films) -> None:
        """Check every film (``Loss.check``)."""
        self._widths = [film.camera.width for film in scene.films]
        for film in scene.films:
            self.loss.check(film)

    def bind_target(self, video: torch.Tensor | None) -> MatchedFilms:
        """The loss for films [T, H, W, 3] side by side (``Loss.bind_target``)."""
        bound = copy(self)
        bound.parts = [self.loss.bind_target(film) for film in video.split(self._widths, dim=-2)]
        return bound

    def coarse(self) -> MatchedFilms:
        """The loss with wider robust scales (``MatchedLoss.coarse``)."""
        coarse = copy(self)
        coarse.parts = [film_loss.coarse() for film_loss in self.parts]
        return coarse

    def frozen_at(
        self, scene: Films, states: FilmStates, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
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
        self, scene: Films, states: FilmStates, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of every film in its solved look (``Loss.observe``)."""
        return torch.cat([film_loss.observe(*motion, frames) for film_loss, motion in self._each(scene, states, values)], dim=-1)

    def render(
        self, scene: Films, states: FilmStates, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None = None
    ) -> torch.Tensor:
        """The films in their solved looks, side by side (``PictureLoss.render``)."""
        return torch.cat([film_loss.render(*motion, frames) for film_loss, motion in self._each(scene, states, values)], dim=-2)

    def write_pictures(self, folder: Path, scene: Films, states: FilmStates, values: Mapping[str, torch.Tensor]) -> None:
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
        self, scene: Films, states: FilmStates, values: Mapping[str, torch.Tensor]
    ) -> list[tuple[MatchedLoss, tuple[Scene, Any, dict[str, torch.Tensor]]]]:
        """Loss, and scene, motion and values, of every film."""
        films = zip(scene.films, scene.motions_of(states), strict=True)
        film_motions = [(film, motion, scene.values_of(k, values)) for k, (film, motion) in enumerate(films)]
        return list(zip(self.parts, film_motions, strict=True))
