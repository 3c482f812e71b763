"""Kernels of implicit steps, in double precision: residual and energy of a stage, element Jacobians, and its adjoint.

They process one world of the states [B, rows, P, 6]. Element loops write to slots of the elements' corners, and particles sum up
their slots in a fixed order.
"""

from ti_sim.base.bundles import Array, Integer, bundle, kernel, with_fields
from ti_sim.base.rows import Row, add_vec4, load_slot_vec3, load_vec3, load_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3
from ti_sim.deformable.corners import PARTICLE, NoBars, jacobian_row, load_dual, load_position, load_velocity, unit_dual
from ti_sim.deformable.element_plan import indexed_element_adjoint, indexed_element_force
from ti_sim.deformable.elements import element_energy, element_force_adjoint
from ti_sim.deformable.families import FAMILIES
from ti_sim.deformable.implicit.ground import ground_bars, ground_law, normal_work
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.model import GROUND_CONTACT, HELD, LOADED, PRESCRIBED, SOLIDS
from ti_sim.deformable.solids import solid_force_jacobian

NO_BARS = NoBars()
GAMMA, GROUND, ONSET, REACH = range(4)  # entries of ``StageArrays.scalars``
HAT = Row(position=3, velocity=3, height_before=1)  # columns of ``StageArrays.hat``
INERTIA, CONTACT, ROUNDING_SCALE = range(3)  # columns of ``StageArrays.energy``


@bundle
class StageArrays:
    """Arrays of the stage that is being solved.

    Attributes:
        scalars: [4] gamma [s], height of the ground [m], onset [m], reach of the contact law (``Stage``) [1].
        hat: [P, 7] x_hat and v_hat of free particles, and their height one step before the end of the stage; of held ones, the
            position at the start of the step and the prescribed velocity.
        reference: [P] heights from which the work of the normal force is counted [m].
        force: [1 or B, slots, 3] forces of the elements on their corners [N].
        elastic: [1 or B, slots, 3] those without damping and air.
        residual: [P, 3] M (v - v_hat) / gamma - f of free particles, zero for held ones [N].
        non_potential: [P, 3] forces of damping, air and friction [N].
        energy: [P, 3] inertia with gravity and loads; normal contact, from the reference heights; scale of the rounding errors of
            both, M |v - v_hat| |v_hat| + f_n |z| [J].
        element_energy: [elements] [J].
        ground_jacobian: [P, 3, 3] derivatives of the ground's force by positions [N/m].
        slot_start: [P + 1] int32, first entry of each particle in ``slot``.
        slot: [slots] int32, slots particle by particle.
        elements: number of elements of all families.
    """

    scalars: Array
    hat: Array
    reference: Array
    force: Array
    elastic: Array
    residual: Array
    non_potential: Array
    energy: Array
    element_energy: Array
    ground_jacobian: Array
    slot_start: Array
    slot: Array
    elements: Integer


@ti.func
def slot_sum(stage: ti.template(), corner_values: ti.template(), b, p, column: ti.template()):
    """Sum of three columns of particle p's slots in corner_values [B, slots, columns]."""
    total = vec3(0.0)
    for entry in range(stage.slot_start[p], stage.slot_start[p + 1]):
        slot = stage.slot[entry]
        total += load_vec3(corner_values, b, slot, column)
    return total


@ti.func
def particle_vec3(array: ti.template(), p, column: ti.template()):
    """3-vector from ``column`` on in row p of a [P, columns] array."""
    return vec3(array[p, column], array[p, column + 1], array[p, column + 2])


@ti.func
def contact_of(arrays: ti.template(), b, p):
    """ke, kd, kf, mu of particle p."""
    return load_vec4(arrays.particle_contact, b, p, 0)


