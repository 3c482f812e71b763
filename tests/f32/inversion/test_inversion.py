"""Inversion: numbers found from films, error bars against their scatter, what cannot be seen, runs that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import OptimiseSettings, Scene, UserError, film, invert, landscape, load_scene, simulate_video, write_frames
from risp_torch.__main__ import main
from risp_torch.files.run_folder import FinishedError, RunFolder
from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion import Uncertainty, Unknowns, error_bars, jacobian_along_eigenvectors, linearise
from studies.films import invert_cube
from tests.reference import small_scenes
from tests.reference.searches import pictures, quick
from ti_sim import DivergenceError, Param

STIFFNESS = "ground.contact.stiffness"
SMALL_TRUTH = {"block.density": 800.0, "ground.contact.friction": 0.3, STIFFNESS: 400.0}


def cube() -> Scene:
    """The die in 48 pixels, its edges as soft in pixels as in the full picture."""
    scene = load_scene("cube", size=48)
    scene.sigma *= (128 / 48) ** 2
    return scene


# -- the die --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undiagnosed")
def test_the_die_from_lossless_frames() -> None:
    scene = cube()
    target = pictures(scene)
    scene.set(STIFFNESS, 400.0)  # the scene's own value is not used
    starts = [{STIFFNESS: 500.0}, {STIFFNESS: 2000.0}]
    result = quick(scene, target, [STIFFNESS], starts=starts, steps=OptimiseSettings(iterations=15))
    assert abs(result.scaled_error({STIFFNESS: 1e3})[STIFFNESS]) <= 0.001
    assert sorted(result.status) == ["best", "same minimum"]
    np.testing.assert_allclose(np.log10(result.final[:, 0]), 3.0, atol=0.001)
    assert result.uncertainty.observable == [True] and result.uncertainty.unobservable == []


@pytest.mark.usefixtures("undiagnosed")
def test_the_die_from_a_compressed_film(tmp_path: Path) -> None:
    scene = cube()
    video = simulate_video(scene, tmp_path / "cube.mp4", crf=18)
    starts = [{STIFFNESS: 500.0}, {STIFFNESS: 2000.0}]
    result = quick(scene, video, [STIFFNESS], starts=starts, steps=OptimiseSettings(iterations=15))
    error = abs(result.scaled_error({STIFFNESS: 1e3})[STIFFNESS])
    assert error <= 0.01  # the tolerance of the demo, in decades
    assert error <= 4 * result.sd[STIFFNESS] and result.sd[STIFFNESS] < 0.01


def test_the_landscape_of_the_die_has_its_minimum_at_the_truth() -> None:
    scene = cube()
    (axis,), losses = landscape(scene, pictures(scene), [STIFFNESS], points=21, progress=False)
    assert losses.argmin() == 10 and axis[10] == pytest.approx(1e3)
    assert (np.diff(losses[:11]) < 0).all() and (np.diff(losses[10:]) > 0).all()  # one minimum over the whole range


def test_the_landscape_of_two_parameters() -> None:
    scene = small_scenes.make_scene()
    names = ["block.density", "ground.contact.friction"]
    axes, losses = landscape(scene, pictures(scene), names, points=5, progress=False)
    assert losses.shape == (5, 5) and np.unravel_index(losses.argmin(), (5, 5)) == (2, 2)
    assert axes[0][2] == pytest.approx(800.0) and axes[1][2] == pytest.approx(0.3)
    with torch.no_grad():  # first name first
        values = {names[0]: torch.tensor(axes[0][4]), names[1]: torch.tensor(axes[1][1])}
        loss = ((pictures(scene, values) - pictures(scene)) ** 2).mean()
    assert losses[4, 1] == pytest.approx(float(loss), rel=1e-4)


@pytest.mark.usefixtures("undiagnosed")
def test_the_scripted_inversion_runs(tmp_path: Path) -> None:
    error = invert_cube.main(str(tmp_path / "run"), iterations=2, size=40)
    assert abs(error) <= 0.01
    assert (tmp_path / "run" / "target.mp4").is_file() and (tmp_path / "run" / "run" / "result.json").is_file()


# -- the search -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undiagnosed")
@pytest.mark.parametrize(("optimizer", "iterations"), [("adam", 15), ("rmsprop", 25), ("lbfgs", 15)])
def test_every_optimizer_lowers_the_loss(optimizer: str, iterations: int) -> None:
    scene = small_scenes.make_scene()
    names = ["block.density", "ground.contact.friction"]
    starts = [dict(zip(names, values, strict=True)) for values in ((500.0, 0.2), (1300.0, 0.5))]
    settings = OptimiseSettings(optimizer=optimizer, iterations=iterations)
    result = quick(scene, pictures(scene), names, starts=starts, steps=settings, refine=0)
    assert len(result.history.losses) == len(result.history.values) == iterations
    assert result.history.losses[0].shape == (2,) and result.history.values[0].shape == (2, 2)
    first, last = result.history.losses[0].numpy(force=True), result.losses
    assert (last < 0.2 * first).all()
    np.testing.assert_allclose(result.history.values[0].numpy(force=True), [[500.0, 0.2], [1300.0, 0.5]], rtol=1e-4)


@pytest.mark.usefixtures("undiagnosed")
def test_a_growing_horizon() -> None:
    scene = small_scenes.make_scene()
    settings = OptimiseSettings(iterations=10, first_frames=1, growth=0.5)
    assert [settings.horizon(i, 4) for i in (0, 2, 5, 9)] == [1, 2, 4, 4]
    assert quick(scene, pictures(scene), ["block.density"], starts=2, steps=settings).losses.min() < 1e-7


@pytest.mark.usefixtures("undiagnosed")
def test_refinement_ends_at_the_truth_of_a_noiseless_film() -> None:
    scene = small_scenes.make_scene()
    settings = OptimiseSettings(iterations=1, learning_rate=1e-6)
    start = {name: value * factor for (name, value), factor in zip(SMALL_TRUTH.items(), (1.2, 0.85, 1.1), strict=True)}
    result = quick(scene, pictures(scene), list(SMALL_TRUTH), starts=[start], steps=settings)
    errors = result.scaled_error(SMALL_TRUTH)
    assert all(abs(error) < 1e-3 for error in errors.values()), errors


@pytest.mark.usefixtures("undiagnosed")
def test_vectors_are_found_entry_by_entry() -> None:
    scene = small_scenes.make_scene()
    settings = OptimiseSettings(iterations=1, learning_rate=1e-6)
    result = quick(scene, pictures(scene), ["block.velocity"], starts=[{"block.velocity": (0.4, 0.0, -0.7)}], steps=settings)
    labels = [f"block.velocity[{i}]" for i in range(3)]
    assert list(result.values) == labels and result.unknowns.units == ["m/s"] * 3
    np.testing.assert_allclose(list(result.values.values()), [0.5, 0.1, -0.8], atol=2e-3)


def test_starts_are_spread_over_the_range() -> None:
    unknowns = Unknowns.of(small_scenes.make_scene(), ["block.density", "block.velocity"])
    starts = unknowns.starts(4, seed=5)
    np.testing.assert_allclose(np.log10(starts[:, 0] / 80.0), 2 * np.array([0.125, 0.375, 0.625, 0.875]))
    for column in starts[:, 1:].T:
        np.testing.assert_allclose(np.sort(column), [-1.5, -0.5, 0.5, 1.5])
    np.testing.assert_array_equal(starts, unknowns.starts(4, seed=5))
    assert not np.array_equal(starts, unknowns.starts(4, seed=6))


def stiff_scene(low: float = 40.0) -> Scene:
    """The small scene with a range of stiffness that no step is small enough for at its upper end."""
    scene = small_scenes.make_scene()
    scene.table.params[STIFFNESS] = Param(max(400.0, low), low=low, high=1e38, scale="log10", unit="N/m")
    return scene


@pytest.mark.usefixtures("undiagnosed")
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "lbfgs"])
def test_a_diverging_start_is_marked_and_the_others_go_on(optimizer: str) -> None:
    scene = stiff_scene()
    settings = OptimiseSettings(optimizer=optimizer, iterations=6, learning_rate=0.005)
    starts = [{STIFFNESS: 1e37}, {STIFFNESS: 500.0}]
    result = quick(scene, pictures(small_scenes.make_scene()), [STIFFNESS], starts=starts, steps=settings)
    assert result.status == ["diverged", "best"] and result.best == 1
    assert np.isinf(result.losses[0]) and np.isnan(float(result.history.losses[0][0])) and np.isfinite(result.losses[1])
    assert abs(result.scaled_error({STIFFNESS: 400.0})[STIFFNESS]) < 0.05
    assert len(result.history.losses) == len(result.history.values) >= 6


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_an_inversion_with_no_start_left_says_where_it_diverged(optimizer: str) -> None:
    scene = stiff_scene(low=1e36)
    settings = OptimiseSettings(optimizer=optimizer, iterations=2)
    with pytest.raises(DivergenceError, match="'block' stopped being finite at step"):
        quick(scene, pictures(small_scenes.make_scene()), [STIFFNESS], starts=2, steps=settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unknown": ["block.position"]}, "block.position has no bounds"),
        ({"unknown": []}, "nothing is unknown"),
        ({"starts": [{"block.densty": 1.0}]}, "unknown unknown|unknown .*'block.densty'"),
        ({"starts": [{"block.density": 1e9}]}, "start of block.density: .*outside its bounds"),
        ({"starts": 0}, "starts is 0: give a whole number of at least 1"),
        ({"video": np.zeros((5, 16, 15, 3), np.float32)}, r"shape \(5, 16, 15, 3\), and the scene's films have \(5, 16, 16, 3\)"),
        ({"search": {"optimizer": "sgd"}}, "optimizer 'sgd' is unknown"),
        ({"search": {"iterations": 0}}, "iterations is 0"),
        ({"search": {"learning_rate": 0.0}}, "learning_rate is 0"),
        ({"search": {"first_frames": 0}}, "first_frames is 0"),
    ],
)
def test_errors_name_what_is_wrong(options: dict[str, object], message: str) -> None:
    scene = small_scenes.make_scene()
    given = {"video": np.zeros((5, 16, 16, 3), np.float32), "unknown": ["block.density"], "progress": False} | options
    with pytest.raises(UserError, match=message):
        invert(scene, **given | ({"search": OptimiseSettings(**options["search"])} if "search" in options else {}))


# -- error bars -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undiagnosed")
def test_error_bars_predict_the_scatter_over_noise() -> None:
    """Estimates from films with known Gaussian noise, 8 seeds of 3 unknowns: their errors against the predicted ones."""
    scene = small_scenes.make_scene()
    clean = pictures(scene)
    settings = OptimiseSettings(iterations=1, learning_rate=1e-6)  # refinement alone
    ratios = []
    for seed in range(8):
        noise = 0.02 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed)).to(clean)
        result = quick(scene, clean + noise, list(SMALL_TRUTH), starts=[SMALL_TRUTH], steps=settings)
        errors = result.scaled_error(SMALL_TRUTH)
        assert all(result.uncertainty.observable)
        ratios.append([errors[name] / result.sd[name] for name in SMALL_TRUTH])
    rms = np.sqrt(np.mean(np.square(ratios), axis=0))
    assert ((rms > 0.5) & (rms < 2.0)).all(), rms


def test_error_bars_grow_with_the_noise() -> None:
    scene = small_scenes.make_scene()
    unknowns = Unknowns.of(scene, list(SMALL_TRUTH))
    noise = torch.randn(pictures(scene).shape, generator=torch.Generator().manual_seed(0)).to(pictures(scene))
    bars = [
        error_bars(linearise(scene, pictures(scene) + size * noise, unknowns, np.array([*SMALL_TRUTH.values()])), unknowns).sd
        for size in (0.01, 0.04)
    ]
    np.testing.assert_allclose(bars[1] / bars[0], 4.0, rtol=0.02)


def test_the_image_jacobian_is_the_derivative_of_the_film() -> None:
    scene = small_scenes.make_scene()
    unknowns = Unknowns.of(scene, ["block.density", "block.velocity"])
    # Of the usual step, a thousandth of the range, second derivatives of 16 pixels are seen: up to 9 % of a column.
    at = linearise(scene, pictures(scene), unknowns, unknowns.current(), step=1e-4)
    z = torch.tensor(unknowns.scaled(unknowns.current())[None], dtype=torch.float32, requires_grad=True)
    values = unknowns.from_scaled(z)
    weights = torch.randn(pictures(scene).shape, generator=torch.Generator().manual_seed(2)).to(pictures(scene))
    (film(scene, values, worlds=1, frames=scene.frames)[0][0] * weights).sum().backward()
    error = (at.jacobian.T @ weights.flatten()).numpy(force=True) - z.grad[0].cpu().numpy() * unknowns.scaled_range()
    # A random sum of a column is as large as the column is long.
    assert (np.abs(error) < 0.02 * at.jacobian.norm(dim=0).numpy(force=True)).all(), error
    assert at.loss < 1e-10


# -- what a film cannot tell ----------------------------------------------------------------------------------------------

SCALED_TOGETHER = ["body.density", STIFFNESS, "ground.contact.damping", "ground.contact.friction_stiffness"]


def seen_in_toss(impulse: tuple[float, float, float]) -> Uncertainty:
    scene = load_scene("toss", size=32, impulse=impulse)
    unknowns = Unknowns.of(scene, SCALED_TOGETHER)
    at = linearise(scene, pictures(scene), unknowns, unknowns.current())
    return error_bars(jacobian_along_eigenvectors(scene, unknowns, at), unknowns)


def test_without_a_push_density_and_contact_are_seen_up_to_a_common_scale() -> None:
    bars = seen_in_toss((0.0, 0.0, 0.0))
    (sentence,) = bars.unobservable
    assert "only up to a common scale (error bar " in sentence and "ranges" in sentence, sentence
    assert all(name in sentence for name in SCALED_TOGETHER)
    assert bars.observable == [False] * 4


def test_with_the_push_they_are_seen() -> None:
    bars = seen_in_toss((0.003, 0.009, 0.003))
    assert not any("common scale" in sentence for sentence in bars.unobservable)
    assert bars.observable[0]


def test_a_parameter_without_a_trace_is_reported() -> None:
    scene = small_scenes.make_scene(height=0.06)  # no contact within the film
    unknowns = Unknowns.of(scene, ["block.velocity", "ground.contact.friction"])
    bars = error_bars(linearise(scene, pictures(scene), unknowns, unknowns.current()), unknowns)
    assert bars.observable == [True, True, True, False]
    (sentence,) = bars.unobservable
    assert sentence == "ground.contact.friction leaves no trace in the film at this estimate (error bar above 10 times its range)"
    assert bars.observable_modes == 3 and bars.modes.shape == (4, 4) and abs(bars.modes[3, 3]) == pytest.approx(1.0)


# -- runs that are killed -------------------------------------------------------------------------------------------------

ITERATIONS = 30


@pytest.mark.usefixtures("undiagnosed", "unplotted")
@pytest.mark.processes
def test_a_killed_inversion_resumes_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(small_scenes.__file__, tmp_path / "small.py")
    scene = load_scene(str(tmp_path / "small.py"))
    video = tmp_path / "film"
    write_frames(video, pictures(scene), fps=scene.fps)
    names = ["block.density", "ground.contact.friction"]
    arguments = [
        "invert", "small.py", "--video", str(video), "--unknown", *names, "--starts", "2", "--iterations", str(ITERATIONS),
        "--search", "adam", "--seed", "1", "--device", "cpu", "--out", "run",
    ]  # fmt: skip
    run = tmp_path / "run"
    checkpoint = run / "checkpoint.safetensors"
    command = [sys.executable, "-m", "risp_torch", *arguments]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 600  # kernels are compiled first
        while not checkpoint.is_file():
            assert process.poll() is None and time.monotonic() < deadline, "the run ended before its first checkpoint"
            time.sleep(0.005)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (run / "result.json").exists()
    folder = RunFolder(run, RunFolder(run, {}).read_settings())
    before = SearchCheckpoint(folder, "search").load()
    losses = torch.stack(before["history"]["losses"])
    assert 10 <= before["search"]["iteration"] < ITERATIONS
    assert len(losses) == before["search"]["iteration"]

    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    after = SearchCheckpoint(folder, "search").load()
    assert after["search"]["iteration"] == ITERATIONS
    finished = torch.stack(after["history"]["losses"])
    assert finished.shape == (ITERATIONS, 2)
    torch.testing.assert_close(finished[: len(losses)], losses, rtol=0, atol=0)  # not run again
    resumed = folder.read_result()

    whole = quick(scene, video, names, starts=2, steps=OptimiseSettings(iterations=ITERATIONS), seed=1, out=tmp_path / "whole")
    for name in names:
        assert resumed["unknowns"][name]["value"] == pytest.approx(whole.values[name], rel=1e-3)
    assert resumed["starts"][resumed["best"]]["loss"] == pytest.approx(whole.losses[whole.best], rel=1e-3)
    # The optimiser's memory came back too: the search went the same way, up to the order in which threads add.
    torch.testing.assert_close(finished, torch.stack(whole.history.losses[:ITERATIONS]), rtol=0.02, atol=1e-7)


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_a_finished_search_resumes_at_once(tmp_path: Path) -> None:
    scene = small_scenes.make_scene()
    target = pictures(scene)
    options = {"starts": 2, "steps": OptimiseSettings(iterations=10), "out": tmp_path / "run"}
    first = quick(scene, target, ["block.density"], **options)
    (tmp_path / "run" / "result.json").unlink()  # killed after the search, before the report
    again = quick(scene, target, ["block.density"], **options)
    assert again.values["block.density"] == pytest.approx(first.values["block.density"], rel=1e-5)
    torch.testing.assert_close(torch.stack(again.history.losses[:10]), torch.stack(first.history.losses[:10]))
    with pytest.raises(FinishedError, match="holds this run, already finished"):
        quick(scene, target, ["block.density"], **options)
