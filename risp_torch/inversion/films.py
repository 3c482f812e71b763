"""Several films of one scene as one film: numbers that all share, and numbers that each film has of its own.

The films stand side by side in one wide picture, and the numbers of a film have its number in their names ("body.velocity@2"), so
that search, error bars and reports see one scene and one film.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.inversion.losses.loss import Loss, PictureLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.scene.parameters import ParameterTable, split_entry
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError

MARK = "@"  # between the name of a number and that of its film


def of_film(name: str, film: int) -> str:
    """Name of a film's own number, or of an entry of it: "body.velocity@2[0]"; films count from 1."""
    base, place = split_entry(name)
    return f"{base}{MARK}{film}" + "".join(f"[{i}]" for i in place)


@dataclass(frozen=True)
class FilmStates:
    """Motions of a batch of worlds in several films.

    Attributes:
        motions: one for each film, or a single one that all films show.
    """

    motions: tuple[States, ...]

    @property
    def diverged_step(self) -> torch.Tensor:
        """[B, films N] of ``States``."""
        return torch.cat([motion.diverged_step for motion in self.motions], dim=1)

    @property
    def finite(self) -> torch.Tensor:
        """[B] bool: worlds that stayed finite in every film."""
        return (self.diverged_step < 0).all(dim=1)


