"""The torch bridge: gradients against torch's own gradcheck, and the ways in which torch programs call it."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import Checkpoint, Scene, StoreAll, UserError, load_scene
from risp_torch.scene import bridge
from risp_torch.scene.bridge.chunks import Chunk, image_bytes, plan_chunks, real_inputs
from risp_torch.scene.rendering_parameters import default_psi, image_jacobian
from risp_torch.scene.state import State
from tests.reference.block_scene import block_between_bodies
from tests.reference.devices import taichi_gradients
from tests.reference.full_scene import make_full_scene
from tests.reference.rigid_cases import INPUT_NAMES
from tests.reference.small_scenes import make_scene
from tests.reference.taichi_arrays import taichi_array, taichi_zeros
from ti_render import RenderInputs, render_tape
from ti_sim import RigidInputs, RigidTape, Tape
from ti_sim.base.runtime import ti

FRAMES = 2


class Rollout:
    """The rollout of a small scene as a function of its input tensors, with body_q and body_qd in one output."""

    names = INPUT_NAMES

    def __init__(self, scene: Scene, *, worlds: int = 1) -> None:
        self.solver = scene.simulator.solver
        with torch.no_grad():
            self.inputs = scene.simulator.adapter.inputs(scene.table.values(worlds=worlds), frames=scene.frames)

    def __call__(self, **tensors: torch.Tensor) -> torch.Tensor:
        body_q, body_qd, *_ = bridge.rollout(self.solver, replace(self.inputs, **tensors), FRAMES)
        return torch.cat([body_q, body_qd], dim=-1)


class Render:
    """The pictures of a scene as a function of the renderer's input tensors."""

    def __init__(self, scene: Scene, *, worlds: int = 1, memory_limit: int | None = None) -> None:
        self.settings = scene.view.raster_settings()
        self.memory_limit = memory_limit
        with torch.no_grad():
            states = scene.rollout(worlds=worlds, frames=FRAMES)
            self.inputs = scene.view.render_inputs(scene.table.values(worlds=worlds), states.body_q[:, 1:])
        self.names = tuple(real_inputs(self.inputs))

    def __call__(self, **tensors: torch.Tensor) -> torch.Tensor:
        return bridge.render(replace(self.inputs, **tensors), self.settings, memory_limit=self.memory_limit)


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


MAKERS = {
    "rollout": lambda: Rollout(make_scene(size=8)),
    "render": lambda: Render(make_scene(size=8)),
    "render everything": lambda: Render(make_full_scene(size=8)),
    "render in parts": lambda: in_parts(make_full_scene(size=8)),
}


def in_parts(scene: Scene, *, worlds: int = 1) -> Render:
    """Pictures under a memory limit that allows one at a time."""
    whole = Render(scene, worlds=worlds)
    return Render(scene, worlds=worlds, memory_limit=image_bytes(whole.inputs, whole.settings))


@pytest.fixture(scope="module", params=MAKERS)
def function(request: pytest.FixtureRequest) -> Function:
    return MAKERS[request.param]()


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
        step = eps.get(name, 1e-9 if name == "softness" else 1e-7)  # softness is of the order of 1e-3
        # The roundoff of a difference grows as the step falls.
        assert torch.autograd.gradcheck(
            lambda t, name=name: projected(function(**{name: t})), (tensor,), eps=step, atol=1e-13 / step, rtol=1e-5,
            nondet_tol=1e-13 / step,
        ), name  # fmt: skip
        assert gradients(function, {name: tensor})[name].abs().max() > 0, name
    if kind is Rollout:
        assert (gradients(function, leaves(function, ("body_contact",)))["body_contact"] != 0).all()  # ke, kd, kf and mu


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
    # Edges are a thousandth as soft as a pixel is wide: the squared step over their width is 2e-7. The sums, of up to 26, round
    # by 1e-14 or less, depending on the processor: over the step, 3e-8.
    assert torch.autograd.gradcheck(pixels, start, eps=4e-7, atol=6e-8, rtol=1e-5, nondet_tol=1e-11)


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
        if name in ("vertices_rest", "softness"):  # no row for each world
            continue
        row = tensor.detach()[:1].clone().requires_grad_()
        expanded = row.expand(2, *tensor.shape[1:])
        if torch.equal(expanded, tensor.expand(2, *tensor.shape[1:]) if tensor.shape[0] == 1 else tensor[:2]):
            output = function(**{name: expanded if tensor.shape[0] <= 2 else expanded.repeat(tensor.shape[0] // 2, 1, 1)})
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
    body_q, body_qd, *_ = bridge.rollout(function.solver, replace(function.inputs, **tensors), FRAMES)
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
        with pytest.raises(UserError, match=rf"^{name} is on meta .*\.to\('{bridge.bridge_device().type}'\)"):
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


MOVING = {
    "rigid": (make_scene, "block.density"),
    "articulated": (lambda: load_scene("pendulum"), "pendulum.length"),
    "deformable": (lambda: load_scene("springs"), "net.stiffness"),
    "coupled": (block_between_bodies, "block.velocity"),
}


@pytest.mark.parametrize("kind", MOVING)
def test_second_derivatives_of_scenes_are_errors(kind: str) -> None:
    """A linear function of a scene's motion, through every way in which torch takes a second derivative."""
    make, name = MOVING[kind]
    scene = make()
    point = torch.as_tensor(scene.parameters[name].value, dtype=torch.float64)

    def end(value: torch.Tensor) -> torch.Tensor:
        return scene.rollout({name: value}, frames=1).placement[0, -1].sum()

    assert (torch.autograd.functional.jacobian(end, point) != 0).any()
    with pytest.raises(RuntimeError, match="differentiate a rollout twice"):
        torch.autograd.functional.hessian(end, point)
    for hessian in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacrev(f)), lambda f: torch.func.jacfwd(f)):
        with pytest.raises(RuntimeError):
            hessian(end)(point)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError):  # forward derivatives of the gradient
        dual = torch.autograd.forward_ad.make_dual(point.clone().requires_grad_(), torch.ones_like(point))
        torch.autograd.grad(end(dual), dual)


