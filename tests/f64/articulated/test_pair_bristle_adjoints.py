"""Adjoints of bodies whose contact sticks, against central differences, for every kind of pair and every regime.

The law has kinks where a limit is reached, besides those of the contact itself. The states that a rollout keeps tell in each step
whether a pair touches, and whether its displacement is at its limit: the tests assert that the regimes that they name occur. No
branch may switch within the reach of a difference: ``gradcheck`` fails where the one-sided differences of both sides disagree.
For the balls the numpy stepper gives the least distance of any step from where the second derivative jumps.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.ball_pair import APART, DAMPED, SLIPPING, STICKING, step_balls
from tests.reference.bristle_cases import loads_of_pairs, pinched, touching_pair
from tests.reference.contact_cases import BALL, at, bodies, inputs_of, simulate
from tests.reference.dot_product import dot_product_test
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll

UNITS = {"link_bristle": 1e4}  # N/cm: its derivative is of the size of others
KINDS = [
    ("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule"), ("box", "sphere"), ("capsule", "box"), ("box", "box"),
    ("mesh", "mesh"), ("box", "mesh"), ("sphere", "mesh"),
]  # fmt: skip
FELT = {"joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_com", "link_contact", "link_bristle"}


@pytest.mark.parametrize(("mu", "regime"), [(3.0, "sticking"), (0.1, "slipping")])
@pytest.mark.parametrize("kinds", KINDS)
def test_adjoint_of_every_input_per_kind_of_pair(kinds: tuple[str, str], mu: float, regime: str) -> None:
    """The steps of the differences are so small that no point crosses a cell of a mesh's field, see ``test_mesh_contact``."""
    model, inputs = touching_pair(kinds, mu=mu, kt=4000.0)
    settings = ArticulatedSettings(2e-3, 5)
    loads = loads_of_pairs(model, inputs, simulate(model, inputs, settings.dt, settings.substeps))
    if regime == "slipping":
        assert (loads[:2] < 0.99).any() and (loads > 1 - 1e-9).any()
    else:
        assert (loads[:5] < 0.99).all()
    reacts = check_adjoint(model, inputs, settings, few=8, units=UNITS, rtol=1e-6, order=4, step=2e-6)
    assert reacts >= FELT


def two_balls(seed: int, frames: int, substeps: int) -> tuple[ArticulatedModel, ArticulatedInputs, tuple]:
    """Two balls that hit, and are pressed together again; also the arguments of ``step_balls``."""
    rng, material, kt, dt = np.random.default_rng(seed), (2000.0, 4.0, 6.0, 0.3), 1500.0, 1e-3
    x = np.array([[0.0, 0.0, 0.2005], [0.0, 0.0, 0.0]]) + rng.uniform(-0.02, 0.02, (2, 3))
    v = np.array([[0.05, 0.0, -0.4], [0.0, 0.0, 0.0]]) + rng.uniform(-0.05, 0.05, (2, 3))
    w, push = rng.uniform(-1, 1, (2, 3)), np.array([[0.0, 0.0, -5.0], [0.0, 0.0, 5.0]])
    model = bodies(BALL, BALL)
    inputs = inputs_of(model, at(*x[0]) + at(*x[1]), np.stack([v, w], 1).ravel(), material=material, frames=frames)
    inputs.link_wrench[0, :, :, :3] = push
    return model, replace(inputs, link_bristle=np.full((1, 2), kt)), (x, v, w, 0.1, material, kt, push, dt, frames * substeps)


def change_of_gap(arguments: tuple, which: int, size: float) -> float:
    """Largest change of the gap between the balls in any step [m], by a change of one coordinate of the argument at the start."""
    change, plain = 0.0, step_balls(*arguments)
    for axis in range(3):  # of the first ball: the gap depends on differences
        moved = [array.copy() for array in arguments[:3]]
        moved[which][0, axis] += size
        other = step_balls(*moved, *arguments[3:])
        change = max(change, np.abs(np.subtract(*np.moveaxis(other.x - plain.x, 1, 0))).max())
    return change


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=37), Checkpoint(every=160)], ids=str)
def test_adjoint_through_slipping_sticking_lifting_off_and_touching_again(adjoint: Adjoint) -> None:
    frames, substeps = 4, 80
    model, inputs, arguments = two_balls(9, frames, substeps)
    motion, radius, steps = step_balls(*arguments), arguments[3], {"joint_q0": 2e-6, "joint_frame": 2e-6}
    assert {APART, STICKING, DAMPED, SLIPPING} == set(motion.branch)
    # No jump of the second derivative lies within the reach of two steps of a difference.
    assert radius * motion.margin > max(change_of_gap(arguments, 0, 2 * 2e-6), change_of_gap(arguments, 1, 2 * 1e-5))
    assert np.count_nonzero(np.diff((motion.branch != APART).astype(int)) > 0) >= 2
    # Over so short a step the rounding of the loss, some 1e-14 after 320 steps, is a few 1e-8.
    reacts = check_adjoint(
        model, inputs, ArticulatedSettings(1e-3, substeps), few=6, units=UNITS, rtol=1e-6, order=4, step=1e-5, adjoint=adjoint,
        steps=steps, atol=1e-7,
    )  # fmt: skip
    assert reacts >= FELT - {"joint_frame", "link_com"}


