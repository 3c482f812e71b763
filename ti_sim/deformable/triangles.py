"""Triangles: elastic membranes and elements of plane (2D) bodies, with damping, and their adjoint.

The deformation gradient F is 3x2 with columns f1 and f2, I_C = |f1|^2 + |f2|^2, and J is the stretch of area: |f1 x f2| for a
membrane, and n . (f1 x f2) for a body in the plane with normal n, where it is negative for inverted elements. Energy per rest
area:

    mu/2 (I_C - 2) + lambda/2 (J - 1 - a)^2 - (2/3) mu (J - 1) - mu/2 log((I_C + 1) / 3)

This neo-Hookean energy is finite and rotation invariant also for degenerate triangles, with zero stress at F = I if the actuation
a is 0. The damping is a viscous second Piola stress: damping times the rate of the strain (F^T F - I) / 2.
"""

from typing import TypeVar

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.deformable.air import air_force, air_force_adjoint
from ti_sim.deformable.corners import add_bar, add_corner, add_state_corner, load_dual, load_position, load_velocity

Number = TypeVar("Number")

# Columns of a rest row: inverse of the 2x2 matrix of the rest edges (row-major), area, and normal of the plane (zero for a
# membrane). Edge 01 is along the first axis, so the entry (1, 0) of the inverse is zero.
INVERSE = 0  # 4
AREA = 4
NORMAL = 5  # 3
REST_SIZE = 8

# Columns of ``tri_material``.
MU, LAMBDA, DAMPING, DRAG, LIFT = range(5)

# Factors: LLVM does not turn divisions by 3 into multiplications.
_THIRD = 1 / 3
_TWO_THIRDS = 2 / 3

# Twice the area of a triangle over its squared longest edge, below which it is flat.
_FLAT = 1e-9
# Tolerance between the normal of an element of a plane body and that of the plane.
_NORMAL_TOLERANCE = 1e-6


def triangle_rest_table(particle_rest: np.ndarray, tri_indices: np.ndarray, tri_normal: np.ndarray) -> np.ndarray:
    """Rest rows of triangles for their forces.

    Args:
        particle_rest: [P, 3] rest positions [m].
        tri_indices: [T, 3] particles.
        tri_normal: [T, 3], zero for membranes, the unit normal of the plane for triangles of plane bodies.

    Returns:
        [T, 8] float64: inverse of the matrix whose columns are the rest edges 01 and 02 in the plane of the triangle [1/m],
            row-major; rest area [m2]; ``tri_normal``.

    Raises:
        UserError: a triangle has no area, or one of a plane body is not in the plane or has clockwise winding about its normal.
    """
    first, second, cross = _edges(particle_rest, tri_indices)
    double_area = np.linalg.norm(cross, axis=1)
    longest_squared = np.maximum(np.maximum((first**2).sum(1), (second**2).sum(1)), ((second - first) ** 2).sum(1))
    _raise_if_any(
        double_area <= _FLAT * longest_squared, tri_indices, "has no area at rest: remove it, or move its particles apart"
    )
    is_plane = np.linalg.norm(tri_normal, axis=1) > 0
    normal_cosine = (cross * tri_normal).sum(1) / double_area
    _raise_if_any(
        is_plane & (normal_cosine < 0),
        tri_indices,
        "of a plane body is wound against the plane's normal: reverse the order of its particles",
    )
    _raise_if_any(
        is_plane & (np.abs(normal_cosine - 1) > _NORMAL_TOLERANCE),
        tri_indices,
        "of a plane body is not at right angles to its tri_normal: give the plane's unit normal, or zeros for a membrane",
    )
    length = np.linalg.norm(first, axis=1)
    # Edges in the plane: 01 = (length, 0) and 02 = (edge_projection, height).
    edge_projection = (first * second).sum(1) / length
    height = double_area / length
    table = np.zeros((len(tri_indices), REST_SIZE))
    table[:, INVERSE] = 1 / length
    table[:, INVERSE + 1] = -edge_projection / double_area
    table[:, INVERSE + 3] = 1 / height
    table[:, AREA] = double_area / 2
    table[:, NORMAL : NORMAL + 3] = tri_normal
    return table


@checked
def triangle_areas(particle_rest: np.ndarray, tri_indices: np.ndarray) -> np.ndarray:
    """Areas of triangles [T], m2, from positions [P, 3], m, and indices [T, 3]."""
    return np.linalg.norm(_edges(particle_rest, tri_indices)[2], axis=1) / 2


