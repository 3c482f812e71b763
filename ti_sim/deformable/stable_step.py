"""The longest stable step of a deformable simulation, from the largest eigenvalues of its linearisation about a state.

A semi-implicit step of one mode, v' = v - dt (omega^2 x + c v), x' = x + dt v', stays bounded while omega^2 dt^2 + 2 c dt <= 4.
With the largest omega^2 and the largest c, even of different modes, the bound holds for all modes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ti_sim.base.arrays import to_numpy
from ti_sim.base.rules import Count, checked
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import GROUND_CONTACT, HELD, DeformableModel
from ti_sim.deformable.single_state import ForceDerivative

_ITERATIONS = 20  # Lanczos iterations, for an error of the step of 0.5 %


@checked
def stable_step(model: DeformableModel, inputs: DeformableInputs, *, iterations: Count = _ITERATIONS) -> float:
    """Longest stable step at the initial state, over all worlds.

    Arguments and errors: as in ``stable_steps``.

    Returns:
        Step [s]; inf if there is no limit.
    """
    return float(np.min(stable_steps(model, inputs, iterations=iterations)))


def stable_steps(model: DeformableModel, inputs: DeformableInputs, *, iterations: int = _ITERATIONS) -> np.ndarray:
    """Longest stable step of each world at its initial state, independent of the other worlds.

    Includes stiffness and damping of the elements, of ground contact as if all particles that may touch the ground did, and of
    self-contact as if every vertex touched another one and all its triangles. Motions that stiffen (large strains, compressed
    elements) need shorter steps: stay 10 to 30 % below.

    Args:
        model: particles and elements.
        inputs: numbers of every world; actuations are those of frame 0.
        iterations: number of Lanczos iterations, each about as expensive as four steps. With four iterations the step is about 5
            % too long.

    Returns:
        [B] steps [s]; inf if there is no limit.

    Raises:
        UserError: shapes or precision do not fit.
    """
    derivative = ForceDerivative(model, inputs, inputs.particle_q0, inputs.particle_qd0)
    mass = to_numpy(inputs.particle_mass).astype(np.float64)
    is_free = model.particle_table[:, HELD] == 0
    inverse_sqrt_mass = np.where(is_free, 1 / np.sqrt(np.where(is_free, mass, 1.0)), 0.0)[..., None]
    contact = to_numpy(inputs.particle_contact).astype(np.float64)
    contact *= (model.particle_table[:, GROUND_CONTACT] == 1)[:, None]
    stiffness = np.stack([0 * contact[..., 0], 0 * contact[..., 0], contact[..., 0]], axis=-1)
    damping = np.stack([contact[..., 2], contact[..., 2], contact[..., 1]], axis=-1)

    # Two equal sheets moving against each other have four times ke on each particle: as a vertex and as a corner, both moving. A
    # vertex over another one touches every triangle with that corner.
    triangle_counts = np.bincount(model.contact_triangles.ravel(), minlength=model.particle_count)[:, None]
    contact_bound = 4 * to_numpy(inputs.self_contact).astype(np.float64)[:, None] * triangle_counts
    stiffness += contact_bound[..., :1]
    damping += np.maximum(contact_bound[..., 1:2], contact_bound[..., 2:3])

    def scaled_stiffness(x: np.ndarray) -> np.ndarray:
        product = derivative.transposed(inverse_sqrt_mass * x)[..., :3]
        return inverse_sqrt_mass * (stiffness * (inverse_sqrt_mass * x) - product)

    def scaled_damping(x: np.ndarray) -> np.ndarray:
        product = derivative.transposed(inverse_sqrt_mass * x)[..., 3:]
        return inverse_sqrt_mass * (damping * (inverse_sqrt_mass * x) - product)

    shape = (*mass.shape, 3)
    omega2, c = (_largest_eigenvalue(product, shape, iterations) for product in (scaled_stiffness, scaled_damping))
    # dt = (sqrt(c^2 + 4 omega^2) - c) / omega^2, written so that omega may be zero.
    with np.errstate(divide="ignore"):
        return 4 / (np.sqrt(c * c + 4 * omega2) + c)


def _largest_eigenvalue(product: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int, int], iterations: int) -> np.ndarray:
    """Largest eigenvalue of a symmetric operator in every world, by Lanczos from one random start for all; at least 0.

    Args:
        product: the operator, a function of fields [B, P, 3].
        shape: (B, P, 3).
        iterations: number of Lanczos iterations.

    Returns:
        [B].
    """
    worlds, count = shape[0], shape[1] * 3
    start = np.tile(np.random.default_rng(0).normal(size=count), (worlds, 1))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    basis = [start]
    diagonal, off_diagonal = [], []
    for _ in range(min(iterations, count)):
        vector = product(basis[-1].reshape(shape)).reshape(worlds, count)
        diagonal.append((vector * basis[-1]).sum(1))
        # f32 products lose the orthogonality of the three-term recurrence, and one pass is not enough.
        for basis_vector in 2 * basis:
            vector = vector - (vector * basis_vector).sum(1, keepdims=True) * basis_vector
        norm = np.linalg.norm(vector, axis=1)
        off_diagonal.append(norm)
        basis.append(vector / np.maximum(norm, np.finfo(np.float64).tiny)[:, None])
    size = len(diagonal)
    matrix = np.zeros((worlds, size, size))
    k = np.arange(size)
    matrix[:, k, k] = np.array(diagonal).T
    matrix[:, k[1:], k[:-1]] = matrix[:, k[:-1], k[1:]] = np.array(off_diagonal[:-1]).T.reshape(worlds, size - 1)
    return np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0)
