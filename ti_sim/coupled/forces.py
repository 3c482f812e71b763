"""Contact forces between particles and links at one state, and their adjoint: the forces of the step that starts there.

The loads of the links are computed as in ``ti_sim.articulated.forces``.
"""

from ti_sim.articulated.adjoint import link_adjoint
from ti_sim.articulated.forces import clear_load, seed_wrench, store_load
from ti_sim.articulated.kinematics import place_link
from ti_sim.articulated.rollout import add_and_clear_sums
from ti_sim.articulated.tables import JOINT_WORK, WORK, BarArrays, WorldArrays
from ti_sim.base.bundles import Array, bundle, kernel
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.coupled.contact import particle_loads, particle_loads_adjoint
from ti_sim.coupled.model import ContactParticles


@bundle
class ParticleContact:
    """The input of ``DeformableInputs`` that contacts with links read, or its adjoint."""

    particle_contact: Array


@ti.func
def loads_of_particles(
    joints: ti.template(), states: ti.template(), force: ti.template(), world: ti.template(), particles: ti.template(),
    candidates: ti.template(), b,
):  # fmt: skip
    """Place the links, and compute the loads of the particles on them and the forces on the particles."""
    for i in range(world.links):
        place_link(world, joints, b, 0, i)
        clear_load(world, b, i)
    particle_loads(world, particles, candidates, states, force, b, 0, 0)


@kernel
def link_contacts(
    joints: ti.types.ndarray(), states: ti.types.ndarray(), force: ti.types.ndarray(), wrench: ti.types.ndarray(),
    world: WorldArrays, particles: ParticleContact, candidates: ContactParticles,
):  # fmt: skip
    """Add the forces of the links to force [B, P, 3] of the particles, and write the wrench of the particles on each link.

    Reads the state of the joints [B, 1, columns] and of the particles [B, 1, P, 6]. wrench [B, N, 6] is the force [N] and the
    torque about the link's centre of mass [N m], world axes. Hand-written adjoint: ``link_contacts_adjoint``.
    """
    for b in range(states.shape[0]):
        loads_of_particles(joints, states, force, world, particles, candidates, b)
        for i in range(world.links):
            store_load(world, b, i, wrench, i, 0)


@kernel
def link_contacts_adjoint(
    joints: ti.types.ndarray(), states: ti.types.ndarray(), force_bar: ti.types.ndarray(), wrench_bar: ti.types.ndarray(),
    force: ti.types.ndarray(), joint_bar: ti.types.ndarray(), bar: ti.types.ndarray(),
    world: WorldArrays, bars: BarArrays, particles: ParticleContact, particle_bars: ParticleContact,
    candidates: ContactParticles,
):  # fmt: skip
    """Adjoint of ``link_contacts``.

    Adds to row 0 of joint_bar [B, 3, columns], to bar [B, P, 6], and to the adjoints of the tables and of the particles'
    contacts. force [B, P, 3] is scratch.
    """
    for b in range(states.shape[0]):
        loads_of_particles(joints, states, force, world, particles, candidates, b)
        for i in range(world.links):
            for k in ti.static(range(24)):
                world.work[b, i, WORK.bars + k] = 0.0
            for k in ti.static(range(6)):
                world.work[b, i, WORK.acceleration + k] = 0.0
            seed_wrench(world, bars, b, i, -load_vec3(world.work, b, i, WORK.load + 3), wrench_bar, i, 0)
        for d in range(world.velocities):
            world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
        particle_loads_adjoint(world, bars, particles, particle_bars, candidates, states, force_bar, bar, b, 0)
        for i in range(world.links):
            for k in ti.static(range(12)):  # virtual velocities and accelerations are no functions of the state here
                world.work[b, i, WORK.bars + 12 + k] = 0.0
        for k in range(world.links):
            link_adjoint(world, bars, joints, joint_bar, b, 0, 0, world.links - 1 - k)
        add_and_clear_sums(world, bars, b)
