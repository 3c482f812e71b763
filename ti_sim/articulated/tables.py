"""Tables of the articulated kernels: the inputs of each world packed in rows, and the scratch memory of a launch.

Kernels traverse a tree link by link and joint velocity by joint velocity, so all numbers of a link (of a velocity) are in one
row. ``pack`` fills the rows, with normalised quaternions and symmetric inertias; ``unpack_adjoint`` is its adjoint.
"""

from typing import Any

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle, kernel
from ti_sim.base.rows import POSE, Row, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti

# Columns of the table of links. ``com`` is the centre of mass of the mass in the row, and ``center`` that of the link itself: the
# origin of contact points, where wrenches act. ``inertia``: xx, yy, zz, xy, xz, yz; ``contact``: ke, kd, kf, mu; ``bristle``: kt.
LINK = Row(frame_position=3, frame_quaternion=4, mass=1, com=3, inertia=6, contact=4, center=3, bristle=1)

# Columns of the table of joint velocities, and the inputs in them.
JOINT = Row(
    stiffness=1, rest=1, damping=1, armature=1, low=1, high=1, limit_stiffness=1, gain=1, motor_limit=1, servo_stiffness=1,
    servo_damping=1, dry_friction=1, dry_stiffness=1, dry_damping=1,
)  # fmt: skip
_JOINT_INPUTS = (
    "joint_stiffness", "joint_rest", "joint_damping", "joint_armature", "joint_limit_low", "joint_limit_high",
    "joint_limit_stiffness", "motor_gain", "motor_limit", "servo_stiffness", "servo_damping", "joint_dry_friction",
    "joint_dry_stiffness", "joint_dry_damping",
)  # fmt: skip

# Columns of ``ArticulatedModel.tree``.
TREE = Row(
    parent=1, kind=1, first_q=1, first_qd=1, end_qd=1, moves=1, first_point=1, end_point=1, spins_freely=1, merged_into=1
)  # fmt: skip

WORK = Row(  # columns of the scratch memory of a link
    quaternion=4,  # of the link in the world
    spin=3,  # angular velocity
    arm=3,  # from the parent's origin to the link's
    axis=3,  # of the joint, world frame
    bias=6,  # velocity-dependent acceleration (angular, linear)
    articulated_inertia=21,  # about the link's origin: angular 6, coupling 9, linear 6
    load=6,  # moment about the link's origin and force, without accelerations
    acceleration=6,  # angular, and linear of the link's origin relative to free fall
    position=3,  # of the link's origin
    velocity=3,  # of the link's origin
    virtual=6,  # angular and linear virtual velocity of the link's origin
    bars=24,  # adjoints of rotation, position, angular velocity, velocity, accelerations (2) and virtual velocities (2)
)

JOINT_WORK = Row(  # columns of the scratch memory of a joint velocity
    inertia_column=6,  # articulated inertia times the velocity's direction
    inverse_inertia=1,  # 1 / D, the inverse inertia at the velocity
    solution=1,  # of the joint-space solve: first the right-hand side (u, a force), then the acceleration or virtual velocity
)


