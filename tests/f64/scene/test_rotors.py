"""Rotors of scenes: what hovers, turns and flies, gradients of a flight, limits, and what is refused."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from risp_torch import Box, Param, Scene, SolverOptions, Start, load_scene
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from risp_torch.scene.bridge.checks import bridge_device
from tests.reference.rigid_cases import GRAVITY
from ti_sim.base.errors import DivergenceError, UserError

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
    still = torch.tensor([0.0, 0, 0, 0, 0, 0, 1], dtype=torch.float64, device=bridge_device())
    torch.testing.assert_close(states.body_q[0, :, 0], still.expand(51, 7), rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", ["roll", "pitch", "yaw"])
def test_thrust_differences_turn_the_body(axis: str) -> None:
    """w = t torque / I from the arms, or from the reaction of the rotors that turn one way, without a net force."""
    signs = {"roll": (1, 1, -1, -1), "pitch": (-1, 1, 1, -1), "yaw": (1, -1, 1, -1)}[axis]
    per_newton = {"roll": 4 * 0.15, "pitch": 4 * 0.2, "yaw": 4 * 0.02}[axis]
    number = ["roll", "pitch", "yaw"].index(axis)
    states = make_scene(actions=0.75 * GRAVITY + 0.1 * np.array(signs)).rollout()
    spin = 0.1 * per_newton / (3.0 * (0.01, 0.012, 0.018)[number]) * 0.02 * np.arange(5)
    np.testing.assert_allclose(states.body_qd[0, :, 0, 3 + number].cpu(), spin, rtol=1e-12)
    assert states.body_qd[0, -1, 0, 2].abs() < 1e-3


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_gradients_of_a_flight(integrator: str) -> None:
    scene = Scene(frame_dt=0.02, frames=3, substeps=2, integrator=integrator)
    scene.add_rigid(
        "slab", shape=BOX, mass=3.0, inertia_per_mass=np.diag([0.01, 0.012, 0.018]), linear_drag=0.4,
        angular_drag=0.02, start=Start(velocity=(0.5, -0.2, 0.1), angular_velocity=(0.3, -0.4, 0.5)),
    )  # fmt: skip
    rng = np.random.default_rng(4)
    thrusts = 0.75 * GRAVITY * rng.uniform(0.5, 1.5, (3, 4))
    scene.add_rotors("rotors", body="slab", positions=PLACES, yaw_reaction=REACTION, actions=thrusts, limit=20.0)
    scene.add_rotors("tail", body="slab", positions=[(0.1, 0, 0.2)], axis=(0, 2, 0), actions=1.5)
    names = [name for name in scene.parameters if name.startswith(("slab.", "rotors.", "tail."))]
    names = [name for name in names if not name.endswith(("color", "position", "rotation"))]
    weight = torch.as_tensor(rng.standard_normal((4, 13))).to(bridge_device())

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
    scene.add_rigid("slab", shape=BOX, mass=2.0, linear_drag=Param(0.8, low=0.0), start=Start(velocity=(1, 0, 0)))
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
    scene = make_scene(frames=10, actions=[(100.0,) * 4] * 10, solver=SolverOptions(max_distance=1.0))
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
    for change in ({"limit": 400.0}, {"actions": 1.0}, {"solver": SolverOptions(max_distance=10.0)}):
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
        (lambda s: SolverOptions(max_distance=0.0), "SolverOptions: max_distance is 0.0: give a number above zero"),
    ],
)  # fmt: skip
def test_what_scenes_refuse(change: Callable[[Scene], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        change(make_scene())


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
    np.testing.assert_allclose(scene.bodies[0].mass_properties.centre_of_mass, 0.0, atol=1e-12)
    assert scene.unknowns == ["quadrotor.mass"]
    light, _, heavy = scene.render(states, frames=[40])
    assert ((light - heavy).abs().amax(dim=-1) > 0.05).sum() > 10
