"""Coupled rollouts (or checkpoint segments) in one launch, one thread or one team of threads per world, and their adjoints.

A step computes the poses of the links, sums the forces of elements and contacts on links and particles, and moves both. A team
shares links (``articulated.link_team``), elements and particles (``deformable.element_plan``). The kernels have more arrays than
Taichi allows in a call and are launched by ``ti_sim.base.launcher``.
"""

from ti_sim.articulated.adjoint import begin_accelerate_adjoint, finish_accelerate_adjoint
from ti_sim.articulated.contact_bristles import clear_pairs, state_columns
from ti_sim.articulated.dynamics import accelerate_links, eliminate_links, place_links
from ti_sim.articulated.kinematics import step_coordinates, step_coordinates_adjoint
from ti_sim.articulated.link_team import LinkTeam, in_lane, in_share, is_first_lane, share, synchronise
from ti_sim.articulated.rollout import (
    SUM_STEPS,
    add_and_clear_sums,
    add_gravity_adjoint,
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
from ti_sim.base.teams import group_of, lane_of, takes_part, team_iterations
from ti_sim.base.vecmath import vec3
from ti_sim.coupled.contact import particle_loads, particle_loads_adjoint
from ti_sim.coupled.model import ContactParticles, CoupledFrames, DivergenceMarks
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.element_plan import (
    Slots,
    add_shared_adjoints,
    add_shared_forces,
    particle_adjoint_step,
    sum_contributions,
)
from ti_sim.deformable.forces import add_all_forces, add_all_forces_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.particle_step import (
    LARGEST,
    ParticleAdjoints,
    StepSettings,
    add_frame_adjoint,
    load_particle_adjoint,
    move_particle,
    move_particle_adjoint,
    particle_size,
    store_frame,
)
from ti_sim.deformable.self_contact_lists import SelfContactArrays, mark_if_stale
from ti_sim.deformable.self_contact_teams import build_shared_hash


@ti.func
def add_team_forces(
    world: ti.template(), slots: ti.template(), deformable: ti.template(), self_contacts: ti.template(), states: ti.template(),
    force: ti.template(), b, row, step, settings: ti.template(),
):  # fmt: skip
    """Add the forces of this lane's elements and triangles in self-contact to its slots, with a new hash where one is needed."""
    if ti.static(deformable.features.with_self_contact):
        world.team.passed[b, world.lane] = build_shared_hash(
            world.team.team, self_contacts, states, b, world.lane, row, step, settings.dt, world.team.passed[b, world.lane]
        )
    add_shared_forces(slots, world.team.team, deformable, self_contacts, states, force, b, world.lane, row, step, settings)


@ti.func
def move_particles(
    world: ti.template(), slots: ti.template(), deformable: ti.template(), self_contacts: ti.template(), states: ti.template(),
    force: ti.template(), fault: ti.template(), b, row, next_row, frame, step, ground,
):  # fmt: skip
    """Step the particles of world b, each by one lane of a team, and clear their forces.

    Returns:
        The first particle whose state is not finite, -1 if all are; of a team, in the first lane.
    """
    particle_count, diverged_particle = deformable.particle_mass.shape[1], -1
    if ti.static(world.kind == "single"):
        absolute_sum = 0.0
        for p in range(particle_count):
            f = load_vec3(force, b, p, 0)
            for k in ti.static(range(3)):
                force[b, p, k] = 0.0
            absolute_sum += move_particle(deformable, states, b, row, next_row, frame, p, f, ground, world.dt)
            if ti.static(deformable.features.with_self_contact):
                mark_if_stale(self_contacts, states, b, next_row, p, step + 1, world.dt)
        if not absolute_sum < LARGEST:
            for p in range(particle_count):
                if diverged_particle < 0 and not particle_size(states, b, next_row, p) < LARGEST:
                    diverged_particle = p
    else:
        for n in range(share(world, particle_count)):
            p = in_share(world, n)
            f = sum_contributions(slots, force, b, p, particle_count, 0)
            size = move_particle(deformable, states, b, row, next_row, frame, p, f, ground, world.dt)
            if ti.static(deformable.features.with_self_contact):
                mark_if_stale(self_contacts, states, b, next_row, p, step + 1, world.dt)
            if not size < LARGEST:
                ti.atomic_min(fault[b], p)
        synchronise(world, b)
        if fault[b] < particle_count:
            diverged_particle = fault[b]
    return diverged_particle


@kernel
def advance(
    first_step: int, steps: int, substeps: int, store_all: int, write_frames: int, store_every: int,
    stage_rows: ti.types.ndarray(), joints: ti.types.ndarray(), states: ti.types.ndarray(), force: ti.types.ndarray(),
    stored_joints: ti.types.ndarray(), stored_particles: ti.types.ndarray(),
    frames: CoupledFrames, diverged: DivergenceMarks, candidates: ContactParticles,
    arrays: WorldArrays, deformable: DeformableArrays, self_contacts: SelfContactArrays, slots: Slots, fault: ti.types.ndarray(),
    team: LinkTeam, ground: float,
):  # fmt: skip
    """Advance every world by ``steps`` steps from row 0 of stage_rows [B, 1, 2 (Q + D)] and of states [B, rows, P, 6].

    With dry friction of joints, stage_rows and joints have D more columns (see ``ti_sim.articulated.dry_friction``), with
    bristles of links those of ``ti_sim.articulated.contact_bristles``. Contacts of particles have no bristles.

    With ``store_all`` 1, each step writes a row: coordinates, velocities and accelerations to joints [B, rows, Q + 2 D], and the
    particles to states; the last state is stored, too. Otherwise row 0 of states holds the current state. With ``write_frames`` 1
    the frames of the segment, which starts at a frame, are written (as by the solvers of links and of particles). If
    ``store_every`` is above zero, the states after every ``store_every`` steps are copied to stored_joints and stored_particles.
    It writes to diverged the first step after which a state is not finite, and the link or particle with that state, and skips
    worlds that are marked there. force [B, P, 3], or of a team [B, slots + P, 3], must hold zeros. A team marks particles in
    fault [B], which must hold P. Hand-written adjoint: ``advance_adjoint``.
    """
    ti.loop_config(block_dim=team.team.block_dim)
    for index in range(team_iterations(team.team)):
        b = group_of(team.team, index)
        if takes_part(team.team, index) and diverged.step[b] < 0:
            world = in_lane(arrays, team, lane_of(team.team, index))
            particle_count = deformable.particle_mass.shape[1]
            executed_steps = 0
            while executed_steps <= steps:  # the pass after the last step only writes the last frame
                step = first_step + executed_steps
                frame = ti.min(step, first_step + steps - 1) // substeps  # frame interval of the inputs
                row, next_row = 0, 0
                if store_all == 1:
                    row, next_row = executed_steps, executed_steps + 1
                place_links(world, stage_rows, b, 0, frame, False)
                if is_first_lane(world):
                    record_contact_fault(world, b, step)
                if write_frames == 1 and step % substeps == 0:
                    store_links(world, b, step // substeps, frames.body_q, frames.body_qd)
                    store_joints(world, stage_rows, b, step // substeps, frames.joint_q, frames.joint_qd)
                    for k in range(share(world, particle_count)):
                        store_frame(states, b, row, step // substeps, in_share(world, k), frames.particle_q, frames.particle_qd)
                if executed_steps < steps:
                    settings = StepSettings(ground, world.dt, substeps)
                    if ti.static(world.kind == "single"):
                        add_all_forces(deformable, self_contacts, states, force, b, row, step, settings)
                        particle_loads(world, deformable, candidates, states, force, b, row, 0)
                    else:
                        add_team_forces(world, slots, deformable, self_contacts, states, force, b, row, step, settings)
                        particle_loads(world, deformable, candidates, states, force, b, row, slots.slot.shape[0])
                        synchronise(world, b)
                    eliminate_links(world, stage_rows, b, 0, frame, False)
                    accelerate_links(world, stage_rows, b, 0)
                    if store_all == 1:
                        copy_row(world, stage_rows, 0, joints, row, b, state_columns(world))
                        synchronise(world, b)
                    step_coordinates(world, stage_rows, b, 0)
                    if store_all == 1:
                        copy_state(world, stage_rows, 0, joints, next_row, b)
                    diverged_particle = move_particles(
                        world, slots, deformable, self_contacts, states, force, fault, b, row, next_row, frame, step, ground
                    )
                    if store_every > 0 and (step + 1) % store_every == 0:
                        copy_state(world, stage_rows, 0, stored_joints, (step + 1) // store_every, b)
                        for n in range(share(world, particle_count)):
                            p = in_share(world, n)
                            for k in ti.static(range(PARTICLE.size)):
                                stored_particles[b, (step + 1) // store_every, p, k] = states[b, next_row, p, k]
                    if is_first_lane(world):
                        diverged_link = first_diverged_link(world, stage_rows, b)
                        if diverged_link >= 0 or diverged_particle >= 0:
                            diverged.step[b] = step + 1
                            diverged.link[b] = diverged_link
                            diverged.particle[b] = diverged_particle
                    synchronise(world, b)
                    if diverged.step[b] >= 0:
                        executed_steps = steps
                executed_steps += 1


@ti.func
def add_team_adjoints(
    world: ti.template(), slots: ti.template(), deformable: ti.template(), deformable_bars: ti.template(),
    self_contacts: ti.template(), states: ti.template(), force_bar: ti.template(), element_bars: ti.template(), b, row, step,
    settings: ti.template(),
):  # fmt: skip
    """Adjoint of ``add_team_forces`` with the dual [B, P, 3] of the forces: adds to element_bars and to ``deformable_bars``."""
    if ti.static(deformable.features.with_self_contact):
        world.team.passed[b, world.lane] = build_shared_hash(
            world.team.team, self_contacts, states, b, world.lane, row, step, settings.dt, world.team.passed[b, world.lane]
        )
    add_shared_adjoints(
        slots, world.team.team, deformable, deformable_bars, self_contacts, states, force_bar, element_bars, b, world.lane, row,
        step, settings,
    )  # fmt: skip


@kernel
def advance_adjoint(
    first_step: int, first_row: int, steps: int, is_last: int, substeps: int,
    joints: ti.types.ndarray(), states: ti.types.ndarray(), diverged_step: ti.types.ndarray(),
    joint_bar: ti.types.ndarray(), bar: ti.types.ndarray(), force_bar: ti.types.ndarray(),
    frame_bars: CoupledFrames, candidates: ContactParticles,
    arrays: WorldArrays, bars: BarArrays, deformable: DeformableArrays, deformable_bars: DeformableInputs,
    self_contacts: SelfContactArrays, slots: Slots, element_bars: ti.types.ndarray(), team: LinkTeam, ground: float,
):  # fmt: skip
    """Adjoint of ``advance`` over ``steps`` steps from ``first_step``, whose first state is in row ``first_row``.

    Reads joints and states as ``advance`` writes them with ``store_all`` 1. joint_bar [B, 1, Q + D] and bar [B, P, 6] hold the
    adjoints of the state after the steps and are overwritten by those of the first state. Adds the adjoints of frames: of links
    at the frames at the starts of the steps and, if the segment ``is_last``, at the last frame; of particles at the
    frames at the ends of the steps. Adds to the adjoints of tables and inputs (gravity [B, P, 3] by particle, wind [B, T, 3] by
    triangle). The partial sums of the tables in bars must hold zeros on entry; force_bar [B, P, 3] is scratch. A team leaves what
    the elements and contacts of the first step add to bar in element_bars [B, slots + P, 6], which must hold zeros at first.
    """
    ti.loop_config(block_dim=team.team.block_dim)
    for index in range(team_iterations(team.team)):
        b = group_of(team.team, index)
        if takes_part(team.team, index) and diverged_step[b] < 0:
            world = in_lane(arrays, team, lane_of(team.team, index))
            settings = StepSettings(ground, world.dt, substeps)
            adjoints = ParticleAdjoints(bar, force_bar, frame_bars.particle_q, frame_bars.particle_qd)
            gravity_bar = vec3(0.0)
            remaining_steps = steps - 1 + is_last
            while remaining_steps >= 0:
                step, row = first_step + remaining_steps, first_row + remaining_steps
                frame = ti.min(step, first_step + steps - 1) // substeps  # frame interval of the inputs
                is_frame_step = ti.cast(step % substeps == 0, int)
                if remaining_steps == steps:  # only the links of the last frame
                    for k in range(share(world, world.velocities)):
                        d = in_share(world, k)
                        world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
                        joints[b, row, world.coordinates + world.velocities + d] = 0.0
                    if ti.static(world.with_contact_bristles):
                        if is_first_lane(world):
                            clear_pairs(world, joints, b, row)
                    synchronise(world, b)
                else:
                    if ti.static(world.kind == "single"):
                        for p in range(deformable.particle_mass.shape[1]):
                            state_bar = load_particle_adjoint(bar, b, p)
                            if (step + 1) % substeps == 0:
                                add_frame_adjoint(frame_bars.particle_q, frame_bars.particle_qd, b, frame + 1, p, state_bar)
                            move_particle_adjoint(
                                deformable, deformable_bars, states, bar, force_bar, b, row, frame, p, state_bar, ground, world.dt
                            )
                            if ti.static(deformable.features.with_self_contact):
                                mark_if_stale(self_contacts, states, b, row, p, step, world.dt)
                    else:
                        for k in range(share(world, deformable.particle_mass.shape[1])):
                            particle_adjoint_step(
                                slots, deformable, deformable_bars, self_contacts, states, element_bars, adjoints, b, row, step,
                                in_share(world, k), settings,
                            )  # fmt: skip
                    step_coordinates_adjoint(world, joints, bars, joint_bar, b, row, 0)
                begin_accelerate_adjoint(
                    world, joints, b, row, frame, step // substeps, is_frame_step, frame_bars.body_q, frame_bars.body_qd
                )
                synchronise(world, b)
                if remaining_steps < steps:
                    particle_loads_adjoint(world, bars, deformable, deformable_bars, candidates, states, force_bar, bar, b, row)
                    if ti.static(world.kind == "single"):
                        add_all_forces_adjoint(
                            deformable, deformable_bars, self_contacts, states, force_bar, bar, b, row, step, settings
                        )
                    else:
                        add_team_adjoints(
                            world, slots, deformable, deformable_bars, self_contacts, states, force_bar, element_bars, b, row,
                            step, settings,
                        )  # fmt: skip
                        synchronise(world, b)
                gravity_bar += finish_accelerate_adjoint(world, bars, joints, joint_bar, b, row, 0, frame)
                if is_frame_step == 1:
                    for k in range(share(world, world.coordinates)):
                        j = in_share(world, k)
                        joint_bar[b, 0, j] = joint_bar[b, 0, j] + frame_bars.joint_q[b, step // substeps, j]
                    for k in range(share(world, world.velocities)):
                        d = in_share(world, k)
                        rate_column = world.coordinates + d
                        joint_bar[b, 0, rate_column] = joint_bar[b, 0, rate_column] + frame_bars.joint_qd[b, step // substeps, d]
                # Sums of partial sums: one sum over 1e4 steps would lose two digits in f32.
                if step % SUM_STEPS == 0 or remaining_steps == 0:
                    add_and_clear_sums(world, bars, b)
                    add_gravity_adjoint(world, bars, b, gravity_bar)
                    gravity_bar = vec3(0.0)
                synchronise(world, b)
                remaining_steps -= 1
