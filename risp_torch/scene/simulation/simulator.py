"""The frozen plan of a simulation, made from the spec of a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.files.memory import check_memory
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device, check_worlds
from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.links import Link
from risp_torch.scene.simulation.articulated import ArticulatedAdapter
from risp_torch.scene.simulation.coupled import CoupledAdapter
from risp_torch.scene.simulation.deformable import DeformableAdapter
from risp_torch.scene.simulation.rigid import RigidAdapter
from risp_torch.scene.simulation.smoke import SmokeAdapter
from risp_torch.scene.simulation.solver_adapter import SolverAdapter, action_rows
from risp_torch.scene.simulation.states_at_frames import frame_rows, states_of_motion
from risp_torch.scene.simulation.step_warnings import colliding_particles
from risp_torch.scene.simulation.uncoupled import UncoupledSolvers
from risp_torch.scene.spec import ALL_PARTS, SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.warn import warn
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.rollout.solver import Solver
from ti_sim.shapes.mass import possible_inertia

_SIMULATED_PARTS = (
    "stepping", "bodies", "deformables", "applied_forces", "rotors", "motors", "loads", "self_contact", "ground", "smoke",
    "table",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Simulator:
    """Simulator of a scene.

    Attributes:
        spec: spec of the scene when the simulator was made.
        adapter: between the scene and its solver.
        shape_values: values of the parameters that place collision shapes, which are in the solver's tables.
    """

    spec: SceneSpec
    adapter: SolverAdapter
    shape_values: tuple[bytes, ...]

    @property
    def solver(self) -> Solver:
        """The solver of all bodies (warnings and errors: ``SolverAdapter.solver``)."""
        return self.adapter.solver

    @property
    def links(self) -> ArticulatedAdapter:
        """The adapter of the scene's links (UserError: it has none)."""
        if isinstance(self.adapter, ArticulatedAdapter):
            return self.adapter
        links = getattr(self.adapter, "links", getattr(self.adapter, "bodies", None))
        if not isinstance(links, ArticulatedAdapter):
            raise UserError("the scene has no links: add some with add_link")
        return links

    def is_valid_for(self, spec: SceneSpec) -> bool:
        """Whether the simulator is valid for a scene. Parameters may have other values, except those that place shapes."""
        return spec.same_parts(self.spec, *_SIMULATED_PARTS) and self.shape_values == _shape_values(spec)

    def rollout(
        self,
        table: ParameterTable,
        parameters: Mapping[str, torch.Tensor] | None,
        *,
        frames: int,
        worlds: int | None = None,
        actions: torch.Tensor | None = None,
        state: State | None = None,
        adjoint: Adjoint | None = None,
        states_per_interval: int = 1,
    ) -> States:
        """Simulate a batch of worlds.

        Args:
            table: parameter table of the scene, or one with as many rows over time as frames.
            parameters, worlds, actions, state, adjoint: see ``Scene.rollout``.
            frames: frame intervals, regardless of the scene's clock.
            states_per_interval: states per frame interval, a divisor of the scene's substeps: the result has
                frames * states_per_interval + 1 states.

        Raises:
            UserError, DivergenceError: as there.
        """
        replaced = parameters or {}
        _check_memory(self.adapter, table, replaced, worlds, frames * states_per_interval)
        _warn_of_inertias(replaced)
        actions, worlds = action_rows(actions, worlds)
        self.adapter.check(replaced, actions)
        if actions is not None:
            check_worlds(actions, "actions")
        values = table.values(parameters, worlds=worlds)
        if state is not None:
            for name, array in state.arrays().items():
                check_worlds(array, f"state.{name}")
            state = state.map(lambda array: array.to(bridge_device()))
            if worlds is None and len(values["gravity"]) == 1:
                values = table.values(parameters, worlds=state.worlds)
        states = self.adapter.rollout(
            values, frames=frames, actions=actions, state=state, adjoint=adjoint, states_per_interval=states_per_interval
        )
        return self.adapter.without_escapes(states, table, parameters, states_per_interval=states_per_interval)

    def forces(
        self,
        table: ParameterTable,
        parameters: Mapping[str, torch.Tensor] | None,
        states: State | States | Sequence[State],
        *,
        actions: torch.Tensor | None,
    ) -> Forces:
        """Contact and joint forces at states (arguments, raises: ``Scene.forces``)."""
        self.adapter.check_forces()
        multistep = self.spec.stepping.integrator in ("bdf2", "sdirk2")
        if isinstance(states, States) and (self.spec.has_bristles or multistep):
            missing = "friction of this scene has bristles, whose displacements"
            if multistep:
                missing = f"forces of {self.spec.stepping.integrator!r} depend on the latest stages, which"
            raise UserError(f"{missing} a motion does not hold at its frames: give states of Scene.state and Scene.step")
        frames = states_of_motion(states) if isinstance(states, States) else [states] if isinstance(states, State) else states
        if not frames:
            raise UserError("there are no states: give at least one")
        actions, worlds = action_rows(actions, frames[0].worlds)
        self.adapter.check(parameters or {}, actions)
        for state in frames:
            for name, array in state.arrays().items():
                check_worlds(array, f"state.{name}")
        values = table.values(parameters)
        if len(values["gravity"]) == 1:
            values = table.values(parameters, worlds=worlds)
        frames = [state.map(lambda array: array.to(bridge_device())) for state in frames]
        forces = self.adapter.forces(values, frames, rows=frame_rows(frames), actions=actions)
        return forces.map(lambda array: array[:, 0]) if isinstance(states, State) else forces

    def state(self, table: ParameterTable, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None) -> State:
        """The state at the start (arguments, raises: ``Scene.state``)."""
        return self.adapter.state(table.values(parameters, worlds=worlds))

    def start(self, values: Values) -> torch.Tensor:
        """The initial placement (``States.placement``, one frame of it) for parameter values [B, ...]."""
        return self.adapter.start_placement(values)


