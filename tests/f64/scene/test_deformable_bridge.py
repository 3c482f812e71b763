"""The torch function of the deformable rollout: torch's own gradcheck, and the ways in which torch programs call it."""

import gc
import weakref
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import bridge_device
from tests.reference.deformable_cases import inputs_for
from ti_sim import Checkpoint, DivergenceError, UserError
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver

NAMES = tuple(field.name for field in fields(DeformableInputs))
USED = tuple(name for name in NAMES if name.split("_")[0] in ("particle", "spring", "gravity", "load", "prescribed"))
FRAMES = 2


def chain(*, dt: float = 1e-2) -> tuple[DeformableSolver, DeformableInputs]:
    """Two worlds of four particles on springs: one fixed, one prescribed, one loaded, one on the ground; tensors."""
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [0.5, 0, 0.1], [1.0, 0, 0], [1.5, 0, -0.1]]),
        spring_indices=np.array([[0, 1], [1, 2], [2, 3]]),
        fixed=np.array([0]),
        prescribed=np.array([1]),
        loaded=np.array([2]),
        contact=np.array([3]),
    )
    draw = np.random.default_rng(0)
    arrays = inputs_for(
        model,
        worlds=2,
        frames=FRAMES,
        particle_qd0=draw.normal(size=(2, 4, 3)),
        particle_contact=(100.0, 0.5, 0.3, 0.5),
        spring_material=(50.0, 0.5, 0.4),
        gravity=(0, 0, -9.81),
        load=draw.normal(size=(2, FRAMES, 1, 3)),
        prescribed_qd=draw.normal(size=(2, FRAMES, 1, 3)),
    )
    inputs = DeformableInputs(*(torch.from_numpy(array).to(bridge_device()) for array in arrays.arrays()))
    return DeformableSolver(model, DeformableSettings(dt=dt, substeps=3)), inputs


@pytest.mark.parametrize("adjoint", [None, Checkpoint(4)])
def test_torch_gradcheck(adjoint: Checkpoint | None) -> None:
    solver, inputs = chain()

    def frames(*tensors: torch.Tensor) -> torch.Tensor:
        at = replace(inputs, **dict(zip(USED, tensors, strict=True)))
        return torch.cat(bridge.rollout(solver, at, FRAMES, adjoint=adjoint)[:2])

    tensors = [getattr(inputs, name).clone().requires_grad_() for name in USED]
    # Products with random vectors; the solver's own tests look at single numbers.
    assert torch.autograd.gradcheck(frames, tensors, eps=1e-5, atol=1e-5, rtol=1e-5, fast_mode=True)


def test_upstream_gradients_of_any_kind() -> None:
    solver, inputs = chain()
    stiffness = torch.tensor(50.0, dtype=torch.float64, requires_grad=True)
    material = torch.stack([stiffness.expand(2, 3), torch.full((2, 3), 0.5).double(), torch.full((2, 3), 0.4).double()], dim=-1)

    def slope(pick: int) -> torch.Tensor:
        q, qd, steps = bridge.rollout(solver, replace(inputs, spring_material=material), FRAMES)
        assert steps.tolist() == [[-1], [-1]]
        # An expanded upstream gradient, one of a part, and a frame array that is not used.
        loss = {0: q.sum(), 1: q.transpose(1, 2)[:, 2].sum() + qd.sum(), 2: qd.sum()}[pick]
        return torch.autograd.grad(loss, stiffness, retain_graph=True)[0]

    for pick in range(3):
        assert torch.equal(slope(pick), slope(pick)) and slope(pick) != 0
    with torch.no_grad():
        assert not bridge.rollout(solver, replace(inputs, spring_material=material), FRAMES)[0].requires_grad


def test_two_backward_calls_and_release_of_memory() -> None:
    solver, inputs = chain()
    mass = inputs.particle_mass.clone().requires_grad_()
    q, _qd, _steps = bridge.rollout(solver, replace(inputs, particle_mass=mass), FRAMES)
    q[:, -1].sum().backward(retain_graph=True)
    first = mass.grad.clone()
    q[:, -1].sum().backward()
    assert torch.equal(mass.grad, 2 * first)
    held = weakref.ref(q)
    del q, _qd, _steps
    gc.collect()
    assert held() is None


def test_tensors_that_do_not_fit() -> None:
    solver, inputs = chain()
    with pytest.raises(UserError, match="wind is torch.float32"):
        bridge.rollout(solver, replace(inputs, wind=inputs.wind.float()), FRAMES)
    with pytest.raises(UserError, match="wind has shape"):
        bridge.rollout(solver, replace(inputs, wind=inputs.wind[:1]), FRAMES)
    steep = replace(inputs, spring_material=1e8 * inputs.spring_material)
    with pytest.raises(DivergenceError, match="particle 2 .* at step"):
        bridge.rollout(solver, replace(steep, load=inputs.load.expand(2, FRAMES, 1, 3)), FRAMES)
