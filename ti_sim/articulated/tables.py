"""Tables of the articulated kernels: the inputs of each world packed in rows, and the scratch memory of a launch.

Kernels traverse a tree link by link and joint velocity by joint velocity, so all numbers of a link (of a velocity) are in one
row. ``pack`` fills the rows, with normalised quaternions and symmetric inertias; ``unpack_adjoint`` is its adjoint.
"""

from typing import Any

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle, kernel
from ti_sim.base.rows import POSE, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti

# Columns of the table of links.
FRAME_POSITION = 0  # 3
FRAME_QUATERNION = 3  # 4, unit
MASS = 7
COM = 8  # 3, centre of mass of the mass in the row
INERTIA = 11  # xx, yy, zz, xy, xz, yz
CONTACT = 17  # 4, contact parameters ke, kd, kf, mu
CENTER = 21  # 3, centre of mass of the link itself: origin of contact points, where wrenches act
BRISTLE = 24  # bristle stiffness kt of the contact
LINK_SIZE = 25

# Columns of the table of joint velocities.
STIFFNESS, REST, DAMPING, ARMATURE, LOW, HIGH, LIMIT_STIFFNESS, GAIN, MOTOR_LIMIT, SERVO_STIFFNESS, SERVO_DAMPING = range(11)
DRY_FRICTION, DRY_STIFFNESS, DRY_DAMPING = range(11, 14)
VELOCITY_SIZE = 14
_VELOCITY_INPUTS = (
    "joint_stiffness", "joint_rest", "joint_damping", "joint_armature", "joint_limit_low", "joint_limit_high",
    "joint_limit_stiffness", "motor_gain", "motor_limit", "servo_stiffness", "servo_damping", "joint_dry_friction",
    "joint_dry_stiffness", "joint_dry_damping",
)  # fmt: skip

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
        point_reach: [N] radius of the ball about the link's centre of mass that contains its contact points [m].
        link: [B, N, LINK_SIZE] rows of the links, see ``pack``.
        velocity: [B, D, VELOCITY_SIZE] rows of the joint velocities.
        action, target, wrench, gravity: the inputs ``action``, ``servo_target``, ``link_wrench`` and ``gravity``.
        work: [B, N, WORK_SIZE] scratch memory of the links.
        velocity_work: [B, D, VELOCITY_WORK_SIZE] scratch memory of the joint velocities.
        shape: [N, SHAPE.size] collision shapes, see ``collision.shape_rows``.
        pair: pairs of shapes that may collide, int32.
        near_pairs: [B, columns] int32, list of near pairs (see ``collision``).
        anchor: [B, N, 3] positions of the shapes when that list was built [m].
        mesh, sample: tables of the shapes that are boxes or meshes, see ``collision.mesh_rows``.
        coupling: [C, 2] int32, coupled joint velocities, see ``joint_coupling``.
        coupling_work: [B, C + 1, D + 1] scratch memory and multipliers of the couplings.
        with_pairs: kinds of pairs in the model, as bits.
        with_meshes: whether any shape is a mesh.
        turning: whether the contact points include rims or patches, which depend on the rotation of the link.
        with_bristles: whether joints have dry friction, whose deflections are D more columns of states (see ``dry_friction``).
        sticking: whether contacts have bristles, which are more columns of states (see ``contact_bristles``).
        with_couplings: whether joints are coupled.
        coordinates: number of joint coordinates Q.
        velocities: number of joint velocities D.
        dt: physics step [s].
        ground: height of the ground [m].
    """

    tree: Array
    axis: Array
    point: Array
    point_reach: Array
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
    near_pairs: Array
    anchor: Array
    mesh: Array
    sample: Array
    coupling: Array
    coupling_work: Array
    with_pairs: Static
    with_meshes: Static
    turning: Static
    with_bristles: Static
    sticking: Static
    with_couplings: Static
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


@bundle
class PackedArrays:
    """Inputs that ``pack`` puts into rows, or their adjoints (see ``ArticulatedInputs``)."""

    joint_frame: Array
    link_mass: Array
    link_com: Array
    link_inertia: Array
    link_contact: Array
    joint_stiffness: Array
    joint_rest: Array
    joint_damping: Array
    joint_armature: Array
    joint_limit_low: Array
    joint_limit_high: Array
    joint_limit_stiffness: Array
    motor_gain: Array
    motor_limit: Array
    servo_stiffness: Array
    servo_damping: Array
    joint_dry_friction: Array
    joint_dry_stiffness: Array
    joint_dry_damping: Array
    link_bristle: Array

    def of_velocities(self, column: int) -> Array:
        """The array in a column of the table of joint velocities."""
        return getattr(self, _VELOCITY_INPUTS[column])


PackedArrays.of_velocities._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@kernel
def pack(inputs: PackedArrays, link: ti.types.ndarray(), velocity: ti.types.ndarray()):
    """Fill the rows of links [B, N, LINK_SIZE] and of joint velocities [B, D, VELOCITY_SIZE] from the inputs.

    Normalises the quaternions of the frames and symmetrises the inertias. Hand-written adjoint: ``unpack_adjoint``.
    """
    for b, i in ti.ndrange(link.shape[0], link.shape[1]):
        store_vec3(link, b, i, FRAME_POSITION, load_vec3(inputs.joint_frame, b, i, POSE.position))
        store_vec4(link, b, i, FRAME_QUATERNION, load_vec4(inputs.joint_frame, b, i, POSE.quaternion).normalized())
        link[b, i, MASS] = inputs.link_mass[b, i]
        store_vec3(link, b, i, COM, load_vec3(inputs.link_com, b, i, 0))
        store_vec3(link, b, i, CENTER, load_vec3(inputs.link_com, b, i, 0))
        for k in ti.static(range(3)):
            link[b, i, INERTIA + k] = inputs.link_inertia[b, i, k, k]
        link[b, i, INERTIA + 3] = 0.5 * (inputs.link_inertia[b, i, 0, 1] + inputs.link_inertia[b, i, 1, 0])
        link[b, i, INERTIA + 4] = 0.5 * (inputs.link_inertia[b, i, 0, 2] + inputs.link_inertia[b, i, 2, 0])
        link[b, i, INERTIA + 5] = 0.5 * (inputs.link_inertia[b, i, 1, 2] + inputs.link_inertia[b, i, 2, 1])
        store_vec4(link, b, i, CONTACT, load_vec4(inputs.link_contact, b, i, 0))
        link[b, i, BRISTLE] = inputs.link_bristle[b, i]
    for b, d in ti.ndrange(inputs.joint_stiffness.shape[0], inputs.joint_stiffness.shape[1]):
        for column in ti.static(range(VELOCITY_SIZE)):
            velocity[b, d, column] = inputs.of_velocities(column)[b, d]


@kernel
def unpack_adjoint(
    link_bar: ti.types.ndarray(), velocity_bar: ti.types.ndarray(), joint_frame: ti.types.ndarray(), bars: PackedArrays
):
    """Adjoint of ``pack``: writes the adjoints of the inputs from those of the rows.

    The adjoints of the unit quaternions in the rows are orthogonal to them (see ``joints.turn_adjoint``), so the adjoints of the
    given quaternions follow by division by their lengths.
    """
    for b, i in ti.ndrange(link_bar.shape[0], link_bar.shape[1]):
        length = load_vec4(joint_frame, b, i, POSE.quaternion).norm()
        for k in ti.static(range(3)):
            bars.joint_frame[b, i, POSE.position + k] = link_bar[b, i, FRAME_POSITION + k]
        for k in ti.static(range(4)):
            bars.joint_frame[b, i, POSE.quaternion + k] = link_bar[b, i, FRAME_QUATERNION + k] / length
        bars.link_mass[b, i] = link_bar[b, i, MASS]
        for k in ti.static(range(3)):
            bars.link_com[b, i, k] = link_bar[b, i, COM + k] + link_bar[b, i, CENTER + k]
            bars.link_inertia[b, i, k, k] = link_bar[b, i, INERTIA + k]
        for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
            half = 0.5 * link_bar[b, i, INERTIA + 3 + k]
            bars.link_inertia[b, i, pair[0], pair[1]] = half
            bars.link_inertia[b, i, pair[1], pair[0]] = half
        for k in ti.static(range(4)):
            bars.link_contact[b, i, k] = link_bar[b, i, CONTACT + k]
        bars.link_bristle[b, i] = link_bar[b, i, BRISTLE]
    for b, d in ti.ndrange(bars.joint_stiffness.shape[0], bars.joint_stiffness.shape[1]):
        for column in ti.static(range(VELOCITY_SIZE)):
            bars.of_velocities(column)[b, d] = velocity_bar[b, d, column]
