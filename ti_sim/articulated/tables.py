"""Tables of the articulated kernels: the inputs of each world packed in rows, and the scratch memory of a launch.

Kernels traverse a tree link by link and joint velocity by joint velocity, so all numbers of a link (of a velocity) are in one
row. ``pack`` fills the rows, with normalised quaternions and symmetric inertias; ``unpack_adjoint`` is its adjoint.
"""

from typing import Any

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4

# Columns of the table of links.
FRAME_POSITION = 0  # 3
FRAME_QUATERNION = 3  # 4, unit
MASS = 7
COM = 8  # 3, centre of mass of the mass in the row
INERTIA = 11  # xx, yy, zz, xy, xz, yz
CONTACT = 17  # 4, contact parameters ke, kd, kf, mu
CENTER = 21  # 3, centre of mass of the link itself: origin of contact points, where wrenches act
LINK_SIZE = 24

# Columns of the table of joint velocities.
STIFFNESS, REST, DAMPING, ARMATURE, LOW, HIGH, LIMIT_STIFFNESS, GAIN, MOTOR_LIMIT, SERVO_STIFFNESS, SERVO_DAMPING = range(11)
VELOCITY_SIZE = 11

# Columns of ``ArticulatedModel.tree``.
PARENT, KIND, FIRST_Q, FIRST_QD, END_QD, MOVES, FIRST_POINT, END_POINT, SPINS_FREELY, MERGED_INTO = range(10)

# Columns of the scratch memory of a link.
QUATERNION = 0  # 4, of the link in the world
SPIN = 4  # 3, angular velocity
ARM = 7  # 3, from the parent's origin to the link's
AXIS = 10  # 3, of the joint, world frame
BIAS = 13  # 6, velocity-dependent acceleration (angular, linear)
BODY = 19  # 21, articulated inertia about the link's origin: angular 6, coupling 9, linear 6
LOAD = 40  # 6, moment about the link's origin and force, without accelerations
ACCELERATION = 46  # 6, angular, and linear of the link's origin relative to free fall
POSITION = 52  # 3, of the link's origin
VELOCITY = 55  # 3, of the link's origin
VIRTUAL = 58  # 6, angular and linear virtual velocity of the link's origin
BARS = 64  # 24: adjoints of rotation, position, angular velocity, velocity, accelerations (2) and virtual velocities (2)
WORK_SIZE = 88

# Columns of the scratch memory of a joint velocity.
COLUMN = 0  # 6, articulated inertia times the velocity's direction
INVERSE = 6  # 1 / D, the inverse inertia at the velocity
DRIVE = 7  # u, the force that accelerates it; in a virtual solve first the right-hand side, then the virtual velocity
VELOCITY_WORK_SIZE = 8


@bundle
class WorldArrays:
    """Arrays of the kernels: tree, inputs and scratch memory.

    Attributes:
        tree: [N, 9] int32, see ``ArticulatedModel.tree``.
        axis: [D, 3] axes of the joints' velocities, see ``ArticulatedModel.axis``.
        point: [P, columns] contact points with the ground, see ``ArticulatedModel.point``.
        link: [B, N, LINK_SIZE] rows of the links, see ``pack``.
        velocity: [B, D, VELOCITY_SIZE] rows of the joint velocities.
        action, target, wrench, gravity: the inputs ``action``, ``servo_target``, ``link_wrench`` and ``gravity``.
        work: [B, N, WORK_SIZE] scratch memory of the links.
        velocity_work: [B, D, VELOCITY_WORK_SIZE] scratch memory of the joint velocities.
        shape: [N, SHAPE_SIZE] collision shapes, see ``collision.shape_rows``.
        pair: pairs of shapes that may collide, int32.
        near: [B, columns] int32, list of near pairs (see ``collision``).
        anchor: [B, N, 3] positions of the shapes when that list was built [m].
        mesh, sample: tables of the shapes that are meshes, see ``collision.mesh_rows``.
        with_pairs: kinds of pairs in the model, as bits.
        with_meshes: whether any shape is a mesh.
        turning: whether the contact points include rims or patches, which depend on the rotation of the link.
        coordinates: number of joint coordinates Q.
        velocities: number of joint velocities D.
        dt: physics step [s].
        ground: height of the ground [m].
    """

    tree: Array
    axis: Array
    point: Array
    link: Array
    velocity: Array
    action: Array
    target: Array
    wrench: Array
    gravity: Array
    work: Array
    velocity_work: Array
    shape: Array
    pair: Array
    near: Array
    anchor: Array
    mesh: Array
    sample: Array
    with_pairs: Static
    with_meshes: Static
    turning: Static
    coordinates: Integer
    velocities: Integer
    dt: Number
    ground: Number

    @property
    def links(self) -> Any:
        """Number of links."""
        return self.tree.shape[0]

    @property
    def pairs(self) -> Any:
        """Number of pairs of shapes."""
        return self.pair.shape[0]


