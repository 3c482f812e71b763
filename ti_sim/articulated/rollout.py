"""Entire rollouts (or checkpoint segments) in one launch, one thread or one team of threads per world, and their adjoints.

A team shares the links of its world, see ``link_team``.
"""

from ti_sim.articulated.adjoint import accelerate_adjoint
from ti_sim.articulated.contact_bristles import clear_pairs, copy_bristles, state_columns
from ti_sim.articulated.dry_friction import deflection_column
from ti_sim.articulated.dynamics import accelerate_links, eliminate_links, place_links
from ti_sim.articulated.joints import quaternion_column
from ti_sim.articulated.kinematics import step_coordinates, step_coordinates_adjoint
from ti_sim.articulated.link_team import LinkTeam, in_lane, in_share, is_first_lane, share, synchronise
from ti_sim.articulated.runge_kutta import coordinate_rates, finish_step, finish_step_adjoint, stage_adjoint, write_next_stage
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, TREE, WORK, BarArrays, WorldArrays
from ti_sim.base.bundles import kernel
from ti_sim.base.rows import POSE, TWIST, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.teams import group_of, lane_of, takes_part, team_iterations
from ti_sim.base.vecmath import normalized_adjoint, vec3
from ti_sim.contact.collision import NEAR

# Number of steps whose parameter adjoints are summed before they are added to the sum over the rollout.
SUM_STEPS = 128
_LARGEST = 1e18  # a larger number is treated as not finite; the square of this one is finite in f32


@ti.func
def copy_row(world: ti.template(), source: ti.template(), slot, target: ti.template(), target_slot, b, count):
    """Copy the first ``count`` numbers of a row."""
    for k in range(share(world, count)):
        j = in_share(world, k)
        target[b, target_slot, j] = source[b, slot, j]


@ti.func
def copy_state(world: ti.template(), source: ti.template(), slot, target: ti.template(), target_slot, b):
    """Copy the coordinates and velocities of a row, and the deflections of bristles, without the accelerations."""
    copy_row(world, source, slot, target, target_slot, b, world.coordinates + world.velocities)
    if ti.static(world.with_dry_friction):
        for k in range(share(world, world.velocities)):
            column = deflection_column(world, in_share(world, k))
            target[b, target_slot, column] = source[b, slot, column]
    if ti.static(world.with_contact_bristles):
        copy_bristles(world, source, slot, target, target_slot, b)


@ti.func
def store_links(world: ti.template(), b, frame, body_q: ti.template(), body_qd: ti.template()):
    """Write the poses and velocities of the links at a frame."""
    for n in range(share(world, world.links)):
        i = in_share(world, n)
        for k in ti.static(range(3)):
            body_q[b, frame, i, POSE.position + k] = world.work[b, i, WORK.position + k]
            body_qd[b, frame, i, TWIST.linear + k] = world.work[b, i, WORK.velocity + k]
            body_qd[b, frame, i, TWIST.angular + k] = world.work[b, i, WORK.spin + k]
        for k in ti.static(range(4)):
            body_q[b, frame, i, POSE.quaternion + k] = world.work[b, i, WORK.quaternion + k]


@ti.func
def store_joints(world: ti.template(), stage_rows: ti.template(), b, frame, joint_q: ti.template(), joint_qd: ti.template()):
    """Write coordinates and velocities of the joints at a frame."""
    for k in range(share(world, world.coordinates)):
        j = in_share(world, k)
        joint_q[b, frame, j] = stage_rows[b, 0, j]
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        joint_qd[b, frame, d] = stage_rows[b, 0, world.coordinates + d]


@ti.func
def first_diverged_link(world: ti.template(), stage_rows: ti.template(), b):
    """First link whose joint state is not finite, -1 if all are finite."""
    absolute_sum = 0.0
    for j in range(world.coordinates + world.velocities):
        absolute_sum += ti.abs(stage_rows[b, 0, j])
    link = -1
    if not absolute_sum < _LARGEST:
        i = world.links - 1
        while i >= 0:
            absolute_sum = 0.0
            for j in range(world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]):
                absolute_sum += ti.abs(stage_rows[b, 0, world.coordinates + j])
            past_last_q = world.coordinates
            if i + 1 < world.links:
                past_last_q = world.tree[i + 1, TREE.first_q]
            for j in range(world.tree[i, TREE.first_q], past_last_q):
                absolute_sum += ti.abs(stage_rows[b, 0, j])
            if link < 0 or not absolute_sum < _LARGEST:
                link = i
            i -= 1
    return link


