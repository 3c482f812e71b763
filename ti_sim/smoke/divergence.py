"""Divergence of the velocities of a grid, and the gradient of a pressure: kernels without adjoints."""

from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.smoke.advection import Flow
from ti_sim.smoke.forces import Grid


@kernel
def compute_outflow(grid: Grid, flow: Flow, outflow: ti.types.ndarray()):
    """outflow [B, X, Y] = net outflow of each open cell, the divergence times the side of a cell [m/s]."""
    for b, i, j in outflow:
        value = grid.open_x[i + 1, j] * flow.x[b, i + 1, j] - grid.open_x[i, j] * flow.x[b, i, j]
        value += grid.open_y[i, j + 1] * flow.y[b, i, j + 1] - grid.open_y[i, j] * flow.y[b, i, j]
        outflow[b, i, j] = value


@kernel
def subtract_gradient(grid: Grid, pressure: ti.types.ndarray(), flow: Flow):
    """Subtract the difference of the pressure [B, X, Y] of the cells at both sides [m/s] at open faces; close the others."""
    for b, i, j in flow.x:
        value = 0.0
        if grid.open_x[i, j] > 0:
            value = flow.x[b, i, j] - (pressure[b, i, j] - pressure[b, i - 1, j])
        flow.x[b, i, j] = value
    for b, i, j in flow.y:
        value = 0.0
        if grid.open_y[i, j] > 0:
            value = flow.y[b, i, j] - (pressure[b, i, j] - pressure[b, i, j - 1])
        flow.y[b, i, j] = value
