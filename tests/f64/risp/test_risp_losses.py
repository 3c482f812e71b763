"""RISP's losses (ICLR 2022, Eq. 8, 10 and 12) against differences of N(R(psi)) through the renderer itself.

The reference never sees dI/dpsi: it renders at psi + h and psi - h, and lets the network read both. Its derivative by the
network's parameters is again a difference of two such values. Both are smooth where they are taken: every |s - N| is far from
0, no picture is clipped, and the steps are so short that no maximum of a pool moves to another pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.func import functional_call

from risp_torch.risp import NetworkSettings, RispNetwork
from risp_torch.risp.task import load_task, training_scene
from risp_torch.risp.training.losses import Norm, error_and_gradient_norm, error_and_jacobian_norm, state_error
from risp_torch.scene.rendering_parameters import image_jacobian
from ti_sim.base.gradcheck import GradcheckReport, gradcheck

SIZE, PICTURES = 64, 2
PSI_STEP, PARAMETER_STEP = 4e-6, 1e-5
LINES = 3  # random directions in the space of the network's parameters
NORMS: tuple[Norm, ...] = ("norm", "squared")


@dataclass(frozen=True)
class Pictures:
    """Two poses of the die in two appearances, and the same poses with every entry of psi a little changed.

    Attributes:
        images: [B, H, W, 3].
        jacobian: [B, K, H, W, 3], from the renderer's forward mode.
        outputs: [B, S].
        moved: [B, 2, K, H, W, 3], pictures at psi + h e_k and at psi - h e_k.
    """

    images: torch.Tensor
    jacobian: torch.Tensor
    outputs: torch.Tensor
    moved: torch.Tensor

    @cached_property
    def rows(self) -> torch.Tensor:
        """The pictures as the network takes them, [B, 3, H, W]."""
        return self.images.permute(0, 3, 1, 2).contiguous()


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    scene = training_scene("cube", SIZE)
    task = load_task("cube", scene)
    parameters = task.domains.training.parameters
    random = np.random.default_rng(3)
    poses = torch.stack([task.head.sample(scene, random) for _ in range(PICTURES)])
    psi = 0.5 * parameters.sample(PICTURES, seed=1)
    images, jacobian = image_jacobian(scene, poses, psi, parameters)
    step = PSI_STEP * torch.eye(parameters.size, dtype=torch.float64)
    around = psi[:, None] + torch.cat([step, -step])
    with torch.no_grad():
        values = parameters.values(around.flatten(0, 1))
        moved = scene.render(poses.repeat_interleave(around.shape[1], 0)[:, None], values)[:, 0]
    moved = moved.reshape(PICTURES, 2, parameters.size, SIZE, SIZE, 3)
    assert 0 < moved.min() and moved.max() < 1  # nothing is clipped
    return Pictures(images, jacobian, task.head.outputs(scene, poses), moved)


@pytest.fixture(scope="module", params=["spatial", "average"])
def network(request: pytest.FixtureRequest) -> RispNetwork:
    torch.manual_seed(1)
    return RispNetwork(NetworkSettings(outputs=9, size=SIZE, width=2, head=request.param)).double()


def length(entries: torch.Tensor, norm: Norm) -> torch.Tensor:
    """Norm of every picture's entries [B, ...], or its square."""
    square = entries.flatten(1).square().sum(1)
    return square if norm == "squared" else square.sqrt()


def differences(values: torch.Tensor) -> torch.Tensor:
    """[B, K, ...] derivatives by psi from values [B, 2, K, ...] on both sides."""
    return (values[:, 0] - values[:, 1]) / (2 * PSI_STEP)


def reference(regulariser: str, network: RispNetwork, pictures: Pictures, norm: Norm) -> torch.Tensor:
    """Penalty [B] by rendering on both sides of psi, with the network's parameters as they are."""
    predicted = network.read(pictures.moved)
    if regulariser == "outputs":
        return length(differences(predicted), norm)  # Eq. 10
    return length(differences((predicted - pictures.outputs[:, None, None]).abs().sum(-1)), norm)  # Eq. 12


def penalty(regulariser: str, network: RispNetwork, pictures: Pictures, norm: Norm) -> torch.Tensor:
    """Penalty [B] from dI/dpsi."""
    penalised = error_and_jacobian_norm if regulariser == "outputs" else error_and_gradient_norm
    return penalised(network, pictures.rows, pictures.outputs, pictures.jacobian, norm=norm)[1]


