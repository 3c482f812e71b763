"""Linear systems of implicit steps by teams of threads, as on a GPU: against factors on the processor."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

from tests.reference.deformable_cases import solid_body
from tests.reference.thin_strip import jacobian_of_a_thin_strip
from ti_sim import ImplicitSettings, StoreAll
from ti_sim.deformable.implicit import linear
from ti_sim.deformable.implicit.linear import LinearSolver
from ti_sim.deformable.implicit.matrix import pattern_of
from ti_sim.deformable.implicit.team_linear import TeamSolver
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets

FRAMES = 2


@pytest.fixture
def by_team(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems are solved by a team on every device."""
    monkeypatch.setattr(linear, "solves_by_team", lambda: True)


@pytest.mark.threads
def test_solutions_of_systems_that_are_not_symmetric(by_team: None) -> None:
    mesh = box_tets((0.2, 0.1, 0.1), (3, 2, 2))
    model, _inputs = solid_body(mesh, elements={"fixed": [0, 1]})
    pattern, random = pattern_of(model), np.random.default_rng(0)
    rows = 3 * len(pattern.free)
    is_diagonal = pattern.columns == np.repeat(np.arange(rows), np.diff(pattern.offsets))
    data = random.normal(size=len(pattern.columns)) + 20.0 * is_diagonal
    rhs, solver = random.normal(size=rows), LinearSolver(pattern)
    for transposed in (False, True):
        found = solver.solve(data, rhs, tolerance=1e-11, renew=True, transposed=transposed, indefinite=True)
        matrix = pattern.full(data).T if transposed else pattern.full(data)
        assert np.linalg.norm(matrix @ found - rhs) <= 1e-11 * np.linalg.norm(rhs)
        np.testing.assert_allclose(found, spsolve(matrix.tocsc(), rhs), atol=1e-9 * np.abs(found).max())
    assert solver.factors == 0


@pytest.mark.threads
def test_a_system_that_takes_too_many_iterations_is_factored(by_team: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, data = jacobian_of_a_thin_strip(1.0)
    solves, solve = [], TeamSolver.solve
    monkeypatch.setattr(TeamSolver, "solve", lambda *arguments: solves.append(0) or solve(*arguments))
    monkeypatch.setattr("ti_sim.deformable.implicit.team_linear._MAX_ITERATIONS", 20)
    rhs, solver = np.tile((0.0, 0.0, 1.0), len(pattern.free)), LinearSolver(pattern)
    wanted = solver.solve(data, rhs, tolerance=1e-9, renew=False)
    assert len(solves) == 1 and solver.factors == 1
    assert solver.unsolved_row(data, rhs, wanted, tolerance=1e-9) is None
    solver.solve(data, rhs, tolerance=1e-9, renew=False)
    assert len(solves) == 1


@pytest.mark.threads
@pytest.mark.parametrize("integrator", ["backward_euler", "bdf2"])
def test_steps_and_gradients_are_those_of_factors(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that falls onto the ground with friction and damping: its systems are not symmetric."""
    mesh = box_tets((0.2, 0.1, 0.1), (3, 2, 2))
    elements = {"contact": np.arange(len(mesh.vertices)), "ground_height": mesh.vertices[:, 2].min() - 1e-3}
    model, inputs = solid_body(
        mesh, young=1e5, damping=10.0, elements=elements, worlds=2, frames=FRAMES, particle_contact=(1e4, 1.0, 5.0, 0.4),
        gravity=(0, 0, -9.81), particle_qd0=(0.5, 0.1, -1.0),
    )  # fmt: skip
    inputs.particle_qd0[1] *= 0.5
    settings = ImplicitSettings(tolerance=1e-10, onset=1e-3, adjoint_tolerance=1e-11)
    solver = DeformableSolver(model, DeformableSettings(dt=0.01, substeps=2, integrator=integrator, implicit=settings))

    def results(by_team: bool) -> list[np.ndarray]:
        monkeypatch.setattr(linear, "solves_by_team", lambda: by_team)
        rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
        bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.particle_q), np.ones_like(rollout.particle_qd))
        return [rollout.particle_q, rollout.particle_qd, *(getattr(bars, field.name) for field in fields(DeformableInputs))]

    for found, wanted in zip(results(True), results(False), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max(initial=1e-9), rtol=0)
