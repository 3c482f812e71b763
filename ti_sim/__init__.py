"""Differentiable physics: models, forces, solvers and their adjoints, as Taichi kernels (no torch, no rendering)."""

from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.gradcheck import GradcheckReport, GradientError, gradcheck
from ti_sim.base.param import Param
from ti_sim.base.runtime import Runtime, start
from ti_sim.base.tape import Tape
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableRollout, DeformableSolver
from ti_sim.deformable.stable_step import stable_step
from ti_sim.deformable.tape import DeformableTape
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rigid.tape import RolloutTape
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll
from ti_sim.shapes import Box, Capsule, Cone, Cylinder, Mesh, Shape, Sphere, contact_points, mass_properties

__all__ = [
    "Adjoint", "Box", "Capsule", "Checkpoint", "Cone", "Cylinder", "DeformableInputs", "DeformableModel", "DeformableRollout",
    "DeformableSettings", "DeformableSolver", "DeformableTape", "DivergenceError", "GradcheckReport", "GradientError", "Mesh",
    "Param", "RigidInputs", "RigidModel", "RigidRollout", "RigidSettings", "RigidSolver", "RolloutTape", "Runtime", "Shape",
    "Sphere", "StoreAll", "Tape", "UserError", "contact_points", "gradcheck", "mass_properties", "stable_step", "start",
]  # fmt: skip
