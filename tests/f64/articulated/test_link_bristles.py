"""Bristles of contact points of links with the ground: against the plain numpy stepper of rigid bodies, rest, and adjoints.

A free link with contact points is a rigid body: the numpy stepper of rigid bodies gives its motion and what each point does in
each step, and the tests assert that the regimes that they name occur. No branch may switch within the reach of a difference:
``gradcheck`` fails where the one-sided differences of both sides disagree.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.articulated_robots import Link, Robot
from tests.reference.contact_cases import inputs_of
from tests.reference.numpy_rigid import rotation
from tests.reference.rigid_cases import GRAVITY, PAIR_MODEL, box_inertia, box_points, pair
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.rigid.model import RigidInputs, RigidSettings
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll

DT, SUBSTEPS, FRAMES = 5e-4, 7, 6
KT = {"sliding": 3e3, "sticking": 800.0, "resting": 800.0, "impact": 1.5e4}
UNITS = {"link_bristle": 1e4}


def rigid_case(regime: str, b: int) -> RigidInputs:
    """One world of the two bodies of the rigid tests, with bristles and without applied forces."""
    base = pair(regime, seed=10 if regime == "impact" else 3)
    one = replace(base, **{name: array[b : b + 1].copy() for name, array in base.named_arrays().items()})
    kt = KT[regime] * np.random.default_rng(11).uniform(0.9, 1.1, base.body_mass.shape)
    return replace(one, body_force=0 * one.body_force, body_bristle=kt[b : b + 1].copy())


def as_links(given: RigidInputs) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """The same bodies as free links."""
    model = ArticulatedModel(
        PAIR_MODEL.body_names, (-1, -1), ("free", "free"), np.ones((2, 3)), PAIR_MODEL.contact_points, PAIR_MODEL.ground_height
    )
    velocity = given.body_qd0[0].copy()
    turn = rotation(given.body_q0[0, :, 3:] / np.linalg.norm(given.body_q0[0, :, 3:], axis=1, keepdims=True))
    velocity[:, 3:] = np.einsum("nji,nj->ni", turn, velocity[:, 3:])
    inputs = inputs_of(model, given.body_q0, velocity, material=(0, 0, 0, 0), frames=FRAMES)
    return model, replace(
        inputs, link_mass=given.body_mass, link_inertia=given.body_inertia, link_contact=given.body_contact,
        gravity=given.gravity, link_bristle=given.body_bristle,
    )  # fmt: skip


@pytest.mark.parametrize("regime", KT)
def test_free_links_move_as_rigid_bodies(regime: str) -> None:
    for b in range(3):
        given = rigid_case(regime, b)
        wanted = numpy_rigid.rollout(replace(PAIR_MODEL, has_bristles=True), RigidSettings(DT, SUBSTEPS), given, FRAMES)
        rollout = ArticulatedSolver(as_links(given)[0], ArticulatedSettings(DT, SUBSTEPS)).rollout(as_links(given)[1], FRAMES)
        np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-9)


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=9)], ids=str)
@pytest.mark.parametrize("regime", KT)
def test_adjoint_of_every_input(regime: str, adjoint: Adjoint) -> None:
    given = rigid_case(regime, 2)
    pattern = numpy_rigid.rollout(replace(PAIR_MODEL, has_bristles=True), RigidSettings(DT, SUBSTEPS), given, FRAMES).pattern
    wanted = {
        "sliding": {numpy_rigid.SLIPPED_AND_SLIDING}, "sticking": {numpy_rigid.STICKING}, "resting": {numpy_rigid.STICKING},
        "impact": {numpy_rigid.APART, numpy_rigid.UNLOADED, numpy_rigid.SLIPPED_AND_SLIDING},
    }  # fmt: skip
    assert wanted[regime] <= set(np.unique(pattern))
    model, inputs = as_links(given)
    reacts = check_adjoint(
        model, inputs, ArticulatedSettings(DT, SUBSTEPS), few=8, units=UNITS, rtol=1e-6, atol=3e-7, order=4, step=1e-6,
        steps={"gravity": 1e-5, "joint_q0": 1e-7, "joint_frame": 1e-7, "link_com": 1e-7, "joint_armature": 1e-6,
               "link_inertia": 1e-8}, adjoint=adjoint,
    )  # fmt: skip
    felt = {"link_bristle"} if regime in ("sticking", "impact") else set()  # a steady slide and rest do not feel its stiffness
    assert felt | {"link_contact", "joint_q0", "joint_qd0", "link_mass", "gravity"} <= reacts


def skid(angle: float, kt: float | None) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A block of a trolley that hangs on a vertical rail above it and drags over the ground, gravity turned towards x."""
    half, mass, ke = (0.05, 0.05, 0.03), 0.5, 2000.0
    depth = mass * GRAVITY * np.cos(angle) / (4 * ke)
    gravity = GRAVITY * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    trolley = Link(-1, "prismatic", (1.0, 0.0, 0.0), (0.0, 0.0, half[2] - depth), mass=1e-3)
    block = Link(0, "prismatic", (0.0, 0.0, 1.0), mass=mass, inertia=box_inertia(mass, half), points=box_points(half))
    robot = Robot((trolley, block), tuple(gravity))
    inputs = robot.inputs(frames=50)
    inputs.link_contact[0, 1] = 2000.0, 10.0, 25.0, 0.5
    return robot.model(), inputs if kt is None else replace(inputs, link_bristle=np.array([[0.0, kt]]))


def test_a_link_on_the_ground_does_not_creep() -> None:
    """5 10^4 steps at 20 degrees: it moves by what four bristles give, and stays; without them it creeps."""
    angle, settings = np.radians(20.0), ArticulatedSettings(1e-4, 1000)
    model, inputs = skid(angle, 1000.0)
    x = ArticulatedSolver(model, settings).rollout(inputs, 50).joint_q[0, :, 0]
    pull = 0.501 * GRAVITY * np.sin(angle)
    np.testing.assert_allclose(x[-1], pull / (4 * 1000.0), rtol=1e-6)
    assert np.abs(x[25:] - x[-1]).max() < 1e-12
    model, inputs = skid(angle, None)
    plain = ArticulatedSolver(model, settings).rollout(inputs, 50).joint_q[0, :, 0]
    np.testing.assert_allclose(plain[-1] - plain[25], 2.5 * pull / (4 * 25.0), rtol=1e-2)


def test_a_link_slides_above_the_cone() -> None:
    angle = np.radians(40.0)
    model, inputs = skid(angle, 1000.0)
    rate = ArticulatedSolver(model, ArticulatedSettings(1e-4, 1000)).rollout(inputs, 10).joint_qd[0, :, 0]
    wanted = GRAVITY * (np.sin(angle) - 0.5 * np.cos(angle) * 0.5 / 0.501)
    np.testing.assert_allclose(np.diff(rate)[3:] / 0.1, wanted, rtol=1e-4)


def test_links_without_stiffness_move_as_without_bristles() -> None:
    model, inputs = skid(0.3, None)
    settings = ArticulatedSettings(1e-4, 100)
    plain = ArticulatedSolver(model, settings).rollout(inputs, 5)
    zero = ArticulatedSolver(model, settings).rollout(replace(inputs, link_bristle=np.zeros((1, 2))), 5)
    np.testing.assert_allclose(zero.joint_q, plain.joint_q, rtol=0, atol=1e-14)
