"""Prior knowledge of unknowns: normal distributions, which enter the loss, Gauss-Newton steps and error bars.

The size of a film's errors is only known from the residual of the best simulation. So the variance v of an observation's error
is estimated with the unknowns: with N independent observations, a mean squared residual L and priors of mean m and standard
deviation s, minus twice the logarithm of the posterior, at the likeliest v >= floor, is

    N psi(L) + Q,    psi(L) = log(L / floor) for L > floor, L / floor - 1 below,    Q = sum ((x - m) / s)^2.

Its Gauss-Newton equations are those of J^T J / v and 1 / s^2 with v = max(L, floor). A scene that fits badly has a large v: the
worse the fit, the less weight the film has against a prior.

Errors of neighbouring pixels and frames are similar (compression, edges out of place), so that P observations count as
N = P / ``design_effect`` independent ones. The search begins with all errors equal within a block (``Loss.blocks``, four
frames), which trusts the priors most, and ends with the measured ratio (``design_effect``): a magnitude adjustment of a composite
likelihood (Pauli, Racugno and Ventura, Statistica Sinica 21, 2011; Ribatet, Cooley and Davison, Statistica Sinica 22, 2012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.parameters import Sign, split_entry
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value, real_numbers
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, Rule, checked

BOUND_DISTANCE = 5.0  # standard deviations: bounds of an unknown that has a prior and no bounds
_MIN_VARIANCE = 1e-30
_MIN_MEAN_FRACTION = 1e-2  # of the mean: lower bound of a positive number with a wide prior

PriorsGiven = Mapping[str, Any]


@dataclass(frozen=True)
class Prior:
    """Mean and standard deviation of a parameter, in its unit; arrays of its shape, NaN where an entry has none."""

    mean: np.ndarray
    sd: np.ndarray


@checked
@dataclass(frozen=True)
class Priors:
    """Independent normal priors of M of the K unknowns.

    Attributes:
        indices: [M] indices of the unknowns.
        mean: [M] scaled units (log10 of the value for log10).
        sd: [M] standard deviations, scaled units (decades for log10).
        floor: lower bound of the variance of an observation.
        design_effect: number of observations that count as one independent observation, at least 1.
        specification: name -> mean and standard deviation, physical units, as JSON values.
    """

    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sd: np.ndarray = field(default_factory=lambda: np.zeros(0))
    floor: Positive = _MIN_VARIANCE
    design_effect: Annotated[float, Rule(minimum=1)] = 1.0
    specification: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(params: Mapping[str, Param], priors: Mapping[str, Prior]) -> Priors:
        """The priors of unknowns.

        Args:
            params: parameters of the unknowns, in order, with both bounds.
            priors: name -> prior.

        Raises:
            UserError: a mean lies outside the bounds of its unknown.
        """
        indices, means, sds, first_index = [], [], [], 0
        for name, param in params.items():
            if name in priors:
                mean, sd = (np.ravel(array) for array in (priors[name].mean, priors[name].sd))
                finite = np.flatnonzero(np.isfinite(sd))
                _check_inside(name, param, mean, finite)
                scaled_mean, scaled_sd = scaled_prior(param, mean[finite], sd[finite])
                indices.append(first_index + finite)
                means.append(scaled_mean)
                sds.append(scaled_sd)
            first_index += int(np.size(param.value))
        if not indices:
            return Priors()
        specification = {name: {"mean": prior.mean.tolist(), "sd": _to_jsonable(prior.sd)} for name, prior in priors.items()}
        return Priors(np.concatenate(indices), np.concatenate(means), np.concatenate(sds), specification=specification)

    def __bool__(self) -> bool:
        return len(self.indices) > 0

    def squared_distance(self, scaled: torch.Tensor) -> torch.Tensor:
        """Sum of squared distances from the means in standard deviations, [S], of scaled coordinates [S, K]; differentiable."""
        mean, sd = (torch.as_tensor(array).to(scaled) for array in (self.mean, self.sd))
        return (((scaled[:, torch.as_tensor(self.indices, device=scaled.device)] - mean) / sd) ** 2).sum(dim=1)

    def penalised(self, losses: torch.Tensor, scaled: torch.Tensor, observations: float) -> torch.Tensor:
        """Losses [S] of the film that have the same posterior at the priors' means; differentiable.

        Args:
            losses: [S] mean squared residuals.
            scaled: [S, K] scaled coordinates.
            observations: P, of the mean.
        """
        if not self:
            return losses
        penalty = (self.squared_distance(scaled) * (self.design_effect / observations)).clamp(max=60.0)
        below_floor = losses + self.floor * penalty
        across_floor = self.floor * torch.exp((losses / self.floor).clamp(max=1.0) - 1 + penalty)
        return torch.where(
            losses > self.floor, losses * torch.exp(penalty), torch.where(below_floor <= self.floor, below_floor, across_floor)
        )

    def variance(self, loss: float) -> float:
        """Variance that one unit of J^T J stands for where the mean squared residual is ``loss``."""
        return self.design_effect * max(loss, self.floor)

    def precision(self, ranges: np.ndarray) -> np.ndarray:
        """Inverse covariance [K, K] of the unknowns relative to their ranges [K] (scaled units)."""
        diagonal = np.zeros(len(ranges))
        diagonal[self.indices] = (ranges[self.indices] / self.sd) ** 2
        return np.diag(diagonal)

    def offset(self, scaled: np.ndarray, ranges: np.ndarray) -> np.ndarray:
        """Distance [K] of a point [K] from the means, relative to the ranges; zero where there is no prior."""
        offset_from_means = np.zeros(len(ranges))
        offset_from_means[self.indices] = (scaled[self.indices] - self.mean) / ranges[self.indices]
        return offset_from_means

    def move_guesses(self, scaled: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Guesses [S, K] spread evenly between bounds [K], those of unknowns with priors moved to the priors' means.

        Where all unknowns have priors, they are moved to the same shares of the priors between these bounds.
        """
        moved = scaled.copy()
        if len(self.indices) < scaled.shape[1]:
            moved[:, self.indices] = self.mean
            return moved
        for k, mean, sd in zip(self.indices, self.mean, self.sd, strict=True):
            bound_quantiles = ndtr([(low[k] - mean) / sd, (high[k] - mean) / sd])
            quantile = bound_quantiles[0] + (bound_quantiles[1] - bound_quantiles[0]) * (scaled[:, k] - low[k]) / (
                high[k] - low[k]
            )
            moved[:, k] = np.clip(mean + sd * ndtri(quantile), low[k], high[k])
        return moved

    def max_error_bars(self, scaled: np.ndarray, ranges: np.ndarray) -> np.ndarray:
        """Largest sensible error bars [K] of an estimate [K], scaled units: the range, or the root mean square of a prior's
        distance from it.
        """
        max_sd = ranges.copy()
        max_sd[self.indices] = np.minimum(max_sd[self.indices], np.hypot(self.sd, scaled[self.indices] - self.mean))
        return max_sd


