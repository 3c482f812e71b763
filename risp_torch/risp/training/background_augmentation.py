"""Patterns on the background and the ground of training pictures: horizons, lamps, tiles and shadows.

A picture is linear in the colour of its background and of its ground: if one entry of psi is that colour, dI/dpsi is the
coverage and brightness of it in each pixel, and any pattern can be added after rendering, behind the bodies and with their
soft edges. The derivatives of a ground pixel with respect to other entries of psi are proportional to its colour.

Domain randomisation (Tobin et al., IROS 2017) of properties that psi does not describe; networks with and without the loss on
rendering gradients use the same patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from risp_torch.risp.dataset.batch import Batch
from risp_torch.risp.training.fields import smooth_field
from risp_torch.risp.training.random_numbers import RandomNumbers
from risp_torch.scene.rendering_parameters import Range, RenderingParameters

GREY_ENTRIES = ("ground.color", "background.color")  # entries of psi for a grey surface; the first existing one is used
PLAIN_SHARE = 0.15  # share of pictures without a pattern
NOISE = 0.03  # largest standard deviation of the noise of a pixel of brightness 1
_STREAM = 5  # random stream
_MIN_BRIGHTNESS = 1e-4  # brightness of pixels whose derivatives are scaled

Uniform = Callable[..., torch.Tensor]  # (low, high, *shape) -> [B, *shape] random numbers


class BackgroundAugmentation:
    """Adds random patterns to the pictures of a training domain.

    Attributes:
        background_psi_index: index in psi of the grey value of ground or background, or None.
    """

    def __init__(self, parameters: RenderingParameters) -> None:
        """Find the entry.

        Args:
            parameters: rendering parameters of the training domain.
        """
        self.background_psi_index, self._low, self._span = None, 0.0, 0.0
        for name in GREY_ENTRIES:
            distribution = parameters.distributions.get(name)
            is_linear_grey = isinstance(distribution, Range) and distribution.tied and distribution.scale == "linear"
            if is_linear_grey and name in parameters.labels:
                self.background_psi_index = parameters.labels.index(name)
                self._low, self._span = float(distribution.low), float(distribution.high) - float(distribution.low)
                break

    def __call__(self, batch: Batch, *, seed: tuple[int, ...], derivatives: bool = True) -> Batch:
        """The batch with patterns and noise.

        Args:
            batch: batch with dI/dpsi, unless there is no ``background_psi_index``.
            seed: seed of the patterns; equal seeds and batches give equal pictures.
            derivatives: whether to compute dI/dpsi of the new pictures.

        Returns:
            The same states and appearances; pictures and, if requested, derivatives with the patterned backgrounds.
        """
        images, jacobian = batch.images, batch.jacobian if derivatives else None
        random = RandomNumbers(_STREAM, seed, count=len(images), device=images.device)
        if self.background_psi_index is not None:
            images, jacobian = self._patterned(batch, random, derivatives)
        level = NOISE * random.uniform(0.0, 1.0, 1, 1, 1)
        noise = level * images.clamp_min(0.02).sqrt() * random.normal(*images.shape[1:])
        return replace(batch, images=(images + noise).clamp(0.0, 1.0), jacobian=jacobian)

    def _patterned(self, batch: Batch, random: RandomNumbers, derivatives: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        column = batch.jacobian[:, self.background_psi_index].float()
        grey = self._low + self._span * 0.5 * (batch.psi[:, self.background_psi_index] + 1.0)
        colors = random_patterns(grey, batch.images.shape[1], random)
        coverage = column * (2.0 / self._span)  # dI/dcolour: coverage and brightness of the background in a pixel
        images = (batch.images + coverage * (colors - grey[:, None, None, None])).clamp(0.0, 1.0)
        if not derivatives:
            return images, None
        ratio = torch.where(batch.images > _MIN_BRIGHTNESS, images / batch.images.clamp_min(_MIN_BRIGHTNESS), 1.0)
        jacobian = batch.jacobian * ratio[:, None].half()
        jacobian[:, self.background_psi_index] = batch.jacobian[:, self.background_psi_index]
        return images, jacobian


def random_patterns(grey: torch.Tensor, size: int, random: RandomNumbers) -> torch.Tensor:
    """Colours of backgrounds.

    Args:
        grey: [B] grey value without pattern, in [0, 1].
        size: side of the pictures [pixels].
        random: random numbers of B pictures, on the device of ``grey``.

    Returns:
        [B, size, size, 3] in [0, 1]; about ``PLAIN_SHARE`` of them are plain.
    """
    uniform = random.uniform

    def with_probability(probability: float) -> torch.Tensor:
        return random.with_probability(probability, 1, 1)

    field = grey[:, None, None].expand(len(grey), size, size).clone()
    x, y = _rotated_coordinates(size, uniform(-math.pi, math.pi, 1, 1))
    field += with_probability(0.5) * uniform(-0.3, 0.3, 1, 1) * y
    edge, width = uniform(-0.8, 0.8, 1, 1), uniform(0.01, 0.15, 1, 1)
    field += with_probability(0.35) * uniform(-0.5, 0.5, 1, 1) * torch.sigmoid((y - edge) / width)  # horizons
    field += with_probability(0.4) * _tiles(x, y, uniform) * uniform(-0.35, 0.35, 1, 1)
    clouds = smooth_field(random.normal(8, 8), size)
    field += with_probability(0.4) * uniform(0.0, 0.12, 1, 1) * clouds
    for _ in range(3):  # lamps, shadows, objects
        field = _with_shape(field, with_probability(0.35), x, y, uniform)
    colors = field[..., None] * uniform(0.85, 1.15, 1, 1, 3)
    is_plain = with_probability(PLAIN_SHARE)[..., None]
    return (is_plain * grey[:, None, None, None] + (1 - is_plain) * colors).clamp(0.0, 1.0)


def _rotated_coordinates(size: int, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinates [B, size, size] of the pixels in [-1, 1], rotated by an angle [B, 1, 1]."""
    line = (torch.arange(size, device=angle.device) + 0.5) * (2.0 / size) - 1.0
    down, right = torch.meshgrid(line, line, indexing="ij")
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return cosine * right + sine * down, cosine * down - sine * right


