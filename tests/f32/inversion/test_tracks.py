"""True states of any scene as points: arrays of poses, tables of what a tracker has followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import Scene, StateLoss, UserError
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.inversion.losses.trajectories import Table, Track, point_coordinates
from tests.reference.small_scenes import make_scene

Risp = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_scene()


@pytest.fixture(scope="module")
def poses(scene: Scene) -> np.ndarray:
    """[5, 1, 7]."""
    return scene.rollout().body_q[0].double().numpy(force=True)


def write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    rows = np.stack(list(columns.values()), axis=1)
    lines = [",".join(columns), *(",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_points_of_a_pose(scene: Scene) -> None:
    """The centre and three points on the turned axes, at the mean distance of the block's corners; the same for q and -q."""
    half = np.sqrt(0.5)
    pose = torch.tensor([[[1.0, 2.0, 3.0, 0.0, 0.0, half, half]]], dtype=torch.float32)  # a quarter turn about z
    reach = np.linalg.norm([0.025, 0.02, 0.015])
    expected = np.array([[1, 2, 3], [1, 2 + reach, 3], [1 - reach, 2, 3], [1, 2, 3 + reach]])
    np.testing.assert_allclose(point_coordinates(scene, pose)[0].reshape(4, 3), expected, atol=1e-6)
    turned = pose * torch.tensor([1, 1, 1, -1, -1, -1, -1.0])
    torch.testing.assert_close(point_coordinates(scene, turned), point_coordinates(scene, pose))


def test_loss_of_arrays_and_tables(scene: Scene, poses: np.ndarray, tmp_path: Path) -> None:
    """The truth has no loss, a shift by d in one known coordinate d^2 over their number, in the rows that are whole."""
    np.save(tmp_path / "poses.npy", poses)
    for states in (poses, tmp_path / "poses.npy"):
        comparison = Comparison.of(scene, StateLoss(None, states), None)
        assert comparison.target.shape == (5, 12) and float(comparison.losses(scene, {}, worlds=1)) < 1e-12
    names = dict(zip(("x", "y", "z", "qx", "qy", "qz", "qw"), poses[:, 0].T, strict=True))
    whole = Table.read(write(tmp_path / "whole.csv", names))
    torch.testing.assert_close(Track.of_table(scene, whole).values, comparison.target)
    place = {"time": 5e-3 * np.arange(5), "block.x": poses[:, 0, 0] + 0.01, "block.z": poses[:, 0, 2].copy()}
    place["block.z"][2] = np.nan  # the tracker lost it there
    partial = Comparison.of(scene, StateLoss(None, write(tmp_path / "partial.csv", place)), None)
    assert partial.frames == (0, 1, 3, 4) and partial.target.shape == (4, 2)
    assert float(partial.losses(scene, {}, worlds=1)) == pytest.approx(0.01**2 / 2, rel=1e-3)


def test_gradient_of_the_loss_of_places(scene: Scene, poses: np.ndarray, tmp_path: Path) -> None:
    """Of the place at the start, by which every later one moves until the block touches the ground: that of sum 2 d / n."""
    place = {"frame": np.arange(2.0), "x": poses[:2, 0, 0] - 0.01, "y": poses[:2, 0, 1]}
    comparison = Comparison.of(scene, StateLoss(None, write(tmp_path / "place.csv", place)), None)
    unknown = Unknowns.of(scene, ["block.position[0]"], bounds={"block.position[0]": (-1.0, 1.0)})
    x = torch.zeros(1, requires_grad=True)
    comparison.losses(scene, {unknown.labels[0]: x}, worlds=1).backward()
    assert float(x.grad) == pytest.approx(2 * 2 * 0.01 / 4, rel=1e-3)


@pytest.mark.parametrize(
    ("columns", "culprit"),
    [
        ({"x": [0, 1], "w": [0, 1]}, "unknown column 'w'"),
        ({"box.x": [0, 1]}, "did you mean 'block.x'"),
        ({"x": [0, 1], "qx": [0, 1]}, "a part of the pose of block"),
        ({"time": [0, 0.0012], "x": [0, 1]}, "row 3 of .* has time 0.0012, not a frame of small"),
        ({"time": [0, 0.005], "frame": [0, 1], "x": [0, 1]}, "time and frame"),
        ({"frame": [1, 0], "x": [0, 1]}, "back in time"),
        ({"frame": [7, 8], "x": [0, 1]}, "none of the compared frames"),
        ({"frame": [0, 1]}, "no row without an empty cell"),
        ({"x": [np.nan, np.nan], "y": [0, 1]}, "no row without an empty cell"),
        ({k: [0, 1] for k in ("x", "y", "z", "qx", "qy", "qz", "qw")}, "not a unit quaternion"),
    ],
)
def test_tables_that_do_not_fit(scene: Scene, tmp_path: Path, columns: dict, culprit: str) -> None:
    path = write(tmp_path / "table.csv", {name: np.array(value, dtype=float) for name, value in columns.items()})
    with pytest.raises(UserError, match=culprit):
        Comparison.of(scene, StateLoss(None, path), None)


@pytest.mark.parametrize("text", ["", "x,y\n", "x,x\n1,2\n", "x,y\n1\n", "x,y\n1,much\n", ",y\n1,2\n"])
def test_files_that_are_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(UserError, match="table.csv"):
        StateLoss(None, tmp_path / "table.csv")
