"""Forces, adjoints and energies over all families of elements, for one element or all elements of a world.

Solids have consecutive numbers over all kinds, and so have the elements of all families and their slots, if any (see
``corners``), in the order tetrahedra, hexahedra, ten-node tetrahedra, triangles, bending edges, springs.
"""

from ti_sim.base.runtime import ti
from ti_sim.deformable.bending import bending_energy_of, bending_force, bending_force_adjoint
from ti_sim.deformable.solids import solid_energy_of, solid_force, solid_force_adjoint
from ti_sim.deformable.springs import spring_energy_of, spring_force, spring_force_adjoint
from ti_sim.deformable.triangles import triangle_energy_of, triangle_force, triangle_force_adjoint


@ti.func
def actuation_row(arrays: ti.template(), step, substeps):
    """Control row of a step of the rollout."""
    return step * arrays.features.controls // substeps


@ti.func
def element_force(
    family: ti.template(), arrays: ti.template(), states: ti.template(), out: ti.template(), b, row, frame, e, solid, slot
):
    """Add the force of element e of a family to ``out``.

    Args:
        family: name of the family.
        arrays: ``DeformableArrays``.
        states: [B, rows, P, 6] m, m/s.
        out: [B, P or slots, 3] N, see ``corners.add_corner``.
        b: world.
        row: row of the states.
        frame: control row of this step.
        e: index of the element within its family.
        solid: index of the first element of the family among all solids.
        slot: first slot of the family.
    """
    if ti.static(family == "triangle"):
        triangle_force(arrays, states, out, b, row, frame, e, slot)
    elif ti.static(family == "edge"):
        bending_force(arrays, states, out, b, row, frame, e, slot)
    elif ti.static(family == "spring"):
        spring_force(arrays, states, out, b, row, frame, e, slot)
    else:
        solid_force(family, arrays, states, out, b, row, frame, e, solid, slot)


@ti.func
def element_force_adjoint(
    family: ti.template(), arrays: ti.template(), bars: ti.template(), states: ti.template(), dual: ti.template(),
    out: ti.template(), b, row, frame, e, solid, slot,
):  # fmt: skip
    """Adjoint of ``element_force``: adds to out [B, P or slots, 6] and to the adjoints of the element in ``bars``.

    Args:
        bars: ``DeformableInputs`` of adjoints.
        dual: [B, P, 3] adjoint of the force on each particle.
        others: as in ``element_force``.
    """
    if ti.static(family == "triangle"):
        triangle_force_adjoint(arrays, bars, states, dual, out, b, row, frame, e, slot)
    elif ti.static(family == "edge"):
        bending_force_adjoint(arrays, bars, states, dual, out, b, row, frame, e, slot)
    elif ti.static(family == "spring"):
        spring_force_adjoint(arrays, bars, states, dual, out, b, row, frame, e, slot)
    else:
        solid_force_adjoint(family, arrays, bars, states, dual, out, b, row, frame, e, solid, slot)


@ti.func
def element_energy(family: ti.template(), arrays: ti.template(), states: ti.template(), b, row, frame, e, solid):
    """Elastic energy of element e of a family [J]; arguments as in ``element_force``."""
    energy = 0.0
    if ti.static(family == "triangle"):
        energy = triangle_energy_of(arrays, states, b, row, frame, e)
    elif ti.static(family == "edge"):
        energy = bending_energy_of(arrays, states, b, row, frame, e)
    elif ti.static(family == "spring"):
        energy = spring_energy_of(arrays, states, b, row, frame, e)
    else:
        energy = solid_energy_of(family, arrays, states, b, row, frame, e, solid)
    return energy


@ti.func
def chunk_forces(arrays: ti.template(), states: ti.template(), out: ti.template(), b, row, frame, chunk, num_chunks):
    """Add the forces of one of ``num_chunks`` equal chunks of the elements of world b in a row of states to out [B, P, 3], N."""
    solid = 0
    for family in ti.static(arrays.features.families):
        count = arrays.indices_of(family).shape[0]
        first, stop = count * chunk // num_chunks, count * (chunk + 1) // num_chunks
        for e in range(first, stop):
            element_force(family, arrays, states, out, b, row, frame, e, solid, 0)
        solid += count


@ti.func
def chunk_adjoints(
    arrays: ti.template(), bars: ti.template(), states: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, frame, chunk, num_chunks,
):  # fmt: skip
    """Adjoint of ``chunk_forces`` with the dual [B, P, 3] of the forces: adds to out [B, P, 6] and to ``bars``."""
    solid = 0
    for family in ti.static(arrays.features.families):
        count = arrays.indices_of(family).shape[0]
        first, stop = count * chunk // num_chunks, count * (chunk + 1) // num_chunks
        for e in range(first, stop):
            element_force_adjoint(family, arrays, bars, states, dual, out, b, row, frame, e, solid, 0)
        solid += count


@ti.func
def elastic_energy(arrays: ti.template(), states: ti.template(), b, row, frame):
    """Elastic energy of world b in a row of states [J]."""
    energy = 0.0
    solid = 0
    for family in ti.static(arrays.features.families):
        for e in range(arrays.indices_of(family).shape[0]):
            energy += element_energy(family, arrays, states, b, row, frame, e, solid)
        solid += arrays.indices_of(family).shape[0]
    return energy
