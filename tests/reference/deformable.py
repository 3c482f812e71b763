"""Deformable bodies in plain numpy, and linear elasticity in scipy: what the kernels are compared with.

Written from the energies alone. Every elastic force is the derivative of an energy by a complex step of 1e-30, which has no
truncation and no cancellation, so that no stress and no gradient of an angle stands here by hand:

    solids:     Psi(F) per rest volume, F = sum of x_a (outer) grad N_a at Gauss points,
    triangles:  Psi(F) per rest area, F = [f1 f2] 3x2,
    hinges:     2 k (1 - cos((phi - phi_rest) / 2 + a)),   springs:  k (|d| - L0)^2 / 2.

Damping, air, contact, and the step v' = v + dt (f / m + g), x' = x + dt v', are those of ``ti_sim.deformable``, of whose
model and inputs only attributes are read here. Everything is float64 and vectorised over worlds and elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sparse

from tests.reference.contact_law import friction, normal_force
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel

SOLIDS = {"tet": 4, "hex": 8, "tet10": 10}
_STEP = 1e-30
_TET10_EDGES = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))
_HEX_CORNERS = np.array([(-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)])


# --- shape functions ----------------------------------------------------------------------------------------------------


def reference_gradients(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the shape functions in the reference element at its Gauss points, [Q, n, 3], and the weights [Q].

    Args:
        kind: tet, hex (trilinear, on [-1, 1]^3, 2x2x2 points) or tet10 (quadratic, 4 points).
    """
    corner = np.vstack([-np.ones(3), np.eye(3)])  # barycentric coordinates of the tetrahedron
    if kind == "tet":
        return corner[None], np.array([1 / 6])
    if kind == "hex":
        points = np.array(list(product((-1, 1), repeat=3))) / np.sqrt(3)
        x, y, z = np.moveaxis(1 + points[:, None] * _HEX_CORNERS, -1, 0)
        return _HEX_CORNERS * np.stack([y * z, x * z, x * y], -1) / 8, np.ones(8)
    near, far = (5 + 3 * np.sqrt(5)) / 20, (5 - np.sqrt(5)) / 20
    gradients = []
    for barycentric in far + (near - far) * np.eye(4):
        at_corners = (4 * barycentric[:, None] - 1) * corner
        at_edges = [4 * (barycentric[i] * corner[j] + barycentric[j] * corner[i]) for i, j in _TET10_EDGES]
        gradients.append(np.vstack([at_corners, at_edges]))
    return np.array(gradients), np.full(4, 1 / 24)


