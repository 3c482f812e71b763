"""The deformable solver against the plain numpy of ``tests.reference.deformable``."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.deformable import contact_forces, elastic_energy, internal_forces, step
from tests.reference.deformable_cases import everything
from ti_sim.deformable.model import DeformableSettings
from ti_sim.deformable.single_state import energy, forces
from ti_sim.deformable.solver import DeformableSolver

CLOSE = {"rtol": 1e-10, "atol": 1e-9}  # of forces of some hundred newtons


def test_reference_forces_are_minus_the_gradient_of_the_reference_energy() -> None:
    model, inputs = everything()
    still, q = replace(inputs, wind=0 * inputs.wind), inputs.particle_q0
    direction = np.random.default_rng(1).normal(size=q.shape)

    def along(s: float) -> np.ndarray:
        return elastic_energy(model, still, q + s * direction)

    difference = (8 * (along(1e-3) - along(-1e-3)) - along(2e-3) + along(-2e-3)) / 12e-3
    work = -(internal_forces(model, still, q, 0 * q) * direction).sum((1, 2))
    np.testing.assert_allclose(work, difference, rtol=1e-7)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_forces_and_energy(spread: float) -> None:
    model, inputs = everything(worlds=4)
    # The wider spread turns many elements inside out.
    q = inputs.particle_q0 + np.random.default_rng(2).uniform(-spread, spread, inputs.particle_q0.shape)
    wanted = internal_forces(model, inputs, q, inputs.particle_qd0)
    np.testing.assert_allclose(forces(model, inputs, q, inputs.particle_qd0), wanted, **CLOSE)
    np.testing.assert_allclose(energy(model, inputs, q), elastic_energy(model, inputs, q), **CLOSE)


@pytest.mark.parametrize("plan", ["world", "element"])
def test_steps(plan: str) -> None:
    model, inputs = everything(worlds=3, frames=2, energies=("corotated",))
    dt, substeps = 1e-3, 2
    rollout = DeformableSolver(model, DeformableSettings(dt=dt, substeps=substeps, plan=plan)).rollout(inputs, 2)
    q, qd = inputs.particle_q0, inputs.particle_qd0
    assert np.any(contact_forces(model, inputs, q, qd, dt))
    for frame in range(2):
        np.testing.assert_allclose(rollout.particle_q[:, frame], q, rtol=0, atol=1e-11)
        for _ in range(substeps):
            q, qd = step(model, inputs, q, qd, dt, frame)
    np.testing.assert_allclose(rollout.particle_q[:, 2], q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(rollout.particle_qd[:, 2], qd, rtol=0, atol=1e-9)
