"""Friction that sticks between bodies: a plain numpy stepper, closed forms of boxes that are held or slide, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.ball_pair import APART, DAMPED, SLIPPING, STICKING, step_balls
from tests.reference.bristle_cases import FINGER_SIZE, FINGERS, KT, MASS, MU, loads_of_pairs, pinched
from tests.reference.contact_cases import BALL, FLOOR, at, bodies, inputs_of, simulate
from tests.reference.numpy_rigid import rotation
from tests.reference.rigid_cases import GRAVITY, box_inertia
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, inverse_dynamics
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.contact.collision import CollisionShape

SETTINGS = ArticulatedSettings(1e-4, 1000)  # frames of 0.1 s
WEIGHT = MASS * GRAVITY


def run(
    model: ArticulatedModel, inputs: ArticulatedInputs, frames: int, settings: ArticulatedSettings = SETTINGS
) -> ArticulatedRollout:
    return ArticulatedSolver(model, settings).rollout(inputs, frames)


# -- against plain numpy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 5))
def test_two_balls_move_as_in_plain_numpy(seed: int) -> None:
    """They hit, slip, stick, part, and are pressed together again; all their poses and velocities in every step."""
    rng, material, kt, steps, dt = np.random.default_rng(seed), (2000.0, 4.0, 6.0, 0.3), 1500.0, 400, 1e-3
    x = np.array([[0.0, 0.0, 0.2005], [0.0, 0.0, 0.0]]) + rng.uniform(-0.02, 0.02, (2, 3))
    v = np.array([[0.05, 0.0, -0.4], [0.0, 0.0, 0.0]]) + rng.uniform(-0.05, 0.05, (2, 3))
    w, push = rng.uniform(-1, 1, (2, 3)), np.array([[0.0, 0.0, -5.0], [0.0, 0.0, 5.0]])
    wanted = step_balls(x, v, w, 0.1, material, kt, push, dt, steps)
    model = bodies(BALL, BALL)
    inputs = inputs_of(model, at(*x[0]) + at(*x[1]), np.stack([v, w], 1).ravel(), material=material, frames=steps)
    inputs.link_wrench[0, :, :, :3] = push  # of 1 kg each
    rollout = simulate(model, replace(inputs, link_bristle=np.full((1, 2), kt)), dt, 1)
    touching = wanted.branch != APART
    assert np.count_nonzero(np.diff(touching.astype(int)) > 0) >= 2  # touched again
    assert {APART, STICKING} <= set(wanted.branch) and set(wanted.branch) & {SLIPPING, DAMPED}
    np.testing.assert_allclose(rollout.body_q[0], np.concatenate([wanted.x, wanted.q], -1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd[0], np.concatenate([wanted.v, wanted.w], -1), rtol=0, atol=1e-11)


# -- a box between two fingers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finger", FINGERS)
def test_a_pinched_box_sinks_by_its_weight_over_the_stiffness_and_stays(finger: str) -> None:
    """10^5 steps below the cone; without bristles it sinks with its weight over kf and the number of points."""
    frames = 100
    z = run(*pinched(finger, 5.0, frames=frames), frames).body_q[0, :, 3, 2]
    np.testing.assert_allclose(z[-1], -WEIGHT / (2 * KT), rtol=1e-6)
    assert np.abs(z[10:] - z[-1]).max() < 1e-12
    early = 5
    plain = run(*pinched(finger, 5.0, frames=early, kt=None), early).body_q[0, :, 3, 2]
    points = 8 if finger == "box" else 2
    np.testing.assert_allclose(np.diff(plain)[1:3] / 0.1, -WEIGHT / (20.0 * points), rtol=2e-2)


@pytest.mark.parametrize("finger", FINGERS)
def test_a_box_beyond_the_cone_slides_with_the_friction_of_the_squeeze(finger: str) -> None:
    squeeze = 1.0
    assert 2 * MU * squeeze < WEIGHT
    settings = ArticulatedSettings(1e-4, 50)
    velocity = run(*pinched(finger, squeeze, frames=12), 12, settings).body_qd[0, :, 3, 2]
    np.testing.assert_allclose(np.diff(velocity)[2:] / 5e-3, -(GRAVITY - 2 * MU * squeeze / MASS), rtol=1e-6)


def test_a_box_pinched_beside_its_centre_of_mass_turns_by_its_moment_and_stays() -> None:
    """Two faces resist torsion by kt r^2 each, with the mean square r^2 of their features' distances from the middle.

    Of the half side h these are 2 h^2 for 4 corners, h^2 for 4 edges, 8/9 h^2 for the points inside, of weight 8. Two points
    have no torsion, and the box swings.
    """
    frames, off = 50, 0.005
    box = run(*pinched("box", 5.0, frames=frames, off=off), frames).body_q[0, :, 3]
    turn = WEIGHT * off / (2 * KT * (4 * 2 + 4 * 1 + 8 * 8 / 9) / 16 * FINGER_SIZE**2)
    np.testing.assert_allclose(2 * box[-1, 3], -turn, rtol=2e-3)
    assert np.abs(box[25:] - box[-1]).max() < 1e-12
    plain = run(*pinched("box", 5.0, frames=10, off=off, kt=None), 10).body_q[0, :, 3]
    assert plain[-1, 3] < -0.05  # without bristles it turns on
    swinging = run(*pinched("sphere", 5.0, frames=10, off=off), 10).body_q[0, :, 3]
    assert swinging[:, 3].min() < -0.3


def test_a_hand_that_turns_holds_its_box() -> None:
    """Three turns about the fingers' axis: displacements turn with the links, and gravity changes its direction in the hand.

    The box turns relative to the hand by an error of the steps, 2e-7 in a turn, a quarter of it with half the step.
    """
    frames = 30
    rollout = run(*pinched("box", 8.0, frames=frames, spin=2 * np.pi), frames)
    hand, box = rollout.body_q[0, :, 0], rollout.body_q[0, :, 3]
    place = np.einsum("tji,tj->ti", rotation(hand[:, 3:]), box[:, :3] - hand[:, :3])
    assert np.abs(rotation(hand[:, 3:])[3] - np.eye(3)).max() > 1  # it turns
    turned = np.einsum("tji,tjk->tik", rotation(hand[:, 3:]), rotation(box[:, 3:]))
    once, again = slice(10, 20), slice(20, 30)
    assert np.abs(place[:, 1:]).max() < 1.5 * WEIGHT / (2 * KT)
    np.testing.assert_allclose(place[again], place[once], rtol=0, atol=1e-9)
    np.testing.assert_allclose(turned[again], turned[once], rtol=0, atol=3e-7)


# -- a box on a plate -----------------------------------------------------------------------------------------------------


def on_a_plate(angle: float, *, kf: float = 100.0, kt: float = 4000.0) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A box at rest on a plate that is fixed to the world, and gravity turned by ``angle`` [rad] towards x."""
    half, mass, ke = (0.05, 0.05, 0.03), 0.5, 2000.0
    model = bodies(FLOOR, CollisionShape("box", half), kinds=("fixed", "free"))
    depth = mass * GRAVITY * np.cos(angle) / (4 * ke)
    inputs = inputs_of(model, at(0.1, 0.05, half[2] - depth), np.zeros(6), material=(ke, 10.0, kf, 0.5), frames=100)
    inputs.link_mass[:], inputs.link_inertia[0, 1] = mass, box_inertia(mass, half)
    gravity = GRAVITY * np.array([[np.sin(angle), 0.0, -np.cos(angle)]])
    return model, replace(inputs, gravity=gravity, link_bristle=np.full((1, 2), kt))