@bundle
class WorldArrays:
    """Arrays of the kernels: tree, inputs and scratch memory.

    Attributes:
        tree: [N, 10] int32, see ``ArticulatedModel.tree``.
        axis: [N, 3] unit axes of the joints, see ``ArticulatedModel.axis``.
        point: [P, columns] contact points with the ground, see ``ArticulatedModel.point``.
        point_reach: [N] radius of the ball about the link's centre of mass that contains its contact points [m].
        link: [B, N, LINK.size] rows of the links, see ``pack``.
        velocity: [B, D, JOINT.size] rows of the joint velocities.
        action, target, wrench, gravity: the inputs ``action``, ``servo_target``, ``link_wrench`` and ``gravity``.
        work: [B, N, WORK.size] scratch memory of the links; for a team of threads it has more rows (see
            ``link_team.work_rows``).
        velocity_work: [B, D, JOINT_WORK.size] scratch memory of the joint velocities.
        shape: [N, SHAPE.size] collision shapes, see ``collision.shape_rows``.
        pair: pairs of shapes that may collide, int32.
        near_pairs: [B, columns] int32, list of near pairs (see ``collision``).
        anchor: [B, N, 3] positions of the shapes when that list was built [m].
        mesh, mesh_data: tables of the shapes that are boxes or meshes, and their coefficients and features, see
            ``collision.mesh_rows``.
        coupling: [C, 2] int32, coupled joint velocities, see ``joint_coupling``.
        coupling_work: [B, C + 1, D + 1] scratch memory and multipliers of the couplings.
        with_pairs: kinds of pairs in the model, as bits.
        with_meshes: whether any shape is a mesh.
        has_rims_or_patches: whether the contact points include rims or patches, which depend on the rotation of the link.
        with_dry_friction: whether joints have dry friction, whose deflections are D columns of states (see ``dry_friction``).
        with_contact_bristles: whether contacts have bristles, which add columns to states (see ``contact_bristles``).
        with_couplings: whether joints are coupled.
        coordinates: number of joint coordinates Q.
        velocities: number of joint velocities D.
        dt: physics step [s].
        ground: height of the ground [m].
        kind, team, lane: kind of the team of threads that share a world, its ``LinkTeam``, and number of the thread in it (see
            ``link_team``); kernels with one thread per world leave them out.
        pair_index, pair_first: pair of links and its first link, whose contacts a lane of a team computes.
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
    mesh_data: Array
    coupling: Array
    coupling_work: Array
    with_pairs: Static
    with_meshes: Static
    has_rims_or_patches: Static
    with_dry_friction: Static
    with_contact_bristles: Static
    with_couplings: Static
    coordinates: Integer
    velocities: Integer
    dt: Number
    ground: Number
    kind: Any = "single"
    team: Any = None
    lane: Any = 0
    pair_index: Any = 0
    pair_first: Any = 0

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

    def joint_input(self, column: int) -> Array:
        """The input, or its adjoint, in a column of the table of joint velocities."""
        return getattr(self, _JOINT_INPUTS[column])


PackedArrays.joint_input._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@kernel
def pack(inputs: PackedArrays, link: ti.types.ndarray(), velocity: ti.types.ndarray()):
    """Fill the rows of links [B, N, LINK.size] and of joint velocities [B, D, JOINT.size] from the inputs.

    Normalises the quaternions of the frames and symmetrises the inertias. Hand-written adjoint: ``unpack_adjoint``.
    """
    for b, i in ti.ndrange(link.shape[0], link.shape[1]):
        store_vec3(link, b, i, LINK.frame_position, load_vec3(inputs.joint_frame, b, i, POSE.position))
        store_vec4(link, b, i, LINK.frame_quaternion, load_vec4(inputs.joint_frame, b, i, POSE.quaternion).normalized())
        link[b, i, LINK.mass] = inputs.link_mass[b, i]
        store_vec3(link, b, i, LINK.com, load_vec3(inputs.link_com, b, i, 0))
        store_vec3(link, b, i, LINK.center, load_vec3(inputs.link_com, b, i, 0))
        for k in ti.static(range(3)):
            link[b, i, LINK.inertia + k] = inputs.link_inertia[b, i, k, k]
        link[b, i, LINK.inertia + 3] = 0.5 * (inputs.link_inertia[b, i, 0, 1] + inputs.link_inertia[b, i, 1, 0])
        link[b, i, LINK.inertia + 4] = 0.5 * (inputs.link_inertia[b, i, 0, 2] + inputs.link_inertia[b, i, 2, 0])
        link[b, i, LINK.inertia + 5] = 0.5 * (inputs.link_inertia[b, i, 1, 2] + inputs.link_inertia[b, i, 2, 1])
        store_vec4(link, b, i, LINK.contact, load_vec4(inputs.link_contact, b, i, 0))
        link[b, i, LINK.bristle] = inputs.link_bristle[b, i]
    for b, d in ti.ndrange(inputs.joint_stiffness.shape[0], inputs.joint_stiffness.shape[1]):
        for column in ti.static(range(JOINT.size)):
            velocity[b, d, column] = inputs.joint_input(column)[b, d]


@kernel
def unpack_adjoint(
    link_bar: ti.types.ndarray(), velocity_bar: ti.types.ndarray(), joint_frame: ti.types.ndarray(), bars: PackedArrays
):
    """Adjoint of ``pack``: writes the adjoints of the inputs from those of the rows.

    The adjoints of the unit quaternions in the rows are orthogonal to them (see ``joints.quaternion_adjoint``), so the adjoints
    of the quaternions in ``joint_frame`` follow by division by their lengths.
    """
    for b, i in ti.ndrange(link_bar.shape[0], link_bar.shape[1]):
        length = load_vec4(joint_frame, b, i, POSE.quaternion).norm()
        for k in ti.static(range(3)):
            bars.joint_frame[b, i, POSE.position + k] = link_bar[b, i, LINK.frame_position + k]
        for k in ti.static(range(4)):
            bars.joint_frame[b, i, POSE.quaternion + k] = link_bar[b, i, LINK.frame_quaternion + k] / length
        bars.link_mass[b, i] = link_bar[b, i, LINK.mass]
        for k in ti.static(range(3)):
            bars.link_com[b, i, k] = link_bar[b, i, LINK.com + k] + link_bar[b, i, LINK.center + k]
            bars.link_inertia[b, i, k, k] = link_bar[b, i, LINK.inertia + k]
        for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
            half = 0.5 * link_bar[b, i, LINK.inertia + 3 + k]
            bars.link_inertia[b, i, pair[0], pair[1]] = half
            bars.link_inertia[b, i, pair[1], pair[0]] = half
        for k in ti.static(range(4)):
            bars.link_contact[b, i, k] = link_bar[b, i, LINK.contact + k]
        bars.link_bristle[b, i] = link_bar[b, i, LINK.bristle]
    for b, d in ti.ndrange(bars.joint_stiffness.shape[0], bars.joint_stiffness.shape[1]):
        for column in ti.static(range(JOINT.size)):
            bars.joint_input(column)[b, d] = velocity_bar[b, d, column]
