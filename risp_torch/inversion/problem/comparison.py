"""A loss, the observations of the target, and the compared frames: the input of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.losses.loss import Loss, PictureLoss, mean_square
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.arrays import Array
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import Count, checked
from ti_sim.rollout.adjoint import Adjoint

MAX_OBSERVATIONS = 2**27  # largest number of observations that are computed at once without gradients
NOISE_FLOOR_FRAMES = 12  # frames of a film from which ``noise_floor`` is estimated


@dataclass(frozen=True)
class Comparison:
    """Comparison of films with a target.

    Attributes:
        loss: the loss.
        target: observations of the target, [n, ...].
        frames: n frame numbers, ascending.
        blocks: [D] block index of a frame's observations; errors are correlated within a block (``Loss.blocks``).
    """

    loss: Loss
    target: torch.Tensor
    frames: tuple[int, ...]
    blocks: np.ndarray

    @staticmethod
    def of(scene: Scene, loss: Loss, video: torch.Tensor | None, sampling: str = "all") -> Comparison:
        """Make a comparison with a target.

        Args:
            scene: the scene.
            loss: the loss.
            video: [T, H, W, 3] linear rgb with T > frames of the scene; None for a loss that needs no film.
            sampling: which frames are compared (``sampled_frames``).

        Raises:
            UserError: the loss does not fit the scene, or needs a film; or an unknown sampling.
        """
        if video is None and loss.needs_film:
            raise UserError(f"the {loss.kind} loss compares films: give the target's video")
        video = None if video is None else video.to(bridge_device())
        loss.check(scene)
        loss = loss.bind_target(video)
        frames = loss.known_frames(scene, sampled_frames(sampling, scene.frames))
        target = loss.of_target(scene, video, frames).to(bridge_device())
        size = (0, 0) if video is None else tuple(video.shape[1:3])
        return Comparison(loss, target, frames, loss.blocks(target.shape[1:], size))

    @staticmethod
    def of_target(target: torch.Tensor | Comparison) -> Comparison:
        """The given comparison, or a comparison of all pixels with a film [T, H, W, 3]."""
        if isinstance(target, Comparison):
            return target
        loss, target = PixelLoss(), target.to(bridge_device())
        return Comparison(loss, target, tuple(range(len(target))), loss.blocks(target.shape[1:], tuple(target.shape[1:3])))

    def coarse(self) -> Comparison:
        """The comparison for the search from the starts (``Loss.coarse``)."""
        return replace(self, loss=self.loss.coarse())

    def frozen_at(self, scene: Scene, values: Mapping[str, torch.Tensor]) -> Comparison:
        """The comparison for differences about a point (``Loss.frozen_at``): values [1, ...] that replace the scene's."""
        if type(self.loss).frozen_at is Loss.frozen_at:
            return self
        with torch.no_grad():
            states = scene.rollout(values, worlds=1, frames=max(self.last, 1))
            loss = self.loss.frozen_at(scene, states, values, _frames_or_none(self.frames))
        return self if loss is self.loss else replace(self, loss=loss)

    @property
    def last(self) -> int:
        """The last compared frame."""
        return self.frames[-1]

    @property
    def worlds_at_once(self) -> int:
        """Worlds whose observations fit into memory together."""
        return max(1, min(64, MAX_OBSERVATIONS // self.target.numel()))

    def whitened(self, scene: Scene, values: Mapping[str, torch.Tensor], *, seed: int = 0) -> Comparison | None:
        """The same comparison with whitened observations (``Loss.whitened``); None if it is not known how to whiten them.

        Args:
            scene: the scene.
            values: parameter values [1, ...] of a motion near the target's.
            seed: seed of the random samples.

        Raises:
            DivergenceError: these values cannot be simulated.
        """
        if self.loss.whitening is not None:
            return self
        with torch.no_grad():
            loss = self.loss.whitened(scene, scene.rollout(values, worlds=1), values, self.frames, seed=seed)
        if loss is None or loss.whitening is None:
            return None
        return replace(self, loss=loss, target=loss.whitening(self.target))

    def noise_floor(self, pictures: torch.Tensor | None) -> float:
        """``Loss.noise_floor`` from the first compared frames of a film [T, H, W, 3], or None."""
        if pictures is None or not isinstance(self.loss, PictureLoss):
            return self.loss.noise_floor(self.target.new_zeros((0, 0, 0, 3)))
        return self.loss.noise_floor(pictures[list(self.frames)[:NOISE_FLOOR_FRAMES]])

    @property
    def observation_count(self) -> float:
        """Number of observations that count, at least 1."""
        return self.observation_count_of(self.frames)

    def observation_count_of(self, frames: tuple[int, ...]) -> float:
        """Number of observations of some frames that count, at least 1 (``Loss.count``)."""
        return max(1.0, self.loss.count(frames, self.target.shape[1:]))

    def frames_up_to(self, horizon: int | None) -> tuple[int, ...]:
        """The compared frames up to a horizon, at least two if there are two; all without a horizon."""
        return self.frames if horizon is None else self.frames[: max(2, sum(frame <= horizon for frame in self.frames))]

    def observe(
        self,
        scene: Scene,
        values: Mapping[str, torch.Tensor],
        *,
        worlds: int,
        horizon: int | None = None,
        adjoint: Adjoint | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Simulate a batch of worlds and observe them.

        Args:
            scene: the scene.
            values: parameter values [B, ...] that replace the scene's own.
            worlds: B.
            horizon: frame intervals that are compared, all by default; at least the first two compared frames.
            adjoint: how states are kept for the gradient.

        Returns:
            Observations [B, n', ...] of the first n' compared frames, and which worlds stayed finite, [B] bool.
        """
        compared_frames = self.frames_up_to(horizon)
        states = scene.rollout(
            values, worlds=worlds, frames=max(compared_frames[-1], 1), adjoint=adjoint
        )  # one frame interval at least
        return self.loss.observe(scene, states, values, _frames_or_none(compared_frames)), states.finite

    def losses(
        self,
        scene: Scene,
        values: Mapping[str, torch.Tensor],
        *,
        worlds: int,
        horizon: int | None = None,
        adjoint: Adjoint | None = None,
    ) -> torch.Tensor:
        """Loss of every world [B], NaN where it diverged (arguments: ``observe``)."""
        observations, finite = self.observe(scene, values, worlds=worlds, horizon=horizon, adjoint=adjoint)
        losses = mean_square(observations, self.target, self.observation_count_of(self.frames[: observations.shape[1]]))
        return torch.where(finite.to(losses.device), losses, torch.full_like(losses, torch.nan))


def _frames_or_none(frames: tuple[int, ...]) -> tuple[int, ...] | None:
    """Frame numbers; None for all frames of a film that ends with the last one."""
    return None if len(frames) == max(frames[-1], 1) + 1 else frames


@checked
def film_losses(
    scene: Scene, values: Mapping[str, Array], target: torch.Tensor | Comparison, *, worlds: Count, most: Count = 8
) -> torch.Tensor:
    """Losses of many worlds without gradients, a few worlds at a time; infinite for worlds that diverged, [B].

    Args:
        scene: the scene.
        values: parameter values [B, ...] that replace the scene's own.
        target: a film [T, H, W, 3] to compare by pixels, or any comparison.
        worlds: B.
        most: largest number of worlds that are simulated together, if their observations fit into memory.
    """
    comparison = Comparison.of_target(target)
    chunk = min(most, comparison.worlds_at_once)
    losses = []
    for first in range(0, worlds, chunk):
        batch = {name: value[first : first + chunk] for name, value in values.items()}
        count = min(chunk, worlds - first)
        with torch.no_grad():
            try:
                loss = comparison.losses(scene, batch, worlds=count)
                losses.append(torch.where(loss.isnan(), torch.full_like(loss, torch.inf), loss))
            except DivergenceError:
                losses.append(comparison.target.new_full((count,), torch.inf))
    return torch.cat(losses)


@checked
def sampled_frames(sampling: str, frames: Count) -> tuple[int, ...]:
    """The compared frames of a film.

    Args:
        sampling: "all", "last", "first+last", "first+middle", "every:K" for frames 0, K, 2 K ..., or "list:0,3,10-20" for these.
        frames: frame intervals of the film.

    Returns:
        Frame numbers, ascending.

    Raises:
        UserError: an unknown sampling, a K that is not an integer from 1 to ``frames``, or a list with other frames.
    """
    frames_by_name = {
        "all": range(frames + 1), "last": (frames,), "first+last": (0, frames), "first+middle": (0, max(1, frames // 2))
    }  # fmt: skip
    if sampling in frames_by_name:
        return tuple(frames_by_name[sampling])
    kind, colon, number = sampling.partition(":")
    if kind == "list" and colon:
        return _listed_frames(number, frames)
    if kind != "every" or not colon:
        raise UserError(
            f"sampling {sampling!r} is unknown: choose all, last, first+last, first+middle, every:K or list:0,3,10-20"
        )
    if not number.isdecimal() or not 1 <= int(number) <= frames:
        raise UserError(f"sampling {sampling!r} takes frames of a film of {frames} intervals: give every:1 to every:{frames}")
    return tuple(range(0, frames + 1, int(number)))


def _listed_frames(text: str, frames: int) -> tuple[int, ...]:
    """Frame numbers of "0,3,10-20", ascending."""
    listed: set[int] = set()
    for span in text.split(","):
        first, dash, last = span.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= frames):
            raise UserError(
                f"sampling 'list:{text}' takes frames of a film of {frames} intervals, and {span.strip()!r} is none: give "
                f"numbers from 0 to {frames}, or parts such as 3-{max(3, frames)}"
            )
        listed |= set(range(int(first), int(last) + 1))
    return tuple(sorted(listed))
