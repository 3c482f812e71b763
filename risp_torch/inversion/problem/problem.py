"""An inversion problem: unknowns, film and settings, with checks and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from numbers import Integral
from typing import Any

import numpy as np
import torch

from risp_torch.files.memory import check_memory
from risp_torch.files.suggest import unknown_name_error
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.effective_sample_size import block_size, with_design_effect
from risp_torch.inversion.problem.films.film_times import check_film_times
from risp_torch.inversion.problem.films.multi_film import Films, for_every_film, values_for_every_film
from risp_torch.inversion.problem.films.multi_film_loss import films_loss
from risp_torch.inversion.problem.films.target import Video, load_target, name_of
from risp_torch.inversion.problem.priors import PriorsGiven
from risp_torch.inversion.problem.search_stages import Search, SearchStages
from risp_torch.inversion.problem.unknowns import Bounds, UnknownNames, Unknowns, split_psi
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value, real_numbers


@dataclass(frozen=True)
class Problem:
    """Unknowns of a scene, the film that they are read from, and how they are searched.

    Attributes:
        scene: the scene, or several films of it (``Films``).
        video: the film as it was given, or a list of several; None for a loss that needs no film.
        pictures: [T, H, W, 3] linear rgb of the film, several side by side; None without a film.
        comparison: loss, and what it observed of the film.
        unknowns: the unknowns.
        initial: [S, K] guesses, physical units.
        search: stages of the search, with settings of its steps.
        is_intermediate: whether a search with another loss begins at the estimate: then that one tests the scene's numbers.
        seed: seed of the random samples.
    """

    scene: Scene
    video: Any
    pictures: torch.Tensor | None
    comparison: Comparison
    unknowns: Unknowns
    initial: np.ndarray
    search: SearchStages
    is_intermediate: bool = False
    seed: int = 0

    @staticmethod
    def of(
        scene: Scene, video: Video | Sequence[Video] | None, unknown: UnknownNames,
        *, loss: Loss | None = None, sampling: str = "all", bounds: Bounds | None = None, priors: PriorsGiven | None = None,
        starts: int | Sequence[Mapping[str, Any]] = 4, search: Search | None = None, seed: int = 0, is_intermediate: bool = False,
    ) -> Problem:  # fmt: skip
        """The problem that the arguments of ``invert`` describe.

        Raises:
            UserError: a name, start, video, loss or prior is invalid.
        """
        loss, search = loss or PixelLoss(), SearchStages.of(search)
        unknown, psi = split_psi(unknown)
        if isinstance(video, list | tuple) or isinstance(scene, Films):
            video = list(video) if isinstance(video, list | tuple) else [video]
            scene = scene if isinstance(scene, Films) else Films(scene, len(video))
            loss, film_layout = films_loss(loss), (scene.per_film, len(video))
            unknown, bounds = list(for_every_film(unknown, *film_layout)), values_for_every_film(bounds or {}, *film_layout)
            priors = values_for_every_film(priors or {}, *film_layout)
            starts = starts if isinstance(starts, Integral) else [values_for_every_film(start, *film_layout) for start in starts]
        unknowns = Unknowns.of(scene, unknown, bounds=bounds, psi=psi, priors=priors)
        check_film_times(scene, unknowns)
        search = search.resolved(loss, len(unknowns.labels))
        loss.check(scene)
        first_frames = search.steps.first_frames
        if first_frames is not None and first_frames > scene.frames:
            raise UserError(f"first_frames is {first_frames}, and the film has {scene.frames} frame intervals: give fewer")
        pictures = None if video is None else load_target(scene, video)
        comparison = Comparison.of(scene, loss, pictures, sampling)
        if unknowns.priors:
            unknowns = with_design_effect(unknowns, block_size(comparison), comparison.noise_floor(pictures))
        initial = _starts(unknowns, starts, pictures, seed)
        return Problem(scene, video, pictures, comparison, unknowns, initial, search, is_intermediate, seed)

    @property
    def loss(self) -> Loss:
        """The loss of the comparison."""
        return self.comparison.loss

    @property
    def max_linearised(self) -> int:
        """Unknowns up to which there are Gauss-Newton steps and error bars."""
        return self.search.max_linearised(self.loss)

    @property
    def is_linearised(self) -> bool:
        """Whether there are Gauss-Newton steps and error bars."""
        return len(self.unknowns.labels) <= self.max_linearised

    def to_json(self, sampling: str) -> dict[str, Any]:
        """All data that determine the result: a run is resumed only if they are equal."""
        pictures, unknowns, search = self.pictures, self.unknowns, self.search
        return {
            "scene": self.scene.description(),
            "video": name_of(self.video),
            "video_sha256": None if pictures is None else sha256(pictures.float().cpu().numpy().tobytes()).hexdigest(),
            "unknown": {
                name: {"low": np.asarray(p.low).tolist(), "high": np.asarray(p.high).tolist(), "scale": p.scale}
                for name, p in unknowns.params.items()
            },
            "psi": None if unknowns.appearance is None else unknowns.appearance.to_json(),
            "initial": self.initial.tolist(),
            "search": {name: value for name, value in asdict(search.steps).items() if name != "adjoint"},  # gradients are equal
            "refine": search.refine,
            "seed": self.seed,
            "precision": str(bridge_dtype()),
            "loss": self.loss.to_json(),
            "sampling": sampling,
            "linearise_up_to": search.linearise_up_to,
            "smooth": dict(unknowns.smoothness.specification),
            "priors": dict(unknowns.priors.specification),
            "find_start": search.find_start and asdict(search.find_start),
            "warm_start": search.warm_start and asdict(search.warm_start),
        }


def _starts(
    unknowns: Unknowns, starts: int | Sequence[Mapping[str, Any]], pictures: torch.Tensor | None, seed: int
) -> np.ndarray:
    """Guesses [S, K]: spread over the allowed ranges, or given by the user."""
    if not isinstance(starts, Integral):
        return _given_starts(unknowns, starts)
    if isinstance(pictures, torch.Tensor):  # each has its own film and gradient
        check_memory(2 * int(starts) * pictures.nbytes, f"the films of {starts} starts", "take fewer --starts")
    return unknowns.starts(int(starts), seed)


def _given_starts(unknowns: Unknowns, starts: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Guesses [S, K] given by the user, by parameters or by labels; parameters missing in a guess have the scene's value."""
    rows = []
    for start in starts:
        if set(start) == set(unknowns.labels) and set(start) != set(unknowns.params):  # the estimate of another search
            rows.append(np.array([start[label] for label in unknowns.labels]))
            continue
        for name in start:
            if name not in unknowns.params:
                raise unknown_name_error("unknown", name, list(unknowns.params))
        row = []
        for name, param in unknowns.params.items():
            value = real_numbers(start.get(name, param.value))
            if value is None:
                raise UserError(f"start of {name} is {format_value(start[name])}: give numbers")
            if value.shape != np.shape(param.value):
                raise UserError(f"start of {name} has shape {value.shape}, and {np.shape(param.value)} is needed")
            row.append(value.astype(np.float64).ravel())
        rows.append(np.concatenate(row))
    if not rows:
        raise UserError("no starts were given: give a number of starts, or at least one guess")
    return np.array(rows)
