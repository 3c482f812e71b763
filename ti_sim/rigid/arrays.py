"""Arrays of the rigid kernels: tables of the model, inputs, and the adjoints that the kernels add to."""

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle
from ti_sim.base.rows import Row, add_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.teams import Team
from ti_sim.base.vecmath import vec3


@bundle
class BristleArrays:
    """Displacements of the bristles, [B, slots, P, 2] m, a part of the state of a rollout; placeholders without bristles.

    Attributes:
        current: at the current step; one slot.
        stored: at the stored steps of the rollout.
        segment: at every step of the segment that the adjoint runs over.
        bar: adjoint of the displacements at the current step; one slot.
    """

    current: Array
    stored: Array
    segment: Array
    bar: Array


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
    body_bristle: Array
    body_radius: Array


@bundle
class RigidArrays(BodyArrays):
    """Arguments of the kernels: the inputs and the tables of the model.

    Attributes:
        point, point_start, point_reach, force_window: tables of ``RigidModel``.
        bristles: displacements of the bristles.
        team: threads of the launch; the lanes of a group share the contact points of a body.
        sums: memory of ``team_sum``.
        has_wrenches: whether the bodies have wrenches and drag.
        has_bristles: whether the contact points have bristles.
        has_contact_radii: whether the contact points are balls with the radius of their body's contact.
        has_rims_or_patches: whether the contact points include rims or patches, which depend on the rotation of the body.
        force_count: number of applied forces.
        dt: physics step [s].
        ground: height of the ground [m].
    """

    point: Array
    point_start: Array
    point_reach: Array
    force_window: Array
    bristles: BristleArrays
    team: Team
    sums: Array
    has_wrenches: Static
    has_bristles: Static
    has_contact_radii: Static
    has_rims_or_patches: Static
    force_count: Integer
    dt: Number
    ground: Number


@bundle
class FrameArrays:
    """Outputs of a rollout.

    Attributes:
        body_q, body_qd: [B, frames + 1, N, 7] poses and [B, frames + 1, N, 6] velocities at the frames (m, m/s, rad/s).
        diverged_step: [B, N] int32, first step with a ``divergence_code``, else -1.
    """

    body_q: Array
    body_qd: Array
    diverged_step: Array


# Columns of a state, of an applied force's window first_step <= step < past_step, and of a body's drag.
STATE = Row(position=3, quaternion=4, velocity=3, momentum=3)
WINDOW = Row(body=1, first_step=1, past_step=1)
DRAG = Row(linear=1, angular=1)
# Entries of the vector of a body's contact parameters (``load_contact``) after ke, kd, kf, mu: bristle stiffness, contact radius.
BRISTLE_STIFFNESS, CONTACT_RADIUS = 4, 5
CONTACT_SIZE = 6


@ti.func
def load_contact(rigid: ti.template(), b, n):
    """(ke, kd, kf, mu, bristle stiffness, contact radius) of body n of world b; the last two are 0 in a model without."""
    contact = zero_contact()
    for k in ti.static(range(4)):
        contact[k] = rigid.body_contact[b, n, k]
    if ti.static(rigid.has_bristles):
        contact[BRISTLE_STIFFNESS] = rigid.body_bristle[b, n]
    if ti.static(rigid.has_contact_radii):
        contact[CONTACT_RADIUS] = rigid.body_radius[b, n]
    return contact


@ti.func
def zero_contact():
    """Zeros for the numbers of a contact, or for their adjoints."""
    return ti.Vector([0.0, 0.0, 0.0, 0.0, 0.0, 0.0])


@ti.func
def add_contact_adjoint(bars: ti.template(), rigid: ti.template(), b, n, contact_bar):
    """Adjoint of ``load_contact``: add to the adjoints of the arrays."""
    add_vec4(bars.body_contact, b, n, 0, contact_bar)
    if ti.static(rigid.has_bristles):
        bars.body_bristle[b, n] = bars.body_bristle[b, n] + contact_bar[BRISTLE_STIFFNESS]
    if ti.static(rigid.has_contact_radii):
        bars.body_radius[b, n] = bars.body_radius[b, n] + contact_bar[CONTACT_RADIUS]


@ti.func
def load_gravity(rigid: ti.template(), b):
    """Gravity of world b [m/s2]."""
    return vec3(rigid.gravity[b, 0], rigid.gravity[b, 1], rigid.gravity[b, 2])
