"""What a fit to measured motions found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.unseen import size_of
from risp_torch.motions.recording import Window

_DIFFERENCE = 1e-4  # of the derivative of a derived number, in error bars


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
    """What a fit found.

    Attributes:
        unknowns: the shared unknowns.
        scaled: [K] estimate, scaled coordinates (log10 of the value for log10).
        covariance: [K, K] of these.
        windows: the M windows.
        starts: [M, S] estimated starts (``BodyMotions``, ``JointMotions``).
        start_sd: [M, S] their standard deviations at these shared unknowns, by the noise of the settings.
        residual: [M] root mean square residual of each window [m or rad].
        weights: [M] mean robust weight of each window.
        cost: the final cost per coordinate, 1 where the model leaves the noise alone.
        costs: of all iterations.
        converged: whether the last step changed the cost by less than the tolerance.
        unseen: sentences on combinations of unknowns that the motions do not tell.
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
    unseen: list[str] = field(default_factory=list)

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

        def at(scaled: np.ndarray) -> float:
            return float(function(dict(zip(self.unknowns.labels, self.unknowns.physical_values(scaled).tolist(), strict=True))))

        steps = _DIFFERENCE * np.sqrt(np.maximum(np.diag(self.covariance), 1e-30))
        moves = np.diag(steps)
        slope = np.array([(at(self.scaled + m) - at(self.scaled - m)) / (2 * s) for m, s in zip(moves, steps, strict=True)])
        return Derived(at(self.scaled), float(np.sqrt(max(slope @ self.covariance @ slope, 0.0))))

    def lines(self) -> list[str]:
        """Estimates with their error bars, one line each."""
        labels, units, scales = self.unknowns.labels, self.unknowns.units, self.unknowns.scales
        return [
            f"{label:34s} {self.values[label]:.5g} {unit}".rstrip() + f"  {size_of(self.sd[label], unit, scale)}"
            for label, unit, scale in zip(labels, units, scales, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Estimates and error bars as JSON values."""
        return {
            "values": self.values, "sd": self.sd, "scales": dict(zip(self.unknowns.labels, self.unknowns.scales, strict=True)),
            "covariance": self.covariance.tolist(), "cost": self.cost, "converged": self.converged, "unseen": self.unseen,
            "windows": len(self.windows), "median_residual": float(np.median(self.residual)),
        }  # fmt: skip
