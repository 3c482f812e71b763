"""Steps of one frame: gradients through them, saved states, what is refused. Shipped scenes are in ``tests/f64/scenes``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import Actuation, Box, Checkpoint, Contact, DivergenceError, Elastic, LinkFrame, Prismatic, Scene, Start
from risp_torch.scene.state import State
from tests.reference.block_scene import block_between_bodies
from tests.reference.stepping import assert_equal_to_the_last_bit, random_sum, rollout_of, steps_of
from ti_sim.base.errors import UserError
from ti_sim.meshes import box_hexes

FRAMES = 3
FIRM = {"stiffness": 5000.0, "damping": 20.0, "friction_stiffness": 20.0, "friction": 0.5}


def sliding() -> Scene:
    """A box with bristles on the ground, with a push in its second and third frame interval."""
    scene = Scene(frame_dt=0.004, frames=FRAMES, substeps=20)
    scene.add_ground(contact=Contact(**FIRM, bristle_stiffness=1000.0))
    start = Start(position=(0.0, 0.0, 0.0298), velocity=(0.1, 0.02, 0.0), angular_velocity=(0.3, 0.2, 0.5))
    scene.add_rigid("box", shape=Box(0.1, 0.08, 0.06), mass=0.5, start=start)
    scene.add_force("push", body="box", force=(1.0, -2.0, 0.5), point=(0.02, 0.01, 0.0), start=0.006, duration=0.004)
    return scene


def gripping() -> Scene:
    """Fingers with bristles and dry friction press a box; a motor drives one of them."""
    scene, firm = Scene(frame_dt=0.004, frames=FRAMES, substeps=20), Contact(**FIRM, bristle_stiffness=2000.0)
    dry = {"dry_friction": 0.3, "dry_stiffness": 300.0, "dry_damping": 2.0}
    for name, side, friction in (("left", 1.0, dry), ("right", -1.0, {})):
        scene.add_link(
            name, joint=Prismatic(axis=(side, 0.0, 0.0), stiffness=500.0, rest=0.01, damping=20.0, **friction), mass=0.1,
            shape=Box(0.02, 0.02, 0.02), frame=LinkFrame(position=(-0.0298 * side, 0.0, 0.3)), contact=firm, collision=True,
        )  # fmt: skip
    start = Start(position=(0.0, 0.0, 0.3), velocity=(0.0, 0.0, -0.1), rotation=(0.0, 0.01, 0.02))
    scene.add_rigid("box", shape=Box(0.04, 0.04, 0.04), mass=0.2, start=start, contact=firm, collision=True)
    scene.add_motors("squeeze", joints=["left"], actions=np.linspace(-1.0, 1.0, FRAMES)[:, None], gain=2.0)
    return scene


def pressed(integrator: str, *, beside: bool = False, substeps: int = 1) -> Scene:
    """A soft block on the ground with a load and an actuation over time; a free body ``beside`` it."""
    scene = Scene(
        frame_dt=0.01, frames=FRAMES, substeps=substeps, integrator=integrator, gravity=(0.0, 0.0, -3.0), name="pressed"
    )
    scene.add_ground(contact=Contact(stiffness=200.0, damping=0.5, friction_stiffness=1.0, friction=0.3))
    mesh = box_hexes((0.2, 0.1, 0.1), (2, 1, 1))
    if beside:
        scene.add_rigid("die", shape=Box(0.1, 0.1, 0.1), density=500.0, start=Start(position=(1.0, 0.0, 0.049)))
    scene.add_solid(
        "block", mesh=mesh, material=Elastic(E=5e3, nu=0.3, damping=2.0), density=300.0,
        start=Start(position=(0.0, 0.0, 0.0499), velocity=(0.1, 0.0, -0.2)),
        actuation=Actuation(values=0.02 * np.arange(FRAMES * 2).reshape(FRAMES, 2)),
    )  # fmt: skip
    forces = np.array([[0.1, 0.0, -0.2], [-0.3, 0.1, 0.0], [0.2, 0.2, 0.3]])
    scene.add_load("press", body="block", where=lambda x: x[:, 2] > 0.04, force=forces)
    return scene


def smoky() -> Scene:
    """Smoke with a source over time."""
    random, (x, y) = np.random.default_rng(0), (6, 5)
    scene = Scene(frame_dt=0.04, frames=FRAMES, substeps=2)
    scene.add_smoke(
        "smoke", cells=(x, y), cell=0.25, density=random.uniform(0, 1, (x, y)),
        velocity=(random.normal(size=(x + 1, y)), random.normal(size=(x, y + 1))), source=random.uniform(0, 1, (FRAMES, x, y)),
        buoyancy=0.7, obstacle=np.arange(x * y).reshape(x, y) == 12,
    )  # fmt: skip
    return scene


# Scene -> parameters of which gradients are compared.
SCENES: dict[str, tuple[Callable[[], Scene], tuple[str, ...]]] = {
    "bristles": (sliding, ("box.mass", "box.velocity", "push.force", "ground.contact.bristle_stiffness")),
    "grip": (gripping, ("box.mass", "left.stiffness", "left.dry_stiffness", "squeeze.actions")),
    "coupled": (
        lambda: block_between_bodies(frame_dt=0.005, frames=FRAMES, substeps=4),
        ("arm.angle", "block.density", "arm.dry_stiffness"),
    ),
    "beside": (lambda: pressed("semi_implicit", beside=True, substeps=10), ("die.density", "block.density", "press.force")),
    "euler": (lambda: pressed("backward_euler"), ("block.E", "press.force", "block.actuation")),
    "bdf2": (lambda: pressed("bdf2"), ("block.E", "press.force", "block.actuation", "block.velocity")),
    "bdf2, two steps": (lambda: pressed("bdf2", substeps=2), ("block.E", "press.force", "block.actuation")),
    "sdirk2": (lambda: pressed("sdirk2"), ("block.E", "press.force", "ground.contact.stiffness")),
    "smoke": (smoky, ("smoke.density", "smoke.source", "smoke.buoyancy")),
}


def leaves(scene: Scene, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(scene.parameters[name].value, dtype=torch.float64).requires_grad_() for name in names}


@pytest.mark.parametrize("name", SCENES)
def test_steps_equal_a_rollout_and_so_do_their_gradients(name: str) -> None:
    make, names = SCENES[name]
    scene = make()
    at_once, by_steps = leaves(scene, names), leaves(scene, names)
    every = 7 if scene.stepping.substeps > 7 else 2  # the last steps are after the last checkpoint
    motion = rollout_of(scene, FRAMES, at_once, adjoint=Checkpoint(every=every))
    steps = steps_of(scene, FRAMES, by_steps)
    assert_equal_to_the_last_bit(steps, motion)
    read = {key: array for key, array in motion.last.arrays().items() if array.is_floating_point()}
    random_sum(read).backward()
    random_sum({key: array for key, array in steps[-1].arrays().items() if key in read}).backward()
    for key in names:
        wanted, found = at_once[key].grad, by_steps[key].grad
        assert float(wanted.abs().max()) > 0
        size = float(wanted.abs().max())
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11 * size, msg=lambda text, key=key: key + text)


@pytest.mark.parametrize("name", [name for name in SCENES if name != "bdf2, two steps"])
def test_gradient_of_a_step_in_everything_that_a_state_holds(name: str) -> None:
    make, names = SCENES[name]
    scene = make()
    with torch.no_grad():
        state = scene.step(scene.state())
    derived = scene.simulator.adapter.derived
    history = ("particle_q", "particle_qd") if state.particle_history is not None else ()
    read = [key for key, array in state.arrays().items() if array.is_floating_point() and key not in (*derived, *history)]

    def step(*arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(read, arrays[: len(read)], strict=True))
        if history:
            given["particle_q"], given["particle_qd"] = given["particle_history"][:, -1].split(3, dim=-1)
        if "density" in given:  # closed faces stand still, and with a velocity there an upwind cell changes
            model = scene.smoke.model
            for key, is_open in (("density", model.open_cells), ("velocity_x", model.open_x), ("velocity_y", model.open_y)):
                given[key] = given[key] * torch.as_tensor(is_open)
        end = scene.step(State(frame=state.frame, **given), dict(zip(names, arrays[len(read) :], strict=True)))
        return tuple(array for array in end.arrays().values() if array.is_floating_point())

    point = [getattr(state, key).detach().clone().requires_grad_() for key in read]
    point += leaves(scene, names).values()
    assert torch.autograd.gradcheck(step, tuple(point), eps=1e-7, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_actions_of_a_step_are_rows_of_those_of_a_rollout() -> None:
    scene = gripping()
    actions = torch.tensor([[[0.5], [-1.0], [2.0]], [[0.0], [0.3], [0.1]]], dtype=torch.float64)
    motion, steps = rollout_of(scene, FRAMES, actions=actions), steps_of(scene, FRAMES, actions=actions, worlds=2)
    assert_equal_to_the_last_bit(steps, motion)
    rest = rollout_of(scene, 2, state=steps[1], actions=actions[:, 1:])
    assert torch.equal(rest.joint_q[:, 1:], motion.joint_q[:, 2:])
    with pytest.raises(UserError, match=r"the actions of a step have shape \(2, 3, 1\), and \[worlds, actuators\] is needed"):
        scene.step(steps[0], actions=actions)


@pytest.mark.parametrize("name", ["bristles", "bdf2"])
def test_a_saved_state_is_the_state(name: str, tmp_path: Path) -> None:
    scene = SCENES[name][0]()
    state = steps_of(scene, 2)[-1]
    state.save(tmp_path / "state.npz")
    again = State.load(tmp_path / "state.npz")
    assert again.frame == 2 and again.arrays().keys() == state.arrays().keys()
    assert_equal_to_the_last_bit([scene.step(again)], rollout_of(scene, 1, state=state))
    (tmp_path / "text.npz").write_text("no array")
    np.savez(tmp_path / "other.npz", frame=1, x=np.zeros(3))
    for file, words in (("none", "there is no file"), ("text", "is not a file of State.save"), ("other", "it holds 'x'")):
        with pytest.raises(UserError, match=words):
            State.load(tmp_path / f"{file}.npz")


def test_a_world_that_has_diverged_stays_so_and_leaves_the_others_as_they_are() -> None:
    scene = pressed("semi_implicit", substeps=10)
    densities = {"block.density": torch.tensor([300.0, 350.0], dtype=torch.float64)}
    state = steps_of(scene, 1, densities)[-1]
    q = state.particle_q.clone()
    q[0, 3] = torch.nan
    broken = scene.step(state.replace(particle_q=q), densities)
    assert bool(torch.isnan(broken.particle_q[0]).all()) and broken.finite.tolist() == [False, True]
    assert torch.equal(broken.particle_q[1], scene.step(state, densities).particle_q[1])
    with pytest.raises(DivergenceError, match="every world of the state at frame 2 has diverged"):
        scene.step(broken.map(lambda array: array[:1]))


def test_states_that_do_not_fit_are_refused() -> None:
    scene = sliding()
    state = steps_of(scene, 1)[-1]
    shape = r"state.body_q has shape \(1, 1, 6\), and this scene in 1 worlds needs \(1, 1, 7\)"
    faster = state.replace(body_qd=state.body_qd + 1, body_momentum=state.body_momentum)
    for wrong, words in (
        (State(), "the state holds no arrays"),
        (State(body_q=state.body_q), "the state has no body_qd, which this scene reads"),
        (state.replace(body_q=state.body_q[:, :, :6]), shape),
        (state.replace(density=torch.zeros(1, 2, 2)), "the state has density, which this scene does not read"),
        (state.replace(contact_bristle=torch.zeros(1, 3, 2, dtype=torch.float64)), "contact_bristle0 has shape"),
        (state.replace(body_q=state.body_q.expand(2, 1, 7)), "state.body_qd has 1 worlds, and state.body_q has 2"),
        (faster, "state.body_momentum is not that of state.body_qd"),
        (state.map(lambda array: array.float()), "body_q0 is torch.float32 and the kernels work in torch.float64"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            scene.step(wrong)
    with pytest.raises(UserError, match=r"state.body_q has shape \(1, 1, 7\), and this scene in 2 worlds needs"):
        scene.step(state, {"box.mass": torch.tensor([0.5, 0.6], dtype=torch.float64)})
    with pytest.raises(UserError, match="block.actuation is given for 3 frame intervals, and 4 are simulated"):
        scene = pressed("bdf2")
        scene.step(steps_of(scene, FRAMES)[-1])
    with pytest.raises(UserError, match="state.particle_history does not end in state.particle_q"):
        last = steps_of(scene, 1)[-1]
        scene.step(last.replace(particle_q=last.particle_q + 1, particle_history=last.particle_history))
    assert scene.step(last.replace(particle_q=last.particle_q + 1)).frame == 2
