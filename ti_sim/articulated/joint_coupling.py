"""Joints whose velocity is a constant multiple of another joint's, such as URDF's ``mimic`` joints (Taichi functions).

Coupling k requires J_k q'' = 0, where J_k x = x_follower - multiplier x_leader. Its constraint force acts along J_k^T and does no
work, so with the accelerations a of the uncoupled joints (Gauss's principle of least constraint)

    q'' = a - sum over k of w_k (J_k a) / (J_k w_k),   w_k = M^-1 J_k^T - sum over j < k of w_j (J_j M^-1 J_k^T) / (J_j w_j)

The columns w_k are orthogonal in the metric of M (Gram-Schmidt), so J_j w_k = 0 for j < k, and the couplings can be imposed one
after the other. The same projection of M^-1 y gives the virtual velocities of the adjoint, on which constraint forces do no work.

``coupling_work`` [B, C + 1, D + 1] holds the w_k in its rows, the vector to project in the last one, and the multipliers in the
last column.
"""

from ti_sim.articulated.joint_solve import eliminate_joints, virtual_links
from ti_sim.articulated.tables import JOINT_WORK
from ti_sim.base.runtime import ti

FOLLOWER, LEADER = range(2)  # columns of ``ArticulatedModel.coupling``: joint velocities


@ti.func
def coupling_residual(world: ti.template(), b, k, row):
    """J_k x of the vector in a row of ``coupling_work``."""
    multiplier = world.coupling_work[b, k, world.velocities]
    leader_value = world.coupling_work[b, row, world.coupling[k, LEADER]]
    return world.coupling_work[b, row, world.coupling[k, FOLLOWER]] - multiplier * leader_value


@ti.func
def project_onto_coupling(world: ti.template(), b, k, row):
    """Add the multiple of w_k to a row of ``coupling_work`` with which the row satisfies coupling k."""
    factor = coupling_residual(world, b, k, row) / coupling_residual(world, b, k, k)
    for d in range(world.velocities):
        world.coupling_work[b, row, d] = world.coupling_work[b, row, d] - factor * world.coupling_work[b, k, d]


@ti.func
def project_onto_couplings(world: ti.template(), b):
    """Project the last row of ``coupling_work``, M^-1 y, with the factors of the last elimination.

    Overwrites the joint velocities' column JOINT_WORK.solution, and the links' loads and virtual velocities.
    """
    last_row = world.coupling.shape[0]
    for k in range(last_row):
        for d in range(world.velocities):
            world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
        world.velocity_work[b, world.coupling[k, FOLLOWER], JOINT_WORK.solution] = 1.0
        world.velocity_work[b, world.coupling[k, LEADER], JOINT_WORK.solution] = -world.coupling_work[b, k, world.velocities]
        eliminate_joints(world, b)
        virtual_links(world, b, False)
        for d in range(world.velocities):
            world.coupling_work[b, k, d] = world.velocity_work[b, d, JOINT_WORK.solution]
        for j in range(k):
            project_onto_coupling(world, b, j, k)
    for k in range(last_row):
        project_onto_coupling(world, b, k, last_row)
    for k in range(last_row):  # without the rounding errors of the projection, which would add up over the steps
        leader_value = world.coupling_work[b, last_row, world.coupling[k, LEADER]]
        world.coupling_work[b, last_row, world.coupling[k, FOLLOWER]] = world.coupling_work[b, k, world.velocities] * leader_value


@ti.func
def couple_accelerations(world: ti.template(), states: ti.template(), b, slot):
    """Replace the accelerations of uncoupled joints in a row of ``states`` by those of the coupled ones."""
    last_row, first_column = world.coupling.shape[0], world.coordinates + world.velocities
    for d in range(world.velocities):
        world.coupling_work[b, last_row, d] = states[b, slot, first_column + d]
    project_onto_couplings(world, b)
    for d in range(world.velocities):
        states[b, slot, first_column + d] = world.coupling_work[b, last_row, d]


@ti.func
def couple_virtual_links(world: ti.template(), b):
    """Replace the virtual velocities of uncoupled joints (JOINT_WORK.solution) and of the links by those of the coupled ones."""
    last_row = world.coupling.shape[0]
    for d in range(world.velocities):
        world.coupling_work[b, last_row, d] = world.velocity_work[b, d, JOINT_WORK.solution]
    project_onto_couplings(world, b)
    for d in range(world.velocities):
        world.velocity_work[b, d, JOINT_WORK.solution] = world.coupling_work[b, last_row, d]
    virtual_links(world, b, True)
