"""Films for networks: features of the pictures of EfficientNet-Lite0, and the numbers of their tosses, in parts of fifty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from risp_torch import PerceptualLoss, UserError, film, start
from studies.gradsim.tosses import NUMBERS, Toss, draw_toss, toss_scene
from ti_sim import Count, FromZero, checked

PART = 50  # films of a file
EVERY = 2  # of the frames are read
MAP = 4  # side of the feature maps
_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pictures, sRGB


@dataclass(frozen=True)
class NetworkFilms:
    """Films as networks see them.

    Attributes:
        features: [N, T, C, 4, 4] float16.
        known: [N, K] what everybody knows of a toss: logarithm of its volume, its sides, impulse and push.
        numbers: [N, 5] float64, natural logarithms of the mass [kg], kd, ke [SI] and of kf and mu.
    """

    features: np.ndarray
    known: np.ndarray
    numbers: np.ndarray

    @staticmethod
    def joined(batches: Sequence[NetworkFilms]) -> NetworkFilms:
        """Several after each other."""
        return NetworkFilms(*(np.concatenate([getattr(p, name) for p in batches]) for name in ("features", "known", "numbers")))


def known_numbers(toss: Toss) -> np.ndarray:
    """[13] what is known of a toss besides its film: logarithms of volume and sides, impulse per volume, point of the push and
    start velocity [SI].
    """
    impulse = np.array(toss.impulse) / toss.volume
    return np.concatenate([[math.log(toss.volume)], np.log(toss.sides), impulse, toss.point, toss.velocity])


def true_numbers(toss: Toss) -> np.ndarray:
    """[5] logarithms of mass, kd, ke, kf and mu."""
    values = [toss.values[name] for name in NUMBERS]
    return np.log([values[0] * toss.volume, *values[1:]])


def read_film(index: int, *, seed: int, units: str, size: int, frames: int, network: torch.nn.Module) -> tuple[np.ndarray, Toss]:
    """Features [T, C, 4, 4] float16 of a toss's film, and the toss."""
    toss = draw_toss(index, seed=seed, units=units)
    scene = toss_scene(toss, size=size, frames=frames)
    with torch.no_grad():
        pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
        sampled_frames = _srgb(pictures[0, ::EVERY].float().cpu()).permute(0, 3, 1, 2)
        mean, spread = torch.tensor(_MEAN)[:, None, None], torch.tensor(_SPREAD)[:, None, None]
        maps = network(((sampled_frames - mean) / spread).to(next(network.parameters())))[-1]
        features = functional.adaptive_avg_pool2d(maps, MAP)
    return features.half().cpu().numpy(), toss


def _srgb(linear: torch.Tensor) -> torch.Tensor:
    linear = linear.clamp(0, 1)
    return torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055)


@checked
def write_parts(folder: Path, *, seed: FromZero, units: str, size: Count, frames: Count, count: Count) -> None:
    """Write the missing parts of films 0 to ``count``; a part is whole or not there.

    Args:
        folder: of the parts.
        seed, units: of the tosses.
        size: side of the pictures [pixels].
        frames: frame intervals.
        count: films in all parts.
    """
    start(precision="f32")
    folder.mkdir(parents=True, exist_ok=True)
    network: torch.nn.Module | None = None
    for path, indices in planned_parts(folder, count):
        if path.is_file():
            continue
        network = PerceptualLoss().network if network is None else network
        films = [read_film(index, seed=seed, units=units, size=size, frames=frames, network=network) for index in indices]
        temporary = path.with_suffix(".part.npz")
        np.savez_compressed(
            temporary, features=np.stack([features for features, _ in films]),
            known=np.stack([known_numbers(toss) for _, toss in films]),
            numbers=np.stack([true_numbers(toss) for _, toss in films]), indices=np.array(indices),
        )  # fmt: skip
        temporary.replace(path)


def planned_parts(folder: Path, count: int) -> list[tuple[Path, list[int]]]:
    """Files of the parts, and the tosses of each."""
    return [
        (folder / f"films-{first:05d}.npz", list(range(first, min(first + PART, count)))) for first in range(0, count, PART)
    ]


def read_parts(folder: Path, count: int) -> list[NetworkFilms]:
    """The parts that are there, in their order.

    Raises:
        UserError: one holds other films.
    """
    batches = []
    for path, indices in planned_parts(folder, count):
        if not path.is_file():
            continue
        with np.load(path, allow_pickle=False) as file:
            if file["indices"].tolist() != indices:
                raise UserError(f"{path} holds other films: give another --out, or remove it")
            batches.append(NetworkFilms(file["features"], file["known"], file["numbers"]))
    return batches