def rest_gradients(kind: str, rest: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the shape functions with respect to rest positions, [E, Q, n, 3] 1/m, and volumes [E, Q] m3.

    Args:
        kind: tet, hex or tet10.
        rest: [P, 3] m.
        indices: [E, n].
    """
    local, weights = reference_gradients(kind)
    jacobian = np.einsum("eai,qaj->eqij", rest[indices], local)
    return np.einsum("qaj,eqji->eqai", local, np.linalg.inv(jacobian)), weights * np.linalg.det(jacobian)


# --- functions that a complex step goes through ---------------------------------------------------------------------------


def _length(vector: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(vector * vector, -1))


def _angle(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    turn = (x.real * y.imag - y.real * x.imag) / (x.real**2 + y.real**2)
    return np.arctan2(y.real, x.real) + 1j * turn


def _determinant(f: np.ndarray) -> np.ndarray:
    return np.sum(f[..., 0] * np.cross(f[..., 1], f[..., 2]), -1)


def rotation_of(f: np.ndarray) -> np.ndarray:
    """The rotation nearest to real matrices [..., 3, 3], also where their determinant is negative."""
    u, _, vt = np.linalg.svd(f)
    vt = vt.copy()
    vt[..., 2, :] *= np.sign(np.linalg.det(u @ vt))[..., None]
    return u @ vt


def _overlap(f: np.ndarray) -> np.ndarray:
    """R : F with R the nearest rotation; its derivative along dF is R : dF."""
    return np.sum(rotation_of(f.real) * f, (-2, -1))


def _derivative(function: Callable[..., np.ndarray], point: np.ndarray, axes: int, *constants: np.ndarray) -> np.ndarray:
    """Derivative of numbers [...] with respect to ``point`` [..., *axes], by one complex step for each entry of the last axes."""
    shape = point.shape[point.ndim - axes :]
    result = np.empty(point.shape)
    for at in np.ndindex(*shape):
        moved = point.astype(complex)
        moved[(..., *at)] += 1j * _STEP
        result[(..., *at)] = function(moved, *constants).imag / _STEP
    return result


# --- energies -------------------------------------------------------------------------------------------------------------


def solid_density(energy: str, f: np.ndarray, mu: np.ndarray, lam: np.ndarray, actuation: np.ndarray) -> np.ndarray:
    """Elastic energy per rest volume [J/m3] of deformation gradients [..., 3, 3], zero at F = I without actuation.

    Args:
        energy: neo_hookean (stable, with log), corotated or stvk.
        f: deformation gradients, real or complex.
        mu: the energy's own shear constant [Pa], broadcast against ``[...]``.
        lam: the energy's own volume constant [Pa].
        actuation: [1].
    """
    square = np.sum(f * f, (-2, -1))
    if energy == "neo_hookean":
        alpha, volume = 1 + 0.75 * mu / lam + actuation, _determinant(f)
        density = 0.5 * mu * (square - 3) + 0.5 * lam * (volume - alpha) ** 2 - 0.5 * mu * np.log((square + 1) / 4)
        return density - 0.5 * lam * ((1 - alpha) ** 2 - actuation**2)
    if energy == "corotated":
        return mu * (square - 2 * _overlap(f) + 3) + 0.5 * lam * (_determinant(f) - 1 - actuation) ** 2
    strain = 0.5 * (np.swapaxes(f, -1, -2) @ f - np.eye(3))
    trace = np.trace(strain, axis1=-2, axis2=-1)
    return mu * np.sum(strain * strain, (-2, -1)) + 0.5 * lam * (trace - actuation) ** 2


def triangle_density(f: np.ndarray, normal: np.ndarray, mu: np.ndarray, lam: np.ndarray, actuation: np.ndarray) -> np.ndarray:
    """Elastic energy per rest area [J/m2] of deformation gradients [..., 3, 2].

    Args:
        f: columns f1, f2, real or complex.
        normal: [..., 3], a unit normal for 2D bodies, zero for membranes.
        mu: the energy's own shear constant [N/m].
        lam: the energy's own area constant [N/m].
        actuation: [1].
    """
    square = np.sum(f * f, (-2, -1))
    across = np.cross(f[..., 0], f[..., 1])
    flat = np.any(normal != 0, axis=-1)
    area = np.where(flat, np.sum(normal * across, -1), _length(across))
    log = np.log((square + 1) / 3)
    return 0.5 * mu * (square - 2) + 0.5 * lam * (area - 1 - actuation) ** 2 - 2 / 3 * mu * (area - 1) - 0.5 * mu * log


def hinge_angle(corners: np.ndarray) -> np.ndarray:
    """Signed deviation from flat [rad] of hinges [..., 4, 3]: opposite vertices of both faces, start and end of the edge.

    The faces (start, end, first) and (end, start, second) have the normals n1, n2; the angle turns n1 into n2 about the edge.
    """
    first, second, start, end = np.moveaxis(corners, -2, 0)
    edge = end - start
    n1, n2 = np.cross(edge, first - start), np.cross(-edge, second - end)
    sine = np.sum(np.cross(n1, n2) * edge, -1) / _length(edge)
    return _angle(sine, np.sum(n1 * n2, -1))


# --- families -------------------------------------------------------------------------------------------------------------


def _families(model: DeformableModel) -> list[SimpleNamespace]:
    """The kinds of solids that occur: kind, indices, first solid, energies."""
    found, first = [], 0
    energies = model.solid_energy or ("neo_hookean",) * sum(len(getattr(model, f"{kind}_indices")) for kind in SOLIDS)
    for kind in ("tet", "hex", "tet10"):
        indices = np.asarray(getattr(model, f"{kind}_indices"))
        if len(indices):
            of_kind = np.array(energies[first : first + len(indices)])
            found.append(SimpleNamespace(kind=kind, indices=indices, span=slice(first, first + len(indices)), energies=of_kind))
            first += len(indices)
    return found


def _solid(
    model: DeformableModel, inputs: DeformableInputs, family: SimpleNamespace, q: np.ndarray, frame: int
) -> SimpleNamespace:
    """Gradients, volumes, deformation gradients [B, E, Q, 3, 3], and constants [B, E, 1] of one kind of solids."""
    gradients, volumes = rest_gradients(family.kind, np.asarray(model.particle_rest), family.indices)
    material = np.asarray(inputs.solid_material)[:, family.span]
    actuation = np.asarray(inputs.solid_actuation)[:, frame, family.span, None]
    f = np.einsum("beai,eqaj->beqij", q[:, family.indices], gradients)
    mu, lam, damping = np.moveaxis(material[..., None, :], -1, 0)
    return SimpleNamespace(gradients=gradients, volumes=volumes, f=f, constants=(mu, lam, actuation), damping=damping)


def _triangles(model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, frame: int) -> SimpleNamespace:
    """Gradients [T, 3, 2], rest areas, deformation gradients [B, T, 3, 2] and constants of the triangles."""
    indices, rest = np.asarray(model.tri_indices), np.asarray(model.particle_rest)
    a, b = rest[indices[:, 1]] - rest[indices[:, 0]], rest[indices[:, 2]] - rest[indices[:, 0]]
    along = a / _length(a)[:, None]
    across = np.cross(np.cross(a, b), along)
    across /= _length(across)[:, None]
    edges = np.stack([np.stack([np.sum(along * e, -1), np.sum(across * e, -1)], -1) for e in (a, b)], -1)  # columns a, b
    local = np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])
    gradients = np.einsum("ak,tkj->taj", local, np.linalg.inv(edges))
    material, normal = np.asarray(inputs.tri_material), np.asarray(model.tri_normal)
    return SimpleNamespace(
        indices=indices,
        gradients=gradients,
        areas=np.linalg.det(edges) / 2,
        f=np.einsum("btai,taj->btij", q[:, indices], gradients),
        constants=(material[..., 0], material[..., 1], np.asarray(inputs.tri_actuation)[:, frame]),
        normal=normal,
        damping=material[..., 2],
        air=material[..., 3:] * np.all(normal == 0, axis=-1)[:, None],  # flat bodies have none
    )


def _hinges(model: DeformableModel, inputs: DeformableInputs, frame: int) -> SimpleNamespace:
    stiffness, damping, rest = np.moveaxis(np.asarray(inputs.edge_material), -1, 0)
    actuation = np.asarray(inputs.edge_actuation)[:, frame]
    return SimpleNamespace(
        indices=np.asarray(model.edge_indices), stiffness=stiffness, damping=damping, rest=rest, actuation=actuation
    )


def elastic_energy(model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, frame: int = 0) -> np.ndarray:
    """Elastic energy of every world [B], J.

    Args:
        model: elements.
        inputs: numbers of every world.
        q: [B, P, 3] positions, m.
        frame: the frame interval whose actuation applies.
    """
    total = np.zeros(len(q))
    for family in _families(model):
        solid = _solid(model, inputs, family, q, frame)
        for energy in set(family.energies):
            density = solid_density(energy, solid.f, *solid.constants)
            total += np.einsum("beq,eq,e->b", density, solid.volumes, family.energies == energy)
    if len(model.tri_indices):
        sheet = _triangles(model, inputs, q, frame)
        total += triangle_density(sheet.f, sheet.normal, *sheet.constants) @ sheet.areas
    if len(model.edge_indices):
        hinge = _hinges(model, inputs, frame)
        angle = hinge_angle(q[:, hinge.indices]).real
        total += np.sum(2 * hinge.stiffness * (1 - np.cos((angle - hinge.rest) / 2 + hinge.actuation)), -1)
    if len(model.spring_indices):
        stiffness, _, rest = np.moveaxis(np.asarray(inputs.spring_material), -1, 0)
        ends = q[:, np.asarray(model.spring_indices)]
        total += np.sum(0.5 * stiffness * (_length(ends[:, :, 1] - ends[:, :, 0]) - rest) ** 2, -1)
    return total


def _scatter(forces: np.ndarray, indices: np.ndarray, corner_forces: np.ndarray) -> None:
    for world, corners in zip(forces, corner_forces, strict=True):
        np.add.at(world, indices, corners)


def internal_forces(
    model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, qd: np.ndarray, frame: int = 0
) -> np.ndarray:
    """Forces of all elements on the particles [B, P, 3], N: elastic, damping and air; no gravity, contact or load.

    Args:
        model: elements.
        inputs: numbers of every world.
        q: [B, P, 3] positions, m.
        qd: [B, P, 3] velocities, m/s.
        frame: the frame interval whose actuation applies.
    """
    forces = np.zeros(q.shape)
    for family in _families(model):
        solid = _solid(model, inputs, family, q, frame)
        rate = np.einsum("beai,eqaj->beqij", qd[:, family.indices], solid.gradients)
        stress = np.zeros(solid.f.shape)
        for energy in set(family.energies):
            of_energy = (family.energies == energy)[:, None, None, None]
            stress += of_energy * _derivative(partial(solid_density, energy), solid.f, 2, *solid.constants)
        stress += solid.f @ _viscous(solid.f, rate, solid.damping)
        _scatter(forces, family.indices, -np.einsum("beqij,eqaj,eq->beai", stress, solid.gradients, solid.volumes))
    if len(model.tri_indices):
        sheet = _triangles(model, inputs, q, frame)
        rate = np.einsum("btai,taj->btij", qd[:, sheet.indices], sheet.gradients)
        stress = _derivative(triangle_density, sheet.f, 2, sheet.normal, *sheet.constants)
        stress += sheet.f @ _viscous(sheet.f, rate, sheet.damping)
        corners = -np.einsum("btij,taj,t->btai", stress, sheet.gradients, sheet.areas)
        air = _air(q[:, sheet.indices], qd[:, sheet.indices], np.asarray(inputs.wind)[:, None], sheet.air)
        _scatter(forces, sheet.indices, corners + air[:, :, None] / 3)
    if len(model.edge_indices):
        hinge = _hinges(model, inputs, frame)
        corners = q[:, hinge.indices]
        lever = _derivative(hinge_angle, corners, 2)
        rate = np.sum(lever * qd[:, hinge.indices], (-2, -1))
        moment = hinge.stiffness * np.sin((hinge_angle(corners).real - hinge.rest) / 2 + hinge.actuation) + hinge.damping * rate
        _scatter(forces, hinge.indices, -moment[..., None, None] * lever)
    if len(model.spring_indices):
        indices = np.asarray(model.spring_indices)
        stiffness, damping, rest = np.moveaxis(np.asarray(inputs.spring_material), -1, 0)
        d = q[:, indices[:, 1]] - q[:, indices[:, 0]]
        length = _length(d)
        along = d / length[..., None]
        closing = np.sum(along * (qd[:, indices[:, 1]] - qd[:, indices[:, 0]]), -1)
        pull = (stiffness * (length - rest) + damping * closing)[..., None] * along
        _scatter(forces, indices, np.stack([pull, -pull], 2))
    return forces


def _viscous(f: np.ndarray, rate: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """Second Piola stress eta sym(F^T dF/dt)."""
    inner = np.swapaxes(f, -1, -2) @ rate
    return 0.5 * damping[..., None, None] * (inner + np.swapaxes(inner, -1, -2))


def _air(corners: np.ndarray, velocities: np.ndarray, wind: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Drag and lift of triangles [B, T, 3, 3] with [..., (c_d, c_l)], [B, T, 3] N."""
    across = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0])
    area = _length(across) / 2
    n = across / (2 * area[..., None])
    u = velocities.mean(2) - wind
    speed = _length(u)
    through = np.sum(n * u, -1)
    lifted = speed[..., None] * n - (through / np.where(speed > 0, speed, 1.0))[..., None] * u
    drag = -coefficients[..., 0] * area * np.abs(through)
    return drag[..., None] * u - (coefficients[..., 1] * area * through)[..., None] * lifted


