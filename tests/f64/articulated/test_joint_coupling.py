"""Coupled joints: accelerations of the projected equations of motion, adjoints of every input, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.articulated_adjoints import NAMES, check_adjoint
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, inverse_dynamics, mass_matrix
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.rollout.adjoint import Checkpoint

COUPLINGS = ((4, 2, -1.5), (3, 2, 0.4), (5, 1, 2.0))
FRAMES = 2


def tree(couplings: tuple[tuple[int, int, float], ...] = COUPLINGS) -> ArticulatedModel:
    """Hinges and slides on two branches of a ball joint, and a hinge on the world."""
    kinds = ("spherical", "revolute", "revolute", "prismatic", "revolute", "revolute")
    axes = np.array([[0, 0, 1], [1, 2, 0], [0, 1, 0.3], [1, 0, 0.3], [0.2, 1, 0], [0, 1, 1]], dtype=float)
    points = (*[np.zeros((0, 3))] * 4, np.array([[0.1, 0.05, -0.1], [-0.1, 0.02, 0.1]]), np.zeros((0, 3)))
    return ArticulatedModel(tuple("abcdef"), (-1, 0, 1, 0, 2, -1), kinds, axes, points, joint_coupling=couplings)


def inputs_of(model: ArticulatedModel, *, worlds: int) -> ArticulatedInputs:
    """Random numbers with velocities that fit the couplings; the last links are in the ground."""
    rng = np.random.default_rng(5)
    n, q, d, f = model.link_count, model.coordinate_count, model.velocity_count, FRAMES
    normal = lambda scale, *shape: scale * rng.standard_normal((worlds, *shape))  # noqa: E731
    between = lambda low, high, *shape: rng.uniform(low, high, (worlds, *shape))  # noqa: E731
    joint_q0, joint_qd0, frame = normal(0.3, q), normal(1.0, d), normal(0.3, n, 7)
    joint_q0[:, 3] += 1.0
    frame[..., 6] += 1.0
    for (_link, _leader, multiplier), (follower, leader) in zip(model.joint_coupling, model.coupling, strict=True):
        joint_qd0[:, follower] = multiplier * joint_qd0[:, leader]
    half = normal(0.1, n, 3, 3)
    return ArticulatedInputs(
        joint_q0=joint_q0, joint_qd0=joint_qd0, joint_frame=frame, joint_stiffness=between(1, 2, d), joint_rest=normal(0.2, d),
        joint_damping=between(0.1, 0.2, d), joint_armature=between(0, 0.05, d), joint_limit_low=np.full((worlds, d), 0.01),
        joint_limit_high=between(0.02, 0.04, d), joint_limit_stiffness=between(4, 5, d), motor_gain=between(1, 2, d),
        motor_limit=np.full((worlds, d), 50.0), servo_stiffness=between(0.2, 1, d), servo_damping=between(0.02, 0.1, d),
        action=normal(0.7, f, d), servo_target=normal(0.3, f, d), link_mass=between(0.5, 1.5, n), link_com=normal(0.1, n, 3),
        link_inertia=0.02 * np.eye(3) + half @ half.transpose(0, 1, 3, 2),
        link_contact=np.array([200, 5, 3, 0.5]) * between(1, 1.1, n, 4), gravity=np.array([0, 0, -9.81]) + normal(1, 3),
        link_wrench=normal(1.0, f, n, 6),
    )  # fmt: skip


def test_accelerations_solve_the_projected_equations_of_motion() -> None:
    """G^T M G z = G^T M a, with a of the free joints and velocities G z of the coupled ones."""
    model = tree()
    inputs = inputs_of(model, worlds=3)
    rows = (model, inputs, inputs.joint_q0)
    coupled, mass = forward_dynamics(*rows, inputs.joint_qd0), mass_matrix(*rows)
    free = forward_dynamics(tree(()), inputs, inputs.joint_q0, inputs.joint_qd0)
    project = np.eye(model.velocity_count)
    for (_link, _leader, multiplier), (follower, leader) in zip(model.joint_coupling, model.coupling, strict=True):
        project[follower, leader], project[follower, follower] = multiplier, 0.0
    project = project[:, np.setdiff1d(np.arange(model.velocity_count), model.coupling[:, 0])]
    for world in range(3):
        reduced = project.T @ mass[world]
        right = project @ np.linalg.solve(reduced @ project, reduced @ free[world])
        assert np.abs(right - free[world]).max() > 1.0
        np.testing.assert_allclose(coupled[world], right, rtol=1e-10, atol=1e-10)
    forces = inverse_dynamics(*rows, inputs.joint_qd0, coupled)
    assert np.abs(forces).max() > 1.0
    np.testing.assert_allclose(forces @ project, 0.0, atol=1e-10)  # they do no work


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_adjoint_of_every_input_with_coupled_joints(integrator: str) -> None:
    model = tree()
    settings = ArticulatedSettings(5e-3, 4, integrator)
    seen = check_adjoint(model, inputs_of(model, worlds=1), settings, few=8, adjoint=Checkpoint(3))
    assert seen == set(NAMES) - {"motor_limit"}


def test_couplings_hold_over_many_steps() -> None:
    model = tree()
    inputs = inputs_of(model, worlds=2)
    rollout = ArticulatedSolver(model, ArticulatedSettings(1e-3, 250)).rollout(inputs, FRAMES)
    for (_link, _leader, multiplier), (d, e) in zip(model.joint_coupling, model.coupling, strict=True):
        q, qd = rollout.joint_q[:, :, d + 1], rollout.joint_qd  # the quaternion has one number more than its velocity
        np.testing.assert_allclose(qd[..., d], multiplier * qd[..., e], atol=1e-12)
        np.testing.assert_allclose(q - q[:, :1], multiplier * (rollout.joint_q - rollout.joint_q[:, :1])[..., e + 1], atol=1e-12)


@pytest.mark.parametrize(
    ("couplings", "words"),
    [
        (((0, 1, 1.0),), "link 0: couple links that have a revolute or prismatic joint"),
        (((1, 9, 1.0),), "link 9"),
        (((1, 2, 1.0), (1, 3, 1.0)), "'b' is coupled twice"),
        (((1, 2, 1.0), (2, 3, 1.0)), "to a joint that is coupled"),
        (((1, 2, np.nan),), "multiplier nan|finite"),
    ],
    ids=str,
)
def test_wrong_couplings_of_a_model(couplings: tuple, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tree(couplings)


def test_velocities_that_do_not_fit_are_an_error() -> None:
    model = tree()
    inputs = inputs_of(model, worlds=1)
    with pytest.raises(UserError, match="begins with the velocity .* its coupling to that of 'c' makes it"):
        ArticulatedSolver(model, ArticulatedSettings(1e-3, 1)).rollout(replace(inputs, joint_qd0=inputs.joint_qd0 + 0.5), 1)
