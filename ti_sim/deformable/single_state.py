"""Forces, energies and force derivatives of the elements at one state."""

import numpy as np

from ti_sim.base.arrays import Array, check_array, empty_in_same_library, reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import kernel, views
from ti_sim.base.runtime import require, ti
from ti_sim.deformable.elements import chunk_adjoints, chunk_forces, elastic_energy
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import AdjointSums, DeformableArrays, compiled_for, prepare
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.states import initialise_state


@kernel
def sum_forces(
    states: ti.types.ndarray(), force: ti.types.ndarray(),
    arrays: DeformableArrays,
):  # fmt: skip
    """Add the forces of all elements at states [B, 1, P, 6] to force [B, P, 3]."""
    for b in range(states.shape[0]):
        chunk_forces(arrays, states, force, b, 0, 0, 0, 1)


@kernel
def sum_energy(
    states: ti.types.ndarray(), energy: ti.types.ndarray(),
    arrays: DeformableArrays,
):  # fmt: skip
    """Elastic energy [B] of all elements at states [B, 1, P, 6]."""
    for b in range(states.shape[0]):
        energy[b] = elastic_energy(arrays, states, b, 0, 0)


@kernel
def sum_adjoints(
    states: ti.types.ndarray(), dual: ti.types.ndarray(), bar: ti.types.ndarray(),
    arrays: DeformableArrays,
    bars: DeformableInputs,
):  # fmt: skip
    """Add the derivatives of dual [B, P, 3] . force by positions and velocities at states [B, 1, P, 6] to bar [B, P, 6]."""
    for b in range(states.shape[0]):
        chunk_adjoints(arrays, bars, states, dual, bar, b, 0, 0, 0, 1)


def forces(model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> Array:
    """Forces of the elements on the particles: elastic, damping and air forces, without gravity, loads and contact.

    Args:
        model: the particles, elements and boundary conditions.
        inputs: numbers of every world; actuations are those of frame 0.
        particle_q: [B, P, 3] positions [m].
        particle_qd: [B, P, 3] velocities [m/s].

    Returns:
        [B, P, 3] forces [N].

    Raises:
        UserError: shapes or precision do not fit.
    """
    arrays, states = _kernel_arguments(model, inputs, particle_q, particle_qd)
    force = zeros_in_same_library(inputs.particle_mass, tuple(particle_q.shape))
    compiled_for(model, sum_forces)(*views(states, force, arrays))
    return force


def energy(model: DeformableModel, inputs: DeformableInputs, particle_q: Array) -> Array:
    """Elastic energy of the elements.

    Args:
        model, inputs, particle_q: as in ``forces``.

    Returns:
        [B] energies [J].

    Raises:
        UserError: shapes or precision do not fit.
    """
    arrays, states = _kernel_arguments(model, inputs, particle_q, particle_q)
    result = zeros_in_same_library(inputs.particle_mass, (inputs.world_count,))
    compiled_for(model, sum_energy)(*views(states, result, arrays))
    return result


class ForceDerivative:
    """Derivatives of the elements' forces at one state, as products with a dual field."""

    def __init__(self, model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
        """Bind the derivatives to a state.

        Args:
            model, inputs, particle_q, particle_qd: as in ``forces``.
        """
        self._arrays, self._states = _kernel_arguments(model, inputs, particle_q, particle_qd, differentiable=True)
        self._model, self._like = model, inputs.particle_mass
        self._sums = AdjointSums(model, inputs)

    def transposed(self, dual: np.ndarray) -> np.ndarray:
        """(df/dx)^T w and (df/dv)^T w.

        Args:
            dual: w, [B, P, 3].

        Returns:
            [B, P, 6] f64, for positions and velocities.
        """
        bar = zeros_in_same_library(self._like, (*dual.shape[:2], 6))
        compiled_for(self._model, sum_adjoints)(*views(
            self._states, reals_in_same_library(self._like, dual), bar, self._arrays, self._sums.partial_sums(),
        ))  # fmt: skip
        return to_numpy(bar).astype(np.float64)


def _kernel_arguments(
    model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array, *, differentiable: bool = False
) -> tuple[DeformableArrays, Array]:
    """Kernel arguments of the inputs, and states [B, 1, P, 6] of these positions and velocities."""
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
    states = empty_in_same_library(inputs.particle_mass, (b, 1, p, 6))
    initialise_state(*views(particle_q, particle_qd, states))
    return states
