"""The contact law at its one-sided points, by itself and in every solver that has it: mu 0, f_n 0, speed 0, and all of them.

There is one law, ``ti_sim.contact.law``, in all solvers. Where mu f_n = 0 there is no friction at any speed, so that its slope
is 0 at rest too; where mu f_n > 0 the slope at rest is kf.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.reference import contact_law
from tests.reference.contact_cases import at, bodies, frames_of, inputs_of
from tests.reference.deformable_cases import inputs_for
from tests.reference.rigid_cases import one_body, stacked
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.contact.collision import CollisionShape
from ti_sim.contact.law import contact_force_adjoint, contact_force_along, contact_force_along_adjoint
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

STEP = 1e-3  # that the law takes into account [s]
NAMES = ("height", "u_x", "u_y", "u_z", "ke", "kd", "kf", "mu")


@ti.kernel
def law_adjoints(
    numbers: ti.types.ndarray(), force_bar: ti.types.ndarray(), bars: ti.types.ndarray(), turned_bars: ti.types.ndarray(),
    forces: ti.types.ndarray(), forces_beside_adjoints: ti.types.ndarray(), ground_forces: ti.types.ndarray(), dt: float,
):  # fmt: skip
    """Adjoints [M, 8] of rows of ``NAMES`` by the law for the ground and by that for any surface, and their forces [M, 3]."""
    for m in range(numbers.shape[0]):
        u = vec3(numbers[m, 1], numbers[m, 2], numbers[m, 3])
        f_bar = vec3(force_bar[m, 0], force_bar[m, 1], force_bar[m, 2])
        ke, kd, kf, mu = numbers[m, 4], numbers[m, 5], numbers[m, 6], numbers[m, 7]
        ground_force, height_bar, u_bar, material_bar = contact_force_adjoint(numbers[m, 0], u, ke, kd, kf, mu, dt, f_bar)
        up = vec3(0.0, 0.0, 1.0)
        force, _path = contact_force_along(up, numbers[m, 0], u, ke, kd, kf, mu, dt)
        same_force, _up_bar, gap_bar, v_bar, other_bar = contact_force_along_adjoint(
            up, numbers[m, 0], u, ke, kd, kf, mu, dt, f_bar, vec3(0.0)
        )
        bars[m, 0], turned_bars[m, 0] = height_bar, gap_bar
        for k in ti.static(range(3)):
            forces[m, k], forces_beside_adjoints[m, k], ground_forces[m, k] = force[k], same_force[k], ground_force[k]
            bars[m, 1 + k], turned_bars[m, 1 + k] = u_bar[k], v_bar[k]
        for k in ti.static(range(4)):
            bars[m, 4 + k], turned_bars[m, 4 + k] = material_bar[k], other_bar[k]


def law(numbers: np.ndarray) -> np.ndarray:
    """Forces [..., 3] of rows of ``NAMES``, from the equation alone."""
    height, x, y, z, ke, kd, kf, mu = np.moveaxis(numbers, -1, 0)
    normal, _fraction = contact_law.normal_force(-height, z, ke, kd, STEP)
    drag, _slips = contact_law.friction(np.hypot(x, y), -height, z, (ke, kd, kf, mu), STEP)
    return np.stack([-drag * x, -drag * y, normal], -1)


def one_sided_points() -> dict[str, np.ndarray]:
    """Rows of ``NAMES``: mu, kf, speed and f_n at zero and above, all combinations; f_n is zero in every way that it can be."""
    pressed = {
        "deep": (-1e-2, -0.2, 500.0, 3.0), "for most of the step": (-2e-3, -5.0, 500.0, 3.0),
        "for less of the step": (3e-3, -5.0, 500.0, 3.0), "leaving": (-1e-2, 1.65, 500.0, 3.0),
        "leaving without damper": (1e-3, 2.0, 500.0, 0.0),
    }  # fmt: skip
    unloaded = {
        "at the surface": (0.0, 0.0, 500.0, 3.0), "at the surface but for rounding": (-2.2e-16, 0.0, 500.0, 3.0),
        "no stiffness": (-1e-2, 0.0, 0.0, 0.0), "no stiffness, opening": (-1e-2, 0.3, 0.0, 0.0),
        "no stiffness, closing": (-1e-2, -0.3, 0.0, 0.0), "opening fast": (-1e-2, 2.0, 500.0, 3.0),
        "no stiffness, at the onset": (1e-3, -5.0, 0.0, 0.0), "above the onset": (3.01e-3, -3.0, 500.0, 3.0),
    }  # fmt: skip
    rows = {}
    for (state, (height, z, ke, kd)), mu, kf, speed in product((pressed | unloaded).items(), (0, 0.4), (0, 6), (0, 0.05, 8)):
        rows[f"{state}, mu {mu}, kf {kf}, speed {speed}"] = (height, 0.6 * speed, -0.8 * speed, z, ke, kd, kf, mu)
    return {name: np.array(row, dtype=float) for name, row in rows.items()}


def one_sided_derivatives(row: np.ndarray) -> np.ndarray:
    """Derivatives [8, 3] of the forces by second-order differences from above.

    Numbers that are never negative go up, and a point that rests on the surface, to where it feels nothing; one that is on it but
    for rounding is on it. Other velocities may go either way: where its differences do, the point is no point for this table.
    """
    row, result, h = np.where(np.abs(row) < 1e-12, 0.0, row), [], 1e-7
    for k, name in enumerate(NAMES):
        ahead = [law(row + n * h * np.eye(8)[k]) for n in (1, 2)]
        right = (4 * ahead[0] - ahead[1] - 3 * law(row)) / (2 * h)
        back = [law(row - n * h * np.eye(8)[k]) for n in (1, 2)]
        left = -(4 * back[0] - back[1] - 3 * law(row)) / (2 * h)
        if name[0] == "u" and (row[0] or row[3]) and not np.allclose(left, right, rtol=1e-5, atol=1e-5):
            raise AssertionError(f"a kink in {name} at {row}: choose another point")
        result.append(right)
    return np.array(result)


def test_adjoint_of_the_law_at_all_its_one_sided_points() -> None:
    points = one_sided_points()
    numbers = np.array(list(points.values()))
    draw = np.random.default_rng(0)
    weight, wanted = draw.normal(size=(len(numbers), 3)), np.array([one_sided_derivatives(row) for row in numbers])
    bars, turned, forces, same_forces, ground_forces = (np.zeros(x.shape) for x in (numbers, numbers, *[weight] * 3))
    law_adjoints(numbers, weight, bars, turned, forces, same_forces, ground_forces, STEP)
    np.testing.assert_allclose(forces, law(numbers), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(same_forces, forces, rtol=1e-14, atol=0)
    np.testing.assert_allclose(ground_forces, law(numbers), rtol=1e-9, atol=1e-11)
    for m, name in enumerate(points):
        for found in (bars, turned):
            np.testing.assert_allclose(found[m], wanted[m] @ weight[m], rtol=1e-5, atol=1e-5, err_msg=name)


# --- every solver: a point that slides, or rests, for a while -----------------------------------------------------------------

DT, STEPS, MASS, KE, KF, DEPTH = 1e-3, 200, 0.5, 500.0, 0.9, 1e-3
CASES = list(product((0.0, 0.4), (0.0, KE * DEPTH / MASS), (0.0, 2.0)))  # mu, gravity, speed along x


def wanted_slopes(integrator: str) -> np.ndarray:
    """Derivatives [cases] of the last place along x in the first velocity along x: kf slows what sticks alone."""
    rows = []
    for mu, gravity, speed in CASES:
        sticks = mu > 0 and gravity > 0 and speed == 0
        matrix = np.array([[0.0, 1.0], [0.0, -KF / MASS if sticks else 0.0]])
        power = np.linalg.matrix_power
        if integrator == "rk4":
            step = sum(power(DT * matrix, n) / (1, 1, 2, 6, 24)[n] for n in range(5))
        else:
            v = 1 + DT * matrix[1, 1]
            step = np.array([[1.0, DT * v], [0.0, v]])
        rows.append(power(step, STEPS)[0, 1])
    return np.array(rows)


def seeds(shape: tuple[int, ...], where: tuple, axis: int) -> np.ndarray:
    """Adjoints of frames: 1 for a place along an axis."""
    bar = np.zeros(shape)
    bar[(..., *where, axis)] = 1
    return bar


def rigid(integrator: str, plan: str) -> np.ndarray:
    """A body with one contact point: derivatives [cases, 2] of its last place along x and y in its first velocity along them."""
    worlds = [
        one_body(
            np.zeros((1, 3)), mass=MASS, position=(0, 0, -DEPTH if g else -2.2e-16), velocity=(speed, 0, 0), ke=KE, kd=1.0, kf=KF,
            mu=mu, gravity=g,
        )
        for mu, g, speed in CASES
    ]  # fmt: skip
    solver = RigidSolver(worlds[0][0], RigidSettings(dt=DT, substeps=STEPS, integrator=integrator, plan=plan))
    rollout = solver.rollout(stacked([inputs for _model, inputs in worlds]), 1, adjoint=StoreAll())
    none = np.zeros_like(rollout.body_qd)
    return np.stack([
        solver.rollout_adjoint(rollout, seeds(rollout.body_q.shape, (-1, 0), axis), none).body_qd0[:, 0, axis] for axis in (0, 1)
    ], -1)  # fmt: skip


def joined(worlds: list) -> object:
    """Inputs of one world each as the worlds of one."""
    return type(worlds[0])(*(np.concatenate(arrays) for arrays in zip(*(w.arrays() for w in worlds), strict=True)))


def on_ground(mu: float, gravity: float, speed: float) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A free link with one contact point."""
    model = ArticulatedModel(("link",), (-1,), ("free",), np.ones((1, 3)), contact_points=(np.zeros((1, 3)),))
    q = at(0, 0, -DEPTH if gravity else -2.2e-16)
    return model, inputs_of(model, q, [speed, 0, 0, 0, 0, 0], material=(KE, 1.0, KF, mu), gravity=gravity)


