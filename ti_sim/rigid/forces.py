"""Contact forces of rigid bodies at one state, and their adjoint: the loads with which the step from this state begins."""

from ti_sim.base.bundles import kernel
from ti_sim.base.rows import POSE, TWIST, WRENCH, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.teams import team_thread
from ti_sim.base.vecmath import normalized_adjoint, rotation_matrix, rotation_matrix_adjoint
from ti_sim.rigid.arrays import BodyArrays, RigidArrays, add_contact_adjoint
from ti_sim.rigid.body import Motion, Wrench, load_body
from ti_sim.rigid.dynamics import contact_load, contact_load_adjoint


@ti.func
def load_motion(body_q: ti.template(), body_qd: ti.template(), b, n):
    """``Motion`` of a body from its pose, whose quaternion is normalised, and velocities."""
    rotation = rotation_matrix(load_vec4(body_q, b, n, POSE.quaternion).normalized())
    v, w = load_vec3(body_qd, b, n, TWIST.linear), load_vec3(body_qd, b, n, TWIST.angular)
    height = body_q[b, n, POSE.position + 2]
    return Motion(rotation, v, w, height)


@kernel
def contact_wrenches(body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(), wrench: ti.types.ndarray(), rigid: RigidArrays):
    """Write the wrench of the ground on each body: force [N] and torque about the centre of mass [N m], [B, N, 6], world axes.

    Reads poses body_q [B, N, 7], whose quaternions it normalises, and velocities body_qd [B, N, 6]. Displacements of bristles in
    ``rigid.bristles.current`` are advanced. Hand-written adjoint: ``contact_wrenches_adjoint``.
    """
    for b, n in ti.ndrange(body_q.shape[0], body_q.shape[1]):
        thread = team_thread(rigid.team, 0)
        body, motion = load_body(rigid, b, n, thread), load_motion(body_q, body_qd, b, n)
        force, torque = contact_load(rigid, body, motion)
        store_vec3(wrench, b, n, WRENCH.force, force)
        store_vec3(wrench, b, n, WRENCH.torque, torque)


@kernel
def contact_wrenches_adjoint(
    body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(), wrench_bar: ti.types.ndarray(), body_q_bar: ti.types.ndarray(),
    body_qd_bar: ti.types.ndarray(), rigid: RigidArrays, bars: BodyArrays,
):  # fmt: skip
    """Adjoint of ``contact_wrenches``: writes body_q_bar and body_qd_bar, and adds to the adjoints of the contacts' numbers.

    The adjoint of the displacements of bristles before the step is written to ``rigid.bristles.bar``.
    """
    for b, n in ti.ndrange(body_q.shape[0], body_q.shape[1]):
        thread = team_thread(rigid.team, 0)
        body, motion = load_body(rigid, b, n, thread), load_motion(body_q, body_qd, b, n)
        force_bar, torque_bar = load_vec3(wrench_bar, b, n, WRENCH.force), load_vec3(wrench_bar, b, n, WRENCH.torque)
        load_bar = Wrench(force_bar, torque_bar)
        total = contact_load_adjoint(rigid, body, motion, 0, load_bar)
        raw_quaternion = load_vec4(body_q, b, n, POSE.quaternion)
        body_q_bar[b, n, POSE.position + 2] = total.height
        store_vec4(
            body_q_bar, b, n, POSE.quaternion,
            normalized_adjoint(raw_quaternion, rotation_matrix_adjoint(raw_quaternion.normalized(), total.rotation)),
        )  # fmt: skip
        store_vec3(body_qd_bar, b, n, TWIST.linear, total.velocity)
        store_vec3(body_qd_bar, b, n, TWIST.angular, total.angular_velocity)
        add_contact_adjoint(bars, rigid, b, n, total.contact)
