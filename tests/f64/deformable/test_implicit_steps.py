"""Implicit steps: their equations against plain numpy, orders, frequencies, contact, and steps that do not converge."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tests.reference.deformable import internal_forces
from tests.reference.deformable_cases import everything, inputs_for, solid_body
from tests.reference.implicit import imbalance
from ti_sim import ConvergenceError, ImplicitSettings, StoreAll, UserError
from ti_sim.deformable.implicit import linear
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.single_state import forces
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tet10s, box_tets

TIGHT = ImplicitSettings(tolerance=1e-11, onset=1e-3)
LOADS = np.array([[3.0, 0, 1], [-2.0, 4, 0], [5.0, -3, 2], [0.0, 0, -4]])  # N, of the frames of a swing


def solver_of(
    model: DeformableModel, integrator: str, *, dt: float, substeps: int = 1, settings: ImplicitSettings = TIGHT
) -> DeformableSolver:
    return DeformableSolver(model, DeformableSettings(dt=dt, substeps=substeps, integrator=integrator, implicit=settings))


def tables_of(integrator: str, frames: int) -> list[tuple[float, np.ndarray]]:
    """gamma over h and the weights of the earlier results in the result of each step, written out: (gamma, weights)."""
    if integrator == "backward_euler":
        return [(1.0, np.array([1.0]))] * frames
    return [(2 / 3, np.array([-1 / 3, 4 / 3]))] * frames


def driven_by_bdf2(inputs: DeformableInputs, frame: int) -> DeformableInputs:
    """Inputs whose loads and actuations in a frame are 3/2 of their own less 1/2 of those of the frame before (``driving``)."""
    rows = {}
    for name in ("load", "solid_actuation", "tri_actuation", "edge_actuation"):
        values = getattr(inputs, name).copy()
        values[:, frame] = 1.5 * values[:, frame] - 0.5 * values[:, frame - 1]
        rows[name] = values
    return replace(inputs, **rows)


@pytest.mark.parametrize("integrator", ["backward_euler", "bdf2"])
def test_steps_fulfil_their_equations_in_plain_numpy(integrator: str) -> None:
    """Every family, energy and kind of force, sticking and sliding contact, loads, actuations and held particles."""
    frames, dt = 3, 0.02
    model, inputs = everything(worlds=2, frames=frames)
    model = replace(model, ground_height=0.3)
    rollout = solver_of(model, integrator, dt=dt).rollout(inputs, frames)
    q, qd = rollout.particle_q, rollout.particle_qd
    forces_seen = 0.0
    for frame, (gamma, weights) in enumerate(tables_of(integrator, frames)):
        if frame + 1 < len(weights):
            continue
        given = inputs if integrator == "backward_euler" else driven_by_bdf2(inputs, frame)
        rows = slice(frame + 1 - len(weights), frame + 1)
        hat = tuple(np.einsum("w,bwpk->bpk", weights, array[:, rows]) for array in (q, qd))
        position, force = imbalance(
            model, given, q[:, frame + 1], qd[:, frame + 1], hat, q[:, frame], gamma * dt, frame, TIGHT.onset
        )
        assert np.abs(position).max() < 1e-13 and np.abs(force).max() < 1e-6
        forces_seen = max(forces_seen, np.abs(qd[:, frame + 1] - qd[:, frame]).max() / dt)
    assert forces_seen > 100  # m/s2


def test_stages_of_sdirk2_fulfil_their_equations_in_plain_numpy() -> None:
    dt, gamma = 0.01, 1 - 1 / np.sqrt(2)
    model, inputs = everything(worlds=1, frames=1)
    model = replace(model, ground_height=0.3)
    states = solver_of(model, "sdirk2", dt=dt, substeps=2).rollout(inputs, 1).motion.states
    _first, earlier, start, inside, end = (tuple(np.split(states[:, row], 2, axis=-1)) for row in range(5))
    rates = [(y - x) / (gamma * dt) for x, y in zip(start, inside, strict=True)]
    last = tuple(x + (1 - gamma) * dt * k for x, k in zip(start, rates, strict=True))
    for result, hat, before in ((inside, start, earlier[0]), (end, last, start[0])):
        position, force = imbalance(model, inputs, *result, hat, before, gamma * dt, 0, TIGHT.onset)
        assert np.abs(position).max() < 1e-13 and np.abs(force).max() < 1e-6


def swinging_pair() -> tuple[DeformableModel, DeformableInputs]:
    """Two masses on damped springs, one of which hangs on a wall."""
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0], [1.5, 0.8, 0]]), spring_indices=np.array([[0, 1], [1, 2]]),
        fixed=np.array([0]),
    )  # fmt: skip
    return model, inputs_for(
        model, spring_material=((30.0, 0.2, 0.9), (20.0, 0.1, 0.8)), particle_qd0=((0, 0, 0), (0, 1, 0.5), (1, 0, 0)),
        gravity=(0, 0, -2.0), particle_mass=(1.0, 1.0, 0.7),
    )  # fmt: skip


@cache
def swung(time: float) -> np.ndarray:
    """Their state after a time [6, 3], by scipy and plain numpy."""
    model, inputs = swinging_pair()
    start = np.concatenate([inputs.particle_q0.ravel(), inputs.particle_qd0.ravel()])
    return moved(model, inputs, start, time, np.zeros(3)).reshape(6, 3)


@cache
def pushed() -> np.ndarray:
    """Their state after a quarter of a second under each of ``LOADS`` [6, 3], by scipy and plain numpy."""
    model, inputs = swinging_pair()
    state = np.concatenate([inputs.particle_q0.ravel(), inputs.particle_qd0.ravel()])
    for load in LOADS:
        state = moved(model, inputs, state, 0.25, load)
    return state.reshape(6, 3)


def moved(model: DeformableModel, inputs: DeformableInputs, start: np.ndarray, time: float, load: np.ndarray) -> np.ndarray:
    """State [18] of the pair a time after ``start`` [18] under a force on the last particle, by scipy and plain numpy."""

    def rate(_t: float, y: np.ndarray) -> np.ndarray:
        q, qd = y.reshape(2, 1, 3, 3)
        acceleration = internal_forces(model, inputs, q, qd) / inputs.particle_mass[..., None] + inputs.gravity[:, None]
        acceleration[:, 0] = 0.0
        acceleration[:, 2] += load / inputs.particle_mass[:, 2, None]
        return np.concatenate([qd.ravel(), acceleration.ravel()])

    return solve_ivp(rate, (0.0, time), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]


@pytest.mark.parametrize(("integrator", "order"), [("backward_euler", 1), ("bdf2", 2), ("sdirk2", 2)])
def test_order_of_convergence(integrator: str, order: int) -> None:
    (model, inputs), truth, errors = swinging_pair(), swung(1.0), []
    for steps in (100, 200, 400):
        rollout = solver_of(model, integrator, dt=1 / steps, substeps=steps).rollout(inputs, 1)
        errors.append(np.linalg.norm(np.concatenate([rollout.particle_q[0, 1], rollout.particle_qd[0, 1]]) - truth))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - order) < 0.06), orders


@pytest.mark.parametrize(("integrator", "order"), [("backward_euler", 1), ("bdf2", 2), ("sdirk2", 2)])
def test_order_of_convergence_where_loads_jump_from_frame_to_frame(integrator: str, order: int) -> None:
    model, inputs = swinging_pair()
    model = replace(model, loaded=np.array([2]))
    inputs = replace(repeated(inputs, len(LOADS)), load=LOADS[None, :, None])
    errors = []
    for substeps in (25, 50, 100):
        rollout = solver_of(model, integrator, dt=0.25 / substeps, substeps=substeps).rollout(inputs, len(LOADS))
        end = np.concatenate([rollout.particle_q[0, -1], rollout.particle_qd[0, -1]])
        errors.append(np.linalg.norm(end - pushed()))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - order) < 0.06), orders


@pytest.mark.parametrize(("integrator", "factor"), [("bdf2", 1 / 3), ("sdirk2", 0.0404)])
def test_frequency_of_a_cantilever(integrator: str, factor: float) -> None:
    """At 60 steps a period, the lowest eigenvalue of the discrete cantilever: BDF2 is low by (omega h)^2 / 3 = 0.37 %."""
    model, inputs = cantilever()
    frequency, shape = lowest_mode(model, inputs)
    steps, periods = 60, 6
    dt = 2 * np.pi / frequency / steps
    inputs = replace(inputs, particle_q0=inputs.particle_q0 + 1e-6 * shape / np.abs(shape).max())
    rollout = solver_of(model, integrator, dt=dt, substeps=1).rollout(repeated(inputs, steps * periods), steps * periods)
    signal = np.einsum("fpk,pk->f", rollout.particle_q[0] - model.particle_rest, mass_weighted(inputs, shape))
    found = frequency_of(signal) / dt
    assert found / frequency - 1 == pytest.approx(-factor * (2 * np.pi / steps) ** 2, rel=0.05)


def cantilever() -> tuple[DeformableModel, DeformableInputs]:
    mesh = box_tet10s((0.5, 0.05, 0.05), (5, 1, 1))
    left = np.flatnonzero(mesh.vertices[:, 0] < mesh.vertices[:, 0].min() + 1e-9)
    return solid_body(mesh, young=1e6, elements={"fixed": left})


def lowest_mode(model: DeformableModel, inputs: DeformableInputs) -> tuple[float, np.ndarray]:
    """Angular frequency [rad/s] and shape [P, 3] of the lowest mode, from differences of the explicit forces."""
    free = np.setdiff1d(np.arange(model.particle_count), model.fixed)
    rest, still, h = inputs.particle_q0, np.zeros_like(inputs.particle_q0), 1e-7
    columns = []
    for p in free:
        for k in range(3):
            ends = []
            for sign in (1, -1):
                moved = rest.copy()
                moved[0, p, k] += sign * h
                ends.append(forces(model, inputs, moved, still)[0, free].ravel())
            columns.append((ends[0] - ends[1]) / (2 * h))
    root = np.repeat(1 / np.sqrt(inputs.particle_mass[0, free]), 3)
    values, vectors = np.linalg.eigh(-root[:, None] * np.array(columns) * root)
    shape = np.zeros((model.particle_count, 3))
    shape[free] = (root * vectors[:, 0]).reshape(-1, 3)
    return float(np.sqrt(values[0])), shape


def mass_weighted(inputs: DeformableInputs, shape: np.ndarray) -> np.ndarray:
    return inputs.particle_mass[0][:, None] * shape


def frequency_of(signal: np.ndarray) -> float:
    """Angular frequency per sample of a slowly decaying oscillation, from the first and the last upward crossing of zero."""
    up = np.flatnonzero((signal[:-1] < 0) & (signal[1:] >= 0))
    times = up + signal[up] / (signal[up] - signal[up + 1])
    return 2 * np.pi * (len(times) - 1) / (times[-1] - times[0])


def repeated(inputs: DeformableInputs, frames: int) -> DeformableInputs:
    """The inputs with their first frame interval ``frames`` times."""
    return replace(
        inputs,
        **{
            name: np.ascontiguousarray(np.repeat(getattr(inputs, name)[:, :1], frames, axis=1))
            for name in ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
        },
    )


def test_free_fall_and_held_particles() -> None:
    """Without forces that change, second-order steps are exact; held particles go where they are told."""
    model = DeformableModel(particle_rest=np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), fixed=[1], prescribed=[2])
    inputs = inputs_for(
        model, frames=3, gravity=(0, 0, -10.0), particle_qd0=((1.0, 0, 2.0), (0, 0, 0), (0, 0, 0)),
        prescribed_qd=(((1.0, 0, 0),), ((0, 2.0, 0),), ((0, 0, 0.5),)),
    )  # fmt: skip
    for integrator in ("bdf2", "sdirk2"):
        rollout = solver_of(model, integrator, dt=0.1, substeps=2).rollout(inputs, 3)
        t = 0.2 * np.arange(4)
        np.testing.assert_allclose(rollout.particle_q[0, :, 0], np.stack([t, 0 * t, 2 * t - 5 * t * t], 1), atol=1e-12)
        np.testing.assert_array_equal(rollout.particle_q[0, :, 1], np.tile((1.0, 0, 0), (4, 1)))
        np.testing.assert_allclose(rollout.particle_q[0, 3, 2], (2.2, 0.4, 0.1), atol=1e-12)
        np.testing.assert_array_equal(rollout.particle_qd[0, 3, 2], (0, 0, 0.5))


def bent_strip(damping: float) -> tuple[DeformableModel, DeformableInputs]:
    """A thin strip of plastic that falls into its clamp: stretching is a million times as stiff as bending."""
    mesh = box_tet10s((0.3, 0.1, 0.002), (8, 2, 1))
    left = np.flatnonzero(mesh.vertices[:, 0] < mesh.vertices[:, 0].min() + 1e-9)
    return solid_body(mesh, young=1e9, damping=damping, elements={"fixed": left}, gravity=(0.0, 0.0, -9.81))


@pytest.mark.parametrize("damping", [0.0, 1e6])
def test_a_thin_strip_has_converged_where_its_steps_say_so(damping: float) -> None:
    """The residual is of stretching, and damping makes the Jacobian far from symmetric: neither may end a step early."""
    model, inputs = bent_strip(damping)
    inputs, ends = repeated(inputs, 6), []
    for tolerance in (1e-4, 1e-6, 1e-11):
        solver = solver_of(model, "sdirk2", dt=1 / 60, settings=ImplicitSettings(tolerance=tolerance))
        rollout = solver.rollout(inputs, 6)
        assert (rollout.diverged_step == -1).all()
        ends.append(rollout.particle_qd[0, -1])
    assert np.abs(ends[2]).max() > 0.3  # m/s
    for end, tolerance in zip(ends, (1e-4, 1e-6), strict=False):
        assert np.abs(end - ends[2]).max() < 10 * tolerance


def sliding(speed: float, push: float, *, kf: float = 1e4) -> DeformableRollout:
    """A particle of 1 kg on the ground with friction .4, pushed with a horizontal force, 40 frames of 10 ms."""
    model = DeformableModel(particle_rest=np.zeros((1, 3)), contact=[0], loaded=[0])
    inputs = inputs_for(
        model, frames=40, gravity=(0, 0, -10.0), particle_qd0=(speed, 0, 0), particle_contact=(1e5, 100.0, kf, 0.4),
        particle_q0=(0, 0, -1e-4), load=(push, 0, 0),
    )  # fmt: skip
    return solver_of(model, "sdirk2", dt=0.01, settings=ImplicitSettings(tolerance=1e-9)).rollout(inputs, 40)


def test_friction_stops_and_holds() -> None:
    """mu g slows a sliding body down (v^2 / (2 mu g) to rest); below mu m g it creeps at the speed that kf allows."""
    slid = sliding(1.0, 0.0)
    assert slid.particle_q[0, -1, 0, 0] == pytest.approx(1 / 8, rel=2e-3)
    assert abs(slid.particle_qd[0, -1, 0, 0]) < 1e-6
    held = sliding(0.0, 1.0)
    assert held.particle_qd[0, -1, 0, 0] == pytest.approx(1.0 / 1e4, rel=1e-6)
    pushed = sliding(0.0, 6.0)
    assert pushed.particle_qd[0, -1, 0, 0] == pytest.approx(2.0 * 0.4, rel=1e-2)
    assert slid.particle_q[0, -1, 0, 2] == pytest.approx(-1e-4, abs=1e-9)  # it rests where ke depth is its weight


def test_a_stiff_block_lands_and_rests() -> None:
    """E of 1e9 Pa at 10 ms: some thousand times the longest explicit step."""
    mesh = box_tets((0.2, 0.2, 0.2), (2, 2, 2))
    model, inputs = solid_body(mesh, young=1e9, elements={"contact": np.arange(len(mesh.vertices))}, gravity=(0, 0, -9.81))
    lift = inputs.particle_q0 - [0, 0, inputs.particle_q0[..., 2].min() - 0.01]
    contact = np.broadcast_to((1e5, 1e3, 1e3, 0.5), inputs.particle_contact.shape).copy()
    inputs = repeated(replace(inputs, particle_q0=lift, particle_contact=contact), 100)
    rollout = solver_of(model, "bdf2", dt=0.01, settings=ImplicitSettings()).rollout(inputs, 100)
    weight, bottom = 9.81 * inputs.particle_mass.sum(), np.isclose(lift[0, :, 2], 0.01)
    depth = -rollout.particle_q[0, -1, bottom, 2]
    assert 1e5 * depth.sum() == pytest.approx(weight, rel=1e-3)
    assert np.abs(rollout.particle_qd[0, -1]).max() < 1e-4


def test_conjugate_gradients_find_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = everything(worlds=1, frames=2)
    model = replace(model, ground_height=0.3)
    solver = solver_of(model, "bdf2", dt=0.02)
    wanted = solver.rollout(inputs, 2, adjoint=StoreAll())
    ones = np.ones_like(wanted.particle_q)
    wanted_bars = solver.rollout_adjoint(wanted, ones, ones)
    monkeypatch.setattr(linear, "_MAX_FACTOR_SIZE", 0.0)
    found = solver.rollout(inputs, 2, adjoint=StoreAll())
    np.testing.assert_allclose(found.particle_q, wanted.particle_q, atol=1e-9)
    for one, other in zip(solver.rollout_adjoint(found, ones, ones).arrays(), wanted_bars.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_worlds_do_not_depend_on_each_other() -> None:
    model, inputs = everything(worlds=3, frames=2)
    solver = solver_of(model, "bdf2", dt=0.02)
    rollout = solver.rollout(inputs, 2, adjoint=StoreAll())
    bar = np.random.default_rng(0).normal(size=rollout.particle_q.shape)
    bars = solver.rollout_adjoint(rollout, bar, bar)
    for b in range(3):
        single = inputs.with_arrays(np.ascontiguousarray(each[b : b + 1]) for each in inputs.arrays())
        alone = solver.rollout(single, 2, adjoint=StoreAll())
        np.testing.assert_array_equal(alone.particle_q[0], rollout.particle_q[b])
        own = np.ascontiguousarray(bar[b : b + 1])
        for one, every in zip(solver.rollout_adjoint(alone, own, own).arrays(), bars.arrays(), strict=True):
            np.testing.assert_array_equal(one[0], every[b])


def test_a_world_that_does_not_converge_is_named_and_the_others_go_on() -> None:
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0]]), spring_indices=np.array([[0, 1]]), fixed=np.array([0]),
        parts=(("wall", 0, 1), ("weight", 1, 2)),
    )  # fmt: skip
    inputs = inputs_for(model, worlds=2, frames=4, spring_material=(100.0, 0, 0.9))
    inputs.particle_qd0[1, 1] = (0.0, 30.0, 0)
    solver = solver_of(model, "backward_euler", dt=0.05, settings=ImplicitSettings(iterations=1))
    inputs.particle_qd0[0, 1] = 0.0
    inputs.spring_material[0, 0, 2] = 1.0
    inputs.gravity[0] = 0.0
    inputs.gravity[1] = (20.0, 0, -10.0)  # across the spring: its force is not linear in the step
    rollout = solver.rollout(inputs, 4, adjoint=StoreAll())
    step = int(rollout.diverged_step[1])
    assert rollout.diverged_step[0] == -1 and step > 0 and rollout.diverged_particle[1] == 1
    assert np.isfinite(rollout.particle_q[0]).all() and np.isfinite(rollout.particle_q[1, :step]).all()
    assert np.isnan(rollout.particle_q[1, step:]).all()
    bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.particle_q), np.ones_like(rollout.particle_qd))
    for array in bars.arrays():
        assert np.isfinite(array[0]).all() and np.isnan(array[1]).all()
    solver.check_divergence(rollout)  # one world is left
    lost = inputs.with_arrays(np.ascontiguousarray(array[1:]) for array in inputs.arrays())
    with pytest.raises(ConvergenceError, match=rf"step {step} .* left a residual of .* N at particle 0 of 'weight'") as error:
        solver.check_divergence(solver.rollout(lost, 4))
    assert error.value.step == step and error.value.body == "weight"


def test_refusals() -> None:
    triangles = np.array([[0, 1, 2]])
    model = DeformableModel(
        particle_rest=np.eye(3), tri_indices=triangles, tri_normal=np.zeros((1, 3)), contact_triangles=triangles,
        self_thickness=0.01,
    )  # fmt: skip
    with pytest.raises(UserError, match="self-contact needs integrator='semi_implicit'"):
        solver_of(model, "bdf2", dt=0.01).rollout(inputs_for(model), 1)
    with pytest.raises(UserError, match="plan 'world' is only for explicit steps"):
        DeformableSettings(dt=0.1, substeps=1, plan="world", integrator="bdf2")
    with pytest.raises(UserError, match="integrator 'rk4' is unknown: choose 'semi_implicit', 'backward_euler'"):
        DeformableSettings(dt=0.1, substeps=1, integrator="rk4")
    with pytest.raises(UserError, match="tolerance"):
        ImplicitSettings(tolerance=0.0)
