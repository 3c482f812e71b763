"""Losses of several films: each is compared by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.losses.loss import Loss, PictureLoss
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.inversion.problem.films.multi_film import FilmStates
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class FilmsWhitening:
    """Whitening of the observations of several films, with equally many of each.

    Attributes:
        whitenings: whitening of each film.
    """

    whitenings: tuple[Whitening, ...]

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        """Whitened observations [..., n', D] of the n' first frames, differentiable."""
        films = observations.chunk(len(self.whitenings), dim=-1)
        return torch.cat([whitening(film) for whitening, film in zip(self.whitenings, films, strict=True)], dim=-1)

    @property
    def gain(self) -> float:
        """See ``Whitening``."""
        return sum(whitening.gain for whitening in self.whitenings) / len(self.whitenings)

    @property
    def appearances(self) -> int:
        """Number of appearances in which the errors were measured."""
        return self.whitenings[0].appearances


class FilmsLoss(PictureLoss):
    """A loss for several films that applies the network to the images of each film separately."""

    def __init__(self, loss: PictureLoss) -> None:
        """The same loss for several films (UserError: it has weights of pixels)."""
        if loss.weights is not None:
            raise UserError(f"weights of pixels belong to one film with the {loss.kind} loss: leave them out, or compare pixels")
        self.loss, self.kind = loss, loss.kind
        self.temporally_correlated, self.non_smooth = loss.temporally_correlated, loss.non_smooth
        self.whitening: FilmsWhitening | None = None
        self._widths: list[int] = []

    def check(self, scene: Scene) -> None:
        """Check every film (``Loss.check``); their images must have one size."""
        self._widths = [film.camera.width for film in scene.films]
        if len(set(self._widths)) > 1:
            raise UserError(f"the films are {self._widths} pixels wide: the {self.kind} loss takes one size, give it with --size")
        for film in scene.films:
            self.loss.check(film)

    def appearance(self) -> dict[str, torch.Tensor]:
        """Appearance of the loss (``Loss.appearance``)."""
        return self.loss.appearance()

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Observations of all films as one row (``PictureLoss.read``)."""
        observations = [self.loss.read(film.contiguous()) for film in pictures.split(self._widths, dim=-2)]
        leading = pictures.ndim - 3
        return torch.cat([film.flatten(leading) for film in observations], dim=-1)

    def whitened(
        self, scene: Scene, states: FilmStates, values: Mapping[str, torch.Tensor], frames: Sequence[int], *, seed: int = 0
    ) -> FilmsLoss | None:
        """The loss with the observations of every film whitened separately (``Loss.whitened``)."""
        whitenings = []
        for k, (film, motion) in enumerate(zip(scene.films, scene.motions_of(states), strict=True)):
            film_loss = self.loss.whitened(film, motion, scene.values_of(k, values), frames, seed=seed)
            if film_loss is None or film_loss.whitening is None:
                return None
            whitenings.append(film_loss.whitening)
        whitened_loss = copy(self)
        whitened_loss.whitening = FilmsWhitening(tuple(whitenings))
        return whitened_loss

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Blocks of the loss, separate for every film (``Loss.blocks``)."""
        observations_per_film = int(np.prod(shape)) // len(self._widths)
        film_blocks, first_block = [], 0
        for width in self._widths:
            film_blocks.append(first_block + self.loss.blocks((observations_per_film,), (size[0], width)))
            first_block = int(film_blocks[-1].max()) + 1
        return np.concatenate(film_blocks)

    def to_json(self) -> dict[str, Any]:
        """The loss, and the films' widths (``Loss.to_json``)."""
        whitening = {} if self.whitening is None else {"whitening_looks": self.whitening.appearances}
        return self.loss.to_json() | {"films": self._widths} | whitening


def films_loss(loss: Loss) -> Loss:
    """The loss for several films.

    Raises:
        UserError: it does not compare images, or has weights of pixels.
    """
    if not isinstance(loss, PictureLoss):
        raise UserError(f"several films are compared by their pictures, and the {loss.kind} loss has one target: choose another")
    return loss.for_several_films() or FilmsLoss(loss)
