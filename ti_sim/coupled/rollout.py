"""Entire coupled rollouts (or checkpoint segments) in one launch, one thread per world, and their adjoints.

A step computes the poses of the links, sums the forces of elements and contacts on links and particles, and moves both. Only one
of ``iterations_per_world`` iterations of a loop computes a world (see ``ti_sim.base.parallel``). The kernels have more arrays
than Taichi allows in a call and are launched by ``ti_sim.base.launcher``.
"""

from ti_sim.articulated.adjoint import begin_accelerate_adjoint, finish_accelerate_adjoint
from ti_sim.articulated.contact_bristles import clear_pairs, state_columns
from ti_sim.articulated.dynamics import accelerate_links, eliminate_links, place_links
from ti_sim.articulated.kinematics import step_coordinates, step_coordinates_adjoint
from ti_sim.articulated.rollout import (
    SUM_STEPS,
    add_and_clear_sums,
    copy_row,
    copy_state,
    first_diverged_link,
    record_contact_fault,
    store_joints,
    store_links,
)
from ti_sim.articulated.tables import JOINT_WORK, BarArrays, WorldArrays
from ti_sim.base.bundles import kernel
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.coupled.contact import particle_loads, particle_loads_adjoint
from ti_sim.coupled.model import ContactParticles, CoupledFrames, DivergenceMarks
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.forces import add_all_forces, add_all_forces_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.particle_step import (
    LARGEST,
    StepSettings,
    add_frame_adjoint,
    load_particle_adjoint,
    move_particle,
    move_particle_adjoint,
    particle_size,
    store_frame,
)
from ti_sim.deformable.self_contact_lists import SelfContactArrays, mark_if_stale