def contact_forces(model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, qd: np.ndarray, dt: float) -> np.ndarray:
    """Forces of the ground on the particles that touch it, [B, P, 3] N.

    Args:
        model: contact particles and height of the ground.
        inputs: numbers of every world.
        q: [B, P, 3] positions, m.
        qd: [B, P, 3] velocities, m/s.
        dt: the step over which the force is averaged [s].
    """
    forces, touching = np.zeros(q.shape), np.asarray(model.contact, dtype=int)
    ke, kd, kf, mu = np.moveaxis(np.asarray(inputs.particle_contact)[:, touching], -1, 0)
    depth, u = model.ground_height - q[:, touching, 2], qd[:, touching]
    normal, _fraction = normal_force(depth, u[..., 2], ke, kd, dt)
    drag, _slips = friction(_length(u[..., :2]), depth, u[..., 2], (ke, kd, kf, mu), dt)
    forces[:, touching] = np.concatenate([-drag[..., None] * u[..., :2], normal[..., None]], -1)
    return forces


def step(
    model: DeformableModel,
    inputs: DeformableInputs,
    q: np.ndarray,
    qd: np.ndarray,
    dt: float,
    frame: int = 0,
    *,
    other_forces: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """One step of semi-implicit Euler: positions and velocities afterwards.

    Args:
        model: elements, fixed, prescribed and loaded particles.
        inputs: numbers of every world.
        q: [B, P, 3] positions, m.
        qd: [B, P, 3] velocities, m/s.
        dt: s.
        frame: the frame interval whose actuation, load and prescribed velocities apply.
        other_forces: [B, P, 3] of what else acts, N.
    """
    forces = internal_forces(model, inputs, q, qd, frame) + contact_forces(model, inputs, q, qd, dt) + other_forces
    for world, load in zip(forces, np.asarray(inputs.load)[:, frame], strict=True):
        np.add.at(world, np.asarray(model.loaded, dtype=int), load)
    mass = np.asarray(inputs.particle_mass)[..., None]
    velocity = qd + dt * (forces / mass + np.asarray(inputs.gravity)[:, None])
    velocity[:, np.asarray(model.fixed, dtype=int)] = 0.0
    velocity[:, np.asarray(model.prescribed, dtype=int)] = np.asarray(inputs.prescribed_qd)[:, frame]
    return q + dt * velocity, velocity


# --- linear elasticity ------------------------------------------------------------------------------------------------------


def linear_stiffness(kind: str, vertices: np.ndarray, indices: np.ndarray, *, young: float, poisson: float) -> sparse.csc_array:
    """Stiffness matrix of small-strain linear elasticity [3 V, 3 V], N/m, freedoms in the order x, y, z of each vertex.

    Args:
        kind: tet, hex or tet10.
        vertices: [V, 3] m.
        indices: [E, n].
        young: E [Pa].
        poisson: nu [1].
    """
    mu, lam = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    law = np.diag([2 * mu] * 3 + [mu] * 3)
    law[:3, :3] += lam
    gradients, volumes = rest_gradients(kind, vertices, indices)
    x, y, z = np.moveaxis(gradients, -1, 0)
    none = np.zeros(x.shape)
    rows = [[x, none, none], [none, y, none], [none, none, z], [y, x, none], [none, z, y], [z, none, x]]
    strain = np.stack([np.stack(row, -1).reshape(*x.shape[:2], -1) for row in rows], -2)  # [E, Q, 6, 3 n]
    blocks = np.einsum("eqia,ij,eqjb,eq->eab", strain, law, strain, volumes, optimize=True)
    freedoms = (3 * indices[:, :, None] + np.arange(3)).reshape(len(indices), -1)
    at = np.broadcast_to(freedoms[:, :, None], blocks.shape), np.broadcast_to(freedoms[:, None], blocks.shape)
    size = 3 * len(vertices)
    return sparse.coo_array((blocks.ravel(), (at[0].ravel(), at[1].ravel())), shape=(size, size)).tocsc()
