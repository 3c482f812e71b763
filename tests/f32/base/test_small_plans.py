"""A few steps of both plans of solvers, forward and backward: what a device without much speed can check."""

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for
from tests.reference.rigid_cases import cast, tilted_box
from ti_sim.base.arrays import Array
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

FRAMES, SUBSTEPS = 2, 5


def pass_arrays(solver: RigidSolver | DeformableSolver, inputs: object) -> list[Array]:
    """Frames of a rollout, and the adjoints of all inputs of the sum of their positions."""
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    positions, velocities, *_ = rollout.frame_arrays
    bars = solver.rollout_adjoint(rollout, np.ones_like(positions), np.zeros_like(velocities))
    return [positions, velocities, *bars.arrays()]


def assert_equal_to_rounding(arrays: list[Array], others: list[Array]) -> None:
    for array, other in zip(arrays, others, strict=True):
        np.testing.assert_allclose(array, other, rtol=0, atol=1e-4 * np.abs(other).max(initial=0.0))


@pytest.mark.threads
def test_plans_of_a_sliding_box_agree() -> None:
    model, inputs = tilted_box()
    world, element = (
        pass_arrays(
            RigidSolver(model, RigidSettings(dt=5e-4, substeps=SUBSTEPS, plan=plan)), cast(inputs, np.float32)
        )
        for plan in ("world", "element")
    )  # fmt: skip
    assert np.abs(world[0]).max() > 0 and world[2].any()
    assert_equal_to_rounding(element, world)


@pytest.mark.threads
def test_plans_of_a_block_on_the_ground_agree() -> None:
    mesh = box_tets((0.2, 0.1, 0.1), (2, 1, 1))
    model = DeformableModel(
        particle_rest=mesh.vertices, tet_indices=mesh.indices, contact=np.arange(len(mesh.vertices)), ground_height=-0.05
    )
    inputs = inputs_for(
        model, frames=FRAMES, particle_mass=0.02, particle_qd0=(0.5, 0, -1.0), particle_contact=(500.0, 0.5, 0.5, 0.4),
        solid_material=(2e4, 2e4, 5.0), gravity=(0, 0, -9.81),
    )  # fmt: skip
    single = DeformableInputs(*(array.astype(np.float32) for array in inputs.arrays()))
    world, element = (
        pass_arrays(DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=SUBSTEPS, plan=plan)), single)
        for plan in ("world", "element")
    )
    assert world[0][0, -1, :, 2].min() < -0.05
    assert_equal_to_rounding(element, world)
