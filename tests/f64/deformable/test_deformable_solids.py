"""Solid elements: energies at a point, rest tables, and forces with their adjoints, for every kind of element and energy."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ti_sim.base.errors import UserError
from ti_sim.base.gradcheck import gradcheck
from ti_sim.base.runtime import ti, without_subexpression_elimination
from ti_sim.base.vecmath import mat3
from ti_sim.deformable.energies import energy_density, nearest_rotation, rotation_for, stress, stress_differential
from ti_sim.deformable.families import Features
from ti_sim.deformable.model import ENERGIES
from ti_sim.deformable.solids import (
    corner_volumes,
    energy_constants,
    lame_from_young,
    rest_table,
    solid_energy_of,
    solid_force,
    solid_force_adjoint,
)

KINDS = ("tet", "hex", "tet10")
ALL = tuple(range(len(ENERGIES)))
CUBE = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)], dtype=float)
# A cube cut along a diagonal, so that neighbouring cubes fit.
SIX_TETS = np.array([(0, 1, 2, 6), (0, 2, 3, 6), (0, 3, 7, 6), (0, 7, 4, 6), (0, 4, 5, 6), (0, 5, 1, 6)])
MID_EDGES = np.array([(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)])
# Singular values of deformation gradients: ordinary, compressed, stretched, flat, inverted.
STRETCHES = [
    (1.3, 0.9, 0.7), (1.02, 1.01, 0.98), (0.4, 0.3, 0.2), (3.0, 0.6, 0.2), (1.2, 0.8, 0.0), (1.5, 0.9, -0.4), (0.7, 0.6, -0.1),
]  # fmt: skip


@ti.kernel
def at_points(
    energy: ti.template(), f: ti.types.ndarray(), g: ti.types.ndarray(), constants: ti.types.ndarray(),
    psi: ti.types.ndarray(), p: ti.types.ndarray(), dp: ti.types.ndarray(), parameters: ti.types.ndarray(),
):  # fmt: skip
    """Functions of an energy at N points [N, 3, 3] in directions g with (mu, lambda, a) [N, 3]."""
    for n in range(f.shape[0]):
        fn, gn = load(f, n), load(g, n)
        mu, lam, a = constants[n, 0], constants[n, 1], constants[n, 2]
        psi[n] = energy_density(energy, fn, mu, lam, a)
        store(p, n, stress(energy, fn, mu, lam, a))
        change, parameter = stress_differential(energy, fn, rotation_for(energy, fn), gn, mu, lam, a)
        store(dp, n, change)
        for i in ti.static(range(3)):
            parameters[n, i] = parameter[i]


@ti.kernel
def rotations_at_points(f: ti.types.ndarray(), rotation: ti.types.ndarray()):
    """``nearest_rotation`` of matrices [N, 3, 3]."""
    for n in range(f.shape[0]):
        store(rotation, n, nearest_rotation(load(f, n)))


@ti.func
def load(array: ti.template(), n):
    """Matrix n."""
    return mat3([[array[n, i, j] for j in ti.static(range(3))] for i in ti.static(range(3))])


@ti.func
def store(array: ti.template(), n, matrix):
    """Write matrix n."""
    for i, j in ti.static(ti.ndrange(3, 3)):
        array[n, i, j] = matrix[i, j]


def points(f: np.ndarray, g: np.ndarray | None = None, constants: Any = (1.7, 2.3, 0.1)) -> dict[str, np.ndarray]:
    """psi [N, 3 energies], p and dp [N, 3, 3, 3], derivatives of <P, G> [N, 3, 3]."""
    n = len(f)
    g = np.ascontiguousarray(np.zeros_like(f) if g is None else g)
    constants = np.ascontiguousarray(np.broadcast_to(np.array(constants, dtype=float), (n, 3)))
    shapes = {"psi": (n,), "p": (n, 3, 3), "dp": (n, 3, 3), "parameters": (n, 3)}
    found: dict[str, list] = {name: [] for name in shapes}
    for energy in ALL:
        arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        without_subexpression_elimination(at_points)(energy, np.ascontiguousarray(f), g, constants, *arrays.values())
        for name, array in arrays.items():
            found[name].append(array)
    return {name: np.stack(each, axis=1) for name, each in found.items()}


def nearest_rotations(f: np.ndarray) -> np.ndarray:
    """Rotations next to matrices [N, 3, 3]."""
    rotation = np.zeros_like(f)
    without_subexpression_elimination(rotations_at_points)(np.ascontiguousarray(f), rotation)
    return rotation


def rotations(count: int, seed: int = 0) -> np.ndarray:
    """Random rotations."""
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((count, 3, 3)))[0]
    return q * np.linalg.det(q)[:, None, None]


def gradients(stretches: list = STRETCHES, seed: int = 0) -> np.ndarray:
    """Deformation gradients of these singular values between random rotations."""
    u, v = rotations(len(stretches), seed), rotations(len(stretches), seed + 1)
    return u @ (np.array(stretches, dtype=float)[..., None] * v)


def central(function: Any, step: float) -> np.ndarray:
    """Derivative at 0 by a difference of the fourth order."""
    return (8 * (function(step) - function(-step)) - (function(2 * step) - function(-2 * step))) / (12 * step)


def test_stress_is_the_derivative_of_the_energy() -> None:
    f = gradients()
    p = points(f)["p"]
    for i, j in itertools.product(range(3), range(3)):
        unit = np.zeros((3, 3))
        unit[i, j] = 1
        difference = central(lambda h, unit=unit: points(f + h * unit)["psi"], 1e-3)
        np.testing.assert_allclose(p[..., i, j], difference, rtol=1e-8, atol=1e-8)


def test_differential_of_the_stress_and_of_its_parameters() -> None:
    f = gradients()
    a, b = np.random.default_rng(5).standard_normal((2, *f.shape))
    found = points(f, a)
    difference = central(lambda h: points(f + h * a)["p"], 3e-4)
    np.testing.assert_allclose(found["dp"], difference, rtol=1e-7, atol=1e-7)
    # Symmetric: <dP(A), B> = <dP(B), A>.
    one, other = np.einsum("neij,nij->ne", found["dp"], b), np.einsum("neij,nij->ne", points(f, b)["dp"], a)
    np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    for k in range(3):
        shift = 1e-2 * np.eye(3)[k]
        constants = np.array((1.7, 2.3, 0.1))
        higher, lower = (points(f, constants=constants + sign * shift)["p"] for sign in (1, -1))
        np.testing.assert_allclose(
            found["parameters"][..., k], np.einsum("neij,nij->ne", higher - lower, a) / 2e-2, rtol=1e-9, atol=1e-10
        )


def test_energies_vanish_at_rest_and_feel_no_rotation() -> None:
    f, r = gradients(), rotations(len(STRETCHES), 8)
    np.testing.assert_allclose(points(r, constants=(1.7, 2.3, 0))["psi"], 0, atol=1e-13)
    np.testing.assert_allclose(points(r, constants=(1.7, 2.3, 0))["p"], 0, atol=1e-13)
    before, after = points(f), points(r @ f)
    np.testing.assert_allclose(after["psi"], before["psi"], rtol=1e-12)
    np.testing.assert_allclose(after["p"], np.einsum("nij,nejk->neik", r, before["p"]), rtol=1e-10, atol=1e-12)


def test_nearest_rotation_of_any_matrix() -> None:
    rest = [np.eye(3), np.diag([1.0, -1, -1]), np.diag([-1.0, -1, 1]), 1e-6 * gradients()[0], 1e6 * gradients()[5]]
    f = np.concatenate([gradients(STRETCHES * 20, seed=3), rest])
    u, s, v = np.linalg.svd(f)
    u[:, :, 2] *= np.linalg.det(u @ v)[:, None]
    np.testing.assert_allclose(nearest_rotations(f), u @ v, atol=1e-12)
    assert s.min() < 1e-6
    # Where no rotation is the nearest one, some rotation comes back.
    odd = np.concatenate([np.zeros((1, 3, 3)), gradients([(1, 0, 0), (1, 0.5, -0.5), (1, 1, -1), (-1, -1, -1)])])
    found = nearest_rotations(odd)
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), np.tile(np.eye(3), (5, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(found), 1, atol=1e-12)
    assert np.abs(points(odd, rotations(5))["dp"]).max() < 1e7


@pytest.mark.parametrize("energy", ENERGIES)
def test_small_strains_are_linear_elasticity(energy: str) -> None:
    mu, lam = lame_from_young(3e4, 0.3)
    g = np.random.default_rng(1).standard_normal((1, 3, 3))
    dp = points(np.eye(3)[None], g, constants=(*energy_constants(energy, mu, lam), 0))["dp"][0, ENERGIES.index(energy)]
    np.testing.assert_allclose(dp, mu * (g[0] + g[0].T) + lam * np.trace(g[0]) * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(mu * (3 * lam + 2 * mu) / (lam + mu), 3e4, rtol=1e-12)  # Young's modulus
    array = energy_constants(energy, np.array([mu]), np.array([lam]))
    assert (array[0][0], array[1][0]) == energy_constants(energy, mu, lam)


def test_an_unknown_energy_is_refused() -> None:
    with pytest.raises(UserError, match="'hooke' is unknown: choose one of neo_hookean, corotated, stvk"):
        energy_constants("hooke", 1.0, 1.0)


@dataclass(frozen=True)
class Body:
    """What the element functions read."""

    tet_indices: Any
    hex_indices: Any
    tet10_indices: Any
    tet_rest: Any
    hex_rest: Any
    tet10_rest: Any
    solid_material: Any
    solid_actuation: Any
    solid_energy: Any
    features: Features
    gather: Any
    _data_oriented = True


@dataclass(frozen=True)
class Bars:
    """What the adjoints add to."""

    solid_material: Any
    solid_actuation: Any
    _data_oriented = True


def bundle(indices: Any, rest: Any, *others: Any, energies: Any, with_damping: bool, gather: Any) -> Body:
    """``Body`` with elements of one kind."""
    return Body(indices, indices, indices, rest, rest, rest, *others, Features((), energies, with_damping, False), gather)


def bar_bundle(*arguments: Any) -> Bars:
    """``Bars`` of a kernel's arguments."""
    return Bars(*arguments)


