"""The least-squares problem of a film: unknowns in scaled coordinates, their films by simulation in batches of worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation, linearise, losses_at, predict, with_penalties
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
                equations.append(linearise(self.scene, self.comparison, self.unknowns, physical).equations)
            except DivergenceError:  # neither this point nor any around it can be simulated
                equations.append(None)
        return equations

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Equations) -> np.ndarray:
        """Losses, smoothness and priors included (``PointwiseProblem.objectives``)."""
        return np.stack([losses_at(self.scene, self.comparison, self.unknowns, np.array(points)) for points in candidates])


class ChordProblem(FilmProblem):
    """A film near a point whose Jacobian is known: all steps use that one, and a point takes one world.

    Args:
        scene, comparison, unknowns: those of the inversion.
        jacobian: [P, K] as of ``Linearisation``.
    """

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns, jacobian: torch.Tensor) -> None:
        super().__init__(scene, comparison, unknowns)
        self.jacobian = jacobian

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations | None]:
        """Normal equations with the known Jacobian (``LeastSquaresProblem.linearise``)."""
        equations: list[NormalEquations | None] = []
        for point in points:
            try:
                observed, _ = predict(self.scene, self.comparison, self.unknowns, point[None])
            except DivergenceError:
                equations.append(None)
                continue
            residual = self.comparison.target.flatten() - observed[0]
            at_point = with_penalties(Linearisation(residual, self.jacobian, point, self.comparison), self.unknowns)
            equations.append(at_point.equations)
        return equations
