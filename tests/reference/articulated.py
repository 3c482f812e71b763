"""Articulated bodies in dense, plain numpy: what the kernels are compared with.

Nothing here is a recursion over articulated inertias. The columns of every link's Jacobian stand side by side in one matrix,
the mass matrix is the sum of J^T M J over the links, and the equations of motion are those of d'Alembert:

    sum over links of  Jv^T (m a - m g - f)  +  Jw^T (I alpha + w x I w - n)  =  tau - armature qdd,

with Jv, a taken at the link's centre of mass. Forward dynamics solve that linear system for qdd. Everything is float64 and
vectorised over worlds, [B, ...]; joints are as in ``ti_sim.articulated.model``, of which only attributes are read here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.reference.contact_law import friction, normal_force
from tests.reference.numpy_rigid import rotation, unit
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings

COORDINATES = {"fixed": 0, "revolute": 1, "prismatic": 1, "spherical": 4, "free": 7}
VELOCITIES = {"fixed": 0, "revolute": 1, "prismatic": 1, "spherical": 3, "free": 6}
_HAT = np.swapaxes(np.cross(np.eye(3)[:, None], np.eye(3)[None]), 1, 2)  # [k, i, j]: component i of e_k x e_j


# --- quaternions x, y, z, w -----------------------------------------------------------------------------------------


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quaternion products [..., 4]: the turn b, then the turn a."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    return np.concatenate([vector, a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], -1, keepdims=True)], -1)


def about(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Quaternions [..., 4] of turns by angles [...] [rad] about one unit vector [3]."""
    half = np.asarray(angle)[..., None] / 2
    return np.concatenate([np.sin(half) * axis, np.cos(half)], -1)


def rotation_vector(q: np.ndarray) -> np.ndarray:
    """Axis times angle [rad], [..., 3], the shorter way round, of unit quaternions [..., 4]."""
    q = np.where(q[..., 3:] < 0, -q, q)
    sine = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    return q[..., :3] * np.where(sine > 1e-12, 2 * np.arctan2(sine, q[..., 3:]) / np.maximum(sine, 1e-300), 2.0)


def hat(vector: np.ndarray) -> np.ndarray:
    """Matrices [..., 3, 3] whose product with a vector is the cross product of [..., 3] with it."""
    return np.einsum("...k,kij->...ij", vector, _HAT)


# --- kinematics ---------------------------------------------------------------------------------------------------------


def _starts(model: ArticulatedModel, sizes: dict[str, int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([sizes[kind] for kind in model.joint_type], dtype=int)])


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + np.swapaxes(matrix, -1, -2)) / 2


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", matrix, vector)


@dataclass(frozen=True)
class Motion:
    """Every link at one instant, in the world frame.

    Attributes:
        position: [B, N, 3] origins of the link frames, m.
        turn: [B, N, 4] orientations of the link frames, quaternions x, y, z, w.
        rotation: [B, N, 3, 3] the same as matrices.
        linear: [B, N, 3, D] velocity of the origin for a unit of each joint velocity.
        angular: [B, N, 3, D] angular velocity for a unit of each joint velocity.
        drift: [B, N, 3] acceleration of the origin [m/s2] where no joint velocity changes.
        spin_drift: [B, N, 3] angular acceleration [rad/s2] where no joint velocity changes.
    """

    position: np.ndarray
    turn: np.ndarray
    rotation: np.ndarray
    linear: np.ndarray
    angular: np.ndarray
    drift: np.ndarray
    spin_drift: np.ndarray


