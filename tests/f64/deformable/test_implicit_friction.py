"""Implicit steps with much friction converge, and scenes without free particles have steps, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for, solid_body
from tests.reference.implicit import imbalance
from ti_sim import ConvergenceError, ImplicitSettings, StoreAll
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_hexes

FRAMES = 8


@pytest.mark.parametrize("integrator", ["backward_euler", "bdf2", "sdirk2"])
@pytest.mark.parametrize("dt", [0.02, 0.004])
def test_a_block_that_is_thrown_on_rough_ground_converges(integrator: str, dt: float) -> None:
    mesh = box_hexes((0.2, 0.1, 0.1), (4, 2, 2))
    model, inputs = solid_body(mesh, young=2e4, elements={"contact": np.arange(len(mesh.vertices))}, gravity=(0, 0, -9.81))
    tilt = np.array([[0.98, -0.06, 0.17], [0.08, 0.99, -0.11], [-0.16, 0.12, 0.98]])
    start = np.linalg.qr(tilt)[0] @ inputs.particle_q0[0].T
    start = start.T - [0, 0, start[2].min() + 2e-3]
    contact = np.broadcast_to((3e4, 30.0, 20.0, 1.0), inputs.particle_contact.shape).copy()
    speed = np.broadcast_to((0.7, 0.1, -0.8), inputs.particle_qd0.shape).copy()
    rows = {
        name: np.ascontiguousarray(np.repeat(getattr(inputs, name)[:, :1], FRAMES, axis=1))
        for name in ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
    }
    inputs = replace(inputs, particle_q0=start[None].copy(), particle_qd0=speed, particle_contact=contact, **rows)
    settings = ImplicitSettings(tolerance=1e-9)
    solver = DeformableSolver(model, DeformableSettings(dt=dt, substeps=1, integrator=integrator, implicit=settings))
    rollout = solver.rollout(inputs, FRAMES)
    assert (rollout.diverged_step == -1).all()
    if integrator == "backward_euler":
        q, qd = rollout.particle_q, rollout.particle_qd
        for k in range(FRAMES):
            hat = q[:, k], qd[:, k]
            _, force = imbalance(model, inputs, q[:, k + 1], qd[:, k + 1], hat, q[:, k], dt, k, settings.onset)
            assert np.abs(force).max() < 1e-4


def test_without_free_particles_all_stays() -> None:
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0]]), spring_indices=np.array([[0, 1]]), fixed=np.array([0, 1])
    )
    inputs = inputs_for(model, frames=2, spring_material=(30.0, 0.2, 0.9))
    solver = DeformableSolver(model, DeformableSettings(dt=0.01, substeps=1, integrator="sdirk2"))
    rollout = solver.rollout(inputs, 2, adjoint=StoreAll())
    np.testing.assert_array_equal(rollout.particle_q[0], np.repeat(inputs.particle_q0, 3, axis=0))
    bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.particle_q), np.zeros_like(rollout.particle_qd))
    np.testing.assert_allclose(bars.particle_q0, 3.0)


def test_an_error_names_substeps_that_converge() -> None:
    """A weight that is thrown across its spring, with few iterations."""
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0]]), spring_indices=np.array([[0, 1]]), fixed=np.array([0])
    )
    inputs = inputs_for(model, frames=3, spring_material=(100.0, 0, 0.9), particle_qd0=((0, 0, 0), (0, 30.0, 0)))
    settings = ImplicitSettings(iterations=5)

    def solver_of(substeps: int) -> DeformableSolver:
        return DeformableSolver(
            model, DeformableSettings(dt=0.2 / substeps, substeps=substeps, integrator="backward_euler", implicit=settings)
        )

    solver = solver_of(1)
    with pytest.raises(ConvergenceError, match="converge here: set substeps=") as error:
        solver.check_divergence(solver.rollout(inputs, 3))
    named = int(str(error.value).rpartition("=")[2])
    assert (solver_of(named).rollout(inputs, 1).diverged_step == -1).all()
