"""Adjoints of every input of the articulated solver against central differences, per joint type, and the errors of bad input.

The loss is a random linear functional of all frames: joint coordinates and velocities, poses and velocities of the links.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.articulated_adjoints import NAMES, check_adjoint
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, forward_kinematics, inverse_dynamics, mass_matrix, point_jacobian
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

FRAMES, SUBSTEPS, DT = 2, 6, 5e-3
POINTS = np.array([[0.1, 0.05, -0.1], [-0.1, 0.02, 0.1]])
# What no frame depends on, by regime: springs beyond limits and contact that do not act, motors that do not reach their clamp.
LIMITS = {"joint_limit_low", "joint_limit_high", "joint_limit_stiffness"}
UNUSED = {"free flight": LIMITS | {"link_contact", "motor_limit"}, "held": set()}


def chain(kind: str) -> ArticulatedModel:
    """A joint of the type on the world (a fixed one on a revolute one), and a revolute joint on it."""
    parents, kinds = ((-1, 0), (kind, "revolute")) if kind != "fixed" else ((-1, 0, 1), ("revolute", "fixed", "revolute"))
    n = len(parents)
    axes = np.array([[0.0, 0.6, 0.8], [1.0, 0.0, 0.3], [0.2, 1.0, 0.0]])[:n]
    points = (*[np.zeros((0, 3))] * (n - 1), POINTS)
    return ArticulatedModel(tuple(f"link {i}" for i in range(n)), parents, kinds, axes, points)


def tree() -> ArticulatedModel:
    """Every joint type, two trees, a branching link."""
    kinds = ("fixed", "spherical", "revolute", "prismatic", "revolute", "free", "fixed")
    axes = np.array([[0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0.3], [1, 2, 0], [0, 0, 0], [0, 0, 0]], dtype=float)
    points = tuple(POINTS if i in (4, 6) else np.zeros((0, 3)) for i in range(7))
    return ArticulatedModel(tuple("abcdefg"), (-1, 0, 1, 2, 1, -1, 5), kinds, axes, points)


def inputs_of(model: ArticulatedModel, *, worlds: int, held: bool, seed: int) -> ArticulatedInputs:
    """Random numbers; ``held``: out of limits, motors clamped, points below the ground; else none of these."""
    rng = np.random.default_rng(seed)
    n, q, d, f = model.link_count, model.coordinate_count, model.velocity_count, FRAMES
    normal = lambda scale, *shape: scale * rng.standard_normal((worlds, *shape))  # noqa: E731
    between = lambda low, high, *shape: rng.uniform(low, high, (worlds, *shape))  # noqa: E731
    joint_q0 = normal(0.3, q)
    for i, kind in enumerate(model.joint_type):
        if kind in ("spherical", "free"):
            joint_q0[:, model.q_start[i + 1] - 1] += 1.0
    frame = normal(0.3, n, 7)
    frame[..., 6] += 1.0
    roots = [i for i in range(n) if model.link_parent[i] < 0]
    frame[:, roots, 2] += -0.6 if held else 5.0  # deep in the ground, or far above it
    half = normal(0.1, n, 3, 3)
    inertia = 0.02 * np.eye(3) + half @ half.transpose(0, 1, 3, 2) + normal(0.003, n, 3, 3)
    limit = np.where(np.arange(d) % 2 == 1, 0.05, 50.0) * between(1, 1.1, d)  # every second motor is clamped
    return ArticulatedInputs(
        joint_q0=joint_q0, joint_qd0=normal(1.0, d), joint_frame=frame, joint_stiffness=between(1, 2, d),
        joint_rest=normal(0.2, d), joint_damping=between(0.1, 0.2, d), joint_armature=between(0, 0.05, d),
        joint_limit_low=np.full((worlds, d), 0.01 if held else -9.0),
        joint_limit_high=between(0.02, 0.04, d) + (0 if held else 9),
        joint_limit_stiffness=between(4, 5, d), motor_gain=between(1, 2, d),
        motor_limit=limit if held else np.full((worlds, d), np.inf), servo_stiffness=between(0.2, 1, d),
        servo_damping=between(0.02, 0.1, d), action=normal(0.7, f, d), servo_target=normal(0.3, f, d),
        link_mass=between(0.5, 1.5, n), link_com=normal(0.1, n, 3), link_inertia=inertia,
        link_contact=np.array([200, 5, 3, 0.5]) * between(1, 1.1, n, 4), gravity=np.array([0, 0, -9.81]) + normal(1, 3),
        link_wrench=normal(1.0, f, n, 6),
    )  # fmt: skip


@pytest.mark.parametrize("regime", UNUSED)
@pytest.mark.parametrize("kind", ["fixed", "revolute", "prismatic", "spherical", "free"])
def test_adjoint_of_every_input_per_joint_type(kind: str, regime: str) -> None:
    model = chain(kind)
    inputs = inputs_of(model, worlds=1, held=regime == "held", seed=7)
    assert check_adjoint(model, inputs, ArticulatedSettings(DT, SUBSTEPS), few=14) == set(NAMES) - UNUSED[regime]


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_adjoint_of_every_input_of_a_tree(integrator: str) -> None:
    model = tree()
    assert check_adjoint(
        model, inputs_of(model, worlds=2, held=True, seed=7), ArticulatedSettings(DT, SUBSTEPS, integrator), few=24
    ) == set(NAMES)


@pytest.mark.parametrize("every", [1, 3, 5, 100])
@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_checkpoints_give_the_gradient_of_all_states(integrator: str, every: int) -> None:
    model = tree()
    inputs = inputs_of(model, worlds=3, held=True, seed=7)
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, SUBSTEPS, integrator))
    gradients = []
    for adjoint in (StoreAll(), Checkpoint(every=every)):
        rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
        seeds = [np.cos(array) for array in (rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd)]
        gradients.append(solver.rollout_adjoint(rollout, *seeds).arrays())
    for all_states, checkpoints in zip(*gradients, strict=True):
        assert np.abs(all_states).max() > 0
        np.testing.assert_allclose(checkpoints, all_states, rtol=1e-12, atol=1e-12)


def test_dynamics_of_an_instant_agree_with_each_other() -> None:
    model = tree()
    inputs = inputs_of(model, worlds=2, held=True, seed=9)
    q, qd = inputs.joint_q0, inputs.joint_qd0
    qdd = forward_dynamics(model, inputs, q, qd, frame=1)
    assert np.abs(inverse_dynamics(model, inputs, q, qd, qdd, frame=1)).max() < 1e-9
    mass = mass_matrix(model, inputs, q)
    np.testing.assert_allclose(mass, mass.transpose(0, 2, 1), atol=1e-12)
    at_rest = inverse_dynamics(model, inputs, q, qd, np.zeros_like(qdd), frame=1)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", mass, qdd), -at_rest, rtol=1e-9, atol=1e-9)
    body_q, body_qd = forward_kinematics(model, inputs, q, qd)
    for link in range(model.link_count):
        columns = point_jacobian(model, inputs, q, link, np.zeros(3))
        np.testing.assert_allclose(np.einsum("bij,bj->bi", columns, qd), body_qd[:, link], atol=1e-12)
    assert body_q.shape == (2, 7, 7)


def test_a_world_that_diverges_is_marked_and_leaves_the_others_alone() -> None:
    model = chain("revolute")
    inputs = inputs_of(model, worlds=2, held=False, seed=3)
    alone = ArticulatedInputs(*(array[:1] for array in inputs.arrays()))
    inputs.joint_qd0[1, 1] = 1e17
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, SUBSTEPS))
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    assert rollout.diverged_step[0] == -1 and rollout.diverged_step[1] > 0
    assert np.isnan(rollout.body_q[1, -1]).all()
    np.testing.assert_array_equal(rollout.body_q[0], solver.rollout(alone, FRAMES).body_q[0])
    seeds = [np.ones_like(array) for array in (rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd)]
    bars = solver.rollout_adjoint(rollout, *seeds)
    assert np.isfinite(bars.joint_qd0[0]).all() and np.isnan(bars.joint_qd0[1]).all()
    solver.check_divergence(rollout)
    wild = ArticulatedInputs(*(array[1:] for array in inputs.arrays()))
    with pytest.raises(DivergenceError, match="link .* stopped being finite at step"):
        solver.check_divergence(solver.rollout(wild, FRAMES))


def named(name: str, value: object) -> tuple:
    """Arguments of a model of two links with one of them replaced."""
    good = {"names": ("a", "b"), "parents": (-1, 0), "kinds": ("revolute", "revolute"), "axes": np.eye(3)[:2]}
    return tuple((good | {name: value}).values())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("parents", (1, -1), "does not come before it.*closes a loop"),
        ("parents", (-1, 2), "there are links 0 to 1"),
        ("kinds", ("revolute", "screw"), "unknown type 'screw': choose one of fixed, revolute, prismatic, spherical, free"),
        ("kinds", ("revolute", "free"), "only links without a parent can have free joints"),
        ("axes", np.zeros((2, 3)), "joint of link 'a' has no axis"),
    ],
)
def test_models_that_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ArticulatedModel(*named(name, value))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("joint_limit_low", 1e3, "limits of the joint of 'link 0' are reversed"),
        ("action", np.nan, "action of the joint of 'link 0' in frame 0 of world 0 is not finite"),
        ("link_mass", None, "'link 0' moves no mass"),
    ],
)
def test_numbers_that_are_refused(name: str, value: float | None, message: str) -> None:
    model = chain("revolute")
    inputs = inputs_of(model, worlds=1, held=False, seed=3)
    if value is None:
        zero = {key: 0 * getattr(inputs, key) for key in ("link_mass", "link_inertia", "joint_armature")}
        inputs = replace(inputs, **zero)
    else:
        inputs = replace(inputs, **{name: np.full_like(getattr(inputs, name), value)})
    with pytest.raises(UserError, match=message):
        ArticulatedSolver(model, ArticulatedSettings(DT, SUBSTEPS)).rollout(inputs, FRAMES)


def test_frames_and_shapes_that_do_not_fit_are_refused() -> None:
    model = chain("revolute")
    inputs = inputs_of(model, worlds=1, held=False, seed=3)
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, SUBSTEPS))
    with pytest.raises(UserError, match="frames=3, and there are actions for 2 frame intervals"):
        solver.rollout(inputs, 3)
    with pytest.raises(UserError, match=r"action has shape \(1, 2, 1\), and \(1, 2, 2\) is needed"):
        solver.rollout(replace(inputs, action=inputs.action[:, :, :1].copy()), FRAMES)
    with pytest.raises(UserError, match="kept no states"):
        solver.rollout_adjoint(solver.rollout(inputs, FRAMES), *[np.zeros(1)] * 4)
