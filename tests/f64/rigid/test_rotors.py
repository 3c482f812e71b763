"""Wrenches and drag of rigid bodies, the region that bodies may be in, and the rotors of scenes."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import Box, Param, Scene, load_scene
from risp_torch.inversion.gradients import check_torch
from tests.reference import numpy_rigid
from tests.reference.rigid_cases import DRIVEN_NAMES, GRAVITY, PAIR_MODEL, driven, one_body, pair, stacked, world
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.gradcheck import gradcheck
from ti_sim.rigid.model import RigidInputs, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world")]
DT, SUBSTEPS, FRAMES = 5e-4, 4, 5
STEPS = {
    "body_q0": 1e-7, "body_qd0": 1e-6, "body_mass": 1e-6, "body_inertia": 1e-9, "body_contact": 1e-6, "gravity": 3e-5,
    "body_force": 1e-5, "force_point": 1e-6, "body_wrench": 1e-5, "body_drag": 1e-5,
}  # fmt: skip


def settings(integrator: str, plan: str = "world", **others: float) -> RigidSettings:
    return RigidSettings(dt=DT, substeps=SUBSTEPS, integrator=integrator, plan=plan, **others)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("regime", ["flight", "impact"])
def test_frames_are_those_of_the_equations(regime: str, integrator: str, plan: str) -> None:
    model, inputs = driven(PAIR_MODEL, pair(regime), frames=FRAMES + 2)
    solver = RigidSolver(model, settings(integrator, plan))
    wanted = numpy_rigid.rollout(model, solver.settings, inputs, FRAMES)
    rollout = solver.rollout(inputs, FRAMES)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10)
    still = RigidSolver(PAIR_MODEL, solver.settings).rollout(pair(regime), FRAMES)
    assert np.abs(still.body_qd - rollout.body_qd).max() > 1e-2


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=8)], ids=["store", "checkpoint"])
@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_adjoint_of_every_input(integrator: str, plan: str, adjoint: StoreAll | Checkpoint) -> None:
    """In flight with an applied force; contact together with wrenches is compared between the plans below."""
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=FRAMES + 1)
    inputs = stacked([world(inputs, 0), world(inputs, 2)])
    solver = RigidSolver(model, settings(integrator, plan))
    rng = np.random.default_rng(7)
    weights = rng.standard_normal((2, FRAMES + 1, 2, 7)), rng.standard_normal((2, FRAMES + 1, 2, 6))

    def loss(at: dict[str, np.ndarray]) -> float:
        rollout = solver.rollout(RigidInputs(**at), FRAMES)
        return float(np.sum(weights[0] * rollout.body_q) + np.sum(weights[1] * rollout.body_qd))

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        rollout = solver.rollout(RigidInputs(**at), FRAMES, adjoint=adjoint)
        bars = solver.rollout_adjoint(rollout, *weights)
        return loss(at), dict(zip(DRIVEN_NAMES, bars.arrays(), strict=True))

    point = dict(zip(DRIVEN_NAMES, inputs.arrays(), strict=True))
    few = 5 if plan == "element" else 16  # entries of each input
    report = gradcheck(loss_and_gradient, point, loss=loss, step=STEPS, rtol=1e-5, floor=1e-4, max_entries=few)
    report.raise_if_wrong()
    assert {entry.name for entry in report.entries if entry.status == "ok"} == set(DRIVEN_NAMES) - {"body_contact"}
    assert (loss_and_gradient(point)[1]["body_wrench"][:, FRAMES:] == 0).all()  # of an interval that is not simulated


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=8)], ids=["store", "checkpoint"])
def test_plans_agree_in_contact(adjoint: StoreAll | Checkpoint) -> None:
    model, inputs = driven(PAIR_MODEL, pair("impact"), frames=FRAMES)
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((3, FRAMES + 1, 2, 7)), rng.standard_normal((3, FRAMES + 1, 2, 6))
    bars = []
    for plan in ("world", "element"):
        solver = RigidSolver(model, settings("semi_implicit", plan))
        bars.append(solver.rollout_adjoint(solver.rollout(inputs, FRAMES, adjoint=adjoint), *weights))
    for name, one, other in zip(DRIVEN_NAMES, bars[0].arrays(), bars[1].arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max(), err_msg=name)
        assert np.abs(one).max() > 0, name


# --- closed forms ------------------------------------------------------------------------------------------------------


def fly(
    integrator: str, *, frames: int, wrench: tuple[float, ...] = (0.0,) * 6, drag: tuple[float, float] = (0.0, 0.0),
    inertia: tuple[float, float, float] = (0.4, 0.4, 0.4), **body: object,
) -> RigidRollout:  # fmt: skip
    """A free body of 2 kg with one wrench through all frames, which are 0.02 s apart."""
    model, inputs = one_body(np.zeros((0, 3)), mass=2.0, inertia=np.diag(inertia), **body)
    model = replace(model, driven=True)
    inputs = replace(inputs, body_wrench=np.tile(wrench, (1, frames, 1, 1)), body_drag=np.array([[drag]]))
    return RigidSolver(model, RigidSettings(dt=5e-3, substeps=4, integrator=integrator)).rollout(inputs, frames)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_drag_slows_exponentially(integrator: str) -> None:
    frames, drag = 50, (0.6, 0.3)
    rollout = fly(integrator, frames=frames, drag=drag, gravity=0.0, velocity=(1.0, -2.0, 0.5), spin=(0.3, 0.2, -1.0))
    time = 0.02 * np.arange(frames + 1)[:, None]
    for part, rate in ((slice(0, 3), drag[0] / 2.0), (slice(3, 6), drag[1] / 0.4)):
        per_frame = (1.0 - 5e-3 * rate) ** 4 if integrator == "semi_implicit" else math.exp(-0.02 * rate)
        wanted = rollout.body_qd[0, 0, 0, part] * per_frame ** (time / 0.02)
        np.testing.assert_allclose(rollout.body_qd[0, :, 0, part], wanted, rtol=1e-9)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_terminal_velocity(integrator: str) -> None:
    terminal = 2.0 * GRAVITY / 8.0  # m g / d
    rollout = fly(integrator, frames=400, drag=(8.0, 0.0))
    fall = -rollout.body_qd[0, :, 0, 2]
    assert (np.diff(fall)[:200] > 0).all() and fall.max() < terminal * (1 + 1e-12)
    np.testing.assert_allclose(fall[-1], terminal, rtol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_torque_about_a_principal_axis(axis: int) -> None:
    """w = t torque / I and an angle of t^2 torque / (2 I) about the axis, which stays where it is; the body falls freely."""
    inertia = (0.3, 0.5, 0.7)
    wrench = np.zeros(6)
    wrench[3 + axis] = 0.2
    rollout = fly("rk4", frames=30, wrench=tuple(wrench), inertia=inertia)
    time = 0.02 * np.arange(31)
    spin = np.zeros((31, 3))
    spin[:, axis] = 0.2 / inertia[axis] * time
    np.testing.assert_allclose(rollout.body_qd[0, :, 0, 3:], spin, rtol=0, atol=1e-12)
    half = 0.25 * 0.2 / inertia[axis] * time**2
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 3 + axis], np.sin(half), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 6], np.cos(half), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 2], -0.5 * GRAVITY * time**2, rtol=0, atol=1e-12)


# --- the region --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_a_body_that_leaves_the_region_ends_its_world_alone(integrator: str, plan: str) -> None:
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=FRAMES)
    inputs.body_q0[1, 1, :3], inputs.body_qd0[1, 1, :3] = (0.0, 49.9985, 0.0), (0.0, 1.0, 0.0)
    nothing = {name: np.zeros_like(getattr(inputs, name)) for name in ("body_force", "body_wrench", "body_drag")}
    inputs = replace(inputs, **nothing)
    solver = RigidSolver(model, settings(integrator, plan, max_distance=50.0))
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    step = rollout.diverged_step[1, 1]  # 1.5 mm to go at 0.5 mm a step
    assert 3 <= step <= 5 and rollout.diverged_step.tolist() == [[-1, -1], [-1, step], [-1, -1]]
    assert rollout.left_region.tolist() == [[False, False], [False, True], [False, False]]
    assert np.isnan(rollout.body_q[1, 2:, 1]).all() and np.isfinite(rollout.body_q[1, :, 0]).all()
    solver.check_divergence(rollout)  # two worlds go on: no error
    free = RigidSolver(model, settings(integrator, plan)).rollout(inputs, FRAMES)
    np.testing.assert_array_equal(rollout.body_q[[0, 2]], free.body_q[[0, 2]])
    bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.body_q), np.ones_like(rollout.body_qd))
    assert np.isnan(bars.body_q0[1]).all() and np.isfinite(bars.body_q0[[0, 2]]).all()
    alone = world(inputs, 1)
    with pytest.raises(DivergenceError, match=rf"'brick' left the region .*farther than 50 m .*step {step}\b") as caught:
        solver.check_divergence(solver.rollout(alone, FRAMES))
    assert (caught.value.body, caught.value.step) == ("brick", step) and "finite" not in str(caught.value)


def test_numbers_that_are_not_finite_are_still_called_so() -> None:
    inputs = world(pair("flight"), 0)
    inputs.body_qd0[0, 0, 4] = np.nan
    solver = RigidSolver(PAIR_MODEL, settings("semi_implicit", max_distance=50.0))
    with pytest.raises(DivergenceError, match="'box' stopped being finite"):
        solver.check_divergence(solver.rollout(inputs, 2))


# --- scenes ------------------------------------------------------------------------------------------------------------

BOX = Box(0.4, 0.3, 0.1)
PLACES = np.array([(0.2, 0.15, 0.0), (-0.2, 0.15, 0.0), (-0.2, -0.15, 0.0), (0.2, -0.15, 0.0)])
REACTION = 0.02 * np.array([1.0, -1.0, 1.0, -1.0])


def make_scene(*, frames: int = 4, actions: object = 0.75 * GRAVITY, limit: float = 500.0, **options: object) -> Scene:
    """A flying slab of 3 kg with four rotors; 0.75 g N each let it hover."""
    scene = Scene(frame_dt=0.02, frames=frames, substeps=3, **options)
    scene.add_rigid("slab", shape=BOX, mass=3.0, inertia_per_mass=np.diag([0.01, 0.012, 0.018]))
    scene.add_rotors("rotors", body="slab", positions=PLACES, yaw_reaction=REACTION, actions=actions, limit=limit)
    return scene


def test_hovering_stays() -> None:
    states = make_scene(frames=50).rollout()
    still = torch.tensor([0.0, 0, 0, 0, 0, 0, 1], dtype=torch.float64)
    torch.testing.assert_close(states.body_q[0, :, 0], still.expand(51, 7), rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", ["roll", "pitch", "yaw"])
def test_thrust_differences_turn_the_body(axis: str) -> None:
    """w = t torque / I from the arms, or from the reaction of the rotors that turn one way, without a net force."""
    signs = {"roll": (1, 1, -1, -1), "pitch": (-1, 1, 1, -1), "yaw": (1, -1, 1, -1)}[axis]
    per_newton = {"roll": 4 * 0.15, "pitch": 4 * 0.2, "yaw": 4 * 0.02}[axis]
    number = ["roll", "pitch", "yaw"].index(axis)
    states = make_scene(actions=0.75 * GRAVITY + 0.1 * np.array(signs)).rollout()
    spin = 0.1 * per_newton / (3.0 * (0.01, 0.012, 0.018)[number]) * 0.02 * np.arange(5)
    np.testing.assert_allclose(states.body_qd[0, :, 0, 3 + number], spin, rtol=1e-12)
    assert states.body_qd[0, -1, 0, 2].abs() < 1e-3


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_gradients_of_a_flight(integrator: str) -> None:
    scene = Scene(frame_dt=0.02, frames=3, substeps=2, integrator=integrator)
    scene.add_rigid(
        "slab", shape=BOX, mass=3.0, inertia_per_mass=np.diag([0.01, 0.012, 0.018]), linear_drag=0.4,
        angular_drag=0.02, velocity=(0.5, -0.2, 0.1), angular_velocity=(0.3, -0.4, 0.5),
    )  # fmt: skip
    rng = np.random.default_rng(4)
    thrusts = 0.75 * GRAVITY * rng.uniform(0.5, 1.5, (3, 4))
    scene.add_rotors("rotors", body="slab", positions=PLACES, yaw_reaction=REACTION, actions=thrusts, limit=20.0)
    scene.add_rotors("tail", body="slab", positions=[(0.1, 0, 0.2)], axis=(0, 2, 0), actions=1.5)
    names = [name for name in scene.parameters if name.startswith(("slab.", "rotors.", "tail."))]
    names = [name for name in names if not name.endswith(("color", "position", "rotation"))]
    weight = torch.as_tensor(rng.standard_normal((4, 13)))

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        states = scene.rollout(values)
        return (weight * torch.cat([states.body_q, states.body_qd], dim=-1)[0, :, 0]).sum()

    point = {name: np.asarray(scene.parameters[name].value) for name in names}
    report = check_torch(loss, point, step=1e-6, rtol=1e-6, floor=1e-3, max_entries=12)
    report.raise_if_wrong()
    seen = {entry.name for entry in report.entries if entry.status == "ok"}
    assert seen == set(names)


def test_thrusts_beyond_the_limit_are_clipped_and_have_no_gradient() -> None:
    actions = torch.full((1, 4, 4), 0.75 * GRAVITY, dtype=torch.float64)
    actions[0, 1, 2], actions[0, 2, 0] = 11.0, -40.0
    actions.requires_grad_()
    scene = make_scene(limit=10.0)
    states = scene.rollout(actions=actions)
    (slope,) = torch.autograd.grad(states.body_q[0, -1, 0, :3].sum(), actions)
    clipped = torch.zeros_like(slope, dtype=torch.bool)
    clipped[0, 1, 2] = clipped[0, 2, 0] = True
    assert (slope[clipped] == 0).all() and (slope[~clipped] != 0).all()
    at_limit = scene.rollout(actions=actions.detach().clamp(-10.0, 10.0))
    assert torch.equal(states.body_q, at_limit.body_q)


def test_actions_replace_those_of_the_scene() -> None:
    scene = make_scene()
    scene.add_rotors("tail", body="slab", positions=[(-0.3, 0, 0)], axis=(0, 1, 0), actions=0.0)
    rng = np.random.default_rng(1)
    actions = torch.as_tensor(rng.uniform(0.0, 10.0, (3, 6, 5)))
    states = scene.rollout(actions=actions)  # 4 frames: of the 6 rows the first 4
    named = {"rotors.actions": actions[:, :4, :4], "tail.actions": actions[:, :4, 4:]}
    assert torch.equal(states.body_q, scene.rollout(named).body_q)
    assert torch.equal(scene.rollout(actions=actions, frames=2).body_q, states.body_q[:, :3])
    mass = {"slab.mass": torch.tensor([2.9, 3.1], dtype=torch.float64)}
    one_for_all = scene.rollout(mass, actions=actions[:1])
    assert torch.equal(one_for_all.body_q, scene.rollout(mass, actions=actions[:1].expand(2, -1, -1)).body_q)


def test_drag_without_rotors() -> None:
    scene = Scene(frame_dt=0.02, frames=5, substeps=4, gravity=(0, 0, 0), integrator="rk4")
    scene.add_rigid("slab", shape=BOX, mass=2.0, linear_drag=Param(0.8, low=0.0), velocity=(1, 0, 0))
    velocity = scene.rollout(frames=60).body_qd[0, :, 0, 0]
    np.testing.assert_allclose(velocity, np.exp(-0.4 * 0.02 * np.arange(61)), rtol=1e-9)
    assert scene.unknowns == ["slab.linear_drag"]


@pytest.mark.parametrize("kind", ["linear_drag", "angular_drag"])
def test_drag_that_needs_shorter_steps_warns(kind: str) -> None:
    scene = Scene(frame_dt=0.02, frames=1, substeps=4)
    scene.add_rigid("slab", shape=BOX, mass=2.0, **{kind: 300.0})
    with pytest.warns(UserWarning, match="too long for the drag of 'slab'"):
        scene.rollout()


def test_a_flight_out_of_the_region() -> None:
    scene = make_scene(frames=10, actions=[(100.0,) * 4] * 10, max_distance=1.0)
    with pytest.raises(DivergenceError, match="'slab' left the region that the scene allows: it was farther than 1 m"):
        scene.rollout()
    both = torch.tensor([3.0, 300.0], dtype=torch.float64)
    states = scene.rollout({"slab.mass": both})
    assert states.finite.tolist() == [False, True] and torch.isnan(states.body_q[0, -1]).all()


def test_descriptions_tell_rotors_apart() -> None:
    def described(scene: Scene) -> str:
        return json.dumps(scene.description(), sort_keys=True, allow_nan=False)

    def with_drag(value: float) -> Scene:
        scene = Scene(frame_dt=0.02, frames=4, substeps=3)
        scene.add_rigid("slab", shape=BOX, mass=3.0, linear_drag=value)
        return scene

    usual = described(make_scene())
    assert described(make_scene()) == usual
    for change in ({"limit": 400.0}, {"actions": 1.0}, {"max_distance": 10.0}):
        assert described(make_scene(**change)) != usual
    assert described(with_drag(0.1)) != described(with_drag(0.2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.add_rotors("r", body="slob", positions=PLACES, actions=1.0), "unknown body 'slob'"),
        (lambda s: s.add_rotors("r", body="slab", positions=(0, 0, 1), actions=1.0), r"r.positions has shape \(3,\)"),
        (lambda s: s.add_rotors("r", body="slab", positions=PLACES, axis=(0, 0, 0), actions=1.0), "not all zero"),
        (lambda s: s.add_rotors("r", body="slab", positions=PLACES, limit=0.0, actions=1.0), "r.limit is 0.0"),
        (lambda s: s.add_rotors("r", body="slab", positions=PLACES, actions=np.ones((3, 4))), r"r.actions has shape \(3, 4\)"),
        (lambda s: s.rollout(frames=5), "actions for 4 frame intervals, and 5"),
        (lambda s: s.rollout(actions=torch.ones(1, 4, 3)), r"shape \(1, 4, 3\), and \[1, frames, 4\]"),
        (lambda s: s.rollout(actions=torch.full((1, 4, 4), math.nan)), "actions have values that are not finite"),
        (lambda s: s.rollout({"rotors.actions": torch.ones(4, 4)}, actions=torch.ones(1, 4, 4)), "given twice"),
        (lambda s: s.add_rigid("b", shape=BOX, mass=1.0, linear_drag=-1.0), "b.linear_drag is -1.0 N s/m"),
        (lambda s: s.add_rigid("b", shape=BOX, mass=1.0, inertia_per_mass=np.eye(3), inertia=np.eye(3)), "one of the two"),
        (lambda s: make_scene(max_distance=0.0), "Scene: max_distance is 0.0: give a number above zero"),
    ],
)  # fmt: skip
def test_what_scenes_refuse(change: Callable[[Scene], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        change(make_scene())


def test_solvers_refuse_inputs_that_are_not_driven_as_the_model() -> None:
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=2)
    with pytest.raises(UserError, match="neither wrenches nor drag, and the model is driven"):
        RigidSolver(model, settings("rk4")).rollout(pair("flight"), 2)
    with pytest.raises(UserError, match="wrenches and drag, and the model is not driven"):
        RigidSolver(PAIR_MODEL, settings("rk4")).rollout(inputs, 2)
    with pytest.raises(UserError, match="frames=3, and there are wrenches for 2 frame intervals"):
        RigidSolver(model, settings("rk4")).rollout(inputs, 3)


# --- the quadrotor -----------------------------------------------------------------------------------------------------


def test_the_quadrotor_flies_within_view_for_every_mass() -> None:
    """Within the ranges of the state head, with pictures that differ between the lightest and the heaviest."""
    from risp_torch.risp.task import load_task

    scene = load_scene("quadrotor", size=24)
    head = load_task("quadrotor", scene).head
    states = scene.rollout({"quadrotor.mass": torch.tensor([2.8, 3.0, 3.2], dtype=torch.float64)})
    outputs = head.outputs(scene, states.body_q)
    assert outputs[..., :3].abs().max() < 0.95
    turns = head.physical(outputs)
    assert turns["pitch"].abs().max() < 0.45 and turns["roll"].abs().max() < 0.45 and turns["yaw"].max() > 0.7
    spread = outputs[..., 2].max(dim=0).values - outputs[..., 2].min(dim=0).values
    assert spread[-1] * 0.42 > 0.5  # m
    np.testing.assert_allclose(scene.bodies[0].solid.centre_of_mass, 0.0, atol=1e-12)
    assert scene.unknowns == ["quadrotor.mass"]
    light, _, heavy = scene.render(states, frames=[40])
    assert ((light - heavy).abs().amax(dim=-1) > 0.05).sum() > 10
