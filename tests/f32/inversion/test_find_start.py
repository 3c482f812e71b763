"""The start of a film, found before its physics: poses and velocities over wide bounds, several losses, killed runs, refusals."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    DirectionalLight,
    Films,
    FindStart,
    LinkFrame,
    Loss,
    MaskLoss,
    MatchedLoss,
    Param,
    PixelLoss,
    Revolute,
    Scene,
    SearchStages,
    Start,
    Surface,
    UserError,
    invert,
    render_masks,
)
from risp_torch.commands.search_options import warm_start_settings
from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.losses.plate_masks import even_exposures
from risp_torch.inversion.problem.priors import Priors
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.start import find_start
from risp_torch.inversion.start.find_start import found_starts
from risp_torch.inversion.start.refine_guesses import StartProblem
from risp_torch.least_squares.equations import NormalEquations
from tests.reference.searches import pictures

POSITION, VELOCITY, DRAG = "block.position", "block.velocity", "block.linear_drag"
TRUTH = {POSITION: (-0.12, 0.02, 0.06), VELOCITY: (1.1, 0.2, 0.7)}
BOUNDS = {POSITION: ((-0.2, -0.1, 0.0), (0.2, 0.1, 0.25)), VELOCITY: (-2.0, 2.0), DRAG: (0.01, 1.0, "log10")}
EYE = (0.0, -0.7, 0.2)
FIND = SearchStages(find_start=FindStart(candidates=192, keep=3))


def thrown(color: tuple[float, float, float] = (0.8, 0.3, 0.2), frames: int = 8, **start: tuple[float, ...]) -> Scene:
    """A block that flies through air, seen in 32 x 32 pixels."""
    scene = Scene(frame_dt=0.02, frames=frames, substeps=4, sigma=1e-3, name="thrown")
    given = {name.partition(".")[2]: value for name, value in TRUTH.items()} | start
    scene.add_rigid(
        "block", shape=Box(0.09, 0.06, 0.05), density=500.0, surface=Surface(color=color), start=Start(**given),
        linear_drag=Param(0.1, low=0.01, high=1.0, scale="log10"),
    )  # fmt: skip
    scene.add_camera(Camera.look_at(eye=EYE, target=(0.0, 0.0, 0.1), vertical_fov=36.0, width=32, height=32, near=0.1, far=1.5))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def elsewhere(frames: int = 8) -> Scene:
    """The same scene with a start that is far from the truth."""
    return thrown(frames=frames, position=(0.1, -0.05, 0.2), velocity=(-1.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def film() -> torch.Tensor:
    return pictures(thrown())


def problem(film: torch.Tensor | None, loss: Loss | None = None, frames: int = 8, **options: object) -> Problem:
    given = {"loss": loss or PixelLoss(), "bounds": BOUNDS, "starts": 2, "search": FIND} | options
    return Problem.of(elsewhere(frames), film, [POSITION, VELOCITY, DRAG], **given)


def check_found(starts: np.ndarray, position: float, velocity: float) -> None:
    """The best start is so near to the truth, and its drag is that of a guess."""
    truth = np.concatenate([TRUTH[POSITION], TRUTH[VELOCITY]])
    np.testing.assert_allclose(starts[0, :3], truth[:3], atol=position)
    np.testing.assert_allclose(starts[0, 3:6], truth[3:], atol=velocity)


def test_pixels(film: torch.Tensor) -> None:
    """Position and velocity within a twentieth of their ranges, and the guesses of the drag as they were."""
    asked = problem(film)
    starts = found_starts(asked, progress=False)
    check_found(starts, 0.01, 0.2)
    np.testing.assert_array_equal(starts[:, 6], asked.initial[:, 6])


def test_masks_and_films_of_another_look() -> None:
    """Silhouettes tell places in the picture well, those of the film itself at least directions from the camera."""
    scene = thrown(color=(0.1, 0.6, 0.3))
    with torch.no_grad():
        masks = render_masks(scene, scene.rollout())[0, ..., 0]
    check_found(found_starts(problem(None, MaskLoss(masks)), progress=False), 0.02, 0.4)
    long = pictures(thrown(color=(0.1, 0.6, 0.3), frames=16))
    drifting = long * torch.linspace(1.0, 0.7, 17).to(long)[:, None, None, None]
    starts = found_starts(problem(drifting, MatchedLoss(), frames=16), progress=False)
    away, true = starts[0, :3] - EYE, np.subtract(TRUTH[POSITION], EYE)
    np.testing.assert_allclose(away / np.linalg.norm(away), true / np.linalg.norm(true), atol=0.01)  # half a pixel
    np.testing.assert_allclose(starts[0, 3:6:2], TRUTH[VELOCITY][::2], atol=0.2)


def test_starts_are_the_candidates_that_fit_nearly_as_well_as_the_best_in_turn() -> None:
    """Two of the three candidates have at most four times the least loss; numbers that are no starting values stay."""
    candidates = np.array([[1.0, 10.0, 0.1], [2.0, 20.0, 0.2], [3.0, 30.0, 0.3]])
    guesses = np.arange(4)[:, None] + np.array([7.0, 70.0, 0.7])
    starts = find_start._starts_with_best(candidates, np.array([1.0, 3.9, 4.1]), guesses, np.array([0, 1]))
    np.testing.assert_array_equal(starts[:, :2], candidates[[0, 1, 0, 1], :2])
    np.testing.assert_array_equal(starts[:, 2], guesses[:, 2])


def test_candidates_that_differ_in_one_number_are_apart() -> None:
    """By a twentieth of its range or more; the best of near ones is kept, and none that diverged."""
    bounds = argparse.Namespace(low=np.zeros(3), high=np.array([1.0, 10.0, 100.0]))
    points = np.array([[0.5, 5.0, 0.0], [0.5, 5.4, 90.0], [0.5, 5.6, 0.0], [0.9, 5.0, 0.0], [0.1, 9.0, 0.0]])
    losses = np.array([1.0, 2.0, 3.0, 4.0, np.inf])
    kept, found = find_start._Search._distinct(bounds, points, losses, np.array([0, 1]), 8)
    np.testing.assert_array_equal(kept, points[[0, 2, 3]])
    np.testing.assert_array_equal(found, [1.0, 3.0, 4.0])
    assert len(find_start._Search._distinct(bounds, points, losses, np.array([0, 1]), 2)[0]) == 2


def test_priors_pull_starts_to_their_means() -> None:
    """The normal equations of (x - m)^2 / s^2, relative to the ranges, with the variance of an observation."""
    priors = Priors(np.array([1]), np.array([3.0]), np.array([0.5]), floor=1e-2, design_effect=4.0)
    unknowns = argparse.Namespace(priors=priors, bounds=lambda: (np.zeros(2), np.array([1.0, 8.0])), scaled=lambda bound: bound)
    problem = StartProblem(find_start.StartSteps(None, None, unknowns), np.array([0, 1]))
    film = NormalEquations(np.zeros((2, 2)), np.zeros(2), residual_square=0.1 * 20)
    equations = problem.with_priors(film, np.array([0.0, 5.0]), 20.0)
    np.testing.assert_allclose(equations.matrix, np.diag([0.0, 4 * 0.1 * (8 / 0.5) ** 2]))
    np.testing.assert_allclose(equations.gradient, [0.0, -4 * 0.1 * (8 / 0.5) ** 2 * (5 - 3) / 8])


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_the_whole_inversion(film: torch.Tensor, tmp_path: Path) -> None:
    """From a found start everything is found where the same search without one is far away."""
    options = {"bounds": BOUNDS, "starts": 1, "progress": False}
    far_away = thrown(position=(0.18, -0.08, 0.23), velocity=(-1.8, -0.8, -1.0))  # without a pixel in common
    result = invert(far_away, film, [POSITION, VELOCITY, DRAG], search=FIND, out=tmp_path / "run", **options)
    assert result.values[DRAG] == pytest.approx(0.1, rel=0.05)
    assert np.abs(result.initial[0, :3] - TRUTH[POSITION]).max() < 0.01
    record = json.loads((tmp_path / "run/settings.json").read_text())
    assert record["find_start"] == {"frames": None, "candidates": 192, "keep": 3}
    plain = invert(far_away, film, [POSITION, VELOCITY, DRAG], **options | {"starts": [{}]})  # from the scene's own start
    assert plain.losses[0] > 100 * result.losses[0]


def test_joints() -> None:
    """Angle and rate of a joint are starting values; its length and damping are not."""
    scene = Scene(frame_dt=0.02, frames=6, substeps=4, sigma=1e-3, name="arm")
    scene.add_link(
        "arm", shape=Box(0.05, 0.05, 0.3), density=300.0, frame=LinkFrame(length=0.3, direction=(0, 0, -1)),
        joint=Revolute(axis=(0, 1, 0), angle=Param(0.8, low=-3.0, high=3.0), rate=Param(2.0, low=-8.0, high=8.0)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -1.2, 0.0), target=(0.0, 0.0, 0.0), vertical_fov=40.0, width=32, height=32, near=0.2, far=2.0)
    )
    scene.add_light(AmbientLight(intensity=0.8))
    target = pictures(scene)
    finding = SearchStages(find_start=FindStart(candidates=64, keep=3))
    asked = Problem.of(scene, target, ["arm.angle", "arm.rate"], starts=2, search=finding)
    np.testing.assert_allclose(found_starts(asked, progress=False)[0], [0.8, 2.0], atol=0.05)


def test_priors_narrow_the_candidates(film: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    losses = find_start.StartSteps.losses

    def noted(self: find_start.StartSteps, points: np.ndarray) -> np.ndarray:
        seen.append(points)
        return losses(self, points)

    monkeypatch.setattr(find_start.StartSteps, "losses", noted)
    found_starts(problem(film, priors={"block.position[0]": (-0.1, 0.01)}), progress=False)
    drawn = seen[0][:, 0]
    assert abs(drawn.mean() + 0.1) < 0.002 and 0.008 < drawn.std() < 0.012
    assert seen[0][:, 1].std() > 0.05


def test_even_exposures() -> None:
    """Frames that differ by their exposure alone become equal; pixels that do not count do not matter."""
    still = torch.rand((1, 12, 12, 3), generator=torch.Generator().manual_seed(0)) * 0.5 + 0.1
    film = still * torch.tensor([0.8, 1.0, 1.3])[:, None, None, None]
    torch.testing.assert_close(even_exposures(film), still.expand_as(film), rtol=1e-4, atol=1e-4)
    film[0, :8] = 0.9
    counts = torch.ones(3, 12, 12, dtype=torch.bool)
    counts[0, :8] = False
    torch.testing.assert_close(even_exposures(film, counts)[0, 8:], still[0, 8:], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_a_killed_run_takes_the_start_that_was_found(film: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bounds": BOUNDS, "starts": 2, "search": replace(FIND, refine=1), "out": tmp_path / "run", "progress": False}

    def killed(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunFolder, "save_checkpoint", killed)
        invert(elsewhere(), film, [POSITION, VELOCITY, DRAG], **options)
    kept = json.loads((tmp_path / "run/start.json").read_text())
    monkeypatch.setattr(find_start.StartSteps, "losses", killed)
    result = invert(elsewhere(), film, [POSITION, VELOCITY, DRAG], **options)
    np.testing.assert_array_equal(result.initial, kept["starts"])
    (tmp_path / "run/result.json").unlink()
    (tmp_path / "run/start.json").write_text("{}")
    with pytest.raises(UserError, match="start.json is damaged: remove the folder"):
        invert(elsewhere(), film, [POSITION, VELOCITY, DRAG], **options)


def test_refusals(film: torch.Tensor) -> None:
    refusal = r"no start of a body is unknown.*block.position.*block.angular_velocity.*--warm-start pictures"
    with pytest.raises(UserError, match=refusal):
        invert(elsewhere(), film, [DRAG], search=FIND, progress=False)
    with pytest.raises(UserError, match="number 8 is the first to be compared"):
        invert(elsewhere(), film, [VELOCITY], bounds={VELOCITY: (-2.0, 2.0)}, sampling="last", search=FIND)
    two = {"bounds": {VELOCITY: (-2.0, 2.0)}, "loss": MatchedLoss()}
    with pytest.raises(UserError, match="the start of several films is looked for by pixels"):
        invert(Films(elsewhere(), 2, per_film=[VELOCITY]), [film, film], [VELOCITY], search=FIND, **two)
    with pytest.raises(UserError, match="candidates is 0"):
        FindStart(candidates=0)
    with pytest.raises(UserError, match="--solver pictures.frames belongs to --warm-start pictures"):
        warm_start_settings(argparse.Namespace(warm_start=[], solver=["pictures.frames=3"]))
    options = argparse.Namespace(warm_start=["pictures"], solver=["pictures.frames=3"])
    assert warm_start_settings(options) == (FindStart(frames=3), None)