@ti.func
def record_contact_fault(world: ti.template(), b, step):
    """Record the step in which contact could not resolve a pair for the first time."""
    if ti.static(world.with_pairs):
        if world.near_pairs[b, NEAR.faulty_pair] >= 0 and world.near_pairs[b, NEAR.fault_step] < 0:
            world.near_pairs[b, NEAR.fault_step] = step


@ti.func
def add_and_clear_sums(world: ti.template(), bars: ti.template(), b):
    """Add the partial sums of the tables' adjoints to those over the rollout, and clear them."""
    for n in range(share(world, world.links)):
        i = in_share(world, n)
        for k in range(LINK.size):
            bars.link_total[b, i, k] = bars.link_total[b, i, k] + bars.link[b, i, k]
            bars.link[b, i, k] = 0.0
    for n in range(share(world, world.velocities)):
        d = in_share(world, n)
        for k in range(JOINT.size):
            bars.velocity_total[b, d, k] = bars.velocity_total[b, d, k] + bars.velocity[b, d, k]
            bars.velocity[b, d, k] = 0.0


@ti.func
def add_gravity_adjoint(world: ti.template(), bars: ti.template(), b, gravity_bar):
    """Add the sum over the lanes of ``gravity_bar`` to the adjoint of gravity."""
    if ti.static(world.kind == "single"):
        for k in ti.static(range(3)):
            bars.gravity[b, k] = bars.gravity[b, k] + gravity_bar[k]
    else:
        store_vec3(world.team.gravity_bar, b, world.lane, 0, gravity_bar)
        synchronise(world, b)
        if is_first_lane(world):
            for lane in range(world.team.team.size):
                lane_bar = load_vec3(world.team.gravity_bar, b, lane, 0)
                for k in ti.static(range(3)):
                    bars.gravity[b, k] = bars.gravity[b, k] + lane_bar[k]


@ti.kernel
def initialise_state(
    joint_q0: ti.types.ndarray(), joint_qd0: ti.types.ndarray(), tree: ti.types.ndarray(), states: ti.types.ndarray(),
    coordinates: int, velocities: int,
):  # fmt: skip
    """Write the first state (slot 0 of states [B, slots, Q + 2 D]) from joint_q0 [B, Q] and joint_qd0 [B, D].

    Normalises quaternions. Hand-written adjoint: ``initialise_state_adjoint``.
    """
    for b in range(states.shape[0]):
        for j in range(coordinates):
            states[b, 0, j] = joint_q0[b, j]
        for d in range(velocities):
            states[b, 0, coordinates + d] = joint_qd0[b, d]
        for i in range(tree.shape[0]):
            column = quaternion_column(tree, i)
            if column >= 0:
                q = load_vec4(states, b, 0, column).normalized()
                store_vec4(states, b, 0, column, q)


@ti.kernel
def initialise_state_adjoint(
    joint_q0: ti.types.ndarray(), tree: ti.types.ndarray(), bar: ti.types.ndarray(),
    joint_q0_bar: ti.types.ndarray(), joint_qd0_bar: ti.types.ndarray(), coordinates: int, velocities: int,
):  # fmt: skip
    """Adjoint of ``initialise_state``: writes joint_q0_bar and joint_qd0_bar from row 0 of bar [B, rows, Q + D]."""
    for b in range(bar.shape[0]):
        for j in range(coordinates):
            joint_q0_bar[b, j] = bar[b, 0, j]
        for d in range(velocities):
            joint_qd0_bar[b, d] = bar[b, 0, coordinates + d]
        for i in range(tree.shape[0]):
            column = quaternion_column(tree, i)
            if column >= 0:
                raw_quaternion = ti.math.vec4(
                    joint_q0[b, column], joint_q0[b, column + 1], joint_q0[b, column + 2], joint_q0[b, column + 3]
                )
                raw_quaternion_bar = normalized_adjoint(raw_quaternion, load_vec4(bar, b, 0, column))
                for k in ti.static(range(4)):
                    joint_q0_bar[b, column + k] = raw_quaternion_bar[k]


