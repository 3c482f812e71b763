"""Self-contact of deformable bodies: the plain numpy of ``tests.reference.self_contact``, and the solver against it."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.reference.deformable_cases import GRAVITY, inputs_for, sheet_body
from tests.reference.self_contact import (
    Surface,
    nearest_weights,
    piercings,
    rollout,
    self_contact_energy,
    self_contact_forces,
    touch,
)
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.self_contact_forces import self_contact_adjoint
from ti_sim.deformable.self_contact_forces import self_contact_forces as forces_of
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import SheetMesh, sheet_grid
from ti_sim.rollout.adjoint import StoreAll

STEP = 1e-30  # of complex steps
SUBSTEPS = 30
REGIONS = (7, 1, 2, 4, 3, 6, 5)


def crumpled(*, worlds: int = 3, seed: int = 0) -> tuple[Surface, np.ndarray, np.ndarray, np.ndarray]:
    """Surface, materials, positions and velocities of a strip of 3 x 4 particles and a lone triangle, pressed into a heap."""
    draw = np.random.default_rng(seed)
    corner = np.arange(12).reshape(3, 4)
    cells = [(corner[i, j], corner[i + 1, j], corner[i + 1, j + 1], corner[i, j + 1]) for i in range(2) for j in range(3)]
    triangles = np.array([t for a, b, c, d in cells for t in ((a, b, c), (a, c, d))] + [(12, 13, 14)])
    q = draw.uniform(-1, 1, (worlds, 15, 3)) * (0.5, 0.5, 0.25)
    material = draw.uniform((80, 1, 0.5, 0.2), (120, 3, 10, 0.9), (worlds, 4))
    return Surface(triangles, 0.2), material, q, 0.3 * draw.normal(size=q.shape)


def test_nearest_point_is_the_minimum_over_the_triangle() -> None:
    draw = np.random.default_rng(3)
    points, corners = draw.uniform(-1, 1, (60, 3)), draw.uniform(-1, 1, (60, 3, 3))
    weights = nearest_weights(points, corners)
    assert set(((weights > 0) @ (1, 2, 4)).tolist()) == set(REGIONS)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-14)
    simplex = {"bounds": [(0, 1)] * 3, "constraints": {"type": "eq", "fun": lambda w: w.sum() - 1}}
    for point, triangle, found in zip(points, corners, weights, strict=True):

        def square(w: np.ndarray, point: np.ndarray = point, triangle: np.ndarray = triangle) -> float:
            return float(np.sum((point - w @ triangle) ** 2))

        best = minimize(square, np.full(3, 1 / 3), method="SLSQP", options={"ftol": 1e-14}, **simplex)
        np.testing.assert_allclose(found @ triangle, best.x @ triangle, rtol=0, atol=2e-6)
        assert square(found) <= square(best.x) + 1e-14


def test_nearest_point_of_a_needle_lies_on_it() -> None:
    needle = np.array([(0.0, 0, 0), (1, 0, 0), (0.5, 0, 0)])
    nearest = nearest_weights(np.array([(0.3, 1, 0), (-1, 0, 0), (2, 0, 1)]), np.tile(needle, (3, 1, 1))) @ needle
    np.testing.assert_allclose(nearest, [(0.3, 0, 0), (0, 0, 0), (1, 0, 0)], atol=1e-15)


def test_pairs_leave_out_the_ring_of_every_vertex() -> None:
    fan = np.array([(0, 1, 2), (1, 3, 2), (3, 4, 2), (3, 5, 4)])
    vertex, corners = Surface(fan, 1.0).pairs
    found = {(int(v[0]), *c.tolist()) for v, c in zip(vertex, corners, strict=True)}
    assert found == {(0, 3, 5, 4), (5, 0, 1, 2)}


def test_forces_are_minus_the_gradient_of_an_energy_without_friction_and_damping() -> None:
    surface, material, q, qd = crumpled()
    material[:, 1:] = 0.0
    forces = self_contact_forces(surface, material, q, qd, 1e-3)
    direction = np.random.default_rng(4).normal(size=q.shape)
    slope = self_contact_energy(surface, material[:, 0], q + 1j * STEP * direction).imag / STEP
    assert np.abs(slope).min() > 1
    np.testing.assert_allclose((forces * direction).sum((1, 2)), -slope, rtol=1e-11)


@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_momentum_and_power(dt: float) -> None:
    surface, material, q, qd = crumpled()
    codes = touch(surface, material, q, qd, dt).code
    assert set(REGIONS) <= set((codes & 7).ravel().tolist())
    assert {8, 24} <= set((codes & 24).ravel().tolist())  # pushes without slip, and with it
    assert np.any(codes & 32) == (dt > 0.01)
    forces = self_contact_forces(surface, material, q, qd, dt)
    size = np.abs(forces).max()
    assert np.abs(forces.sum(1)).max() < 1e-13 * size
    elastic = material * (1, 0, 0, 0)
    without = self_contact_forces(surface, elastic, q, qd, dt)
    assert np.all(((forces - without) * qd).sum((1, 2)) < 0)
    frictionless = self_contact_forces(surface, material * (1, 1, 0, 0), q, qd, dt)
    assert np.abs(np.cross(q, frictionless).sum(1)).max() < 1e-13 * size


def test_friction_sticks_and_slips() -> None:
    surface = Surface(np.array([(0, 1, 2), (3, 4, 5)]), 0.1)
    q = np.array([[(-1, -1, 0), (2, -1, 0), (-1, 2, 0), (0.0, 0, 0.08), (0.0, 0, 5), (0, 1, 5)]])
    qd = np.zeros(q.shape)
    material = np.array([[1000.0, 5.0, 2.0, 0.3]])
    qd[0, 3] = (1.0, 0.0, 0.5)  # pressed with 20 - 2.5 N
    np.testing.assert_allclose(self_contact_forces(surface, material, q, qd, 1e-3)[0, 3], (-2, 0, 17.5), atol=1e-12)
    qd[0, 3] = (0.0, 4.0, -0.5)  # 20 + 2.5 N, and slipping
    np.testing.assert_allclose(self_contact_forces(surface, material, q, qd, 1e-3)[0, 3], (0, -6.75, 22.5), atol=1e-12)
    qd[0, 3] = (0.0, 0.0, -4.0)  # travels 0.04 m: y = 1/2, in contact for 7/8 of the time
    np.testing.assert_allclose(self_contact_forces(surface, material, q, qd, 1e-2)[0, 3], (0, 0, 20 + 5 / 6 + 17.5), atol=1e-12)
    np.testing.assert_allclose(self_contact_forces(surface, material, q, qd, 0.0)[0, 3], (0, 0, 40), atol=1e-12)


def test_piercings_are_found() -> None:
    q = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0.2, 0.2, -0.5), (0.3, 0.2, 0.5), (0.2, 5, 0.5)])
    triangles = np.array([(0, 1, 2), (3, 4, 5)])
    assert piercings(triangles, q) == [(1, 2, 1), (3, 4, 0)]
    assert piercings(triangles, q + np.repeat([0, 2], 3)[:, None] * [0, 0, 1]) == []


def test_complex_steps_give_the_derivatives_of_the_forces() -> None:
    surface, material, q, qd = crumpled()
    draw = np.random.default_rng(5)
    ways = [draw.normal(size=array.shape) for array in (material, q, qd)]

    def along(s: complex) -> np.ndarray:
        return self_contact_forces(surface, material + s * ways[0], q + s * ways[1], qd + s * ways[2], 1e-3)

    difference = (8 * (along(1e-6) - along(-1e-6)) - along(2e-6) + along(-2e-6)) / 12e-6
    slope = along(1j * STEP).imag / STEP
    np.testing.assert_allclose(slope, difference, rtol=0, atol=1e-7 * np.abs(slope).max())


# --- the solver ---------------------------------------------------------------------------------------------------------------


def with_contact(
    model: DeformableModel, inputs: DeformableInputs, surface: Surface, material: np.ndarray
) -> tuple[DeformableModel, DeformableInputs]:
    """The same, and the triangles of the surface touch its vertices."""
    model = replace(model, contact_triangles=surface.triangles.astype(np.int32), self_thickness=surface.thickness)
    return model, replace(inputs, self_contact=np.broadcast_to(material, (inputs.world_count, 4)).copy())


@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_forces_of_heaps_and_their_derivatives(dt: float) -> None:
    surface, material, q, qd = crumpled(worlds=6)
    plain = DeformableModel(particle_rest=q[0])
    model, inputs = with_contact(plain, inputs_for(plain, worlds=6), surface, material)
    wanted = self_contact_forces(surface, material, q, qd, dt)
    assert np.abs(wanted).max() > 10
    np.testing.assert_allclose(forces_of(model, inputs, q, qd, dt=dt), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    draw, point = np.random.default_rng(6), {"q": q, "qd": qd, "material": material}
    dual = draw.normal(size=q.shape)
    state_bar, material_bar = self_contact_adjoint(model, inputs, q, qd, dual, dt=dt)
    for name, bar in {"q": state_bar[..., :3], "qd": state_bar[..., 3:], "material": material_bar}.items():
        way = draw.normal(size=bar.shape)
        moved = point | {name: point[name] + 1j * STEP * way}
        slopes = (dual * self_contact_forces(surface, **moved, dt=dt)).sum((1, 2)).imag / STEP
        np.testing.assert_allclose((bar * way).reshape(6, -1).sum(1), slopes, rtol=1e-10)


def folding_strip(*, worlds: int = 1) -> tuple[DeformableModel, DeformableInputs, Surface, np.ndarray]:
    """A strip bent into a U, one end held, whose upper half falls and slides onto the lower one; two frames."""
    mesh, turned = sheet_grid((0.6, 0.1), (6, 1)), 0.2 + 0.04 * np.pi
    s = mesh.vertices[:, 0] + 0.3
    turn = np.clip(s - 0.2, 0, 0.04 * np.pi) / 0.04
    x = np.where(s < 0.2, s, 0.2 + 0.04 * np.sin(turn) - np.maximum(s - turned, 0))
    draw = np.random.default_rng(1)
    q = np.stack([x, mesh.vertices[:, 1], 0.04 * (1 - np.cos(turn))], -1) + draw.uniform(-0.01, 0.01, (worlds, len(s), 3))
    qd = np.where((s > turned)[:, None], (0.4, 0.3, -1.5), 0) + 0.1 * draw.normal(size=q.shape)
    model, inputs = sheet_body(
        mesh, membrane=(100.0, 100.0, 0.2, 0, 0), rigidity=2e-3, elements={"fixed": np.flatnonzero(s < 0.01)}, worlds=worlds,
        frames=2, particle_q0=q, particle_qd0=qd, gravity=(0, 0, -GRAVITY),
    )  # fmt: skip
    material = draw.uniform((150, 0.2, 0.3, 0.2), (250, 0.6, 0.9, 0.6), (worlds, 4))
    return model, inputs, Surface(np.asarray(mesh.triangles), 0.05), material


def seen(codes: np.ndarray, mask: int) -> set[int]:
    """The values that some bits of codes take."""
    return set((codes & mask).ravel().tolist())


@pytest.mark.parametrize("plan", ["world", "element"])
def test_folding_strip(plan: str) -> None:
    plain, inputs, surface, material = folding_strip(worlds=2)
    wanted_q, wanted_qd, codes = rollout(plain, inputs, surface, material, dt=1e-3, substeps=SUBSTEPS, frames=2)
    assert seen(codes, 7) >= {7, 3, 6} and seen(codes, 24) >= {8, 24} and seen(codes, 32) == {0, 32}
    model, inputs = with_contact(plain, inputs, surface, material)
    found = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=SUBSTEPS, plan=plan)).rollout(inputs, 2)
    np.testing.assert_allclose(found.particle_q, wanted_q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.particle_qd, wanted_qd, rtol=0, atol=1e-9)


def directions(inputs: DeformableInputs, material: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Ways to change all inputs of one world at a time, and each number of the contact by itself."""
    draw = np.random.default_rng(2)
    ways = [{name: draw.normal(size=getattr(inputs, name).shape)} for name in ("particle_q0", "particle_qd0")]
    others = ("particle_mass", "tri_material", "edge_material", "gravity")
    ways.append({name: getattr(inputs, name) * draw.normal(size=getattr(inputs, name).shape) for name in others})
    return ways + [{"self_contact": material * np.eye(4)[k]} for k in range(4)]


