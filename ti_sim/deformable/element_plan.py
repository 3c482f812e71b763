"""Element-parallel plan: in each step threads share the elements, then the particles.

No two threads write to the same memory. With ``copies`` (on a CPU, with few threads) the elements are divided into that many
chunks, each of which adds to a separate copy of the particles, and a launch takes many steps. Without copies (on a GPU, with many
threads) each element has one thread, which writes the contribution to each corner to a separate slot. Each particle then sums its
copies or slots, always in the same order: results are repeatable, and equal those of the world-parallel plan up to the order of
sums.
"""

import numpy as np

from ti_sim.base.arrays import Array, ints_in_same_library
from ti_sim.base.bundles import Integer, Static, bundle, kernel, with_fields
from ti_sim.base.parallel import PORTION, barrier_wait, thread_count
from ti_sim.base.rows import add_vec3, load_vec3
from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import vec3
from ti_sim.deformable.corners import PARTICLE, thread_copy
from ti_sim.deformable.elements import actuation_row, element_force, element_force_adjoint
from ti_sim.deformable.families import FAMILIES, TABLES
from ti_sim.deformable.forces import add_forces, add_forces_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.particle_step import (
    LARGEST,
    Output,
    ParticleAdjoints,
    StepSettings,
    add_frame_adjoint,
    load_particle_adjoint,
    move_particle,
    move_particle_adjoint,
    store_frame,
)
from ti_sim.deformable.self_contact_lists import SelfContactArrays, build_hash, invalidate_list, is_stale, mark_if_stale

_MAX_COPIES = 16


@bundle
class Slots:
    """Memory of the contributions of the elements to their particles.

    Attributes:
        start: [P + 1] int32, first entry of each particle in ``slot``.
        slot: [slots] int32, numbers of slots, particle by particle.
        elements: number of elements of all families.
        copies: chunks of the elements with a copy of the particles each; 0 for slots.
        rows: number of copies times P, or of slots plus P rows after these for self-contact.
    """

    start: Array
    slot: Array
    elements: Integer
    copies: Static
    rows: Integer


@bundle
class ElementOutput(Output):
    """``Output``, and fault [B, P] int32, the first step after which a particle's state is not finite."""

    fault: Array


def slots_of(model: DeformableModel, like: Array) -> Slots:
    """``Slots`` of a model in the container of ``like``."""
    particles = np.concatenate([model.tables[table].ravel() for table in TABLES.values()])
    start = np.concatenate([[0], np.cumsum(np.bincount(particles, minlength=model.particle_count))])
    order = np.argsort(particles, kind="stable") if len(particles) else np.zeros(1)
    copies = copy_count()
    return Slots(
        start=ints_in_same_library(like, start),
        slot=ints_in_same_library(like, order),
        elements=sum(len(model.tables[table]) for table in TABLES.values()),
        copies=copies,
        rows=copies * model.particle_count if copies else len(order) + model.with_self_contact * model.particle_count,
    )


def copy_count() -> int:
    """Number of chunks of the elements on this device, each with a copy of the particles; 0 for one thread per element."""
    return min(max(thread_count(), 2), _MAX_COPIES) if require().device == "cpu" else 0


