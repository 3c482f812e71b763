"""Pressure: projection onto divergence-free velocities, the nearest ones (Chorin, Math. Comput. 22, 1968).

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
from ti_sim.smoke.divergence import compute_outflow, subtract_gradient
from ti_sim.smoke.forces import Grid
from ti_sim.smoke.model import SmokeModel


class Pressure:
    """The factored D D^T of a grid."""

    def __init__(self, model: SmokeModel) -> None:
        """Factor D D^T; in each region of connected open cells, the pressure of one cell is fixed at zero."""
        self._open_cells = np.flatnonzero(model.open_cells)
        self._factor = qdldl.Solver(_laplacian(model))

    def __deepcopy__(self, memo: dict) -> Pressure:
        """This object: it is immutable, and its factor cannot be copied."""
        return self

    def project(self, grid: Grid, flow: Flow) -> None:
        """Replace velocities, or their adjoints, by the nearest divergence-free ones; in place."""
        outflow = zeros_in_same_library(flow.x, (flow.x.shape[0], *grid.open.shape))
        compute_outflow(viewed(grid), viewed(flow), *views(outflow))
        outflow_rows = to_numpy(outflow).reshape(flow.x.shape[0], -1).astype(np.float64)
        pressure = np.zeros_like(outflow_rows)
        for world, world_outflow in enumerate(outflow_rows):
            pressure[world, self._open_cells] = self._factor.solve(-world_outflow[self._open_cells])
        subtract_gradient(viewed(grid), *views(reals_in_same_library(flow.x, pressure.reshape(outflow.shape))), viewed(flow))


def _laplacian(model: SmokeModel) -> csc_matrix:
    """D D^T of the open cells, with 1 added to the diagonal of one cell of each region.

    The sum of D u over a region is zero, so the pressure of this cell is zero, and the other equations are unchanged.
    """
    index = np.full(model.cells, -1)
    index[model.open_cells] = np.arange(model.open_cells.sum())
    first_cell_parts = [index[:-1][model.open_x[1:-1]], index[:, :-1][model.open_y[:, 1:-1]]]
    second_cell_parts = [index[1:][model.open_x[1:-1]], index[:, 1:][model.open_y[:, 1:-1]]]
    first_cells, second_cells = np.concatenate(first_cell_parts), np.concatenate(second_cell_parts)
    cell_count = int(model.open_cells.sum())
    diagonal = np.bincount(first_cells, minlength=cell_count) + np.bincount(second_cells, minlength=cell_count)
    regions, _ = label(model.open_cells)
    pinned = index.ravel()[np.unique(regions.ravel(), return_index=True)[1]]
    diagonal[pinned[pinned >= 0]] += 1
    rows = np.concatenate([first_cells, second_cells, np.arange(cell_count)])
    columns = np.concatenate([second_cells, first_cells, np.arange(cell_count)])
    values = np.concatenate([-np.ones(2 * len(first_cells)), diagonal])
    return coo_matrix((values, (rows, columns)), shape=(cell_count, cell_count)).tocsc()