@kernel
def evaluate(
    b: int, row: int, control: int, frame: int,
    states: ti.types.ndarray(),
    arrays: DeformableArrays,
    stage: StageArrays,
):  # fmt: skip
    """Residual, other forces, energies and the ground's Jacobian of world b at the positions in a row of states.

    Reads x of the row, and writes v = (x - x_hat) / gamma of free particles there. Writes ``residual``, ``non_potential``,
    ``energy``, ``element_energy`` and ``ground_jacobian`` of the stage. Adjoint by the implicit function theorem:
    ``stage_adjoint``.
    """
    for p in range(states.shape[2]):
        if arrays.particle_table[p, HELD] == 0:
            for k in ti.static(range(3)):
                displacement = states[b, row, p, PARTICLE.position + k] - stage.hat[p, HAT.position + k]
                states[b, row, p, PARTICLE.velocity + k] = displacement / stage.scalars[GAMMA]
    for i in range(stage.elements):
        arrays_with_slots = with_fields(arrays, gather=True)
        indexed_element_force(arrays_with_slots, states, stage.force, b, row, control, i)
        if ti.static(arrays.features.with_damping or arrays.features.with_air):
            elastic_arrays = with_fields(arrays, gather=True, features=arrays.features.elastic)
            indexed_element_force(elastic_arrays, states, stage.elastic, b, row, control, i)
        first_element = 0
        for family in ti.static(arrays.features.families):
            count = arrays.indices_of(family).shape[0]
            if first_element <= i and i < first_element + count:
                stage.element_energy[i] = element_energy(
                    family, arrays, states, b, row, control, i - first_element, first_element
                )
            first_element += count
    for p in range(states.shape[2]):
        residual, other_force = vec3(0.0), vec3(0.0)
        inertia, contact_energy, rounding_scale = 0.0, 0.0, 0.0
        if arrays.particle_table[p, HELD] == 0:
            gamma, mass = stage.scalars[GAMMA], arrays.particle_mass[b, p]
            x, v = load_position(states, b, row, p), load_velocity(states, b, row, p)
            x_hat = particle_vec3(stage.hat, p, HAT.position)
            v_hat = particle_vec3(stage.hat, p, HAT.velocity)
            force = slot_sum(stage, stage.force, b, p, 0)
            if ti.static(arrays.features.with_damping or arrays.features.with_air):
                other_force = force - slot_sum(stage, stage.elastic, b, p, 0)
            external_force = mass * vec3(arrays.gravity[b, 0], arrays.gravity[b, 1], arrays.gravity[b, 2])
            load_row = arrays.particle_table[p, LOADED]
            if load_row >= 0:
                external_force += load_slot_vec3(arrays.load, b, frame, load_row, 0)
            inertia = 0.5 * mass * (v - v_hat).norm_sqr() - external_force.dot(x - x_hat)
            rounding_scale = mass * (v - v_hat).norm() * v_hat.norm()
            if arrays.particle_table[p, GROUND_CONTACT] == 1:
                ground, onset, previous_height = stage.scalars[GROUND], stage.scalars[ONSET], stage.hat[p, HAT.height_before]
                reach = stage.scalars[REACH]
                material = contact_of(arrays, b, p)
                contact, by_x, _by_x_hat, _normal_by, _friction_by, _tangent, _friction_by_kf_mu = ground_law(
                    x, x_hat, previous_height, ground, gamma, onset, reach, material
                )
                heights = vec3(x.z, x_hat.z, previous_height) - ground
                contact_energy = -normal_work(stage.reference[p] - ground, heights, gamma, onset, reach, material[0], material[1])
                rounding_scale += contact.z * ti.abs(x.z)
                force += contact
                other_force += vec3(contact.x, contact.y, 0.0)
                for i, j in ti.static(ti.ndrange(3, 3)):
                    stage.ground_jacobian[p, i, j] = by_x[i, j]
            residual = mass / gamma * (v - v_hat) - force - external_force
        for k in ti.static(range(3)):
            stage.residual[p, k] = residual[k]
            stage.non_potential[p, k] = other_force[k]
        stage.energy[p, INERTIA], stage.energy[p, CONTACT] = inertia, contact_energy
        stage.energy[p, ROUNDING_SCALE] = rounding_scale