bundle._is_wrapped_kernel = bar_bundle._is_wrapped_kernel = True


@ti.kernel
def force_kernel(
    kind: ti.template(), energies: ti.template(), with_damping: ti.template(), gather: ti.template(),
    indices: ti.types.ndarray(), rest: ti.types.ndarray(), material: ti.types.ndarray(), actuation: ti.types.ndarray(),
    energy: ti.types.ndarray(), state: ti.types.ndarray(), out: ti.types.ndarray(), total: ti.types.ndarray(), frame: int,
):  # fmt: skip
    """Forces and energy of all elements."""
    ti.loop_config(serialize=True)
    for b in range(state.shape[0]):
        body = bundle(
            indices, rest, material, actuation, energy, energies=energies, with_damping=with_damping, gather=gather
        )
        for e in range(indices.shape[0]):
            solid_force(kind, body, state, out, b, 1, frame, e, 1, 2)
            total[b] = total[b] + solid_energy_of(kind, body, state, b, 1, frame, e, 1)


@ti.kernel
def adjoint_kernel(
    kind: ti.template(), energies: ti.template(), gather: ti.template(), indices: ti.types.ndarray(), rest: ti.types.ndarray(),
    material: ti.types.ndarray(), actuation: ti.types.ndarray(), energy: ti.types.ndarray(), state: ti.types.ndarray(),
    dual: ti.types.ndarray(), out: ti.types.ndarray(), material_bar: ti.types.ndarray(), actuation_bar: ti.types.ndarray(),
    frame: int,
):  # fmt: skip
    """Adjoint of all elements' forces."""
    ti.loop_config(serialize=True)
    for b in range(state.shape[0]):
        body = bundle(indices, rest, material, actuation, energy, energies=energies, with_damping=True, gather=gather)
        bars = bar_bundle(material_bar, actuation_bar)
        for e in range(indices.shape[0]):
            solid_force_adjoint(kind, body, bars, state, dual, out, b, 1, frame, e, 1, 2)


