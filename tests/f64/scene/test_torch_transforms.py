"""Contexts in which torch programs call scenes: ``torch.func`` transforms, mixed precision, empty batches."""

from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from risp_torch import UserError, load_scene
from risp_torch.scene.scene import Scene
from risp_torch.scene.state import State
from tests.reference.small_scenes import make_scene

NAME = "block.velocity"
ROUNDING = {"mm", "bmm", "addmm", "baddbmm", "mv", "dot", "linear", "convolution"}  # in lower precision on request


class Rounding(TorchDispatchMode):
    """Records the operations whose factors torch.autocast or TF32 rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        self.seen |= {function._schema.name.split("::")[1]} & ROUNDING
        return function(*args, **(kwargs or {}))


def end(scene: Scene) -> Callable[[torch.Tensor], torch.Tensor]:
    """The last position [3] of a motion as a function of the initial velocity."""
    return lambda velocity: scene.rollout({NAME: velocity}, frames=2).body_q[0, -1, 0, :3]


def test_reverse_transforms_of_a_rollout_are_its_derivatives() -> None:
    function = end(make_scene(size=8))  # the solver is made inside the first transform
    velocity = torch.tensor([0.4, 0.1, -0.6], dtype=torch.float64)
    rows = torch.func.jacrev(function)(velocity)
    torch.testing.assert_close(rows, torch.autograd.functional.jacobian(function, velocity))
    torch.testing.assert_close(torch.func.grad(lambda v: function(v).sum())(velocity), rows.sum(dim=0))
    torch.testing.assert_close(torch.func.vjp(function, velocity)[1](torch.ones(3, dtype=torch.float64))[0], rows.sum(dim=0))
    assert torch.autograd.gradcheck(function, velocity.requires_grad_(), rtol=1e-5)


@pytest.mark.parametrize("transform", [torch.func.jacfwd, torch.func.hessian, lambda f: lambda v: torch.func.jvp(f, (v,), (v,))])
def test_forward_derivatives_of_a_rollout_are_errors(transform: Callable) -> None:
    with pytest.raises(RuntimeError, match="no forward derivatives .*: use reverse ones"):
        transform(end(make_scene(size=8)))(torch.tensor([0.4, 0.1, -0.6], dtype=torch.float64))


def test_batches_by_vmap_are_errors() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        states = scene.rollout(frames=1)
    velocities, positions = torch.zeros((2, 3), dtype=torch.float64), torch.ones((2, 3), dtype=torch.float64)
    for function, batch in (
        (end(scene), velocities), (torch.func.grad(lambda v: end(scene)(v).sum()), velocities),
        (lambda position: scene.render(states, {"camera.position": position}), positions),
        (lambda start: scene.rollout(state=State(body_q=start, body_qd=states.body_qd[:, 0]), frames=1).body_q, states.body_q),
    ):  # fmt: skip
        with pytest.raises(UserError, match="batched by torch.func.vmap: .* as worlds along the first axis"):
            torch.func.vmap(function)(batch)


def test_second_derivatives_by_transforms_are_errors() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        states = scene.rollout(frames=1)
    position = torch.as_tensor(scene.parameters["camera.position"].value)
    for transform in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacrev(f))):
        with pytest.raises(RuntimeError, match="differentiate a picture twice"):
            transform(lambda p: scene.render(states, {"camera.position": p}).mean())(position)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("toss", "body.velocity"), ("pendulum", "pendulum.length"), ("springs", "net.rotation"), ("quadrotor", "rotors.actions"),
     ("smoke", "smoke.buoyancy")],
)  # fmt: skip
def test_no_operation_of_a_scene_is_rounded_by_mixed_precision(name: str, parameter: str) -> None:
    """Neither forward nor backward, whatever is around: torch.autocast casts, and TF32 rounds, matrix products alone."""
    scene = load_scene(name)
    scene.resize_camera(16, 16)
    value = torch.as_tensor(scene.parameters[parameter].value, dtype=torch.float64).requires_grad_()
    places = {"camera.position": torch.as_tensor(scene.parameters["camera.position"].value).requires_grad_()}
    places = places if scene.view.has_projection else {}
    with Rounding() as recorded:
        pictures = scene.render(scene.rollout({parameter: value}, frames=2), {parameter: value, **places})
        pictures.mean().backward()
    assert not recorded.seen
    assert value.grad is not None and torch.isfinite(value.grad).all()


def test_batches_without_worlds_are_errors() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        states = scene.rollout(frames=1)
    for call in (
        lambda: scene.rollout({NAME: torch.zeros((0, 3), dtype=torch.float64)}),
        lambda: scene.render(states, {"camera.position": torch.zeros((0, 3), dtype=torch.float64)}),
        lambda: scene.rollout(state=State(body_q=states.body_q[:0, 0], body_qd=states.body_qd[:0, 0])),
    ):
        with pytest.raises(UserError, match=r"shape \(0, .*, and at least one world is needed"):
            call()


def test_a_memory_limit_may_have_any_number_type() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        states = scene.rollout(frames=3)
        assert (scene.render(states, memory_limit=4e5) == scene.render(states)).all()
