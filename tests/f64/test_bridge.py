"""The torch bridge: gradients against torch's own gradcheck, and the ways in which torch programs call it."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from risp_torch import Checkpoint, Scene, StoreAll, UserError, bridge
from tests.reference.small_scenes import make_scene
from ti_render import RenderInputs, render_tape
from ti_sim import RigidInputs, RolloutTape, Tape
from ti_sim.base.runtime import ti

FRAMES = 2
INTEGERS = ("faces", "vertex_body")
ROLLOUT_NAMES = tuple(field.name for field in fields(RigidInputs))
RENDER_NAMES = tuple(field.name for field in fields(RenderInputs) if field.name not in INTEGERS)


class Rollout:
    """The rollout of a small scene as a function of its input tensors, with body_q and body_qd in one output."""

    names = ROLLOUT_NAMES

    def __init__(self, scene: Scene, *, worlds: int = 1) -> None:
        self.solver = scene.solver()
        with torch.no_grad():
            self.inputs = scene.rigid_inputs(scene.table.values(worlds=worlds))

    def __call__(self, **tensors: torch.Tensor) -> torch.Tensor:
        body_q, body_qd, _ = bridge.rollout(self.solver, replace(self.inputs, **tensors), FRAMES)
        return torch.cat([body_q, body_qd], dim=-1)


class Render:
    """The pictures of a small scene as a function of the renderer's input tensors."""

    names = RENDER_NAMES

    def __init__(self, scene: Scene, *, worlds: int = 1) -> None:
        self.settings = scene.raster_settings()
        with torch.no_grad():
            states = scene.rollout(worlds=worlds, frames=FRAMES)
            self.inputs = scene.render_inputs(scene.table.values(worlds=worlds), states.body_q[:, 1:])

    def __call__(self, **tensors: torch.Tensor) -> torch.Tensor:
        return bridge.render(replace(self.inputs, **tensors), self.settings)


Function = Rollout | Render


def leaves(function: Function, names: tuple[str, ...] | None = None) -> dict[str, torch.Tensor]:
    """Contiguous leaf copies of a function's inputs."""
    return {name: getattr(function.inputs, name).clone().contiguous().requires_grad_() for name in names or function.names}


def weight_of(output: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=output.dtype).to(output.device)


