"""The execution plans of the deformable solver give the same, the tape gives the adjoint, and the longest stable step is one."""

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for, solid_body
from tests.reference.devices import taichi_gradients
from tests.reference.taichi_arrays import taichi_array, taichi_zeros
from ti_sim import Checkpoint, DeformableTape, StoreAll, Tape, UserError, stable_step
from ti_sim.base import parallel
from ti_sim.base.launcher import Launcher
from ti_sim.base.parallel import ThreadTuner, thread_count
from ti_sim.base.runtime import require, ti
from ti_sim.base.teams import cpu_team
from ti_sim.deformable import element_plan
from ti_sim.deformable import solver as solver_module
from ti_sim.deformable.bending import bending_edges
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.single_state import ForceDerivative
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets, sheet_grid

NAMES = tuple(field.name for field in fields(DeformableInputs))
FRAMES = 2


def block_and_sheet(*, worlds: int = 2) -> tuple[DeformableModel, DeformableInputs]:
    """A block of tetrahedra on the ground, a sheet, springs between both; held and loaded particles."""
    draw = np.random.default_rng(0)
    block, sheet = box_tets((0.4, 0.4, 0.4), (2, 1, 1)), sheet_grid((0.4, 0.4), (2, 2))
    first, count = len(block.vertices), len(block.vertices) + len(sheet.vertices)
    triangles = sheet.triangles + first
    model = DeformableModel(
        particle_rest=np.concatenate([block.vertices, sheet.vertices + (0, 0, 0.5)]),
        tet_indices=block.indices,
        tri_indices=triangles,
        tri_normal=np.zeros((len(triangles), 3)),
        edge_indices=bending_edges(triangles),
        spring_indices=np.array([[0, first], [3, first + 4]]),
        fixed=np.array([first]),
        prescribed=np.array([first + 2]),
        loaded=np.array([first + 5, 1]),
        contact=np.arange(count),
        ground_height=-0.19,
    )
    b = worlds
    inputs = inputs_for(
        model,
        worlds=b,
        frames=FRAMES,
        particle_q0=model.particle_rest + draw.uniform(-0.02, 0.02, (b, count, 3)),
        particle_qd0=draw.normal(size=(b, count, 3)),
        particle_mass=draw.uniform(0.01, 0.02, (b, count)),
        particle_contact=(100.0, 1.0, 1.0, 0.4),
        solid_material=(1e3, 1e3, 1.0),
        solid_actuation=draw.uniform(-0.1, 0.1, (b, FRAMES, model.solid_count)),
        tri_material=(20.0, 20.0, 0.1, 0.2, 0.2),
        edge_material=(0.01, 0.001, 0.1),
        spring_material=(10.0, 0.1, 0.3),
        gravity=(0.0, 0.0, -9.81),
        wind=(1.0, 2.0, 0.0),
        load=draw.normal(size=(b, FRAMES, 2, 3)),
        prescribed_qd=draw.normal(size=(b, FRAMES, 1, 3)),
    )
    return model, inputs


def on_cpu() -> bool:
    return require().device == "cpu"


def assert_same(one: np.ndarray, other: np.ndarray) -> None:
    """The same bits; on a GPU, where sums of atomics come in any order, the same to rounding."""
    np.testing.assert_allclose(one, other, rtol=0, atol=0 if on_cpu() else 1e-12 * np.abs(one).max())


def run(
    model: DeformableModel, inputs: DeformableInputs, plan: str, adjoint: StoreAll | Checkpoint
) -> dict[str, np.ndarray]:
    """Frames and adjoints of a random linear functional of them."""
    solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=7, plan=plan))
    rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
    draw = np.random.default_rng(1)
    bars = solver.rollout_adjoint(rollout, draw.normal(size=rollout.particle_q.shape), draw.normal(size=rollout.particle_q.shape))
    frames = {"particle_q": rollout.particle_q, "particle_qd": rollout.particle_qd}
    return frames | {name: getattr(bars, name) for name in NAMES}


@pytest.mark.threads
@pytest.mark.parametrize("copies", [0, 3])
def test_both_plans_give_the_same(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_plan, "copy_count", lambda: copies if on_cpu() else 0)  # copies are for threads of a CPU
    model, inputs = block_and_sheet()
    wanted = run(model, inputs, "world", StoreAll())
    assert all(np.any(wanted[name]) for name in NAMES if name != "self_contact")
    for adjoint in (StoreAll(), Checkpoint(4)):
        found = run(model, inputs, "element", adjoint)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-12 * np.abs(array).max(), err_msg=name)


