"""Several films of one scene as one film, with shared parameters and parameters of each film.

The films are placed side by side in one wide image, and parameters of a film have its number in their names
("body.velocity@2"), so that search, error bars and reports handle one scene and one film.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.parameters import ParameterTable, split_entry
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

MARK = "@"  # separates the name of a parameter from the number of its film


def film_parameter_name(name: str, film: int) -> str:
    """Name of a parameter, or of an entry, of one film: "body.velocity@2[0]"; films are numbered from 1."""
    base, index = split_entry(name)
    return f"{base}{MARK}{film}" + "".join(f"[{i}]" for i in index)


@dataclass(frozen=True)
class FilmStates:
    """Motions of a batch of worlds in several films.

    Attributes:
        motions: one for each film, or a single one for all films.
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
    """A scene with several films. Its images are those of all films side by side."""

    @checked
    def __init__(self, scene: Scene, count: Count, *, cameras: Sequence[str] = (), per_film: Sequence[str] = ()) -> None:
        """Make several films of a scene.

        Args:
            scene: the scene; later changes of it have no effect.
            count: number of films.
            cameras: name of the camera of each film; by default the first camera for all.
            per_film: parameters that differ between films, such as initial velocities; without any, the films
                show the same motion.

        Raises:
            UserError: another number of cameras than of films, an unknown name, identical films, or images of
                different heights.
        """
        self.share(scene)
        if cameras and len(cameras) != count:
            raise UserError(f"{count} films and {len(cameras)} cameras are named: name one camera for each film")
        if not per_film and len(set(cameras)) < count:
            raise UserError(
                f"the {count} films show one motion by one camera: name a camera for each (--camera), or parameters of each film "
                "such as its initial velocity (--per-film)"
            )
        self.films = [_for_camera(scene, name) for name in cameras or [None] * count]
        self.per_film = tuple(dict.fromkeys(per_film))
        self.table = FilmsTable.of(scene.table, self.per_film, count)
        sizes = {film.camera.height for film in self.films if film.camera is not None}
        if len(sizes) != 1:
            raise UserError(f"the films' cameras have images of heights {sorted(sizes)}: give them one size (--size)")

    @property
    def camera(self) -> Camera:
        """The camera of the first film, with the width of all images together."""
        return replace(self.films[0].camera, width=sum(film.camera.width for film in self.films))

    def description(self) -> dict[str, Any]:
        """Description of the scene and of the parameters of each film (``Scene.description``)."""
        per_film_values = {name: np.asarray(self.table.params[name].value).tolist() for name in self.table.params if MARK in name}
        return self.films[0].description() | {"films": [film.camera.name for film in self.films], "per_film": per_film_values}

    def rollout(self, parameters: Mapping[str, torch.Tensor] | None = None, **options: Any) -> FilmStates:
        """Simulate a batch of worlds for every film (``Scene.rollout``)."""
        films = self.films if self.per_film else self.films[:1]
        worlds = options.pop("worlds", None) or len(self.table.values(parameters)["gravity"])
        return FilmStates(
            tuple(film.rollout(self.values_of(k, parameters), worlds=worlds, **options) for k, film in enumerate(films))
        )

    def render(self, states: FilmStates, parameters: Mapping[str, torch.Tensor] | None = None, **options: Any) -> torch.Tensor:
        """[B, T, H, W, 3] images of all films side by side (``Scene.render``)."""
        pictures = [
            film.render(motion, self.values_of(k, parameters), **options)
            for k, (film, motion) in enumerate(zip(self.films, self.motions_of(states), strict=True))
        ]
        return torch.cat(pictures, dim=-2)

    def motions_of(self, states: FilmStates) -> tuple[States, ...]:
        """The motion that each film shows."""
        return states.motions if self.per_film else states.motions * len(self.films)

    def values_of(self, film: int, parameters: Mapping[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
        """Parameter values of one film (from 0) under the scene's own names, from those of all films."""
        film_names = [film_parameter_name(name, film + 1) for name in self.per_film]
        values = {name: torch.as_tensor(self.table.params[name].value) for name in film_names} | dict(parameters or {})
        film_values = {}
        for name, value in values.items():
            base, index = split_entry(name)
            scene_name, mark, number = base.partition(MARK)
            if not mark or number == str(film + 1):
                film_values[scene_name + "".join(f"[{i}]" for i in index)] = value
        return film_values


@dataclass
class FilmsTable(ParameterTable):
    """The parameters of several films; shared ones are also in the scene's own table.

    Attributes:
        shared: table of the scene.
    """

    shared: ParameterTable | None = None

    @staticmethod
    def of(table: ParameterTable, per_film: Sequence[str], count: int) -> FilmsTable:
        """The table of a scene with these parameters repeated for every film.

        Raises:
            UserError: a parameter is unknown.
        """
        for name in per_film:
            if name not in table.params:
                raise unknown_name_error("parameter of each film", name, list(table.params))
        params, signs = {}, {}
        for name, param in table.params.items():
            for repeated_name in [film_parameter_name(name, k + 1) for k in range(count)] if name in per_film else [name]:
                params[repeated_name] = param
                if name in table.signs:
                    signs[repeated_name] = table.signs[name]
        return FilmsTable(params, signs, table.per_area, shared=table)

    def set(self, name: str, value: Any) -> None:
        """Set a value; a shared parameter is also set in the scene (``ParameterTable.set``)."""
        super().set(name, value)
        if split_entry(name)[0] in self.shared.params:
            self.shared.set(name, value)


def for_every_film(names: Iterable[str], per_film: Sequence[str], count: int) -> dict[str, str]:
    """Names for every film -> names as given: a per-film parameter without a film's name means those of all films."""
    given_names = {}
    for name in names:
        is_per_film = split_entry(name)[0] in per_film
        given_names |= {
            repeated_name: name
            for repeated_name in ([film_parameter_name(name, k + 1) for k in range(count)] if is_per_film else [name])
        }
    return given_names


def values_for_every_film(values: Mapping[str, Any], per_film: Sequence[str], count: int) -> dict[str, Any]:
    """Values by names for every film; a value for one film overrides a value for all films."""
    film_values = {name: values[given_name] for name, given_name in for_every_film(values, per_film, count).items()}
    return film_values | {name: value for name, value in values.items() if MARK in name}


def _for_camera(scene: Scene, camera: str | None) -> Scene:
    """The scene with this camera as its first."""
    film = copy(scene)
    if camera is not None:
        film.film_with(camera)
    return film
