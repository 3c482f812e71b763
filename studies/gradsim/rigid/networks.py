"""Networks that read the numbers of a toss from its film: the ConvNet of gradSim's appendix H.2, and a ConvLSTM.

The paper's table says ConvLSTM (after Xu et al. 2019) and its appendix describes convolutions of all frames' features, joined,
and linear layers: both are here. Features are those of EfficientNet-Lite0, frozen, as the paper's of B0. Unlike there, the
networks are also given what every other method knows (volume, sides, impulse), and learn logarithms, whose errors are relative.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from risp_torch import UserError
from studies.gradsim.rigid.network_films import MAP, NetworkFilms, planned_parts, read_parts, write_parts
from ti_sim import Count, Positive, Seed, checked

Kind = Literal["convnet", "convlstm"]
_PAUSE = 0.2  # s between looks for the first films


@checked
@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Settings of a training.

    Attributes:
        kind: of the network.
        epochs: over all films; passes over those that are there while others are made come on top.
        batch: films of a step.
        rate: of Adam (the paper: 1e-4).
        held: part of the films that chooses the epoch.
        seed: of weights and order.
    """

    kind: Kind
    epochs: Count = 100
    batch: Count = 32
    rate: Positive = 1e-4
    held: Positive = 0.1
    seed: Seed = 0