@pytest.mark.threads
@pytest.mark.parametrize("groups", [1, 2])
def test_slots_by_groups_of_worlds_give_the_same(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU runs it, in blocks (a group for each world) and in a grid (one group for all worlds).

    There are 400 tetrahedra and at most 256 threads in a block, so that a thread takes several elements.
    """
    if on_cpu():
        monkeypatch.setattr(element_plan, "copy_count", lambda: 0)
        size = max(thread_count() // groups, 1)
        monkeypatch.setattr(solver_module, "element_team", lambda *_: cpu_team(groups, size))
        monkeypatch.setattr(element_plan, "threads_per_world", lambda _: size)
    model, inputs = solid_body(box_tets((0.4, 0.3, 0.3), (4, 4, 5)), frames=FRAMES, worlds=2)
    draw = np.random.default_rng(0)
    inputs.particle_q0[...] += draw.uniform(-0.01, 0.01, inputs.particle_q0.shape)
    inputs.particle_qd0[...] += draw.normal(size=inputs.particle_qd0.shape)
    wanted = run(model, inputs, "world", StoreAll())
    assert np.any(wanted["solid_material"]) and np.any(wanted["particle_mass"])
    for adjoint in (StoreAll(), Checkpoint(4)):
        found = run(model, inputs, "element", adjoint)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-12 * np.abs(array).max(initial=0), err_msg=name)


@pytest.mark.threads
def test_element_plan_repeats_itself_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    if on_cpu():
        monkeypatch.setattr(element_plan, "copy_count", lambda: 3)
    model, inputs = block_and_sheet()
    once, twice = (run(model, inputs, "element", StoreAll()) for _ in range(2))
    for name, array in once.items():
        assert_same(array, twice[name])


@pytest.mark.threads
def test_a_team_gives_what_one_thread_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts and the order of their sums are the same, so that the choice of threads changes no bit."""
    if on_cpu():
        monkeypatch.setattr(element_plan, "copy_count", lambda: 2)
    model, inputs = block_and_sheet(worlds=1)
    found = []
    for threads in sorted({1, min(2, thread_count())}) if on_cpu() else (1, 1):  # a GPU has no teams
        monkeypatch.setattr(element_plan, "threads_per_world", lambda worlds, threads=threads: threads)
        found.append(run(model, inputs, "element", StoreAll()))
    for name, array in found[0].items():
        assert_same(array, found[-1][name])


def test_pace_takes_every_step_once_and_keeps_to_the_faster_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, clock = [], [0.0]
    monkeypatch.setattr(parallel.time, "perf_counter", lambda: clock[0])

    def launch(threads: int, first: int, count: int) -> None:
        calls.append((threads, first, count))
        clock[0] += 1e-4 * count * (4 if threads > 1 else 1)  # a team that waits for a busy core

    ThreadTuner(2).run(launch, 400)
    assert [first for _, first, _ in calls] == np.cumsum([0] + [count for _, _, count in calls[:-1]]).tolist()
    assert sum(count for _, _, count in calls) == 400
    assert calls[0][0] == 2 and sum(count for threads, _, count in calls if threads == 1) > 300


def test_plan_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_module, "thread_count", lambda: 2)
    for cells, one_world in ((3, "world"), (9, "element")):
        model = solid_body(box_tets((1.0, 1.0, 1.0), (cells, cells, cells)))[0]
        solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=1))
        assert (solver.plan(1), solver.plan(8)) == ((one_world, "world") if on_cpu() else ("element", "element"))
    assert DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=1, plan="world")).plan(1) == "world"


