"""Forces of self-contact at one state, and their derivatives."""

import numpy as np

from ti_sim.base.arrays import Array, reals_in_same_library, zeros_in_same_library
from ti_sim.base.bundles import kernel, views
from ti_sim.base.runtime import ti, without_cfg_optimisation
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.self_contact import chunk_contacts, chunk_contacts_adjoint
from ti_sim.deformable.self_contact_lists import SelfContactArrays, rebuild_if_stale
from ti_sim.deformable.self_contact_tables import self_contact_memory
from ti_sim.deformable.single_state import states_at
from ti_sim.deformable.states import sum_rows


@kernel
def sum_contacts(
    states: ti.types.ndarray(), force: ti.types.ndarray(), dt: float, contacts: SelfContactArrays,
):  # fmt: skip
    """Add the forces of self-contact at states [B, 1, P, 6] to force [B, P, 3]."""
    for b in range(states.shape[0]):
        rebuild_if_stale(contacts, states, b, 0, 0, dt)
        chunk_contacts(contacts, states, force, b, 0, 0, 1, dt)


@kernel
def sum_contact_adjoints(
    states: ti.types.ndarray(), dual: ti.types.ndarray(), bar: ti.types.ndarray(), dt: float,
    contacts: SelfContactArrays, contact_bar: ti.types.ndarray(),
):  # fmt: skip
    """Add the derivatives of dual [B, P, 3] . force at states [B, 1, P, 6] to bar [B, P, 6] and contact_bar [B, 1, 4]."""
    for b in range(states.shape[0]):
        rebuild_if_stale(contacts, states, b, 0, 0, dt)
        chunk_contacts_adjoint(contacts, contact_bar, states, dual, bar, b, 0, 0, 1, dt)


@without_cfg_optimisation
def self_contact_forces(
    model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array, *, dt: float
) -> Array:
    """Forces of self-contact on the particles.

    Args:
        model: model with ``contact_triangles``.
        inputs: numbers of every world.
        particle_q: [B, P, 3] positions [m].
        particle_qd: [B, P, 3] velocities [m/s].
        dt: physics step [s], over which the force is averaged (see ``ti_sim.contact.law``).

    Returns:
        [B, P, 3] forces [N]; zeros if the model has no self-contact.

    Raises:
        UserError: shapes or precision do not fit.
    """
    states = states_at(model, inputs, particle_q, particle_qd)
    force = zeros_in_same_library(inputs.particle_mass, tuple(particle_q.shape))
    if model.with_self_contact:
        sum_contacts(*views(states, force, float(dt), self_contact_memory(model, inputs, step=0, num_chunks=1)))
    return force


@without_cfg_optimisation
def self_contact_adjoint(
    model: DeformableModel, inputs: DeformableInputs, particle_q: Array, particle_qd: Array, dual: np.ndarray, *, dt: float
) -> tuple[Array, Array]:
    """Derivatives of dual . ``self_contact_forces``.

    Args:
        model, inputs, particle_q, particle_qd, dt: as in ``self_contact_forces``.
        dual: [B, P, 3].

    Returns:
        [B, P, 6] by positions and velocities, [B, 4] by the contact parameters.

    Raises:
        UserError: shapes or precision do not fit.
    """
    like, (worlds, particles, _) = inputs.particle_mass, particle_q.shape
    states = states_at(model, inputs, particle_q, particle_qd)
    shapes = ((worlds, particles, 6), (worlds, 1, 4), (worlds, 4))
    bar, contact_bar_rows, contact_bar = (zeros_in_same_library(like, shape) for shape in shapes)
    if model.with_self_contact:
        contacts = self_contact_memory(model, inputs, step=0, num_chunks=1)
        sum_contact_adjoints(*views(states, reals_in_same_library(like, dual), bar, float(dt), contacts, contact_bar_rows))
        sum_rows(*views(contact_bar_rows, contact_bar))
    return bar, contact_bar
