"""Solid elements: tetrahedra with four and ten nodes, and hexahedra; their rest tables, forces and adjoints.

The deformation gradient at a quadrature point is F = sum over the nodes a >= 1 of (x_a - x_0) g_a^T, with g_a the gradient of
shape function a in the rest shape. The gradients of all nodes sum to zero, so that of node 0 is not needed. A row of a rest table
contains these gradients and the volume of the point.

Damping is a viscous second Piola-Kirchhoff stress eta sym(F^T dF/dt), which is zero for rigid motion.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ti_sim.base.bundles import bundle
from ti_sim.base.errors import UserError
from ti_sim.base.rows import Row, load_slot_vec3
from ti_sim.base.rules import checked
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3
from ti_sim.deformable.corners import PARTICLE, add_bar, add_corner, load_dual
from ti_sim.deformable.energies import energy_density, inner, rotation_for, stress, stress_differential, symmetric_product
from ti_sim.deformable.families import ENERGIES, FAMILIES, TABLES

SOLID_MATERIAL = Row(mu=1, lam=1, damping=1)  # Lame parameters [Pa] and viscosity [Pa s]

_POINTS = {"tet": 1, "hex": 8, "tet10": 4}  # quadrature points of an element
# Determinant of the Jacobian of the rest shape, over the cubed length of the element, below which an element is flat.
_FLAT = 1e-7
_HEX_CORNERS = np.array([(-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)])
_TET_CORNERS = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
_MID_EDGES = np.array([(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)])


@checked
def lame_from_young(young: Any, poisson: Any) -> tuple[Any, Any]:
    """Lame constants of linear elasticity.

    Args:
        young: Young's modulus [Pa], above zero; a number, numpy array or torch tensor.
        poisson: Poisson's ratio [1], above -1 and below 1/2.

    Returns:
        mu and lambda [Pa].
    """
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


@checked
def energy_constants(energy: str, mu_lame: Any, lambda_lame: Any) -> tuple[Any, Any]:
    """Parameters for which an energy equals, at small strains, linear elasticity with these Lame constants.

    Args:
        energy: name from ``ENERGIES``.
        mu_lame: shear modulus [Pa]; a number, numpy array or torch tensor.
        lambda_lame: first Lame constant [Pa].

    Returns:
        mu and lambda of the energy [Pa].

    Raises:
        UserError: the energy is unknown.
    """
    if energy not in ENERGIES:
        raise UserError(f"solid energy {energy!r} is unknown: choose one of {', '.join(ENERGIES)}")
    if energy == "neo_hookean":
        return mu_lame * (4 / 3), lambda_lame + mu_lame * (5 / 6)
    return mu_lame, lambda_lame


def rest_table(
    kind: str, particle_rest: np.ndarray, indices: np.ndarray, *, element_name: Callable[[int], str] | None = None
) -> np.ndarray:
    """Rest shapes of elements as tables for the element functions.

    Args:
        kind: "tet", "hex" (trilinear, 8 nodes) or "tet10" (quadratic), in VTK's node order.
        particle_rest: [P, 3] rest positions [m].
        indices: [E, nodes] particles of each element.
        element_name: function from the row of an element to its name in messages (``DeformableModel.element_name``); None uses
            the row.

    Returns:
        [E, points, 3 (nodes - 1) + 1] float64: at each quadrature point the rest gradients [1/m] of all shape functions except
        the first, and the volume [m3]. Points: tet 1, hex 8 (2x2x2 Gauss), tet10 4.

    Raises:
        UserError: an element is inverted or flat, at a quadrature point or at a corner.
    """
    indices = np.asarray(indices)
    points, weights = _quadrature(kind)
    rest = np.asarray(particle_rest, dtype=np.float64)[indices]
    reference_gradients = _reference_gradients(kind, points)
    jacobians = np.einsum("eni,qnj->eqij", rest, reference_gradients)
    node_jacobians = np.einsum("eni,qnj->eqij", rest, _reference_gradients(kind, _reference_nodes(kind)))
    min_determinants = np.linalg.det(np.concatenate([jacobians, node_jacobians], axis=1)).min(axis=1)
    length = np.linalg.norm(np.ptp(rest, axis=1), axis=-1)
    bad_elements = np.flatnonzero(~(min_determinants > _FLAT * length**3))
    if bad_elements.size:
        element = int(bad_elements[0])
        defect = "inverted" if min_determinants[element] < -_FLAT * length[element] ** 3 else "flat"
        raise UserError(
            f"{element_name(element) if element_name else f'{kind} element {element}'} is {defect} at rest"
            f"{f' (and {bad_elements.size - 1} more)' if bad_elements.size > 1 else ''}: "
            "give distinct nodes in the order of a positive volume, or repair the mesh"
        )
    gradients = np.einsum("qnj,eqji->eqni", reference_gradients, np.linalg.inv(jacobians))
    volumes = np.linalg.det(jacobians) * weights
    table = gradients[:, :, 1:].reshape(*volumes.shape, 3 * indices.shape[1] - 3)
    return np.concatenate([table, volumes[..., None]], axis=-1)


@checked
def corner_volumes(kind: str, rest: np.ndarray) -> np.ndarray:
    """Volume of each node of an element; lumped masses are density times this volume.

    A quarter of the volume for tetrahedra, the integrals of the shape functions for hexahedra. These integrals are negative at
    the corners of quadratic tetrahedra, which instead scale the diagonal of the mass matrix (Hinton, Rock and Zienkiewicz 1976).

    Args:
        kind: "tet", "hex" or "tet10".
        rest: ``rest_table`` of the elements.

    Returns:
        [E, nodes] float64 [m3].
    """
    volumes = rest[..., -1]
    if kind == "hex":
        return volumes @ (np.prod(1 + _quadrature(kind)[0][:, None] * _HEX_CORNERS, axis=-1) / 8)  # trilinear shape functions
    fractions = np.full(4, 1 / 4) if kind == "tet" else np.repeat([1 / 36, 4 / 27], [4, 6])
    return volumes.sum(axis=1, keepdims=True) * fractions


def _quadrature(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Points [points, 3] in the reference element, and their weights as fractions of its volume [points]."""
    if kind == "tet":
        return np.full((1, 3), 0.25), np.full(1, 1 / 6)
    if kind == "hex":
        return _HEX_CORNERS / np.sqrt(3), np.ones(8)
    low, high = (5 - np.sqrt(5)) / 20, (5 + 3 * np.sqrt(5)) / 20
    return low + (high - low) * _TET_CORNERS, np.full(4, 1 / 24)


