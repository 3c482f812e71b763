"""Restitution of the contact law: closed forms, their limits and inverse, and impacts in the rigid solver."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from risp_torch import Contact, Scene, Start
from tests.reference.rigid_cases import GRAVITY, box_inertia
from ti_sim import Sphere, UserError, contact_time, damping_for_restitution, effective_mass, restitution
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver

STIFFNESS, MASS, SPEED = 1e5, 0.4, 0.7


def bounce(ratio: float, *, steps: int, arm: tuple = (0.0, 0.0, 0.0), inertia: float | np.ndarray = 1e-3) -> float:
    """Speed of the contact point after the impact relative to that before it, with this many steps in an undamped impact."""
    turning = inertia if np.ndim(inertia) else inertia * np.eye(3)
    mass = float(effective_mass(MASS, turning, arm, (0.0, 0.0, 1.0)))
    damping, dt = 2 * ratio * np.sqrt(STIFFNESS * mass), np.pi * np.sqrt(mass / STIFFNESS) / steps
    nothing = np.zeros((1, 1, 3))
    model = RigidModel(("ball",), (np.array([arm], float),))
    start = 0.3 * SPEED * dt - arm[2]  # not on the ground exactly
    inputs = RigidInputs(
        np.array([[[0.0, 0.0, start, 0.0, 0.0, 0.0, 1.0]]]), np.array([[[0.0, 0.0, -SPEED, 0.0, 0.0, 0.0]]]), np.array([[MASS]]),
        turning[None, None], np.array([[[STIFFNESS, damping, 0.0, 0.0]]]), np.zeros((1, 3)), nothing, nothing,
    )  # fmt: skip
    rollout = RigidSolver(model, RigidSettings(dt, 2 * steps)).rollout(inputs, 1)
    v, w = rollout.body_qd[0, -1, 0, :3], rollout.body_qd[0, -1, 0, 3:]
    return float((v + np.cross(w, arm))[2] / SPEED)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.99995, 1.0, 1.5, 5.0])
def test_closed_form_is_the_solution_of_the_differential_equation(ratio: float) -> None:
    def unloaded(t: float, y: np.ndarray) -> float:
        return y[0] + 2 * ratio * y[1] if t > 1e-9 else 1.0

    unloaded.terminal, unloaded.direction = True, -1
    path = solve_ivp(
        lambda t, y: [y[1], -y[0] - 2 * ratio * y[1]], (0.0, 50.0), [0.0, 1.0], events=unloaded, rtol=1e-12, atol=1e-14
    )
    damping = 2 * ratio * np.sqrt(STIFFNESS * MASS)
    assert restitution(STIFFNESS, damping, MASS) == pytest.approx(-path.y[1, -1], rel=1e-8)
    assert contact_time(STIFFNESS, damping, MASS) == pytest.approx(path.t[-1] * np.sqrt(MASS / STIFFNESS), rel=1e-8)


def test_limits() -> None:
    assert restitution(STIFFNESS, 0.0, MASS) == 1.0
    assert contact_time(STIFFNESS, 0.0, MASS) == pytest.approx(np.pi * np.sqrt(MASS / STIFFNESS), rel=1e-14)
    critical = 2 * np.sqrt(STIFFNESS * MASS)
    assert restitution(STIFFNESS, critical, MASS) == pytest.approx(np.exp(-2.0), rel=1e-14)
    assert restitution(STIFFNESS, 1e4 * critical, MASS) == pytest.approx(1 / (4 * 1e8), rel=1e-6)
    ratios = np.array([1e-3, 0.5, 1 - 1e-4, 1 - 0.99e-4, 1.0, 1 + 0.99e-4, 1 + 1e-4, 2.0, 10.0])
    e = restitution(STIFFNESS, ratios * critical, MASS)
    assert e.shape == ratios.shape and (np.diff(e) < 0).all()
    assert np.abs(np.diff(e[2:7])).max() < 2e-5  # no jump at the series


def test_damping_is_the_inverse() -> None:
    e = np.array([1.0, 1 - 1e-12, 0.999, 0.8, 0.5, np.exp(-2.0), 0.1, 1e-3, 1e-9])[:, None]
    mass = np.array([1e-3, 2.0])
    damping = damping_for_restitution(STIFFNESS, e, mass)
    assert damping.shape == (9, 2) and (damping[0] == 0).all()
    np.testing.assert_allclose(restitution(STIFFNESS, damping, mass), np.broadcast_to(e, (9, 2)), rtol=1e-12)
    np.testing.assert_allclose(damping[1] / (2 * np.sqrt(STIFFNESS * mass)), 1e-12 / np.pi, rtol=1e-3)


@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.3, 1.0, 2.0])
def test_a_ball_rebounds_with_it_and_the_error_is_of_the_order_of_the_step(ratio: float) -> None:
    wanted = float(restitution(STIFFNESS, 2 * ratio * np.sqrt(STIFFNESS * MASS), MASS))
    errors = [abs(bounce(ratio, steps=steps) / wanted - 1) for steps in (100, 400, 1600, 6400)]
    assert errors[-1] < (0.01 if ratio <= 1 else 0.02)
    assert ratio == 0.0 or errors[-1] < 0.35 * errors[-2] < 0.35 * 0.5 * errors[0]


def test_a_corner_rebounds_as_its_effective_mass() -> None:
    """The arm turns little during the impact of a stiff contact."""
    inertia, arm = box_inertia(MASS, (0.05, 0.03, 0.02)), (0.05, 0.03, -0.02)
    inverse = np.linalg.inv(inertia)
    lever = np.cross(arm, (0.0, 0.0, 1.0))
    assert effective_mass(MASS, inertia, arm, (0, 0, 2.0)) == pytest.approx(1 / (1 / MASS + lever @ inverse @ lever), rel=1e-14)
    assert effective_mass(MASS, inertia, (0.0, 0.0, -1.0), (0, 0, 1)) == pytest.approx(MASS, rel=1e-14)
    mass = float(effective_mass(MASS, inertia, arm, (0.0, 0.0, 1.0)))
    wanted = float(restitution(STIFFNESS, 0.6 * np.sqrt(STIFFNESS * mass), mass))
    assert bounce(0.3, steps=6400, arm=arm, inertia=inertia) == pytest.approx(wanted, rel=0.02)


def apex_after_impact(ke: float, kd: float, mass: float, speed: float) -> float:
    """Height [m] that a mass reaches after an impact under its weight, in closed form until the force is zero."""
    rate, damped = kd / (2 * mass), np.sqrt(ke / mass - (kd / (2 * mass)) ** 2)
    deep, t = -mass * GRAVITY / ke, np.linspace(0.0, np.pi / damped, 1000001)[1:]
    sine, cosine, decay = np.sin(damped * t), np.cos(damped * t), np.exp(-rate * t)
    b = (-speed - rate * deep) / damped
    z = deep + decay * (-deep * cosine + b * sine)
    v = decay * ((rate * deep + damped * b) * cosine + (damped * deep - rate * b) * sine)
    end = int(np.argmax(-ke * z - kd * v < 0))
    return float(z[end] + v[end] ** 2 / (2 * GRAVITY))


@pytest.mark.parametrize("wanted", [0.9, 0.5, 0.2])
def test_a_ball_of_a_scene_bounces_to_the_square_of_the_restitution(wanted: float) -> None:
    contact = Contact.of_restitution(stiffness=2e5, restitution=wanted, mass=0.2, friction_stiffness=0.0, friction=0.3)
    assert contact.per == "point" and contact.stiffness == 2e5
    scene = Scene(frame_dt=1e-3, frames=700, substeps=100)
    scene.add_ground(contact=contact)
    scene.add_rigid("ball", shape=Sphere(radius=0.05), mass=0.2, start=Start(position=(0.0, 0.0, 0.55)))
    height = scene.rollout().body_q[0, :, 0, 2].cpu().numpy()
    first = int(np.argmin(height))
    again = first + int(np.argmax(np.diff(height[first:]) < 0)) + 1
    apex = apex_after_impact(contact.stiffness, contact.damping, 0.2, np.sqrt(2 * GRAVITY * 0.5))
    # Contact ends below the ground. The weight acts during contact, and takes nothing from an elastic impact.
    leaving = wanted * np.sqrt(2 * GRAVITY * 0.5)
    deep = contact.damping * leaving / contact.stiffness
    weight = GRAVITY * float(contact_time(contact.stiffness, contact.damping, 0.2)) / leaving
    assert 0 < 1 - apex / (0.5 * wanted**2) < deep / (0.5 * wanted**2) + (1 - wanted) * weight
    assert height[first:again].max() - 0.05 == pytest.approx(apex, rel=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: restitution(-1.0, 1.0, 1.0), "stiffness is -1.0: give finite numbers above zero"),
        (lambda: restitution(1.0, -1.0, 1.0), "damping is -1.0: give finite numbers that are not negative"),
        (lambda: damping_for_restitution(1.0, 0.0, 1.0), "restitution is 0.0: give numbers above 0 and at most 1"),
        (lambda: contact_time(1.0, 0.0, np.nan), "mass is nan"),
        (lambda: effective_mass(1.0, np.eye(3), (0, 0, 1), (0, 0, 0)), "the normal is zero"),
        (
            lambda: Contact.of_restitution(stiffness=1.0, restitution=1.5, mass=1.0, friction_stiffness=0.0, friction=0.0),
            "restitution is 1.5",
        ),
    ],
)
def test_numbers_that_are_refused(call, words: str) -> None:
    with pytest.raises(UserError, match=words):
        call()
