"""Forces, energies and force derivatives of the elements at an instant."""

import numpy as np

from ti_sim.articulated.solver import views
from ti_sim.base.arrays import Array, check_array, empty_like_family, reals_like_family, to_numpy, zeros_like_family
from ti_sim.base.runtime import require, ti
from ti_sim.deformable.arrays import deformable_arrays, deformable_bars
from ti_sim.deformable.elements import elastic_energy, part_adjoints, part_forces
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.prepared import AdjointSums, PreparedInputs, compiled_for, prepare
from ti_sim.deformable.states import begin


@ti.kernel
def sum_forces(
    features: ti.template(), states: ti.types.ndarray(), force: ti.types.ndarray(),
    particle_table: ti.types.ndarray(), tet_indices: ti.types.ndarray(), hex_indices: ti.types.ndarray(),
    tet10_indices: ti.types.ndarray(), tri_indices: ti.types.ndarray(), edge_indices: ti.types.ndarray(),
    spring_indices: ti.types.ndarray(), solid_energy: ti.types.ndarray(), tet_rest: ti.types.ndarray(),
    hex_rest: ti.types.ndarray(), tet10_rest: ti.types.ndarray(), tri_rest: ti.types.ndarray(),
    particle_mass: ti.types.ndarray(), particle_material: ti.types.ndarray(), solid_material: ti.types.ndarray(),
    solid_actuation: ti.types.ndarray(), tri_material: ti.types.ndarray(), tri_actuation: ti.types.ndarray(),
    edge_material: ti.types.ndarray(), edge_actuation: ti.types.ndarray(), spring_material: ti.types.ndarray(),
    gravity: ti.types.ndarray(), wind: ti.types.ndarray(), load: ti.types.ndarray(), prescribed_qd: ti.types.ndarray(),
):  # fmt: skip
    """Add the forces of all elements at states [B, 1, P, 6] to force [B, P, 3]."""
    for b in range(states.shape[0]):
        body = deformable_arrays(
            features, False, particle_table, tet_indices, hex_indices, tet10_indices, tri_indices, edge_indices,
            spring_indices, solid_energy, tet_rest, hex_rest, tet10_rest, tri_rest, particle_mass, particle_material,
            solid_material, solid_actuation, tri_material, tri_actuation, edge_material, edge_actuation, spring_material,
            gravity, wind, load, prescribed_qd,
        )  # fmt: skip
        part_forces(body, states, force, b, 0, 0, 0, 1)


@ti.kernel
def sum_energy(
    features: ti.template(), states: ti.types.ndarray(), energy: ti.types.ndarray(),
    particle_table: ti.types.ndarray(), tet_indices: ti.types.ndarray(), hex_indices: ti.types.ndarray(),
    tet10_indices: ti.types.ndarray(), tri_indices: ti.types.ndarray(), edge_indices: ti.types.ndarray(),
    spring_indices: ti.types.ndarray(), solid_energy: ti.types.ndarray(), tet_rest: ti.types.ndarray(),
    hex_rest: ti.types.ndarray(), tet10_rest: ti.types.ndarray(), tri_rest: ti.types.ndarray(),
    particle_mass: ti.types.ndarray(), particle_material: ti.types.ndarray(), solid_material: ti.types.ndarray(),
    solid_actuation: ti.types.ndarray(), tri_material: ti.types.ndarray(), tri_actuation: ti.types.ndarray(),
    edge_material: ti.types.ndarray(), edge_actuation: ti.types.ndarray(), spring_material: ti.types.ndarray(),
    gravity: ti.types.ndarray(), wind: ti.types.ndarray(), load: ti.types.ndarray(), prescribed_qd: ti.types.ndarray(),
):  # fmt: skip
    """Elastic energy [B] of all elements at states [B, 1, P, 6]."""
    for b in range(states.shape[0]):
        body = deformable_arrays(
            features, False, particle_table, tet_indices, hex_indices, tet10_indices, tri_indices, edge_indices,
            spring_indices, solid_energy, tet_rest, hex_rest, tet10_rest, tri_rest, particle_mass, particle_material,
            solid_material, solid_actuation, tri_material, tri_actuation, edge_material, edge_actuation, spring_material,
            gravity, wind, load, prescribed_qd,
        )  # fmt: skip
        energy[b] = elastic_energy(body, states, b, 0, 0)