def _reference_nodes(kind: str) -> np.ndarray:
    """Nodes [nodes, 3] of the reference element."""
    if kind == "hex":
        return _HEX_CORNERS
    return _TET_CORNERS if kind == "tet" else np.concatenate([_TET_CORNERS, _TET_CORNERS[_MID_EDGES].mean(axis=1)])


def _reference_gradients(kind: str, points: np.ndarray) -> np.ndarray:
    """Derivatives [points, nodes, 3] of the shape functions with respect to the reference coordinates."""
    if kind == "hex":
        terms = 1 + points[:, None] * _HEX_CORNERS
        xi, eta, zeta = terms[..., 0], terms[..., 1], terms[..., 2]
        return _HEX_CORNERS * np.stack([eta * zeta, zeta * xi, xi * eta], axis=-1) / 8
    linear = np.concatenate([-np.ones((1, 3)), np.eye(3)])
    if kind == "tet":
        return np.broadcast_to(linear, (len(points), 4, 3))
    barycentric = np.concatenate([1 - points.sum(axis=1, keepdims=True), points], axis=1)
    corners = (4 * barycentric[..., None] - 1) * linear
    i, j = _MID_EDGES.T
    edges = 4 * (barycentric[:, i, None] * linear[j] + barycentric[:, j, None] * linear[i])
    return np.concatenate([corners, edges], axis=1)


@bundle
class SolidKind:
    """Elements of one family in a kernel: numbers of nodes and of quadrature points, particles [E, nodes], rest table."""

    nodes: Any
    points: Any
    indices: Any
    rest: Any


def solid_kind(family: str, arrays: Any) -> SolidKind:
    """``SolidKind`` of a family in a bundle of arrays, while a kernel is compiled."""
    return SolidKind(FAMILIES[family], _POINTS[family], getattr(arrays, TABLES[family]), getattr(arrays, f"{family}_rest"))


solid_kind._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def _node_differences(nodes: ti.template(), indices: ti.template(), array: ti.template(), b, row, e, column: ti.template()):
    """Differences of the nodes a >= 1 to node 0, in three columns of a state."""
    differences = ti.Matrix([[0.0] * 3 for _ in range(nodes - 1)])
    first = indices[e, 0]
    origin = load_slot_vec3(array, b, row, first, column)
    for a in range(nodes - 1):
        for k in ti.static(range(3)):
            differences[a, k] = array[b, row, indices[e, a + 1], column + k] - origin[k]
    return differences