def on_box(mu: float, gravity: float, speed: float) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A ball that nothing turns, on a fixed box."""
    model = bodies(
        CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("sphere", (0.1,)), kinds=("fixed", "free")
    )
    q = at(0, 0, 0.1 - DEPTH if gravity else 0.1 - 2.2e-16)
    inputs = inputs_of(model, q, [speed, 0, 0, 0, 0, 0], material=(KE, 1.0, KF, mu), gravity=gravity)
    return model, replace(inputs, link_inertia=1e12 * inputs.link_inertia)


def links(world: Callable, integrator: str) -> np.ndarray:
    """The last link of a model, in every case."""
    worlds = [world(*case) for case in CASES]
    inputs = joined([inputs for _model, inputs in worlds])
    inputs = replace(inputs, link_mass=MASS * inputs.link_mass)
    solver = ArticulatedSolver(worlds[0][0], ArticulatedSettings(DT, STEPS, integrator))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = (np.zeros_like(rollout.joint_qd), np.zeros_like(rollout.body_q), np.zeros_like(rollout.body_qd))
    return np.stack([
        solver.rollout_adjoint(rollout, seeds(rollout.joint_q.shape, (-1,), axis), *none).joint_qd0[:, axis] for axis in (0, 1)
    ], -1)  # fmt: skip


def particles(plan: str, *, on_ground: bool) -> np.ndarray:
    """A particle on the ground, or on a held triangle."""
    if on_ground:
        model, moving, height = DeformableModel(particle_rest=np.zeros((1, 3)), contact=np.array([0])), 0, 0.0
        q = np.zeros((1, 3))
    else:
        q, moving, height = np.array([(-9, -9, 0), (9, -9, 0), (0, 9, 0), (0, 0, 0), (0, 0, 50), (1, 0, 50)], float), 3, 0.1
        model = DeformableModel(
            particle_rest=q, fixed=np.array([0, 1, 2, 4, 5]), contact_triangles=np.array([(0, 1, 2), (3, 4, 5)], np.int32),
            self_thickness=height,
        )  # fmt: skip
    q0, qd0, gravity = np.tile(q, (len(CASES), 1, 1)), np.zeros((len(CASES), len(q), 3)), np.zeros((len(CASES), 3))
    material = np.zeros((len(CASES), 4))
    for b, (mu, g, speed) in enumerate(CASES):
        q0[b, moving, 2], qd0[b, moving, 0], gravity[b, 2] = height - (DEPTH if g else 2.2e-16), speed, -g
        material[b] = KE, 1.0, KF, mu
    inputs = inputs_for(
        model, worlds=len(CASES), particle_q0=q0, particle_qd0=qd0, gravity=gravity, particle_mass=MASS,
        particle_contact=material[:, None], self_contact=material,
    )  # fmt: skip
    solver = DeformableSolver(model, DeformableSettings(dt=DT, substeps=STEPS, plan=plan))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = np.zeros_like(rollout.particle_qd)
    return np.stack([
        solver.rollout_adjoint(rollout, seeds(none.shape, (-1, moving), axis), none).particle_qd0[:, moving, axis]
        for axis in (0, 1)
    ], -1)  # fmt: skip


def particle_on_box() -> np.ndarray:
    """A particle on a fixed box."""
    worlds = []
    for mu, g, speed in CASES:
        material = (KE, 1.0, KF, mu)
        box = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1))
        links = bodies(box, None, kinds=("fixed", "free"))
        soft = DeformableModel(particle_rest=np.zeros((1, 3)))
        worlds.append(CoupledInputs(
            inputs_of(links, at(0, 0, 9), np.zeros(6), material=material),
            inputs_for(
                soft, particle_q0=(0, 0, -DEPTH if g else -2.2e-16), particle_qd0=(speed, 0, 0), gravity=(0, 0, -g),
                particle_mass=MASS, particle_contact=material,
            ),
        ))  # fmt: skip
    inputs = CoupledInputs(joined([w.links for w in worlds]), joined([w.particles for w in worlds]))
    solver = CoupledSolver(CoupledModel(links, soft), CoupledSettings(DT, STEPS))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = {name: np.zeros_like(array) for name, array in frames_of(rollout).items()}
    return np.stack([
        solver.rollout_adjoint(
            rollout, *(none | {"particle_q": seeds(none["particle_q"].shape, (-1, 0), axis)}).values()
        ).particles.particle_qd0[:, 0, axis]
        for axis in (0, 1)
    ], -1)  # fmt: skip


SOLVERS = {
    "rigid, world plan": ("semi_implicit", lambda: rigid("semi_implicit", "world")),
    "rigid, element plan": ("semi_implicit", lambda: rigid("semi_implicit", "element")),
    "rigid, rk4": ("rk4", lambda: rigid("rk4", "world")),
    "link on the ground": ("semi_implicit", lambda: links(on_ground, "semi_implicit")),
    "link on the ground, rk4": ("rk4", lambda: links(on_ground, "rk4")),
    "link on link": ("semi_implicit", lambda: links(on_box, "semi_implicit")),
    "particle, world plan": ("semi_implicit", lambda: particles("world", on_ground=True)),
    "particle, element plan": ("semi_implicit", lambda: particles("element", on_ground=True)),
    "particle on particles": ("semi_implicit", lambda: particles("world", on_ground=False)),
    "particle on link": ("semi_implicit", particle_on_box),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_what_slides_without_friction_slides_in_the_adjoint(name: str) -> None:
    integrator, run = SOLVERS[name]
    slopes, wanted = run(), wanted_slopes(integrator)
    for (mu, gravity, speed), found, slope in zip(CASES, slopes, wanted, strict=True):
        where = f"mu {mu}, gravity {gravity}, speed {speed}"
        assert found[0] == pytest.approx(slope, rel=1e-6), where
        if not (mu and gravity and speed):  # friction across a sliding motion turns with it
            assert found[1] == pytest.approx(slope, rel=1e-6), where