def test_second_derivatives_of_pictures_are_errors() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        states = scene.rollout(frames=1)
    name = "block.face_colors"
    point = torch.as_tensor(scene.parameters[name].value)

    def light(value: torch.Tensor) -> torch.Tensor:
        return scene.render(states, {name: value}).sum()

    for hessian in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacfwd(f))):
        with pytest.raises(RuntimeError):
            hessian(light)(point)
    with pytest.raises(RuntimeError, match="differentiate a picture twice"):
        torch.autograd.functional.hessian(light, point)


def test_what_has_no_derivative_of_its_own_says_so() -> None:
    """Columns of a Jacobian, and the initial poses of links."""
    function = MAKERS["render"]()
    ambient = function.inputs.ambient.clone().requires_grad_()
    images, columns = bridge.render_jacobian(
        replace(function.inputs, ambient=ambient), function.settings, {"ambient": torch.ones_like(ambient)[None]}
    )
    for result in (images, columns):
        with pytest.raises(RuntimeError, match="differentiate a picture twice"):
            result.sum().backward()
    scene = make_scene(size=8)
    psi = default_psi(scene)
    images, columns = image_jacobian(scene, scene.start_poses(scene.table.values()), psi.sample(1)[0].requires_grad_(), psi)
    for result in (images, columns):
        with pytest.raises(RuntimeError, match="image_jacobian"):
            result.sum().backward()
    scene = load_scene("pendulum")
    values = scene.table.values({"pendulum.length": torch.tensor(0.9, dtype=torch.float64, requires_grad=True)})
    with pytest.raises(RuntimeError, match="initial poses"):
        scene.start_poses(values).sum().backward()


# -- forward mode ---------------------------------------------------------------------------------------------------------

RENDERS = [name for name in MAKERS if name != "rollout"]


def tangent_of(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=tensor.dtype).to(tensor.device)


@pytest.mark.parametrize("maker", RENDERS)
def test_forward_mode_is_the_transpose_of_reverse_mode(maker: str) -> None:
    """Every input by itself: <u, J v> = <J^T u, v>."""
    function = MAKERS[maker]()
    wanted = gradients(function, leaves(function))
    for seed, name in enumerate(function.names):
        point = getattr(function.inputs, name).contiguous()
        along = tangent_of(point, seed)
        images, tangent = torch.func.jvp(lambda t, name=name: function(**{name: t}), (point,), (along,))
        one = float((tangent * weight_of(images)).sum())
        other = float((wanted[name] * along).sum())
        assert one == pytest.approx(other, rel=1e-8, abs=1e-13 * float(wanted[name].abs().sum())), name
        assert close(images, function(**{name: point})), name