def motion(model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, joint_qd: np.ndarray) -> Motion:
    """Poses, Jacobians and velocity products of all links, from the root outwards.

    Args:
        model: the tree.
        inputs: joint frames.
        joint_q: [B, Q].
        joint_qd: [B, D].
    """
    q_start, qd_start = _starts(model, COORDINATES), _starts(model, VELOCITIES)
    worlds, links, size = len(joint_q), len(model.joint_type), qd_start[-1]
    p, turn, matrix = np.zeros((worlds, links, 3)), np.zeros((worlds, links, 4)), np.zeros((worlds, links, 3, 3))
    linear, angular = np.zeros((worlds, links, 3, size)), np.zeros((worlds, links, 3, size))
    drift, spin_drift = np.zeros((worlds, links, 3)), np.zeros((worlds, links, 3))
    for i, (kind, parent) in enumerate(zip(model.joint_type, model.link_parent, strict=True)):
        own = slice(qd_start[i], qd_start[i + 1])
        q, qd = joint_q[:, q_start[i] : q_start[i + 1]], joint_qd[:, own]
        frame_p, frame_turn = inputs.joint_frame[:, i, :3], unit(inputs.joint_frame[:, i, 3:])
        spin = np.zeros((worlds, 3))  # of the parent
        if parent >= 0:
            frame_p = p[:, parent] + _times(matrix[:, parent], frame_p)
            frame_turn = product(turn[:, parent], frame_turn)
            spin = _times(angular[:, parent], joint_qd)
        frame = rotation(frame_turn)
        own_axis = np.asarray(model.joint_axis[i], float)
        own_axis = own_axis / np.linalg.norm(own_axis)
        axis = _times(frame, own_axis)

        p[:, i], turn[:, i] = frame_p, frame_turn
        if kind == "revolute":
            turn[:, i] = product(frame_turn, about(own_axis, q[:, 0]))
        elif kind == "prismatic":
            p[:, i] += axis * q
        elif kind == "spherical":
            turn[:, i] = product(frame_turn, unit(q))
        elif kind == "free":
            p[:, i] += _times(frame, q[:, :3])
            turn[:, i] = product(frame_turn, unit(q[:, 3:]))
        matrix[:, i] = rotation(turn[:, i])

        if parent >= 0:
            arm, w = p[:, i] - p[:, parent], hat(spin)
            angular[:, i] = angular[:, parent]
            linear[:, i] = linear[:, parent] - hat(arm) @ angular[:, parent]
            spin_drift[:, i] = spin_drift[:, parent]
            drift[:, i] = drift[:, parent] + _times(hat(spin_drift[:, parent]) + w @ w, arm)
        if kind == "revolute":
            angular[:, i, :, own] += axis[..., None]
            spin_drift[:, i] += _times(hat(spin), axis * qd)
        elif kind == "prismatic":
            linear[:, i, :, own] += axis[..., None]
            drift[:, i] += 2 * _times(hat(spin), axis * qd)
        elif kind == "spherical":
            angular[:, i, :, own] += matrix[:, i]
            spin_drift[:, i] += _times(hat(spin), _times(matrix[:, i], qd))
        elif kind == "free":
            linear[:, i, :, own.start : own.start + 3] += frame
            angular[:, i, :, own.start + 3 : own.stop] += matrix[:, i]
    return Motion(p, turn, matrix, linear, angular, drift, spin_drift)


