"""Forces between the particles of a world: of the elements, and of self-contact, with adjoints (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.deformable.elements import actuation_row, chunk_adjoints, chunk_forces
from ti_sim.deformable.self_contact import chunk_contacts, chunk_contacts_adjoint
from ti_sim.deformable.self_contact_lists import rebuild_if_stale


@ti.func
def add_forces(
    arrays: ti.template(), contacts: ti.template(), states: ti.template(), out: ti.template(), b, row, step,
    settings: ti.template(), chunk, num_chunks,
):  # fmt: skip
    """Add the forces of one of ``num_chunks`` equal chunks of the elements and of the triangles in contact.

    Args:
        arrays: ``DeformableArrays``.
        contacts: ``SelfContactArrays`` with a valid hash.
        states: [B, rows, P, 6] m, m/s.
        out: forces [N], see ``corners.add_corner``.
        b, row: world, and row of its states.
        step: step of the rollout.
        settings: ``StepSettings``.
        chunk, num_chunks: index of the chunk, and number of chunks.
    """
    chunk_forces(arrays, states, out, b, row, actuation_row(arrays, step, settings.substeps), chunk, num_chunks)
    if ti.static(arrays.features.with_self_contact):
        chunk_contacts(contacts, states, out, b, row, chunk, num_chunks, settings.dt)


@ti.func
def add_forces_adjoint(
    arrays: ti.template(), bars: ti.template(), contacts: ti.template(), states: ti.template(), dual: ti.template(),
    out: ti.template(), b, row, step, settings: ti.template(), chunk, num_chunks,
):  # fmt: skip
    """Adjoint of ``add_forces`` with the dual [B, P, 3] of the forces: adds to out [B, rows, 6] and to ``bars``."""
    chunk_adjoints(arrays, bars, states, dual, out, b, row, actuation_row(arrays, step, settings.substeps), chunk, num_chunks)
    if ti.static(arrays.features.with_self_contact):
        chunk_contacts_adjoint(contacts, bars.self_contact, states, dual, out, b, row, chunk, num_chunks, settings.dt)


@ti.func
def add_all_forces(
    arrays: ti.template(), contacts: ti.template(), states: ti.template(), out: ti.template(), b, row, step,
    settings: ti.template(),
):  # fmt: skip
    """``add_forces`` of all chunks, with a new hash if ``step`` needs one; for one thread."""
    if ti.static(arrays.features.with_self_contact):
        rebuild_if_stale(contacts, states, b, row, step, settings.dt)
    add_forces(arrays, contacts, states, out, b, row, step, settings, 0, 1)


@ti.func
def add_all_forces_adjoint(
    arrays: ti.template(), bars: ti.template(), contacts: ti.template(), states: ti.template(), dual: ti.template(),
    out: ti.template(), b, row, step, settings: ti.template(),
):  # fmt: skip
    """Adjoint of ``add_all_forces``."""
    if ti.static(arrays.features.with_self_contact):
        rebuild_if_stale(contacts, states, b, row, step, settings.dt)
    add_forces_adjoint(arrays, bars, contacts, states, dual, out, b, row, step, settings, 0, 1)
