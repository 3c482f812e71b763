"""Plan for neo-Hookean tetrahedra in single precision on the processor: blocks of elements in lanes, particles in rows of four.

As ``element_plan`` with copies: the threads of a team share the chunks of the elements, each of which adds to a separate copy of
the particles. A team of one thread per world has one chunk.
"""

from typing import Any

from ti_sim.base.bundles import Integer, bundle, kernel, with_fields
from ti_sim.base.quads import QUADS, Pairs
from ti_sim.base.runtime import ti
from ti_sim.base.teams import Team, lane_entry, lane_share, takes_part, team_iterations, team_thread, wait_for_group
from ti_sim.deformable.element_plan import ElementOutput
from ti_sim.deformable.elements import actuation_row
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.lane_step import (
    LaneParticleBars,
    LaneParticles,
    step_particle,
    step_particle_adjoint,
    stored_state,
)
from ti_sim.deformable.particle_step import StepSettings
from ti_sim.deformable.tet_lanes import CORNERS, TetBlockBars, TetBlocks, block_adjoints, block_forces, load_tets

_ROWS = 3  # rows of ``Pairs`` of a state


@bundle
class StoredStates:
    """States of B worlds.

    Attributes:
        pairs: three rows for each of [B, rows, P].
        rows: number of states of a world.
    """

    pairs: Pairs
    rows: Integer


@bundle
class LaneChunk:
    """Chunk of a thread's world, in a kernel.

    Attributes:
        world, chunk: their numbers.
        first, stop: first particle of the chunk, and last one + 1.
        row, copy_row: row of the world's first particle, and of that in the copy of the chunk.
    """

    world: Any
    chunk: Any
    first: Any
    stop: Any
    row: Any
    copy_row: Any


@ti.func
def chunk_of(team: ti.template(), thread: ti.template(), particles: ti.template(), k):
    """``LaneChunk`` of the k-th chunk that a thread takes."""
    chunk = lane_entry(team, thread.lane, k)
    first, stop = particles.count * chunk // particles.copies, particles.count * (chunk + 1) // particles.copies
    row = thread.group * particles.count
    copy_row = row * particles.copies + chunk * particles.count
    return LaneChunk(thread.group, chunk, first, stop, row, copy_row)


@ti.func
def first_pair(states: ti.template(), world, row, particles: ti.template()):
    """Row of ``StoredStates.pairs`` of the first particle in a row of a world's states."""
    return (world * states.rows + row) * particles.count * _ROWS


@ti.func
def load_chunks(team: ti.template(), thread: ti.template(), particles: ti.template(), states: ti.template(), row):
    """Make a row of states the current one, for the particles of a thread."""
    for k in range(lane_share(team, thread.lane, particles.copies)):
        part = chunk_of(team, thread, particles, k)
        first_state = first_pair(states, part.world, row, particles)
        for p in range(part.first, part.stop):
            x, v = stored_state(states.pairs, first_state + _ROWS * p)
            particles.position[part.row + p] = x
            particles.velocity[part.row + p] = v


