"""Targets of element forces: the particles, a thread's copy of the particles, or a slot per corner.

The particles sum up copies and slots later.
"""

from typing import Any

from ti_sim.base.rows import Row, load_slot_vec3, load_vec3, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

PARTICLE = Row(position=3, velocity=3)  # columns of a particle's state [m], [m/s], or of its adjoint


class JacobianRow:
    """Makes ``add_corner`` and ``add_state_corner`` write the change of forces with positions, where velocities change with these
    by ``rate`` [1/s], to rows of ``out`` [rows, 3] that are numbered by slots.
    """

    _data_oriented = True

    def __init__(self, rate: Any) -> None:
        self.rate = rate


class UnitDual:
    """A dual field that is 1 in one ``column`` at one ``particle``, and 0 elsewhere."""

    _data_oriented = True

    def __init__(self, particle: Any, column: Any) -> None:
        self.particle = particle
        self.column = column


class NoBar:
    """Placeholder of an adjoint that is not computed: ``add_bar`` adds nothing to it."""

    _data_oriented = True


class NoBars:
    """Placeholder of the ``DeformableInputs`` of adjoints, none of which is computed."""

    _data_oriented = True
    solid_material = tri_material = edge_material = spring_material = solid_actuation = tri_actuation = edge_actuation = NoBar()
    wind = NoBar()


class ThreadCopy:
    """Makes ``add_corner`` add to the copy of the particles of one thread, which starts at row ``first`` of ``out``."""

    _data_oriented = True  # lets a kernel assign it to a variable

    def __init__(self, first: Any) -> None:
        self.first = first


def thread_copy(first: Any) -> ThreadCopy:
    """Create a ``ThreadCopy`` at compile time of a kernel."""
    return ThreadCopy(first)


def jacobian_row(rate: Any) -> JacobianRow:
    """Create a ``JacobianRow`` at compile time of a kernel."""
    return JacobianRow(rate)


def unit_dual(particle: Any, column: Any) -> UnitDual:
    """Create a ``UnitDual`` at compile time of a kernel."""
    return UnitDual(particle, column)


for _maker in (thread_copy, jacobian_row, unit_dual):
    _maker._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def output_row(gather: ti.template(), particle):
    """Row of ``out`` to which an element without slots adds."""
    row = particle
    if ti.static(isinstance(gather, ThreadCopy)):
        row += gather.first
    return row


@ti.func
def add_corner(gather: ti.template(), out: ti.template(), b, slot, particle, column: ti.template(), value):
    """Add a 3-vector to the contribution of one corner of an element to its particle.

    Args:
        gather: True writes it to ``out[b, slot, column...]``, the slot of the corner; False adds it to ``out[b, particle,
            column...]``, which requires that one thread processes all elements of world b; a ``ThreadCopy`` adds it to the copy
            of one of several threads; a ``JacobianRow`` writes it to ``out[slot]``, or adds ``rate`` times the velocity's.
        out: [B, slots or P or copies times P, columns].
        b: world.
        slot: slot of the corner.
        particle: index of its particle.
        column: first of the three columns.
        value: 3-vector.
    """
    if ti.static(isinstance(gather, JacobianRow)):
        for k in ti.static(range(3)):
            if ti.static(column == PARTICLE.position):
                out[slot, k] = value[k]
            else:
                out[slot, k] = out[slot, k] + gather.rate * value[k]
    elif ti.static(not isinstance(gather, ThreadCopy) and gather):
        store_vec3(out, b, slot, column, value)
    else:
        # All three are read before one is written, so the compiler computes their addresses once.
        row = output_row(gather, particle)
        total = load_vec3(out, b, row, column) + value
        store_vec3(out, b, row, column, total)


@ti.func
def load_position(state: ti.template(), b, row, particle):
    """Position [m] of a particle in a row of states [B, rows, P, 6]."""
    return load_slot_vec3(state, b, row, particle, PARTICLE.position)


@ti.func
def load_velocity(state: ti.template(), b, row, particle):
    """Velocity [m/s] of a particle in a row of states [B, rows, P, 6]."""
    return load_slot_vec3(state, b, row, particle, PARTICLE.velocity)


@ti.func
def load_dual(dual: ti.template(), b, particle):
    """The dual field at a particle: the first three columns of [B, P, columns], or a ``UnitDual``."""
    value = vec3(0.0)
    if ti.static(isinstance(dual, UnitDual)):
        if particle == dual.particle:
            for k in ti.static(range(3)):
                value[k] = ti.select(k == dual.column, 1.0, 0.0)
    else:
        value = load_vec3(dual, b, particle, 0)
    return value


@ti.func
def add_state_corner(gather: ti.template(), out: ti.template(), b, slot, particle, position, velocity):
    """``add_corner`` of the adjoints of a particle's position and velocity."""
    if ti.static(isinstance(gather, JacobianRow) or (not isinstance(gather, ThreadCopy) and gather)):
        add_corner(gather, out, b, slot, particle, PARTICLE.position, position)
        add_corner(gather, out, b, slot, particle, PARTICLE.velocity, velocity)
    else:
        row = output_row(gather, particle)
        x = load_vec3(out, b, row, PARTICLE.position) + position
        v = load_vec3(out, b, row, PARTICLE.velocity) + velocity
        store_vec3(out, b, row, PARTICLE.position, x)
        store_vec3(out, b, row, PARTICLE.velocity, v)


@ti.func
def add_bar(bar: ti.template(), b, e, column: ti.template(), value):
    """Add to an entry of the adjoint of an input, bar [B, elements, columns], which no other thread writes; nothing
    for a ``NoBar``."""
    if ti.static(not isinstance(bar, NoBar)):
        bar[b, e, column] = bar[b, e, column] + value
