"""Whether an inversion has arrived, whether what it found fits the film, and the search over a growing horizon."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import (
    Checkpoint,
    Inversion,
    NewtonSteps,
    OptimiseSettings,
    PixelLoss,
    UserError,
    WideSteps,
    film,
    invert,
    simulate_video,
)
from risp_torch.files.run_folder import RESULT_SCHEMA, FinishedError, RunFolder
from risp_torch.files.video import write_frames
from risp_torch.inversion import Comparison, Unknowns, linearise
from risp_torch.inversion.problem.films.rendered_film import film_at
from risp_torch.inversion.problem.films.target import load_target
from risp_torch.inversion.problem.linearisation import newton_step
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_stages import usual_search
from risp_torch.inversion.run import assessment
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty import error_bars as bars_module
from risp_torch.inversion.uncertainty import misfit
from risp_torch.inversion.uncertainty.compression import CompressedFilm, Encoder, compressed_films, compression_moves
from risp_torch.inversion.uncertainty.distance import distance_in_newton_steps, distance_in_steps
from risp_torch.inversion.uncertainty.misfit import MISFIT_RATIO
from risp_torch.least_squares.horizon import GrowingHorizon
from tests.reference import small_scenes
from tests.reference.searches import quick
from ti_sim import StoreAll

DENSITY, FRICTION, STIFFNESS = "block.density", "ground.contact.friction", "ground.contact.stiffness"
TRUTH = {DENSITY: 800.0, FRICTION: 0.3, STIFFNESS: 400.0}
FAR = [{DENSITY: 5000.0, FRICTION: 1.5, STIFFNESS: 1500.0}, {DENSITY: 200.0, FRICTION: 0.06, STIFFNESS: 150.0}]


def found(target: object, names: list[str], **options: object) -> Inversion:
    return quick(small_scenes.make_scene(), target, names, **options)


# -- arrival --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy(target: torch.Tensor) -> torch.Tensor:
    """The film with noise."""
    return target + 0.005 * torch.randn(target.shape, generator=torch.Generator().manual_seed(0)).to(target)


@pytest.mark.usefixtures("undiagnosed")
@pytest.mark.parametrize("guess", [150.0, 300.0, 3000.0])
def test_an_unfinished_search_has_an_error_bar_that_covers(guess: float, noisy: torch.Tensor) -> None:
    options = {"starts": [{DENSITY: guess}], "steps": OptimiseSettings(iterations=3), "refine": 0}
    result = found(noisy, [DENSITY], **options)
    assert result.converged is False and result.doubts[0].startswith("not converged: the next Gauss-Newton step would move")
    error = np.log10(result.values[DENSITY] / TRUTH[DENSITY])
    assert 0.02 < abs(error) <= 2 * result.sd[DENSITY]


def test_a_finished_search_has_no_doubts(noisy: torch.Tensor) -> None:
    arrived = found(noisy, [DENSITY], starts=[{DENSITY: 1000.0}], steps=OptimiseSettings(iterations=3))
    assert arrived.converged is True and arrived.doubts == [] and arrived.fits is True
    assert abs(np.log10(arrived.values[DENSITY] / TRUTH[DENSITY])) <= 3 * arrived.sd[DENSITY] < 0.06


def test_a_guess_that_nothing_moves_is_no_answer(target: torch.Tensor) -> None:
    """The block of this scene flies above the picture: nothing that is unknown changes it."""
    scene = small_scenes.make_scene(height=0.5)
    result = invert(scene, target, [FRICTION], starts=[{FRICTION: 0.1}, {FRICTION: 1.0}], progress=False)
    assert result.fits is False and result.misfit > 5 * MISFIT_RATIO
    assert result.doubts[0].startswith("nothing fits this film: the best start, a guess that no step has changed, leaves ")


def test_what_noise_explains_is_no_misfit(target: torch.Tensor) -> None:
    noisy = (target + 0.03 * torch.randn(target.shape, generator=torch.Generator().manual_seed(1)).to(target)).clamp(0.0, 1.0)
    assert 0.5 < found(noisy, [DENSITY], starts=[{DENSITY: 700.0}]).misfit < 1.6


@pytest.mark.usefixtures("unplotted")
def test_strict_and_the_result_say_so(command_line: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    file = tmp_path / "small.py"
    file.write_text(Path(small_scenes.__file__).read_text())
    with torch.no_grad():
        pictures, _ = film(small_scenes.make_scene(), {}, worlds=1, frames=4)
    write_frames(tmp_path / "film", pictures[0], fps=200)
    video = tmp_path / "film"
    arguments = ["invert", file, "--video", video, "--unknown", DENSITY, "--starts", 2, "--strict", "--out"]
    early = ["--search", "adam", "--iterations", 1, "--solver", "refine=0"]
    status, out, _ = command_line(*arguments, tmp_path / "early", *early)
    assert status == 1 and out.startswith("not converged: ")
    record = json.loads((tmp_path / "early" / "result.json").read_text())
    assert record["schema"] == RESULT_SCHEMA and record["converged"] is False and record["doubts"][0].startswith("not converged")
    again = [*arguments, tmp_path / "early", *early]
    status, out, _ = command_line(*again)  # finished: it is not looked for again, and no better for that
    assert status == 1 and out.startswith("not converged: ") and "already finished: look at the files in it" in out
    assert command_line(*(word for word in again if word != "--strict"))[0] == 0
    status, out, error = command_line(*arguments, tmp_path / "whole")
    record = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert status == 0 and record["converged"] is True and record["fits"] is True and record["doubts"] == [], out + error
    assert command_line(*arguments, tmp_path / "whole")[0] == 0
    for wrong, words in (
        (["--solver", "refine=-1"], "--solver refine is -1: give a whole number"),
        (["--solver", "first_frames=99"], "first_frames is 99, and the film has 4 frame intervals"),
        (["--search", "lm", "--solver", "learning_rate=0.1"], "--solver learning_rate belongs to --search adam"),
    ):
        status, _, error = command_line(*arguments, tmp_path / "none", *wrong)
        assert status == 2 and words in error


def test_an_estimate_that_repeats_a_picture_is_compressed_without_a_warning() -> None:
    loss = SimpleNamespace(compared=lambda pictures, _frames: pictures)
    comparison = SimpleNamespace(loss=loss, frames=range(9), observation_count=1)
    levels = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        film = Encoder(comparison, levels[:, None, None, None].expand(9, 16, 16, 3), 30.0).film(23.0)
    assert len(film.residual) == 9 * 16 * 16 * 3


def test_compression_is_read_as_a_move_of_the_estimate(tmp_path: Path) -> None:
    """Of films that went through the encoder the one whose errors are as large as the residual moves the estimate by its step."""
    scene = small_scenes.make_scene(size=32)
    target = load_target(scene, simulate_video(scene, tmp_path / "film.mp4", crf=28))
    comparison, unknowns = Comparison.of(scene, PixelLoss(), target), Unknowns.of(scene, [DENSITY, FRICTION])
    at = linearise(scene, comparison, unknowns, unknowns.current())
    films = compressed_films(Encoder(comparison, film_at(scene, unknowns, unknowns.current(), PixelLoss()), 1 / scene.frame_dt))
    powers, sizes = [film.power for film in films], [film.bytes_per_frame for film in films]
    assert 0 < powers[0] < powers[4] < powers[-1] and sizes[0] > sizes[4] > sizes[-1]
    own = CompressedFilm(sizes[4], at.residual)
    moves = compression_moves(at, [films[0], own, films[-1]])
    np.testing.assert_allclose(moves[0], newton_step(at), rtol=1e-6)
    assert moves.shape == (3, 2) and (np.abs(moves) > 1e-8).all()


@pytest.mark.parametrize(("density", "crf"), [(800.0, 23), (2000.0, 30)])
def test_error_bars_of_compressed_films_hold(density: float, crf: float, tmp_path: Path) -> None:
    """Compression blurs or drops small motions: the film's loss is flatter than its Gauss-Newton model, up to 30 times."""
    scene = small_scenes.make_scene(size=32, density=density)
    video = simulate_video(scene, tmp_path / "film.mp4", crf=crf)
    result = invert(scene, video, [DENSITY], starts=[{DENSITY: 1.3 * density}], progress=False)
    error = abs(result.scaled_error({DENSITY: density})[DENSITY])
    assert 1e-3 < error <= 2 * result.sd[DENSITY] and result.doubts == []


