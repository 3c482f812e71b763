"""Element-parallel plan: in each step the threads of a team share the elements, then the particles; a launch takes many steps.

No two threads write to the same memory. With ``copies`` (on a CPU, with few threads) the elements are divided into that many
chunks, each of which adds to a separate copy of the particles. Without copies (on a GPU, with many threads) a thread writes the
contribution of an element to each corner to a separate slot. Each particle then sums its copies or slots, always in the same
order: results are repeatable, and equal those of the world-parallel plan up to the order of sums.
"""

import numpy as np

from ti_sim.base.arrays import Array, ints_in_same_library
from ti_sim.base.bundles import Integer, Static, bundle, kernel, with_fields
from ti_sim.base.parallel import thread_count
from ti_sim.base.rows import add_vec3, load_vec3
from ti_sim.base.runtime import require, ti
from ti_sim.base.teams import (
    Team,
    block_team,
    cpu_team,
    grid_team,
    group_of,
    lane_of,
    lane_share,
    multiprocessor_count,
    takes_part,
    team_barrier,
)
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
from ti_sim.deformable.self_contact import chunk_contacts, chunk_contacts_adjoint
from ti_sim.deformable.self_contact_layout import TABLE
from ti_sim.deformable.self_contact_lists import SelfContactArrays, mark_if_stale
from ti_sim.deformable.self_contact_teams import build_shared_hash, build_world_hash

_MAX_COPIES = 16
_MAX_BLOCK_DIM, _GRID_BLOCK_DIM = 256, 128  # threads of a block that takes one world, and of a block of the grid


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


def slots_of(model: DeformableModel, like: Array, *, copies: int | None = None, with_contact: bool = False) -> Slots:
    """``Slots`` of a model in the container of ``like``.

    Args:
        model: the model.
        like: array of the container and device.
        copies: chunks of the elements with a copy of the particles each; by default ``copy_count``.
        with_contact: whether to add rows for contacts of particles, also without self-contact.
    """
    particles = np.concatenate([model.tables[table].ravel() for table in TABLES.values()])
    start = np.concatenate([[0], np.cumsum(np.bincount(particles, minlength=model.particle_count))])
    order = np.argsort(particles, kind="stable") if len(particles) else np.zeros(1)
    copies, has_contact_rows = copy_count() if copies is None else copies, with_contact or model.with_self_contact
    return Slots(
        start=ints_in_same_library(like, start),
        slot=ints_in_same_library(like, order),
        elements=sum(len(model.tables[table]) for table in TABLES.values()),
        copies=copies,
        rows=copies * model.particle_count if copies else len(order) + has_contact_rows * model.particle_count,
    )


def copy_count() -> int:
    """Number of chunks of the elements on this device, each with a copy of the particles; 0 for one thread per element."""
    return min(max(thread_count(), 2), _MAX_COPIES) if require().device == "cpu" else 0