def test_error_is_the_sum_of_absolute_differences() -> None:
    predicted, outputs = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]), torch.tensor([[0.5, 1.0, 0.5], [1.0, -2.0, 4.0]])
    assert state_error(predicted, outputs).tolist() == [3.5, 7.0]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("regulariser", ["outputs", "error"])
def test_value_is_that_of_differences_through_the_renderer(
    regulariser: str, norm: Norm, network: RispNetwork, pictures: Pictures
) -> None:
    found = penalty(regulariser, network, pictures, norm)
    with torch.no_grad():
        predicted, wanted = network.read(pictures.images), reference(regulariser, network, pictures, norm)
    assert (predicted - pictures.outputs).abs().min() > 1e-2 > 1e3 * PSI_STEP  # far from the kink of the L1 norm
    assert wanted.min() > 0.1
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("regulariser", ["outputs", "error"])
@pytest.mark.parametrize("network", ["spatial"], indirect=True)
def test_gradient_by_the_parameters_is_that_of_differences_through_the_renderer(
    regulariser: str, norm: Norm, network: RispNetwork, pictures: Pictures
) -> None:
    check_parameters(regulariser, norm, network, pictures).raise_if_wrong()


def check_parameters(regulariser: str, norm: Norm, network: RispNetwork, pictures: Pictures) -> GradcheckReport:
    """``gradcheck`` of the sum of penalties by single parameters and along random directions."""
    own = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    generator = torch.Generator().manual_seed(11)
    count = sum(value.numel() for value in own.values())
    directions = [
        {name: torch.randn(value.shape, generator=generator, dtype=torch.float64) / count**0.5 for name, value in own.items()}
        for _ in range(LINES)
    ]

    def at(point: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        lines = zip(point["lines"].unbind(), directions, strict=True)
        moved = dict(own)
        for amount, direction in lines:
            moved = {name: value + amount * direction[name] for name, value in moved.items()}
        return {name: value + point[name] - own[name] if name in point else value for name, value in moved.items()}

    def evaluate(point: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        """The loss and its gradient, both from dI/dpsi."""
        tensors = {name: torch.tensor(value, requires_grad=True) for name, value in point.items()}
        parameters = at(tensors)
        bound = _Bound(network, parameters)
        loss = penalty(regulariser, bound, pictures, norm).sum()
        gradients = torch.autograd.grad(loss, list(tensors.values()))
        return float(loss.detach()), {name: g.cpu().numpy() for name, g in zip(tensors, gradients, strict=True)}

    def by_rendering(point: dict[str, np.ndarray]) -> float:
        bound = _Bound(network, at({name: torch.tensor(value) for name, value in point.items()}))
        with torch.no_grad():
            return float(reference(regulariser, bound, pictures, norm).sum())

    first, last = "stem.0.weight", "stages.3.1.residual.3.weight"
    point = {"lines": np.zeros(LINES)} | {
        name: own[name].cpu().numpy() for name in (first, "stages.1.0.shortcut.0.weight", last, "linear.weight")
    }
    # Differences of second order are 1e-5 of the largest entry off by third derivatives. Those of fourth order leave rounding
    # over the steps of both differences.
    largest = max(float(np.abs(gradient).max()) for gradient in evaluate(point)[1].values())
    rounding = np.finfo(float).eps / (PSI_STEP * PARAMETER_STEP)
    return gradcheck(
        evaluate, point, step=PARAMETER_STEP, rtol=1e-4, atol=rounding * largest, floor=1e-3, order=4,
        max_entries=LINES, min_observable=12, loss=by_rendering,
    )  # fmt: skip


class _Bound:
    """A network with other parameters."""

    def __init__(self, network: RispNetwork, parameters: dict[str, torch.Tensor]) -> None:
        self.network, self.parameters = network, parameters

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return functional_call(self.network, self.parameters, (images,))

    def read(self, images: torch.Tensor) -> torch.Tensor:
        return self(images.reshape(-1, SIZE, SIZE, 3).permute(0, 3, 1, 2)).reshape(*images.shape[:-3], -1)


@pytest.mark.parametrize("norm", NORMS)
def test_both_loops_give_the_same_value_and_gradient(norm: Norm, network: RispNetwork, pictures: Pictures) -> None:
    results = []
    for loop in ("outputs", "psi", "cheaper"):
        # The renderer's own order of the axes, which a network sees as a transposed view.
        rows = pictures.images.permute(0, 3, 1, 2)
        error, found = error_and_jacobian_norm(network, rows, pictures.outputs, pictures.jacobian, norm=norm, loop=loop)
        gradients = torch.autograd.grad((error + 0.3 * found).sum(), list(network.parameters()))
        results.append((error.detach(), found.detach(), torch.cat([g.flatten() for g in gradients])))
    for one, other in pairwise(results):
        for a, b in zip(one, other, strict=True):
            assert (a - b).abs().max() <= 1e-10 * a.abs().max()


@pytest.mark.parametrize("loop", ["outputs", "psi"])
@pytest.mark.parametrize(("outputs", "columns"), [(2, 5), (5, 2)])
def test_linear_network_has_its_formula(outputs: int, columns: int, loop: str) -> None:
    generator = torch.Generator().manual_seed(5)
    images, jacobian = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in
                        ((2, 3, 4, 4), (2, columns, 4, 4, 3)))  # fmt: skip
    weight = torch.randn(outputs, 48, generator=generator, dtype=torch.float64, requires_grad=True)
    shown = torch.randn(2, outputs, generator=generator, dtype=torch.float64)
    network = lambda x: x.flatten(1) @ weight.T  # noqa: E731
    error, found = error_and_jacobian_norm(network, images, shown, jacobian, loop=loop)
    a = weight.detach().cpu().numpy().reshape(outputs, 3, 4, 4)
    g = np.einsum("schw,bkhwc->bsk", a, jacobian.cpu().numpy())  # dN/dpsi
    frobenius = np.sqrt((g**2).sum((1, 2)))
    np.testing.assert_allclose(found.detach(), frobenius, rtol=1e-12)
    signed = (images.flatten(1) @ weight.T - shown).detach().cpu().numpy()
    np.testing.assert_allclose(error.detach(), np.abs(signed).sum(1), rtol=1e-12)
    (gradient,) = torch.autograd.grad(found.sum(), weight)
    wanted = np.einsum("bsk,bkhwc,b->schw", g, jacobian.cpu().numpy(), 1 / frobenius)
    np.testing.assert_allclose(gradient.reshape(a.shape), wanted, rtol=1e-9, atol=1e-12)

    _, found = error_and_gradient_norm(network, images, shown, jacobian, norm="squared")
    slope = np.einsum("bs,bsk->bk", np.sign(signed), g)  # dL/dpsi
    np.testing.assert_allclose(found.detach(), (slope**2).sum(1), rtol=1e-12)
    (gradient,) = torch.autograd.grad(found.sum(), weight)
    wanted = 2 * np.einsum("bs,bk,bkhwc->schw", np.sign(signed), slope, jacobian.cpu().numpy())
    np.testing.assert_allclose(gradient.reshape(a.shape), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("penalised", [error_and_jacobian_norm, error_and_gradient_norm])
def test_pictures_that_psi_does_not_change_cost_nothing(penalised, network: RispNetwork, pictures: Pictures) -> None:
    jacobian = torch.zeros_like(pictures.jacobian, dtype=torch.float16)
    _, found = penalised(network, pictures.rows, pictures.outputs, jacobian)
    gradients = torch.autograd.grad(found.sum(), list(network.parameters()), allow_unused=True)
    assert found.max() <= 1.1e-6
    assert all(g is None or (torch.isfinite(g).all() and g.abs().max() < 1e-12) for g in gradients)


@pytest.mark.parametrize("penalised", [error_and_jacobian_norm, error_and_gradient_norm])
def test_derivatives_in_half_precision_are_taken_as_they_are_stored(
    penalised, network: RispNetwork, pictures: Pictures
) -> None:
    stored = pictures.jacobian.half()
    given = (network, pictures.rows, pictures.outputs)
    _, half = penalised(*given, stored)
    _, same = penalised(*given, stored.double())
    _, exact = penalised(*given, pictures.jacobian)
    assert torch.equal(half, same)
    torch.testing.assert_close(half, exact, rtol=2e-3, atol=0)
