"""Arrays of the rigid kernels: tables of the model, inputs, and the adjoints that the kernels add to."""

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4


@bundle
class BodyArrays:
    """Inputs that every step reads (see ``RigidInputs``), or their adjoints."""

    body_mass: Array
    body_inertia: Array
    body_contact: Array
    gravity: Array
    body_force: Array
    force_point: Array
    body_wrench: Array
    body_drag: Array


@bundle
class RigidArrays(BodyArrays):
    """Arguments of the kernels: the inputs and the tables of the model.

    Attributes:
        point, point_start, point_body, force_window: tables of ``RigidModel``.
        driven: whether the bodies have wrenches and drag.
        turning: whether the contact points include rims or patches, which depend on the rotation of the body.
        force_count: number of applied forces.
        point_count: total number of contact points.
        dt: physics step [s].
        ground: height of the ground [m].
    """

    point: Array
    point_start: Array
    point_body: Array
    force_window: Array
    driven: Static
    turning: Static
    force_count: Integer
    point_count: Integer
    dt: Number
    ground: Number


CONTACT_SIZE = 4  # numbers of a body's contact, which the plans pass on and whose adjoints they sum


@ti.func
def load_contact(rigid: ti.template(), b, n):
    """(ke, kd, kf, mu) of body n of world b."""
    ke, kd = rigid.body_contact[b, n, 0], rigid.body_contact[b, n, 1]
    return vec4(ke, kd, rigid.body_contact[b, n, 2], rigid.body_contact[b, n, 3])


@ti.func
def no_contact():
    """Zeros for the adjoint of ``load_contact``."""
    return vec4(0.0)


@ti.func
def add_contact_adjoint(bars: ti.template(), b, n, contact_bar):
    """Adjoint of ``load_contact``: add to the adjoints of the arrays."""
    for k in ti.static(range(4)):
        bars.body_contact[b, n, k] = bars.body_contact[b, n, k] + contact_bar[k]


@ti.func
def load_gravity(rigid: ti.template(), b):
    """Gravity of world b [m/s2]."""
    return vec3(rigid.gravity[b, 0], rigid.gravity[b, 1], rigid.gravity[b, 2])