def read_priors(params: Mapping[str, Param], specifications: PriorsGiven | None) -> dict[str, Prior]:
    """Priors by the name of an unknown, from a user's specifications.

    Args:
        params: parameters of the unknowns, with the scene's values, which are the means by default.
        specifications: name, or name of an entry -> standard deviation, or a tuple (mean, standard deviation); numbers, or arrays
            of the parameter's shape; "5%" is a standard deviation of 5 percent of the mean.

    Raises:
        UserError: a name is not unknown, or a number is not finite, has a wrong shape, or is no standard deviation above zero.
    """
    priors: dict[str, Prior] = {}
    for name in sorted(specifications or {}, key=lambda name: len(split_entry(name)[1]) if name not in params else 0):
        base, index = (name, ()) if name in params else split_entry(name)
        if base not in params:
            raise unknown_name_error("unknown with a prior", name, list(params))
        value = np.asarray(params[base].value, dtype=np.float64)
        if index and (len(index) != value.ndim or any(i >= n for i, n in zip(index, value.shape, strict=True))):
            raise UserError(f"the prior of {name}: {base} has shape {value.shape}, so it has no such entry")
        mean, sd = _mean_and_sd(name, value[index], specifications[name])
        prior = priors.get(base, Prior(value.copy(), np.full(value.shape, np.nan)))
        prior.mean[index], prior.sd[index] = mean, sd
        priors[base] = prior
    return priors