@ti.func
def _material_of(arrays: ti.template(), b, frame, solid):
    """Parameters mu and lambda of the energy, damping and actuation of a solid."""
    mu, lam = arrays.solid_material[b, solid, SOLID_MATERIAL.mu], arrays.solid_material[b, solid, SOLID_MATERIAL.lam]
    return mu, lam, arrays.solid_material[b, solid, SOLID_MATERIAL.damping], arrays.solid_actuation[b, frame, solid]


@ti.func
def _state_differences(kind: ti.template(), arrays: ti.template(), state: ti.template(), b, row, e):
    """``_node_differences`` the positions, and of the velocities (zeros without damping)."""
    position_differences = _node_differences(kind.nodes, kind.indices, state, b, row, e, PARTICLE.position)
    velocity_differences = ti.Matrix([[0.0] * 3 for _ in range(kind.nodes - 1)])
    if ti.static(arrays.features.with_damping):
        velocity_differences = _node_differences(kind.nodes, kind.indices, state, b, row, e, PARTICLE.velocity)
    return position_differences, velocity_differences


@ti.func
def _dual_differences(nodes: ti.template(), indices: ti.template(), dual: ti.template(), b, e):
    """Differences of the nodes a >= 1 to node 0 in a dual field [B, P, 3]."""
    differences = ti.Matrix([[0.0] * 3 for _ in range(nodes - 1)])
    first = indices[e, 0]
    origin = load_dual(dual, b, first)
    for a in range(nodes - 1):
        node_dual = load_dual(dual, b, indices[e, a + 1])
        for k in ti.static(range(3)):
            differences[a, k] = node_dual[k] - origin[k]
    return differences


@ti.func
def _gradient_of(nodes: ti.template(), rest: ti.template(), differences, e, point):
    """Gradient in the rest shape, at a quadrature point, of the field with the node differences ``differences``."""
    gradient = mat3(0.0)
    for a in range(nodes - 1):
        for j in ti.static(range(3)):
            shape_derivative = rest[e, point, 3 * a + j]
            for i in ti.static(range(3)):
                gradient[i, j] += differences[a, i] * shape_derivative
    return gradient


@ti.func
def _add_stress_forces(nodes: ti.template(), rest: ti.template(), stress_volume, e, point, forces: ti.template()):
    """Add a stress times volume, multiplied by the rest gradients, to ``forces`` of the nodes a >= 1: the adjoint of
    ``_gradient_of``.
    """
    for a in range(nodes - 1):
        for j in ti.static(range(3)):
            shape_derivative = rest[e, point, 3 * a + j]
            for i in ti.static(range(3)):
                forces[a, i] += stress_volume[i, j] * shape_derivative


@ti.func
def _scatter(
    nodes: ti.template(), indices: ti.template(), gather: ti.template(), out: ti.template(), b, e, first_slot,
    column: ti.template(), forces: ti.template(),
):  # fmt: skip
    """Add the forces to the nodes a >= 1, and their negative sum to node 0."""
    slot = first_slot + e * nodes
    first_force = vec3(0.0)
    for a in range(nodes - 1):
        force = vec3(forces[a, 0], forces[a, 1], forces[a, 2])
        first_force -= force
        add_corner(gather, out, b, slot + a + 1, indices[e, a + 1], column, force)
    add_corner(gather, out, b, slot, indices[e, 0], column, first_force)


@ti.func
def solid_force(
    family: ti.template(), arrays: ti.template(), state: ti.template(), out: ti.template(), b, row, frame, e, first_solid,
    first_slot,
):  # fmt: skip
    """Add an element's elastic and viscous forces [N] to ``out`` (3 columns; see ``corners.add_corner``).

    Args:
        family: "tet", "hex" or "tet10".
        arrays: bundle of arrays (``DeformableArrays``).
        state: [B, rows, P, 6] positions [m] and velocities [m/s].
        out: array of forces.
        b, row: world, and row of the state.
        frame: control row of this step.
        e: index of the element within its family.
        first_solid: index of the first element of the family among all solids.
        first_slot: slot of the family's first corner.
    """
    kind = solid_kind(family, arrays)
    solid = first_solid + e
    mu, lam, eta, actuation = _material_of(arrays, b, frame, solid)
    position_differences, velocity_differences = _state_differences(kind, arrays, state, b, row, e)
    forces = ti.Matrix([[0.0] * 3 for _ in range(kind.nodes - 1)])
    for point in range(kind.points):
        f = _gradient_of(kind.nodes, kind.rest, position_differences, e, point)
        p = mat3(0.0)
        for energy in ti.static(arrays.features.energies):
            if ti.static(len(arrays.features.energies) == 1):
                p = stress(energy, f, mu, lam, actuation)
            else:
                if arrays.solid_energy[solid] == energy:
                    p = stress(energy, f, mu, lam, actuation)
        if ti.static(arrays.features.with_damping):
            p += f @ (eta * symmetric_product(f, _gradient_of(kind.nodes, kind.rest, velocity_differences, e, point)))
        _add_stress_forces(kind.nodes, kind.rest, -kind.rest[e, point, 3 * kind.nodes - 3] * p, e, point, forces)
    _scatter(kind.nodes, kind.indices, arrays.gather, out, b, e, first_slot, 0, forces)


