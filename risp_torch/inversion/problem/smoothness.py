"""A penalty on differences between neighbouring elements, which regularises hundreds of per-element unknowns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, checked
from ti_sim.meshes.neighbours import element_neighbours


@checked
@dataclass(frozen=True)
class SmoothnessPrior:
    """Prior knowledge that the values of neighbouring elements of a solid or sheet are similar.

    The penalty added to the loss is the weight times the mean over elements that share a face (triangles: an edge) of the squared
    difference of their scaled values (decades for log10).

    Attributes:
        weight: of the penalty.
        normal: a normal prior of the same values: standard deviation, or (mean, standard deviation); None without one.

    Raises:
        UserError: the weight is not above zero.
    """

    weight: Positive
    normal: Any = None


@dataclass(frozen=True)
class Smoothness:
    """Weighted sum of squared differences between pairs of unknowns, in scaled units (decades for log10).

    Attributes:
        pairs: [M, 2] indices of unknowns.
        weights: [M] of each pair: its parameter's weight over the number of pairs of that parameter.
        specification: name -> weight, as given.
    """

    pairs: np.ndarray
    weights: np.ndarray
    specification: Mapping[str, float]

    @staticmethod
    def of(scene: Scene, params: Mapping[str, Param], weights: Mapping[str, float]) -> Smoothness:
        """The penalty weight * mean over neighbouring elements of (difference of scaled values)^2 of each named parameter.

        Args:
            scene: the scene.
            params: parameters of the unknowns, in order.
            weights: name -> weight, above zero.

        Raises:
            UserError: a name is not unknown or has no value per element of a body.
        """
        parameter_ends = dict(zip(params, np.cumsum([np.size(param.value) for param in params.values()]), strict=True))
        pairs, pair_weights = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
        for name, weight in weights.items():
            if name not in params:
                raise unknown_name_error("unknown to smooth", name, list(params))
            body = body_of_elements(scene, name)
            if body is None:
                raise UserError(
                    f"{name} has no number for each element of a solid, cloth or flat body: give its material an array [E] to "
                    "smooth it"
                )
            neighbours = element_neighbours(body.elements.indices)
            if not len(neighbours):
                raise UserError(f"no elements of {name} are neighbours: leave its smoothness out")
            pairs.append(neighbours + parameter_ends[name] - np.size(params[name].value))
            pair_weights.append(np.full(len(neighbours), weight / len(neighbours)))
        return Smoothness(np.concatenate(pairs), np.concatenate(pair_weights), dict(weights))

    def penalty(self, scaled: torch.Tensor) -> torch.Tensor:
        """Penalty [S] of scaled coordinates [S, K], differentiable."""
        pairs = torch.as_tensor(self.pairs, device=scaled.device)
        weights = torch.as_tensor(self.weights).to(scaled)
        return (weights * (scaled[:, pairs[:, 0]] - scaled[:, pairs[:, 1]]) ** 2).sum(dim=1)

    def matrix(self, ranges: np.ndarray) -> np.ndarray:
        """H [K, K] with which the penalty is x^T H x of the unknowns x relative to their ranges [K] (scaled units)."""
        rows = np.zeros((len(self.pairs), len(ranges)))
        pair_index = np.arange(len(self.pairs))
        for column, sign in enumerate((1.0, -1.0)):
            rows[pair_index, self.pairs[:, column]] = sign * ranges[self.pairs[:, column]]
        return rows.T @ (self.weights[:, None] * rows)


def split_priors(priors: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Normal priors, and weights of smoothness, by the names of their unknowns.

    Args:
        priors: name -> standard deviation, (mean, standard deviation), or ``SmoothnessPrior``.
    """
    smooth = {name: prior for name, prior in priors.items() if isinstance(prior, SmoothnessPrior)}
    normal = {name: smooth[name].normal if name in smooth else prior for name, prior in priors.items()}
    return (
        {name: prior for name, prior in normal.items() if prior is not None or name not in smooth},
        {name: prior.weight for name, prior in smooth.items()},
    )


def body_of_elements(scene: Scene, name: str) -> Deformable | None:
    """The solid, cloth or flat body each of whose elements has its own number in the parameter ``name``; None without one."""
    body, _, key = name.partition(".")
    deformable = next((deformable for deformable in scene.deformables if deformable.name == body), None)
    if deformable is None or name not in scene.table.params or key == "mass" or key.startswith("bending."):
        return None  # these have values per particle and edge
    indices = deformable.elements.indices
    return deformable if indices.shape[1] > 2 and np.shape(scene.table[name].value) == (len(indices),) else None