def mesh(kind: str, cells: int = 2, distortion: float = 0.12, curved: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Particles and elements of a unit cube with corners moved at random, edges straight unless ``curved``."""
    m = cells + 1
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    starts = np.array(list(itertools.product(range(cells), repeat=3)))
    indices = (starts[:, None] + CUBE.astype(int)) @ [m * m, m, 1]
    vertices = grid / cells + np.random.default_rng(2).uniform(-distortion, distortion, grid.shape) / cells
    if kind != "hex":
        indices = indices[:, SIX_TETS].reshape(-1, 4)
    if kind == "tet10":
        edges, places = np.unique(np.sort(indices[:, MID_EDGES].reshape(-1, 2), axis=1), axis=0, return_inverse=True)
        indices = np.concatenate([indices, len(vertices) + places.reshape(-1, 6)], axis=1)
        vertices = np.concatenate([vertices, vertices[edges].mean(axis=1)])
        if curved:
            vertices += np.random.default_rng(3).uniform(-distortion, distortion, vertices.shape) / (4 * cells)
    return vertices, indices.astype(np.int32)


@dataclass
class Case:
    """A mesh in B = 2 worlds; solid 0 and slots 0 and 1 belong to others, row 0 of the state and frame 0 to another time."""

    kind: str
    cells: int = 1
    energies: tuple[int, ...] = ALL
    gather: bool = False

    def __post_init__(self) -> None:
        self.vertices, self.indices = mesh(self.kind, self.cells, curved=self.cells == 1)
        self.rest = rest_table(self.kind, self.vertices, self.indices)
        count, generator = len(self.indices) + 1, np.random.default_rng(4)
        self.energy = np.resize(np.array(self.energies, dtype=np.int32), count)
        self.material = generator.uniform(1, 2, (2, count, 3))
        self.actuation = generator.uniform(-0.1, 0.1, (2, 2, count))
        self.state = np.zeros((2, 2, len(self.vertices), 6))
        self.state[:, 1, :, :3] = self.vertices + generator.uniform(-0.15, 0.15, (2, *self.vertices.shape)) / self.cells
        self.state[:, 1, :, 3:] = generator.standard_normal((2, *self.vertices.shape))
        self.dual = generator.standard_normal((2, *self.vertices.shape))

    def place(self, position: np.ndarray, velocity: np.ndarray | float = 0.0) -> None:
        """Put all worlds in this state."""
        self.state[:, 1, :, :3], self.state[:, 1, :, 3:] = position, velocity

    def force(self, with_damping: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Forces [2, P, 3] and energies [2]."""
        out, total = self.empty(3), np.zeros(2)
        without_subexpression_elimination(force_kernel)(
            self.kind, self.energies, with_damping, self.gather, self.indices, self.rest, self.material, self.actuation,
            self.energy, self.state, out, total, 1,
        )  # fmt: skip
        return self.summed(out), total

    def adjoint(self, start: float = 0.0) -> dict[str, np.ndarray]:
        """Adjoints of state, material and actuation, added to ``start`` for the last two."""
        out, bars = self.empty(6), {"material": 0 * self.material + start, "actuation": 0 * self.actuation + start}
        without_subexpression_elimination(adjoint_kernel)(
            self.kind, self.energies, self.gather, self.indices, self.rest, self.material, self.actuation, self.energy,
            self.state, self.dual, out, bars["material"], bars["actuation"], 1,
        )  # fmt: skip
        return {"state": self.summed(out), **bars}

    def empty(self, columns: int) -> np.ndarray:
        """Where elements add to particles, or write in slots."""
        if self.gather:
            return np.full((2, 2 + self.indices.size, columns), np.nan)
        return np.zeros((2, len(self.vertices), columns))

    def summed(self, out: np.ndarray) -> np.ndarray:
        """What the particles get."""
        if not self.gather:
            return out
        assert np.isnan(out[:, :2]).all()
        total = np.zeros((2, len(self.vertices), out.shape[-1]))
        np.add.at(total, (slice(None), self.indices.ravel()), out[:, 2:])
        return total


@pytest.mark.parametrize("kind", KINDS)
def test_forces_are_minus_the_derivative_of_the_energy(kind: str) -> None:
    case = Case(kind)
    case.material[..., 2] = 0
    start, force = case.state.copy(), case.force()[0]

    def energy(h: float) -> np.ndarray:
        case.state = start.copy()
        case.state[:, 1, :, :3] += h * case.dual
        return case.force()[1]

    np.testing.assert_allclose(-(force * case.dual).sum(axis=(1, 2)), central(energy, 1e-3), rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_rigid_motion_gives_no_force(kind: str) -> None:
    case = Case(kind)
    case.actuation[:] = 0
    spin = np.array([0.4, -1.2, 0.7])
    for seed in range(3):
        position = case.vertices @ rotations(1, seed)[0].T + [0.3, -2.0, 1.0]
        case.place(position, np.cross(spin, position) + [1.0, 0.0, -1.0])
        forces, energy = case.force()
        np.testing.assert_allclose(forces, 0, atol=1e-13)
        np.testing.assert_allclose(energy, 0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_damping_takes_energy_and_keeps_momentum(kind: str) -> None:
    case = Case(kind)
    elastic = case.force(with_damping=True)[0]
    case.material[..., 2] *= 2
    viscous = case.force()[0] - elastic
    position, velocity = case.state[:, 1, :, :3], case.state[:, 1, :, 3:]
    assert ((viscous * velocity).sum(axis=(1, 2)) < 0).all()
    for force in (elastic, viscous):
        np.testing.assert_allclose(force.sum(axis=1), 0, atol=1e-13)
        np.testing.assert_allclose(np.cross(position, force).sum(axis=1), 0, atol=1e-13)


@pytest.mark.parametrize(("kind", "energy"), list(itertools.product(KINDS, ALL)))
def test_a_linear_displacement_of_a_distorted_mesh_is_a_uniform_stress(kind: str, energy: int) -> None:
    case = Case(kind, cells=2)
    case.energy[:], case.actuation[:], case.material[:] = energy, 0.1, (1.7, 2.3, 0.0)
    f = gradients()[0]
    case.place(case.vertices @ f.T)
    force, total = case.force()
    at = points(f[None])
    volume = case.rest[..., -1].sum()
    inner_nodes = np.all((case.vertices > 0.2) & (case.vertices < 0.8), axis=1)
    assert inner_nodes.any()
    np.testing.assert_allclose(force[:, inner_nodes], 0, atol=1e-13)
    np.testing.assert_allclose(force[0].T @ case.vertices, -volume * at["p"][0, energy], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(total, volume * at["psi"][0, energy], rtol=1e-11)


@pytest.mark.parametrize(("kind", "energy"), list(itertools.product(KINDS, ALL)))
def test_adjoint_against_central_differences(kind: str, energy: int) -> None:
    case = Case(kind)
    case.energy[:] = energy
    point = {"position": case.state[:, 1, :, :3].copy(), "velocity": case.state[:, 1, :, 3:].copy()}
    point |= {"material": case.material, "actuation": case.actuation}

    def loss(values: dict[str, np.ndarray]) -> float:
        case.place(values["position"], values["velocity"])
        case.material, case.actuation = values["material"], values["actuation"]
        return float((case.force()[0] * case.dual).sum())

    def loss_and_gradient(values: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        value, bars = loss(values), case.adjoint()
        state = bars.pop("state")
        return value, bars | {"position": state[..., :3], "velocity": state[..., 3:]}

    report = gradcheck(loss_and_gradient, point, step=1e-3, rtol=1e-8, floor=1e-9, max_entries=30, min_observable=60, loss=loss)
    report.raise_if_wrong()


def test_slots_one_energy_and_no_damping_give_the_same() -> None:
    """Kernels compiled for less, and with a slot for each corner, against those that add to particles."""
    plain, slots = Case("tet"), Case("tet", energies=(1,), gather=True)
    plain.energy[:] = 1
    for name, expected in plain.adjoint().items():
        found = slots.adjoint(start=1.0)[name] - (name != "state")
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    for case in (plain, slots):
        case.material[..., 2] = 0
    for found, expected in zip(slots.force(with_damping=False), plain.force(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_volumes_and_lumped_volumes(kind: str) -> None:
    vertices, indices = mesh(kind, cells=2, distortion=0)
    rest = rest_table(kind, vertices, indices)
    lumped = corner_volumes(kind, rest)
    assert rest.shape == (len(indices), {"tet": 1, "hex": 8, "tet10": 4}[kind], 3 * indices.shape[1] - 2)
    np.testing.assert_allclose(rest[..., -1].sum(), 1, rtol=1e-13)
    np.testing.assert_allclose(lumped.sum(axis=1), rest[..., -1].sum(axis=1), rtol=1e-13)
    assert rest_table(kind, vertices, indices[:0]).shape == (0, *rest.shape[1:])
    share = {"tet": [1 / 4] * 4, "hex": [1 / 8] * 8, "tet10": [1 / 36] * 4 + [4 / 27] * 6}[kind]
    np.testing.assert_allclose(lumped[0] / lumped[0].sum(), share, rtol=1e-13)
    # Rest gradients reproduce linear fields: those of x_a - x_0 is the identity.
    arms = (vertices[indices] - vertices[indices[:, :1]])[:, 1:]
    slopes = rest[..., :-1].reshape(*rest.shape[:2], -1, 3)
    identity = np.broadcast_to(np.eye(3), (*rest.shape[:2], 3, 3))
    np.testing.assert_allclose(np.einsum("eai,eqaj->eqij", arms, slopes), identity, atol=1e-12)


def test_volumes_of_a_distorted_hexahedron() -> None:
    """A frustum of a pyramid: the lower nodes stand for more of it."""
    vertices = CUBE * [2, 2, 1] - [1, 1, 0]
    vertices[4:, :2] /= 2
    rest = rest_table("hex", vertices, np.arange(8)[None])
    np.testing.assert_allclose(rest[..., -1].sum(), (4 + 1 + 2) / 3, rtol=1e-13)
    lumped = corner_volumes("hex", rest)[0]
    # Integral over z of (1 - z) (2 - z)^2 / 4 for a lower one.
    np.testing.assert_allclose(lumped, [17 / 48] * 4 + [11 / 48] * 4, rtol=1e-13)


def test_inverted_and_flat_elements_are_refused() -> None:
    vertices, indices = mesh("tet", cells=1, distortion=0)
    swapped = indices.copy()
    swapped[3, :2] = swapped[3, 1::-1]
    with pytest.raises(UserError, match="tet element 3 is inverted at rest: give distinct nodes in the order"):
        rest_table("tet", vertices, swapped)
    swapped[1, :2] = swapped[1, 1::-1]
    with pytest.raises(UserError, match=r"tetrahedron 1 of 'paw' is inverted at rest \(and 1 more\)"):
        rest_table("tet", vertices, swapped, element_name=lambda element: f"tetrahedron {element} of 'paw'")
    with pytest.raises(UserError, match="tet element 0 is flat at rest"):
        rest_table("tet", vertices * [1, 1, 0], indices)
    dented = CUBE.copy()
    dented[6] = 0.3  # the corner passes the plane of its neighbours, the quadrature points are still sound
    with pytest.raises(UserError, match="hex element 0 is inverted at rest"):
        rest_table("hex", dented, np.arange(8)[None])
    vertices, indices = mesh("tet10", cells=1, distortion=0)
    vertices[indices[2, 4]] = 1.2 * vertices[indices[2, 0]] - 0.2 * vertices[indices[2, 1]]
    with pytest.raises(UserError, match="tet10 element [0-9] is inverted at rest"):
        rest_table("tet10", vertices, indices)
