"""Differentiable physics: models, forces, solvers and their adjoints, as Taichi kernels (no torch, no rendering)."""

from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, forward_kinematics, inverse_dynamics, mass_matrix, point_jacobian
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.base.arrays import Array
from ti_sim.base.errors import ConvergenceError, DivergenceError, UserError
from ti_sim.base.gradcheck import GradcheckReport, GradientError, gradcheck
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, FromZero, NotNegative, Positive, Rule, Seed, checked
from ti_sim.base.runtime import Runtime, start
from ti_sim.base.tape import Tape
from ti_sim.contact.collision import CollisionShape, mesh_shape
from ti_sim.contact.restitution import contact_time, damping_for_restitution, effective_mass, restitution
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledRollout, CoupledSolver
from ti_sim.deformable.ad_tape import DeformableTape
from ti_sim.deformable.bending import bending_edges, edge_stiffness, plate_rigidity
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.solids import corner_volumes, energy_constants, lame_from_young
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.deformable.stable_step import stable_step
from ti_sim.deformable.triangles import membrane_constants, plane_strain_constants, triangle_areas
from ti_sim.rigid.ad_tape import RigidTape
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll
from ti_sim.rollout.arrays import Arrays, array
from ti_sim.rollout.solver import Solver
from ti_sim.shapes.mass import MassProperties
from ti_sim.shapes.mesh import Mesh
from ti_sim.shapes.primitives import Box, Capsule, Cone, Cylinder, Sphere
from ti_sim.shapes.shape import Shape, contact_points, mass_properties
from ti_sim.shapes.surface import TriangleMesh

__all__ = [
    "Adjoint", "Array", "Arrays", "ArticulatedInputs", "ArticulatedModel", "ArticulatedRollout", "ArticulatedSettings",
    "ArticulatedSolver", "Box", "Capsule", "Checkpoint", "CollisionShape", "Cone", "ConvergenceError", "Count",
    "CoupledInputs", "CoupledModel", "CoupledRollout", "CoupledSettings", "CoupledSolver", "Cylinder", "DeformableInputs",
    "DeformableModel", "DeformableRollout", "DeformableSettings", "DeformableSolver", "DeformableTape", "DivergenceError",
    "FromZero", "GradcheckReport", "GradientError", "ImplicitSettings", "MassProperties", "Mesh", "NotNegative", "Param",
    "Positive", "RigidInputs", "RigidModel", "RigidRollout", "RigidSettings", "RigidSolver", "RigidTape", "Rule",
    "Runtime", "Seed", "Shape", "Solver", "Sphere", "StoreAll", "Tape", "TriangleMesh", "UserError", "array",
    "bending_edges", "checked", "contact_points", "contact_time", "corner_volumes", "damping_for_restitution",
    "edge_stiffness", "effective_mass", "energy_constants", "forward_dynamics", "forward_kinematics", "gradcheck",
    "inverse_dynamics", "lame_from_young", "mass_matrix", "mass_properties", "membrane_constants", "mesh_shape",
    "plane_strain_constants", "plate_rigidity", "point_jacobian", "restitution", "stable_step", "start", "triangle_areas",
]  # fmt: skip
