"""Kernels of a rollout of implicit steps with their arguments bound: evaluation of a stage, its Jacobian and its adjoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.base.arrays import assign, device_array, to_numpy
from ti_sim.base.launcher import Launcher
from ti_sim.base.runtime import compiled_in_double, require
from ti_sim.deformable.families import FAMILIES, TABLES
from ti_sim.deformable.implicit.kernels import (
    CONTACT,
    GAMMA,
    GROUND,
    INERTIA,
    ONSET,
    REACH,
    StageArrays,
    assemble,
    element_jacobians,
    evaluate,
    stage_adjoint,
)
from ti_sim.deformable.implicit.matrix import Pattern
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.implicit.team_linear import LAUNCH_LOCK
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays, compiled_for, features_of
from ti_sim.deformable.model import SOLIDS, DeformableModel
from ti_sim.deformable.triangles import AREA

_ROUNDING = 1e-15


@dataclass
class Evaluation:
    """A stage at some positions.

    Attributes:
        residual: [n] of free particles [N].
        non_potential: [n] forces without potential: damping, air, friction [N].
        energy: incremental potential of all other forces except the ground's normal force [J].
        contact: potential of the ground's normal force, from the reference heights [J].
        scale: sum of the absolute terms of both and of the scale of their rounding errors [J].
    """

    residual: np.ndarray
    non_potential: np.ndarray
    energy: float
    contact: float
    scale: float


class Stepper:
    """Kernels of a rollout of implicit steps with their arguments bound."""

    def __init__(
        self, model: DeformableModel, inputs: DeformableInputs, states: np.ndarray, settings: ImplicitSettings, pattern: Pattern,
        bars: DeformableInputs | None = None,
    ) -> None:  # fmt: skip
        """Bind the kernels.

        Args:
            model: particles and elements.
            inputs: numbers of every world, f64 numpy arrays.
            states: [B, rows, P, 6] f64, of which stages write rows.
            settings: onset of contact.
            pattern: that of the model.
            bars: adjoints of the inputs, f64, gravity and wind by particle and triangle; None for no adjoint.
        """
        self.pattern, self.contact = pattern, np.asarray(model.contact, dtype=int)
        self.states, self.mass = states, inputs.particle_mass
        worlds, particles = states.shape[0], model.particle_count
        # Launches on a GPU copy the row of a stage, and not the states of the whole rollout.
        self._launch_states = states if require().device == "cpu" else np.zeros((worlds, 1, particles, 6))
        indices = np.concatenate([model.tables[table].ravel() for table in TABLES.values()])
        slot_count = max(len(indices), 1)
        self._counts = {family: len(model.tables[table]) for family, table in TABLES.items()}
        elements = sum(self._counts.values())
        slot_start = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=particles))])
        features = features_of(model, inputs, differentiable=bars is not None)
        has_other_forces = features.with_damping or features.with_air
        self.stage = StageArrays(
            scalars=np.zeros(4), hat=np.zeros((particles, 7)), reference=np.zeros(particles),
            force=device_array(np.zeros((worlds, slot_count, 3))),
            elastic=device_array(np.zeros((worlds, slot_count if has_other_forces else 1, 3))),
            residual=np.zeros((particles, 3)), non_potential=np.zeros((particles, 3)), energy=np.zeros((particles, 3)),
            element_energy=np.zeros(max(elements, 1)),
            ground_jacobian=device_array(np.zeros((particles, 3, 3))), slot_start=device_array(slot_start.astype(np.int32)),
            slot=device_array((np.argsort(indices, kind="stable") if len(indices) else np.zeros(1)).astype(np.int32)),
            elements=elements,
        )  # fmt: skip
        self.stage.scalars[GROUND], self.stage.scalars[ONSET] = model.ground_height, settings.onset
        self.energy_noise = energy_noise(model, inputs)
        self.arrays = kernel_arrays(model, inputs, differentiable=bars is not None)
        self._contact = inputs.particle_contact
        self.rows = device_array(np.zeros((max(self.pattern.rows, 1), 3)))
        self.data = np.zeros(len(self.pattern.columns))
        compiled_in_double(compiled_for(model, self._bind))(bars)

    def _bind(self, bars: DeformableInputs | None) -> None:
        pattern = self.pattern
        self._evaluate = Launcher(evaluate, self._launch_states, self.arrays, self.stage, integers=4)
        self._jacobians = Launcher(element_jacobians, self._launch_states, self.rows, self.stage, self.arrays, integers=3)
        self._assemble = Launcher(
            assemble, self.rows,
            *map(device_array, (pattern.start, pattern.entry, pattern.stride, pattern.value_index, pattern.diagonal)),
            self.arrays.particle_mass, self.data, self.stage,
        )  # fmt: skip
        if bars is not None:
            worlds, particles = self.mass.shape
            self.dual, self.bar = np.zeros((worlds, particles, 3)), np.zeros((particles, 6))
            self.hat_bar, self.elapsed = np.zeros((particles, 7)), np.zeros(1)
            corner_adjoints = device_array(np.zeros((worlds, self.stage.slot.shape[0], 6)))
            self._adjoint = Launcher(
                stage_adjoint, self._launch_states, self.dual, corner_adjoints, self.bar, self.hat_bar, self.elapsed, self.arrays,
                bars, self.stage, integers=4,
            )  # fmt: skip

    def friction(self, world: int) -> np.ndarray:
        """[P] coefficients of friction of a world, which the kernels read."""
        return self._contact[world, :, 3]

    def has_friction(self, world: int) -> bool:
        """Whether a particle of a world may touch the ground with friction."""
        return bool((self.friction(world)[self.contact] > 0).any())

    def begin(self, gamma: float, hat: np.ndarray, *, reach: float = 0.0) -> None:
        """Set gamma [s], ``StageArrays.hat`` [P, 7] and ``Stage.reach`` of the stage."""
        self.stage.scalars[GAMMA], self.stage.scalars[REACH] = gamma, reach
        self.stage.hat[:] = hat

    def evaluate(self, world: int, row: int, control: int, frame: int) -> Evaluation:
        """Evaluate the stage at the positions in a row of the states; its velocities are written."""
        self._launch_at(self._evaluate, world, row, control, frame)
        stage, free = self.stage, self.pattern.free
        particles, elements = stage.energy, stage.element_energy
        return Evaluation(
            stage.residual[free].ravel(), stage.non_potential[free].ravel(), float(particles[:, INERTIA].sum() + elements.sum()),
            float(particles[:, CONTACT].sum()), float(np.abs(particles).sum() + np.abs(elements).sum()),
        )  # fmt: skip

    def jacobian(self, world: int, row: int, control: int) -> np.ndarray:
        """Data of the Jacobian at the last evaluation; overwritten by the next call."""
        self._launch_at(self._jacobians, world, row, control)
        with LAUNCH_LOCK:
            self._assemble(world)
        return self.data

    def projected_jacobian(self, world: int) -> np.ndarray:
        """``jacobian`` of the last call with symmetric, positive semi-definite blocks of the elements: for descent only."""
        rows, first = np.array(to_numpy(self.rows)), 0
        for family, count in self._counts.items():
            dof_count = 3 * FAMILIES[family]
            stop = first + count * dof_count * FAMILIES[family]
            blocks = -rows[first:stop].reshape(count, dof_count, dof_count)
            eigenvalues, eigenvectors = np.linalg.eigh(0.5 * (blocks + blocks.transpose(0, 2, 1)))
            projected_blocks = np.einsum("eik,ek,ejk->eij", eigenvectors, np.maximum(eigenvalues, 0.0), eigenvectors)
            rows[first:stop] = -projected_blocks.reshape(-1, 3)
            first = stop
        assign(self.rows, (slice(None),), device_array(rows))
        with LAUNCH_LOCK:
            self._assemble(world)
        return self.data

    def adjoint(self, world: int, row: int, control: int, frame: int) -> None:
        """Run ``stage_adjoint`` from ``dual`` and ``bar``."""
        self._launch_at(self._adjoint, world, row, control, frame)

    def _launch_at(self, launch: Launcher, world: int, row: int, *numbers: int) -> None:
        """Launch a kernel at a row of the states."""
        with LAUNCH_LOCK:
            if self._launch_states is self.states:
                launch(world, row, *numbers)
                return
            self._launch_states[world, 0] = self.states[world, row]
            launch(world, 0, *numbers)
            self.states[world, row] = self._launch_states[world, 0]


def kernel_arrays(model: DeformableModel, inputs: DeformableInputs, *, differentiable: bool) -> DeformableArrays:
    """Kernel arguments in f64, whatever the working precision: tables on the device of the kernels, and inputs in numpy arrays,
    which launches copy to the device and not back.
    """
    names = set(DeformableArrays.__dataclass_fields__) - set(DeformableInputs.__dataclass_fields__)
    tables = {name: device_array(np.ascontiguousarray(values)) for name, values in model.tables.items() if name in names}
    views = [values.view() for values in inputs.arrays()]
    for view in views:
        view.flags.writeable = False
    return DeformableArrays(*views, features=features_of(model, inputs, differentiable=differentiable), **tables)


def energy_noise(model: DeformableModel, inputs: DeformableInputs) -> np.ndarray:
    """Bound of the rounding of the elastic energy of each world [B], J: densities are differences of numbers of the size of the
    moduli, however small the strains are.
    """
    volumes = [model.tables[f"{kind}_rest"][..., -1].sum(1) for kind in SOLIDS]
    solids = np.abs(inputs.solid_material[..., :2]).sum(2) @ np.concatenate(volumes)
    triangles = np.abs(inputs.tri_material[..., :2]).sum(2) @ model.tables["tri_rest"][:, AREA]
    edges = np.abs(inputs.edge_material[..., 0]).sum(1)
    springs = (np.abs(inputs.spring_material[..., 0]) * inputs.spring_material[..., 2] ** 2).sum(1)
    return _ROUNDING * (solids + triangles + edges + springs)
