"""Values inside obstacles, for interpolation beside them: means of the nearest values outside."""

import numpy as np
from scipy.spatial import cKDTree

from ti_sim.base.bundles import Array, bundle, kernel
from ti_sim.base.runtime import ti

_MAX_NEIGHBOURS = 8  # nodes at the same distance from a node of a square grid, at least for the first three distances
_DISTANCE_TOLERANCE = 1e-9  # relative difference up to which distances are equal


@bundle
class Filling:
    """Nodes of a field inside obstacles, and the nodes outside whose weighted mean is written there.

    Attributes:
        target: [n, 2] int32, nodes inside.
        source: [n, 8, 2] int32, nodes outside.
        weight: [n, 8] their weights, with a sum of 1.
    """

    target: Array
    source: Array
    weight: Array


@ti.func
def fill_node(filling: ti.template(), field: ti.template(), b, n):
    """Write the value of node n inside obstacles."""
    value = 0.0
    for k in range(filling.source.shape[1]):
        value += filling.weight[n, k] * field[b, filling.source[n, k, 0], filling.source[n, k, 1]]
    field[b, filling.target[n, 0], filling.target[n, 1]] = value


@ti.func
def fill_node_adjoint(filling: ti.template(), field_bar: ti.template(), b, n):
    """Adjoint of ``fill_node``: moves the adjoint of the value inside obstacles to those outside."""
    i, j = filling.target[n, 0], filling.target[n, 1]
    bar = field_bar[b, i, j]
    field_bar[b, i, j] = 0.0
    for k in range(filling.source.shape[1]):
        field_bar[b, filling.source[n, k, 0], filling.source[n, k, 1]] += filling.weight[n, k] * bar


@kernel
def fill(filling: Filling, field: ti.types.ndarray()):
    """Write the values of a field [B, ., .] inside obstacles."""
    for b, n in ti.ndrange(field.shape[0], filling.target.shape[0]):
        fill_node(filling, field, b, n)


@kernel
def fill_adjoint(filling: Filling, field_bar: ti.types.ndarray()):
    """Adjoint of ``fill``: moves the adjoints of the values inside obstacles to those outside."""
    for b, n in ti.ndrange(field_bar.shape[0], filling.target.shape[0]):
        fill_node_adjoint(filling, field_bar, b, n)


def nearest_outside(outside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of ``Filling`` for nodes [., .] that are True outside obstacles; of length 0 without obstacles."""
    target, nodes = np.argwhere(~outside), np.argwhere(outside)
    count = min(_MAX_NEIGHBOURS, len(nodes))
    distance, index = cKDTree(nodes).query(target, k=range(1, count + 1))
    is_nearest = distance <= (1 + _DISTANCE_TOLERANCE) * distance[:, :1]
    return target, nodes[index], is_nearest / is_nearest.sum(axis=1, keepdims=True)
