"""Membranes, plane bodies, air, bending and springs: forces, energies, adjoints, and the constants that make them materials."""

from typing import Any

import numpy as np
import pytest

from ti_sim.base.bundles import Array, Static, bundle, kernel
from ti_sim.base.errors import UserError
from ti_sim.base.gradcheck import gradcheck
from ti_sim.base.runtime import ti, without_cfg_optimisation
from ti_sim.deformable.bending import (
    bending_edges,
    bending_energy_of,
    bending_force,
    bending_force_adjoint,
    edge_stiffness,
    plate_rigidity,
    rest_angles,
)
from ti_sim.deformable.families import Features
from ti_sim.deformable.springs import spring_energy_of, spring_force, spring_force_adjoint
from ti_sim.deformable.triangles import (
    membrane_constants,
    plane_strain_constants,
    triangle_areas,
    triangle_energy_of,
    triangle_force,
    triangle_force_adjoint,
    triangle_rest_table,
)

Arrays = dict[str, np.ndarray]

FEATURES = Features(families=("triangle", "edge", "spring"), energies=(), with_damping=True, with_air=True)
INPUTS = ("tri_material", "tri_actuation", "edge_material", "edge_actuation", "spring_material", "wind")
ROW, FRAME = 1, 1  # of two, so that a wrong one is seen


@bundle
class ShellArrays:
    """What the functions of triangles, edges and springs read."""

    gather: Static
    tri_indices: Array
    edge_indices: Array
    spring_indices: Array
    tri_rest: Array
    tri_material: Array
    tri_actuation: Array
    edge_material: Array
    edge_actuation: Array
    spring_material: Array
    wind: Array
    features: Static = FEATURES


@bundle
class ShellBars:
    """Adjoints of ``INPUTS``."""

    tri_material: Array
    tri_actuation: Array
    edge_material: Array
    edge_actuation: Array
    spring_material: Array
    wind: Array


@kernel
def force_kernel(state: ti.types.ndarray(), out: ti.types.ndarray(), body: ShellArrays):
    for b in range(state.shape[0]):
        for e in range(body.tri_indices.shape[0]):
            triangle_force(body, state, out, b, ROW, FRAME, e, 0)
        for e in range(body.edge_indices.shape[0]):
            bending_force(body, state, out, b, ROW, FRAME, e, 3 * body.tri_indices.shape[0])
        for e in range(body.spring_indices.shape[0]):
            first = 3 * body.tri_indices.shape[0] + 4 * body.edge_indices.shape[0]
            spring_force(body, state, out, b, ROW, FRAME, e, first)


@kernel
def adjoint_kernel(
    state: ti.types.ndarray(), dual: ti.types.ndarray(), out: ti.types.ndarray(), body: ShellArrays, bars: ShellBars
):
    for b in range(state.shape[0]):
        for e in range(body.tri_indices.shape[0]):
            triangle_force_adjoint(body, bars, state, dual, out, b, ROW, FRAME, e, 0)
        for e in range(body.edge_indices.shape[0]):
            bending_force_adjoint(body, bars, state, dual, out, b, ROW, FRAME, e, 3 * body.tri_indices.shape[0])
        for e in range(body.spring_indices.shape[0]):
            first = 3 * body.tri_indices.shape[0] + 4 * body.edge_indices.shape[0]
            spring_force_adjoint(body, bars, state, dual, out, b, ROW, FRAME, e, first)


@kernel
def energy_kernel(state: ti.types.ndarray(), out: ti.types.ndarray(), body: ShellArrays):
    for b in range(state.shape[0]):
        energy = 0.0
        for e in range(body.tri_indices.shape[0]):
            energy += triangle_energy_of(body, state, b, ROW, FRAME, e)
        for e in range(body.edge_indices.shape[0]):
            energy += bending_energy_of(body, state, b, ROW, FRAME, e)
        for e in range(body.spring_indices.shape[0]):
            energy += spring_energy_of(body, state, b, ROW, FRAME, e)
        out[b] = energy


