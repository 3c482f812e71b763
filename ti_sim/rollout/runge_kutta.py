"""Weights and times of the stages of a classical fourth-order Runge-Kutta step (Taichi functions)."""

from ti_sim.base.runtime import ti


@ti.func
def stage_weight(stage):
    """Weight of a stage's rates in the step: 1/6, 1/3, 1/3, 1/6."""
    weight = 1.0 / 6
    if stage == 1 or stage == 2:
        weight = 1.0 / 3
    return weight


@ti.func
def stage_ahead(stage):
    """Fraction of dt from the start to the next stage: 1/2, 1/2, 1, and 0 after the last stage."""
    ahead = 0.5
    if stage == 2:
        ahead = 1.0
    if stage == 3:
        ahead = 0.0
    return ahead
