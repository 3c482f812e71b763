"""Motion blur and rolling shutter: each line of a picture as a weighted mean of pictures at a few moments.

Line l collects light from line_time l to line_time l + exposure after the first one begins. The pictures at S moments, spread
evenly from the beginning of the first exposure to the end of the last, are interpolated linearly in time, and each line is the
exact mean of that interpolant over its exposure. So the weights of a line are not negative and sum to one. Without a line time
they are those of the trapezoidal rule; without an exposure a line is a blend of two neighbouring moments.
"""

from __future__ import annotations

import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.clock import EXPOSURE, LINE_TIME, FilmClock
from ti_sim.base.errors import UserError

_MIN_WIDTH = 1e-9  # exposure, in distances of moments, below which a line is exposed at one moment


def is_instant(values: Values) -> bool:
    """Whether all lines of a picture are exposed at one moment: exposure and line time are 0 and require no gradient."""
    durations = (values[EXPOSURE], values[LINE_TIME])
    return not any(value.requires_grad or value.any() for value in durations)


def exposures(clock: FilmClock, values: Values, lines: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Moments of a picture, and their weights in each line; differentiable in exposure and line time.

    Args:
        clock: number of moments S and direction of the read-out.
        values: parameters [B, ...].
        lines: number of lines L of the picture.

    Returns:
        Times of the moments after the beginning of the first line's exposure [B, S] (s), and weights [B, L, S] in the order of
        rows or columns of the picture, not of the read-out; both in double precision.

    Raises:
        UserError: exposure and line time both require a gradient where both are 0.
    """
    exposure, line_time = (values[name].double()[:, None] for name in (EXPOSURE, LINE_TIME))
    last = clock.samples - 1
    moments = torch.linspace(0.0, 1.0, clock.samples, dtype=torch.float64, device=exposure.device)
    duration = exposure + line_time * (lines - 1)
    spacing = duration / last
    is_instantaneous = spacing <= 0  # all moments are one: weights are those of a line time, or exposure, that grows from zero
    has_line_time_gradient = line_time.requires_grad
    if has_line_time_gradient and exposure.requires_grad and is_instantaneous.any():
        raise UserError(
            "film.exposure and film.line_time are 0, where a picture has no derivative by both: begin one of the two above 0"
        )
    spacing = torch.where(is_instantaneous, torch.ones_like(spacing), spacing)
    line = torch.arange(lines, dtype=torch.float64, device=exposure.device)
    limit_start = last * line / max(lines - 1, 1) * has_line_time_gradient
    start = torch.where(is_instantaneous, limit_start, line_time * line / spacing)  # in distances of moments
    width = torch.where(is_instantaneous, torch.full_like(spacing, last * (not has_line_time_gradient)), exposure / spacing)
    weights = _hat_means(start, width, clock.samples)
    return duration * moments, weights.flip(1) if clock.readout in ("up", "left") else weights


def _hat_means(start: torch.Tensor, width: torch.Tensor, count: int) -> torch.Tensor:
    """Means [B, L, S] of the hats max(0, 1 - |x - s|), s = 0 ... S - 1, over x from start [B, L] to start + width [B, 1]."""
    left = start[..., None] - torch.arange(count, dtype=start.dtype, device=start.device)
    width = width[..., None]
    is_instant = width <= _MIN_WIDTH
    divisor = torch.where(is_instant, torch.ones_like(width), width)
    mean = (_hat_integral(left + divisor) - _hat_integral(left)) / divisor
    return torch.where(is_instant, (1.0 - (left + 0.5 * width).abs()).clamp_min(0.0), mean)


def _hat_integral(x: torch.Tensor) -> torch.Tensor:
    """Integral of max(0, 1 - |x|) from -infinity to x."""
    inside = x.clamp(-1.0, 1.0)
    return 0.5 + inside - 0.5 * inside * inside.abs()