@pytest.mark.parametrize("maker", RENDERS)
def test_every_way_to_a_forward_derivative_is_the_same(maker: str) -> None:
    """torch.func.jvp, forward_ad, jacfwd (many columns in one pass), and reverse: vjp and jacrev."""
    function = MAKERS[maker]()
    start, along = {}, {}
    for seed, name in enumerate(("camera", "albedo", "directional")):
        start[name] = getattr(function.inputs, name).contiguous()
        along[name] = tangent_of(start[name], seed)

    def moved(step: torch.Tensor) -> torch.Tensor:
        """Pictures a step [2] along two directions: half of the first, and the second."""
        return function(**{n: t + along[n] * (0.5 * step[0] + step[1]) for n, t in start.items()})

    with torch.autograd.forward_ad.dual_level():
        duals = {n: torch.autograd.forward_ad.make_dual(t, along[n]) for n, t in start.items()}
        images, tangent = torch.autograd.forward_ad.unpack_dual(function(**duals))
    point = torch.zeros(2, dtype=torch.float64)
    columns = torch.func.jacfwd(moved)(point)
    assert columns.shape == (*images.shape, 2) and tangent.abs().max() > 0
    assert close(columns[..., 1], tangent) and close(columns[..., 0], 0.5 * tangent)
    _, again = torch.func.jvp(moved, (point,), (torch.tensor([0.0, 1.0], dtype=torch.float64),))
    assert close(again, tangent)
    pulled, pull = torch.func.vjp(moved, point)
    (gradient,) = pull(weight_of(pulled))
    assert float(gradient[1]) == pytest.approx(float((tangent * weight_of(images)).sum()), rel=1e-8)
    rows = torch.func.jacrev(lambda step: projected(moved(step), 2))(point)
    assert close(rows[:, 1], projected(tangent, 2), rtol=1e-8)