def _tiles(x: torch.Tensor, y: torch.Tensor, uniform: Uniform) -> torch.Tensor:
    """Checkers or stripes of any size in perspective, -1 and 1 with soft edges."""
    depth = 1.0 + uniform(0.0, 0.6, 1, 1) * y
    across = torch.sin(uniform(4.0, 20.0, 1, 1) * x / depth + uniform(0.0, 6.0, 1, 1))
    along = torch.sin(uniform(4.0, 20.0, 1, 1) * y / depth + uniform(0.0, 6.0, 1, 1))
    stripes = (uniform(0.0, 1.0, 1, 1) < 0.3).float()
    return torch.tanh(uniform(2.0, 8.0, 1, 1) * across * (stripes + (1 - stripes) * along))


def _with_shape(
    field: torch.Tensor, is_present: torch.Tensor, x: torch.Tensor, y: torch.Tensor, uniform: Uniform
) -> torch.Tensor:
    """Add a rectangle or an ellipse of another brightness, with a sharp or soft edge, where ``is_present`` is 1."""
    right, down = x - uniform(-1.0, 1.0, 1, 1), y - uniform(-1.0, 1.0, 1, 1)
    right, down = right / uniform(0.1, 0.7, 1, 1), down / uniform(0.1, 0.5, 1, 1)
    is_box = (uniform(0.0, 1.0, 1, 1) < 0.5).float()
    radius = is_box * torch.maximum(right.abs(), down.abs()) + (1 - is_box) * (right.square() + down.square()).sqrt()
    coverage = is_present * torch.sigmoid((1.0 - radius) / uniform(0.02, 0.3, 1, 1))
    is_bright = (uniform(0.0, 1.0, 1, 1) < 0.4).float()
    level = is_bright * uniform(0.5, 1.2, 1, 1) + (1 - is_bright) * field * uniform(0.2, 0.9, 1, 1)
    return field + coverage * (level - field)
