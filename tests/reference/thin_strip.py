"""The linear system of an implicit step of a thin strip."""

from __future__ import annotations

import numpy as np

from tests.reference.deformable_cases import solid_body
from ti_sim import ImplicitSettings
from ti_sim.deformable.implicit.matrix import Pattern, pattern_of
from ti_sim.deformable.implicit.stepper import Stepper
from ti_sim.meshes import box_tets

SIZE, CELLS = (0.3, 0.06, 0.002), (30, 6, 1)


def jacobian_of_a_thin_strip(gamma: float) -> tuple[Pattern, np.ndarray]:
    """Pattern and numbers of a slightly bent strip of plastic, clamped at one end."""
    mesh = box_tets(SIZE, CELLS)
    clamped = np.flatnonzero(mesh.vertices[:, 0] < mesh.vertices[:, 0].min() + 1e-9)
    model, inputs = solid_body(mesh, young=1e9, density=1200.0, elements={"fixed": clamped})
    states = np.zeros((1, 2, model.particle_count, 6))
    states[0, :, :, :3] = mesh.vertices
    states[0, 1, :, 2] += 0.1 * (mesh.vertices[:, 0] - mesh.vertices[:, 0].min()) ** 2
    stepper = Stepper(model, inputs, states, ImplicitSettings(), pattern_of(model))
    stepper.begin(gamma, np.column_stack((states[0, 0], mesh.vertices[:, 2])))  # and the heights one step before
    stepper.evaluate(0, 1, 0, 0)
    return stepper.pattern, stepper.jacobian(0, 1, 0).copy()