@taichi_gradients
def test_tape_gives_the_adjoint_twice() -> None:
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0]]), spring_indices=np.array([[0, 1]]), fixed=np.array([0])
    )
    inputs = inputs_for(model, frames=FRAMES, spring_material=(10.0, 0.1, 0.9), gravity=(0, 0, -9.81))
    solver = DeformableSolver(model, DeformableSettings(dt=1e-2, substeps=5))
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    wanted = solver.rollout_adjoint(rollout, np.ones_like(rollout.particle_q), np.ones_like(rollout.particle_qd))

    arrays = DeformableInputs(*(taichi_array(array, needs_grad=True) if array.size else array for array in inputs.arrays()))
    frames = [taichi_zeros(*rollout.particle_q.shape) for _ in range(2)]
    loss = taichi_zeros(1)
    call = DeformableTape(solver, FRAMES)
    for _ in range(2):
        with Tape(loss):
            call(arrays, *frames)
            add_all(frames[0], frames[1], loss)
        assert loss[0] == pytest.approx((rollout.particle_q + rollout.particle_qd).sum(), rel=1e-12)
        for name in ("particle_q0", "particle_mass", "spring_material", "gravity"):
            np.testing.assert_allclose(getattr(arrays, name).grad.to_numpy(), getattr(wanted, name), rtol=1e-12)


@ti.kernel
def add_all(particle_q: ti.types.ndarray(), particle_qd: ti.types.ndarray(), loss: ti.types.ndarray()):
    """loss += the sum of all entries."""
    for index in ti.grouped(particle_q):
        loss[0] += particle_q[index] + particle_qd[index]


def test_stable_step_is_that_of_the_largest_eigenvalue() -> None:
    model, inputs = solid_body(box_tets((1.0, 0.5, 0.5), (3, 2, 2)), young=1e4, damping=0.0, elements={"fixed": np.array([0, 5])})
    p = model.particle_count
    worlds = inputs_for(model, worlds=3 * p, solid_material=inputs.solid_material[0])
    products = ForceDerivative(model, worlds, worlds.particle_q0, worlds.particle_qd0).transposed(
        np.eye(3 * p).reshape(3 * p, p, 3)
    )
    free = np.repeat(model.particle_table[:, 0] == 0, 3)
    root = np.where(free, 1 / np.sqrt(np.repeat(inputs.particle_mass[0], 3)), 0)
    stiffness = -products[..., :3].reshape(3 * p, 3 * p)
    np.testing.assert_allclose(stiffness, stiffness.T, atol=1e-9 * np.abs(stiffness).max())
    omega = np.sqrt(np.linalg.eigvalsh(root[:, None] * stiffness * root)[-1])
    limit = stable_step(model, inputs)
    assert limit == pytest.approx(2 / omega, rel=1e-3)
    damped = replace(inputs, solid_material=inputs.solid_material + (0, 0, 200.0))
    assert stable_step(model, damped) < 0.9 * limit

    push = np.random.default_rng(0).normal(size=inputs.particle_q0.shape)
    for case, factor in ((inputs, 0.98), (inputs, 1.02), (damped, 0.98), (damped, 1.2)):
        still = replace(case, gravity=0 * case.gravity, particle_q0=case.particle_q0 + 1e-7 * push)
        settings = DeformableSettings(dt=factor * stable_step(model, case), substeps=1500, plan="world")
        rollout = DeformableSolver(model, settings).rollout(still, 1)
        away = np.abs(rollout.particle_q[0, -1] - model.particle_rest).max()
        assert away < 1e-4 if factor < 1 else rollout.diverged_step[0] > 0


def test_stable_step_of_contact_and_of_nothing() -> None:
    model = DeformableModel(particle_rest=np.zeros((1, 3)), contact=np.array([0]))
    inputs = inputs_for(model, particle_mass=0.25, particle_contact=(100.0, 0, 0, 0.5))
    assert stable_step(model, inputs) == pytest.approx(2 / np.sqrt(100.0 / 0.25), rel=1e-9)
    sticky = inputs_for(model, particle_mass=0.25, particle_contact=(0, 0, 3.0, 0.5))
    assert stable_step(model, sticky) == pytest.approx(2 / (3.0 / 0.25), rel=1e-9)
    assert stable_step(replace(model, contact=np.zeros(0, dtype=int)), inputs) == np.inf


@ti.kernel
def scale_rows(number: int, bar: ti.types.ndarray()):
    """bar *= number."""
    for index in ti.grouped(bar):
        bar[index] = number * bar[index]


def test_launcher() -> None:
    array = np.ones((4, 2, 3))
    launch = Launcher(scale_rows, array)
    launch(3)
    launch(5)
    np.testing.assert_array_equal(array, 15.0)
    with pytest.raises(UserError, match="bar is not contiguous"):
        Launcher(scale_rows, array.transpose(2, 0, 1))