def test_a_box_on_a_tilted_plate_does_not_creep() -> None:
    angle = np.radians(20.0)
    model, inputs = on_a_plate(angle)
    body_q = run(model, inputs, 100).body_q[0, :, 1]
    assert np.abs(body_q[50:] - body_q[-1]).max() < 1e-12
    tilt = 2 * np.arcsin(body_q[-1, 4])
    foot = body_q[-1, 0] - 0.1 - 0.03 * np.sin(tilt)
    np.testing.assert_allclose(foot, 0.5 * GRAVITY * np.sin(angle) / 4000.0, rtol=5e-3)
    viscous = replace(inputs, link_bristle=None)
    creeping = run(model, viscous, 100)
    # Its features are not equally deep, so that they have less than four times kf: the slope of the force at the end.
    q, qd = creeping.joint_q[:, -1], creeping.joint_qd[:, -1]
    faster = qd + 1e-6 * np.eye(6)[:1]
    slope = (forward_dynamics(model, viscous, q, qd) - forward_dynamics(model, viscous, q, faster))[0, 0] / 1e-6 * 0.5
    assert 0.95 * 4 * 100.0 < slope < 4 * 100.0
    x = creeping.body_q[0, :, 1, 0]
    np.testing.assert_allclose(x[-1] - x[50], 5.0 * 0.5 * GRAVITY * np.sin(angle) / slope, rtol=1e-4)