class Shell:
    """A mesh of triangles, edges and springs, and what can be asked of it."""

    def __init__(self, rest: Any, triangles: Any = (), *, normals: Any = None, edges: Any = (), springs: Any = ()) -> None:
        self.rest = np.asarray(rest, dtype=np.float64)
        self.triangles = np.asarray(triangles, dtype=np.int32).reshape(-1, 3)
        self.edges = np.asarray(edges, dtype=np.int32).reshape(-1, 4)
        self.springs = np.asarray(springs, dtype=np.int32).reshape(-1, 2)
        normals = np.zeros((len(self.triangles), 3)) if normals is None else np.asarray(normals, dtype=np.float64)
        self.table = triangle_rest_table(self.rest, self.triangles, normals)
        corners = np.concatenate([self.triangles.ravel(), self.edges.ravel(), self.springs.ravel()])
        self.corners = corners.astype(np.int64)

    def point(self, q: Any, qd: Any = None, **inputs: Any) -> Arrays:
        """Numbers of the worlds at positions q [B, P, 3] (or [P, 3]): zeros, but for the inputs that are given."""
        q = np.array(np.broadcast_to(q, (1, *np.shape(q))) if np.ndim(q) == 2 else q, dtype=np.float64)
        worlds = len(q)
        point = {"q": q, "qd": np.zeros_like(q), "wind": np.zeros((worlds, 3))}
        for name, count, columns in (("tri", self.triangles, 5), ("edge", self.edges, 3), ("spring", self.springs, 3)):
            point[f"{name}_material"] = np.zeros((worlds, len(count), columns))
            point[f"{name}_actuation"] = np.zeros((worlds, 2, len(count)))
        del point["spring_actuation"]
        for name, values in (inputs if qd is None else inputs | {"qd": qd}).items():
            point[name][...] = values
        return point

    def _arrays(self, point: Arrays, gather: bool = False) -> ShellArrays:
        return ShellArrays(gather, self.triangles, self.edges, self.springs, self.table, *(point[name] for name in INPUTS))

    def _state(self, point: Arrays) -> np.ndarray:
        now = np.concatenate([point["q"], point["qd"]], axis=2)
        return np.stack([np.full_like(now, 1e3), now], axis=1)

    def _summed(self, slots: np.ndarray) -> np.ndarray:
        out = np.zeros((len(slots), len(self.rest), slots.shape[2]))
        for b, world in enumerate(slots):
            np.add.at(out[b], self.corners, world)
        return out

    @without_cfg_optimisation
    def forces(self, point: Arrays, *, gather: bool = False) -> np.ndarray:
        """Forces on the particles [B, P, 3]."""
        out = np.zeros((len(point["q"]), len(self.corners) if gather else len(self.rest), 3))
        force_kernel(self._state(point), out, self._arrays(point, gather))
        return self._summed(out) if gather else out

    @without_cfg_optimisation
    def adjoint(self, point: Arrays, dual: np.ndarray, *, gather: bool = False) -> Arrays:
        """Adjoints of all numbers of ``point``."""
        worlds = len(point["q"])
        out = np.zeros((worlds, len(self.corners) if gather else len(self.rest), 6))
        bars = {name: np.zeros_like(point[name]) for name in INPUTS[:-1]} | {"wind": np.zeros((worlds, len(self.triangles), 3))}
        adjoint_kernel(self._state(point), dual, out, self._arrays(point, gather), ShellBars(**bars))
        out = self._summed(out) if gather else out
        return bars | {"wind": bars["wind"].sum(1), "q": out[..., :3].copy(), "qd": out[..., 3:].copy()}

    @without_cfg_optimisation
    def energy(self, point: Arrays) -> np.ndarray:
        """Elastic energies [B]."""
        out = np.zeros(len(point["q"]))
        energy_kernel(self._state(point), out, self._arrays(point))
        return out


