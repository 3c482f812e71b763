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
def next_stage_time(stage):
    """Time of the next stage after the start of the step, in steps: 1/2, 1/2, 1, and 0 after the last stage."""
    fraction = 0.5
    if stage == 2:
        fraction = 1.0
    if stage == 3:
        fraction = 0.0
    return fraction