@pytest.mark.usefixtures("undiagnosed")
def test_error_bars_are_those_of_the_start_that_is_reported(target: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """After wide steps a start that was stopped may have the lower loss at one point."""
    seen = []

    def spied(scene: object, comparison: object, unknowns: object, physical: np.ndarray, **options: object) -> object:
        seen.append(physical.copy())
        return linearise(scene, comparison, unknowns, physical, **options)

    scene, unknowns = small_scenes.make_scene(), Unknowns.of(small_scenes.make_scene(), [DENSITY])
    comparison, final = Comparison.of(scene, PixelLoss(), target), np.array([[800.0], [1000.0]])
    asked = []

    def arrived(bars: object, unknowns: object, step: object, **options: object) -> object:
        asked.append((options["residual_fraction"], options["distance"]))
        return bars, []

    monkeypatch.setattr(bars_module, "linearise", spied)
    monkeypatch.setattr(misfit, "noise_variance", lambda *given: 1e-6)
    monkeypatch.setattr(bars_module, "widened_by_distance", arrived)
    problem = Problem.of(scene, target, [DENSITY], starts=[{DENSITY: value} for value in final[:, 0]])
    ends = SearchResult(final, np.array([1e-9, 1e-4]), 1, problem.comparison, problem.unknowns, History())
    found = assessment.assess(problem, ends).misfit
    assert [row.tolist() for row in seen] == [[1000.0]]
    # Of the residual the part that noise and rounding explain stays: bars there are narrower by its root mean square.
    at = linearise(scene, comparison, unknowns, final[1])
    estimate = film_at(scene, unknowns, final[1], PixelLoss())
    explained = 1e-6 + misfit.rounding_error(at, estimate)  # of linear colours, which steps of sRGB differ in
    assert (1 / 255) ** 2 / 12 < explained < 0.5 * at.loss and found == pytest.approx(at.loss / explained, rel=1e-4)
    (fit, times), falls = asked[0], float((at.jacobian @ torch.as_tensor(newton_step(at)).to(at.jacobian)).square().mean())
    assert fit == pytest.approx(np.sqrt(explained / at.loss), rel=1e-4)
    assert 2.0 < times <= (at.loss - explained) / falls * (1 + 1e-3)


def test_what_the_scene_lacks_is_no_distance(target: torch.Tensor) -> None:
    """A bright spot that stays is most of the residual: where a step does not lower the loss, the minimum is not farther."""
    scene, unknowns = small_scenes.make_scene(), Unknowns.of(small_scenes.make_scene(), [DENSITY])
    spoiled = target.clone()
    spoiled[:, :4, :4] = 0.0
    comparison = Comparison.of(scene, PixelLoss(), spoiled)
    at = linearise(scene, comparison, unknowns, np.array([800.0]))
    most = distance_in_steps(at, np.array([1e-3]), 1e-6)
    assert most > 1e3
    assert distance_in_newton_steps(scene, unknowns, at, np.array([1e-3]), most) == 1.0
    at = linearise(scene, comparison, unknowns, np.array([1000.0]))
    short = 0.05 * newton_step(at)
    assert (
        abs(short[0]) * distance_in_newton_steps(scene, unknowns, at, short, most) > np.log10(1000 / 800) / 2
    )  # of a range of two decades
    assert (
        distance_in_newton_steps(scene, unknowns, at, short, 1.0)
        == distance_in_newton_steps(scene, unknowns, at, np.zeros(1), most)
        == 1.0
    )


# -- the search over a growing horizon ------------------------------------------------------------------------------------


def test_unknowns_that_go_together_are_found_from_afar(target: torch.Tensor) -> None:
    result = found(target, list(TRUTH), starts=FAR, refine=3)
    assert isinstance(usual_search(PixelLoss(), 3), NewtonSteps) and isinstance(usual_search(PixelLoss(), 41), OptimiseSettings)
    errors = result.scaled_error(TRUTH)
    assert all(abs(error) < 2e-3 for error in errors.values()), errors
    assert result.converged is True and result.fits is True and result.doubts == []


@pytest.mark.usefixtures("undiagnosed")
def test_a_start_that_stops_is_not_followed(target: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where a start is stopped its losses and values are NaN; its last place stays."""

    rounds = itertools.count()

    def second_stops(_: GrowingHorizon, reached: np.ndarray, active: np.ndarray) -> np.ndarray:
        return np.array([False, next(rounds) >= 3])

    monkeypatch.setattr(GrowingHorizon, "stopped", second_stops)
    result = found(target, list(TRUTH), starts=FAR, refine=0)
    assert result.status == ["best", "stopped early"] and result.history.stopped == [1]
    losses, values = (torch.stack(rows) for rows in (result.history.losses, result.history.values))
    ended = losses[:, 1].isnan()
    assert ended[-1] and not ended[0] and (values[:, 1].isnan().all(dim=1) == ended).all() and values[:, 0].isfinite().all()
    assert np.isfinite(result.final).all()


SEARCHES = {
    "newton": NewtonSteps(rounds=6, first_frames=2),
    "wide": WideSteps(widths=(0.1, 0.1, 0.05, 0.05), settling_rounds=2, trial_rounds=2),
    "lbfgs": OptimiseSettings(optimizer="lbfgs", iterations=3),
    "adam": OptimiseSettings(iterations=10),
}


RESUMED = {"starts": [{DENSITY: 200.0}, {DENSITY: 3000.0}], "refine": 2}


@pytest.fixture(scope="module")
def uninterrupted(target: torch.Tensor) -> Callable[[str], Inversion]:
    """Results of searches by name, each computed once."""
    return cache(lambda search: found(target, [DENSITY], **RESUMED, steps=SEARCHES[search]))


@pytest.mark.usefixtures("undiagnosed", "unplotted")
@pytest.mark.parametrize(("search", "saves"), [("newton", 2), ("wide", 3), ("lbfgs", 4), ("adam", 1), ("adam", 2), ("wide", 6)])
def test_every_search_resumes_to_the_byte(
    search: str, saves: int, target: torch.Tensor, uninterrupted: Callable[[str], Inversion], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Interrupted in the search, or in its refinement."""
    save, calls = RunFolder.save_checkpoint, []

    def killed(self: RunFolder, *given: object) -> None:
        save(self, *given)
        calls.append(given)
        if len(calls) == saves:
            raise KeyboardInterrupt

    options = RESUMED | {"steps": SEARCHES[search]}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunFolder, "save_checkpoint", killed)
        found(target, [DENSITY], **options, out=tmp_path)
    resumed, straight = found(target, [DENSITY], **options, out=tmp_path), uninterrupted(search)
    assert resumed.final.tobytes() == straight.final.tobytes() and resumed.losses.tobytes() == straight.losses.tobytes()
    assert resumed.status == straight.status and len(resumed.history.losses) == len(straight.history.losses)
    for column in ("losses", "values"):
        rows = zip(getattr(resumed.history, column), getattr(straight.history, column), strict=True)
        assert all(torch.equal(one.nan_to_num(-1.0), other.nan_to_num(-1.0)) for one, other in rows)


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_the_storage_of_states_changes_no_result_and_resumes(target: torch.Tensor, tmp_path: Path) -> None:
    stored, recomputed = (OptimiseSettings(iterations=2, adjoint=adjoint) for adjoint in (StoreAll(), Checkpoint(every=3)))
    result = found(target, [DENSITY], starts=1, steps=stored, refine=0, out=tmp_path)
    assert found(target, [DENSITY], starts=1, steps=recomputed, refine=0).values == pytest.approx(result.values, rel=1e-5)
    with pytest.raises(FinishedError):
        found(target, [DENSITY], starts=1, steps=recomputed, refine=0, out=tmp_path)


@pytest.mark.usefixtures("undiagnosed")
def test_starts_that_diverge_stay(target: torch.Tensor) -> None:
    bounds = {STIFFNESS: (40.0, 1e38, "log10")}
    options = {"bounds": bounds, "starts": [{STIFFNESS: 1e37}, {STIFFNESS: 500.0}], "steps": NewtonSteps(first_frames=4)}
    result = found(target, [STIFFNESS], **options)
    assert result.status == ["diverged", "best"] and result.final[0, 0] == pytest.approx(1e37, rel=1e-3)
    assert np.log10(result.values[STIFFNESS] / 400.0) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"refine": -1}, "refine is -1"), ({"steps": NewtonSteps(first_frames=9)}, "first_frames is 9, and the film has 4")],
)
def test_settings_that_make_no_sense(options: dict[str, object], words: str, target: torch.Tensor) -> None:
    with pytest.raises(UserError, match=words):
        found(target, [DENSITY], **options)