def grid(columns: int, rows: int, size: float = 1.0, alternate: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of squares halved by diagonals, in the plane z = 0, counter-clockwise seen from above."""
    x, y = np.meshgrid(np.arange(columns + 1) * size, np.arange(rows + 1) * size)
    triangles = []
    for j, i in np.ndindex(rows, columns):
        a, b, c, d = (j * (columns + 1) + i + k for k in (0, 1, columns + 2, columns + 1))
        turned = alternate and (i + j) % 2
        triangles += [[a, b, d], [b, c, d]] if turned else [[a, b, c], [a, c, d]]
    return np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.array(triangles)


def equilateral(columns: int, rows: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """As ``grid``, sheared into equilateral triangles: its triangles have the long diagonals' other sides."""
    vertices, _ = grid(columns, rows, size)
    triangles = []
    for j, i in np.ndindex(rows, columns):
        a, b, c, d = (j * (columns + 1) + i + k for k in (0, 1, columns + 2, columns + 1))
        triangles += [[a, b, d], [b, c, d]]
    vertices[:, 0] += 0.5 * vertices[:, 1]
    vertices[:, 1] *= np.sqrt(3) / 2
    return vertices, np.array(triangles)


def mixed() -> Shell:
    """A sheet of unequal triangles, two elements of a plane body at right angles to y, and three springs."""
    rng = np.random.default_rng(3)
    vertices, triangles = grid(2, 2)
    vertices = vertices + 0.2 * rng.standard_normal(vertices.shape)
    plane = np.array([[0, 2, 0], [0, 2, 1], [1, 2, 0], [1.2, 2, 1.1]])
    flat = np.array([[9, 10, 11], [10, 12, 11]])  # counter-clockwise about +y
    normals = np.zeros((len(triangles) + 2, 3))
    normals[-2:] = [0, 1, 0]
    return Shell(
        np.concatenate([vertices, plane]), np.concatenate([triangles, flat]),
        normals=normals, edges=bending_edges(triangles), springs=[[0, 12], [8, 9], [3, 5]],
    )  # fmt: skip


def somewhere(shell: Shell, spread: float, seed: int = 0, worlds: int = 2) -> Arrays:
    """Particles moved by ``spread`` from rest (those of the plane body in their plane), and every number different."""
    rng = np.random.default_rng(seed)
    q = shell.rest + spread * rng.standard_normal((worlds, *shell.rest.shape))
    q[:, 9:, 1] = 2
    point = shell.point(q, rng.standard_normal(q.shape), wind=rng.standard_normal((worlds, 3)))
    for name in INPUTS[:-1]:
        shape = point[name].shape
        point[name][...] = rng.uniform(0.5, 1.5, shape) if "material" in name else rng.normal(0, 0.2, shape)
    point["edge_material"][..., 2] -= 1
    return point


@pytest.fixture(scope="module")
def shell() -> Shell:
    return mixed()


def turned(axis: Any, angle: float) -> np.ndarray:
    """Rotation matrix."""
    x, y, z = np.asarray(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def without_losses(point: Arrays) -> Arrays:
    """The same without damping and air."""
    point = {name: values.copy() for name, values in point.items()}
    point["tri_material"][..., 2:] = 0
    point["edge_material"][..., 1] = 0
    point["spring_material"][..., 1] = 0
    return point


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_forces_are_minus_the_gradient_of_the_energy(shell: Shell, spread: float) -> None:
    point = without_losses(somewhere(shell, spread))

    def energy(at: Arrays) -> tuple[float, Arrays]:
        return float(shell.energy(point | at).sum()), {"q": -shell.forces(point | at)}

    gradcheck(energy, {"q": point["q"]}, step=1e-3, rtol=1e-5, atol=1e-7).raise_if_wrong()


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_adjoints_are_right_in_every_number(shell: Shell, spread: float) -> None:
    point = somewhere(shell, spread, seed=1)
    dual = np.random.default_rng(2).standard_normal(point["q"].shape)

    def power(at: Arrays) -> float:
        return float((dual * shell.forces(at)).sum())

    report = gradcheck(
        lambda at: (power(at), shell.adjoint(at, dual)), point, loss=power, step=3e-4, rtol=1e-6, atol=2e-7, min_observable=300
    )
    report.raise_if_wrong()


def test_a_flat_sheet_at_rest_and_a_folded_one_have_right_adjoints() -> None:
    # The dihedral angle at 0 exactly, and at 2.9 rad on either side, unequal triangles.
    fold = np.array([[0.3, -1, 0], [0.6, 0.7, 0], [0, 0, 0], [1, 0, 0]], dtype=float)
    single = Shell(fold, edges=[[1, 0, 2, 3]])
    for angle in (0.0, 2.9, -2.9, 1.6):
        q = fold.copy()
        q[1] = turned([1, 0, 0], angle) @ q[1]
        assert rest_angles(q, single.edges)[0] == pytest.approx(-angle)
        qd = np.random.default_rng(0).standard_normal((4, 3))
        point = single.point(q, qd, edge_material=(0.8, 0.3, 0.2), edge_actuation=0.1)
        dual = np.random.default_rng(1).standard_normal((1, 4, 3))

        def power(at: Arrays, dual: np.ndarray = dual) -> float:
            return float((dual * single.forces(at)).sum())

        def both(at: Arrays, dual: np.ndarray = dual) -> tuple[float, Arrays]:
            return float((dual * single.forces(at)).sum()), single.adjoint(at, dual)

        names = ["q", "qd", "edge_material", "edge_actuation"]
        gradcheck(both, point, loss=power, names=names, step=3e-4, rtol=1e-6, atol=1e-7).raise_if_wrong()
        moment = 0.8 * np.sin((-angle - 0.2) / 2 + 0.1)
        still = single.forces(point | {"qd": np.zeros((1, 4, 3))})
        height = np.abs(fold[0, 1])
        assert np.linalg.norm(still[0, 0]) == pytest.approx(abs(moment) / height)
        assert single.energy(point)[0] == pytest.approx(1.6 * (1 - np.cos((-angle - 0.2) / 2 + 0.1)))


def test_corners_with_slots_of_their_own_sum_up_to_the_same(shell: Shell) -> None:
    point = somewhere(shell, 0.3)
    dual = np.random.default_rng(2).standard_normal(point["q"].shape)
    np.testing.assert_allclose(shell.forces(point, gather=True), shell.forces(point), rtol=1e-12, atol=1e-12)
    gathered, added = (shell.adjoint(point, dual, gather=gather) for gather in (True, False))
    for name, values in added.items():
        np.testing.assert_allclose(gathered[name], values, rtol=1e-12, atol=1e-12, err_msg=name)


def test_rigid_motion_costs_nothing_and_turns_forces_along(shell: Shell) -> None:
    rotation = turned([0, 1, 0], 2.1)  # about the normal of the plane body
    point = somewhere(shell, 0.3, worlds=1)
    point["tri_material"][..., 3:] = 0
    spin = np.array([0, 3.0, 0])
    moved = point | {"q": point["q"] @ rotation.T + [1, 0, -2], "qd": point["qd"] @ rotation.T}
    moved["qd"] = moved["qd"] + np.cross(spin, moved["q"]) + [0.3, 0, 0.4]
    np.testing.assert_allclose(shell.forces(moved), shell.forces(point) @ rotation.T, atol=1e-12)
    np.testing.assert_allclose(shell.energy(moved), shell.energy(point), rtol=1e-12)
    # No net force and no net moment.
    force = shell.forces(point)[0]
    np.testing.assert_allclose(force.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(np.cross(point["q"][0], force).sum(0), 0, atol=1e-12)
    # At rest, with the rest angles and lengths of the shape, and turning: none at all.
    still = somewhere(shell, 0.0, worlds=1)
    still["tri_material"][..., 3:] = 0
    still["tri_actuation"][...] = still["edge_actuation"][...] = 0
    still["edge_material"][..., 2] = rest_angles(shell.rest, shell.edges)
    ends = shell.rest[shell.springs]
    still["spring_material"][..., 2] = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    still["q"] = still["q"] @ rotation.T
    still["qd"] = np.cross(spin, still["q"])
    np.testing.assert_allclose(shell.forces(still), 0, atol=1e-13)
    np.testing.assert_allclose(shell.energy(still), 0, atol=1e-13)


def test_drag_slows_and_lift_does_no_work() -> None:
    one = Shell([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    rng = np.random.default_rng(0)
    for _ in range(10):
        q, u = rng.standard_normal((1, 3, 3)), rng.standard_normal(3)
        edges = q[0, 1:] - q[0, :1]
        normal = np.cross(*edges)
        area, normal = np.linalg.norm(normal) / 2, normal / np.linalg.norm(normal)
        drag = one.forces(one.point(q, u, tri_material=(0, 0, 0, 0.7, 0)))[0]
        lift = one.forces(one.point(q, wind=-u, tri_material=(0, 0, 0, 0, 0.7)))[0]
        np.testing.assert_allclose(drag.sum(0), -0.7 * area * abs(normal @ u) * u, rtol=1e-12)
        expected = -0.7 * area * (normal @ u) * (np.linalg.norm(u) * normal - (normal @ u) * u / np.linalg.norm(u))
        np.testing.assert_allclose(lift.sum(0), expected, rtol=1e-10, atol=1e-14)
        assert drag.sum(0) @ u < 0
        assert abs(lift.sum(0) @ u) < 1e-14
        np.testing.assert_allclose(lift, np.broadcast_to(lift[:1], (3, 3)))
    # At rest in the air, and without area, there is none, and no adjoint that is not a number.
    dual = rng.standard_normal((1, 3, 3))
    flat = one.point(np.array([[[0, 0, 0], [1, 0, 0], [2, 0, 0.0]]]), rng.standard_normal((3, 3)), tri_material=(1, 1, 1, 1, 1))
    resting = one.point(one.rest, np.ones(3), wind=np.ones(3), tri_material=(0, 0, 0, 1, 1))
    np.testing.assert_array_equal(one.forces(resting), 0)
    for point in (flat, resting):
        assert np.isfinite(one.forces(point)).all()
        assert all(np.isfinite(values).all() for values in one.adjoint(point, dual).values())


def test_plane_bodies_stay_in_their_plane_and_feel_inversion() -> None:
    rest = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0.0]])
    flat = Shell(rest, [[0, 1, 2]], normals=[[0, 1, 0]])
    sheet = Shell(rest, [[0, 1, 2]])
    rng = np.random.default_rng(0)
    q = rest + 0.3 * rng.standard_normal((3, 3)) * [1, 0, 1]
    material = (1.0, 2.0, 0.5, 0.7, 0.7)
    assert np.abs(flat.forces(flat.point(q, rng.standard_normal((3, 3)) * [1, 0, 1], tri_material=material))[..., 1]).max() == 0
    inverted = rest * [-1, 1, 1]
    assert sheet.energy(sheet.point(inverted, tri_material=material))[0] == pytest.approx(0, abs=1e-14)
    # F = diag(1, -1): J - 1 = -2, nothing else differs from rest; rest area 1/2.
    assert flat.energy(flat.point(inverted, tri_material=material))[0] == pytest.approx(0.5 * (2.0 / 2 * 4 + 2 / 3 * 2))
    force = flat.forces(flat.point(inverted, tri_material=material))[0]
    assert force[2, 0] > 0.5  # it is pushed back through the line
    # No air, on the way there and back.
    air = flat.point(q, 1.0, tri_material=(0, 0, 0, 1, 1))
    np.testing.assert_array_equal(flat.forces(air), 0)
    np.testing.assert_array_equal(flat.adjoint(air, np.ones((1, 3, 3)))["wind"], 0)


def linear_elasticity(strain: np.ndarray, shear: float, lame: float) -> float:
    """Energy density of linear elasticity."""
    return shear * (strain * strain).sum() + 0.5 * lame * np.trace(strain) ** 2


@pytest.mark.parametrize("kind", ["membrane", "plane strain"])
def test_small_strains_cost_what_linear_elasticity_says(kind: str) -> None:
    young, poisson, thickness = 3.0e5, 0.31, 2e-3
    shear, lame = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    rest = np.array([[0.1, 0.2, 0], [1.3, 0.1, 0], [0.4, 0.9, 0]])
    one = Shell(rest, [[0, 1, 2]], normals=[[0, 0, 1 if kind == "plane strain" else 0]])
    rng = np.random.default_rng(0)
    for _ in range(3):
        h = 1e-4 * rng.standard_normal((2, 2))
        strain = np.zeros((3, 3))
        strain[:2, :2] = (h + h.T) / 2
        if kind == "membrane":
            # No stress across the sheet.
            strain[2, 2] = -lame * np.trace(strain) / (lame + 2 * shear)
            mu, lam = membrane_constants(young, poisson, thickness)
            expected = thickness * linear_elasticity(strain, shear, lame)
        else:
            mu, lam = plane_strain_constants(young, poisson)
            expected = linear_elasticity(strain, shear, lame)
        q = rest.copy()
        q[:, :2] += rest[:, :2] @ h.T
        energy = one.energy(one.point(q, tri_material=(mu, lam, 0, 0, 0)))[0]
        assert energy == pytest.approx(expected * triangle_areas(rest, one.triangles)[0], rel=2e-3)


def bent(vertices: np.ndarray, angle: float, radius: float) -> np.ndarray:
    """A flat sheet rolled, without stretching, about an axis at right angles to the direction at ``angle`` to x."""
    rotation = turned([0, 0, 1], -angle)
    x, y, _ = (vertices @ rotation.T).T
    return np.stack([radius * np.sin(x / radius), y, radius * (1 - np.cos(x / radius))], axis=1) @ rotation


def bending_energy_ratio(vertices: np.ndarray, triangles: np.ndarray, angle: float) -> float:
    """Energy of a sheet rolled to a radius of 5 m over that of a plate."""
    edges = bending_edges(triangles)
    rigidity = plate_rigidity(2e9, 0.3, 1e-3)
    sheet = Shell(vertices, edges=edges)
    material = np.zeros((len(edges), 3))
    material[:, 0] = edge_stiffness(rigidity, vertices, edges)
    energy = sheet.energy(sheet.point(bent(vertices, angle, 5.0), edge_material=material))[0]
    return float(energy / (rigidity / 2 / 5.0**2 * triangle_areas(vertices, triangles).sum()))


@pytest.mark.parametrize("angle", [0.0, 0.4, np.pi / 6, np.pi / 2])
def test_rolling_a_sheet_of_equilateral_triangles_costs_what_a_plate_costs(angle: float) -> None:
    errors = [abs(bending_energy_ratio(*equilateral(n, n, 1 / n), angle) - 1) for n in (8, 16, 32)]
    # The rim has no bending stiffness: the error falls as 1 / n (faster where edges along the rim do not turn).
    assert errors[2] < 0.06
    assert min(errors[0] / errors[1], errors[1] / errors[2]) > 1.8


@pytest.mark.parametrize(
    ("angle", "alternate", "expected"),
    [(0, False, 1), (np.pi / 2, True, 1), (np.pi / 4, False, 3), (-np.pi / 4, False, 1), (np.pi / 4, True, 1.5)],
)
def test_rolling_a_grid_costs_what_the_documentation_says(angle: float, alternate: bool, expected: float) -> None:
    ratios = [bending_energy_ratio(*grid(n, n, 1 / n, alternate), angle) for n in (8, 16, 32)]
    assert 2 * ratios[2] - ratios[1] == pytest.approx(expected, rel=5e-3)
    assert abs(ratios[2] - expected) < 0.55 * abs(ratios[1] - expected)


def test_springs_pull_and_damp_along_their_line() -> None:
    spring = Shell([[0, 0, 0], [1, 2, 2]], springs=[[0, 1]])
    point = spring.point(spring.rest, np.array([[1, 0, 0], [0, 3, 0.0]]), spring_material=(2.0, 0.5, 2.2))
    direction = np.array([1, 2, 2]) / 3
    rate = direction @ [-1, 3, 0]
    pull = (2.0 * 0.8 + 0.5 * rate) * direction
    np.testing.assert_allclose(spring.forces(point), [[pull, -pull]])
    assert spring.energy(point)[0] == pytest.approx(0.5 * 2 * 0.8**2)
    together = spring.point(np.zeros((2, 3)), 1.0, spring_material=(2.0, 0.5, 2.2))
    np.testing.assert_array_equal(spring.forces(together), 0)
    np.testing.assert_array_equal(spring.adjoint(together, np.ones((1, 2, 3)))["q"], 0)


def test_edges_of_a_sheet_and_their_angles() -> None:
    vertices, triangles = grid(3, 2)
    edges = bending_edges(triangles)
    assert len(edges) == 3 * 2 + 3 * 1 + 2 * 2  # diagonals, and the inner sides of the squares
    sides = {tuple(np.roll(t, -k)) for t in triangles.tolist() for k in range(3)}
    for first, second, start, end in edges.tolist():
        assert (start, end, first) in sides
        assert (end, start, second) in sides
    ridge = vertices.copy()
    ridge[:, 2] = -0.5 * np.abs(vertices[:, 0] - 1)
    angles = rest_angles(ridge, edges)
    # Two sides of squares lie on the ridge x = 1.
    assert np.sort(angles)[-2:] == pytest.approx(2 * np.arctan(0.5))
    assert np.abs(np.sort(angles)[:-2]).max() < 1e-15
    assert bending_edges(np.zeros((0, 3), dtype=int)).shape == (0, 4)
    np.testing.assert_allclose(edge_stiffness(2.0, vertices, edges)[:1], 4.0 * 2)


def test_meshes_that_are_no_sheets_are_refused() -> None:
    with pytest.raises(UserError, match="edge 0-1 belongs to triangles 0, 1 and 2: bending needs a sheet"):
        bending_edges(np.array([[0, 1, 2], [1, 0, 3], [1, 0, 4]]))
    with pytest.raises(UserError, match="triangles 0 and 1 have opposite winding at edge 1-2: reverse"):
        bending_edges(np.array([[0, 1, 2], [1, 2, 3]]))
    rest = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0.0]])
    zero, up = np.zeros((2, 3)), np.array([[0, 0, 1.0]])
    with pytest.raises(UserError, match=r"triangle 1 of particles \[0, 1, 3\] has no area at rest"):
        triangle_rest_table(rest, np.array([[0, 1, 2], [0, 1, 3]]), zero)
    with pytest.raises(UserError, match=r"triangle 0 of particles \[0, 2, 1\] of a plane body is wound against"):
        triangle_rest_table(rest, np.array([[0, 2, 1]]), up)
    with pytest.raises(UserError, match="not at right angles to its tri_normal"):
        triangle_rest_table(rest, np.array([[0, 1, 2]]), np.array([[0, 0.6, 0.8]]))
