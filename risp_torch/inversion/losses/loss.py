"""What every loss of an inversion offers: observations of a motion, and the same observations of the target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from risp_torch.files.video import linear_to_srgb, srgb_to_linear
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError

BLOCK = 16  # pixels: side of a macroblock of H.264, within which compression errors hang together
LEAST_FLOOR = 1e-14  # variance of an observation that nothing else disturbs


class Loss(ABC):
    """A comparison of films: the mean squared difference between observations of the simulated film and of the target.

    Everything that follows (search, Gauss-Newton steps, error bars) sees observations only. They have the shape
    [B, n, ...] for B worlds and n frames; those of the target [n, ...] are made once.

    Attributes:
        kind: name on the command line and in results.
        needs_film: whether the target is a film (otherwise it is known in another way).
        lasting: whether the errors of one observation hang together over the whole film, as those of a network that reads
            similar pictures do; otherwise they hang together within ``blocks`` and a few frames, as those of video compression.
        whitening: what the observations went through, if they were whitened.
        rough: whether the observations waver with small motions, as those of networks that look at pixels do: then derivatives
            mislead where they are taken at one point, and wide steps serve (``WideSteps``).
    """

    kind: ClassVar[str]
    needs_film: ClassVar[bool] = True
    lasting: ClassVar[bool] = False
    rough: ClassVar[bool] = False
    whitening: Whitening | None = None

    @abstractmethod
    def check(self, scene: Scene) -> None:
        """Raise a UserError where the loss does not fit the scene."""

    def appearance(self) -> dict[str, torch.Tensor]:
        """Rendering parameters that the simulated film is made with, in place of the scene's own."""
        return {}

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """Those of these frames that the target tells.

        Raises:
            UserError: it tells none.
        """
        return frames

    @abstractmethod
    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of a motion, differentiable.

        Args:
            scene: what moves.
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
            scene: what was filmed.
            video: [T, H, W, 3] linear rgb; None where there is no film.
            frames: n frame numbers.

        Raises:
            UserError: the target does not fit the scene.
        """

    @abstractmethod
    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Which of a frame's observations have errors that hang together.

        Args:
            shape: of the observations of one frame, D numbers.
            size: height and width of the pictures; (0, 0) where there are none.

        Returns:
            [D] integers, equal within a block.
        """

    def whitened(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int], *, seed: int = 0
    ) -> Loss | None:
        """The loss with observations whose errors are independent and of unit variance, as far as they are known beforehand.

        Args:
            scene: what moves.
            states: of one world, near those of the target.
            values: parameter values [1, ...] of the unknowns, in place of the scene's own.
            frames: n frame numbers that count.
            seed: of what is drawn.

        Returns:
            A loss that has a ``whitening``; None where nothing tells how the errors hang together, or what would tell it is
            unknown itself.
        """
        return None

    def pictures(self, scene: Scene) -> torch.Tensor | None:
        """Pictures of the target for reports where there is no film, [T, H, W, 3]; None where there are none either."""
        return None

    def floor(self, pictures: torch.Tensor) -> float:
        """Variance of an observation below which no target is exact.

        Args:
            pictures: some frames [n, H, W, 3] of the estimate; empty where the loss looks at none.
        """
        return LEAST_FLOOR

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything that decides the loss, in values that JSON can hold."""


def mean_square(observations: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared difference of every world, [B], of observations [B, n, ...] and a target [n', ...] with n' >= n."""
    difference = observations - target[: observations.shape[1]]
    return (difference * difference).flatten(1).mean(dim=1)


class PictureLoss(Loss):
    """A loss that looks at pictures of the simulated film and of the target alike."""

    def check(self, scene: Scene) -> None:
        """There must be a camera (``Loss.check``)."""
        if scene.camera is None:
            raise UserError("the scene has no camera: add one with add_camera")

    @abstractmethod
    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Observations [..., *D] of pictures [..., H, W, 3] (linear rgb), differentiable."""

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """What is read from the rendered frames, whitened (``Loss.observe``)."""
        chosen = None if frames is None else list(frames)
        return self._weighed(self.read(scene.render(states, {**self.appearance(), **values}, frames=chosen)))

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """What is read from the target's frames, whitened (``Loss.of_target``)."""
        with torch.no_grad():
            return self._weighed(self.read(video[list(frames)]))

    def floor(self, pictures: torch.Tensor) -> float:
        """What rounding pictures to eight bits does to what is read from them, whitened (``Loss.floor``)."""
        levels = np.round(255 * linear_to_srgb(pictures.clamp(0, 1).cpu().numpy())) / 255
        with torch.no_grad():
            shift = self.read(torch.as_tensor(srgb_to_linear(levels)).to(pictures)) - self.read(pictures)
        return max(float((shift.double() ** 2).mean()), LEAST_FLOOR) * (1.0 if self.whitening is None else self.whitening.gain)

    def _weighed(self, observations: torch.Tensor) -> torch.Tensor:
        return observations if self.whitening is None else self.whitening(observations)


def in_parts(read: Callable[[torch.Tensor], torch.Tensor], pictures: torch.Tensor, *, most: int = 64) -> torch.Tensor:
    """Apply a network to pictures [..., H, W, 3], at most ``most`` at a time.

    Of each part but a lone one the derivative computes the inside of the network again, so that memory does not grow with the
    length of the film.

    Args:
        read: from [n, H, W, 3] to [n, ...].
        pictures: any leading axes.
        most: pictures of one part.

    Returns:
        [..., *rest].
    """
    rows = pictures.reshape(-1, *pictures.shape[-3:])
    parts = rows.split(most)
    if len(parts) == 1 or not (torch.is_grad_enabled() and pictures.requires_grad):
        outputs = [read(part) for part in parts]
    else:
        outputs = [checkpoint(read, part, use_reentrant=False) for part in parts]
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return joined.reshape(*pictures.shape[:-3], *joined.shape[1:])


def pixel_blocks(height: int, width: int, stride: int = 1) -> np.ndarray:
    """Macroblock number [height, width] of every place of a map whose places are ``stride`` pixels apart."""
    rows, columns = (np.arange(side) * stride // BLOCK for side in (height, width))
    return rows[:, None] * (columns[-1] + 1) + columns