@checked
def membrane_constants(youngs_modulus: Number, poisson_ratio: Number, thickness: Number) -> tuple[Number, Number]:
    """Parameters of the energy for a thin sheet: plane stress.

    Args:
        youngs_modulus: Young's modulus [Pa]; a float, an array or a tensor, like the others.
        poisson_ratio: Poisson's ratio [1], in (-1, 1).
        thickness: thickness of the sheet [m].

    Returns:
        (mu, lambda) [N/m] that agree with linear elasticity at small strains.
    """
    tensile_stiffness = youngs_modulus * thickness
    shear = tensile_stiffness / (2 * (1 + poisson_ratio))
    return triangle_constants(shear, tensile_stiffness * poisson_ratio / (1 - poisson_ratio * poisson_ratio))


@checked
def plane_strain_constants(youngs_modulus: Number, poisson_ratio: Number) -> tuple[Number, Number]:
    """Parameters of the energy for a plane body without strain along its normal: plane strain.

    Args:
        youngs_modulus: Young's modulus [Pa]; a float, an array or a tensor, like the other.
        poisson_ratio: Poisson's ratio [1], in (-1, 0.5).

    Returns:
        (mu, lambda) per metre of depth [N/m per m] that agree with linear elasticity at small strains.
    """
    shear = youngs_modulus / (2 * (1 + poisson_ratio))
    return triangle_constants(shear, 2 * shear * poisson_ratio / (1 - 2 * poisson_ratio))


def triangle_constants(shear: Number, lame: Number) -> tuple[Number, Number]:
    """(mu, lambda) of the energy from the Lame constants of linear elasticity in the plane."""
    return 1.5 * shear, lame + 2 * shear / 3