def test_a_batch_of_pictures_by_vmap() -> None:
    function = MAKERS["render everything"]()
    ambient = torch.rand((3, *function.inputs.ambient.shape), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = torch.func.vmap(lambda a: function(ambient=a))(ambient)
    for one, a in zip(together, ambient, strict=True):
        assert close(one, function(ambient=a))


def test_derivatives_of_forward_derivatives_are_errors() -> None:
    function = MAKERS["render"]()
    point = function.inputs.ambient.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(point, torch.ones_like(point))
        _, tangent = torch.autograd.forward_ad.unpack_dual(function(ambient=dual))
        with pytest.raises(RuntimeError, match="twice"):
            tangent.sum().backward()


def test_jacobian_has_the_columns_of_jvp() -> None:
    function = MAKERS["render everything"]()
    names = ("camera", "point", "texels")
    tangents = {n: torch.stack([tangent_of(getattr(function.inputs, n), 7 * k) for k in range(3)]) for n in names}
    images, columns = bridge.render_jacobian(function.inputs, function.settings, tangents)
    assert columns.shape == (images.shape[0], 3, *images.shape[1:])
    limit = 4 * image_bytes(function.inputs, function.settings)
    parts = bridge.render_jacobian(function.inputs, function.settings, tangents, memory_limit=limit)
    assert close(parts[0], images) and close(parts[1], columns)
    for k in range(3):
        primals = tuple(getattr(function.inputs, n) for n in names)
        _, one = torch.func.jvp(
            lambda *t: function(**dict(zip(names, t, strict=True))), primals, tuple(tangents[n][k] for n in names)
        )
        assert close(columns[:, k], one)


# -- rendering in parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worlds", [1, 3])
def test_pictures_in_parts_are_the_pictures(worlds: int) -> None:
    scene = make_full_scene(size=8)
    whole = Render(scene, worlds=worlds)
    tensors = leaves(whole)
    for name in ("albedo", "texels"):  # a row for each world
        row = tensors[name].detach()[:1]
        tensors[name] = torch.cat([row * (1 - 0.1 * k) for k in range(worlds)]).requires_grad_()
    wanted, output = gradients(whole, tensors), whole(**tensors)
    one = image_bytes(whole.inputs, whole.settings)
    for images in (1, 2, 3, 5, 100):
        part = Render(scene, worlds=worlds, memory_limit=images * one)
        assert close(part(**tensors), output), images
        for name, gradient in gradients(part, tensors).items():
            assert close(gradient, wanted[name], rtol=1e-10), (images, name)


def test_parts_keep_whole_rows_and_fit_the_limit() -> None:
    function = Render(make_full_scene(size=8), worlds=3)
    inputs = replace(function.inputs, albedo=function.inputs.albedo.expand(3, -1, -1, -1))
    one = image_bytes(inputs, function.settings)
    count = inputs.body_q.shape[0]
    assert count == 3 * FRAMES
    assert plan_chunks(inputs, function.settings, None) == [Chunk(0, count, count)]
    spans = [(c.first, c.last) for c in plan_chunks(inputs, function.settings, 3 * one)]
    assert spans == [(0, 2), (2, 4), (4, 6)]  # three images would be one row of albedo and a half
    assert [c.rows(3) for c in plan_chunks(inputs, function.settings, 3 * one)] == [slice(k, k + 1) for k in range(3)]
    assert [(c.first, c.last) for c in plan_chunks(inputs, function.settings, 5 * one)] == [(0, 4), (4, 6)]
    with pytest.raises(UserError, match=rf"memory limit is {one - 1} bytes, and one picture of 8 x 8 pixels needs {one}"):
        plan_chunks(inputs, function.settings, one - 1)


def test_parts_keep_nothing_from_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from risp_torch.scene.bridge import pictures

    rendered = []
    original = pictures.render_arrays
    monkeypatch.setattr(pictures, "render_arrays", lambda *a: rendered.append(a[0].body_q.shape[0]) or original(*a))
    function = in_parts(make_full_scene(size=8))
    output = function(ambient=function.inputs.ambient.clone().requires_grad_())
    assert rendered == [1] * FRAMES and output.grad_fn.call.saved_result is None
    output.sum().backward()
    assert rendered == [1] * (2 * FRAMES)


def test_pictures_that_nobody_holds_are_freed_at_once() -> None:
    """What the graph keeps for the derivatives holds no reference to the pictures themselves, which hold the graph."""
    function = MAKERS["render everything"]()
    function()  # compiling leaves references behind
    output = function(ambient=function.inputs.ambient.clone().requires_grad_())
    kept = weakref.ref(output.grad_fn.call)
    gc.disable()
    try:
        output.sum().backward()
        del output
        assert kept() is None
    finally:
        gc.enable()


# -- a whole scene --------------------------------------------------------------------------------------------------------


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


def test_a_state_replaces_the_start_and_carries_a_gradient() -> None:
    scene = make_scene(size=8)
    with torch.no_grad():
        whole = scene.rollout(frames=4)
    state = State(body_q=whole.body_q[:, 2], body_qd=whole.body_qd[:, 2])
    split = scene.rollout(frames=2, state=state)
    # The push acts in the first frame of a film; from the second on, two films of half the length are the whole one.
    for parameters, frame in (({"push.impulse": torch.zeros(3)}, 0), (None, 2)):
        unpushed = scene.rollout(parameters, frames=2, state=state.replace(frame=frame))
        assert close(unpushed.body_q, whole.body_q[:, 2:], rtol=1e-12)
    assert not close(split.body_q, whole.body_q[:, 2:], rtol=1e-6)
    body_q = whole.body_q[:, 2].clone().requires_grad_()
    scene.rollout(frames=2, state=state.replace(body_q=body_q)).body_qd.sum().backward()
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


@taichi_gradients
def test_a_tape_without_torch_gives_the_gradient_of_the_bridge_three_times() -> None:
    scene = make_scene(size=8)
    rollout, render = Rollout(scene), Render(scene)
    settings = scene.view.raster_settings()
    rigid = leaves(rollout)
    seen = leaves(render, tuple(name for name in render.names if name != "body_q"))
    body_q, *_ = bridge.rollout(rollout.solver, RigidInputs(**rigid), FRAMES)
    pictures = bridge.render(replace(render.inputs, body_q=body_q[0], **seen), settings)
    weight = weight_of(pictures)
    value = (weight * pictures**2).sum()
    value.backward()

    inputs = RigidInputs(**{name: taichi_array(tensor, needs_grad=True) for name, tensor in rigid.items()})
    frames = [taichi_zeros(1, FRAMES + 1, 1, size) for size in (7, 6)]
    poses = taichi_zeros(FRAMES + 1, 1, 7)
    images = taichi_zeros(*pictures.shape)
    loss = taichi_zeros(1)
    weights = taichi_array(weight)
    arrays = {name: taichi_array(tensor, needs_grad=True) for name, tensor in seen.items()}
    integers = {name: taichi_array(v) for name, v in vars(render.inputs.mesh).items() if isinstance(v, torch.Tensor)}
    scenery = RenderInputs(mesh=replace(render.inputs.mesh, **integers), body_q=poses, **arrays)
    simulate = RigidTape(rollout.solver, FRAMES)
    for _ in range(3):
        with Tape(loss):
            simulate(inputs, *frames)
            frames_to_images(frames[0], poses)
            render_tape(scenery, settings, images)
            add_weighted(images, weights, loss)
        assert loss.to_numpy()[0] == pytest.approx(value.item(), rel=1e-12)
        for name, tensor in (rigid | seen).items():
            array = arrays[name] if name in arrays else getattr(inputs, name)
            difference = np.abs(array.grad.to_numpy() - tensor.grad.cpu().numpy()).max()
            assert difference <= 1e-10 * tensor.grad.abs().max(), name
