"""Wrong input is refused in one sentence, and doubtful results say so."""

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Contact,
    DirectionalLight,
    DivergenceError,
    OptimiseSettings,
    Param,
    Scene,
    SearchStages,
    Sphere,
    Start,
    Surface,
    UserError,
    invert,
)
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.films.target import load_target
from risp_torch.inversion.problem.linearisation import losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.report.result import remarks_on
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.inversion.solvers.refinement import refinement_policy
from risp_torch.inversion.uncertainty.covariance import Uncertainty, widened
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.loop import Starts, minimise
from risp_torch.scene.simulation.step_warnings import step_warnings
from tests.reference.small_scenes import make_scene

CONTACT = Contact(stiffness=100.0, damping=0.1, friction_stiffness=1.0, friction=0.3)


def empty() -> Scene:
    """A scene with a ground only."""
    scene = Scene(frame_dt=0.01, frames=2, substeps=10)
    scene.add_ground(contact=CONTACT)
    return scene


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.add_rigid("a.b", shape=Box(1, 1, 1), density=1.0), "'a.b'"),
        (lambda s: s.add_rigid("a", shape=Box(1, 1, 1), density=Param(5.0, low=-1.0, high=9.0)), "a.density is -1.0"),
        (lambda s: s.add_rigid("a", shape=Box(1, 1, 1), density=1.0, surface=Surface(color=(255, 0, 0))), "a.color"),
        (lambda s: s.set_background((0.0, -1.0, 0.0)), "background.color"),
        (lambda s: s.add_light(AmbientLight(intensity=-1.0)), "light.ambient.intensity"),
        (lambda s: s.add_light(DirectionalLight(direction=(0, 0, 0))), "not zero"),
        (lambda s: s.add_ground(contact=CONTACT), "already"),
    ],
)
def test_things_that_no_scene_can_have(write: object, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        write(empty())


def test_force_windows_are_checked() -> None:
    scene = empty()
    scene.add_rigid("a", shape=Box(1, 1, 1), density=1.0)
    for start, duration in ((100.0, 1.0), (-1.0, 0.5), (0.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(UserError, match="push acts from|push.start is|push.duration is"):
            scene.add_force("push", body="a", force=(1, 0, 0), start=start, duration=duration)
    scene.rollout()
    scene.add_force("push", body="a", force=(1.0, 0, 0), start=0.0, duration=0.01)
    assert scene.rollout().body_qd[0, -1, 0, 0] > 0  # a force that comes after the first rollout counts


def test_values_of_parameters_are_checked() -> None:
    scene = make_scene()
    for value, message in ((-700.0, "above zero"), (float("nan"), "not finite")):
        with pytest.raises(UserError, match=message):
            scene.rollout({"block.density": torch.tensor(value)})
    with pytest.raises(UserError, match="frames is 0: give a whole number of at least 1"):
        scene.rollout(frames=0)


def test_a_step_that_is_too_long_is_said() -> None:
    assert step_warnings(make_scene()) == []
    stiff = make_scene()
    stiff.table.params["ground.contact.stiffness"] = Param(1e9)
    (sentence,) = step_warnings(stiff)
    assert "too long for the contact of 'block'" in sentence
    with pytest.warns(UserWarning, match="too long"):
        _ = stiff.simulator.solver


def test_worlds_that_diverged_have_no_pictures() -> None:
    scene = make_scene()
    scene.table.params["ground.contact.stiffness"] = Param(1e3)
    states = scene.rollout({"ground.contact.stiffness": torch.tensor([1e3, 1e37])})
    assert states.finite.tolist() == [True, False]
    pictures = scene.render(states)
    assert pictures[0].isfinite().all() and pictures[1].isnan().all()


def test_target_films_are_checked() -> None:
    scene = make_scene()
    good = scene.render(scene.rollout())[0]
    assert load_target(scene, good).shape == good.shape
    for film, message in (
        (good[:-1], "shape"),
        ((good * 255).to(torch.uint8), "linear colour"),
        (torch.full_like(good, torch.nan), "nan"),
    ):
        with pytest.raises(UserError, match=message):
            load_target(scene, film)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": []}, "no starts"),
        ({"starts": 0}, "at least 1"),
        ({"starts": [{"block.density": [1.0, 2.0]}]}, "shape"),
        ({"starts": [{"block.densty": 1.0}]}, "block.density"),
    ],
)
def test_starts_are_checked(options: dict, message: str) -> None:
    scene = make_scene()
    film = scene.render(scene.rollout())[0]
    with pytest.raises(UserError, match=message):
        invert(scene, film, "block.density", progress=False, **options)


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_another_scene_does_not_go_on_with_a_run(tmp_path) -> None:
    """A folder's unfinished run resumes only for the same geometry, film and settings."""
    scene = make_scene()
    film = scene.render(scene.rollout())[0]
    search = SearchStages(steps=OptimiseSettings(iterations=10), refine=0)
    options = {"search": search, "starts": 2, "out": tmp_path, "progress": False}
    invert(scene, film, ["block.density"], **options)
    (tmp_path / "result.json").unlink()  # as if it had been killed after its checkpoint
    other = make_scene()
    other.sigma *= 2
    with pytest.raises(UserError, match="other settings"):
        invert(other, film, ["block.density"], **options)
    with pytest.raises(UserError, match="other settings"):
        invert(scene, film * 0.99, ["block.density"], **options)
    invert(scene, film, ["block.density"], **options)


def test_doubts_are_spoken() -> None:
    """A minimum that one start alone found, an estimate on its bound, an error bar as wide as the range."""
    unknowns = Unknowns({"a": Param(1.0, low=0.0, high=2.0), "b": Param(1.0, low=0.0, high=2.0)})
    remarks = remarks_on(unknowns, np.array([1.0, 2.0]), ["best", "higher loss", "diverged"])
    assert len(remarks) == 2 and "1 of the 3" in remarks[0] and "b lies on its bound" in remarks[1]
    assert remarks_on(unknowns, np.array([1.0, 1.0]), ["best", "same minimum"]) == []
    bars = Uncertainty(sd=np.array([0.01, 0.01]), correlation=np.eye(2), observable=[True, True], unobservable=[])
    wide = widened(bars, unknowns, np.array([0.0, 0.8]), np.zeros(2))
    assert wide.observable == [True, False] and "b is hardly fixed" in wide.unobservable[0]
    assert wide.sd[1] == pytest.approx(np.hypot(0.01, 0.8))


def test_refinement_climbs_along_a_valley(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round never raises the loss, and where Gauss-Newton finds nothing it looks along the weakest direction."""
    scene = make_scene()
    film = scene.render(scene.rollout())[0]
    unknowns = Unknowns.of(scene, ["block.density", "ground.contact.friction"])
    policy = refinement_policy(2, 1, thorough=True, longer=True, implicit=False)
    truth = unknowns.scaled(unknowns.current())
    point = truth + 0.05 * unknowns.scaled_range()
    loss = losses_at(scene, film, unknowns, point[None])
    problem = FilmProblem(scene, Comparison.of_target(film), unknowns)
    assert minimise(problem, Starts.begin([point], policy, loss), policy).objectives[0] < loss[0]
    monkeypatch.setattr(MeanDiagonalDamping, "step", lambda *_: np.zeros(2))
    stuck = minimise(problem, Starts.begin([point], policy, loss), policy)
    assert stuck.objectives[0] <= loss[0] and (stuck.objectives[0] < loss[0]) == bool((stuck.points[0] != point).any())


def thrown(stiffness: float) -> Scene:
    """A ball that meets the ground at 2 m/s, filmed for 40 ms in steps of 1 ms."""
    scene = Scene(frame_dt=1e-2, frames=4, substeps=10)
    scene.add_ground(contact=Contact(stiffness=stiffness, damping=0.0, friction_stiffness=0.0, friction=0.0))
    scene.add_rigid("ball", shape=Sphere(0.1), density=1000.0, start=Start(position=(0.0, 0.0, 0.105), velocity=(0.0, 0.0, -2.0)))
    return scene


def frame_of_escape(stiffness: float) -> int:
    """First frame at which the ball of ``thrown`` is farther away than a thousand times the range of its motion.

    In the third step its path meets the ground: the mean depth is l (1 + y)^3 / 6 (docs/contact-onset.md).
    """
    step, gravity, mass, velocity, gap = 1e-3, 9.81, 4 / 3 * np.pi * 0.1**3 * 1000.0, -2.0, 0.005
    for _ in range(2):
        velocity -= gravity * step
        gap += step * velocity
    travel = -velocity * step
    assert 0 < gap < travel
    away = stiffness * travel * (1 - gap / travel) ** 3 / 6 / mass * step
    limit = 1e3 * (2 * 0.1 + 2.0 * 0.04 + gravity * 0.04**2 * 3**0.5)  # two radii, and free flight
    return int(np.ceil((2 * step + limit / away) / 1e-2))


def test_what_flies_off_has_diverged() -> None:
    """Numbers that are finite are no motion yet: a contact that is too stiff for its steps throws a ball kilometres away."""
    frame = frame_of_escape(1e12)
    message = f"'ball' flew .* by frame {frame}"
    with pytest.warns(UserWarning, match="too long"), pytest.raises(DivergenceError, match=message) as error:
        thrown(1e12).rollout()
    assert error.value.body == "ball" and error.value.step == 10 * frame
    scene = thrown(1e5)
    states = scene.rollout({"ground.contact.stiffness": torch.tensor([1e5, 1e12])})
    assert states.finite.tolist() == [True, False] and states.diverged_step[1].item() == 10 * frame
    assert torch.isfinite(states.body_q).all()
    scene.set("ball.velocity", (0.0, 0.0, 3e4))  # fast is not blown up: a motion is judged by its own start
    assert scene.rollout().finite.all()
