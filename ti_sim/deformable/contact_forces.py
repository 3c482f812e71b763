"""Contact forces of particles at one state, as evaluated at the start of an explicit step, and their adjoint."""

from ti_sim.base.arrays import Array, assign, reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import kernel, views
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti, without_cfg_optimisation
from ti_sim.contact.law import contact_force_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays, prepare
from ti_sim.deformable.model import GROUND_CONTACT, HELD, DeformableModel
from ti_sim.deformable.particle_step import ground_force
from ti_sim.deformable.self_contact_forces import self_contact_adjoint, self_contact_forces


@ti.func
def can_touch_ground(arrays: ti.template(), p):
    """Whether particle p collides with the ground (wherever it is now) and is neither fixed nor prescribed."""
    return arrays.particle_table[p, HELD] == 0 and arrays.particle_table[p, GROUND_CONTACT] == 1


@kernel
def ground_forces(force: ti.types.ndarray(), ground: float, dt: float, arrays: DeformableArrays):
    """Write the force of the ground on each particle, [B, P, 3] N. Hand-written adjoint: ``ground_forces_adjoint``."""
    for b, p in ti.ndrange(force.shape[0], force.shape[1]):
        if can_touch_ground(arrays, p):
            x, v = load_vec3(arrays.particle_q0, b, p, 0), load_vec3(arrays.particle_qd0, b, p, 0)
            store_vec3(force, b, p, 0, ground_force(arrays, b, p, x, v, ground, dt))


@kernel
def ground_forces_adjoint(
    force_bar: ti.types.ndarray(), ground: float, dt: float, arrays: DeformableArrays, bars: DeformableInputs
):
    """Adjoint of ``ground_forces``: adds to the adjoints of the particles' positions, velocities and contact parameters."""
    for b, p in ti.ndrange(force_bar.shape[0], force_bar.shape[1]):
        if can_touch_ground(arrays, p):
            contact = load_vec4(arrays.particle_contact, b, p, 0)
            _force, height_bar, u_bar, contact_bar = contact_force_adjoint(
                arrays.particle_q0[b, p, 2] - ground, load_vec3(arrays.particle_qd0, b, p, 0), contact.x, contact.y, contact.z,
                contact.w, dt, load_vec3(force_bar, b, p, 0),
            )  # fmt: skip
            bars.particle_q0[b, p, 2] = bars.particle_q0[b, p, 2] + height_bar
            add_vec3(bars.particle_qd0, b, p, 0, u_bar)
            add_vec4(bars.particle_contact, b, p, 0, contact_bar)


@without_cfg_optimisation
def contact_forces(model: DeformableModel, inputs: DeformableInputs, *, dt: float) -> tuple[Array, Array]:
    """Forces of the ground and of self-contact on the particles at the initial state, each [B, P, 3] N.

    Args:
        model: the particles, elements and boundary conditions.
        inputs: inputs of all worlds, of the shapes that the model needs.
        dt: physics step [s], over which the forces are averaged.
    """
    force = zeros_in_same_library(inputs.particle_mass, tuple(inputs.particle_q0.shape))
    ground_forces(*views(force, float(model.ground_height), float(dt), prepare(model, inputs)))
    return force, self_contact_forces(model, inputs, inputs.particle_q0, inputs.particle_qd0, dt=dt)


@without_cfg_optimisation
def contact_forces_adjoint(
    model: DeformableModel, inputs: DeformableInputs, ground_bar: Array, self_bar: Array, *, dt: float
) -> DeformableInputs:
    """Adjoint of ``contact_forces``, from the adjoints of both forces."""
    bars = inputs.zeros()
    ground_forces_adjoint(*views(ground_bar, float(model.ground_height), float(dt), prepare(model, inputs), bars))
    if model.with_self_contact:
        state = (inputs.particle_q0, inputs.particle_qd0)
        bar, contact_bar = self_contact_adjoint(model, inputs, *state, to_numpy(self_bar), dt=dt)
        for array, columns in ((bars.particle_q0, slice(3)), (bars.particle_qd0, slice(3, 6))):
            assign(array, (...,), reals_in_same_library(array, to_numpy(array) + to_numpy(bar)[..., columns]))
        assign(bars.self_contact, (...,), contact_bar)
    return bars