class ConvNet(nn.Module):
    """1 x 1 convolutions of each frame's map to 128 and 32 channels, all frames joined, linear layers of 1024 and 3 x 100."""

    def __init__(self, frames: int, channels: int, known: int, outputs: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(nn.Conv2d(channels, 128, 1), nn.ReLU(), nn.Conv2d(128, 32, 1), nn.ReLU())
        self.linear = _linear(frames * 32 * MAP * MAP + known, (1024, 100, 100, 100), outputs)

    def forward(self, features: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """[n, outputs] of features [n, T, C, 4, 4] and known numbers [n, K]."""
        maps = self.convolutions(features.flatten(0, 1)).reshape(len(features), -1)
        return self.linear(torch.cat([maps, known], dim=1))


class ConvLSTM(nn.Module):
    """A convolutional LSTM (Shi et al. 2015) over the frames' maps, 32 channels, and linear layers of its last state."""

    def __init__(self, frames: int, channels: int, known: int, outputs: int) -> None:
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(channels, 32, 1), nn.ReLU())
        self.gates = nn.Conv2d(64, 128, 3, padding=1)
        self.linear = _linear(32 * MAP * MAP + known, (100, 100, 100), outputs)

    def forward(self, features: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """[n, outputs] of features [n, T, C, 4, 4] and known numbers [n, K]."""
        rows = self.reduce(features.flatten(0, 1)).unflatten(0, features.shape[:2])
        hidden = cell = torch.zeros_like(rows[:, 0])
        for frame in rows.unbind(1):
            into, forget, out, new = self.gates(torch.cat([frame, hidden], dim=1)).chunk(4, dim=1)
            cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
        return self.linear(torch.cat([hidden.flatten(1), known], dim=1))


def _linear(inputs: int, layers: tuple[int, ...], outputs: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for width in layers:
        modules += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(inputs, outputs))


NETWORKS = {"convnet": ConvNet, "convlstm": ConvLSTM}


@dataclass(frozen=True)
class Scales:
    """Means and standard deviations, of the training films, that make inputs and outputs of unit size."""

    known: tuple[torch.Tensor, torch.Tensor]
    numbers: tuple[torch.Tensor, torch.Tensor]

    @staticmethod
    def of(films: NetworkFilms) -> Scales:
        """Of some films."""
        pairs = []
        for rows in (films.known, films.numbers):
            spread = rows.std(axis=0)
            pairs.append((torch.tensor(rows.mean(axis=0)).float(), torch.tensor(np.where(spread > 0, spread, 1.0)).float()))
        return Scales(*pairs)

    def inputs(self, films: NetworkFilms) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and scaled known numbers of films."""
        mean, spread = self.known
        return torch.from_numpy(films.features).float(), (torch.tensor(films.known).float() - mean) / spread

    def targets(self, films: NetworkFilms) -> torch.Tensor:
        """Scaled numbers [n, 5] of films."""
        mean, spread = self.numbers
        return (torch.tensor(films.numbers).float() - mean) / spread


def trained(
    *, kinds: list[Kind], folder: str, seed: int, units: str, size: int, frames: int, count: int, test: list[int], epochs: int
) -> Mapping[str, Any]:
    """Train networks, on the films that are there while the others are made, and read the held-out films, as a cell.

    Args:
        kinds: of the networks, one after the other.
        folder: of the films; missing ones are made by a process beside this one.
        seed, units: of the tosses.
        size: side of the pictures [pixels].
        frames: frame intervals.
        count: films of the training; those after them are held out.
        test: indices of the held-out films.
        epochs: of the training.

    Returns:
        By kind: "values": [n, 5] logarithms of the numbers of the held-out films; "truth": the true ones; "curve": losses of
        training and of its held part after every epoch; "epoch": the one that was chosen; "early": passes before all films were
        there; "seconds": of the training.
    """
    films, every = Path(folder), max(test) + 1
    maker = multiprocessing.get_context("spawn").Process(
        target=write_parts, args=(films,), kwargs={"seed": seed, "units": units, "size": size, "frames": frames, "count": every}
    )
    maker.start()
    try:
        return {
            kind: _train(NetworkSettings(kind=kind, epochs=epochs, seed=seed), films, count, every, test, maker) for kind in kinds
        }
    finally:
        if maker.is_alive():
            maker.terminate()
        maker.join()


def parts_of(count: int, held_out: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """First film and end of those that a network learns from, and of those that choose its epoch, a share ``held_out`` of them.

    Raises:
        UserError: there is one film only.
    """
    if count < 2:
        raise UserError(f"a network is trained on {count} film, and another must choose its epoch: give two or more")
    last = min(max(1, round(count * (1 - held_out))), count - 1)
    return (0, last), (last, count)


def _train(
    settings: NetworkSettings, films_folder: Path, count: int, every: int, test: list[int], maker: Any
) -> dict[str, Any]:
    """The training beside a process that makes films."""
    torch.manual_seed(settings.seed)
    began = time.perf_counter()
    batches = _waited_for(films_folder, every, maker, least=1)
    num_known = len(batches[0].known[0])
    _, frames, channels, _, _ = batches[0].features.shape
    network = NETWORKS[settings.kind](frames, channels, num_known, batches[0].numbers.shape[1])
    adam = torch.optim.Adam(network.parameters(), lr=settings.rate)
    learning, choosing = parts_of(count, settings.held)
    early, num_batches = 0, len(planned_parts(films_folder, every))
    while len(batches) < num_batches and maker.is_alive():  # while films are made
        films = _cut(NetworkFilms.joined(batches), *learning)
        _epoch(network, adam, Scales.of(films), films, settings)
        early, batches = early + 1, read_parts(films_folder, every)
    films = NetworkFilms.joined(_waited_for(films_folder, every, maker, least=num_batches))
    learnt, validation = (_cut(films, *span) for span in (learning, choosing))
    scales, curve, best, weights = Scales.of(learnt), [], (np.inf, 0), network.state_dict()
    for epoch in range(settings.epochs):
        loss = _epoch(network, adam, scales, learnt, settings)
        checked_loss = float(((_read(network, scales, validation) - scales.targets(validation)) ** 2).mean())
        curve.append((loss, checked_loss))
        if checked_loss < best[0]:
            best, weights = (checked_loss, epoch), {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    unseen = _cut(films, count, every)
    mean, spread = scales.numbers
    chosen = [index - count for index in test]
    return {
        "values": (_read(network, scales, unseen) * spread + mean)[chosen], "truth": unseen.numbers[chosen], "curve": curve,
        "epoch": best[1], "early": early, "mean": films.numbers[:count].mean(axis=0),
        "parameters": sum(p.numel() for p in network.parameters()), "seconds": time.perf_counter() - began,
    }  # fmt: skip


def _waited_for(films_folder: Path, every: int, maker: Any, *, least: int) -> list[NetworkFilms]:
    """The parts, as soon as there are at least so many.

    Raises:
        UserError: their maker has ended before.
    """
    while True:
        alive, batches = maker.is_alive(), read_parts(films_folder, every)
        if len(batches) >= least:
            return batches
        if not alive:
            raise UserError(f"the films in {films_folder} could not be made (exit status {maker.exitcode})")
        time.sleep(_PAUSE)


def _cut(films: NetworkFilms, first: int, stop: int) -> NetworkFilms:
    return NetworkFilms(films.features[first:stop], films.known[first:stop], films.numbers[first:stop])


def _epoch(
    network: nn.Module, adam: torch.optim.Optimizer, scales: Scales, films: NetworkFilms, settings: NetworkSettings
) -> float:
    """One pass over films in a random order; the mean loss."""
    features, known_numbers = scales.inputs(films)
    targets, total = scales.targets(films), 0.0
    network.train()
    for rows in torch.randperm(len(targets)).split(settings.batch):
        loss = ((network(features[rows], known_numbers[rows]) - targets[rows]) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        total += loss.item() * len(rows)
    return total / len(targets)


def _read(network: nn.Module, scales: Scales, films: NetworkFilms) -> torch.Tensor:
    """Scaled outputs [n, 5] for films."""
    network.eval()
    with torch.no_grad():
        features, known_numbers = scales.inputs(films)
        return torch.cat([network(a, b) for a, b in zip(features.split(32), known_numbers.split(32), strict=True)])