@kernel
def advance(
    first_step: int, steps: int, substeps: int, store_all: int, write_frames: int, store_every: int,
    stage_rows: ti.types.ndarray(), joints: ti.types.ndarray(), states: ti.types.ndarray(), force: ti.types.ndarray(),
    stored_joints: ti.types.ndarray(), stored_particles: ti.types.ndarray(),
    frames: CoupledFrames, diverged: DivergenceMarks, candidates: ContactParticles,
    world: WorldArrays, deformable: DeformableArrays, self_contacts: SelfContactArrays, iterations_per_world: int, ground: float,
):  # fmt: skip
    """Advance every world by ``steps`` steps from row 0 of stage_rows [B, 1, 2 (Q + D)] and of states [B, rows, P, 6].

    With dry friction of joints, stage_rows and joints have D more columns (see ``ti_sim.articulated.dry_friction``), with
    bristles of links those of ``ti_sim.articulated.contact_bristles``. Contacts of particles have no bristles.

    With ``store_all`` 1, each step writes a row: coordinates, velocities and accelerations to joints [B, rows, Q + 2 D], and the
    particles to states; the last state is stored, too. Otherwise row 0 of states holds the current state. With ``write_frames`` 1
    the frames of the segment, which starts at a frame, are written (as by the solvers of links and of particles). If
    ``store_every`` is above zero, the states after every ``store_every`` steps are copied to stored_joints and stored_particles.
    It writes to diverged the first step after which a state is not finite, and the link or particle with that state, and skips
    worlds that are marked there. force [B, P, 3] must hold zeros. Hand-written adjoint: ``advance_adjoint``.
    """
    for index in range(states.shape[0] * iterations_per_world):
        b = index // iterations_per_world
        if index % iterations_per_world == 0 and diverged.step[b] < 0:
            particle_count = deformable.particle_mass.shape[1]
            executed_steps = 0
            while executed_steps <= steps:  # the pass after the last step only writes the last frame
                step = first_step + executed_steps
                frame = ti.min(step, first_step + steps - 1) // substeps  # frame interval of the inputs
                row, next_row = 0, 0
                if store_all == 1:
                    row, next_row = executed_steps, executed_steps + 1
                place_links(world, stage_rows, b, 0, frame, False)
                record_contact_fault(world, b, step)
                if write_frames == 1 and step % substeps == 0:
                    store_links(world, b, step // substeps, frames.body_q, frames.body_qd)
                    store_joints(world, stage_rows, b, step // substeps, frames.joint_q, frames.joint_qd)
                    for p in range(particle_count):
                        store_frame(states, b, row, step // substeps, p, frames.particle_q, frames.particle_qd)
                if executed_steps < steps:
                    settings = StepSettings(ground, world.dt, substeps)
                    add_all_forces(deformable, self_contacts, states, force, b, row, step, settings)
                    particle_loads(world, deformable, candidates, states, force, b, row)
                    eliminate_links(world, stage_rows, b, 0, frame, False)
                    accelerate_links(world, stage_rows, b, 0)
                    if store_all == 1:
                        copy_row(world, stage_rows, 0, joints, row, b, state_columns(world))
                    step_coordinates(world, stage_rows, b, 0)
                    if store_all == 1:
                        copy_state(world, stage_rows, 0, joints, next_row, b)
                    squared_norm = 0.0
                    for p in range(particle_count):
                        f = load_vec3(force, b, p, 0)
                        for k in ti.static(range(3)):
                            force[b, p, k] = 0.0
                        squared_norm += move_particle(deformable, states, b, row, next_row, frame, p, f, ground, world.dt)
                        if ti.static(deformable.features.with_self_contact):
                            mark_if_stale(self_contacts, states, b, next_row, p, step + 1, world.dt)
                    if store_every > 0 and (step + 1) % store_every == 0:
                        copy_state(world, stage_rows, 0, stored_joints, (step + 1) // store_every, b)
                        for p in range(particle_count):
                            for k in ti.static(range(PARTICLE.size)):
                                stored_particles[b, (step + 1) // store_every, p, k] = states[b, next_row, p, k]
                    diverged_link, diverged_particle = first_diverged_link(world, stage_rows, b), -1
                    if not squared_norm < LARGEST:
                        for p in range(particle_count):
                            if diverged_particle < 0 and not particle_size(states, b, next_row, p) < LARGEST:
                                diverged_particle = p
                    if diverged_link >= 0 or diverged_particle >= 0:
                        diverged.step[b] = step + 1
                        diverged.link[b] = diverged_link
                        diverged.particle[b] = diverged_particle
                        executed_steps = steps
                executed_steps += 1


@kernel
def advance_adjoint(
    first_step: int, first_row: int, steps: int, is_last: int, substeps: int,
    joints: ti.types.ndarray(), states: ti.types.ndarray(), diverged_step: ti.types.ndarray(),
    joint_bar: ti.types.ndarray(), bar: ti.types.ndarray(), force_bar: ti.types.ndarray(),
    frame_bars: CoupledFrames, candidates: ContactParticles,
    world: WorldArrays, bars: BarArrays, deformable: DeformableArrays, deformable_bars: DeformableInputs,
    self_contacts: SelfContactArrays, iterations_per_world: int, ground: float,
):  # fmt: skip
    """Adjoint of ``advance`` over ``steps`` steps from ``first_step``, whose first state is in row ``first_row``.

    Reads joints and states as ``advance`` writes them with ``store_all`` 1. joint_bar [B, 1, Q + D] and bar [B, P, 6] hold the
    adjoints of the state after the steps and are overwritten by those of the first state. Adds the adjoints of frames: of links
    at the frames at the starts of the steps and, if the segment ``is_last``, at the last frame; of particles at the
    frames at the ends of the steps. Adds to the adjoints of tables and inputs (gravity [B, P, 3] by particle, wind [B, T, 3] by
    triangle). The partial sums of the tables in bars must hold zeros on entry; force_bar [B, P, 3] is scratch.
    """
    for index in range(states.shape[0] * iterations_per_world):
        b = index // iterations_per_world
        if index % iterations_per_world == 0 and diverged_step[b] < 0:
            gravity_bar = vec3(0.0)
            remaining_steps = steps - 1 + is_last
            while remaining_steps >= 0:
                step, row = first_step + remaining_steps, first_row + remaining_steps
                frame = ti.min(step, first_step + steps - 1) // substeps  # frame interval of the inputs
                is_frame_step = ti.cast(step % substeps == 0, int)
                if remaining_steps == steps:  # only the links of the last frame
                    for d in range(world.velocities):
                        world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
                        joints[b, row, world.coordinates + world.velocities + d] = 0.0
                    if ti.static(world.with_contact_bristles):
                        clear_pairs(world, joints, b, row)
                else:
                    for p in range(deformable.particle_mass.shape[1]):
                        state_bar = load_particle_adjoint(bar, b, p)
                        if (step + 1) % substeps == 0:
                            add_frame_adjoint(frame_bars.particle_q, frame_bars.particle_qd, b, frame + 1, p, state_bar)
                        move_particle_adjoint(
                            deformable, deformable_bars, states, bar, force_bar, b, row, frame, p, state_bar, ground, world.dt
                        )
                        if ti.static(deformable.features.with_self_contact):
                            mark_if_stale(self_contacts, states, b, row, p, step, world.dt)
                    step_coordinates_adjoint(world, joints, bars, joint_bar, b, row, 0)
                begin_accelerate_adjoint(
                    world, joints, b, row, frame, step // substeps, is_frame_step, frame_bars.body_q, frame_bars.body_qd
                )
                if remaining_steps < steps:
                    particle_loads_adjoint(world, bars, deformable, deformable_bars, candidates, states, force_bar, bar, b, row)
                    settings = StepSettings(ground, world.dt, substeps)
                    add_all_forces_adjoint(
                        deformable, deformable_bars, self_contacts, states, force_bar, bar, b, row, step, settings
                    )
                gravity_bar += finish_accelerate_adjoint(world, bars, joints, joint_bar, b, row, 0, frame)
                if is_frame_step == 1:
                    for j in range(world.coordinates):
                        joint_bar[b, 0, j] = joint_bar[b, 0, j] + frame_bars.joint_q[b, step // substeps, j]
                    for d in range(world.velocities):
                        rate_column = world.coordinates + d
                        joint_bar[b, 0, rate_column] = joint_bar[b, 0, rate_column] + frame_bars.joint_qd[b, step // substeps, d]
                # Sums of partial sums: one sum over 1e4 steps would lose two digits in f32.
                if step % SUM_STEPS == 0 or remaining_steps == 0:
                    add_and_clear_sums(world, bars, b)
                    for k in ti.static(range(3)):
                        bars.gravity[b, k] = bars.gravity[b, k] + gravity_bar[k]
                    gravity_bar = vec3(0.0)
                remaining_steps -= 1