@pytest.mark.parametrize("finger", ["box", "sphere"])
@pytest.mark.parametrize("squeeze", [5.0, 1.0])
def test_adjoint_of_a_pinched_box(finger: str, squeeze: float) -> None:
    """Held beside its centre of mass, and sliding. All corners of the fingers' faces touch, and no faces are exactly parallel.

    A shift of a finger by a micrometre changes the friction limit by half a percent: the steps of positions are shorter.
    """
    model, inputs = pinched(finger, squeeze, frames=3, off=0.004)
    inputs.joint_q0[0, 6:9] = 0.1, 2e-4, 3e-4
    inputs.joint_qd0[0, 4:6] = 0.01, -0.02
    inputs.link_inertia[:] *= 100
    inputs.joint_armature[0, 0] = 0.01
    inputs.joint_stiffness[0, 0], inputs.joint_damping[0, 0] = 50.0, 0.5
    settings = ArticulatedSettings(1e-3, 20)
    loads = loads_of_pairs(model, inputs, simulate(model, inputs, settings.dt, settings.substeps))
    assert (loads > 1 - 1e-9).any() == (squeeze < 2)
    steps = {"joint_q0": 4e-8, "joint_frame": 4e-8}
    reacts = check_adjoint(model, inputs, settings, few=8, units=UNITS, rtol=1e-6, order=4, step=1e-6, steps=steps)
    assert {"joint_q0", "joint_qd0", "action", "motor_gain", "link_mass", "link_contact"} <= reacts
    assert ("link_bristle" in reacts) or squeeze < 2


@pytest.mark.parametrize("every", [1, 7, 30, 100])
def test_checkpoints_keep_the_displacements(every: int) -> None:
    model, inputs = pinched("box", 2.5, frames=3, off=0.004)
    solver, gradients = ArticulatedSolver(model, ArticulatedSettings(1e-3, 20)), []
    for adjoint in (StoreAll(), Checkpoint(every=every)):
        rollout = solver.rollout(inputs, 3, adjoint=adjoint)
        bars = [np.cos(array) for array in rollout.frame_arrays]
        gradients.append(solver.rollout_adjoint(rollout, *bars).named_arrays())
    assert np.abs(gradients[0]["link_bristle"]).max() > 0
    for name, array in gradients[0].items():
        np.testing.assert_allclose(gradients[1][name], array, rtol=1e-12, atol=1e-12, err_msg=name)


def test_reverse_derivatives_are_the_transpose_of_differences_of_the_states() -> None:
    """There is no forward mode: the tangent of all frames is a central difference along a random direction."""
    model, inputs, _arguments = two_balls(4, 4, 80)
    solver = ArticulatedSolver(model, ArticulatedSettings(1e-3, 80))
    names = ("joint_q0", "joint_qd0", "link_contact", "link_mass", "link_wrench")
    point = {name: getattr(inputs, name) for name in names} | {"link_bristle": inputs.link_bristle / 1e4}

    def given(at: dict[str, np.ndarray]) -> ArticulatedInputs:
        return replace(inputs, **at | {"link_bristle": 1e4 * at["link_bristle"]})

    def jvp(at: dict[str, np.ndarray], along: dict[str, np.ndarray]) -> np.ndarray:
        ends = []
        for h in (1e-6, -1e-6):
            moved = {name: at[name] + h * along[name] for name in at}
            ends.append(solver.rollout(given(moved), 4).joint_qd)
        return (ends[0] - ends[1]) / 2e-6

    def vjp(at: dict[str, np.ndarray], w: np.ndarray) -> dict[str, np.ndarray]:
        rollout = solver.rollout(given(at), 4, adjoint=StoreAll())
        zero = [np.zeros_like(array) for array in rollout.frame_arrays]
        bars = solver.rollout_adjoint(rollout, zero[0], w, *zero[2:])
        return {name: getattr(bars, name) * (1e4 if name == "link_bristle" else 1.0) for name in at}

    products = dot_product_test(jvp, vjp, point, (1, 5, 12), rtol=1e-6)
    assert products.ok, products