def test_a_box_on_a_steep_plate_slides_against_its_friction() -> None:
    angle = np.radians(40.0)
    model, inputs = on_a_plate(angle, kf=5.0)
    velocity = run(model, inputs, 5).body_qd[0, :, 1, 0]
    np.testing.assert_allclose(np.diff(velocity)[1:], 0.1 * GRAVITY * (np.sin(angle) - 0.5 * np.cos(angle)), rtol=1e-4)


# -- special cases --------------------------------------------------------------------------------------------------------


def test_pairs_without_stiffness_move_as_contact_without_bristles() -> None:
    for finger in FINGERS:
        model, inputs = pinched(finger, 5.0, frames=2, off=0.003, kt=0.0)
        zero = run(model, inputs, 2)
        plain = run(model, replace(inputs, link_bristle=None), 2)
        np.testing.assert_allclose(zero.body_q, plain.body_q, rtol=0, atol=1e-13)


def test_a_pair_has_the_mean_stiffness_of_its_links() -> None:
    model, inputs = pinched("box", 5.0, frames=10)
    inputs = replace(inputs, link_bristle=np.array([[0.0, 0.0, 0.0, 2 * KT]]))
    np.testing.assert_allclose(run(model, inputs, 10).body_q[0, -1, 3, 2], -WEIGHT / (2 * KT), rtol=1e-6)


def test_the_displacement_is_zero_when_bodies_touch_again() -> None:
    model, inputs = pinched("box", 5.0, frames=8)
    inputs.action[0, 3:5, 1:3] *= -0.01  # opened while the box is held up from below
    inputs.link_wrench[0, 3:5, 3, 2] = WEIGHT
    inputs = replace(inputs, joint_damping=0.05 * inputs.joint_damping)
    rollout = simulate(model, inputs, 1e-4, 200)
    loads = loads_of_pairs(model, inputs, rollout)
    apart = np.isnan(loads).all(axis=1)
    assert apart.any() and not apart[:500].any() and not np.isnan(loads[-1]).any()
    first, size = model.bristle_columns(inputs)
    assert (rollout.states[0, :-1][apart][:, first + size : first + size + 8] == 0).all()


def test_forward_and_inverse_dynamics_at_bristles_at_rest() -> None:
    model, inputs = pinched("box", 5.0, frames=1, off=0.003)
    inputs.joint_qd0[:] = 0.01 * np.random.default_rng(0).standard_normal(inputs.joint_qd0.shape)
    q, qd = inputs.joint_q0, inputs.joint_qd0
    qdd = forward_dynamics(model, inputs, q, qd, dt=1e-4)
    assert np.abs(inverse_dynamics(model, inputs, q, qd, qdd, dt=1e-4)).max() < 1e-8


def test_what_cannot_have_bristles_is_refused() -> None:
    model, inputs = pinched("box", 5.0, frames=1)
    with pytest.raises(UserError, match="the contact has bristles, and the integrator is 'rk4': bristles need"):
        ArticulatedSolver(model, ArticulatedSettings(1e-3, 10, "rk4")).rollout(inputs, 1)
    with pytest.raises(UserError, match="link_bristle of link 'left' is -1 in world 0"):
        run(model, replace(inputs, link_bristle=np.array([[0.0, -1.0, 0.0, 0.0]])), 1)
