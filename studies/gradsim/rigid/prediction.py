"""Predictions: numbers from the first half of a film, then the rest of the film, and the same object thrown in another way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from risp_torch import Scene, film, read_video, write_video
from risp_torch.files.report import figure_file, write_strip
from studies.gradsim.cells import FAILED, Cell, run_cells
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import CRF, INSIDE, Preset
from studies.gradsim.rigid.identify import identify
from studies.gradsim.tosses import FRAMES, NUMBERS, OBJECTS, RANGES, Toss, draw_toss, shaped, toss_scene
from studies.markdown import markdown

HALF = FRAMES // 2
OTHER = 1000  # turns of the list of objects between a toss and the draw of its new start: no study draws so many
METHODS = ("estimate", "average numbers", "constant velocity")
TASKS = {"rest": "the rest of the film", "new": "a new throw"}
SOURCES = ("lossless", "mp4")  # of the film: as it is, or H.264
MIN_LOSS = 1e-8  # mean squared difference of pictures that are alike to the last digits of single precision: 80 dB


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of predictions.

    Args:
        name: of the page.
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    cells = [
        Cell(
            f"prediction/{source}-{index:03d}", predict_cell,
            {"index": index, "source": source, "seed": preset.seed, "size": preset.size, "frames": FRAMES, "half": HALF},
        )
        for source in SOURCES
        for index in range(preset.predictions)
    ]  # fmt: skip
    results = run_cells(cells, folder, jobs=jobs, title=name)
    done = [(cell.given, result) for cell, result in zip(cells, results, strict=True) if FAILED not in result]
    if not done:
        return Page(name, f"# Predictions\n\nNo toss was predicted: {results[0][FAILED]}\n")
    (folder / "prediction").mkdir(parents=True, exist_ok=True)
    pictures = {f"{key}.png": folder / "prediction" / f"{key}.png" for key in ("errors", "strip")}
    lossy = [result for arguments, result in done if arguments["source"] == SOURCES[-1]]
    draw_errors(pictures["errors.png"], lossy or [result for _, result in done])
    draw_strip(pictures["strip.png"], *done[-1])
    return Page(name, page_text(name, preset, done, len(cells)), pictures)


def predict_cell(*, index: int, source: str, seed: int, size: int, frames: int, half: int) -> dict[str, Any]:
    """Errors of predictions for one toss.

    Args:
        index, seed: of the toss (``draw_toss``).
        source: of ``SOURCES``.
        size: side of the pictures [pixels].
        frames: intervals of the whole film.
        half: intervals of the part that the numbers are read from.
    """
    toss = draw_toss(index, seed=seed)
    watched = toss_scene(toss, size=size, frames=half)
    with torch.no_grad():
        video = film(watched, {}, worlds=1, frames=half)[0][0]
    with TemporaryDirectory() as folder:
        film_source: torch.Tensor | Path = video
        pictures = None
        if source == "mp4":
            film_source = Path(folder) / "film.mp4"
            write_video(film_source, video, fps=1 / watched.frame_dt, crf=CRF)
            pictures = torch.as_tensor(read_video(film_source)).to(video)
        result = identify(watched, film_source, middle(toss), random=np.random.default_rng([seed, index, 2]), lossless=pictures)
    error = result.scaled_error(toss.values)
    throws = {"rest": toss, "new": thrown_anew(toss, index, seed=seed)}
    scenes = {task: toss_scene(throw, size=size, frames=frames) for task, throw in throws.items()}
    tried = {"estimate": dict(result.values), "average numbers": average(toss)}
    return {
        "shape": toss.shape, "found": dict(result.values), "truth": dict(toss.values),
        "error": error, "bar": {name: result.sd[name] for name in NUMBERS},
        "tasks": {
            task: errors_over_time(scene, tried, since=half if task == "rest" else 0, length=longest(toss))
            for task, scene in scenes.items()
        },
    }


def middle(toss: Toss) -> dict[str, float]:
    """The start of an inversion: the geometric middle of the drawn range of each number."""
    return {name: float(np.sqrt(np.prod(RANGES[toss.units].of(name)))) for name in NUMBERS}


def average(toss: Toss) -> dict[str, float]:
    """The mean of the drawn range of each number."""
    return {name: float(np.mean(RANGES[toss.units].of(name))) for name in NUMBERS}


def longest(toss: Toss) -> float:
    """Longest side of the object [m]."""
    return float(np.ptp(shaped(toss.shape, toss.sides).mesh().vertices, axis=0).max())


def thrown_anew(toss: Toss, index: int, *, seed: int) -> Toss:
    """The same object with the same numbers, and the start and the push of another draw.

    The push is scaled with the object's volume, and its point with the object's sides.
    """
    drawn = draw_toss(index + OTHER * len(OBJECTS), seed=seed)
    larger = toss.volume / drawn.volume
    sides = np.array(toss.sides) / np.array(drawn.sides)
    return replace(
        toss, position=drawn.position, orientation=drawn.orientation, velocity=drawn.velocity,
        angular_velocity=drawn.angular_velocity, impulse=tuple((larger * np.array(drawn.impulse)).tolist()),
        point=tuple((sides * np.array(drawn.point)).tolist()),
    )  # fmt: skip


def errors_over_time(
    scene: Scene, tried: Mapping[str, Mapping[str, float]], *, since: int, length: float
) -> dict[str, dict[str, list[float]]]:
    """Errors of predicted motions at the frames after ``since``.

    Args:
        scene: with the true numbers.
        tried: name of a method -> its numbers.
        since: first frame that counts; the constant velocity starts from the true state there.
        length: of the body [m].

    Returns:
        Method -> "position" [parts of the length], "angle" [degrees], "squared" (mean squared difference of pictures) -> frames.
    """
    with torch.no_grad():
        truth = scene.rollout(worlds=1)
        poses = {name: _rolled_out(scene, values) for name, values in tried.items()}
        poses["constant velocity"] = coasting(truth.body_q[0], truth.body_qd[0], since=since, frame_dt=scene.frame_dt)
        rendered = scene.render(truth)[0, since:]
        errors = {}
        for method, pose in poses.items():
            pictures = scene.render(pose[None])[0, since:]
            off = pose[since:, 0, :3] - truth.body_q[0, since:, 0, :3]
            errors[method] = {
                "position": (off.norm(dim=-1) / length).tolist(),
                "angle": turn_between(pose[since:, 0, 3:], truth.body_q[0, since:, 0, 3:]).tolist(),
                "squared": (pictures - rendered).square().mean(dim=(1, 2, 3)).tolist(),
            }
    return errors


def _rolled_out(scene: Scene, values: Mapping[str, float]) -> torch.Tensor:
    parameters = {name: torch.tensor([value], dtype=torch.float32) for name, value in values.items()}
    return scene.rollout(parameters, worlds=1).body_q[0]


def coasting(body_q: torch.Tensor, body_qd: torch.Tensor, *, since: int, frame_dt: float) -> torch.Tensor:
    """Poses [T, 1, 7] that go on from a frame with its velocity and angular velocity; those before are the given ones.

    Args:
        body_q: [T, 1, 7] poses [m, quaternions x y z w].
        body_qd: [T, 1, 6] velocities and angular velocities, world frame [m/s, rad/s].
        since: number of the frame.
        frame_dt: s.
    """
    poses = body_q.clone()
    times = frame_dt * torch.arange(len(body_q) - since, dtype=body_q.dtype)[:, None]
    velocity, spin = body_qd[since, 0, :3], body_qd[since, 0, 3:]
    poses[since:, 0, :3] = body_q[since, 0, :3] + times * velocity
    angle = times * spin.norm()
    axis = spin / spin.norm().clamp_min(1e-12)
    poses[since:, 0, 3:] = _product(torch.cat([torch.sin(angle / 2) * axis, torch.cos(angle / 2)], dim=1), body_q[since, 0, 3:])
    return poses


def _product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Products of quaternions (x, y, z, w), [T, 4] and [4]."""
    a, b = first[:, :3], second[:3].expand(len(first), 3)
    scalar = first[:, 3:] * second[3] - (a * b).sum(dim=1, keepdim=True)
    return torch.cat([first[:, 3:] * b + second[3] * a + torch.linalg.cross(a, b), scalar], dim=1)


