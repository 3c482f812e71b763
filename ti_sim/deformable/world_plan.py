"""World-parallel plan: whole rollouts (or checkpoint segments) in one launch, one thread per world, and their adjoints.

The loops have ``iterations_per_task`` iterations per world (see ``ti_sim.base.parallel``).
"""

from ti_sim.base.bundles import kernel
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.forces import add_all_forces, add_all_forces_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.particle_step import (
    LARGEST,
    Output,
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


@kernel
def advance(
    states: ti.types.ndarray(), in_place: int, force: ti.types.ndarray(), output: Output, diverged_step: ti.types.ndarray(),
    diverged_particle: ti.types.ndarray(), arrays: DeformableArrays, contacts: SelfContactArrays, iterations_per_task: int,
    settings: StepSettings, first_step: int, steps: int,
):  # fmt: skip
    """Advance every world by ``steps`` steps from row 0 of states [B, rows, P, 6].

    Writes each new state to the next row, or with ``in_place`` 1 to row 0, and ``output``. diverged_step [B] and
    diverged_particle [B] get the first step after which a state is not finite, and the first particle with that state; worlds
    that are marked there are skipped. force [B, P, 3] must hold zeros; the lists of self-contact must be for one chunk of the
    triangles, and stale for the first step. Hand-written adjoint: ``advance_adjoint``.
    """
    for index in range(states.shape[0] * iterations_per_task):
        b = index // iterations_per_task
        if index % iterations_per_task == 0:
            steps_done = 0
            if diverged_step[b] >= 0:
                steps_done = steps
            while steps_done < steps:
                step = first_step + steps_done
                frame = step // settings.substeps
                row, next_row = steps_done, steps_done + 1
                if in_place == 1:
                    row, next_row = 0, 0
                add_all_forces(arrays, contacts, states, force, b, row, step, settings)
                magnitude = 0.0
                for p in range(arrays.particle_mass.shape[1]):
                    particle_force = load_vec3(force, b, p, 0)
                    for k in ti.static(range(3)):
                        force[b, p, k] = 0.0
                    magnitude += move_particle(
                        arrays, states, b, row, next_row, frame, p, particle_force, settings.ground, settings.dt
                    )
                    if ti.static(arrays.features.with_self_contact):
                        mark_if_stale(contacts, states, b, next_row, p, step + 1, settings.dt)
                steps_done += 1
                if output.write_frames == 1 and (step + 1) % settings.substeps == 0:
                    for p in range(arrays.particle_mass.shape[1]):
                        store_frame(states, b, next_row, frame + 1, p, output.particle_q, output.particle_qd)
                if output.keep_every > 0 and (step + 1) % output.keep_every == 0:
                    for p in range(arrays.particle_mass.shape[1]):
                        for k in ti.static(range(PARTICLE.size)):
                            output.checkpoints[b, (step + 1) // output.keep_every, p, k] = states[b, next_row, p, k]
                if not magnitude < LARGEST:
                    first_particle = -1
                    for p in range(arrays.particle_mass.shape[1]):
                        if first_particle < 0 and not particle_size(states, b, next_row, p) < LARGEST:
                            first_particle = p
                    if first_particle >= 0:
                        diverged_step[b] = step + 1
                        diverged_particle[b] = first_particle
                        steps_done = steps


@kernel
def advance_adjoint(
    states: ti.types.ndarray(), diverged_step: ti.types.ndarray(), adjoints: ParticleAdjoints, arrays: DeformableArrays,
    bars: DeformableInputs, contacts: SelfContactArrays, iterations_per_task: int, settings: StepSettings,
    first_step: int, first_row: int, steps: int,
):  # fmt: skip
    """Adjoint of ``advance`` over ``steps`` steps from ``first_step``, whose first state is in row ``first_row`` of states.

    ``adjoints.state`` holds the adjoint of the state after the steps and is overwritten by that of the first state; the adjoints
    of the frames at the ends of the steps are added. Adds to the adjoints of the inputs (gravity [B, P, 3] by particle, wind [B,
    T, 3] by triangle).
    """
    for index in range(states.shape[0] * iterations_per_task):
        b = index // iterations_per_task
        if index % iterations_per_task == 0 and diverged_step[b] < 0:
            for steps_done in range(steps):
                step, row = first_step + steps - 1 - steps_done, first_row + steps - 1 - steps_done
                frame = step // settings.substeps
                for p in range(arrays.particle_mass.shape[1]):
                    state_bar = load_particle_adjoint(adjoints.state, b, p)
                    if (step + 1) % settings.substeps == 0:
                        add_frame_adjoint(adjoints.particle_q, adjoints.particle_qd, b, frame + 1, p, state_bar)
                    move_particle_adjoint(
                        arrays, bars, states, adjoints.state, adjoints.dual, b, row, frame, p, state_bar, settings.ground,
                        settings.dt,
                    )  # fmt: skip
                    if ti.static(arrays.features.with_self_contact):
                        mark_if_stale(contacts, states, b, row, p, step, settings.dt)
                add_all_forces_adjoint(arrays, bars, contacts, states, adjoints.dual, adjoints.state, b, row, step, settings)
