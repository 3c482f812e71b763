"""The least-squares problem of a film: unknowns in scaled coordinates, their films by simulation in batches of worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation, linearise, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.problem import BoundedProblem, Equations
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError


class FilmProblem(BoundedProblem):
    """Points are [K] scaled coordinates; a unit of a step is the whole range of an unknown.

    Args:
        scene, comparison, unknowns: those of the inversion.
    """

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns) -> None:
        self.scene, self.comparison, self.unknowns = scene, comparison, unknowns
        super().__init__(*(unknowns.scaled(bound) for bound in unknowns.bounds()), unknowns.scaled_range())

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations | None]:
        """Normal equations by central differences, 2 K + 1 worlds for each point (``LeastSquaresProblem.linearise``)."""
        equations: list[NormalEquations | None] = []
        for physical in map(self.unknowns.physical_values, points):
            try:
                linearisation = linearise(self.scene, self.comparison, self.unknowns, physical)
            except DivergenceError:  # neither this point nor any around it can be simulated
                equations.append(None)
                continue
            equations.append(replace(linearisation.equations, objective=self._objective(linearisation)))
        return equations

    def _objective(self, linearisation: Linearisation) -> float | None:
        """The objective at the point of a linearisation; None where its frozen look may differ from that of candidates."""
        if linearisation.frozen_comparison is not linearisation.comparison:
            return None
        loss, scaled = torch.tensor([linearisation.loss], dtype=torch.float64), torch.as_tensor(linearisation.scaled[None])
        return float(self.unknowns.penalised_at(loss, scaled, linearisation.comparison.observation_count)[0])

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Equations) -> np.ndarray:
        """Losses, smoothness and priors included (``PointwiseProblem.objectives``)."""
        return np.stack([losses_at(self.scene, self.comparison, self.unknowns, np.array(points)) for points in candidates])