def _edges(positions: np.ndarray, tri_indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges 01 and 02 of triangles, and their cross product."""
    corner = np.asarray(positions, dtype=np.float64)[tri_indices]
    first, second = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    return first, second, np.cross(first, second)


def _raise_if_any(is_defective: np.ndarray, tri_indices: np.ndarray, defect: str) -> None:
    """Raise a UserError for the first defective triangle."""
    if is_defective.any():
        index = int(np.argmax(is_defective))
        count_note = f" (and {is_defective.sum() - 1} more)" if is_defective.sum() > 1 else ""
        raise UserError(f"triangle {index} of particles {tri_indices[index].tolist()}{count_note} {defect}")


@ti.func
def gradient_columns(arrays: ti.template(), e, first, second):
    """Columns of the gradient of a field from its differences along the rest edges 01 and 02."""
    return (
        first * arrays.tri_rest[e, INVERSE],
        first * arrays.tri_rest[e, INVERSE + 1] + second * arrays.tri_rest[e, INVERSE + 3],
    )


@ti.func
def area_stretch(arrays: ti.template(), e, f1, f2):
    """Area stretch of triangle e and its direction.

    Returns:
        (J, n, normal_derivative): J = n . (f1 x f2), with n the normal of the plane or of the triangle (zero if it has no area);
        normal_derivative is the derivative of n by f1 x f2: 1 / |f1 x f2| for a membrane, 0 for a constant n.
    """
    cross = f1.cross(f2)
    n = vec3(arrays.tri_rest[e, NORMAL], arrays.tri_rest[e, NORMAL + 1], arrays.tri_rest[e, NORMAL + 2])
    normal_derivative = 0.0
    if n.dot(n) == 0:
        cross_norm = cross.norm()
        if cross_norm > 0:
            normal_derivative = 1 / cross_norm
            n = normal_derivative * cross
    return n.dot(cross), n, normal_derivative


@ti.func
def triangle_force(arrays: ti.template(), state: ti.template(), out: ti.template(), b, row, frame, e, first_slot):
    """Add the elastic, damping and air forces of triangle e to its three particles.

    Args:
        arrays: ``DeformableArrays``.
        state: [B, rows, P, 6], m and m/s.
        out: forces [N], see ``add_corner``.
        b: world.
        row: row of the state.
        frame: control row of this step.
        e: index of the triangle.
        first_slot: slot of the first corner of the first triangle.
    """
    i0, i1, i2 = arrays.tri_indices[e, 0], arrays.tri_indices[e, 1], arrays.tri_indices[e, 2]
    x0 = load_position(state, b, row, i0)
    f1, f2 = gradient_columns(arrays, e, load_position(state, b, row, i1) - x0, load_position(state, b, row, i2) - x0)
    stretch, n, normal_derivative = area_stretch(arrays, e, f1, f2)
    mu = arrays.tri_material[b, e, MU]
    isotropic_stress = mu - mu / (f1.dot(f1) + f2.dot(f2) + 1)
    pressure = arrays.tri_material[b, e, LAMBDA] * (stretch - 1 - arrays.tri_actuation[b, frame, e]) - _TWO_THIRDS * mu
    s11, s22, s12 = isotropic_stress, isotropic_stress, 0.0
    area = arrays.tri_rest[e, AREA]
    air = vec3(0.0)
    if ti.static(arrays.features.with_damping or arrays.features.with_air):
        v0 = load_velocity(state, b, row, i0)
        v1 = load_velocity(state, b, row, i1)
        v2 = load_velocity(state, b, row, i2)
        if ti.static(arrays.features.with_damping):
            d1, d2 = gradient_columns(arrays, e, v1 - v0, v2 - v0)
            damping = arrays.tri_material[b, e, DAMPING]
            s11 += damping * f1.dot(d1)
            s22 += damping * f2.dot(d2)
            s12 = 0.5 * damping * (f1.dot(d2) + f2.dot(d1))
        if ti.static(arrays.features.with_air):
            drag, lift = arrays.tri_material[b, e, DRAG], arrays.tri_material[b, e, LIFT]
            if normal_derivative > 0 and (drag != 0 or lift != 0):
                u = _THIRD * (v0 + v1 + v2) - vec3(arrays.wind[b, 0], arrays.wind[b, 1], arrays.wind[b, 2])
                air = _THIRD * air_force(area * stretch, n, u, drag, lift)
    pressure_force = pressure * n
    p1 = s11 * f1 + s12 * f2 + f2.cross(pressure_force)
    p2 = s12 * f1 + s22 * f2 + pressure_force.cross(f1)
    force1 = -area * arrays.tri_rest[e, INVERSE] * p1 - area * arrays.tri_rest[e, INVERSE + 1] * p2
    force2 = -area * arrays.tri_rest[e, INVERSE + 3] * p2
    slot = first_slot + 3 * e
    add_corner(arrays.gather, out, b, slot, i0, 0, air - force1 - force2)
    add_corner(arrays.gather, out, b, slot + 1, i1, 0, air + force1)
    add_corner(arrays.gather, out, b, slot + 2, i2, 0, air + force2)


@ti.func
def triangle_force_adjoint(
    arrays: ti.template(), bars: ti.template(), state: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, frame, e, first_slot,
):  # fmt: skip
    """Adjoint of ``triangle_force`` for the dual of the forces, dual [B, P, 3]: adds to the adjoints of positions and velocities
    (columns 0-2 and 3-5 of ``out``), of the triangle's material and actuation, and of the wind ([B, T, 3], one row per triangle).
    """
    i0, i1, i2 = arrays.tri_indices[e, 0], arrays.tri_indices[e, 1], arrays.tri_indices[e, 2]
    x0 = load_position(state, b, row, i0)
    f1, f2 = gradient_columns(arrays, e, load_position(state, b, row, i1) - x0, load_position(state, b, row, i2) - x0)
    v0, v1, v2 = load_velocity(state, b, row, i0), load_velocity(state, b, row, i1), load_velocity(state, b, row, i2)
    d1, d2 = gradient_columns(arrays, e, v1 - v0, v2 - v0)
    w0, w1, w2 = load_dual(dual, b, i0), load_dual(dual, b, i1), load_dual(dual, b, i2)
    g1, g2 = gradient_columns(arrays, e, w1 - w0, w2 - w0)
    stretch, n, normal_derivative = area_stretch(arrays, e, f1, f2)
    mu, lame = arrays.tri_material[b, e, MU], arrays.tri_material[b, e, LAMBDA]
    damping = arrays.tri_material[b, e, DAMPING]
    drag, lift = arrays.tri_material[b, e, DRAG], arrays.tri_material[b, e, LIFT]
    area = arrays.tri_rest[e, AREA]

    # Virtual power of the elastic stress per area: isotropic_stress q + pressure s, with q = F : G, s the change of J along G.
    inverse = 1 / (f1.dot(f1) + f2.dot(f2) + 1)
    isotropic_stress = mu - mu * inverse
    area_strain = stretch - 1 - arrays.tri_actuation[b, frame, e]
    pressure = lame * area_strain - _TWO_THIRDS * mu
    q = f1.dot(g1) + f2.dot(g2)
    cross_change = g1.cross(f2) + f1.cross(g2)
    s = n.dot(cross_change)
    pressure_over_norm = pressure * normal_derivative
    cross_bar = (lame - pressure_over_norm) * s * n + pressure_over_norm * cross_change  # adjoint of f1 x f2
    pressure_force = pressure * n
    isotropic_change = 2 * mu * inverse * inverse * q

    # Virtual power of the damping per area: damping A : B, with A and B the symmetric parts of F^T dF/dt and F^T G.
    a11, a22, a12 = f1.dot(d1), f2.dot(d2), 0.5 * (f1.dot(d2) + f2.dot(d1))
    b11, b22, b12 = f1.dot(g1), f2.dot(g2), 0.5 * (f1.dot(g2) + f2.dot(g1))
    strain_rate_product = a11 * b11 + a22 * b22 + 2 * a12 * b12
    a11, a22, a12 = damping * a11 + isotropic_stress, damping * a22 + isotropic_stress, damping * a12
    b11, b22, b12 = damping * b11, damping * b22, damping * b12
    p1 = a11 * g1 + a12 * g2 + b11 * d1 + b12 * d2 + isotropic_change * f1 + g2.cross(pressure_force)
    p2 = a12 * g1 + a22 * g2 + b12 * d1 + b22 * d2 + isotropic_change * f2 + pressure_force.cross(g1)
    r1 = b11 * f1 + b12 * f2
    r2 = b12 * f1 + b22 * f2

    u_bar = vec3(0.0)
    if normal_derivative > 0:  # air forces act on membranes only
        u = _THIRD * (v0 + v1 + v2) - vec3(arrays.wind[b, 0], arrays.wind[b, 1], arrays.wind[b, 2])
        area_vector_bar, velocity_bar, drag_bar, lift_bar = air_force_adjoint(
            area * stretch, n, u, drag, lift, _THIRD * (w0 + w1 + w2)
        )
        cross_bar -= area_vector_bar
        u_bar = _THIRD * velocity_bar
        add_bar(bars.tri_material, b, e, DRAG, drag_bar)
        add_bar(bars.tri_material, b, e, LIFT, lift_bar)
        for k in ti.static(range(3)):
            add_bar(bars.wind, b, e, k, -velocity_bar[k])

    p1 += f2.cross(cross_bar)
    p2 += cross_bar.cross(f1)
    add_bar(bars.tri_material, b, e, MU, -area * (q - inverse * q - _TWO_THIRDS * s))
    add_bar(bars.tri_material, b, e, LAMBDA, -area * area_strain * s)
    add_bar(bars.tri_material, b, e, DAMPING, -area * strain_rate_product)
    add_bar(bars.tri_actuation, b, frame, e, area * lame * s)

    c00, c01 = -area * arrays.tri_rest[e, INVERSE], -area * arrays.tri_rest[e, INVERSE + 1]
    c11 = -area * arrays.tri_rest[e, INVERSE + 3]
    x1_bar, x2_bar = c00 * p1 + c01 * p2, c11 * p2
    v1_bar, v2_bar = c00 * r1 + c01 * r2, c11 * r2
    slot = first_slot + 3 * e
    add_state_corner(arrays.gather, out, b, slot, i0, -x1_bar - x2_bar, u_bar - v1_bar - v2_bar)
    add_state_corner(arrays.gather, out, b, slot + 1, i1, x1_bar, u_bar + v1_bar)
    add_state_corner(arrays.gather, out, b, slot + 2, i2, x2_bar, u_bar + v2_bar)


@ti.func
def triangle_energy_of(arrays: ti.template(), state: ti.template(), b, row, frame, e):
    """Elastic energy of triangle e [J]."""
    x0 = load_position(state, b, row, arrays.tri_indices[e, 0])
    f1, f2 = gradient_columns(
        arrays, e,
        load_position(state, b, row, arrays.tri_indices[e, 1]) - x0, load_position(state, b, row, arrays.tri_indices[e, 2]) - x0,
    )  # fmt: skip
    stretch, _n, _normal_derivative = area_stretch(arrays, e, f1, f2)
    mu, lame = arrays.tri_material[b, e, MU], arrays.tri_material[b, e, LAMBDA]
    norm_excess = f1.dot(f1) + f2.dot(f2) - 2
    area_strain = stretch - 1 - arrays.tri_actuation[b, frame, e]
    energy_density = (
        0.5 * mu * (norm_excess - ti.log(1 + norm_excess / 3))
        + 0.5 * lame * area_strain * area_strain
        - _TWO_THIRDS * mu * (stretch - 1)
    )
    return arrays.tri_rest[e, AREA] * energy_density
