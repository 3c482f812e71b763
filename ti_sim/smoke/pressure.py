"""Pressure: the nearest velocities that keep the volume of every cell (Chorin, Math. Comput. 22, 1968).

With D the divergence of open faces, velocities become u - D^T (D D^T)^-1 D u. This projection is symmetric: the adjoint is the
same function. D D^T is factored once by sparse LDL^T in double precision.
"""

from __future__ import annotations

import numpy as np
import qdldl
from scipy.ndimage import label
from scipy.sparse import coo_matrix, csc_matrix

from ti_sim.base.arrays import reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import viewed, views
from ti_sim.smoke.advection import Flow
from ti_sim.smoke.divergence import diverge, subtract_gradient
from ti_sim.smoke.forces import Grid
from ti_sim.smoke.model import SmokeModel


class Pressure:
    """The factored D D^T of a grid."""

    def __init__(self, model: SmokeModel) -> None:
        """Factor it; of each region of connected open cells, the pressure of one cell is held at zero."""
        self._open = np.flatnonzero(model.open_cells)
        self._factor = qdldl.Solver(_laplacian(model))

    def __deepcopy__(self, memo: dict) -> Pressure:
        """Itself: it does not change, and its factor cannot be copied."""
        return self

    def project(self, grid: Grid, flow: Flow) -> None:
        """Replace velocities, or their adjoints, by the nearest ones that keep the volume of every cell; in place."""
        flow_out = zeros_in_same_library(flow.x, (flow.x.shape[0], *grid.open.shape))
        diverge(viewed(grid), viewed(flow), *views(flow_out))
        divergence = to_numpy(flow_out).reshape(flow.x.shape[0], -1).astype(np.float64)
        pressure = np.zeros_like(divergence)
        for world, row in enumerate(divergence):
            pressure[world, self._open] = self._factor.solve(-row[self._open])
        subtract_gradient(viewed(grid), *views(reals_in_same_library(flow.x, pressure.reshape(flow_out.shape))), viewed(flow))


def _laplacian(model: SmokeModel) -> csc_matrix:
    """D D^T of the open cells, with 1 added to the diagonal of one cell of each region.

    The sum of D u over a region is zero, so that this cell's pressure is, and the other equations hold as they are.
    """
    index = np.full(model.cells, -1)
    index[model.open_cells] = np.arange(model.open_cells.sum())
    firsts = [index[:-1][model.open_x[1:-1]], index[:, :-1][model.open_y[:, 1:-1]]]
    seconds = [index[1:][model.open_x[1:-1]], index[:, 1:][model.open_y[:, 1:-1]]]
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    count = int(model.open_cells.sum())
    diagonal = np.bincount(a, minlength=count) + np.bincount(b, minlength=count)
    regions, _ = label(model.open_cells)
    pinned = index.ravel()[np.unique(regions.ravel(), return_index=True)[1]]
    diagonal[pinned[pinned >= 0]] += 1
    rows, columns = np.concatenate([a, b, np.arange(count)]), np.concatenate([b, a, np.arange(count)])
    values = np.concatenate([-np.ones(2 * len(a)), diagonal])
    return coo_matrix((values, (rows, columns)), shape=(count, count)).tocsc()