def test_gradients_of_a_folding_strip() -> None:
    plain, inputs, surface, material = folding_strip()
    ways, h = directions(inputs, material), 1e-6
    count = 2 * len(ways)
    moved = {field.name: np.repeat(getattr(inputs, field.name), count, axis=0) for field in fields(inputs)}
    moved["self_contact"] = np.repeat(material, count, axis=0)
    for k, way in enumerate(ways):
        for name, change in way.items():
            moved[name][2 * k] += h * change[0]
            moved[name][2 * k + 1] -= h * change[0]
    q, qd, codes = rollout(
        plain, DeformableInputs(**moved), surface, moved["self_contact"], dt=1e-3, substeps=SUBSTEPS, frames=2
    )
    assert (codes == codes[:, :1]).all()  # no kink between the differences
    assert seen(codes, 7) >= {7, 3, 6} and seen(codes, 24) >= {8, 24} and seen(codes, 32) == {0, 32}
    draw = np.random.default_rng(3)
    q_bar, qd_bar = draw.normal(size=(1, *q.shape[1:])), 0.02 * draw.normal(size=(1, *q.shape[1:]))
    losses = (q * q_bar + qd * qd_bar).sum((1, 2, 3))
    slopes = (losses[::2] - losses[1::2]) / (2 * h)
    assert np.abs(slopes).min() > 1e-4
    model, inputs = with_contact(plain, inputs, surface, material)
    for plan in ("world", "element"):
        solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=SUBSTEPS, plan=plan))
        bars = solver.rollout_adjoint(solver.rollout(inputs, 2, adjoint=StoreAll()), q_bar, qd_bar)
        found = [sum(np.sum(getattr(bars, name) * change) for name, change in way.items()) for way in ways]
        np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-8)