@bundle
class BarArrays:
    """Adjoints that the kernels add to.

    Attributes:
        link, velocity: adjoints of the packed tables, partial sums of the last steps; zeros before a launch.
        action, target, wrench, gravity: adjoints of the inputs in ``WorldArrays``.
        link_total, velocity_total: adjoints of the packed tables, sums over the rollout.
    """

    link: Array
    velocity: Array
    action: Array
    target: Array
    wrench: Array
    gravity: Array
    link_total: Array
    velocity_total: Array



@ti.func
def load_vec3(array: ti.template(), b, i, column: ti.template()):
    """Three numbers of row (b, i) of an array, beginning at a column."""
    return vec3(array[b, i, column], array[b, i, column + 1], array[b, i, column + 2])


@ti.func
def store_vec3(array: ti.template(), b, i, column: ti.template(), value):
    """Write three numbers of row (b, i) of an array, beginning at a column."""
    for k in ti.static(range(3)):
        array[b, i, column + k] = value[k]


@ti.func
def add_vec3(array: ti.template(), b, i, column: ti.template(), value):
    """Add to three numbers of row (b, i) of an array that no other thread writes."""
    for k in ti.static(range(3)):
        array[b, i, column + k] = array[b, i, column + k] + value[k]


@ti.func
def load_vec4(array: ti.template(), b, i, column: ti.template()):
    """Four numbers of row (b, i) of an array, beginning at a column."""
    return vec4(array[b, i, column], array[b, i, column + 1], array[b, i, column + 2], array[b, i, column + 3])


@ti.func
def store_vec4(array: ti.template(), b, i, column: ti.template(), value):
    """Write four numbers of row (b, i) of an array, beginning at a column."""
    for k in ti.static(range(4)):
        array[b, i, column + k] = value[k]


@ti.func
def add_vec4(array: ti.template(), b, i, column: ti.template(), value):
    """Add to four numbers of row (b, i) of an array that no other thread writes."""
    for k in ti.static(range(4)):
        array[b, i, column + k] = array[b, i, column + k] + value[k]


@ti.kernel
def pack(
    joint_frame: ti.types.ndarray(), link_mass: ti.types.ndarray(), link_com: ti.types.ndarray(),
    link_inertia: ti.types.ndarray(), link_contact: ti.types.ndarray(),
    stiffness: ti.types.ndarray(), rest: ti.types.ndarray(), damping: ti.types.ndarray(), armature: ti.types.ndarray(),
    low: ti.types.ndarray(), high: ti.types.ndarray(), limit_stiffness: ti.types.ndarray(), gain: ti.types.ndarray(),
    motor_limit: ti.types.ndarray(), servo_stiffness: ti.types.ndarray(), servo_damping: ti.types.ndarray(),
    link: ti.types.ndarray(), velocity: ti.types.ndarray(),
):  # fmt: skip
    """Fill the rows of links [B, N, LINK_SIZE] and of joint velocities [B, D, VELOCITY_SIZE] from the inputs.

    Normalises the quaternions of the frames and symmetrises the inertias. Hand-written adjoint: ``unpack_adjoint``.
    """
    for b, i in ti.ndrange(link.shape[0], link.shape[1]):
        store_vec3(link, b, i, FRAME_POSITION, load_vec3(joint_frame, b, i, 0))
        store_vec4(link, b, i, FRAME_QUATERNION, load_vec4(joint_frame, b, i, 3).normalized())
        link[b, i, MASS] = link_mass[b, i]
        store_vec3(link, b, i, COM, load_vec3(link_com, b, i, 0))
        store_vec3(link, b, i, CENTER, load_vec3(link_com, b, i, 0))
        for k in ti.static(range(3)):
            link[b, i, INERTIA + k] = link_inertia[b, i, k, k]
        link[b, i, INERTIA + 3] = 0.5 * (link_inertia[b, i, 0, 1] + link_inertia[b, i, 1, 0])
        link[b, i, INERTIA + 4] = 0.5 * (link_inertia[b, i, 0, 2] + link_inertia[b, i, 2, 0])
        link[b, i, INERTIA + 5] = 0.5 * (link_inertia[b, i, 1, 2] + link_inertia[b, i, 2, 1])
        store_vec4(link, b, i, CONTACT, load_vec4(link_contact, b, i, 0))
    for b, d in ti.ndrange(stiffness.shape[0], stiffness.shape[1]):
        velocity[b, d, STIFFNESS] = stiffness[b, d]
        velocity[b, d, REST] = rest[b, d]
        velocity[b, d, DAMPING] = damping[b, d]
        velocity[b, d, ARMATURE] = armature[b, d]
        velocity[b, d, LOW] = low[b, d]
        velocity[b, d, HIGH] = high[b, d]
        velocity[b, d, LIMIT_STIFFNESS] = limit_stiffness[b, d]
        velocity[b, d, GAIN] = gain[b, d]
        velocity[b, d, MOTOR_LIMIT] = motor_limit[b, d]
        velocity[b, d, SERVO_STIFFNESS] = servo_stiffness[b, d]
        velocity[b, d, SERVO_DAMPING] = servo_damping[b, d]


