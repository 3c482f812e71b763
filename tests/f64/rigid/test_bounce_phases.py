"""The gradient through a bounce at every phase of the onset in a step, in every solver.

A body that falls without gravity and leaves with e times its speed has d z / d z0 = -e, whenever it touches: e = 1 without
damping, and ``ti_sim.rigid.restitution`` with it. Two equal balls exchange their velocities.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from scenes.studies import contact_onset
from tests.reference.contact_cases import at, bodies, frames_of, inputs_of
from tests.reference.deformable_cases import inputs_for
from tests.reference.folders import ROOT
from tests.reference.rigid_cases import one_body, stacked
from ti_sim.articulated.collision import CollisionShape
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.restitution import contact_time, restitution
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

MASS, KE, PHASES, SPEED = 1.0, 1e4, 40, 1.0
DAMPINGS = (0.0, 18.0)  # kd: a damping ratio of .09 for MASS
DT = float(contact_time(KE, 0.0, MASS)) / 30  # 30 steps in contact
GAP, STEPS = 3.5 * DT * SPEED, 45
HEIGHTS = GAP + np.arange(PHASES) / PHASES * DT * SPEED
SLIDE, KF, MU, KT = 0.3, 20.0, 1.0, 3e3  # tangential velocity, friction and bristle of a bounce


def seeds(shape: tuple[int, ...], where: tuple, axis: int) -> np.ndarray:
    """Adjoints of frames: 1 for a place along an axis."""
    bar = np.zeros(shape)
    bar[(..., *where, axis)] = 1
    return bar


def joined(worlds: list[ArticulatedInputs]) -> ArticulatedInputs:
    """Inputs of one world each as the worlds of one."""
    names = worlds[0].named_arrays()
    return type(worlds[0])(**{name: np.concatenate([getattr(world, name) for world in worlds]) for name in names})


def rigid(kd: float, integrator: str, plan: str) -> np.ndarray:
    """A body with one contact point above the ground."""
    worlds = [
        one_body(np.zeros((1, 3)), mass=MASS, position=(0, 0, z), velocity=(0, 0, -SPEED), ke=KE, kd=kd, gravity=0.0)
        for z in HEIGHTS
    ]
    solver = RigidSolver(worlds[0][0], RigidSettings(dt=DT, substeps=STEPS, integrator=integrator, plan=plan))
    rollout = solver.rollout(stacked([inputs for _model, inputs in worlds]), 1, adjoint=StoreAll())
    bar = seeds(rollout.body_q.shape, (-1, 0), 2)
    return solver.rollout_adjoint(rollout, bar, np.zeros_like(rollout.body_qd)).body_q0[:, 0, 2]


def links(
    model: ArticulatedModel, start: list[float], kd: float, integrator: str = "semi_implicit", *, points: int = 1
) -> np.ndarray:
    """A free link, the last one, falls towards a contact of so many points."""
    moving = model.coordinate_count - 5
    one = inputs_of(model, start, [0, 0, -SPEED, 0, 0, 0], material=(KE / points, kd / points, 0.0, 0.0))
    one = replace(one, link_mass=MASS * one.link_mass)
    inputs = joined([one] * PHASES)
    inputs.joint_q0[:, moving] += HEIGHTS
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, STEPS, integrator))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = (np.zeros_like(rollout.joint_qd), np.zeros_like(rollout.body_q), np.zeros_like(rollout.body_qd))
    return solver.rollout_adjoint(rollout, seeds(rollout.joint_q.shape, (-1,), moving), *none).joint_q0[:, moving]


def link_on_ground(kd: float, integrator: str) -> np.ndarray:
    """A free link with one contact point above the ground."""
    model = ArticulatedModel(("link",), (-1,), ("free",), np.ones((1, 3)), contact_points=(np.zeros((1, 3)),))
    return links(model, at(0, 0, 0), kd, integrator)


def ball_on_box(kd: float) -> np.ndarray:
    """A ball above a fixed box."""
    box, ball = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("sphere", (0.1,))
    return links(bodies(box, ball, kinds=("fixed", "free")), at(0, 0, 0.1), kd)


def box_on_box(kd: float) -> np.ndarray:
    """A box above a fixed box: four points have the stiffness of the pair each."""
    box, small = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("box", (0.1, 0.1, 0.1))
    model = bodies(box, small, kinds=("fixed", "free"))
    return links(model, at(0, 0, 0.1), kd, points=4)


def particles(kd: float, plan: str, *, on_ground: bool) -> np.ndarray:
    """A particle above the ground, or above a held triangle."""
    if on_ground:
        model, moving, height = DeformableModel(particle_rest=np.zeros((1, 3)), contact=np.array([0])), 0, 0.0
        q = np.zeros((1, 3))
    else:
        q, moving, height = np.array([(-9, -9, 0), (9, -9, 0), (0, 9, 0), (0, 0, 0), (0, 0, 50), (1, 0, 50)], float), 3, 0.1
        model = DeformableModel(
            particle_rest=q, fixed=np.array([0, 1, 2, 4, 5]), contact_triangles=np.array([(0, 1, 2), (3, 4, 5)], np.int32),
            self_thickness=height,
        )  # fmt: skip
    q0, qd0 = np.tile(q, (PHASES, 1, 1)), np.zeros((PHASES, len(q), 3))
    q0[:, moving, 2], qd0[:, moving, 2] = height + HEIGHTS, -SPEED
    material = np.tile((KE, kd, 0.0, 0.0), (PHASES, 1))
    inputs = inputs_for(
        model, worlds=PHASES, particle_q0=q0, particle_qd0=qd0, particle_mass=MASS, particle_contact=material[:, None],
        self_contact=material,
    )  # fmt: skip
    solver = DeformableSolver(model, DeformableSettings(dt=DT, substeps=STEPS, plan=plan))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    bar = seeds(rollout.particle_q.shape, (-1, moving), 2)
    return solver.rollout_adjoint(rollout, bar, np.zeros_like(bar)).particle_q0[:, moving, 2]


def particle_on_box(kd: float) -> np.ndarray:
    """A particle above a fixed box."""
    model, soft = bodies(CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), None, kinds=("fixed", "free")), None
    soft = DeformableModel(particle_rest=np.zeros((1, 3)))
    material = (KE, kd, 0.0, 0.0)
    q0 = np.zeros((PHASES, 1, 3))
    q0[:, 0, 2] = HEIGHTS
    inputs = CoupledInputs(
        joined([inputs_of(model, at(0, 0, 9), np.zeros(6), material=material)] * PHASES),
        inputs_for(
            soft, worlds=PHASES, particle_q0=q0, particle_qd0=(0, 0, -SPEED), particle_mass=MASS, particle_contact=material
        ),
    )
    solver = CoupledSolver(CoupledModel(model, soft), CoupledSettings(DT, STEPS))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = {name: np.zeros_like(array) for name, array in frames_of(rollout).items()}
    bars = none | {"particle_q": seeds(none["particle_q"].shape, (-1, 0), 2)}
    return solver.rollout_adjoint(rollout, *bars.values()).particles.particle_q0[:, 0, 2]


SOLVERS = {
    "rigid, world plan": lambda kd: rigid(kd, "semi_implicit", "world"),
    "rigid, element plan": lambda kd: rigid(kd, "semi_implicit", "element"),
    "rigid, rk4": lambda kd: rigid(kd, "rk4", "world"),
    "link on the ground": lambda kd: link_on_ground(kd, "semi_implicit"),
    "link on the ground, rk4": lambda kd: link_on_ground(kd, "rk4"),
    "ball on box": ball_on_box,
    "box on box": box_on_box,
    "particle, world plan": lambda kd: particles(kd, "world", on_ground=True),
    "particle, element plan": lambda kd: particles(kd, "element", on_ground=True),
    "particle on particles": lambda kd: particles(kd, "world", on_ground=False),
    "particle on link": particle_on_box,
}


@pytest.mark.parametrize("name", SOLVERS)
def test_slope_of_a_bounce_at_every_phase(name: str) -> None:
    run: Callable[[float], np.ndarray] = SOLVERS[name]
    for kd in DAMPINGS:
        wanted = -float(restitution(KE, kd, MASS))
        np.testing.assert_allclose(run(kd), wanted, rtol=0.02, err_msg=f"kd {kd}")


def test_two_equal_balls_exchange_their_velocities_at_every_phase() -> None:
    """The last place of the second is that of the first plus two radii, so its gradient is (1, 0) in both places.

    Contact takes a time t: the gradient in both velocities is (T - t / 2, t / 2).
    """
    model = bodies(CollisionShape("sphere", (0.1,)), CollisionShape("sphere", (0.1,)))
    one = inputs_of(model, [*at(0, 0, 0), *at(0.2, 0, 0)], [SPEED, *np.zeros(11)], material=(KE, 0.0, 0.0, 0.0))
    inputs = joined([replace(one, link_mass=2 * MASS * one.link_mass)] * PHASES)  # of a reduced mass of MASS
    inputs.joint_q0[:, 7] += HEIGHTS
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, STEPS, "semi_implicit"))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = (np.zeros_like(rollout.joint_qd), np.zeros_like(rollout.body_q), np.zeros_like(rollout.body_qd))
    bars = solver.rollout_adjoint(rollout, seeds(rollout.joint_q.shape, (-1,), 7), *none)
    found = np.stack([bars.joint_q0[:, 0], bars.joint_q0[:, 7], bars.joint_qd0[:, 0], bars.joint_qd0[:, 6]], -1)
    found[:, 2:] /= STEPS * DT
    touching = float(contact_time(KE, 0.0, MASS)) / (STEPS * DT)
    np.testing.assert_allclose(found, np.tile((1, 0, 1 - touching / 2, touching / 2), (PHASES, 1)), atol=0.02)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_an_elastic_bounce_keeps_its_energy_at_every_phase(integrator: str) -> None:
    worlds = [
        one_body(np.zeros((1, 3)), mass=MASS, position=(0, 0, z), velocity=(0, 0, -SPEED), ke=KE, gravity=0.0) for z in HEIGHTS
    ]
    solver = RigidSolver(worlds[0][0], RigidSettings(dt=DT, substeps=STEPS, integrator=integrator))
    rollout = solver.rollout(stacked([inputs for _model, inputs in worlds]), 1)
    np.testing.assert_allclose(rollout.body_qd[:, -1, 0, 2], SPEED, rtol=1e-5)  # the law without the mean: 7e-5


def sliding_point() -> tuple[np.ndarray, np.ndarray]:
    """x of a body with one point after a bounce with a bristle at each height, and its derivative by the height."""
    one = [
        one_body(
            np.zeros((1, 3)), mass=MASS, position=(0, 0, z), velocity=(SLIDE, 0, -SPEED), ke=KE, kd=18.0, kf=KF, mu=MU, gravity=0
        )
        for z in HEIGHTS
    ]  # fmt: skip
    inputs = replace(stacked([inputs for _model, inputs in one]), body_bristle=np.full((PHASES, 1), KT))
    solver = RigidSolver(replace(one[0][0], bristled=True), RigidSettings(dt=DT, substeps=STEPS))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    bar = seeds(rollout.body_q.shape, (-1, 0), 0)
    bars = solver.rollout_adjoint(rollout, bar, np.zeros_like(rollout.body_qd))
    return rollout.body_q[:, -1, 0, 0], bars.body_q0[:, 0, 2]


def sliding_links(model: ArticulatedModel, q: list[float], qd: list[float], height: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of the last of several links, whose coordinates begin with x and have the height at the index ``height``."""
    one = inputs_of(model, q, qd, material=(KE, 18.0, KF, MU))
    one.link_inertia[:] = 1e6 * np.eye(3)  # none spins
    one.link_mass[0, :-1] = 1e-9
    inputs = joined([replace(one, link_bristle=np.full((1, model.link_count), KT))] * PHASES)
    inputs.joint_q0[:, height] += HEIGHTS
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, STEPS))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = (np.zeros_like(rollout.joint_qd), np.zeros_like(rollout.body_q), np.zeros_like(rollout.body_qd))
    bars = solver.rollout_adjoint(rollout, seeds(rollout.joint_q.shape, (-1,), 0), *none)
    return rollout.joint_q[:, -1, 0], bars.joint_q0[:, height]