@ti.kernel
def sum_adjoints(
    features: ti.template(), states: ti.types.ndarray(), dual: ti.types.ndarray(), bar: ti.types.ndarray(),
    particle_table: ti.types.ndarray(), tet_indices: ti.types.ndarray(), hex_indices: ti.types.ndarray(),
    tet10_indices: ti.types.ndarray(), tri_indices: ti.types.ndarray(), edge_indices: ti.types.ndarray(),
    spring_indices: ti.types.ndarray(), solid_energy: ti.types.ndarray(), tet_rest: ti.types.ndarray(),
    hex_rest: ti.types.ndarray(), tet10_rest: ti.types.ndarray(), tri_rest: ti.types.ndarray(),
    particle_mass: ti.types.ndarray(), particle_material: ti.types.ndarray(), solid_material: ti.types.ndarray(),
    solid_actuation: ti.types.ndarray(), tri_material: ti.types.ndarray(), tri_actuation: ti.types.ndarray(),
    edge_material: ti.types.ndarray(), edge_actuation: ti.types.ndarray(), spring_material: ti.types.ndarray(),
    gravity: ti.types.ndarray(), wind: ti.types.ndarray(), load: ti.types.ndarray(), prescribed_qd: ti.types.ndarray(),
    particle_mass_bar: ti.types.ndarray(), particle_material_bar: ti.types.ndarray(), solid_material_bar: ti.types.ndarray(),
    solid_actuation_bar: ti.types.ndarray(), tri_material_bar: ti.types.ndarray(), tri_actuation_bar: ti.types.ndarray(),
    edge_material_bar: ti.types.ndarray(), edge_actuation_bar: ti.types.ndarray(), spring_material_bar: ti.types.ndarray(),
    gravity_bar: ti.types.ndarray(), wind_bar: ti.types.ndarray(), load_bar: ti.types.ndarray(),
    prescribed_qd_bar: ti.types.ndarray(),
):  # fmt: skip
    """Add the derivatives of dual [B, P, 3] . force by positions and velocities at states [B, 1, P, 6] to bar [B, P, 6]."""
    for b in range(states.shape[0]):
        body = deformable_arrays(
            features, False, particle_table, tet_indices, hex_indices, tet10_indices, tri_indices, edge_indices,
            spring_indices, solid_energy, tet_rest, hex_rest, tet10_rest, tri_rest, particle_mass, particle_material,
            solid_material, solid_actuation, tri_material, tri_actuation, edge_material, edge_actuation, spring_material,
            gravity, wind, load, prescribed_qd,
        )  # fmt: skip
        bars = deformable_bars(
            particle_mass_bar, particle_material_bar, solid_material_bar, solid_actuation_bar, tri_material_bar,
            tri_actuation_bar, edge_material_bar, edge_actuation_bar, spring_material_bar, gravity_bar, wind_bar,
            load_bar, prescribed_qd_bar,
        )  # fmt: skip
        part_adjoints(body, bars, states, dual, bar, b, 0, 0, 0, 1)


def forces(model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> Array:
    """Forces of the elements on the particles: elastic, damping, air; not those of gravity, loads, contact and the ground.

    Args:
        model: the elements.
        inputs: numbers of every world; actuations are those of frame 0.
        particle_q: [B, P, 3] positions [m].
        particle_qd: [B, P, 3] velocities [m/s].

    Returns:
        [B, P, 3] forces [N].

    Raises:
        UserError: shapes or precision do not fit.
    """
    prepared, states = _at(model, inputs, particle_q, particle_qd)
    force = zeros_like_family(inputs.particle_mass, tuple(particle_q.shape))
    compiled_for(model, sum_forces)(*views(prepared.features, states, force, *prepared.arrays))
    return force


def energy(model: DeformableModel, inputs: DeformableInputs, particle_q: Array) -> Array:
    """Elastic energy of the elements.

    Args:
        model: the elements.
        inputs: numbers of every world; actuations are those of frame 0.
        particle_q: [B, P, 3] positions [m].

    Returns:
        [B] energies [J].

    Raises:
        UserError: shapes or precision do not fit.
    """
    prepared, states = _at(model, inputs, particle_q, particle_q)
    result = zeros_like_family(inputs.particle_mass, (inputs.world_count,))
    compiled_for(model, sum_energy)(*views(prepared.features, states, result, *prepared.arrays))
    return result


class ForceDerivative:
    """Derivatives of the elements' forces at an instant, as products with a dual field."""

    def __init__(self, model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
        """Bind the derivatives to a state.

        Args:
            model: the elements.
            inputs: numbers of every world; actuations are those of frame 0.
            particle_q: [B, P, 3] positions [m].
            particle_qd: [B, P, 3] velocities [m/s].
        """
        self._prepared, self._states = _at(model, inputs, particle_q, particle_qd, differentiable=True)
        self._model, self._like = model, inputs.particle_mass
        self._sums = AdjointSums(model, inputs)

    def transposed(self, dual: np.ndarray) -> np.ndarray:
        """(df/dx)^T w and (df/dv)^T w.

        Args:
            dual: w, [B, P, 3].

        Returns:
            [B, P, 6] f64, for positions and velocities.
        """
        bar = zeros_like_family(self._like, (*dual.shape[:2], 6))
        compiled_for(self._model, sum_adjoints)(*views(
            self._prepared.features, self._states, reals_like_family(self._like, dual), bar,
            *self._prepared.arrays, *self._sums.arguments(),
        ))  # fmt: skip
        return to_numpy(bar).astype(np.float64)


def _at(
    model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array, *, differentiable: bool = False
) -> tuple[PreparedInputs, Array]:
    """Inputs for the kernels, and states [B, 1, P, 6] of these positions and velocities."""
    states = states_at(model, inputs, particle_q, particle_qd)
    return prepare(model, inputs, differentiable=differentiable), states


def states_at(model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> Array:
    """States [B, 1, P, 6] of positions and velocities [B, P, 3] that fit the inputs.

    Raises:
        UserError: shapes or precision do not fit.
    """
    require()
    inputs.check(model)
    b, p = inputs.world_count, model.particle_count
    for name, array in (("particle_q", particle_q), ("particle_qd", particle_qd)):
        check_array(array, name, (b, p, 3))
    states = empty_like_family(inputs.particle_mass, (b, 1, p, 6))
    begin(*views(particle_q, particle_qd, states))
    return states
