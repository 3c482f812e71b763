"""The gradient through a bounce at every phase of the onset in a step, in every solver.

A body that falls without gravity and leaves with e times its speed has d z / d z0 = -e, whenever it touches: e = 1 without
damping, and ``ti_sim.contact.restitution`` with it. Two equal balls exchange their velocities.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from studies.engine import contact_onset
from tests.reference.contact_cases import at, bodies, frames_of, inputs_of
from tests.reference.deformable_cases import inputs_for
from tests.reference.folders import ROOT
from tests.reference.rigid_cases import one_body, stacked
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.contact.collision import CollisionShape
from ti_sim.contact.restitution import contact_time, restitution
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

MASS, KE, PHASES, SPEED = 1.0, 1e4, 40, 1.0
DAMPINGS = (0.0, 18.0)  # kd: a damping ratio of .09 for MASS
DT = float(contact_time(KE, 0.0, MASS)) / 30  # 30 steps in contact
GAP, STEPS = 3.5 * DT * SPEED, 45
HEIGHTS = GAP + np.arange(PHASES) / PHASES * DT * SPEED
SLIDE, KF, KT = 0.3, 20.0, 3e3  # tangential velocity, friction and bristle of a bounce


Result = tuple[np.ndarray, np.ndarray]  # last coordinate at every phase, and its derivative by the first height


@dataclass(frozen=True)
class Collision:
    """Contact of a body that meets a surface at the speed ``SPEED``.

    Attributes:
        kd: contact damping [N s/m].
        slide: velocity along x [m/s]; the result is x then, and the height without.
        mu: friction coefficient.
        kt: bristle stiffness [N/m]; 0 for none.
    """

    kd: float
    slide: float = 0.0
    mu: float = 0.0
    kt: float = 0.0

    @property
    def axis(self) -> int:
        """Axis of the coordinate in the result."""
        return 0 if self.slide else 2

    @property
    def velocity(self) -> tuple[float, float, float]:
        """Velocity at the start [m/s]."""
        return self.slide, 0.0, -SPEED


def seeds(shape: tuple[int, ...], where: tuple, axis: int) -> np.ndarray:
    """Adjoints of frames: 1 for a place along an axis."""
    bar = np.zeros(shape)
    bar[(..., *where, axis)] = 1
    return bar


def joined(worlds: list[ArticulatedInputs]) -> ArticulatedInputs:
    """Inputs of one world each as the worlds of one."""
    names = worlds[0].named_arrays()
    return type(worlds[0])(**{name: np.concatenate([getattr(world, name) for world in worlds]) for name in names})


def rigid(hit: Collision, integrator: str, plan: str) -> Result:
    """A body with one contact point above the ground."""
    worlds = [
        one_body(
            np.zeros((1, 3)), mass=MASS, position=(0, 0, z), velocity=hit.velocity, ke=KE, kd=hit.kd, kf=KF, mu=hit.mu, gravity=0
        )
        for z in HEIGHTS
    ]  # fmt: skip
    inputs = stacked([inputs for _model, inputs in worlds])
    if hit.kt:
        inputs = replace(inputs, body_bristle=np.full((PHASES, 1), hit.kt))
    settings = RigidSettings(dt=DT, substeps=STEPS, integrator=integrator, plan=plan)
    solver = RigidSolver(replace(worlds[0][0], has_bristles=hit.kt > 0), settings)
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    bar = seeds(rollout.body_q.shape, (-1, 0), hit.axis)
    bars = solver.rollout_adjoint(rollout, bar, np.zeros_like(rollout.body_qd))
    return rollout.body_q[:, -1, 0, hit.axis], bars.body_q0[:, 0, 2]


def links(
    model: ArticulatedModel, start: list[float], hit: Collision, integrator: str = "semi_implicit", *, points: int = 1
) -> Result:
    """A link falls towards a contact of so many points: the last one, whose coordinates begin with x, y, z; none spins."""
    moving = model.coordinate_count - len(start)
    one = inputs_of(model, start, [*hit.velocity, 0, 0, 0], material=(KE / points, hit.kd / points, KF / points, hit.mu))
    one.link_inertia[:] = 1e6 * np.eye(3)
    one = replace(one, link_mass=MASS * one.link_mass)
    if hit.kt:
        one = replace(one, link_bristle=np.full((1, model.link_count), hit.kt))
    inputs = joined([one] * PHASES)
    inputs.joint_q0[:, moving + 2] += HEIGHTS
    solver = ArticulatedSolver(model, ArticulatedSettings(DT, STEPS, integrator))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = (np.zeros_like(rollout.joint_qd), np.zeros_like(rollout.body_q), np.zeros_like(rollout.body_qd))
    bars = solver.rollout_adjoint(rollout, seeds(rollout.joint_q.shape, (-1,), moving + hit.axis), *none)
    return rollout.joint_q[:, -1, moving + hit.axis], bars.joint_q0[:, moving + 2]


def link_on_ground(hit: Collision, integrator: str) -> Result:
    """A free link with one contact point above the ground."""
    model = ArticulatedModel(("link",), (-1,), ("free",), np.ones((1, 3)), contact_points=(np.zeros((1, 3)),))
    return links(model, at(0, 0, 0), hit, integrator)


def ball_on_box(hit: Collision) -> Result:
    """A ball above a fixed box."""
    box, ball = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("sphere", (0.1,))
    return links(bodies(box, ball, kinds=("fixed", "free")), at(0, 0, 0.1), hit)


def box_on_box(hit: Collision) -> Result:
    """A box above a fixed box: four points have the stiffness of the pair each."""
    box, small = CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), CollisionShape("box", (0.1, 0.1, 0.1))
    model = bodies(box, small, kinds=("fixed", "free"))
    return links(model, at(0, 0, 0.1), hit, points=4)


def particles(hit: Collision, plan: str, *, on_ground: bool) -> Result:
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
    q0[:, moving, 2], qd0[:, moving] = height + HEIGHTS, hit.velocity
    material = np.tile((KE, hit.kd, KF, hit.mu), (PHASES, 1))
    inputs = inputs_for(
        model, worlds=PHASES, particle_q0=q0, particle_qd0=qd0, particle_mass=MASS, particle_contact=material[:, None],
        self_contact=material,
    )  # fmt: skip
    solver = DeformableSolver(model, DeformableSettings(dt=DT, substeps=STEPS, plan=plan))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    bar = seeds(rollout.particle_q.shape, (-1, moving), hit.axis)
    bars = solver.rollout_adjoint(rollout, bar, np.zeros_like(bar))
    return rollout.particle_q[:, -1, moving, hit.axis], bars.particle_q0[:, moving, 2]


def particle_on_box(hit: Collision) -> Result:
    """A particle above a fixed box."""
    model, soft = bodies(CollisionShape("box", (9, 9, 0.1), position=(0, 0, -0.1)), None, kinds=("fixed", "free")), None
    soft = DeformableModel(particle_rest=np.zeros((1, 3)))
    material = (KE, hit.kd, KF, hit.mu)
    q0 = np.zeros((PHASES, 1, 3))
    q0[:, 0, 2] = HEIGHTS
    inputs = CoupledInputs(
        joined([inputs_of(model, at(0, 0, 9), np.zeros(6), material=material)] * PHASES),
        inputs_for(soft, worlds=PHASES, particle_q0=q0, particle_qd0=hit.velocity, particle_mass=MASS, particle_contact=material),
    )
    solver = CoupledSolver(CoupledModel(model, soft), CoupledSettings(DT, STEPS))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    none = {name: np.zeros_like(array) for name, array in frames_of(rollout).items()}
    bars = none | {"particle_q": seeds(none["particle_q"].shape, (-1, 0), hit.axis)}
    slope = solver.rollout_adjoint(rollout, *bars.values()).particles.particle_q0[:, 0, 2]
    return frames_of(rollout)["particle_q"][:, -1, 0, hit.axis], slope


SOLVERS = {
    "rigid, world plan": lambda hit: rigid(hit, "semi_implicit", "world"),
    "rigid, element plan": lambda hit: rigid(hit, "semi_implicit", "element"),
    "rigid, rk4": lambda hit: rigid(hit, "rk4", "world"),
    "link on the ground": lambda hit: link_on_ground(hit, "semi_implicit"),
    "link on the ground, rk4": lambda hit: link_on_ground(hit, "rk4"),
    "ball on box": ball_on_box,
    "box on box": box_on_box,
    "particle, world plan": lambda hit: particles(hit, "world", on_ground=True),
    "particle, element plan": lambda hit: particles(hit, "element", on_ground=True),
    "particle on particles": lambda hit: particles(hit, "world", on_ground=False),
    "particle on link": particle_on_box,
}


@pytest.mark.parametrize("name", SOLVERS)
def test_slope_of_a_bounce_at_every_phase(name: str) -> None:
    for kd in DAMPINGS:
        wanted = -float(restitution(KE, kd, MASS))
        np.testing.assert_allclose(SOLVERS[name](Collision(kd))[1], wanted, rtol=0.02, err_msg=f"kd {kd}")


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


@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("name", SOLVERS)
def test_slope_of_a_slide_with_friction_at_every_phase(name: str, mu: float) -> None:
    check_slide(SOLVERS[name], Collision(DAMPINGS[1], SLIDE, mu))


@pytest.mark.parametrize("name", ["rigid, world plan", "link on the ground", "ball on box", "box on box"])
def test_slope_of_a_slide_with_bristles_at_every_phase(name: str) -> None:
    check_slide(SOLVERS[name], Collision(DAMPINGS[1], SLIDE, 1.0, KT))


def check_slide(run: Callable[[Collision], Result], hit: Collision) -> None:
    """Compare the derivative of x by the height at each phase with the secant over one step, which all phases share.

    A body that touches later keeps its tangential velocity longer: the secant is what contact takes of it over the speed of the
    fall. Viscous friction takes 1 - exp(-kf t / m) during the part t of contact in which the cone does not limit it; bristles
    take more.
    """
    x, slope = run(hit)
    secant = (x[-1] - x[0]) / (HEIGHTS[-1] - HEIGHTS[0])
    limited = 2 / np.pi * np.arcsin(KF * SLIDE / (hit.mu * SPEED * np.sqrt(KE * MASS)))
    viscous = (1 - limited) * float(contact_time(KE, hit.kd, MASS))
    assert abs(secant) > SLIDE / SPEED * (1 - np.exp(-KF * viscous / MASS)) > 0.1
    np.testing.assert_allclose(slope, secant, rtol=0.02)


@pytest.mark.parametrize(
    ("page", "table", "rows"),
    [
        (contact_onset.PAGE, contact_onset.table, 4),
        (contact_onset.IMPLICIT_PAGE, contact_onset.implicit_table, 8),
        (contact_onset.RESTITUTION_PAGE, contact_onset.restitution_table, 5),
    ],
)
def test_the_tables_of_the_pages_are_current(page: str, table: Callable[[], str], rows: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = text.partition("<!-- printed by studies.engine.contact_onset -->\n")[2].partition("<!-- end -->")[0]
    lines = table().splitlines()
    assert len(lines) == 2 + rows
    for line, line_shown in zip(lines, shown.splitlines(), strict=True):
        numbers, numbers_shown = (re.findall(r"\d\.\d{4}", text) for text in (line, line_shown))
        assert re.sub(r"\d\.\d{4}", "#", line) == re.sub(r"\d\.\d{4}", "#", line_shown)
        np.testing.assert_allclose([float(n) for n in numbers], [float(n) for n in numbers_shown], atol=1.01e-4)
        if numbers:
            bound = 0.02 if "first step" in line else 0.005
            assert all(abs(float(number) - 1) < bound for number in numbers[-2:])