@kernel
def advance(
    rk4: ti.template(), source: ti.types.ndarray(), source_row: int, states: ti.types.ndarray(), store_every: int,
    stage_rows: ti.types.ndarray(), joint_q: ti.types.ndarray(), joint_qd: ti.types.ndarray(),
    body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(), write_frames: int,
    diverged_step: ti.types.ndarray(), diverged_link: ti.types.ndarray(),
    arrays: WorldArrays, team: LinkTeam, first_step: int, steps: int, substeps: int,
):  # fmt: skip
    """Advance every world by ``steps`` steps from a row of source [B, rows, Q + 2 D].

    With dry friction, all rows of states have D more columns, the deflections of bristles (see ``dry_friction``); with bristles
    of contacts those of ``contact_bristles``.

    Reads the packed tables (see ``tables``) and the inputs of each frame. Writes to states [B, rows, Q + 2 D]: with
    ``store_every`` 1, one row of coordinates, velocities and accelerations for each stage of each step, and the last state;
    otherwise coordinates and velocities at the start and after every ``store_every`` steps. With ``write_frames`` it writes the
    frames of the segment, which starts at a frame: joint_q [B, frames + 1, Q], joint_qd [B, frames + 1, D], body_q [B, frames +
    1, N, 7] and body_qd [B, frames + 1, N, 6] (m, rad, m/s, rad/s). It writes to diverged_step [B] and diverged_link [B] the
    first step after which a state is not finite, and its link, and skips worlds that are marked there. stage_rows [B, stages,
    columns] is scratch. Hand-written adjoint: ``advance_adjoint``.
    """
    ti.loop_config(block_dim=team.team.block_dim)
    for index in range(team_iterations(team.team)):
        b = group_of(team.team, index)
        if takes_part(team.team, index) and diverged_step[b] < 0:
            world = in_lane(arrays, team, lane_of(team.team, index))
            stages = 4 if ti.static(rk4) else 1
            copy_state(world, source, source_row, stage_rows, 0, b)
            copy_state(world, stage_rows, 0, states, 0, b)
            synchronise(world, b)
            steps_until_store, row = store_every, 0
            steps_until_frame, frame = 0, first_step // substeps
            executed_steps = 0
            while executed_steps <= steps:  # the pass after the last step only computes the poses of the last frame
                step = ti.min(first_step + executed_steps, first_step + steps - 1)
                at_frame = write_frames == 1 and steps_until_frame == 0
                for stage in range(stages):
                    if executed_steps < steps or (at_frame and stage == 0):
                        place_links(world, stage_rows, b, stage, step // substeps, False)
                        if is_first_lane(world):
                            record_contact_fault(world, b, step)
                        if at_frame and stage == 0:
                            store_links(world, b, frame, body_q, body_qd)
                            store_joints(world, stage_rows, b, frame, joint_q, joint_qd)
                            steps_until_frame = substeps
                            frame += 1
                        if executed_steps < steps:
                            eliminate_links(world, stage_rows, b, stage, step // substeps, False)
                            accelerate_links(world, stage_rows, b, stage)
                            if store_every == 1:
                                copy_row(world, stage_rows, stage, states, row + stage, b, state_columns(world))
                                synchronise(world, b)
                            if ti.static(rk4):
                                coordinate_rates(world, stage_rows, b, stage)
                                if stage < 3:
                                    write_next_stage(world, stage_rows, b, stage)
                steps_until_frame -= 1
                if executed_steps < steps:
                    if ti.static(rk4):
                        finish_step(world, stage_rows, b)
                    else:
                        step_coordinates(world, stage_rows, b, 0)
                    steps_until_store -= 1
                    if steps_until_store == 0:
                        steps_until_store = store_every
                        row += stages if store_every == 1 else 1
                        copy_state(world, stage_rows, 0, states, row, b)
                    if is_first_lane(world):
                        link = first_diverged_link(world, stage_rows, b)
                        if link >= 0:
                            diverged_step[b] = step + 1
                            diverged_link[b] = link
                    synchronise(world, b)
                    if diverged_step[b] >= 0:
                        executed_steps = steps
                executed_steps += 1


@kernel
def advance_adjoint(
    rk4: ti.template(), states: ti.types.ndarray(), diverged_step: ti.types.ndarray(), bar: ti.types.ndarray(),
    joint_q_bar: ti.types.ndarray(), joint_qd_bar: ti.types.ndarray(),
    body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    arrays: WorldArrays, bars: BarArrays, team: LinkTeam, first_step: int, steps: int, is_last: int, substeps: int,
):  # fmt: skip
    """Adjoint of ``advance`` over a segment of ``steps`` steps, in reverse order.

    Reads states [B, rows, Q + 2 D] as ``advance`` writes them with ``store_every`` 1, and the adjoints of the frames at the
    starts of the steps and, if the segment ``is_last``, of the last frame. Row 0 of bar [B, 3, Q + D] holds the
    adjoint of the state after the segment and is overwritten by that of the first state. Adds to the adjoints of the tables and
    of the inputs of each frame. The partial sums of the tables in bars must hold zeros on entry.
    """
    ti.loop_config(block_dim=team.team.block_dim)
    for index in range(team_iterations(team.team)):
        b = group_of(team.team, index)
        if takes_part(team.team, index) and diverged_step[b] < 0:
            world = in_lane(arrays, team, lane_of(team.team, index))
            stages = 4 if ti.static(rk4) else 1
            state_size = world.coordinates + world.velocities
            gravity_bar = vec3(0.0)
            remaining_steps = steps - 1
            if is_last == 1:
                remaining_steps = steps
            while remaining_steps >= 0:
                step, row = first_step + remaining_steps, remaining_steps * stages
                frame = ti.min(step, first_step + steps - 1) // substeps  # frame interval of the inputs
                stage, is_frame_step = 0, 0
                if step % substeps == 0:
                    is_frame_step = 1
                if remaining_steps == steps:  # only the poses and velocities of the last frame
                    for k in range(share(world, world.velocities)):
                        d = in_share(world, k)
                        world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
                        states[b, row, state_size + d] = 0.0
                    if ti.static(world.with_contact_bristles):
                        clear_pairs(world, states, b, row)
                    for k in range(share(world, state_size)):
                        bar[b, 2, in_share(world, k)] = 0.0
                    synchronise(world, b)
                elif ti.static(rk4):
                    finish_step_adjoint(world, states, bar, b, row)
                    stage = 3
                else:
                    step_coordinates_adjoint(world, states, bars, bar, b, row, 0)
                while stage >= 0:
                    bar_row = 0
                    if ti.static(rk4):
                        bar_row = 2
                        if remaining_steps < steps:
                            stage_adjoint(world, states, bar, b, row + stage, stage)
                    has_frame_bars = 0
                    if stage == 0:
                        has_frame_bars = is_frame_step
                    gravity_bar += accelerate_adjoint(
                        world, bars, states, bar, b, row + stage, bar_row, frame, step // substeps, has_frame_bars,
                        body_q_bar, body_qd_bar,
                    )  # fmt: skip
                    if ti.static(rk4):
                        for k in range(share(world, state_size)):
                            j = in_share(world, k)
                            bar[b, 0, j] = bar[b, 0, j] + bar[b, 2, j]
                        synchronise(world, b)
                    stage -= 1
                if is_frame_step == 1:
                    for k in range(share(world, world.coordinates)):
                        j = in_share(world, k)
                        bar[b, 0, j] = bar[b, 0, j] + joint_q_bar[b, step // substeps, j]
                    for k in range(share(world, world.velocities)):
                        d = in_share(world, k)
                        rate_column = world.coordinates + d
                        bar[b, 0, rate_column] = bar[b, 0, rate_column] + joint_qd_bar[b, step // substeps, d]
                # Sums of partial sums: one sum over 1e4 steps would lose two digits in f32.
                if step % SUM_STEPS == 0 or remaining_steps == 0:
                    add_and_clear_sums(world, bars, b)
                    add_gravity_adjoint(world, bars, b, gravity_bar)
                    gravity_bar = vec3(0.0)
                synchronise(world, b)
                remaining_steps -= 1