def sliding_link() -> tuple[np.ndarray, np.ndarray]:
    """A block on a vertical rail of a car."""
    model = ArticulatedModel(
        ("car", "block"), (-1, 0), ("prismatic", "prismatic"), np.array([(1.0, 0, 0), (0, 0, 1.0)]),
        contact_points=(np.zeros((0, 3)), np.zeros((1, 3))),
    )  # fmt: skip
    return sliding_links(model, [0, 0], [SLIDE, -SPEED], 1)


def sliding_ball() -> tuple[np.ndarray, np.ndarray]:
    """A ball above a fixed box."""
    box, ball = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("sphere", (0.1,))
    return sliding_links(bodies(box, ball, kinds=("fixed", "free")), at(0, 0, 0.1), [SLIDE, 0, -SPEED, 0, 0, 0], 2)


@pytest.mark.parametrize("run", [sliding_point, sliding_link])
def test_gradient_of_a_slide_with_bristles_at_every_phase(run: Callable) -> None:
    x, slope = run()
    secant = (x[-1] - x[0]) / (HEIGHTS[-1] - HEIGHTS[0])
    assert abs(secant) > 0.3
    np.testing.assert_allclose(slope, secant, rtol=0.02)


def test_gradients_of_slides_of_pairs_have_the_secant_as_median() -> None:
    x, slope = sliding_ball()
    secant = (x[-1] - x[0]) / (HEIGHTS[-1] - HEIGHTS[0])
    np.testing.assert_allclose([np.median(slope), slope.mean()], secant, rtol=0.02)


@pytest.mark.parametrize(
    ("page", "table", "rows"),
    [
        (contact_onset.PAGE, contact_onset.table, 4),
        (contact_onset.IMPLICIT_PAGE, contact_onset.implicit_table, 6),
    ],
)
def test_the_tables_of_the_pages_are_current(page: str, table: Callable[[], str], rows: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = text.partition("<!-- printed by scenes.studies.contact_onset -->\n")[2].partition("<!-- end -->")[0]
    lines = table().splitlines()
    assert len(lines) == 2 + rows
    for line, line_shown in zip(lines, shown.splitlines(), strict=True):
        numbers, numbers_shown = (re.findall(r"\d\.\d{4}", text) for text in (line, line_shown))
        assert re.sub(r"\d\.\d{4}", "#", line) == re.sub(r"\d\.\d{4}", "#", line_shown)
        np.testing.assert_allclose([float(n) for n in numbers], [float(n) for n in numbers_shown], atol=1.01e-4)
        if numbers:
            assert all(abs(float(number) - 1) < 0.005 for number in numbers[-2:])