def threads_per_world(worlds: int) -> int:
    """Number of CPU threads that share one of ``worlds`` worlds, so that all worlds together use the available threads."""
    return max(min(copy_count(), thread_count() // worlds), 1)


@ti.func
def sum_contributions(slots: ti.template(), contributions: ti.template(), b, p, particles, column: ti.template()):
    """Sum of three columns of particle p's copies, or slots and contacts, in contributions [B, rows, columns]; clears copies and
    contacts."""
    total = vec3(0.0)
    if ti.static(slots.copies > 0):
        for copy in range(slots.copies):
            row = copy * particles + p
            for k in ti.static(range(3)):
                total[k] += contributions[b, row, column + k]
                contributions[b, row, column + k] = 0.0
    else:
        for entry in range(slots.start[p], slots.start[p + 1]):
            slot = slots.slot[entry]
            total += load_vec3(contributions, b, slot, column)
        row = slots.slot.shape[0] + p
        if row < contributions.shape[1]:
            for k in ti.static(range(3)):
                total[k] += contributions[b, row, column + k]
                contributions[b, row, column + k] = 0.0
    return total


@ti.func
def indexed_element_force(arrays: ti.template(), states: ti.template(), forces: ti.template(), b, row, frame, i):
    """Write the forces of element i, its index over all families, to its slots."""
    first_element, first_slot = 0, 0
    for family in ti.static(arrays.features.families):
        count = arrays.indices_of(family).shape[0]
        if first_element <= i and i < first_element + count:
            element_force(family, arrays, states, forces, b, row, frame, i - first_element, first_element, first_slot)
        first_element += count
        first_slot += FAMILIES[family] * count


@ti.func
def indexed_element_adjoint(
    arrays: ti.template(), bars: ti.template(), states: ti.template(), dual: ti.template(), forces: ti.template(), b, row, frame,
    i,
):  # fmt: skip
    """Adjoint of ``indexed_element_force``: writes to the element's slots and adds to its ``bars``."""
    first_element, first_slot = 0, 0
    for family in ti.static(arrays.features.families):
        count = arrays.indices_of(family).shape[0]
        if first_element <= i and i < first_element + count:
            element_force_adjoint(
                family, arrays, bars, states, dual, forces, b, row, frame, i - first_element, first_element, first_slot
            )
        first_element += count
        first_slot += FAMILIES[family] * count


@ti.func
def move_and_store(
    slots: ti.template(), arrays: ti.template(), contacts: ti.template(), states: ti.template(), forces: ti.template(),
    output: ti.template(), b, row, next_row, step, p, settings: ti.template(),
):  # fmt: skip
    """Step particle p of world b, and write its state and its entries of ``output``."""
    frame = step // settings.substeps
    force = sum_contributions(slots, forces, b, p, states.shape[2], 0)
    magnitude = move_particle(arrays, states, b, row, next_row, frame, p, force, settings.ground, settings.dt)
    if ti.static(arrays.features.with_self_contact):
        mark_if_stale(contacts, states, b, next_row, p, step + 1, settings.dt)
    if not magnitude < LARGEST and output.fault[b, p] == 0:
        output.fault[b, p] = step + 1
    if output.write_frames == 1 and (step + 1) % settings.substeps == 0:
        store_frame(states, b, next_row, frame + 1, p, output.particle_q, output.particle_qd)
    if output.keep_every > 0 and (step + 1) % output.keep_every == 0:
        for k in ti.static(range(PARTICLE.size)):
            output.checkpoints[b, (step + 1) // output.keep_every, p, k] = states[b, next_row, p, k]


@ti.func
def chunks_of_thread(thread, num_threads, num_chunks):
    """Number of the chunks thread, thread + num_threads, ... below ``num_chunks``."""
    return (num_chunks - thread + num_threads - 1) // num_threads


@ti.func
def rebuild_hash_collective(
    contacts: ti.template(), states: ti.template(), b, row, step, dt, thread, num_threads, copies: ti.template(),
    barrier: ti.template(), passed_barriers, runtime_zero,
):  # fmt: skip
    """Build a new hash on the first thread of a world where ``step`` needs one; the other threads wait at a barrier.

    Returns:
        Number of barriers passed, 0 or 1.
    """
    passed = 0
    if is_stale(contacts, b, step, runtime_zero):
        if thread == 0:
            build_hash(contacts, states, b, row, step, dt)
        barrier_wait(barrier, b, num_threads, passed_barriers, runtime_zero)
        passed = 1
        for k in range(chunks_of_thread(thread, num_threads, copies)):
            invalidate_list(contacts, b, thread + k * num_threads)
    return passed


@kernel
def step_all(
    step: int, num_steps: int, num_threads: int, runtime_zero: int, barrier: ti.types.ndarray(), slots: Slots,
    states: ti.types.ndarray(), first_step: int, in_place: int, forces: ti.types.ndarray(), output: ElementOutput,
    arrays: DeformableArrays, contacts: SelfContactArrays, settings: StepSettings,
):  # fmt: skip
    """Advance every world from row ``step - first_step`` of states [B, rows, P, 6] or, ``in_place``, row 0.

    With copies by ``num_steps`` steps, each world by ``num_threads`` threads that pass two barriers in every step, and a third
    for a new hash of self-contact (see ``barrier_wait``, also for ``barrier`` [B, 2] and ``runtime_zero``); without by one step,
    where ``forces`` holds those of self-contact (see ``self_contact_gpu``).

    Writes states and ``output`` as ``world_plan.advance``. forces [B, copies P or slots, 3] holds zeros. Hand-written adjoint:
    ``step_all_adjoint``.
    """
    if ti.static(slots.copies > 0):
        for index in range(states.shape[0] * num_threads * PORTION):
            if index % PORTION == 0:
                b, thread = index // PORTION // num_threads, index // PORTION % num_threads
                passed_barriers = 0
                for s in range(num_steps):
                    current_step = step + s
                    row, next_row = current_step - first_step, current_step - first_step + 1
                    if in_place == 1:
                        row, next_row = 0, 0
                    if ti.static(arrays.features.with_self_contact):
                        passed_barriers += rebuild_hash_collective(
                            contacts, states, b, row, current_step, settings.dt, thread, num_threads, slots.copies, barrier,
                            passed_barriers, runtime_zero,
                        )  # fmt: skip
                    for k in range(chunks_of_thread(thread, num_threads, slots.copies)):
                        chunk = thread + k * num_threads
                        chunk_copy = thread_copy(chunk * states.shape[2])
                        thread_arrays = with_fields(arrays, gather=chunk_copy)
                        thread_contacts = with_fields(contacts, gather=chunk_copy)
                        add_forces(
                            thread_arrays, thread_contacts, states, forces, b, row, current_step, settings, chunk, slots.copies
                        )
                    barrier_wait(barrier, b, num_threads, passed_barriers, runtime_zero)
                    for k in range(chunks_of_thread(thread, num_threads, slots.copies)):
                        chunk = thread + k * num_threads
                        for p in range(states.shape[2] * chunk // slots.copies, states.shape[2] * (chunk + 1) // slots.copies):
                            move_and_store(
                                slots, arrays, contacts, states, forces, output, b, row, next_row, current_step, p, settings
                            )
                    barrier_wait(barrier, b, num_threads, passed_barriers + 1, runtime_zero)
                    passed_barriers += 2
    else:
        for b, i in ti.ndrange(states.shape[0], slots.elements):
            row = step - first_step
            if in_place == 1:
                row = 0
            arrays_with_slots = with_fields(arrays, gather=True)
            indexed_element_force(arrays_with_slots, states, forces, b, row, actuation_row(arrays, step, settings.substeps), i)
        for b, p in ti.ndrange(states.shape[0], states.shape[2]):
            row, next_row = step - first_step, step - first_step + 1
            if in_place == 1:
                row, next_row = 0, 0
            move_and_store(slots, arrays, contacts, states, forces, output, b, row, next_row, step, p, settings)


@ti.kernel
def first_fault(fault: ti.types.ndarray(), diverged_step: ti.types.ndarray(), diverged_particle: ti.types.ndarray()):
    """Write the first step of fault [B, P], where there is one, and the first particle at that step."""
    for b in range(fault.shape[0]):
        for p in range(fault.shape[1]):
            if fault[b, p] > 0 and (diverged_step[b] < 0 or fault[b, p] < diverged_step[b]):
                diverged_step[b] = fault[b, p]
                diverged_particle[b] = p


@ti.func
def particle_adjoint_step(
    slots: ti.template(), arrays: ti.template(), bars: ti.template(), contacts: ti.template(), states: ti.template(),
    element_bars: ti.template(), adjoints: ti.template(), b, row, step, p, settings: ti.template(),
):  # fmt: skip
    """Sum particle p's adjoint, with that of the frame at the end of the step, and step it backwards."""
    frame = step // settings.substeps
    state_bar = load_particle_adjoint(adjoints.state, b, p)
    state_bar.position += sum_contributions(slots, element_bars, b, p, states.shape[2], PARTICLE.position)
    state_bar.velocity += sum_contributions(slots, element_bars, b, p, states.shape[2], PARTICLE.velocity)
    if (step + 1) % settings.substeps == 0:
        add_frame_adjoint(adjoints.particle_q, adjoints.particle_qd, b, frame + 1, p, state_bar)
    move_particle_adjoint(
        arrays, bars, states, adjoints.state, adjoints.dual, b, row, frame, p, state_bar, settings.ground, settings.dt
    )
    if ti.static(arrays.features.with_self_contact):
        mark_if_stale(contacts, states, b, row, p, step, settings.dt)


@kernel
def step_all_adjoint(
    step: int, num_steps: int, num_threads: int, runtime_zero: int, barrier: ti.types.ndarray(), slots: Slots,
    states: ti.types.ndarray(), first_step: int, element_bars: ti.types.ndarray(), adjoints: ParticleAdjoints,
    arrays: DeformableArrays, bars: DeformableInputs, contacts: SelfContactArrays, settings: StepSettings,
):  # fmt: skip
    """Adjoint of ``step_all``, from ``step`` downwards: over particles, then over elements.

    The state before a step is in row ``step - first_step`` of states. Steps, threads and barriers are as for ``step_all``.

    Replaces ``adjoints.state``, the adjoint of the state after the step, by that of the first state, where element_bars [B,
    copies P or slots, 6] holds the contributions of the elements; adds the adjoints of the frame at the end of the step. Adds to
    the inputs' adjoints (gravity [B, P, 3] by particle, wind [B, T, 3] by triangle).
    """
    if ti.static(slots.copies > 0):
        for index in range(states.shape[0] * num_threads * PORTION):
            if index % PORTION == 0:
                b, thread = index // PORTION // num_threads, index // PORTION % num_threads
                passed_barriers = 0
                for s in range(num_steps):
                    current_step, row = step - s, step - s - first_step
                    for k in range(chunks_of_thread(thread, num_threads, slots.copies)):
                        chunk = thread + k * num_threads
                        for p in range(states.shape[2] * chunk // slots.copies, states.shape[2] * (chunk + 1) // slots.copies):
                            particle_adjoint_step(
                                slots, arrays, bars, contacts, states, element_bars, adjoints, b, row, current_step, p, settings
                            )
                    barrier_wait(barrier, b, num_threads, passed_barriers, runtime_zero)
                    passed_barriers += 1
                    if ti.static(arrays.features.with_self_contact):
                        passed_barriers += rebuild_hash_collective(
                            contacts, states, b, row, current_step, settings.dt, thread, num_threads, slots.copies, barrier,
                            passed_barriers, runtime_zero,
                        )  # fmt: skip
                    for k in range(chunks_of_thread(thread, num_threads, slots.copies)):
                        chunk = thread + k * num_threads
                        chunk_copy = thread_copy(chunk * states.shape[2])
                        thread_arrays = with_fields(arrays, gather=chunk_copy)
                        thread_contacts = with_fields(contacts, gather=chunk_copy)
                        add_forces_adjoint(
                            thread_arrays, bars, thread_contacts, states, adjoints.dual, element_bars, b, row, current_step,
                            settings, chunk, slots.copies,
                        )  # fmt: skip
                    barrier_wait(barrier, b, num_threads, passed_barriers, runtime_zero)
                    passed_barriers += 1
    else:
        for b, p in ti.ndrange(states.shape[0], states.shape[2]):
            particle_adjoint_step(
                slots, arrays, bars, contacts, states, element_bars, adjoints, b, step - first_step, step, p, settings
            )
        for b, i in ti.ndrange(states.shape[0], slots.elements):
            arrays_with_slots = with_fields(arrays, gather=True)
            control = actuation_row(arrays, step, settings.substeps)
            indexed_element_adjoint(
                arrays_with_slots, bars, states, adjoints.dual, element_bars, b, step - first_step, control, i
            )


@kernel
def sum_element_bars(slots: Slots, element_bars: ti.types.ndarray(), bar: ti.types.ndarray()):
    """Add element_bars [B, copies P or slots, 6] to bar [B, P, 6]."""
    for b, p in ti.ndrange(bar.shape[0], bar.shape[1]):
        for column in ti.static((PARTICLE.position, PARTICLE.velocity)):
            total = sum_contributions(slots, element_bars, b, p, bar.shape[1], column)
            add_vec3(bar, b, p, column, total)