def forward_kinematics(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, joint_qd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Poses [B, N, 7] (m, quaternion) and velocities [B, N, 6] (of the link frame's origin and angular; world frame)."""
    now = motion(model, inputs, joint_q, joint_qd)
    velocity = np.einsum("bnid,bd->bni", np.concatenate([now.linear, now.angular], 2), joint_qd)
    return np.concatenate([now.position, now.turn], -1), velocity


def _at(now: Motion, link: int, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World position [B, 3] and linear Jacobian [B, 3, D] of points [B, 3] or [3] of a link, given in its frame."""
    arm = _times(now.rotation[:, link], point)
    return now.position[:, link] + arm, now.linear[:, link] - hat(arm) @ now.angular[:, link]


def point_jacobian(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, link: int, point: np.ndarray
) -> np.ndarray:
    """Linear, then angular velocity of a link's point (link frame) for a unit of each joint velocity, [B, 6, D], world frame."""
    now = motion(model, inputs, joint_q, np.zeros((len(joint_q), _starts(model, VELOCITIES)[-1])))
    return np.concatenate([_at(now, link, np.asarray(point, float))[1], now.angular[:, link]], 1)


# --- dynamics -----------------------------------------------------------------------------------------------------------


def contact_force(height: np.ndarray, velocity: np.ndarray, material: np.ndarray, dt: float) -> np.ndarray:
    """Force [B, 3] of the ground on one point of every world; the law of ``tests.reference.numpy_rigid``.

    Args:
        height: [B] of the point above the ground, m.
        velocity: [B, 3] of the point, m/s.
        material: [B, 4] ke, kd, kf, mu.
        dt: step [s] over which the force is averaged; 0 for the continuous law.
    """
    normal, _fraction = normal_force(-height, velocity[:, 2], material[:, 0], material[:, 1], dt)
    drag, _slips = friction(np.hypot(velocity[:, 0], velocity[:, 1]), -height, velocity[:, 2], tuple(material.T), dt)
    return np.stack([-drag * velocity[:, 0], -drag * velocity[:, 1], normal], -1)


def joint_positions(model: ArticulatedModel, joint_q: np.ndarray) -> np.ndarray:
    """[B, D] what springs, limits and servos see: q, a spherical joint's rotation vector, 0 for free joints."""
    q_start, qd_start = _starts(model, COORDINATES), _starts(model, VELOCITIES)
    x = np.zeros((len(joint_q), qd_start[-1]))
    for i, kind in enumerate(model.joint_type):
        q, own = joint_q[:, q_start[i] : q_start[i + 1]], slice(qd_start[i], qd_start[i + 1])
        if kind in ("revolute", "prismatic"):
            x[:, own] = q
        elif kind == "spherical":
            x[:, own] = rotation_vector(unit(q))
    return x


def joint_forces(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, joint_qd: np.ndarray, *, frame: int = 0
) -> np.ndarray:
    """Springs, dampers, limits and motors, [B, D], conjugate to the joint velocities."""
    x = joint_positions(model, joint_q)
    free = np.repeat([kind == "free" for kind in model.joint_type], [VELOCITIES[kind] for kind in model.joint_type])
    scalar = np.repeat(
        [kind in ("revolute", "prismatic") for kind in model.joint_type], [VELOCITIES[kind] for kind in model.joint_type]
    )
    force = -np.where(free, 0.0, inputs.joint_stiffness * (x - inputs.joint_rest)) - inputs.joint_damping * joint_qd

    low, high = inputs.joint_limit_low, inputs.joint_limit_high
    softness = 0.01 * np.where(np.isfinite(high - low), high - low, 1.0)
    for sign, over in ((1.0, low - x), (-1.0, x - high)):
        beyond = scalar & (over > 0)
        over = np.where(beyond, over, 0.0)
        force += sign * inputs.joint_limit_stiffness * np.where(beyond, over**2 / np.where(beyond, over + softness, 1.0), 0.0)

    servo = np.where(free, 0.0, inputs.servo_stiffness * (inputs.servo_target[:, frame] - x))
    motor = inputs.motor_gain * inputs.action[:, frame] + servo - inputs.servo_damping * joint_qd
    return force + np.clip(motor, -inputs.motor_limit, inputs.motor_limit)


def _equation(
    model: ArticulatedModel,
    inputs: ArticulatedInputs,
    joint_q: np.ndarray,
    joint_qd: np.ndarray,
    frame: int,
    dt: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Mass matrix [B, D, D] and all forces less the velocity products [B, D]: M qdd = force."""
    now = motion(model, inputs, joint_q, joint_qd)
    force = joint_forces(model, inputs, joint_q, joint_qd, frame=frame)
    mass = inputs.joint_armature[..., None] * np.eye(force.shape[1])
    for i in range(len(model.joint_type)):
        m, com, turn = inputs.link_mass[:, i, None], inputs.link_com[:, i], now.rotation[:, i]
        inertia = turn @ _symmetric(inputs.link_inertia[:, i]) @ np.swapaxes(turn, 1, 2)
        _, jacobian = _at(now, i, com)
        spinning = now.angular[:, i]
        mass = mass + m[..., None] * np.swapaxes(jacobian, 1, 2) @ jacobian + np.swapaxes(spinning, 1, 2) @ inertia @ spinning

        spin, spin_drift = _times(spinning, joint_qd), now.spin_drift[:, i]
        drift = now.drift[:, i] + _times(hat(spin_drift) + hat(spin) @ hat(spin), _times(turn, com))
        push = m * (inputs.gravity - drift) + inputs.link_wrench[:, frame, i, :3]
        twist = inputs.link_wrench[:, frame, i, 3:] - _times(inertia, spin_drift) - _times(hat(spin) @ inertia, spin)
        force = force + np.einsum("bid,bi->bd", jacobian, push) + np.einsum("bid,bi->bd", spinning, twist)

        for point in model.contact_points[i] if model.contact_points else ():
            place, jacobian = _at(now, i, com + point)
            push = contact_force(place[:, 2] - model.ground_height, _times(jacobian, joint_qd), inputs.link_contact[:, i], dt)
            force = force + np.einsum("bid,bi->bd", jacobian, push)
    return mass, force


def mass_matrix(model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray) -> np.ndarray:
    """[B, D, D], armature included."""
    return _equation(model, inputs, joint_q, np.zeros((len(joint_q), _starts(model, VELOCITIES)[-1])), 0, 0.0)[0]


def forward_dynamics(
    model: ArticulatedModel,
    inputs: ArticulatedInputs,
    joint_q: np.ndarray,
    joint_qd: np.ndarray,
    *,
    frame: int = 0,
    dt: float = 0.0,
) -> np.ndarray:
    """Joint accelerations [B, D] under all forces of a frame; ``dt`` as in ``contact_force``."""
    mass, force = _equation(model, inputs, joint_q, joint_qd, frame, dt)
    return np.linalg.solve(mass, force[..., None])[..., 0]


def inverse_dynamics(
    model: ArticulatedModel,
    inputs: ArticulatedInputs,
    joint_q: np.ndarray,
    joint_qd: np.ndarray,
    joint_qdd: np.ndarray,
    *,
    frame: int = 0,
    dt: float = 0.0,
) -> np.ndarray:
    """Generalised forces [B, D] that have to act beside all modelled ones for the given accelerations."""
    mass, force = _equation(model, inputs, joint_q, joint_qd, frame, dt)
    return _times(mass, joint_qdd) - force


# --- what is conserved --------------------------------------------------------------------------------------------------


def energy(model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, joint_qd: np.ndarray) -> np.ndarray:
    """Kinetic energy, that in the gravity field, and that of the springs of revolute and prismatic joints, [B], J."""
    now = motion(model, inputs, joint_q, joint_qd)
    kinetic = 0.5 * np.einsum("bd,bde,be->b", joint_qd, mass_matrix(model, inputs, joint_q), joint_qd)
    places = np.stack([_at(now, i, inputs.link_com[:, i])[0] for i in range(len(model.joint_type))], 1)
    field = -np.einsum("bn,bni,bi->b", inputs.link_mass, places, inputs.gravity)
    stretch = joint_positions(model, joint_q) - inputs.joint_rest
    return kinetic + field + 0.5 * np.sum(inputs.joint_stiffness * stretch**2, -1)


def momentum(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: np.ndarray, joint_qd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linear [B, 3] (kg m/s) and angular momentum about the world's origin [B, 3] (kg m2/s) of all links."""
    now = motion(model, inputs, joint_q, joint_qd)
    linear, angular = np.zeros((len(joint_q), 3)), np.zeros((len(joint_q), 3))
    for i in range(len(model.joint_type)):
        place, jacobian = _at(now, i, inputs.link_com[:, i])
        turn = now.rotation[:, i]
        inertia = turn @ _symmetric(inputs.link_inertia[:, i]) @ np.swapaxes(turn, 1, 2)
        own = inputs.link_mass[:, i, None] * _times(jacobian, joint_qd)
        linear += own
        angular += _times(hat(place), own) + _times(inertia @ now.angular[:, i], joint_qd)
    return linear, angular


# --- time stepping ------------------------------------------------------------------------------------------------------


def coordinate_rates(model: ArticulatedModel, joint_q: np.ndarray, joint_qd: np.ndarray) -> np.ndarray:
    """d/dt of the coordinates [B, Q]; a quaternion's is q (w, 0) / 2 with the angular velocity w in the child frame."""
    q_start, qd_start = _starts(model, COORDINATES), _starts(model, VELOCITIES)
    rates = np.zeros_like(joint_q)
    for i, kind in enumerate(model.joint_type):
        own, qd = slice(q_start[i], q_start[i + 1]), joint_qd[:, qd_start[i] : qd_start[i + 1]]
        if kind in ("spherical", "free"):
            spin = np.concatenate([qd[:, -3:], np.zeros((len(qd), 1))], -1)
            rates[:, own.stop - 4 : own.stop] = 0.5 * product(joint_q[:, own.stop - 4 : own.stop], spin)
            rates[:, own.start : own.stop - 4] = qd[:, :-3]
        else:
            rates[:, own] = qd
    return rates


def normalised(model: ArticulatedModel, joint_q: np.ndarray) -> np.ndarray:
    """The same coordinates [B, Q] with unit quaternions."""
    joint_q = joint_q.copy()
    for kind, stop in zip(model.joint_type, _starts(model, COORDINATES)[1:], strict=True):
        if kind in ("spherical", "free"):
            joint_q[:, stop - 4 : stop] = unit(joint_q[:, stop - 4 : stop])
    return joint_q


def _turn_alone(
    model: ArticulatedModel, inputs: ArticulatedInputs, i: int, dt: float, old_q: np.ndarray, old_qd: np.ndarray,
    qdd: np.ndarray, joint_q: np.ndarray, joint_qd: np.ndarray,
) -> None:  # fmt: skip
    """Overwrite the step of a link that turns on the world and carries no other: the momentum after the torques of a step turns
    by the implicit midpoint rule about the centre of mass (of a spherical joint: about the joint), by fixed-point iterations."""
    q = slice(_starts(model, COORDINATES)[i + 1] - 4, _starts(model, COORDINATES)[i + 1])
    d = slice(_starts(model, VELOCITIES)[i + 1] - 3, _starts(model, VELOCITIES)[i + 1])
    com, inertia = inputs.link_com[:, i], _symmetric(inputs.link_inertia[:, i])
    if model.joint_type[i] == "spherical":
        inertia = inertia - inputs.link_mass[:, i, None, None] * hat(com) @ hat(com)
    whole = inertia + inputs.joint_armature[:, d, None] * np.eye(3)
    w, torque = old_qd[:, d], _times(whole, qdd[:, d]) + np.cross(old_qd[:, d], _times(inertia, old_qd[:, d]))
    momentum = _times(whole, w) + dt * torque
    after = momentum
    for _ in range(60):
        mean = np.linalg.solve(whole, (momentum + after)[..., None] / 2)[..., 0]
        after = momentum - dt * np.cross(mean, _times(inertia, mean))
    spin = np.concatenate([mean, np.zeros((len(mean), 1))], -1)
    joint_q[:, q] = unit(old_q[:, q] + 0.5 * dt * product(old_q[:, q], spin))
    joint_qd[:, d] = np.linalg.solve(whole, after[..., None])[..., 0]
    if model.joint_type[i] == "free":
        x, v = slice(q.start - 3, q.start), slice(d.start - 3, d.start)
        arm, turning = (_times(rotation(old_q[:, q]), vector) for vector in (com, w))
        pull = qdd[:, v] + np.cross(_times(rotation(old_q[:, q]), qdd[:, d]), arm) + np.cross(turning, np.cross(turning, arm))
        speed = old_qd[:, v] + np.cross(turning, arm) + dt * pull  # of the centre of mass
        end, turning = (_times(rotation(joint_q[:, q]), vector) for vector in (com, joint_qd[:, d]))
        joint_q[:, x] = old_q[:, x] + arm + dt * speed - end
        joint_qd[:, v] = speed - np.cross(turning, end)


def rollout(
    model: ArticulatedModel, settings: ArticulatedSettings, inputs: ArticulatedInputs, frames: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates [B, frames + 1, Q] and velocities [B, frames + 1, D] at the frames, frame 0 the start."""
    dt = settings.dt

    def rates(q: np.ndarray, qd: np.ndarray, frame: int) -> tuple[np.ndarray, np.ndarray]:
        return coordinate_rates(model, q, qd), forward_dynamics(model, inputs, q, qd, frame=frame, dt=dt)

    q, qd = normalised(model, inputs.joint_q0), inputs.joint_qd0
    kept = [(q, qd)]
    for frame in range(frames):
        for _ in range(settings.substeps):
            if settings.integrator == "rk4":
                a = rates(q, qd, frame)
                b = rates(q + dt / 2 * a[0], qd + dt / 2 * a[1], frame)
                c = rates(q + dt / 2 * b[0], qd + dt / 2 * b[1], frame)
                d = rates(q + dt * c[0], qd + dt * c[1], frame)
                q, qd = (s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4) for s, k1, k2, k3, k4 in zip((q, qd), a, b, c, d, strict=True))
            else:
                qdd = forward_dynamics(model, inputs, q, qd, frame=frame, dt=dt)
                before, q, qd = (q, qd), q + dt * coordinate_rates(model, q, qd + dt * qdd), qd + dt * qdd
                for i, kind in enumerate(model.joint_type):
                    if kind in ("spherical", "free") and model.link_parent[i] < 0 and i not in model.link_parent:
                        _turn_alone(model, inputs, i, dt, *before, qdd, q, qd)
            q = normalised(model, q)
        kept.append((q, qd))
    return np.stack([k[0] for k in kept], 1), np.stack([k[1] for k in kept], 1)
