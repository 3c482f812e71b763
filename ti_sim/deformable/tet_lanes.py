"""Forces of tetrahedra with four nodes and of neo-Hookean material, and their adjoint, a block of ``LANES`` of them at a time.

As ``solids.solid_force`` and ``solid_force_adjoint``, for kernels that are compiled ``with_vector_code``. Arrays of particles and
blocks have rows of four numbers (``ti_sim.base.quads``). A last block of fewer tetrahedra repeats the last one with the volume 0.
"""

from typing import Any

import numpy as np

from ti_sim.base.arrays import to_numpy
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, LaneMatrix, LaneVector
from ti_sim.base.quads import (
    QUADS,
    IntQuads,
    Quads,
    add_block,
    add_rows,
    block_count,
    gather_rows,
    in_blocks,
    load_block,
    separated,
)
from ti_sim.base.rows import Row
from ti_sim.base.runtime import ti
from ti_sim.deformable.energies import inner, neo_hookean_differential, neo_hookean_stress, symmetric_product
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.solids import SOLID_MATERIAL

CORNERS = 4
REST = Row(gradients=9, minus_volume=1)  # rest gradients of the shape functions of nodes 1, 2 and 3 [1/m]; negative volume [m3]


@bundle
class TetBlocks:
    """Tables and parameters of the tetrahedra, by blocks.

    Attributes:
        corner: particles of corner 0 of the tetrahedra of a block, then of corners 1, 2 and 3.
        rest: columns ``REST`` of each block.
        material: columns ``SOLID_MATERIAL`` of each world and block.
        actuation: one column of each world, control row and block.
    """

    corner: IntQuads
    rest: Quads
    material: Quads
    actuation: Quads


@bundle
class TetBlockBars:
    """Adjoints of ``material`` and ``actuation`` of ``TetBlocks``."""

    material: Quads
    actuation: Quads


def tet_blocks(model: DeformableModel, inputs: DeformableInputs) -> TetBlocks:
    """``TetBlocks`` of a model and its inputs."""
    indices, rest = model.tables["tet_indices"], model.tables["tet_rest"][:, 0] * ([1.0] * REST.minus_volume + [-1.0])
    blocks = block_count(len(indices))
    missing = blocks * LANES - len(indices)
    corner = np.concatenate([indices, np.repeat(indices[-1:], missing, axis=0)]).reshape(blocks, LANES, CORNERS).swapaxes(1, 2)
    rest = np.concatenate([rest, np.repeat(rest[-1:], missing, axis=0)])
    rest[len(indices) :, REST.minus_volume] = 0.0
    material, actuation = to_numpy(inputs.solid_material), to_numpy(inputs.solid_actuation)[..., None]
    return TetBlocks(np.ascontiguousarray(corner).reshape(-1, 4), in_blocks(rest), in_blocks(material), in_blocks(actuation))


@bundle
class LaneTets:
    """The tetrahedra of the lanes in a kernel.

    Attributes:
        p0, p1, p2, p3: particles of their corners.
        g1, g2, g3: rest gradients of the shape functions of corners 1, 2 and 3 [1/m].
        minus_volume: negative volume [m3]; 0 in lanes that repeat the last tetrahedron.
        material_row, actuation_row: rows of their parameters.
        mu, lam, eta, actuation: of the material.
    """

    p0: Any
    p1: Any
    p2: Any
    p3: Any
    g1: Any
    g2: Any
    g3: Any
    minus_volume: Any
    material_row: Any
    actuation_row: Any
    mu: Any
    lam: Any
    eta: Any
    actuation: Any


@ti.func
def corner_particles(blocks: ti.template(), block, corner: ti.template()):
    """Particles at a corner of the tetrahedra of a block."""
    return load_block(blocks.corner, QUADS * (block * CORNERS + corner))


@ti.func
def rest_gradient(blocks: ti.template(), block, node: ti.template()):
    """Rest gradient of the shape function of node 1, 2 or 3 [1/m]."""
    first = QUADS * (block * REST.size + 3 * (node - 1))
    return LaneVector(
        load_block(blocks.rest, first), load_block(blocks.rest, first + QUADS), load_block(blocks.rest, first + 2 * QUADS)
    )


@ti.func
def load_tets(blocks: ti.template(), worlds_block, actuation_block, block):
    """``LaneTets`` of a block.

    Args:
        blocks: ``TetBlocks``.
        worlds_block: index of the block among those of all worlds.
        actuation_block: its index among those of all worlds and control rows.
        block: its index in the world.
    """
    p0, p1 = corner_particles(blocks, block, 0), corner_particles(blocks, block, 1)
    p2, p3 = corner_particles(blocks, block, 2), corner_particles(blocks, block, 3)
    g1, g2, g3 = rest_gradient(blocks, block, 1), rest_gradient(blocks, block, 2), rest_gradient(blocks, block, 3)
    minus_volume = load_block(blocks.rest, QUADS * (block * REST.size + REST.minus_volume))
    material_row, actuation_row = worlds_block * QUADS * SOLID_MATERIAL.size, actuation_block * QUADS
    mu = load_block(blocks.material, material_row + QUADS * SOLID_MATERIAL.mu)
    lam = load_block(blocks.material, material_row + QUADS * SOLID_MATERIAL.lam)
    eta = load_block(blocks.material, material_row + QUADS * SOLID_MATERIAL.damping)
    actuation = load_block(blocks.actuation, actuation_row)
    return LaneTets(p0, p1, p2, p3, g1, g2, g3, minus_volume, material_row, actuation_row, mu, lam, eta, actuation)


