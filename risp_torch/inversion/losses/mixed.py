"""Several losses in one: each in units of its noise, so that error bars are those of all observations together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.losses.loss import Loss
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

MAX_POWER_RATIO = 4.0  # times the stated noise power: a part with a larger mean squared residual is doubted


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class MixedPart:
    """One loss of a mix.

    Attributes:
        loss: the loss.
        noise: standard deviation of its observations' errors, in their units: colours for pixels, shares of a pixel on an edge
            for masks, pixels for image tracks, metres for depths. By default that of the loss, or else its ``usual_noise``.
        weight: number of observations that one counts as.

    Raises:
        UserError: neither the loss nor the part states a noise.
    """

    loss: Any
    noise: Positive | None = None
    weight: Positive = 1.0

    def __post_init__(self) -> None:
        noise = self.noise or self.loss.noise or self.loss.usual_noise
        if noise is None:
            raise UserError(f"the {self.loss.kind} loss in a mix needs a noise level: state the standard deviation of its errors")
        object.__setattr__(self, "noise", float(noise))

    @property
    def scale(self) -> float:
        """Factor of the observations."""
        return float(self.weight) ** 0.5 / self.noise

    def to_json(self) -> dict[str, Any]:
        """Loss, noise and weight."""
        return {"loss": self.loss.to_json(), "noise": self.noise, "weight": float(self.weight)}


class MixedLoss(Loss):
    """Squared differences of several losses, each divided by its noise, over all their observations.

    The observations of a frame are concatenated. Where a part has no target at a frame, they are zero and do not count. The
    noise is stated: it explains a loss of 1.
    """

    kind = "mixed"
    noise = 1.0

    @checked
    def __init__(self, *terms: Loss | MixedPart) -> None:
        """A mix of losses.

        Args:
            terms: losses, with noise and weight or with those they have by themselves.

        Raises:
            UserError: there is no part, or a part states no noise.
        """
        if not terms:
            raise UserError("a mix of losses has no part: give some losses")
        self.parts = [term if isinstance(term, MixedPart) else MixedPart(loss=term) for term in terms]
        losses = [term.loss for term in self.parts]
        self.kind = "+".join(loss.kind for loss in losses)
        for name in ("needs_film", "temporally_correlated", "non_smooth", "of_pictures", "compression_by_refit", "serial"):
            setattr(self, name, any(getattr(loss, name) for loss in losses))
        self._frames: list[tuple[int, ...]] = []  # of each part
        self._shapes: list[tuple[int, ...]] = []  # of each part's observations of a frame

    def bind_target(self, video: torch.Tensor | None) -> MixedLoss:
        """The parts' losses for a film (``Loss.bind_target``)."""
        return self._with_losses([term.loss.bind_target(video) for term in self.parts])

    def rebind_target(self, video: torch.Tensor) -> MixedLoss:
        """The parts' losses for a similar film (``Loss.rebind_target``)."""
        return self._with_losses([term.loss.rebind_target(video) for term in self.parts])

    def coarse(self) -> MixedLoss:
        """The parts' losses for the search (``Loss.coarse``)."""
        return self._with_losses([term.loss.coarse() for term in self.parts])

    def frozen_at(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None,
        *, follows: bool = True,
    ) -> MixedLoss:  # fmt: skip
        """The parts' losses for differences about a motion (``Loss.frozen_at``)."""
        frames = range(states.placement.shape[1]) if frames is None else frames
        term_frames = [[frame for frame in frames if frame in known_frames] for known_frames in self._frames]
        pairs = zip(self.parts, term_frames, strict=True)
        simulated = scene, states, values
        return self._with_losses(
            [
                term.loss.frozen_at(*simulated, compared_frames, follows=follows) if compared_frames else term.loss
                for term, compared_frames in pairs
            ]
        )

    def check(self, scene: Scene) -> None:
        """Check every part (``Loss.check``)."""
        for term in self.parts:
            term.loss.check(scene)

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """Frames at which any part has a target (``Loss.known_frames``)."""
        self._frames = [term.loss.known_frames(scene, frames) for term in self.parts]
        return tuple(sorted(set().union(*self._frames)))

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations [B, n, D] of all parts (``Loss.observe``)."""
        frames = range(states.placement.shape[1]) if frames is None else frames
        rows = []
        for term, known_frames, shape in zip(self.parts, self._frames, self._shapes, strict=True):
            term_frames = [frame for frame in frames if frame in known_frames]
            if not term_frames:
                rows.append(states.placement.new_zeros(len(states.placement), len(frames), int(np.prod(shape))))
                continue
            rows.append(
                term.scale * _at_frames(term.loss.observe(scene, states, values, term_frames).flatten(2), term_frames, frames)
            )
        return torch.cat(rows, dim=-1)

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """Observations [n, D] of the target by all parts (``Loss.of_target``)."""
        if not self._frames:
            self.known_frames(scene, tuple(frames))
        self._shapes, rows = [], []
        for term, known_frames in zip(self.parts, self._frames, strict=True):
            term_frames = [frame for frame in frames if frame in known_frames]
            target = term.loss.of_target(scene, video, term_frames)
            self._shapes.append(tuple(target.shape[1:]))
            rows.append(term.scale * _at_frames(target.flatten(1)[None], term_frames, frames)[0])
        return torch.cat(rows, dim=-1)

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """Sum of the parts' counts (``Loss.count``)."""
        return sum(self._counts(frames))

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Blocks of each part (``Loss.blocks``)."""
        blocks, first_block = [], 0
        for term, term_shape in zip(self.parts, self._shapes, strict=True):
            blocks.append(first_block + term.loss.blocks(term_shape, size))
            first_block = int(blocks[-1].max()) + 1
        return np.concatenate(blocks)

    def doubts(self, residual: torch.Tensor, frames: Sequence[int]) -> list[str]:
        """Parts whose residual [n, D] is larger than their noise explains (``Loss.doubts``)."""
        sentences = []
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        for term, term_residual, count in zip(self.parts, residual.split(sizes, dim=-1), self._counts(frames), strict=True):
            power_ratio = float(term_residual.double().square().sum()) / max(1.0, count) / float(term.weight)
            if power_ratio > MAX_POWER_RATIO:
                sentences.append(
                    f"the {term.loss.kind} part leaves {power_ratio:.2g} times what its noise of {term.noise:.3g} explains: the "
                    "noise is larger than stated, or the scene is unlike what was seen"
                )
        return sentences

    def target_used(self, scene: Scene) -> list[str]:
        """Those of the parts (``Loss.target_used``)."""
        return [sentence for term in self.parts for sentence in term.loss.target_used(scene)]

    def target_doubts(self, scene: Scene) -> list[str]:
        """Those of the parts (``Loss.target_doubts``)."""
        return [sentence for term in self.parts for sentence in term.loss.target_doubts(scene)]

    def to_json(self) -> dict[str, Any]:
        """The parts (``Loss.to_json``)."""
        return {"kind": self.kind, "parts": [term.to_json() for term in self.parts]}

    def _with_losses(self, losses: Sequence[Loss]) -> MixedLoss:
        """The mix with other losses in its parts."""
        mixed = copy(self)
        mixed.parts = [replace(term, loss=loss) for term, loss in zip(self.parts, losses, strict=True)]
        return mixed

    def _counts(self, frames: Sequence[int]) -> list[float]:
        """Observations of each part that count."""
        return [
            term.loss.count([frame for frame in frames if frame in known_frames], shape)
            for term, known_frames, shape in zip(self.parts, self._frames, self._shapes, strict=True)
        ]


def _at_frames(rows: torch.Tensor, row_frames: Sequence[int], frames: Sequence[int]) -> torch.Tensor:
    """Observations [B, n', D] at frames ``row_frames`` among those of all n frames, zero at the others."""
    if len(row_frames) == len(frames):
        return rows
    row_indices = torch.tensor([list(frames).index(frame) for frame in row_frames], device=rows.device)
    return rows.new_zeros(rows.shape[0], len(frames), rows.shape[2]).index_copy(1, row_indices, rows)
