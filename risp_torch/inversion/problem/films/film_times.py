"""Whether the bounds of a film's unknown times can be simulated."""

from __future__ import annotations

from itertools import product

import torch

from risp_torch.inversion.problem.films.multi_film import Films, film_parameter_name
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.parts.clock import RATE, START
from risp_torch.scene.scene import Scene
from risp_torch.scene.simulation.filming import check_earliest


def check_film_times(scene: Scene, unknowns: Unknowns) -> None:
    """Raise a UserError if a bound of film.start or film.rate puts the first picture too long before the scene's start."""
    if scene.clock is None:
        return
    first = scene.film_times[:1]
    films = range(1, len(scene.films) + 1) if isinstance(scene, Films) else [0]
    for film in films:
        for start, rate in product(*(_bounds_of(scene, unknowns, name, film) for name in (START, RATE))):
            values = {START: torch.tensor([start]), RATE: torch.tensor([rate])}
            check_earliest(scene.clock.scene_times(values, first), scene.frame_dt)


def _bounds_of(scene: Scene, unknowns: Unknowns, name: str, film: int) -> tuple[float, ...]:
    """Bounds of an unknown number of a film (from 1; 0 for a single one), or its given value."""
    names = [candidate for candidate in (name, film_parameter_name(name, film)) if candidate in scene.table.params]
    unknown = next((unknowns.params[candidate] for candidate in names if candidate in unknowns.params), None)
    if unknown is None:
        return (float(scene.table[names[0]].value),)
    return float(unknown.low), float(unknown.high)