@ti.kernel
def unpack_adjoint(
    link_bar: ti.types.ndarray(), velocity_bar: ti.types.ndarray(), joint_frame: ti.types.ndarray(),
    joint_frame_bar: ti.types.ndarray(), link_mass_bar: ti.types.ndarray(), link_com_bar: ti.types.ndarray(),
    link_inertia_bar: ti.types.ndarray(), link_contact_bar: ti.types.ndarray(),
    stiffness_bar: ti.types.ndarray(), rest_bar: ti.types.ndarray(), damping_bar: ti.types.ndarray(),
    armature_bar: ti.types.ndarray(), low_bar: ti.types.ndarray(), high_bar: ti.types.ndarray(),
    limit_stiffness_bar: ti.types.ndarray(), gain_bar: ti.types.ndarray(), motor_limit_bar: ti.types.ndarray(),
    servo_stiffness_bar: ti.types.ndarray(), servo_damping_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``pack``: writes the adjoints of the inputs from those of the rows.

    The adjoints of the unit quaternions in the rows are orthogonal to them (see ``joints.turn_adjoint``), so the adjoints of the
    given quaternions follow by division by their lengths.
    """
    for b, i in ti.ndrange(link_bar.shape[0], link_bar.shape[1]):
        length = load_vec4(joint_frame, b, i, 3).norm()
        for k in ti.static(range(3)):
            joint_frame_bar[b, i, k] = link_bar[b, i, FRAME_POSITION + k]
        for k in ti.static(range(4)):
            joint_frame_bar[b, i, 3 + k] = link_bar[b, i, FRAME_QUATERNION + k] / length
        link_mass_bar[b, i] = link_bar[b, i, MASS]
        for k in ti.static(range(3)):
            link_com_bar[b, i, k] = link_bar[b, i, COM + k] + link_bar[b, i, CENTER + k]
            link_inertia_bar[b, i, k, k] = link_bar[b, i, INERTIA + k]
        for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
            half = 0.5 * link_bar[b, i, INERTIA + 3 + k]
            link_inertia_bar[b, i, pair[0], pair[1]] = half
            link_inertia_bar[b, i, pair[1], pair[0]] = half
        for k in ti.static(range(4)):
            link_contact_bar[b, i, k] = link_bar[b, i, CONTACT + k]
    for b, d in ti.ndrange(stiffness_bar.shape[0], stiffness_bar.shape[1]):
        stiffness_bar[b, d] = velocity_bar[b, d, STIFFNESS]
        rest_bar[b, d] = velocity_bar[b, d, REST]
        damping_bar[b, d] = velocity_bar[b, d, DAMPING]
        armature_bar[b, d] = velocity_bar[b, d, ARMATURE]
        low_bar[b, d] = velocity_bar[b, d, LOW]
        high_bar[b, d] = velocity_bar[b, d, HIGH]
        limit_stiffness_bar[b, d] = velocity_bar[b, d, LIMIT_STIFFNESS]
        gain_bar[b, d] = velocity_bar[b, d, GAIN]
        motor_limit_bar[b, d] = velocity_bar[b, d, MOTOR_LIMIT]
        servo_stiffness_bar[b, d] = velocity_bar[b, d, SERVO_STIFFNESS]
        servo_damping_bar[b, d] = velocity_bar[b, d, SERVO_DAMPING]
