"""Classical fourth-order Runge-Kutta steps of joint coordinates and velocities, with adjoints (Taichi functions).

The rows 0 to 3 of ``stage_rows`` [B, 4, Q + D + D + Q] hold the four stages: coordinates, velocities, accelerations and rates of
the coordinates. Row 0 holds the state. Quaternions are normalised after the step; stages normalise them on reading.
"""

from ti_sim.articulated.joints import joint_coordinate_rates, joint_coordinate_rates_adjoint, quaternion_column
from ti_sim.articulated.link_team import in_share, share, synchronise
from ti_sim.articulated.tables import JOINT_WORK, TREE
from ti_sim.base.rows import load_vec3, load_vec4, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import body_quaternion_rate, normalized_adjoint
from ti_sim.rollout.runge_kutta import next_stage_time, stage_weight


@ti.func
def coordinate_rates(world: ti.template(), stage_rows: ti.template(), b, stage):
    """Write the rates of the coordinates of a stage after its accelerations."""
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        joint_coordinate_rates(world, stage_rows, b, stage, i, world.tree[i, TREE.kind])
    synchronise(world, b)


@ti.func
def write_next_stage(world: ti.template(), stage_rows: ti.template(), b, stage):
    """Write the state of stage + 1 from the start and the rates of ``stage``."""
    next_time = world.dt * next_stage_time(stage)
    first_rate_column = world.coordinates + 2 * world.velocities
    for k in range(share(world, world.coordinates)):
        j = in_share(world, k)
        stage_rows[b, stage + 1, j] = stage_rows[b, 0, j] + next_time * stage_rows[b, stage, first_rate_column + j]
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        rate_column = world.coordinates + d
        acceleration = stage_rows[b, stage, rate_column + world.velocities]
        stage_rows[b, stage + 1, rate_column] = stage_rows[b, 0, rate_column] + next_time * acceleration
    synchronise(world, b)


@ti.func
def weighted_stage_sum(stage_rows: ti.template(), b, column):
    """Weighted sum of a column of the four stages: 1/6, 1/3, 1/3, 1/6."""
    middle_stages = stage_rows[b, 1, column] + stage_rows[b, 2, column]
    return (stage_rows[b, 0, column] + stage_rows[b, 3, column]) / 6 + middle_stages / 3


@ti.func
def finish_step(world: ti.template(), stage_rows: ti.template(), b):
    """Write the state after the step to row 0, from the rates of all stages."""
    first_rate_column = world.coordinates + 2 * world.velocities
    for k in range(share(world, world.coordinates)):
        j = in_share(world, k)
        stage_rows[b, 0, j] = stage_rows[b, 0, j] + world.dt * weighted_stage_sum(stage_rows, b, first_rate_column + j)
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        column = world.coordinates + d
        acceleration = weighted_stage_sum(stage_rows, b, column + world.velocities)
        stage_rows[b, 0, column] = stage_rows[b, 0, column] + world.dt * acceleration
    synchronise(world, b)
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        column = quaternion_column(world.tree, i)
        if column >= 0:
            q = load_vec4(stage_rows, b, 0, column).normalized()
            store_vec4(stage_rows, b, 0, column, q)
    synchronise(world, b)


@ti.func
def finish_step_adjoint(world: ti.template(), states: ti.template(), bar: ti.template(), b, first_row):
    """Adjoint of the end of a step: through the normalisation, in place in row 0 of ``bar``, copied to row 1; row 2 is cleared.

    Coordinates and velocities of the four stages are in ``states``, beginning at ``first_row``. Then row 0 of ``bar`` [B, 3, Q +
    D] accumulates the adjoint of the start of the step, row 1 is the adjoint of the sum of the rates (divided by dt), and row 2
    that of the stage after the current one.
    """
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        column = quaternion_column(world.tree, i)
        if column >= 0:
            w_column = world.coordinates + world.tree[i, TREE.end_qd] - 3
            raw_quaternion = load_vec4(states, b, first_row, column)
            for stage in ti.static(range(4)):
                row = first_row + stage
                rate = body_quaternion_rate(load_vec4(states, b, row, column), load_vec3(states, b, row, w_column))
                raw_quaternion += world.dt * stage_weight(stage) * rate
            raw_quaternion_bar = normalized_adjoint(raw_quaternion, load_vec4(bar, b, 0, column))
            store_vec4(bar, b, 0, column, raw_quaternion_bar)
    synchronise(world, b)
    for k in range(share(world, world.coordinates + world.velocities)):
        j = in_share(world, k)
        bar[b, 1, j] = bar[b, 0, j]
        bar[b, 2, j] = 0.0
    synchronise(world, b)


@ti.func
def stage_adjoint(world: ti.template(), states: ti.template(), bar: ti.template(), b, row, stage):
    """Adjoint of a stage's rates without the accelerations: row 2 of ``bar`` changes from the next stage's state to that of this
    stage.

    Coordinates and velocities of the stage are in ``row`` of ``states``. The negative adjoints of the accelerations are written
    to column JOINT_WORK.solution of the joint velocities.
    """
    weight, next_time = world.dt * stage_weight(stage), world.dt * next_stage_time(stage)
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        rate_column = world.coordinates + d
        world.velocity_work[b, d, JOINT_WORK.solution] = -(weight * bar[b, 1, rate_column] + next_time * bar[b, 2, rate_column])
        bar[b, 2, rate_column] = 0.0
    for k in range(share(world, world.coordinates)):
        j = in_share(world, k)
        bar[b, 2, j] = weight * bar[b, 1, j] + next_time * bar[b, 2, j]
    synchronise(world, b)
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        joint_coordinate_rates_adjoint(world, states, bar, b, row, i, world.tree[i, TREE.kind])
    synchronise(world, b)
