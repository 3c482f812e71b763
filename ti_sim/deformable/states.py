"""Initial state of a rollout, and the final sums of its adjoint."""

from ti_sim.base.runtime import ti
from ti_sim.deformable.corners import PARTICLE


@ti.kernel
def initialise_state(particle_q0: ti.types.ndarray(), particle_qd0: ti.types.ndarray(), states: ti.types.ndarray()):
    """Write positions and velocities [B, P, 3] to row 0 of states [B, rows, P, 6].

    Hand-written adjoint: ``initialise_state_adjoint``.
    """
    for b, p, k in ti.ndrange(particle_q0.shape[0], particle_q0.shape[1], 3):
        states[b, 0, p, PARTICLE.position + k] = particle_q0[b, p, k]
        states[b, 0, p, PARTICLE.velocity + k] = particle_qd0[b, p, k]


@ti.kernel
def initialise_frames(
    particle_q0: ti.types.ndarray(), particle_qd0: ti.types.ndarray(),
    particle_q: ti.types.ndarray(), particle_qd: ti.types.ndarray(),
):  # fmt: skip
    """Write positions and velocities [B, P, 3] to frame 0 of particle_q and particle_qd [B, frames + 1, P, 3]. Hand-written
    adjoint: ``initialise_state_adjoint``.
    """
    for b, p, k in ti.ndrange(particle_q0.shape[0], particle_q0.shape[1], 3):
        particle_q[b, 0, p, k] = particle_q0[b, p, k]
        particle_qd[b, 0, p, k] = particle_qd0[b, p, k]


@ti.kernel
def initialise_state_adjoint(
    bar: ti.types.ndarray(), particle_q_bar: ti.types.ndarray(), particle_qd_bar: ti.types.ndarray(),
    particle_q0_bar: ti.types.ndarray(), particle_qd0_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``initialise_state`` and ``initialise_frames``: writes particle_q0_bar and particle_qd0_bar from bar [B, P, 6]
    and the adjoints of frame 0.
    """
    for b, p, k in ti.ndrange(particle_q0_bar.shape[0], particle_q0_bar.shape[1], 3):
        particle_q0_bar[b, p, k] = bar[b, p, PARTICLE.position + k] + particle_q_bar[b, 0, p, k]
        particle_qd0_bar[b, p, k] = bar[b, p, PARTICLE.velocity + k] + particle_qd_bar[b, 0, p, k]


@ti.kernel
def copy_row(source: ti.types.ndarray(), source_row: int, target: ti.types.ndarray(), target_row: int):
    """Copy a row of source [B, rows, P, 6] to one of target."""
    for b, p, k in ti.ndrange(source.shape[0], source.shape[2], PARTICLE.size):
        target[b, target_row, p, k] = source[b, source_row, p, k]


@ti.kernel
def add_and_clear(addend: ti.types.ndarray(), total: ti.types.ndarray()):
    """total += addend and addend = 0, element by element (same shape)."""
    for index in ti.grouped(addend):
        total[index] = total[index] + addend[index]
        addend[index] = 0.0


@ti.kernel
def sum_rows(rows: ti.types.ndarray(), total: ti.types.ndarray()):
    """total [B, K] = the sum of rows [B, N, K] over N."""
    for b, k in ti.ndrange(total.shape[0], total.shape[1]):
        value = 0.0
        for i in range(rows.shape[1]):
            value += rows[b, i, k]
        total[b, k] = value