@ti.func
def _rotation_of(arrays: ti.template(), solid, f):
    """``rotation_for`` the energy of a solid."""
    rotation = mat3(0.0)
    for energy in ti.static(arrays.features.energies):
        if ti.static(len(arrays.features.energies) == 1):
            rotation = rotation_for(energy, f)
        else:
            if arrays.solid_energy[solid] == energy:
                rotation = rotation_for(energy, f)
    return rotation


@ti.func
def _stress_differential_of(arrays: ti.template(), solid, f, rotation, g, mu, lam, actuation):
    """``stress_differential`` for the energy of a solid."""
    dp = mat3(0.0)
    parameter_derivatives = vec3(0.0)
    for energy in ti.static(arrays.features.energies):
        if ti.static(len(arrays.features.energies) == 1):
            dp, parameter_derivatives = stress_differential(energy, f, rotation, g, mu, lam, actuation)
        else:
            if arrays.solid_energy[solid] == energy:
                dp, parameter_derivatives = stress_differential(energy, f, rotation, g, mu, lam, actuation)
    return dp, parameter_derivatives


@ti.func
def solid_force_adjoint(
    family: ti.template(), arrays: ti.template(), bars: ti.template(), state: ti.template(), dual: ti.template(),
    out: ti.template(), b, row, frame, e, first_solid, first_slot,
):  # fmt: skip
    """Adjoint of ``solid_force``; other arguments as there.

    With G the gradient of the dual field, the virtual power of the forces at a point is -V <P(F) + eta F A, G> with A = sym(F^T
    dF/dt), and <F A, G> = <A, B> with B = sym(F^T G). Its derivatives by F and dF/dt are added to the nodes like a stress.

    Args:
        bars: bundle of adjoints; adds to solid_material and solid_actuation of the element.
        dual: [B, P, 3] adjoints w of the forces on the particles.
        out: array to which (df/dx)^T w (columns 0 to 2) and (df/dv)^T w (columns 3 to 5) are added.
    """
    kind = solid_kind(family, arrays)
    solid = first_solid + e
    mu, lam, eta, actuation = _material_of(arrays, b, frame, solid)
    position_differences, velocity_differences = _state_differences(kind, arrays, state, b, row, e)
    dual_differences = _dual_differences(kind.nodes, kind.indices, dual, b, e)
    position_bars = ti.Matrix([[0.0] * 3 for _ in range(kind.nodes - 1)])
    velocity_bars = ti.Matrix([[0.0] * 3 for _ in range(kind.nodes - 1)])
    parameter_bars = vec3(0.0)
    eta_bar = 0.0
    for point in range(kind.points):
        f = _gradient_of(kind.nodes, kind.rest, position_differences, e, point)
        g = _gradient_of(kind.nodes, kind.rest, dual_differences, e, point)
        minus_volume = -kind.rest[e, point, 3 * kind.nodes - 3]
        dp, parameter_derivatives = _stress_differential_of(
            arrays, solid, f, _rotation_of(arrays, solid, f), g, mu, lam, actuation
        )
        if ti.static(arrays.features.with_damping):
            f_rate = _gradient_of(kind.nodes, kind.rest, velocity_differences, e, point)
            strain_rate = symmetric_product(f, f_rate)
            strain_dual = symmetric_product(f, g)
            dp += eta * (f_rate @ strain_dual + g @ strain_rate)
            _add_stress_forces(kind.nodes, kind.rest, (minus_volume * eta) * (f @ strain_dual), e, point, velocity_bars)
            eta_bar += minus_volume * inner(strain_rate, strain_dual)
        _add_stress_forces(kind.nodes, kind.rest, minus_volume * dp, e, point, position_bars)
        parameter_bars += minus_volume * parameter_derivatives
    add_bar(bars.solid_material, b, solid, 0, parameter_bars.x)
    add_bar(bars.solid_material, b, solid, 1, parameter_bars.y)
    add_bar(bars.solid_material, b, solid, 2, eta_bar)
    add_bar(bars.solid_actuation, b, frame, solid, parameter_bars.z)
    _scatter(kind.nodes, kind.indices, arrays.gather, out, b, e, first_slot, PARTICLE.position, position_bars)
    if ti.static(arrays.features.with_damping):
        _scatter(kind.nodes, kind.indices, arrays.gather, out, b, e, first_slot, PARTICLE.velocity, velocity_bars)


