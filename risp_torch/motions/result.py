"""Result of a fit to measured motions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.unobservable import size_of
from risp_torch.motions.recording import Window

_RELATIVE_DIFFERENCE = 1e-4  # step of the finite differences of a derived number, relative to the error bars


@dataclass(frozen=True)
class Derived:
    """A number that follows from the unknowns.

    Attributes:
        value: its value.
        sd: its standard deviation, to first order.
    """

    value: float
    sd: float


@dataclass(frozen=True, eq=False)
class MotionFit:
    """Result of a fit.

    Attributes:
        unknowns: the shared unknowns.
        scaled: [K] estimate in scaled coordinates (log10 of the value for the scale log10).
        covariance: [K, K] covariance of the scaled coordinates.
        windows: the M windows.
        starts: [M, S] estimated starts (``BodyMotions``, ``JointMotions``).
        start_sd: [M, S] their standard deviations at these shared unknowns, by the noise of the settings.
        residual: [M] root mean square residual of each window [m or rad].
        weights: [M] mean robust weight of each window.
        cost: the final cost per coordinate, 1 where the residuals equal the noise.
        costs: cost after each iteration, the initial cost first.
        converged: whether the search ended before the largest number of steps, and the next Gauss-Newton step of the shared
            unknowns is shorter than half an error bar.
        unobservable: sentences on combinations of unknowns that the motions do not determine.
        chi_square: the final cost of all coordinates and priors.
        misfit: mean squared residual in multiples of the noise, 1 where the noise explains it.
        start_distance: root mean square distance of estimated starts from measured ones, in their standard deviations.
        doubts: sentences on why the estimate may be wrong.
        shorter: fits to pieces of the windows, the shortest first (``fit_growing_windows``).
    """

    unknowns: Unknowns
    scaled: np.ndarray
    covariance: np.ndarray
    windows: Sequence[Window]
    starts: np.ndarray
    start_sd: np.ndarray
    residual: np.ndarray
    weights: np.ndarray
    cost: float
    costs: Sequence[float]
    converged: bool
    unobservable: list[str] = field(default_factory=list)
    chi_square: float = 0.0
    misfit: float = 1.0
    start_distance: float = 0.0
    doubts: list[str] = field(default_factory=list)
    shorter: tuple[MotionFit, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """Label -> estimate, physical units."""
        return dict(zip(self.unknowns.labels, self.unknowns.physical_values(self.scaled).tolist(), strict=True))

    @property
    def sd(self) -> dict[str, float]:
        """Label -> standard deviation, scaled units (decades for log10)."""
        return dict(zip(self.unknowns.labels, np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).tolist(), strict=True))

    def derived(self, function: Callable[[Mapping[str, float]], float]) -> Derived:
        """A number computed from the estimates, label -> physical value, with its error bar."""

        def value_at(scaled: np.ndarray) -> float:
            return float(function(dict(zip(self.unknowns.labels, self.unknowns.physical_values(scaled).tolist(), strict=True))))

        steps = _RELATIVE_DIFFERENCE * np.sqrt(np.maximum(np.diag(self.covariance), 1e-30))
        changes = np.diag(steps)
        jacobian = np.array(
            [(value_at(self.scaled + m) - value_at(self.scaled - m)) / (2 * s) for m, s in zip(changes, steps, strict=True)]
        )
        return Derived(value_at(self.scaled), float(np.sqrt(max(jacobian @ self.covariance @ jacobian, 0.0))))

    def lines(self) -> list[str]:
        """Doubts about the estimate first, then estimates with their error bars, one line each."""
        labels, units, scales = self.unknowns.labels, self.unknowns.units, self.unknowns.scales
        return [*self.doubts] + [
            f"{label:34s} {self.values[label]:.5g} {unit}".rstrip() + f"  {size_of(self.sd[label], unit, scale)}"
            for label, unit, scale in zip(labels, units, scales, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Estimates and error bars as JSON values."""
        return {
            "values": self.values, "sd": self.sd, "scales": dict(zip(self.unknowns.labels, self.unknowns.scales, strict=True)),
            "covariance": self.covariance.tolist(), "cost": self.cost, "converged": self.converged,
            "unobservable": self.unobservable, "windows": len(self.windows), "median_residual": float(np.median(self.residual)),
            "misfit": self.misfit, "doubts": self.doubts, "lengths": [fit.summary() for fit in (*self.shorter, self)],
        }  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Length of the windows, estimates, error bars and misfit as JSON values."""
        frames = max(window.frames for window in self.windows)
        return {
            "frames": frames, "windows": len(self.windows), "values": self.values, "sd": self.sd, "misfit": self.misfit,
            "converged": self.converged,
        }  # fmt: skip