@ti.func
def store_rows(output: ti.template(), particles: ti.template(), part: ti.template(), step, substeps):
    """Write the current state of a chunk to the frames and checkpoints at the end of a step, if there are any."""
    if output.write_frames == 1 and (step + 1) % substeps == 0:
        for p in range(part.first, part.stop):
            x, v = particles.position[part.row + p], particles.velocity[part.row + p]
            for k in ti.static(range(3)):
                output.particle_q[part.world, (step + 1) // substeps, p, k] = x[k]
                output.particle_qd[part.world, (step + 1) // substeps, p, k] = v[k]
    if output.keep_every > 0 and (step + 1) % output.keep_every == 0:
        for p in range(part.first, part.stop):
            x, v = particles.position[part.row + p], particles.velocity[part.row + p]
            for k in ti.static(range(3)):
                output.checkpoints[part.world, (step + 1) // output.keep_every, p, k] = x[k]
                output.checkpoints[part.world, (step + 1) // output.keep_every, p, 3 + k] = v[k]


@kernel
def step_lanes(
    step: int, num_steps: int, team_size: int, first_step: int, team: Team, states: StoredStates, in_place: int,
    tets: TetBlocks, particles: LaneParticles, output: ElementOutput, arrays: DeformableArrays, settings: StepSettings,
):  # fmt: skip
    """Advance every world by ``num_steps`` steps from row ``step - first_step`` of the states; ``in_place``: row 0.

    Writes states and ``output`` as ``world_plan.advance``, states ``in_place`` after the last step. ``particles.force`` holds
    zeros. Hand-written adjoint: ``step_lanes_adjoint``.
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(with_fields(team, size=team_size))):
        threads = with_fields(team, size=team_size)
        if takes_part(threads, index):
            thread, blocks = team_thread(threads, index), tets.corner.shape[0] // (CORNERS * QUADS)
            shares, copies = lane_share(threads, thread.lane, particles.copies), particles.copies
            controls = arrays.solid_actuation.shape[1]
            load_chunks(threads, thread, particles, states, (step - first_step) * (1 - in_place))
            wait_for_group(threads, thread)
            for s in range(num_steps):
                current_step = step + s
                control, frame = actuation_row(arrays, current_step, settings.substeps), current_step // settings.substeps
                for k in range(shares):
                    part = chunk_of(threads, thread, particles, k)
                    for block in range(blocks * part.chunk // copies, blocks * (part.chunk + 1) // copies):
                        lanes = load_tets(
                            tets, part.world * blocks + block, (part.world * controls + control) * blocks + block, block
                        )
                        block_forces(
                            lanes, particles.position, particles.velocity, part.row, particles.force, part.copy_row,
                            ti.static(arrays.features.with_damping),
                        )  # fmt: skip
                wait_for_group(threads, thread)
                for k in range(shares):
                    part = chunk_of(threads, thread, particles, k)
                    row = (current_step - first_step + 1) * (1 - in_place)
                    first_state = first_pair(states, part.world, row, particles)
                    if in_place == 1 and s < num_steps - 1:
                        first_state = -1
                    for p in range(part.first, part.stop):
                        step_particle(
                            particles, arrays, states.pairs, output.fault, part.world, p, part.row, part.row * copies,
                            first_state, current_step, frame, settings,
                        )  # fmt: skip
                    store_rows(output, particles, part, current_step, settings.substeps)
                wait_for_group(threads, thread)


@kernel
def step_lanes_adjoint(
    step: int, num_steps: int, team_size: int, first_step: int, team: Team, states: StoredStates, tets: TetBlocks,
    tet_bars: TetBlockBars, particles: LaneParticles, particle_bars: LaneParticleBars, arrays: DeformableArrays,
    bars: DeformableInputs, settings: StepSettings,
):  # fmt: skip
    """Adjoint of ``step_lanes``, from ``step`` downwards: over particles, then over elements.

    The state before a step is in row ``step - first_step``. Adds to ``tet_bars``, ``particle_bars.motion``, and in
    ``bars`` to the adjoints of contact, loads and prescribed velocities.
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(with_fields(team, size=team_size))):
        threads = with_fields(team, size=team_size)
        if takes_part(threads, index):
            thread, blocks = team_thread(threads, index), tets.corner.shape[0] // (CORNERS * QUADS)
            shares, copies = lane_share(threads, thread.lane, particles.copies), particles.copies
            controls = arrays.solid_actuation.shape[1]
            load_chunks(threads, thread, particles, states, step - first_step + 1)
            for s in range(num_steps):
                current_step, is_frame = step - s, 0
                if (current_step + 1) % settings.substeps == 0:
                    is_frame = 1
                control, frame = actuation_row(arrays, current_step, settings.substeps), current_step // settings.substeps
                for k in range(shares):
                    part = chunk_of(threads, thread, particles, k)
                    first_state = first_pair(states, part.world, current_step - first_step, particles)
                    for p in range(part.first, part.stop):
                        step_particle_adjoint(
                            particles, particle_bars, arrays, bars, states.pairs, part.world, p, part.row, part.row * copies,
                            first_state, frame, is_frame, settings,
                        )  # fmt: skip
                wait_for_group(threads, thread)
                for k in range(shares):
                    part = chunk_of(threads, thread, particles, k)
                    for block in range(blocks * part.chunk // copies, blocks * (part.chunk + 1) // copies):
                        lanes = load_tets(
                            tets, part.world * blocks + block, (part.world * controls + control) * blocks + block, block
                        )
                        block_adjoints(
                            lanes, tet_bars, particles.position, particles.velocity, particle_bars.dual, part.row,
                            particle_bars.position_part, particle_bars.velocity_part, part.copy_row,
                        )  # fmt: skip
                wait_for_group(threads, thread)