@ti.func
def solid_energy_of(family: ti.template(), arrays: ti.template(), state: ti.template(), b, row, frame, e, first_solid):
    """Elastic energy [J] of an element; arguments as in ``solid_force``."""
    kind = solid_kind(family, arrays)
    solid = first_solid + e
    mu, lam, _eta, actuation = _material_of(arrays, b, frame, solid)
    position_differences = _node_differences(kind.nodes, kind.indices, state, b, row, e, PARTICLE.position)
    element_energy = 0.0
    for point in range(kind.points):
        f = _gradient_of(kind.nodes, kind.rest, position_differences, e, point)
        volume = kind.rest[e, point, 3 * kind.nodes - 3]
        for energy in ti.static(arrays.features.energies):
            if ti.static(len(arrays.features.energies) == 1):
                element_energy += volume * energy_density(energy, f, mu, lam, actuation)
            else:
                if arrays.solid_energy[solid] == energy:
                    element_energy += volume * energy_density(energy, f, mu, lam, actuation)
    return element_energy


@ti.func
def solid_force_jacobian(
    family: ti.template(), arrays: ti.template(), state: ti.template(), rows: ti.template(), b, row, frame, e, first_solid, rate,
    first_row,
):  # fmt: skip
    """Derivatives of an element's forces by the positions of its nodes, where velocities change with these by ``rate`` [1/s]:
    ``solid_force_adjoint`` of dual fields that are 1 in one component at one node.

    Args:
        family, arrays, state, b, row, frame, e, first_solid: as in ``solid_force``.
        rows: [rows, 3], receives d f_(c, k) / d x_a [N/m] for node c, axis k and node a of the element, in this order.
        first_row: its first row.
    """
    kind = solid_kind(family, arrays)
    solid = first_solid + e
    mu, lam, eta, actuation = _material_of(arrays, b, frame, solid)
    position_differences, velocity_differences = _state_differences(kind, arrays, state, b, row, e)
    for entry in range(3 * kind.nodes * kind.nodes):
        for k in ti.static(range(3)):
            rows[first_row + entry, k] = 0.0
    for point in range(kind.points):
        f = _gradient_of(kind.nodes, kind.rest, position_differences, e, point)
        minus_volume = -kind.rest[e, point, 3 * kind.nodes - 3]
        rotation = _rotation_of(arrays, solid, f)
        f_rate, strain_rate = mat3(0.0), mat3(0.0)
        if ti.static(arrays.features.with_damping):
            f_rate = _gradient_of(kind.nodes, kind.rest, velocity_differences, e, point)
            strain_rate = symmetric_product(f, f_rate)
        for c in range(kind.nodes):
            shape_gradient = _shape_gradient(kind.nodes, kind.rest, e, point, c)
            for k in range(3):
                g = mat3(0.0)
                for i, j in ti.static(ti.ndrange(3, 3)):
                    if i == k:
                        g[i, j] = shape_gradient[j]
                dp, _parameters = _stress_differential_of(arrays, solid, f, rotation, g, mu, lam, actuation)
                if ti.static(arrays.features.with_damping):
                    strain_dual = symmetric_product(f, g)
                    dp += eta * (f_rate @ strain_dual + g @ strain_rate + rate * (f @ strain_dual))
                dp *= minus_volume
                first = first_row + (3 * c + k) * kind.nodes
                first_node_value = vec3(0.0)
                for a in range(kind.nodes - 1):
                    value = dp @ _shape_gradient(kind.nodes, kind.rest, e, point, a + 1)
                    first_node_value -= value
                    for i in ti.static(range(3)):
                        rows[first + a + 1, i] += value[i]
                for i in ti.static(range(3)):
                    rows[first, i] += first_node_value[i]


@ti.func
def _shape_gradient(nodes: ti.template(), rest: ti.template(), e, point, a):
    """Rest gradient of the shape function of node a [1/m]."""
    gradient = vec3(0.0)
    if a > 0:
        for j in ti.static(range(3)):
            gradient[j] = rest[e, point, 3 * (a - 1) + j]
    else:
        for node in range(nodes - 1):
            for j in ti.static(range(3)):
                gradient[j] -= rest[e, point, 3 * node + j]
    return gradient