def gradients(function: Function, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients of a fixed random sum of the output."""
    output = function(**tensors)
    return dict(zip(tensors, torch.autograd.grad((output * weight_of(output)).sum(), list(tensors.values())), strict=True))


def close(actual: torch.Tensor, wanted: torch.Tensor, rtol: float = 1e-11) -> bool:
    """Equal to rounding: threads add in any order."""
    return bool((actual - wanted).abs().max() <= rtol * wanted.abs().max().clamp_min(1e-300))


@pytest.fixture(scope="module", params=[Rollout, Render], ids=["rollout", "render"])
def function(request: pytest.FixtureRequest) -> Function:
    return request.param(make_scene(size=8))


def projected(output: torch.Tensor, count: int = 8) -> torch.Tensor:
    """A few random sums of the output: gradcheck runs one backward pass for each output."""
    weights = torch.randn((count, output.numel()), generator=torch.Generator().manual_seed(1), dtype=output.dtype)
    return weights.to(output.device) @ output.flatten()


@pytest.mark.parametrize("kind", [Rollout, Render])
def test_gradcheck_of_every_input(kind: Callable[..., Function]) -> None:
    function = kind(make_scene(size=8))
    eps = {"body_inertia": 1e-10} if kind is Rollout else {}  # against 1e-5 kg m2
    for name in function.names:
        tensor = leaves(function, (name,))[name]
        step = eps.get(name, 1e-7)
        # The roundoff of a difference grows as the step falls.
        assert torch.autograd.gradcheck(
            lambda t, name=name: projected(function(**{name: t})), (tensor,), eps=step, atol=1e-13 / step, rtol=1e-5,
            nondet_tol=1e-13 / step,
        ), name  # fmt: skip
        assert gradients(function, {name: tensor})[name].abs().max() > 0, name
    if kind is Rollout:
        assert (gradients(function, leaves(function, ("body_material",)))["body_material"] != 0).all()  # ke, kd, kf and mu


def test_gradcheck_from_parameters_to_pixels() -> None:
    scene = make_scene(size=8)
    names = ("ground.contact.stiffness", "block.density", "block.velocity", "push.impulse", "camera.position", "block.rotation")
    values = [torch.tensor(scene.parameters[name].value, dtype=torch.float64, requires_grad=True) for name in names]
    # Roughly one unit of each, so that one step suits all.
    scales = (400.0, 800.0, 1.0, 0.01, 0.1, 1.0)

    def pixels(*factors: torch.Tensor) -> torch.Tensor:
        given = {n: v + s * f for n, v, s, f in zip(names, values, scales, factors, strict=True)}
        return projected(scene.render(scene.rollout(given, frames=FRAMES), given))

    start = [torch.zeros_like(v, requires_grad=True) for v in values]
    assert torch.autograd.gradcheck(pixels, start, eps=1e-6, atol=1e-8, rtol=1e-5, nondet_tol=1e-11)


def test_leaf_and_non_leaf_inputs_give_the_same_gradient(function: Function) -> None:
    wanted = gradients(function, leaves(function))
    roots = leaves(function)
    output = function(**{name: 2.0 * (0.5 * tensor) for name, tensor in roots.items()})
    (output * weight_of(output)).sum().backward()
    for name, root in roots.items():
        assert close(root.grad, wanted[name]), name


def test_one_tensor_in_two_places_adds_its_gradients() -> None:
    function = Rollout(make_scene())
    wanted = gradients(function, leaves(function, ("body_force", "force_point", "gravity")))
    shared = function.inputs.gravity.clone().requires_grad_()
    output = function(gravity=shared, body_force=function.inputs.body_force + (shared - shared.detach())[:, None])
    (output * weight_of(output)).sum().backward()
    assert close(shared.grad, wanted["gravity"] + wanted["body_force"][:, 0])


def test_two_backward_calls_double_the_gradient(function: Function) -> None:
    tensors = leaves(function)
    output = function(**tensors)
    loss = (output * weight_of(output)).sum()
    loss.backward(retain_graph=True)
    first = {name: tensor.grad.clone() for name, tensor in tensors.items()}
    loss.backward()
    for name, tensor in tensors.items():
        assert close(tensor.grad, 2 * first[name]), name
        assert first[name].abs().max() > 0, name


def test_backward_gives_new_gradients_each_time(function: Function) -> None:
    tensors = leaves(function)
    output = function(**tensors)
    upstream = weight_of(output)
    first = torch.autograd.grad(output, list(tensors.values()), upstream, retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    torch.autograd.grad(output, list(tensors.values()), -3.0 * upstream)
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


def test_upstream_gradient_may_be_non_contiguous_and_is_not_modified(function: Function) -> None:
    tensors = leaves(function)
    output = function(**tensors)
    upstream = weight_of(output)
    wanted = torch.autograd.grad(output, list(tensors.values()), upstream, retain_graph=True)
    order = list(reversed(range(output.ndim)))
    strided = upstream.permute(order).contiguous().permute(order)
    assert not strided.is_contiguous() and torch.equal(strided, upstream)
    actual = torch.autograd.grad(output, list(tensors.values()), strided, retain_graph=True)
    assert torch.equal(strided, upstream) and torch.equal(upstream, weight_of(output))
    for name, a, w in zip(tensors, actual, wanted, strict=True):
        assert close(a, w), name
    expanded = torch.autograd.grad(output.sum(), list(tensors.values()), retain_graph=True)  # stride 0 upstream
    ones = torch.autograd.grad(output, list(tensors.values()), torch.ones_like(output))
    for name, a, w in zip(tensors, expanded, ones, strict=True):
        assert close(a, w), name


@pytest.mark.parametrize("kind", [Rollout, Render])
def test_expanded_and_transposed_inputs(kind: Callable[..., Function]) -> None:
    function = kind(make_scene(size=8), worlds=2)
    plain = leaves(function)
    wanted = gradients(function, plain)
    wanted_output = function(**plain)
    for name, tensor in plain.items():
        order = list(reversed(range(tensor.ndim)))
        strided = tensor.detach().permute(order).contiguous().permute(order).requires_grad_()
        assert close(gradients(function, {name: strided})[name], wanted[name]), name
        if name == "vertices_rest":
            continue
        row = tensor.detach()[:1].clone().requires_grad_()
        expanded = row.expand(tensor.shape)
        if tensor.shape[0] > 1 and torch.equal(expanded, tensor):
            output = function(**{name: expanded})
            assert close(output, wanted_output), name
            (gradient,) = torch.autograd.grad((output * weight_of(output)).sum(), row)
            assert close(gradient, wanted[name].sum(0, keepdim=True)), name


def test_only_some_inputs_need_a_gradient(function: Function) -> None:
    wanted = gradients(function, leaves(function))
    for name in function.names:
        assert close(gradients(function, leaves(function, (name,)))[name], wanted[name]), name


def test_a_loss_of_velocities_alone_and_of_poses_alone() -> None:
    function = Rollout(make_scene())
    tensors = leaves(function)
    body_q, body_qd, _ = bridge.rollout(function.solver, replace(function.inputs, **tensors), FRAMES)
    both = torch.autograd.grad(body_q.sum() + body_qd.sum(), list(tensors.values()), retain_graph=True)
    one = torch.autograd.grad(body_q.sum(), list(tensors.values()), retain_graph=True)
    other = torch.autograd.grad(body_qd.sum(), list(tensors.values()))
    for name, a, b, c in zip(tensors, both, one, other, strict=True):
        assert close(a, b + c), name


def test_no_grad_keeps_nothing(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    if isinstance(function, Rollout):
        original = function.solver.rollout
        monkeypatch.setattr(function.solver, "rollout", lambda *a, **k: kept.append(k["adjoint"]) or original(*a, **k))
    tensors = leaves(function)
    with torch.no_grad():
        output = function(**tensors)
    assert output.grad_fn is None and not output.requires_grad
    plain = function(**{name: tensor.detach() for name, tensor in tensors.items()})
    assert plain.grad_fn is None and not plain.requires_grad
    if isinstance(function, Rollout):
        assert kept == [None, None]
    assert close(output, plain)


def test_wrong_precision_names_the_tensor(function: Function) -> None:
    for name in function.names:
        with pytest.raises(UserError, match=rf"^{name} is torch.float32 .*torch.float64"):
            function(**{name: getattr(function.inputs, name).float()})


def test_wrong_device_names_the_tensor(function: Function) -> None:
    for name in function.names:
        with pytest.raises(UserError, match=rf"^{name} lies on meta .*\.to\('cpu'\)"):
            function(**{name: getattr(function.inputs, name).to("meta")})


def test_wrong_shape_names_the_tensor(function: Function) -> None:
    for name in function.names:
        tensor = getattr(function.inputs, name)
        with pytest.raises(UserError, match=name):
            function(**{name: tensor[..., :-1]})


def test_a_second_derivative_is_an_error(function: Function) -> None:
    name = function.names[0]
    tensors = leaves(function, (name,))
    (gradient,) = torch.autograd.grad((function(**tensors) ** 2).sum(), tensors[name], create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        gradient.sum().backward()


@pytest.mark.parametrize("adjoint", [StoreAll(), *(Checkpoint(every=k) for k in (1, 3, 7, 1000))], ids=repr)
def test_every_adjoint_gives_the_same_gradient_through_a_scene(adjoint: StoreAll | Checkpoint) -> None:
    scene = make_scene(size=8)
    names = ["ground.contact.stiffness", "block.density", "block.velocity", "push.impulse"]

    def run(adjoint: StoreAll | Checkpoint | None) -> list[torch.Tensor]:
        given = {n: torch.tensor(scene.parameters[n].value, dtype=torch.float64, requires_grad=True) for n in names}
        pictures = scene.render(scene.rollout(given, adjoint=adjoint), given)
        return list(torch.autograd.grad((pictures * weight_of(pictures)).sum(), list(given.values())))

    for name, a, w in zip(names, run(adjoint), run(None), strict=True):
        assert close(a, w, rtol=1e-10), name


def test_state0_replaces_the_start_and_carries_a_gradient() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        whole = scene.rollout(frames=4)
    split = scene.rollout(frames=2, state0=(whole.body_q[:, 2], whole.body_qd[:, 2]))
    # The push acts in the first frame of a film; from the second on, two films of half the length are the whole one.
    unpushed = scene.rollout({"push.impulse": torch.zeros(3)}, frames=2, state0=(whole.body_q[:, 2], whole.body_qd[:, 2]))
    assert close(unpushed.body_q, whole.body_q[:, 2:], rtol=1e-12)
    assert not close(split.body_q, whole.body_q[:, 2:], rtol=1e-6)
    body_q = whole.body_q[:, 2].clone().requires_grad_()
    scene.rollout(frames=2, state0=(body_q, whole.body_qd[:, 2])).body_qd.sum().backward()
    assert body_q.grad.abs().max() > 0


@ti.kernel
def frames_to_images(body_q: ti.types.ndarray(), poses: ti.types.ndarray()):
    """poses [T, N, 7] = body_q [1, T, N, 7]; differentiated by taichi."""
    for t, n, i in poses:
        poses[t, n, i] = body_q[0, t, n, i]


@ti.kernel
def add_weighted(images: ti.types.ndarray(), weight: ti.types.ndarray(), loss: ti.types.ndarray()):
    """Adds to loss[0] the sum of weight * images^2; differentiated by taichi."""
    for m, y, x, c in images:
        loss[0] += weight[m, y, x, c] * images[m, y, x, c] * images[m, y, x, c]


def taichi_array(tensor: torch.Tensor) -> ti.Ndarray:
    real = tensor.is_floating_point()
    array = ti.ndarray(ti.f64 if real else ti.i32, tuple(tensor.shape), needs_grad=real)
    array.from_numpy(np.ascontiguousarray(tensor.detach().numpy()))
    return array


def test_a_tape_without_torch_gives_the_gradient_of_the_bridge_three_times() -> None:
    scene = make_scene(size=8)
    rollout, render = Rollout(scene), Render(scene)
    settings = scene.raster_settings()
    rigid = leaves(rollout)
    seen = leaves(render, tuple(name for name in RENDER_NAMES if name != "body_q"))
    body_q, _, _ = bridge.rollout(rollout.solver, RigidInputs(**rigid), FRAMES)
    pictures = bridge.render(replace(render.inputs, body_q=body_q[0], **seen), settings)
    weight = weight_of(pictures)
    value = (weight * pictures**2).sum()
    value.backward()

    inputs = RigidInputs(**{name: taichi_array(tensor) for name, tensor in rigid.items()})
    frames = [ti.ndarray(ti.f64, (1, FRAMES + 1, 1, size), needs_grad=True) for size in (7, 6)]
    poses = ti.ndarray(ti.f64, (FRAMES + 1, 1, 7), needs_grad=True)
    images = ti.ndarray(ti.f64, tuple(pictures.shape), needs_grad=True)
    loss = ti.ndarray(ti.f64, (1,), needs_grad=True)
    weights = taichi_array(weight)
    arrays = {name: taichi_array(tensor) for name, tensor in seen.items()}
    integers = {name: taichi_array(getattr(render.inputs, name)) for name in INTEGERS}
    scenery = RenderInputs(body_q=poses, **arrays, **integers)
    simulate = RolloutTape(rollout.solver, FRAMES)
    for _ in range(3):
        with Tape(loss):
            simulate(inputs, *frames)
            frames_to_images(frames[0], poses)
            render_tape(scenery, settings, images)
            add_weighted(images, weights, loss)
        assert loss.to_numpy()[0] == pytest.approx(value.item(), rel=1e-12)
        for name, tensor in (rigid | seen).items():
            array = arrays[name] if name in arrays else getattr(inputs, name)
            difference = np.abs(array.grad.to_numpy() - tensor.grad.numpy()).max()
            assert difference <= 1e-10 * tensor.grad.abs().max(), name
