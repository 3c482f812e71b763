"""Adapter of free rigid bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import torch

from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values, gravity_rows, outside_transforms, unwrapped
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.rotors import body_wrench, group_actions
from risp_torch.scene.rotations import matrix_vector, rotation_matrix
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.simulation.states_at_frames import stacked
from risp_torch.scene.simulation.step_warnings import step_warnings
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver

# Tolerance of angular momenta: relative, and as an angular velocity [rad/s]. Rounding in single precision, also of
# thin bodies, stays below.
_MOMENTUM_TOLERANCE, _MIN_SPIN = 1e-2, 1e-4


class RigidAdapter(SolverAdapter):
    """Rigid bodies that collide only with the ground, with forces, rotors and drag."""

    actuator_kind = "rotors"

    def __init__(self, spec: SceneSpec) -> None:
        """Make the adapter of a scene's bodies."""
        self.spec, self.actuators = spec, spec.rotors

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        return cls(spec) if spec.bodies else None

    def make_solver(self) -> RigidSolver:
        """As ``SolverAdapter.make_solver``."""
        spec, stepping = self.spec, self.spec.stepping
        model = RigidModel(
            body_names=tuple(b.name for b in spec.bodies),
            contact_points=tuple(b.points for b in spec.bodies),
            force_body=tuple(f.body for f in spec.applied_forces),
            force_steps=tuple((f.first_step, f.end_step) for f in spec.applied_forces),
            ground_height=spec.ground_height or 0.0,
            has_wrenches=spec.has_rotors_or_drag,
            has_bristles=spec.contacts_have("bristle_stiffness"),
            has_contact_radii=spec.contacts_have("radius"),
        )
        settings = RigidSettings(
            dt=stepping.dt, substeps=stepping.substeps, integrator=stepping.integrator, plan=stepping.solver.plan,
            max_distance=stepping.solver.max_distance,
        )
        return RigidSolver(model, settings)

    def step_warnings(self, solver: RigidSolver) -> list[str]:
        """As ``SolverAdapter.step_warnings``."""
        return step_warnings(self.spec)

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> RigidInputs:
        """As ``SolverAdapter.inputs``."""
        stack, gravity, bodies, forces = torch.stack, values["gravity"], self.spec.bodies, self.spec.applied_forces
        no_force = [gravity.new_zeros(gravity.shape[0], 3)]
        rotor_actions = group_actions(self.spec.rotors, values, actions, frames)
        has_wrenches = self.spec.has_rotors_or_drag
        return RigidInputs(
            body_q0=stack([b.pose(values) for b in bodies], 1),
            body_qd0=stack([b.velocity(values) for b in bodies], 1),
            body_mass=stack([b.mass(values) for b in bodies], 1),
            body_inertia=stack([b.inertia(values) for b in bodies], 1),
            body_contact=stack([b.contact(values) for b in bodies], 1),
            gravity=gravity_rows(values),
            body_force=stack([f.force(values) for f in forces] or no_force, 1),
            force_point=stack([f.point(values) for f in forces] or no_force, 1),
            body_wrench=body_wrench(self.spec.rotors, values, rotor_actions, bodies=len(bodies), frames=frames)
            if has_wrenches
            else None,
            body_drag=stack([b.drag(values) for b in bodies], 1) if has_wrenches else None,
            body_bristle=self._contact_option(values, "bristle_stiffness"),
            body_radius=self._contact_option(values, "radius"),
        )

    def check_state(self, inputs: RigidInputs, state: State) -> None:
        """As ``SolverAdapter.check_state``; angular momenta and angular velocities must agree.

        The solver integrates angular momenta and computes angular velocities from them, so a change of one alone would have no
        effect, or leave the other unchanged.
        """
        super().check_state(inputs, state)
        if state.body_momentum is None:
            return
        with outside_transforms():
            body_q, body_qd, momentum, inertia = (
                unwrapped(array.detach()) for array in (state.body_q, state.body_qd, state.body_momentum, inputs.body_inertia)
            )
            rotation = rotation_matrix(body_q[..., 3:])
            expected = matrix_vector(rotation, matrix_vector(inertia, matrix_vector(rotation.mT, body_qd[..., 3:])))
            size = expected.norm(dim=-1) + momentum.norm(dim=-1)
            allowed = _MOMENTUM_TOLERANCE * size + _MIN_SPIN * inertia.flatten(-2).norm(dim=-1)
            if ((expected - momentum).norm(dim=-1) > allowed).any():
                raise UserError(
                    "state.body_momentum is not that of state.body_qd and the bodies' inertias: change velocities, or inertias, "
                    "with state.replace(body_qd=...), which computes it again"
                )

    def force_state(self, inputs: RigidInputs, states: Sequence[State]) -> dict[str, torch.Tensor]:
        """As ``SolverAdapter.force_state``; angular velocities are those of the angular momenta, where states have them."""
        return stacked([_with_velocities_of_momenta(inputs, state) for state in states])

    def named_forces(self, arrays: Mapping[str, torch.Tensor]) -> Forces:
        """As ``SolverAdapter.named_forces``."""
        wrench, bodies_on_ground = arrays["ground_wrench"], bodies_with_points(self.spec.bodies)
        return Forces(
            body_contact=wrench, contact=wrench[..., bodies_on_ground, :],
            contacts=tuple((self.spec.bodies[i].name, "ground") for i in bodies_on_ground),
        )  # fmt: skip

    def without_diverged(self, state: State) -> tuple[State, None]:
        """The state as it is: bodies are independent of each other, and one that has diverged stays so."""
        return state, None

    def _contact_option(self, values: Values, field: str) -> torch.Tensor | None:
        """[B, N] an optional number of the bodies' contacts; None if no body has it."""
        if not self.spec.contacts_have(field):
            return None
        return torch.stack([body.contact_option(values, field) for body in self.spec.bodies], 1)

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``."""
        return States(*arrays)

    def start(self, values: Values) -> tuple[torch.Tensor, None]:
        """As ``SolverAdapter.start``."""
        return torch.stack([body.pose(values) for body in self.spec.bodies], 1), None


def bodies_with_points(bodies: Sequence[Body]) -> list[int]:
    """Bodies that may touch the ground."""
    return [i for i, body in enumerate(bodies) if len(body.points)]


def _with_velocities_of_momenta(inputs: RigidInputs, state: State) -> State:
    """The state without angular momenta, whose angular velocities are computed from these; differentiable."""
    if state.body_momentum is None:
        return state
    # Without NaN, whose derivative is NaN even where the result is not used: the caller replaces worlds that are not finite.
    quaternion, momentum = state.body_q[..., 3:].nan_to_num(), state.body_momentum.nan_to_num()
    rotation = rotation_matrix(quaternion)
    angular_velocity = torch.linalg.solve(inputs.body_inertia, matrix_vector(rotation.mT, momentum))
    body_qd = torch.cat([state.body_qd[..., :3], matrix_vector(rotation, angular_velocity)], dim=-1)
    return state.replace(body_qd=body_qd)
