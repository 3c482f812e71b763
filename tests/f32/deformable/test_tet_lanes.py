"""Tetrahedra in lanes, and their adjoints, are as those one at a time, whose f64 kernels are compared with differences."""

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for, solid_body
from ti_sim import Checkpoint, StoreAll
from ti_sim.base.lanes import LANES
from ti_sim.base.runtime import require
from ti_sim.deformable import solver as solver_module
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.lane_rollout import has_lanes
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_hexes, box_tets

FRAMES, NAMES = 2, tuple(field.name for field in fields(DeformableInputs))

pytestmark = pytest.mark.skipif(require().device != "cpu", reason="lanes are those of a processor")


def block(*, worlds: int, damping: float, tets: int) -> tuple[DeformableModel, DeformableInputs]:
    """The first tetrahedra of a block that slides over the ground: some particles are held, moved, or loaded."""
    draw = np.random.default_rng(tets)
    mesh = box_tets((0.4, 0.3, 0.3), (3, 2, 2))
    model = DeformableModel(
        particle_rest=mesh.vertices, tet_indices=mesh.indices[:tets], fixed=np.array([0]), prescribed=np.array([1]),
        loaded=np.array([7]), contact=np.arange(len(mesh.vertices)), ground_height=float(mesh.vertices[:, 2].min()) + 1e-3,
    )  # fmt: skip
    shape = (worlds, model.particle_count, 3)
    inputs = inputs_for(
        model, worlds=worlds, frames=FRAMES,
        particle_q0=model.particle_rest + draw.uniform(-0.01, 0.01, shape),
        particle_qd0=draw.normal(size=shape) + (1.0, 0.0, 0.0),
        particle_mass=draw.uniform(0.01, 0.02, shape[:2]),
        particle_contact=(100.0, 1.0, 1.0, 0.4),
        solid_material=np.stack([draw.uniform(800, 1200, (worlds, tets)), draw.uniform(1500, 2500, (worlds, tets)),
                                 np.full((worlds, tets), damping)], axis=-1),
        solid_actuation=draw.uniform(-0.1, 0.1, (worlds, FRAMES, tets)),
        gravity=(0.0, 0.0, -9.81),
        load=draw.normal(size=(worlds, FRAMES, 1, 3)),
        prescribed_qd=draw.normal(size=(worlds, FRAMES, 1, 3)),
    )  # fmt: skip
    return model, in_single(inputs)


def in_single(inputs: DeformableInputs) -> DeformableInputs:
    """The same inputs in single precision."""
    arrays = {name: getattr(inputs, name) for name in NAMES}
    return replace(inputs, **{name: np.asarray(array, dtype=np.float32) for name, array in arrays.items() if array is not None})


def run(model: DeformableModel, inputs: DeformableInputs, plan: str, adjoint: StoreAll | Checkpoint) -> dict[str, np.ndarray]:
    """Frames and adjoints of a random linear functional of them."""
    solver = DeformableSolver(model, DeformableSettings(dt=5e-4, substeps=20, plan=plan))
    rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
    draw = np.random.default_rng(1)
    bars = (draw.normal(size=rollout.particle_q.shape).astype(np.float32) for _ in range(2))
    result = solver.rollout_adjoint(rollout, *bars)
    frames = {"particle_q": rollout.particle_q, "particle_qd": rollout.particle_qd}
    return frames | {name: getattr(result, name) for name in NAMES}


@pytest.mark.parametrize("plan", ["world", "element"])
@pytest.mark.parametrize(("worlds", "damping", "tets"), [(2, 0.0, 60), (1, 2.0, 3 * LANES + 1), (3, 2.0, LANES - 2)])
def test_lanes_give_the_same(worlds: int, damping: float, tets: int, plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = block(worlds=worlds, damping=damping, tets=tets)
    assert has_lanes(model, inputs)
    found = {adjoint: run(model, inputs, plan, adjoint) for adjoint in (StoreAll(), Checkpoint(7))}
    monkeypatch.setattr(solver_module, "has_lanes", lambda *_: False)
    wanted = run(model, inputs, plan, StoreAll())
    for name in ("particle_q0", "particle_mass", "particle_contact", "solid_material", "solid_actuation", "gravity", "load"):
        assert np.any(wanted[name]), name
    assert wanted["particle_contact"].any(axis=(0, 1)).all()  # touching, sliding and sticking
    assert np.any(wanted["solid_material"][..., 2]) and np.any(wanted["prescribed_qd"])
    for arrays in found.values():
        for name, array in wanted.items():
            largest = np.abs(array).max(initial=0)
            np.testing.assert_allclose(arrays[name], array, rtol=0, atol=2e-5 * largest, err_msg=name)


def test_models_that_have_lanes() -> None:
    tets, hexahedra = box_tets((1.0, 1.0, 1.0), (1, 1, 1)), box_hexes((1.0, 1.0, 1.0), (1, 1, 1))
    model, inputs = solid_body(tets)
    assert has_lanes(model, inputs)
    assert not has_lanes(solid_body(tets, energy="stvk")[0], inputs)
    assert not has_lanes(solid_body(hexahedra)[0], inputs)
    mixed = DeformableModel(particle_rest=tets.vertices, tet_indices=tets.indices, spring_indices=np.array([[0, 1]]))
    assert not has_lanes(mixed, inputs)
