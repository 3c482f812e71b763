"""The starting step of BDF2, for which there is no step before.

BDF2 extrapolates the change of velocity of the step before: an impulse in a starting step would have 3/2 of its weight. Steps
of BDF2 have the weight 2/3, with which impulses add up to themselves. The starting step is one of them, with the ghost state

    y_(-1) = y_0 - 3/2 (Y - y_0),

where Y is the result of a stage of backward Euler over 2/3 of the step. The forces of the two stages have the weights 1/3 and
2/3; with the extrapolation 1/2 and 1, those of the trapezoidal rule. The contact law of Y is the mean over the whole step with
weights that fall to zero at its end (``Stage.reach``). The weights of all contact forces then add up to one at every time after
the start.

An error of second order in one step does not change the order of BDF2. Under a constant acceleration a the velocity is exact, and
positions would end 7/18 a h^2 too far. The second stage starts from x_hat minus this, with a = 3/2 u / h, where u is the change
of velocity in Y. An impulse of contact is no constant acceleration, and must not displace x_hat: u is multiplied by the share

    5 w^2 / (4 w^2 + |u|^2),    w = 2/3 h |g + load / m|,

which is one in free fall and vanishes for impulses.
"""

from __future__ import annotations

import numpy as np

from ti_sim.deformable.implicit.stages import Stage
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import LOADED, DeformableModel

# In steps: time by which u is multiplied, and duration of the stage in which u arises.
_CORRECTION_FACTOR, _STAGE_GAMMA = 7 / 12, 2 / 3


def position_correction(
    model: DeformableModel, inputs: DeformableInputs, states: np.ndarray, stage: Stage, dt: float, world: int, frame: int
) -> np.ndarray:
    """Correction of x_hat of the second stage [P, 3], m.

    Args:
        model: particles and elements.
        inputs: numbers of every world, f64 numpy arrays.
        states: [rows, P, 6] of the world.
        stage: the second stage.
        dt: step [s].
        world: the world.
        frame: frame interval of the loads.
    """
    u, _acceleration, squared_fall_speed, denominator = _correction_terms(model, inputs, states, stage, dt, world, frame)
    return -_CORRECTION_FACTOR * dt * (5 * squared_fall_speed / denominator) * u


def position_correction_adjoint(
    model: DeformableModel, inputs: DeformableInputs, bars: DeformableInputs, states: np.ndarray, stage: Stage, dt: float,
    world: int, frame: int, bar: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Adjoint of ``position_correction``: add those of gravity [B, P, 3] by particle, loads and masses to ``bars``.

    Args:
        model, inputs, states, stage, dt, world, frame: as in ``position_correction``.
        bars: adjoints of the inputs.
        bar: [P, 3] adjoint of the result.

    Returns:
        [P, 3] adjoint of u.
    """
    u, acceleration, squared_fall_speed, denominator = _correction_terms(model, inputs, states, stage, dt, world, frame)
    bar = -_CORRECTION_FACTOR * dt * bar
    factor_bar = (u * bar).sum(1, keepdims=True)
    acceleration_bar = (
        2 * (_STAGE_GAMMA * dt) ** 2 * (5 * (u * u).sum(1, keepdims=True) / denominator**2 * factor_bar) * acceleration
    )
    bars.gravity[world] += acceleration_bar
    loaded_particles = np.flatnonzero(model.particle_table[:, LOADED] >= 0)
    load_rows, mass = model.particle_table[loaded_particles, LOADED], inputs.particle_mass[world, loaded_particles, None]
    bars.load[world, frame, load_rows] += acceleration_bar[loaded_particles] / mass
    load = inputs.load[world, frame, load_rows]
    bars.particle_mass[world, loaded_particles] -= (load * acceleration_bar[loaded_particles] / mass**2).sum(1)
    return 5 * squared_fall_speed / denominator * bar - 10 * squared_fall_speed / denominator**2 * factor_bar * u


def _correction_terms(
    model: DeformableModel, inputs: DeformableInputs, states: np.ndarray, stage: Stage, dt: float, world: int, frame: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """u [P, 3], g + load / m [P, 3], w^2 [P, 1] and 4 w^2 + |u|^2 [P, 1], where zeros are replaced by 1."""
    u = states[stage.rows[0], :, 3:] - states[stage.start, :, 3:]
    acceleration = np.repeat(inputs.gravity[world][None], len(u), axis=0)
    loaded_particles = np.flatnonzero(model.particle_table[:, LOADED] >= 0)
    load = inputs.load[world, frame, model.particle_table[loaded_particles, LOADED]]
    acceleration[loaded_particles] += load / inputs.particle_mass[world, loaded_particles, None]
    squared_fall_speed = (_STAGE_GAMMA * dt) ** 2 * (acceleration * acceleration).sum(1, keepdims=True)
    denominator = 4 * squared_fall_speed + (u * u).sum(1, keepdims=True)
    return u, acceleration, squared_fall_speed, np.where(denominator > 0, denominator, 1.0)