def current_simulator(simulator: Simulator | None, spec: SceneSpec) -> Simulator:
    """The simulator of the current scene: the given one if it is still valid.

    Args:
        simulator: existing simulator, or None.
        spec: spec of the scene; a snapshot of it is kept.

    Raises:
        UserError: the scene has no bodies.
    """
    if simulator is not None and simulator.is_valid_for(spec):
        return simulator if spec.same_parts(simulator.spec, *ALL_PARTS) else replace(simulator, spec=spec.snapshot())
    spec = spec.snapshot()
    return Simulator(spec, _adapter(spec), _shape_values(spec))


# The first one that simulates a scene is used.
_ADAPTERS = (SmokeAdapter, CoupledAdapter, UncoupledSolvers, DeformableAdapter, ArticulatedAdapter, RigidAdapter)


def _adapter(spec: SceneSpec) -> SolverAdapter:
    _check_contact_options(spec)
    for adapter_class in _ADAPTERS:
        if (instance := adapter_class.of(spec)) is not None:
            return instance
    raise UserError("the scene has no bodies: add one with add_rigid or add_link")


def _check_contact_options(spec: SceneSpec) -> None:
    """Raise a UserError for contact options of bodies that cannot have them."""
    if spec.contacts_have("radius") and (spec.deformables or spec.articulated):
        raise UserError(
            f"{spec.name} has a contact with radius, which rigid bodies that touch the ground alone can have: leave it out, "
            "or links, deformable bodies and collision=True"
        )
    has_particle_bristles = any(
        f"{deformable.contact_name}.bristle_stiffness" in spec.table.params for deformable in spec.deformables
    )
    if has_particle_bristles or (spec.contacts_have("bristle_stiffness") and len(colliding_particles(spec))):
        raise UserError(
            f"{spec.name} has a contact with bristle_stiffness that deformable bodies have, too, or a deformable body that "
            "collides with bodies: particles have no bristles, so leave it out, or give them a Contact of their own and no "
            "collisions"
        )


def _shape_values(spec: SceneSpec) -> tuple[bytes, ...]:
    """Values that place the collision shapes of links in their frames, which are in the solver's tables."""
    links = [body for body in spec.bodies if isinstance(body, Link) and body.collision is not None]
    names = (f"{link.name}.{key}" for link in links for key in ("center", "length"))
    return tuple(np.asarray(spec.table[name].value).tobytes() for name in names if name in spec.table.params)


def _check_memory(
    adapter: SolverAdapter, table: ParameterTable, parameters: Mapping[str, torch.Tensor], worlds: int | None, frames: int
) -> None:
    """Raise a UserError if the states at the frames of a motion, a lower bound of its memory, do not fit into memory."""
    batches = [
        len(value) for name, value in parameters.items()
        if name in table.params and np.ndim(value) > np.ndim(table[name].value)
    ]  # fmt: skip
    batch = worlds or max(batches, default=1)
    size = batch * (frames + 1) * adapter.numbers_per_frame * bridge_dtype().itemsize
    check_memory(size, f"a motion of {batch} worlds and {frames} frames", "simulate fewer worlds or frames at a time")


def _warn_of_inertias(parameters: Mapping[str, torch.Tensor]) -> None:
    """Warn if given inertias are not physical; the scene's own were checked when they were set."""
    for name, value in parameters.items():
        if name.endswith((".inertia", ".inertia_per_mass")):
            inertia = np.asarray(torch.as_tensor(value).detach().cpu(), dtype=np.float64)
            if inertia.shape[-2:] == (3, 3) and not possible_inertia(inertia).all():
                warn(f"{name} is not a physical inertia: a principal moment below zero, or above the sum of the other two")