def threads_per_world(worlds: int) -> int:
    """Number of CPU threads that share one of ``worlds`` worlds, so that all worlds together use the available threads."""
    return max(min(copy_count(), thread_count() // worlds), 1)


def element_team(like: Array, model: DeformableModel, slots: Slots, worlds: int) -> Team:
    """The team of the plan: CPU threads, or on a GPU a block for each of many or small worlds, or the grid for few large ones.

    Args:
        like: array of the container and device of the kernel's others.
        model: the model.
        slots: its ``Slots``.
        worlds: number of worlds.
    """
    if require().device == "cpu":
        return cpu_team(worlds, threads_per_world(worlds))
    tasks = max(slots.elements, model.particle_count)
    if require().device == "cuda" and tasks > _MAX_BLOCK_DIM and 2 * worlds < multiprocessor_count():
        return grid_team(like, _GRID_BLOCK_DIM)
    return block_team(like, worlds, min(-(-tasks // 32) * 32, _MAX_BLOCK_DIM))


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
def rebuild_hash(
    slots: ti.template(), team: ti.template(), contacts: ti.template(), states: ti.template(), group, lane, row, step, dt, passed
):
    """Build new hashes of self-contact in the worlds of a group for which ``step`` needs one.

    Returns:
        Number of barriers passed in the launch, of which ``passed`` before.
    """
    if ti.static(slots.copies > 0):
        passed = build_world_hash(team, contacts, states, group, lane, row, step, dt, slots.copies, passed)
    else:
        passed = build_shared_hash(team, contacts, states, group, lane, row, step, dt, passed)
    return passed


@ti.func
def add_shared_forces(
    slots: ti.template(), team: ti.template(), arrays: ti.template(), contacts: ti.template(), states: ti.template(),
    forces: ti.template(), group, lane, row, step, settings: ti.template(),
):  # fmt: skip
    """Add the forces of a thread's elements, and of its triangles in self-contact."""
    if ti.static(slots.copies > 0):
        for k in range(lane_share(team, lane, slots.copies)):
            chunk = lane + k * team.size
            chunk_copy = thread_copy(chunk * states.shape[2])
            thread_arrays, thread_contacts = with_fields(arrays, gather=chunk_copy), with_fields(contacts, gather=chunk_copy)
            add_forces(thread_arrays, thread_contacts, states, forces, group, row, step, settings, chunk, slots.copies)
    else:
        worlds, control = states.shape[0] // team.groups, actuation_row(arrays, step, settings.substeps)
        arrays_with_slots, contacts_with_slots = with_fields(arrays, gather=True), with_fields(contacts, gather=True)
        for k in range(lane_share(team, lane, worlds * slots.elements)):
            i = lane + k * team.size
            b = group * worlds + i // slots.elements
            indexed_element_force(arrays_with_slots, states, forces, b, row, control, i % slots.elements)
        if ti.static(arrays.features.with_self_contact):
            triangles = contacts.table[TABLE.triangle_count]
            for k in range(lane_share(team, lane, worlds * triangles)):
                i = lane + k * team.size
                b = group * worlds + i // triangles
                chunk_contacts(contacts_with_slots, states, forces, b, row, i % triangles, triangles, settings.dt)


@kernel
def step_all(
    step: int, num_steps: int, team_size: int, first_step: int, team: Team, slots: Slots, states: ti.types.ndarray(),
    in_place: int, forces: ti.types.ndarray(), output: ElementOutput, arrays: DeformableArrays, contacts: SelfContactArrays,
    settings: StepSettings,
):  # fmt: skip
    """Advance every world by ``num_steps`` steps from row ``step - first_step`` of states [B, rows, P, 6]; ``in_place``: row 0.

    ``team_size`` threads of each group pass two barriers in every step, and more for a new hash of self-contact.

    Writes states and ``output`` as ``world_plan.advance``. forces [B, copies P or slots, 3] holds zeros. Hand-written adjoint:
    ``step_all_adjoint``.
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team.groups * team_size * team.portion):
        threads = with_fields(team, size=team_size)
        if takes_part(threads, index):
            group, lane, passed = group_of(threads, index), lane_of(threads, index), 0
            for s in range(num_steps):
                current_step = step + s
                row, next_row = current_step - first_step, current_step - first_step + 1
                if in_place == 1:
                    row, next_row = 0, 0
                if ti.static(arrays.features.with_self_contact):
                    passed = rebuild_hash(slots, threads, contacts, states, group, lane, row, current_step, settings.dt, passed)
                add_shared_forces(slots, threads, arrays, contacts, states, forces, group, lane, row, current_step, settings)
                passed = team_barrier(threads, group, lane, passed)
                if ti.static(slots.copies > 0):
                    for k in range(lane_share(threads, lane, slots.copies)):
                        chunk, count = lane + k * team_size, states.shape[2]
                        for p in range(count * chunk // slots.copies, count * (chunk + 1) // slots.copies):
                            move_and_store(
                                slots, arrays, contacts, states, forces, output, group, row, next_row, current_step, p, settings
                            )
                else:
                    worlds = states.shape[0] // team.groups
                    for k in range(lane_share(threads, lane, worlds * states.shape[2])):
                        i = lane + k * team_size
                        b, p = group * worlds + i // states.shape[2], i % states.shape[2]
                        move_and_store(
                            slots, arrays, contacts, states, forces, output, b, row, next_row, current_step, p, settings
                        )
                passed = team_barrier(threads, group, lane, passed)


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


@ti.func
def add_shared_adjoints(
    slots: ti.template(), team: ti.template(), arrays: ti.template(), bars: ti.template(), contacts: ti.template(),
    states: ti.template(), dual: ti.template(), element_bars: ti.template(), group, lane, row, step, settings: ti.template(),
):  # fmt: skip
    """Adjoint of ``add_shared_forces`` with dual [B, P, 3]: adds to element_bars [B, rows, 6] and to ``bars``."""
    if ti.static(slots.copies > 0):
        for k in range(lane_share(team, lane, slots.copies)):
            chunk = lane + k * team.size
            chunk_copy = thread_copy(chunk * states.shape[2])
            thread_arrays, thread_contacts = with_fields(arrays, gather=chunk_copy), with_fields(contacts, gather=chunk_copy)
            add_forces_adjoint(
                thread_arrays, bars, thread_contacts, states, dual, element_bars, group, row, step, settings, chunk, slots.copies
            )
    else:
        worlds, control = states.shape[0] // team.groups, actuation_row(arrays, step, settings.substeps)
        arrays_with_slots, contacts_with_slots = with_fields(arrays, gather=True), with_fields(contacts, gather=True)
        for k in range(lane_share(team, lane, worlds * slots.elements)):
            i = lane + k * team.size
            b = group * worlds + i // slots.elements
            indexed_element_adjoint(
                arrays_with_slots, bars, states, dual, element_bars, b, row, control, i % slots.elements
            )
        if ti.static(arrays.features.with_self_contact):
            triangles = contacts.table[TABLE.triangle_count]
            for k in range(lane_share(team, lane, worlds * triangles)):
                i = lane + k * team.size
                chunk_contacts_adjoint(
                    contacts_with_slots, bars.self_contact, states, dual, element_bars, group * worlds + i // triangles, row,
                    i % triangles, triangles, settings.dt,
                )  # fmt: skip


@kernel
def step_all_adjoint(
    step: int, num_steps: int, team_size: int, first_step: int, team: Team, slots: Slots, states: ti.types.ndarray(),
    element_bars: ti.types.ndarray(), adjoints: ParticleAdjoints, arrays: DeformableArrays, bars: DeformableInputs,
    contacts: SelfContactArrays, settings: StepSettings,
):  # fmt: skip
    """Adjoint of ``step_all``, from ``step`` downwards: over particles, then over elements.

    The state before a step is in row ``step - first_step`` of states. Steps, threads and barriers are as for ``step_all``.

    Replaces ``adjoints.state``, the adjoint of the state after the step, by that of the first state, where element_bars [B,
    copies P or slots, 6] holds the contributions of the elements; adds the adjoints of the frame at the end of the step. Adds to
    the inputs' adjoints (gravity [B, P, 3] by particle, wind [B, T, 3] by triangle).
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team.groups * team_size * team.portion):
        threads = with_fields(team, size=team_size)
        if takes_part(threads, index):
            group, lane, passed = group_of(threads, index), lane_of(threads, index), 0
            for s in range(num_steps):
                current_step, row = step - s, step - s - first_step
                if ti.static(slots.copies > 0):
                    for k in range(lane_share(threads, lane, slots.copies)):
                        chunk, count = lane + k * team_size, states.shape[2]
                        for p in range(count * chunk // slots.copies, count * (chunk + 1) // slots.copies):
                            particle_adjoint_step(
                                slots, arrays, bars, contacts, states, element_bars, adjoints, group, row, current_step, p,
                                settings,
                            )  # fmt: skip
                else:
                    worlds = states.shape[0] // team.groups
                    for k in range(lane_share(threads, lane, worlds * states.shape[2])):
                        i = lane + k * team_size
                        particle_adjoint_step(
                            slots, arrays, bars, contacts, states, element_bars, adjoints, group * worlds + i // states.shape[2],
                            row, current_step, i % states.shape[2], settings,
                        )  # fmt: skip
                passed = team_barrier(threads, group, lane, passed)
                if ti.static(arrays.features.with_self_contact):
                    passed = rebuild_hash(slots, threads, contacts, states, group, lane, row, current_step, settings.dt, passed)
                add_shared_adjoints(
                    slots, threads, arrays, bars, contacts, states, adjoints.dual, element_bars, group, lane, row, current_step,
                    settings,
                )  # fmt: skip
                passed = team_barrier(threads, group, lane, passed)


@kernel
def sum_element_bars(slots: Slots, element_bars: ti.types.ndarray(), bar: ti.types.ndarray()):
    """Add element_bars [B, copies P or slots, 6] to bar [B, P, 6]."""
    for b, p in ti.ndrange(bar.shape[0], bar.shape[1]):
        for column in ti.static((PARTICLE.position, PARTICLE.velocity)):
            total = sum_contributions(slots, element_bars, b, p, bar.shape[1], column)
            add_vec3(bar, b, p, column, total)