class Films(Scene):
    """A scene that several films show. Its pictures are those of all films side by side."""

    def __init__(self, scene: Scene, count: int, *, cameras: Sequence[str] = (), per_film: Sequence[str] = ()) -> None:
        """So many films of a scene.

        Args:
            scene: what was filmed; its later changes are not seen here.
            count: of films.
            cameras: name of the camera of each film; the first camera for all where none is named.
            per_film: parameters that every film has of its own, such as velocities at the start; where there are none, the films
                show one motion.

        Raises:
            UserError: another number of cameras than of films, an unknown name, films that show the same, or pictures of
                different heights.
        """
        self.share(scene)
        if cameras and len(cameras) != count:
            raise UserError(f"{count} films and {len(cameras)} cameras are named: name one camera for each film")
        if not per_film and len(set(cameras)) < count:
            raise UserError(
                f"the {count} films show one motion by one camera: name a camera for each (--camera), or what every film has of "
                "its own, such as its velocity at the start (--per-film)"
            )
        self.films = [_seen_by(scene, name) for name in cameras or [None] * count]
        self.per_film = tuple(dict.fromkeys(per_film))
        self.table = FilmsTable.of(scene.table, self.per_film, count)
        sizes = {film.camera.height for film in self.films if film.camera is not None}
        if len(sizes) != 1:
            raise UserError(f"the films' cameras have pictures of heights {sorted(sizes)}: give them one size (--size)")

    @property
    def camera(self) -> Camera:
        """The first film's, as wide as all pictures together."""
        return replace(self.films[0].camera, width=sum(film.camera.width for film in self.films))

    def description(self) -> dict[str, Any]:
        """Of the scene, and what is a film's own (``Scene.description``)."""
        own = {name: np.asarray(self.table.params[name].value).tolist() for name in self.table.params if MARK in name}
        return self.films[0].description() | {"films": [film.camera.name for film in self.films], "per_film": own}

    def rollout(self, parameters: Mapping[str, torch.Tensor] | None = None, **options: Any) -> FilmStates:
        """Simulate a batch of worlds for every film (``Scene.rollout``)."""
        films = self.films if self.per_film else self.films[:1]
        worlds = options.pop("worlds", None) or len(self.table.values(parameters)["gravity"])
        return FilmStates(
            tuple(film.rollout(self.values_of(k, parameters), worlds=worlds, **options) for k, film in enumerate(films))
        )

    def render(
        self, states: FilmStates, parameters: Mapping[str, torch.Tensor] | None = None, **options: Any
    ) -> torch.Tensor:
        """[B, T, H, W, 3] pictures of all films side by side (``Scene.render``)."""
        pictures = [
            film.render(motion, self.values_of(k, parameters), **options)
            for k, (film, motion) in enumerate(zip(self.films, self.motions_of(states), strict=True))
        ]
        return torch.cat(pictures, dim=-2)

    def motions_of(self, states: FilmStates) -> tuple[States, ...]:
        """The motion that each film shows."""
        return states.motions if self.per_film else states.motions * len(self.films)

    def values_of(self, film: int, parameters: Mapping[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
        """Parameter values of one film (from 0) under the scene's own names, out of those of all films."""
        own = [of_film(name, film + 1) for name in self.per_film]
        values = {name: torch.as_tensor(self.table.params[name].value) for name in own} | dict(parameters or {})
        of_this = {}
        for name, value in values.items():
            base, place = split_entry(name)
            plain, mark, number = base.partition(MARK)
            if not mark or number == str(film + 1):
                of_this[plain + "".join(f"[{i}]" for i in place)] = value
        return of_this


@dataclass
class FilmsTable(ParameterTable):
    """The numbers of several films; what all share is kept in the scene's own table, too.

    Attributes:
        shared: the scene's.
    """

    shared: ParameterTable | None = None

    @staticmethod
    def of(table: ParameterTable, per_film: Sequence[str], count: int) -> FilmsTable:
        """The table of a scene with these numbers once for every film.

        Raises:
            UserError: there is no such number.
        """
        for name in per_film:
            if name not in table.params:
                raise unknown_name_error("parameter of each film", name, list(table.params))
        params, signs = {}, {}
        for name, param in table.params.items():
            for other in [of_film(name, k + 1) for k in range(count)] if name in per_film else [name]:
                params[other] = param
                if name in table.signs:
                    signs[other] = table.signs[name]
        return FilmsTable(params, signs, table.per_area, shared=table)

    def set(self, name: str, value: Any) -> None:
        """Another value, in the scene itself where it is shared (``ParameterTable.set``)."""
        super().set(name, value)
        if split_entry(name)[0] in self.shared.params:
            self.shared.set(name, value)


@dataclass(frozen=True)
class FilmsWhitening:
    """Whitening of what is read of several films, as many numbers of each.

    Attributes:
        parts: of each film.
    """

    parts: tuple[Whitening, ...]

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        """Whitened observations [..., n', D] of the n' first frames, differentiable."""
        films = observations.chunk(len(self.parts), dim=-1)
        return torch.cat([part(film) for part, film in zip(self.parts, films, strict=True)], dim=-1)

    @property
    def gain(self) -> float:
        """As of ``Whitening``."""
        return sum(part.gain for part in self.parts) / len(self.parts)

    @property
    def looks(self) -> int:
        """In which the errors were seen."""
        return self.parts[0].looks


class FilmsLoss(PictureLoss):
    """Each film's pictures read by themselves, by a loss whose network takes pictures of one film."""

    def __init__(self, loss: PictureLoss) -> None:
        """The same loss for several films."""
        self.loss, self.kind, self.lasting, self.rough = loss, loss.kind, loss.lasting, loss.rough
        self.whitening: FilmsWhitening | None = None
        self._widths: list[int] = []

    def check(self, scene: Scene) -> None:
        """Every film (``Loss.check``); their pictures have one size."""
        self._widths = [film.camera.width for film in scene.films]
        if len(set(self._widths)) > 1:
            raise UserError(f"the films are {self._widths} pixels wide: the {self.kind} loss takes one size, give it with --size")
        for film in scene.films:
            self.loss.check(film)

    def appearance(self) -> dict[str, torch.Tensor]:
        """The loss's (``Loss.appearance``)."""
        return self.loss.appearance()

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """What is read from all films as one row (``PictureLoss.read``)."""
        parts = [self.loss.read(part.contiguous()) for part in pictures.split(self._widths, dim=-2)]
        leading = pictures.ndim - 3
        return torch.cat([part.flatten(leading) for part in parts], dim=-1)

    def whitened(
        self, scene: Scene, states: FilmStates, values: Mapping[str, torch.Tensor], frames: Sequence[int], *, seed: int = 0
    ) -> FilmsLoss | None:
        """What is read of every film weighed by itself (``Loss.whitened``)."""
        parts = []
        for k, (film, motion) in enumerate(zip(scene.films, scene.motions_of(states), strict=True)):
            single = self.loss.whitened(film, motion, scene.values_of(k, values), frames, seed=seed)
            if single is None or single.whitening is None:
                return None
            parts.append(single.whitening)
        weighed = copy(self)
        weighed.whitening = FilmsWhitening(tuple(parts))
        return weighed

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """The loss's, of every film by itself (``Loss.blocks``)."""
        share = int(np.prod(shape)) // len(self._widths)
        parts, first = [], 0
        for width in self._widths:
            parts.append(first + self.loss.blocks((share,), (size[0], width)))
            first = int(parts[-1].max()) + 1
        return np.concatenate(parts)

    def to_json(self) -> dict[str, Any]:
        """The loss, and the films' widths (``Loss.to_json``)."""
        weighed = {} if self.whitening is None else {"whitening_looks": self.whitening.looks}
        return self.loss.to_json() | {"films": self._widths} | weighed


def films_loss(loss: Loss) -> Loss:
    """The loss for several films.

    Raises:
        UserError: it compares no pictures.
    """
    if not isinstance(loss, PictureLoss):
        raise UserError(f"several films are compared by their pictures, and the {loss.kind} loss looks at none: choose another")
    return loss if isinstance(loss, PixelLoss) else FilmsLoss(loss)


def for_every_film(names: Iterable[str], per_film: Sequence[str], count: int) -> dict[str, str]:
    """Names with those of every film -> names as given: what is a film's own stands for all films where none is named."""
    plain = {}
    for name in names:
        own = split_entry(name)[0] in per_film
        plain |= {other: name for other in ([of_film(name, k + 1) for k in range(count)] if own else [name])}
    return plain


def values_for_every_film(given: Mapping[str, Any], per_film: Sequence[str], count: int) -> dict[str, Any]:
    """Values by names for every film; what a film's own name says goes before what all films are told."""
    every = {name: given[plain] for name, plain in for_every_film(given, per_film, count).items()}
    return every | {name: value for name, value in given.items() if MARK in name}


def _seen_by(scene: Scene, camera: str | None) -> Scene:
    """The scene with this camera as its first."""
    film = copy(scene)
    if camera is not None:
        film.film_with(camera)
    return film