def turn_between(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """[T] angles of the turns between orientations [T, 4] [degrees]."""
    a, b = (q.double() / q.double().norm(dim=-1, keepdim=True) for q in (first, second))
    nearer = torch.where((a * b).sum(dim=-1, keepdim=True) < 0, -b, b)
    return torch.rad2deg(4 * torch.atan2((a - nearer).norm(dim=-1), (a + nearer).norm(dim=-1)))


def draw_errors(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Medians over the tosses of all errors, over time."""
    panels = {"position": "position [% of the length]", "angle": "orientation [degrees]", "squared": "pictures: PSNR [dB]"}
    with figure_file(path, 13.0, 6.4) as figure:
        grid = figure.subplots(2, 3)
        for row, (task, title) in zip(grid, TASKS.items(), strict=True):
            for axes, (kind, label) in zip(row, panels.items(), strict=True):
                for method in METHODS:
                    rows = np.array([shown(kind, result["tasks"][task][method][kind]) for result in results])
                    times = (np.arange(rows.shape[1]) + (HALF if task == "rest" else 0)) / 30
                    (line,) = axes.plot(times, np.median(rows, axis=0), linewidth=2.0, label=method)
                    axes.fill_between(times, rows.min(axis=0), rows.max(axis=0), alpha=0.15, color=line.get_color(), linewidth=0)
                if kind != "squared":
                    axes.set_yscale("log", nonpositive="mask")
                axes.set(xlabel="time of the film [s]", ylabel=label)
                axes.set_title(title)
        grid[0, 0].legend()


def shown(kind: str, values: Sequence[float]) -> np.ndarray:
    """Errors in the unit of plots and tables: per cent, degrees, dB."""
    errors = np.array(values)
    if kind == "position":
        return 100 * errors
    return -10 * np.log10(np.maximum(errors, MIN_LOSS)) if kind == "squared" else errors


def draw_strip(path: Path, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """The new throw of a toss: truth, prediction and their difference."""
    toss = thrown_anew(draw_toss(arguments["index"], seed=arguments["seed"]), arguments["index"], seed=arguments["seed"])
    scene = toss_scene(toss, size=arguments["size"], frames=arguments["frames"])
    with torch.no_grad():
        truth = scene.render(scene.rollout(worlds=1))[0]
        predicted = scene.render(_rolled_out(scene, result["found"])[None])[0]
    write_strip(path, truth, predicted, fps=1 / scene.frame_dt)


def page_text(name: str, preset: Preset, done: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], num_cells: int) -> str:
    """The page."""
    head = ("film", "predicted", "by", "position: mean %", "last %", "turn: mean deg", "last deg", "PSNR: mean dB", "last dB")
    numbers = [f"error of {short}" for short in NUMBERS.values()]
    headers = ("film", "object", *numbers, "position at the end: %", "by average numbers", "turn: deg", "by average", "seconds")
    sides = (
        f"{source}: {_within([result for drawn, result in done if drawn['source'] == source])} errors" for source in SOURCES
    )
    return f"""# Predictions

The numbers of a toss are read from the first {HALF + 1} of {FRAMES + 1} frames of its film ({preset.size} pixels). With them, the
rest of the film is predicted, and a throw of the same object with another start and another push, which are known. The
search starts from the geometric middle of the drawn ranges, and of compressed films from further drawn starts
(`identify.py`). {len(done)} of {num_cells} films were inverted.

{markdown(head, summary_rows(done))}

Medians over the tosses of the mean over the predicted frames, and of the last frame; positions in per cent of the object's
longest side. "Average numbers" are the means of the drawn ranges; "constant velocity" goes on from the true state at frame {HALF}
of the film, or from the known start of the new throw, with the velocity and angular velocity there. PSNR is cut at
{-10 * np.log10(MIN_LOSS):.0f} dB.

![errors](images/{name}-errors.png)

Films as mp4: lines are medians over the tosses, spans all of them.

{markdown(headers, [toss_row(arguments, result) for arguments, result in done])}

Relative errors of the numbers from half a film, and errors of the last frame of the new throw. Within {INSIDE:g} error bars
are, of {"; of ".join(sides)}.

![new throw](images/{name}-strip.png)

The new throw of the last object: truth, prediction, difference.

The paper speaks of predicting future states and prints no numbers for it.
"""


def summary_rows(done: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[tuple[str, ...]]:
    """A row for each source, task and method: medians over the tosses."""
    rows = []
    for source in SOURCES:
        results = [result for arguments, result in done if arguments["source"] == source]
        for task, title in TASKS.items() if results else ():
            for method in METHODS:
                cells = [source, title, method]
                for kind in ("position", "angle", "squared"):
                    errors = np.array([shown(kind, result["tasks"][task][method][kind]) for result in results])
                    cells += [digits(float(np.median(errors.mean(axis=1)))), digits(float(np.median(errors[:, -1])))]
                rows.append(tuple(cells))
    return rows


def toss_row(arguments: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, ...]:
    """A row for a toss: errors of its numbers, and of the end of the new throw."""
    estimate, mean = (result["tasks"]["new"][method] for method in METHODS[:2])
    return (
        arguments["source"], result["shape"], *(f"{100 * (10 ** result['error'][name] - 1):+.2g} %" for name in NUMBERS),
        digits(float(shown("position", estimate["position"])[-1])), digits(float(shown("position", mean["position"])[-1])),
        digits(estimate["angle"][-1]), digits(mean["angle"][-1]), f"{result['seconds']:.0f}",
    )  # fmt: skip


def _within(results: Sequence[Mapping[str, Any]]) -> str:
    """Number of errors within ``INSIDE`` error bars."""
    pairs = [(r["error"][n], r["bar"][n]) for r in results for n in NUMBERS if r["bar"][n] is not None]
    return share(sum(abs(error) <= INSIDE * bar for error, bar in pairs), len(pairs))
