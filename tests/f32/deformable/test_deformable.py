"""The deformable solver in single precision: long sums, both plans, memory of checkpoints."""

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for
from tests.reference.devices import long_loops
from ti_sim import Checkpoint, StoreAll
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets


def in_f32(inputs: DeformableInputs) -> DeformableInputs:
    """The inputs in single precision."""
    return DeformableInputs(*(array.astype(np.float32) for array in inputs.arrays()))


@long_loops
def test_twenty_thousand_steps_with_checkpoints() -> None:
    model = DeformableModel(particle_rest=np.zeros((1, 3)), loaded=np.array([0]))
    steps, dt = 20000, 1e-4
    inputs = in_f32(inputs_for(model, particle_mass=2.0, load=(0, 0, 3.0)))
    solver = DeformableSolver(model, DeformableSettings(dt=dt, substeps=steps, plan="world"))
    rollout = solver.rollout(inputs, 1, adjoint=Checkpoint(140))
    assert rollout.states.nbytes < 5000
    last = np.zeros_like(rollout.particle_q)
    last[0, 1, 0, 2] = 1.0
    bars = solver.rollout_adjoint(rollout, last, 0 * last)
    fallen = dt * dt * steps * (steps + 1) / 2
    np.testing.assert_allclose(rollout.particle_q[0, 1, 0, 2], 1.5 * fallen, rtol=2e-4)
    np.testing.assert_allclose(bars.gravity[0, 2], fallen, rtol=2e-4)
    np.testing.assert_allclose(bars.load[0, 0, 0, 2], fallen / 2, rtol=2e-4)
    np.testing.assert_allclose(bars.particle_mass[0, 0], -0.75 * fallen, rtol=1e-3)


@pytest.mark.threads
def test_plans_agree_on_a_bouncing_block() -> None:
    mesh = box_tets((0.2, 0.2, 0.2), (2, 2, 2))
    model = DeformableModel(
        particle_rest=mesh.vertices, tet_indices=mesh.indices, contact=np.arange(len(mesh.vertices)), ground_height=-0.11
    )
    inputs = in_f32(
        inputs_for(
            model, frames=10, particle_mass=0.02, particle_qd0=(0.5, 0, -1.0), particle_contact=(500.0, 0.5, 0.5, 0.4),
            solid_material=(2e4, 2e4, 5.0), gravity=(0, 0, -9.81),
        )
    )  # fmt: skip
    results = []
    for plan, adjoint in (("world", StoreAll()), ("element", StoreAll()), ("world", Checkpoint(9))):
        solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=10, plan=plan))
        rollout = solver.rollout(inputs, 10, adjoint=adjoint)
        assert rollout.diverged_step[0] == -1
        last = np.zeros_like(rollout.particle_q)
        last[:, -1] = 1.0
        bars = solver.rollout_adjoint(rollout, last, 0 * last)
        results.append([rollout.particle_q, bars.particle_qd0, bars.particle_mass, bars.solid_material, bars.particle_contact])
    assert results[0][0][0, -1, :, 2].min() > -0.15 and np.all(np.any(results[0][4], axis=1)[0, :3])
    for other in results[1:]:
        for found, wanted in zip(other, results[0], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-3 * np.abs(wanted).max())
