"""Commands report which rows and frames they compare, and refuse or doubt files with ambiguous meaning."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import ImageTracksLoss, MixedLoss, MixedPart, Scene, StateLoss, UserError, invert, write_frames
from risp_torch.commands.film_options import use_film
from risp_torch.data import read_measured_films
from risp_torch.scene.projection import project_points
from tests.reference.small_scenes import make_scene

FRAMES = 8


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_scene(size=32, frames=FRAMES)


@pytest.fixture(scope="module")
def motion(scene: Scene) -> np.ndarray:
    """[T, 3] places of the block."""
    return scene.rollout().placement[0, :, 0, :3].cpu().numpy()


def table(path: Path, times: np.ndarray, places: np.ndarray, *, separator: str = ",", comma: bool = False) -> Path:
    rows = [[f"{time:.10g}", *(f"{x:.6f}" for x in place)] for time, place in zip(times, places, strict=True)]
    text = "\n".join(separator.join(row) for row in rows)
    path.write_text(separator.join(("time", "x", "y", "z")) + "\n" + (text.replace(".", ",") if comma else text) + "\n")
    return path


@pytest.mark.parametrize(("separator", "comma"), [(",", False), (";", False), (";", True), ("\t", False), ("\t", True)])
def test_tables_with_other_separators(scene: Scene, motion: np.ndarray, tmp_path: Path, separator: str, comma: bool) -> None:
    times = scene.frame_dt * np.arange(FRAMES + 1)
    path = table(tmp_path / "t.csv", times, motion, separator=separator, comma=comma)
    loss = StateLoss(None, path)
    target = loss.of_target(scene, None, range(FRAMES + 1))
    np.testing.assert_allclose(target.cpu().numpy(), motion, atol=1e-6)


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")])
@pytest.mark.parametrize("kind", ["states", "tracks"])
def test_times_in_other_units(scene: Scene, motion: np.ndarray, tmp_path: Path, factor: float, unit: str, kind: str) -> None:
    times = factor * scene.frame_dt * np.arange(FRAMES + 1)
    if kind == "states":
        loss = StateLoss(None, table(tmp_path / "t.csv", times, motion))
    else:
        rows = [f"{time:.10g},a,1,2,block,0,0,0" for time in times]
        (tmp_path / "t.csv").write_text("\n".join(["time,point,u,v,body,x,y,z", *rows]))
        loss = ImageTracksLoss(tmp_path / "t.csv")
    with pytest.raises(UserError, match=f"they look like {unit}, so give seconds"):
        loss.check(scene)


def test_rows_beyond_the_scene_are_counted(scene: Scene, motion: np.ndarray, tmp_path: Path) -> None:
    times = scene.frame_dt * np.arange(FRAMES + 4)
    loss = StateLoss(None, table(tmp_path / "t.csv", times, np.vstack([motion, motion[:3]])))
    (sentence,) = MixedLoss(MixedPart(loss=loss, noise=1e-3)).target_used(scene)
    end = f"{scene.frame_dt * FRAMES:.6g}"
    assert f"9 of 12 rows are compared, at 9 frames from 0 to 8 (0 to {end} s); 3 rows after the last frame 8" in sentence
    whole = StateLoss(None, table(tmp_path / "t.csv", times[:9], motion))
    assert whole.target_used(scene)[0].endswith(f"(0 to {end} s)")


def test_times_that_are_rounded(tmp_path: Path) -> None:
    """To a twentieth of a frame; coarser ones are not at frames."""
    scene = make_scene(size=32, frames=FRAMES)
    scene.set_film(times=np.arange(FRAMES + 1) / 480)
    for digits, fits in ((4, True), (3, False)):
        times = np.round(np.arange(FRAMES + 1) / 480, digits)
        loss = StateLoss(None, table(tmp_path / "t.csv", times, np.zeros((FRAMES + 1, 3))))
        if fits:
            loss.check(scene)
        else:
            with pytest.raises(UserError, match="not a frame of small"):
                loss.check(scene)


@pytest.mark.parametrize("frame", ["1e30", "-1", "0.5", "3e9", "-1e300"])
def test_frames_that_are_none(scene: Scene, tmp_path: Path, frame: str) -> None:
    (tmp_path / "t.csv").write_text(f"frame,point,u,v,body,x,y,z\n{frame},a,1,2,block,0,0,0\n")
    with pytest.raises(UserError, match="row 2 of .* has frame .*, not a frame of small"):
        ImageTracksLoss(tmp_path / "t.csv").check(scene)


def tracks(scene: Scene, path: Path, change) -> ImageTracksLoss:
    """Tracks of three points of the block, with changed pixels."""
    points = {"a": (0.025, 0.0, 0.015), "b": (-0.025, 0.02, 0.0), "c": (0.0, -0.02, 0.015)}
    lines = ["frame,point,u,v,body,x,y,z"]
    lines += [f"0,{name},1,1,block,{x},{y},{z}" for name, (x, y, z) in points.items()]
    path.write_text("\n".join(lines))
    found = ImageTracksLoss(path)._tracks(scene)
    placement = scene.rollout().placement
    pixels, _ = project_points(scene, scene.table.values(None, worlds=1), found.positions(scene, placement))
    lines = ["frame,point,u,v,body,x,y,z"]
    for frame, row in enumerate(pixels[0].tolist()):
        for (name, (x, y, z)), pixel in zip(points.items(), row, strict=True):
            u, v = change(*pixel)
            lines.append(f"{frame},{name},{u},{v},block,{x},{y},{z}")
    path.write_text("\n".join(lines))
    return ImageTracksLoss(path)


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        (lambda u, v: (u, 32 - v), "with v measured upwards from the lower edge"),
        (lambda u, v: (32 - u, v), "with u measured from the right edge"),
        (lambda u, v: (u, v), None),
        (lambda u, v: (u + 2, v - 1), None),
    ],
)
def test_axes_of_pictures_that_are_reversed(scene: Scene, tmp_path: Path, change, doubt: str | None) -> None:
    loss = tracks(scene, tmp_path / "t.csv", change)
    doubts = loss.target_doubts(scene)
    assert (doubts == []) if doubt is None else doubt in doubts[0]


def test_coordinates_of_tracks_count_once_each(scene: Scene, tmp_path: Path) -> None:
    """The loss is the mean squared distance of a coordinate: two for each seen point."""
    loss = tracks(scene, tmp_path / "t.csv", lambda u, v: (u + 3.0, v))
    frames = range(FRAMES + 1)
    states = scene.rollout()
    residual = (loss.observe(scene, states, {}, frames)[0] - loss.of_target(scene, None, frames)).square().sum()
    assert loss.count(frames, ()) == 2 * 3 * (FRAMES + 1)
    assert float(residual) / loss.count(frames, ()) == pytest.approx(9.0 / 2, rel=1e-3)


@pytest.mark.parametrize(("ratio", "follows"), [(1.0, False), (1 / 1.001, True), (0.995, True), (0.9, False)])
def test_time_stamps_of_nearly_the_scenes_rate_are_used(tmp_path: Path, ratio: float, follows: bool) -> None:
    """Those of 29.97 pictures per second for a scene of 30, and not those of another rate."""
    scene = make_scene(size=32, frames=FRAMES)
    rate = ratio / scene.frame_dt
    write_frames(tmp_path / "film", np.random.default_rng(0).random((FRAMES + 1, 32, 32, 3)), fps=rate)
    options = Namespace(video=[str(tmp_path / "film")], fps=None, samples=[])
    use_film(scene, options, [])
    assert (scene.clock is not None) == follows
    if follows:
        np.testing.assert_allclose(scene.film_times, np.arange(FRAMES) / rate, rtol=1e-6)  # the last is after the scene's end


def test_things_that_are_no_losses_or_folders(scene: Scene) -> None:
    for loss in ("pixel", 3, ["pixel"], object()):
        with pytest.raises(UserError, match="loss.* is .*: give a Loss"):
            invert(scene, torch.zeros(FRAMES + 1, 32, 32, 3), ["ground.contact.friction"], loss=loss)
    with pytest.raises(UserError, match="'' is not a folder"):
        read_measured_films("")