@kernel
def element_jacobians(
    b: int, row: int, control: int,
    states: ti.types.ndarray(), rows: ti.types.ndarray(), stage: StageArrays,
    arrays: DeformableArrays,
):  # fmt: skip
    """Derivatives of the elements' forces by the positions of their corners, with dv/dx = 1 / gamma, at a row of states.

    Each is the explicit adjoint with a unit dual: there is no second formula of any energy or of its differential. Writes
    rows [entries, 3] [N/m]: for element, corner c, axis k and corner a, d f_(c, k) / d x_a.
    """
    for i in range(stage.elements):
        rate = 1 / stage.scalars[GAMMA]
        first, first_row = 0, 0
        for family in ti.static(arrays.features.families):
            nodes = ti.static(FAMILIES[family])
            count = arrays.indices_of(family).shape[0]
            if first <= i and i < first + count:
                e = i - first
                if ti.static(family in SOLIDS):
                    entry = first_row + e * 3 * nodes * nodes
                    solid_force_jacobian(family, arrays, states, rows, b, row, control, e, first, rate, entry)
                else:
                    jacobian_arrays = with_fields(arrays, gather=jacobian_row(rate))
                    for dof in range(3 * nodes):
                        entry = first_row + (e * 3 * nodes + dof) * nodes
                        dual = unit_dual(arrays.indices_of(family)[e, dof // 3], dof % 3)
                        element_force_adjoint(
                            family, jacobian_arrays, NO_BARS, states, dual, rows, b, row, control, e, first, entry - nodes * e
                        )
            first += count
            first_row += 3 * nodes * nodes * count


@kernel
def assemble(
    b: int,
    rows: ti.types.ndarray(), start: ti.types.ndarray(), entry: ti.types.ndarray(), stride: ti.types.ndarray(),
    value_index: ti.types.ndarray(), diagonal: ti.types.ndarray(), mass: ti.types.ndarray(), data: ti.types.ndarray(),
    stage: StageArrays,
):  # fmt: skip
    """Write the Jacobian M / gamma^2 - df/dx - df/dv / gamma of free particles to the entries of a CSR matrix.

    Args:
        b: world.
        rows: result of ``element_jacobians``.
        start: [blocks + 1] int32, first entry of each 3x3 block of the matrix.
        entry, stride: [...] int32, first row in ``rows`` of a contribution, and rows between its axes.
        value_index: [blocks, 2] int32, index in ``data`` of the first number of a block, and numbers between its rows.
        diagonal: [blocks] int32, particle whose diagonal block it is, or -1.
        mass: [B, P] kg.
        data: [entries] of the matrix, all of which are written.
        stage: the stage.
    """
    for block in range(value_index.shape[0]):
        total = mat3(0.0)
        for contribution in range(start[block], start[block + 1]):
            for i, j in ti.static(ti.ndrange(3, 3)):
                total[i, j] -= rows[entry[contribution] + i * stride[contribution], j]
        p = diagonal[block]
        if p >= 0:
            inertia = mass[b, p] / (stage.scalars[GAMMA] * stage.scalars[GAMMA])
            for i, j in ti.static(ti.ndrange(3, 3)):
                total[i, j] -= stage.ground_jacobian[p, i, j]
                if ti.static(i == j):
                    total[i, j] += inertia
        for i, j in ti.static(ti.ndrange(3, 3)):
            data[value_index[block, 0] + i * value_index[block, 1] + j] = total[i, j]


@kernel
def stage_adjoint(
    b: int, row: int, control: int, frame: int,
    states: ti.types.ndarray(), dual: ti.types.ndarray(), corner_bars: ti.types.ndarray(), bar: ti.types.ndarray(),
    hat_bar: ti.types.ndarray(), elapsed: ti.types.ndarray(),
    arrays: DeformableArrays, bars: DeformableInputs, stage: StageArrays,
):  # fmt: skip
    """Adjoint of a stage after its linear solve J^T dual = x_bar + v_bar / gamma, at the converged row of states.

    Adds to ``bars`` (gravity [B, P, 3] by particle, wind [B, T, 3] by triangle).

    Args:
        b, row, control, frame: world, row of the result, control row and frame interval.
        states: [B, rows, P, 6].
        dual: [B, P, 3] multipliers, zero for held particles.
        corner_bars: [B, slots, 6] scratch.
        bar: [P, 6] adjoint of the result.
        hat_bar: [P, 7], receives the adjoint of ``hat`` of free particles, and of the start of the step of held ones.
        elapsed: [1] time from the start of the step to the result [s].
        arrays, bars, stage: arguments, adjoints, and the stage, whose ``hat`` is read.
    """
    for i in range(stage.elements):
        arrays_with_slots = with_fields(arrays, gather=True)
        indexed_element_adjoint(arrays_with_slots, bars, states, dual, corner_bars, b, row, control, i)
    for p in range(states.shape[2]):
        x_bar, v_bar = particle_vec3(bar, p, PARTICLE.position), particle_vec3(bar, p, PARTICLE.velocity)
        fx, fv = slot_sum(stage, corner_bars, b, p, PARTICLE.position), slot_sum(stage, corner_bars, b, p, PARTICLE.velocity)
        x_hat_bar, v_hat_bar, before_bar = vec3(0.0), vec3(0.0), 0.0
        if arrays.particle_table[p, HELD] == 0:
            gamma, mass = stage.scalars[GAMMA], arrays.particle_mass[b, p]
            w = load_dual(dual, b, p)
            x, v = load_position(states, b, row, p), load_velocity(states, b, row, p)
            x_hat = particle_vec3(stage.hat, p, HAT.position)
            v_hat = particle_vec3(stage.hat, p, HAT.velocity)
            x_hat_bar = mass / (gamma * gamma) * w - (v_bar + fv) / gamma
            v_hat_bar = mass / gamma * w
            gravity = vec3(arrays.gravity[b, 0], arrays.gravity[b, 1], arrays.gravity[b, 2])
            bars.particle_mass[b, p] = bars.particle_mass[b, p] - w.dot((v - v_hat) / gamma - gravity)
            load_row = arrays.particle_table[p, LOADED]
            for k in ti.static(range(3)):
                bars.gravity[b, p, k] = bars.gravity[b, p, k] + mass * w[k]
                if load_row >= 0:
                    bars.load[b, frame, load_row, k] = bars.load[b, frame, load_row, k] + w[k]
            if arrays.particle_table[p, GROUND_CONTACT] == 1:
                _force, _by_x, by_x_hat, normal_by, friction_by, tangent, friction_by_kf_mu = ground_law(
                    x, x_hat, stage.hat[p, HAT.height_before], stage.scalars[GROUND], gamma, stage.scalars[ONSET],
                    stage.scalars[REACH], contact_of(arrays, b, p),
                )
                x_hat_bar += by_x_hat.transpose() @ w
                before_bar, contact_bar = ground_bars(normal_by, friction_by, tangent, friction_by_kf_mu, w)
                add_vec4(bars.particle_contact, b, p, 0, contact_bar)
        else:
            x_hat_bar = x_bar + fx
            prescribed_row = arrays.particle_table[p, PRESCRIBED]
            if prescribed_row >= 0:
                for k in ti.static(range(3)):
                    bars.prescribed_qd[b, frame, prescribed_row, k] = (
                        bars.prescribed_qd[b, frame, prescribed_row, k] + v_bar[k] + fv[k] + elapsed[0] * x_hat_bar[k]
                    )
        for k in ti.static(range(3)):
            hat_bar[p, HAT.position + k] = x_hat_bar[k]
            hat_bar[p, HAT.velocity + k] = v_hat_bar[k]
        hat_bar[p, HAT.height_before] = before_bar