# --- what bodies that touch do ------------------------------------------------------------------------------------------------


def simulated(
    model: DeformableModel, inputs: DeformableInputs, *, dt: float, steps: int, frames: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities at equally spaced frames; nothing of ``inputs`` depends on time."""
    over_time = ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
    inputs = replace(inputs, **{name: np.repeat(getattr(inputs, name), frames, axis=1) for name in over_time})
    settings = DeformableSettings(dt=dt, substeps=steps // frames, plan="world")
    found = DeformableSolver(model, settings).rollout(inputs, frames)
    return found.particle_q, found.particle_qd


def test_a_shot_bounces_up_to_the_speed_that_the_stiffness_can_stop() -> None:
    square = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], dtype=float)
    rest = np.vstack([square, 0.02 * square + (0.6, 0.2, 0.006)])
    triangles = np.array([(0, 1, 2), (0, 2, 3), (4, 5, 6), (4, 6, 7)])
    # A spring of 1,200 N/m over 5 mm holds 15 mJ: it stops 1 g (each corner by itself) at below 5.48 m/s.
    stiffness, thickness, mass, speeds = 1200.0, 0.005, 1e-3, np.array([1.0, 2, 3, 4, 5, 6])
    stopped = mass * speeds**2 < stiffness * thickness**2
    assert stopped.sum() == 5
    qd = np.zeros((6, 8, 3))
    qd[:, 4:, 2] = -speeds[:, None]
    plain, inputs = sheet_body(
        SheetMesh(rest, triangles), membrane=(1, 1, 1e-3, 0, 0), elements={"fixed": np.arange(4)}, worlds=6, particle_mass=mass,
        particle_qd0=qd,
    )  # fmt: skip
    model, inputs = with_contact(plain, inputs, Surface(triangles, thickness), np.array([stiffness, 0, 0, 0]))
    q, qd = simulated(model, inputs, dt=1e-5, steps=800)
    np.testing.assert_allclose(qd[stopped, -1, 4:, 2], np.repeat(speeds[stopped, None], 4, 1), rtol=1e-4)
    assert (q[stopped, -1, 4:, 2] > thickness).all()
    assert (q[~stopped, -1, 4:, 2] < -thickness).all()


def test_a_strip_folded_double_rests_on_itself() -> None:
    cell, count, thickness, stiffness, density = 0.02, 8, 5e-3, 0.1, 0.2
    mesh = sheet_grid((count * cell, 2 * cell), (count, 2))
    s = mesh.vertices[:, 0] + count * cell / 2
    half = count * cell / 2
    upper, crease = s > half + cell / 2, np.abs(s - half) < cell / 2
    # A vertex with k triangles has the mass of k / 3 of them. It lies over its mirror image: each touches the other's k.
    gap = thickness - density * cell**2 / 2 / 3 * GRAVITY / (2 * stiffness)
    q = mesh.vertices.copy()
    q[upper, 0], q[upper, 2], q[crease, 2] = -q[upper, 0], thickness, gap / 2
    q[crease, 0] = np.sqrt(cell**2 - gap**2 / 4) - cell
    plain, inputs = sheet_body(
        mesh, density=density, membrane=(20, 20, 0.01, 0, 0), elements={"fixed": np.flatnonzero(~upper)}, particle_q0=q,
        gravity=(0, 0, -GRAVITY),
    )  # fmt: skip
    model, inputs = with_contact(plain, inputs, Surface(mesh.triangles, thickness), np.array([stiffness, 8e-4, 0, 0]))
    q, qd = simulated(model, inputs, dt=5e-4, steps=600)
    far = upper & (s > half + 1.5 * cell)  # what hangs on the crease lies lower
    np.testing.assert_allclose(q[0, -1, far, 2], gap, rtol=1e-3)
    assert np.abs(qd[0, -1]).max() < 5e-3


def nearest(surface: Surface, q: np.ndarray) -> float:
    """Least distance of a vertex from a triangle that it may touch [m]."""
    return float(touch(surface, np.zeros((len(q), 4)), q, 0 * q, 0.0).distance.min())


def test_crossed_sheets_stay_apart() -> None:
    lower, thickness = sheet_grid((0.4, 0.1), (8, 2)), 0.02
    cosine, sine = np.cos(1.2), np.sin(1.2)
    across = lower.vertices @ [(cosine, sine, 0), (-sine, cosine, 0), (0, 0, 1)] + (0.013, 0.007, 0.9 * thickness)
    count = len(across)
    triangles = np.vstack([lower.triangles, lower.triangles + count])
    plain, inputs = sheet_body(
        SheetMesh(np.vstack([lower.vertices, across]), triangles), density=0.2, membrane=(20, 20, 0.05, 0, 0), rigidity=1e-4,
        elements={"contact": np.arange(2 * count)}, particle_contact=(5, 0.02, 0.05, 0.5), gravity=(0, 0, -GRAVITY),
    )  # fmt: skip
    material = np.array([5.0, 0.02, 0.05, 0.5])
    surface = Surface(triangles, thickness)
    q, qd = simulated(*with_contact(plain, inputs, surface, material), dt=4e-4, steps=1500, frames=30)
    assert not any(piercings(triangles, at) for at in q[0])
    assert np.abs(qd[0, -1]).max() < 0.02
    assert nearest(surface, q[:, -1]) > 0.8 * thickness
    thin = simulated(*with_contact(plain, inputs, Surface(triangles, 1e-9), material), dt=4e-4, steps=1500)[0]
    assert nearest(surface, thin[:, -1]) < 0.1 * thickness  # both lie on the ground