def with_bounds_of_prior(param: Param, prior: Prior, sign: Sign | None) -> Param:
    """The parameter with bounds at ``BOUND_DISTANCE`` standard deviations of its prior in place of those that are missing."""
    if np.isnan(prior.sd).any() or (param.low is not None and param.high is not None):
        return param
    mean, sd = scaled_prior(param, prior.mean, prior.sd)
    low, high = param.from_scaled(mean - BOUND_DISTANCE * sd), param.from_scaled(mean + BOUND_DISTANCE * sd)
    sign_low, sign_high = {
        "positive": (_MIN_MEAN_FRACTION * prior.mean, math.inf), "not negative": (0.0, math.inf), "color": (0.0, 1.0),
        "poisson": (-0.99, 0.49), None: (-math.inf, math.inf),
    }[sign]  # fmt: skip
    low = np.maximum(low, sign_low) if param.low is None else param.low
    high = np.minimum(high, sign_high) if param.high is None else param.high
    return replace(param, value=np.clip(param.value, low, high), low=low, high=high)


def scaled_prior(param: Param, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation in the parameter's scale; the one of log10 is sd / (mean ln 10), to first order.

    Raises:
        UserError: a mean has no logarithm.
    """
    if param.scale != "log10":
        return mean, sd
    if (mean <= 0).any():
        raise UserError(f"a prior has the mean {float(np.min(mean)):g} of an unknown with scale log10: give one above zero")
    return np.log10(mean), sd / (mean * math.log(10.0))


def _mean_and_sd(name: str, value: np.ndarray, specification: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, arrays of the shape of ``value``, which is the mean where none is given."""
    if isinstance(specification, tuple) and len(specification) != 2:
        raise UserError(
            f"the prior of {name} is {format_value(specification)}: give a standard deviation, or a tuple of mean and that"
        )
    mean, sd = specification if isinstance(specification, tuple) else (value, specification)
    mean = _of_shape(name, "mean", mean, np.shape(value))
    if isinstance(sd, str):
        percent = sd.strip().removesuffix("%")
        try:
            sd = np.abs(mean) * float(percent) / 100 if percent != sd.strip() else None
        except ValueError:
            sd = None
        if sd is None:
            raise UserError(
                f"the prior of {name} is {specification!r}: give a standard deviation as a number, or as 5% of the mean"
            )
    sd = _of_shape(name, "standard deviation", sd, np.shape(value))
    if not (sd > 0).all():
        raise UserError(f"the prior of {name} has the standard deviation {float(np.min(sd)):g}: give one above zero")
    return mean, sd


def _of_shape(name: str, quantity: str, numbers: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = real_numbers(numbers)
    if array is None or not np.isfinite(array).all() or array.shape not in ((), shape):
        raise UserError(
            f"the prior of {name} has the {quantity} {format_value(numbers)}: give one finite number, or those of shape {shape}"
        )
    return np.broadcast_to(np.asarray(array, dtype=np.float64), shape).copy()


def _check_inside(name: str, param: Param, mean: np.ndarray, indices: np.ndarray) -> None:
    low, high = (np.broadcast_to(bound, np.shape(param.value)).ravel() for bound in (param.low, param.high))
    outside = [k for k in indices if not low[k] <= mean[k] <= high[k]]
    if outside:
        k = outside[0]
        raise UserError(
            f"the prior of {name} has the mean {mean[k]:g}, outside the bounds from {low[k]:g} to {high[k]:g}: change one of them"
        )


def _to_jsonable(sd: np.ndarray) -> Any:
    """The standard deviations as JSON values, None where there is none."""
    return np.where(np.isnan(sd), None, sd).tolist()
