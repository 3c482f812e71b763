"""Stages of a film: pictures, poses of its frames, and how far these are from the measured ones. Each is done once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import Scene, UserError
from risp_torch.motions import Recording
from risp_torch.tracking import TrackedPoses, track_poses
from scenes.real import contactnets_cube as cube
from studies.real.half_real.films import film_of, film_scene, window_of

FIRST_SD = 5e-3, 0.05  # m, rad: of the pose that tracking begins with, about the measured one
LOST = 20e-3  # m, root mean square: beyond it a film is lost


@dataclass(frozen=True, eq=False)
class TrackedToss:
    """Poses of a film's frames.

    Attributes:
        name: of the toss.
        found: as tracked.
        measured: as measured, in the scene's lengths.
    """

    name: str
    found: TrackedPoses
    measured: TrackedPoses

    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each frame: distance from the measured place [m], angle to the measured orientation [rad]."""
        tracked_poses, measured = self.found.body_q[:, 0], self.measured.body_q[:, 0]
        turn = cube.Rotation.from_quat(tracked_poses[:, 3:]) * cube.Rotation.from_quat(measured[:, 3:]).inv()
        return np.linalg.norm(tracked_poses[:, :3] - measured[:, :3], axis=1), turn.magnitude()

    def recording(self, *, measured: bool) -> Recording:
        """The tracked or the measured poses for a fit."""
        return (self.measured if measured else self.found).recording(self.name, 1 / cube.RATE)


def recorded(path: Path, settings: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The content of a JSON file, which is made first if it does not exist.

    Args:
        path: of the file.
        settings: what it is made from, which it holds as well, under other names than the rest.
        make: the rest.

    Raises:
        UserError: the file was made from something else.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps(make() | settings, indent=1), encoding="utf-8")
        temporary.replace(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    if any(record.get(name) != value for name, value in settings.items()):
        raise UserError(f"{path} was made from other tosses, films or fits: give another --out, or remove it")
    return record


def first_guess(pose: np.ndarray, seed: int) -> np.ndarray:
    """A pose [1, 7] near a measured one, as somebody would give it who looks at the first pictures."""
    random = np.random.default_rng(seed)
    position = pose[0, :3] + FIRST_SD[0] * random.standard_normal(3)
    turn = cube.Rotation.from_rotvec(FIRST_SD[1] * random.standard_normal(3)) * cube.Rotation.from_quat(pose[0, 3:])
    return np.concatenate([position, turn.as_quat()])[None]


def tracked(toss: Recording, values: Mapping[str, float], folder: Path, cameras: Sequence[str], *, seed: int) -> TrackedToss:
    """Path-trace the films of a toss, and track the cube in them.

    Args:
        toss: as measured.
        values: numbers of the fits to all poses (``mean_values``).
        folder: of the toss.
        cameras: which of ``films.CAMERAS`` are used.
        seed: of the look and of the first guess.
    """
    scene, poses = film_scene(window_of(toss), dict(values))

    def make() -> dict[str, Any]:
        camera_films = {name: film_of(scene, poses, folder / name, camera=name, seed=seed) for name in cameras}
        tracked_poses = track_poses(
            scene, {name: film for name, (film, _) in camera_films.items()}, first_guess(poses[0], seed),
            plates={name: plate for name, (_, plate) in camera_films.items()},
        )  # fmt: skip
        return {"body_q": tracked_poses.body_q.tolist(), "cost": tracked_poses.cost.tolist()}

    record = recorded(folder / f"poses-{'-'.join(cameras)}.json", {"seed": seed, "numbers": dict(values)}, make)
    tracked_poses = TrackedPoses(np.array(record["body_q"]), np.array(record["cost"]))
    return TrackedToss(toss.name, tracked_poses, TrackedPoses(poses, np.zeros(len(poses))))


def scene_and_films(
    toss: Recording, values: Mapping[str, float], folder: Path, cameras: Sequence[str], *, seed: int
) -> tuple[Scene, dict[str, np.ndarray]]:
    """The scene of a film and its pictures [T, H, W, 3] by camera, for a figure."""
    scene, poses = film_scene(window_of(toss), dict(values))
    return scene, {name: film_of(scene, poses, folder / name, camera=name, seed=seed)[0] for name in cameras}
