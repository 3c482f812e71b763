"""Kernels of a rollout of implicit steps with their arguments bound: evaluation of a stage, its Jacobian and its adjoint."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np

from ti_sim.base.launcher import Launcher
from ti_sim.base.runtime import compiled_in_double
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
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays, compiled_for, features_of
from ti_sim.deformable.model import SOLIDS, DeformableModel
from ti_sim.deformable.triangles import AREA

_ROUNDING = 1e-15
_LAUNCH_LOCK = Lock()  # Taichi runs one kernel at a time


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
        indices = np.concatenate([model.tables[table].ravel() for table in TABLES.values()])
        slot_count = max(len(indices), 1)
        self._counts = {family: len(model.tables[table]) for family, table in TABLES.items()}
        elements = sum(self._counts.values())
        slot_start = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=particles))])
        features = features_of(model, inputs, differentiable=bars is not None)
        has_other_forces = features.with_damping or features.with_air
        self.stage = StageArrays(
            scalars=np.zeros(4), hat=np.zeros((particles, 7)), reference=np.zeros(particles),
            force=np.zeros((worlds, slot_count, 3)), elastic=np.zeros((worlds, slot_count if has_other_forces else 1, 3)),
            residual=np.zeros((particles, 3)), non_potential=np.zeros((particles, 3)), energy=np.zeros((particles, 3)),
            element_energy=np.zeros(max(elements, 1)),
            ground_jacobian=np.zeros((particles, 3, 3)), slot_start=slot_start.astype(np.int32),
            slot=(np.argsort(indices, kind="stable") if len(indices) else np.zeros(1)).astype(np.int32), elements=elements,
        )  # fmt: skip
        self.stage.scalars[GROUND], self.stage.scalars[ONSET] = model.ground_height, settings.onset
        self.energy_noise = energy_noise(model, inputs)
        self.arrays = kernel_arrays(model, inputs, differentiable=bars is not None)
        self.rows = np.zeros((max(self.pattern.rows, 1), 3))
        self.data = np.zeros(len(self.pattern.columns))
        compiled_in_double(compiled_for(model, self._bind))(bars)

    def _bind(self, bars: DeformableInputs | None) -> None:
        pattern = self.pattern
        self._evaluate = Launcher(evaluate, self.states, self.arrays, self.stage, integers=4)
        self._jacobians = Launcher(element_jacobians, self.states, self.rows, self.stage, self.arrays, integers=3)
        self._assemble = Launcher(
            assemble, self.rows, pattern.start, pattern.entry, pattern.stride, pattern.value_index, pattern.diagonal, self.mass,
            self.data, self.stage,
        )  # fmt: skip
        if bars is not None:
            worlds, particles = self.mass.shape
            self.dual, self.bar = np.zeros((worlds, particles, 3)), np.zeros((particles, 6))
            self.hat_bar, self.elapsed = np.zeros((particles, 7)), np.zeros(1)
            corner_adjoints = np.zeros((worlds, self.stage.slot.shape[0], 6))
            self._adjoint = Launcher(
                stage_adjoint, self.states, self.dual, corner_adjoints, self.bar, self.hat_bar, self.elapsed, self.arrays, bars,
                self.stage, integers=4,
            )  # fmt: skip

    def friction(self, world: int) -> np.ndarray:
        """[P] coefficients of friction of a world, which the kernels read."""
        return self.arrays.particle_contact[world, :, 3]

    def has_friction(self, world: int) -> bool:
        """Whether a particle of a world may touch the ground with friction."""
        return bool((self.friction(world)[self.contact] > 0).any())

    def begin(self, gamma: float, hat: np.ndarray, *, reach: float = 0.0) -> None:
        """Set gamma [s], ``StageArrays.hat`` [P, 7] and ``Stage.reach`` of the stage."""
        self.stage.scalars[GAMMA], self.stage.scalars[REACH] = gamma, reach
        self.stage.hat[:] = hat

    def evaluate(self, world: int, row: int, control: int, frame: int) -> Evaluation:
        """Evaluate the stage at the positions in a row of the states; its velocities are written."""
        with _LAUNCH_LOCK:
            self._evaluate(world, row, control, frame)
        stage, free = self.stage, self.pattern.free
        particles, elements = stage.energy, stage.element_energy
        return Evaluation(
            stage.residual[free].ravel(), stage.non_potential[free].ravel(), float(particles[:, INERTIA].sum() + elements.sum()),
            float(particles[:, CONTACT].sum()), float(np.abs(particles).sum() + np.abs(elements).sum()),
        )  # fmt: skip

    def jacobian(self, world: int, row: int, control: int) -> np.ndarray:
        """Data of the Jacobian at the last evaluation; overwritten by the next call."""
        with _LAUNCH_LOCK:
            self._jacobians(world, row, control)
            self._assemble(world)
        return self.data

    def projected_jacobian(self, world: int) -> np.ndarray:
        """``jacobian`` of the last call with symmetric, positive semi-definite blocks of the elements: for descent only."""
        first = 0
        for family, count in self._counts.items():
            dof_count = 3 * FAMILIES[family]
            stop = first + count * dof_count * FAMILIES[family]
            blocks = -self.rows[first:stop].reshape(count, dof_count, dof_count)
            eigenvalues, eigenvectors = np.linalg.eigh(0.5 * (blocks + blocks.transpose(0, 2, 1)))
            projected_blocks = np.einsum("eik,ek,ejk->eij", eigenvectors, np.maximum(eigenvalues, 0.0), eigenvectors)
            self.rows[first:stop] = -projected_blocks.reshape(-1, 3)
            first = stop
        with _LAUNCH_LOCK:
            self._assemble(world)
        return self.data

    def adjoint(self, world: int, row: int, control: int, frame: int) -> None:
        """Run ``stage_adjoint`` from ``dual`` and ``bar``."""
        with _LAUNCH_LOCK:
            self._adjoint(world, row, control, frame)


def kernel_arrays(model: DeformableModel, inputs: DeformableInputs, *, differentiable: bool) -> DeformableArrays:
    """Kernel arguments in f64 numpy arrays, whatever the working precision."""
    names = set(DeformableArrays.__dataclass_fields__) - set(DeformableInputs.__dataclass_fields__)
    tables = {name: np.ascontiguousarray(values) for name, values in model.tables.items() if name in names}
    return DeformableArrays(*inputs.arrays(), features=features_of(model, inputs, differentiable=differentiable), **tables)


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