@ti.func
def _outer_sum(
    d1: ti.template(), d2: ti.template(), d3: ti.template(), g1: ti.template(), g2: ti.template(), g3: ti.template()
):
    """d1 g1^T + d2 g2^T + d3 g3^T."""
    return LaneMatrix(
        d1[0] * g1[0] + d2[0] * g2[0] + d3[0] * g3[0],
        d1[0] * g1[1] + d2[0] * g2[1] + d3[0] * g3[1],
        d1[0] * g1[2] + d2[0] * g2[2] + d3[0] * g3[2],
        d1[1] * g1[0] + d2[1] * g2[0] + d3[1] * g3[0],
        d1[1] * g1[1] + d2[1] * g2[1] + d3[1] * g3[1],
        d1[1] * g1[2] + d2[1] * g2[2] + d3[1] * g3[2],
        d1[2] * g1[0] + d2[2] * g2[0] + d3[2] * g3[0],
        d1[2] * g1[1] + d2[2] * g2[1] + d3[2] * g3[1],
        d1[2] * g1[2] + d2[2] * g2[2] + d3[2] * g3[2],
    )


@ti.func
def gradient_of(tets: ti.template(), rows: ti.template(), first):
    """Gradient in the rest shape of a vector field, which particle p has in row ``first + p``."""
    origin = gather_rows(rows, tets.p0 + first)  # rows are subtracted before their numbers are separated: fewer of those
    d1 = separated(gather_rows(rows, tets.p1 + first) - origin)
    d2 = separated(gather_rows(rows, tets.p2 + first) - origin)
    d3 = separated(gather_rows(rows, tets.p3 + first) - origin)
    return _outer_sum(d1, d2, d3, tets.g1, tets.g2, tets.g3)


@ti.func
def scatter_stress(tets: ti.template(), rows: ti.template(), first, stress: ti.template()):
    """Adjoint of ``gradient_of``: add a stress times the rest gradients to corners 1, 2 and 3, minus their sum to corner 0."""
    f1, f2, f3 = stress @ tets.g1, stress @ tets.g2, stress @ tets.g3
    f0 = (f1 + f2 + f3) * (0.0 - 1.0)
    add_rows(rows, tets.p1 + first, f1)
    add_rows(rows, tets.p2 + first, f2)
    add_rows(rows, tets.p3 + first, f3)
    add_rows(rows, tets.p0 + first, f0)


@ti.func
def block_forces(
    tets: ti.template(), position: ti.template(), velocity: ti.template(), first, force: ti.template(), first_force,
    with_damping: ti.template(),
):  # fmt: skip
    """Add the forces of a block of tetrahedra.

    Args:
        tets: ``LaneTets``.
        position, velocity: rows [m], [m/s].
        first: row of the first particle of the world.
        force: rows [N].
        first_force: row of the first particle there.
        with_damping: whether the material may have damping.
    """
    f = gradient_of(tets, position, first)
    p = neo_hookean_stress(f, tets.mu, tets.lam, tets.actuation)
    if ti.static(with_damping):
        p += f @ (symmetric_product(f, gradient_of(tets, velocity, first)) * tets.eta)
    scatter_stress(tets, force, first_force, p * tets.minus_volume)


@ti.func
def block_adjoints(
    tets: ti.template(), bars: ti.template(), position: ti.template(), velocity: ti.template(), dual: ti.template(), first,
    position_bar: ti.template(), velocity_bar: ti.template(), first_bar,
):  # fmt: skip
    """Adjoint of ``block_forces`` with damping and the dual of the forces: adds to those of positions and velocities and to
    ``bars``, ``TetBlockBars``. The formulas are those of ``solids.solid_force_adjoint``.
    """
    f, g = gradient_of(tets, position, first), gradient_of(tets, dual, first)
    rate = gradient_of(tets, velocity, first)
    dp, parameter_derivatives = neo_hookean_differential(f, g, tets.mu, tets.lam, tets.actuation)
    strain_rate, strain_dual = symmetric_product(f, rate), symmetric_product(f, g)
    dp += (rate @ strain_dual + g @ strain_rate) * tets.eta
    scatter_stress(tets, position_bar, first_bar, dp * tets.minus_volume)
    scatter_stress(tets, velocity_bar, first_bar, (f @ strain_dual) * (tets.minus_volume * tets.eta))
    eta_bar = tets.minus_volume * inner(strain_rate, strain_dual)
    material_row = tets.material_row
    add_block(bars.material, material_row + QUADS * SOLID_MATERIAL.mu, tets.minus_volume * parameter_derivatives[0])
    add_block(bars.material, material_row + QUADS * SOLID_MATERIAL.lam, tets.minus_volume * parameter_derivatives[1])
    add_block(bars.material, material_row + QUADS * SOLID_MATERIAL.damping, eta_bar)
    add_block(bars.actuation, tets.actuation_row, tets.minus_volume * parameter_derivatives[2])
