"""Base of all losses of an inversion: observations of a motion, and the same observations of the target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

BLOCK = 16  # pixels: side of a macroblock of H.264, within which compression errors are correlated
MIN_VARIANCE = 1e-14  # variance of an observation without other errors


class Loss(ABC):
    """A comparison of films: the mean squared difference between observations of the simulated film and of the target.

    Search, Gauss-Newton steps and error bars use observations only. They have the shape
    [B, n, ...] for B worlds and n frames; those of the target [n, ...] are computed once.

    Attributes:
        kind: name on the command line and in results.
        needs_film: whether the target is a film.
        of_pictures: whether pictures are rendered: edges in them make the loss flatter than its Gauss-Newton model.
        temporally_correlated: whether the errors of an observation are correlated over the whole film, as those of a network
            applied to similar images are; otherwise they are correlated within ``blocks`` and a few frames, as those of
            compression.
        whitening: the whitening of the observations, or None.
        weights: weight of each pixel; None for 1.
        noise: standard deviation of an observation's errors where it is stated, or None: it is then estimated from the residual.
            A larger residual than stated widens the error bars.
        usual_noise: the noise of the loss in a mix of several, where none is stated; None where it has to be.
        non_smooth: whether the observations are locally non-smooth in small motions, as those of networks applied to pixels:
            derivatives at a point are then misleading, and wide steps are used (``WideSteps``).
        compression_by_refit: whether shifts by compression are new estimates from compressed films: Gauss-Newton steps predict
            them badly where edges are sharper than they are displaced.
        serial: whether each world takes as long as the first, as where a look is solved for each.
        colors_of_pixels: whether the observations are linear colours of pixels, so that what noise and compression leave of them
            is known.
    """

    kind: ClassVar[str]
    needs_film: bool = True
    of_pictures: bool = False
    usual_noise: ClassVar[float | None] = None
    temporally_correlated: bool = False
    non_smooth: bool = False
    compression_by_refit: bool = False
    serial: bool = False
    colors_of_pixels: ClassVar[bool] = False
    whitening: Whitening | None = None
    weights: PixelWeights | None = None
    noise: float | None = None

    @abstractmethod
    def check(self, scene: Scene) -> None:
        """Raise a UserError if the loss does not fit the scene."""

    def bind_target(self, video: torch.Tensor | None) -> Loss:
        """The loss for a film [T, H, W, 3], for losses that read the film itself; the same loss by default."""
        return self

    def rebind_target(self, video: torch.Tensor) -> Loss:
        """The loss for a film [T, H, W, 3] that hardly differs from the one before, whose solutions serve to start from."""
        return self.bind_target(video)

    def coarse(self) -> Loss:
        """The loss for the search from the starts, with a wider minimum; Gauss-Newton refinement takes the loss itself."""
        return self

    def frozen_at(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None,
        *, follows: bool = True,
    ) -> Loss:  # fmt: skip
        """The loss for differences about a motion of one world, for losses that solve for numbers at each; the same by default.

        Its observations are smooth in small changes of the motion, and their derivative is that of ``observe`` where the
        residual is small; J^T r is the exact gradient.

        Args:
            scene, states, values, frames: see ``observe``.
            follows: whether the solved numbers follow the changes; otherwise they are constant, and the observations of a frame
                depend only on its state.
        """
        return self

    def appearance(self) -> dict[str, torch.Tensor]:
        """Appearance of the simulated film: values that replace the scene's own."""
        return {}

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """Those of these frames for which the target is known.

        Raises:
            UserError: it is known for none.
        """
        return frames

    @abstractmethod
    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of a motion, differentiable.

        Args:
            scene: the scene.
            states: of B worlds.
            values: parameter values [B, ...] that replace the scene's own and the ``appearance``.
            frames: n frame numbers; None for all.

        Returns:
            [B, n, ...].
        """

    @abstractmethod
    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """Observations [n, ...] of the target.

        Args:
            scene: the scene.
            video: [T, H, W, 3] linear rgb; None if there is no film.
            frames: n frame numbers.

        Raises:
            UserError: the target does not fit the scene.
        """

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Blocks of a frame's observations within which errors are correlated; by default each observation is one.

        Args:
            shape: of the observations of one frame, D numbers.
            size: height and width of the pictures; (0, 0) where there are none.

        Returns:
            [D] integers, equal within a block.
        """
        return np.arange(int(np.prod(shape)))

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """Number of observations that count, of which the noise is the mean square.

        Args:
            frames: n frame numbers.
            shape: of the observations of one frame.
        """
        return float(len(frames) * int(np.prod(shape)))

    def whitened(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int], *, seed: int = 0
    ) -> Loss | None:
        """The loss with whitened observations, whose known errors are independent and have unit variance.

        Args:
            scene: the scene.
            states: of one world, near those of the target.
            values: parameter values [1, ...] of the unknowns, in place of the scene's own.
            frames: n numbers of compared frames.
            seed: seed of the random samples.

        Returns:
            A loss with a ``whitening``; None if the covariance of the errors is not known or
            depends on unknowns.
        """
        return None

    def pictures(self, scene: Scene) -> torch.Tensor | None:
        """Images of the target for reports if there is no film, [T, H, W, 3], or None."""
        return None

    def write_pictures(self, folder: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> None:  # noqa: B027
        """Write further pictures of an estimate into a report's folder; none by default.

        Args:
            folder: where they are written.
            scene: the scene.
            states: motion of the estimate, one world.
            values: parameter values [1, ...] of the estimate.
        """

    def shown(self, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Images [B, T, H, W, 3] of a motion for reports, beside those of ``pictures``: its film, in the loss's appearance."""
        return scene.render(states, {**self.appearance(), **values})

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Lower bound of the variance of an observation.

        Args:
            pictures: some frames [n, H, W, 3] of the estimate; empty if the loss uses none.
        """
        return MIN_VARIANCE if self.noise is None else self.noise**2

    def rounding(self) -> float | None:
        """Mean squared residual that the rounding of the target leaves, where it is known for a loss without a film."""
        return None

    def systematic(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int]
    ) -> torch.Tensor | None:
        """Constant bias of the simulated observations [1, n, ...]; None if none is known.

        Args:
            scene: the scene.
            states: motion of the estimate, one world.
            values: parameter values [1, ...] of the estimate.
            frames: n frame numbers.
        """
        return None

    def doubts(self, residual: torch.Tensor, frames: Sequence[int]) -> list[str]:
        """Sentences on parts of the target that the estimate does not explain.

        Args:
            residual: [n, D] target minus simulation at the estimate.
            frames: n frame numbers.
        """
        return []

    def target_used(self, scene: Scene) -> list[str]:
        """Sentences on the compared parts of the target's files, for losses that read tables."""
        return []

    def target_doubts(self, scene: Scene) -> list[str]:
        """Sentences on doubtful parts of the target, independent of the estimate."""
        return []

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """All data that determine the loss, as JSON values."""


@checked
def mean_square(observations: torch.Tensor, target: torch.Tensor, count: Positive | None = None) -> torch.Tensor:
    """Mean squared difference of every world, [B], of observations [B, n, ...] and a target [n', ...] with n' >= n.

    ``count`` is the number of observations that count (``Loss.count``), all by default.
    """
    difference = observations - target[: observations.shape[1]]
    square = difference * difference if difference.requires_grad else difference.mul_(difference)
    mean = square.flatten(1).mean(dim=1)
    return mean if count is None else mean * (observations.shape[1:].numel() / count)


class PictureLoss(Loss):
    """A loss that compares images of the simulated film with those of the target."""

    of_pictures = True

    def check(self, scene: Scene) -> None:
        """Raise a UserError without a camera (``Loss.check``)."""
        if scene.camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        if self.weights is not None:
            self.weights.check(scene)

    def for_several_films(self) -> PictureLoss | None:
        """The loss for several films side by side; None where each film's pictures are read separately (``FilmsLoss``)."""
        return None

    @abstractmethod
    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Observations [..., *D] of pictures [..., H, W, 3] (linear rgb), differentiable."""

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of the rendered frames, whitened (``Loss.observe``)."""
        return self.compared(self.render(scene, states, values, frames), frames)

    def render(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None = None
    ) -> torch.Tensor:
        """Pictures [B, n, H, W, 3] of a motion as the loss shows them (arguments: ``observe``)."""
        return scene.render(states, {**self.appearance(), **values}, frames=None if frames is None else list(frames))

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """Observations of the target's frames, whitened (``Loss.of_target``)."""
        with torch.no_grad():
            return self.compared(video[list(frames)], frames)

    def compared(self, pictures: torch.Tensor, frames: Sequence[int] | None) -> torch.Tensor:
        """Observations [..., n, *D], weighted and whitened, of pictures [..., n, H, W, 3] at n frames; None for the first n."""
        frames = range(pictures.shape[-4]) if frames is None else frames
        observations = self.read(pictures if self.weights is None else self.weigh(pictures, frames))
        return observations if self.whitening is None else self.whitening(observations)

    def weigh(self, pictures: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """The pictures times their weights: black where nothing counts."""
        return pictures * self.weights.of(frames)[..., None]

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """The observations times the mean weight of a pixel (``Loss.count``)."""
        return super().count(frames, shape) * (1.0 if self.weights is None else self.weights.mean(frames))

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Variance of the observations, whitened, due to rounding of images to eight bits (``Loss.noise_floor``)."""
        levels = np.round(255 * linear_to_srgb(pictures.clamp(0, 1).cpu().numpy())) / 255
        with torch.no_grad():
            rounding_change = self.read(torch.as_tensor(srgb_to_linear(levels)).to(pictures)) - self.read(pictures)
        return max(float((rounding_change.double() ** 2).mean()), MIN_VARIANCE) * (
            1.0 if self.whitening is None else self.whitening.gain
        )


def in_batches(read: Callable[[torch.Tensor], torch.Tensor], pictures: torch.Tensor, *, most: int = 64) -> torch.Tensor:
    """Apply a network to pictures [..., H, W, 3], at most ``most`` at a time.

    With several parts, the backward pass recomputes the activations of each, so memory does not grow with the
    length of the film.

    Args:
        read: function from [n, H, W, 3] to [n, ...].
        pictures: any leading axes.
        most: images per part.

    Returns:
        [..., *rest].
    """
    rows = pictures.reshape(-1, *pictures.shape[-3:])
    batches = rows.split(most)
    if len(batches) == 1 or not (torch.is_grad_enabled() and pictures.requires_grad):
        outputs = [read(batch) for batch in batches]
    else:
        outputs = [checkpoint(read, batch, use_reentrant=False) for batch in batches]
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return joined.reshape(*pictures.shape[:-3], *joined.shape[1:])


def pixel_blocks(height: int, width: int, stride: int = 1) -> np.ndarray:
    """Macroblock index [height, width] of every position of a map with a spacing of ``stride`` pixels."""
    rows, columns = (np.arange(side) * stride // BLOCK for side in (height, width))
    return rows[:, None] * (columns[-1] + 1) + columns
