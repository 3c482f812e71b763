"""The loss of image tracks: where points that are fixed to bodies appear in the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.csv_rows import read_csv_rows
from risp_torch.files.suggest import unknown_name_error
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.trajectories import TIMES, Table, frame_numbers, rows_used
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import constant
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.projection import project_points
from risp_torch.scene.rotations import matrix_vector, rotation_matrix
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States, split_placement
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked
from ti_sim.base.warn import warn

# Fraction of the distance to the scene's points from which a reversed axis is reported, and distance, in heights of the picture,
# below which none is.
MAX_REVERSED_RATIO, MIN_REVERSED_DISTANCE = 0.5, 0.03
WORLD = "world"  # body of points that do not move
_POSITION = ("x", "y", "z")
_NUMERIC_COLUMNS = (*TIMES, *_POSITION, "u", "v", "seen", "sd")
_COLUMNS = ("point", "body", *_NUMERIC_COLUMNS)


class ImageTracksLoss(Loss):
    """Mean squared distance, in standard deviations, of points' image positions from tracked ones.

    Points are fixed to bodies, to the world, or are particles. Points that a tracker lost are not compared. Errors of a track
    are correlated over the film, which the error bars include (``Loss.temporally_correlated``).
    """

    kind = "image-tracks"
    needs_film = False
    temporally_correlated = True
    usual_noise = 1.0

    @checked
    def __init__(self, tracks: str | Path, points: str | Path | None = None, *, noise: Positive | None = None) -> None:
        """A loss of image tracks.

        Args:
            tracks: a .csv table with one row for each point and frame: "frame" or "time" [s], "point" (a name), "u" and "v" in
                pixels from the picture's left upper corner, pixel centres at half-integers. Optional: "seen" (0 or 1) and "sd",
                the standard deviation of u and v [pixels]. A row with an empty u or v, or not seen, does not count.
            points: a .csv table with one row for each point: "point", "body" (may be left out in a scene of a single body;
                "world" for points that do not move; "NAME[i]" for particle i) and "x", "y", "z" [m] in the body's frame, whose
                origin is the centre of mass (not for particles). By default these columns are in the table of tracks.
            noise: standard deviation of u and v [pixels], times those of the table; by default that of the table, or else
                estimated from the residual.

        Raises:
            UserError: a file cannot be read, or a column, number or name is missing or wrong.
        """
        self.path, self.points_path = str(tracks), None if points is None else str(points)
        self._rows = _read_rows(Path(tracks), ("point", "u", "v"))
        point_rows = self._rows if points is None else _read_rows(Path(points), ("point",))
        self._points = _points_by_name(point_rows, self.points_path or self.path)
        has_sd = any(row.get("sd") is not None for row in self._rows)
        self.noise = noise if noise is not None else 1.0 if has_sd else None
        self._cached_tracks: tuple[Any, _Tracks] | None = None

    def check(self, scene: Scene) -> None:
        """Compare the tables with bodies, camera and film of the scene (``Loss.check``)."""
        if scene.camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        self._tracks(scene)
        for sentence in self.target_doubts(scene):
            warn(sentence)

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """Those in which a point was seen (``Loss.known_frames``)."""
        has_point = (self._tracks(scene).inverse_sds > 0).any(dim=1)
        tracked = tuple(frame for frame in frames if bool(has_point[frame]))
        if not tracked:
            raise UserError(f"{self.path} has no seen point in the compared frames: give rows at frames 0 to {scene.frames}")
        return tracked

    def target_used(self, scene: Scene) -> list[str]:
        """Rows and frames of the table (``Loss.target_used``)."""
        return [rows_used(scene, self.path, _frames_of(scene, self.path, self._rows))]

    def target_doubts(self, scene: Scene) -> list[str]:
        """Whether the points fit the scene's own motion better with an axis of the pictures reversed (``Loss.target_doubts``)."""
        tracks, camera = self._tracks(scene), scene.camera
        with torch.no_grad():
            positions = tracks.positions(scene, scene.rollout().placement)
            simulated, _ = project_points(scene, scene.table.values(None, worlds=1), positions)
        visible = tracks.inverse_sds > 0

        def distance(pixels: torch.Tensor) -> float:
            return float((pixels - simulated[0])[visible].norm(dim=-1).median())

        u, v = tracks.pixels.unbind(-1)
        unreversed = distance(tracks.pixels)
        hypotheses = {
            "v measured upwards from the lower edge": torch.stack([u, camera.height - v], dim=-1),
            "u measured from the right edge": torch.stack([camera.width - u, v], dim=-1),
            "u and v exchanged": torch.stack([v, u], dim=-1),
        }
        name, reversed_distance = min(((name, distance(pixels)) for name, pixels in hypotheses.items()), key=lambda pair: pair[1])
        if reversed_distance > MAX_REVERSED_RATIO * unreversed or unreversed < MIN_REVERSED_DISTANCE * camera.height:
            return []
        return [
            f"the points of {self.path} are {unreversed:.3g} pixels from those of the scene as it is given, and with {name} "
            f"{reversed_distance:.3g}: write u to the right and v downwards from the upper left corner"
        ]

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Places [B, n, P, 2] in standard deviations; zero for points that were not seen (``Loss.observe``)."""
        tracks = self._tracks(scene)
        frames = range(states.placement.shape[1]) if frames is None else frames
        positions = tracks.positions(scene, states.placement[:, list(frames)])
        pixels, _ = project_points(scene, scene.table.values(values, worlds=len(positions)), positions)
        return pixels * tracks.inverse_sds[list(frames)][..., None]

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The tracked places (``Loss.of_target``)."""
        tracks = self._tracks(scene)
        return tracks.pixels[list(frames)] * tracks.inverse_sds[list(frames)][..., None]

    def doubts(self, residual: torch.Tensor, frames: Sequence[int]) -> list[str]:
        """Bodies whose points are farther from their tracks than from each other (``Loss.doubts``)."""
        tracks, sentences = self._cached_tracks[1], []
        inverse_sds = tracks.inverse_sds[list(frames)]
        scale = torch.where(inverse_sds > 0, 1.0 / inverse_sds.clamp(min=1e-30), torch.zeros_like(inverse_sds))
        offsets = residual.reshape(*inverse_sds.shape, 2) * scale[..., None]
        for body in sorted(set(tracks.bodies.tolist()) - {-1}):
            is_tracked = (tracks.bodies == body) & (inverse_sds > 0)
            if not bool(is_tracked.any()):
                continue
            frame_pixels = zip(tracks.pixels[list(frames)], is_tracked, strict=True)
            size = max((_extent(pixels[visible]) for pixels, visible in frame_pixels), default=0.0)
            distance = float((offsets[is_tracked].double() ** 2).sum(dim=-1).mean() ** 0.5)
            if size > 0 and distance > size:
                sentences.append(
                    f"points lie {distance:.2g} pixels from their tracks, and are at most {size:.2g} pixels apart: the body does "
                    "not meet its tracks; the camera, the start or the axes of u and v are others"
                )
        return sentences

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """Coordinates of seen points (``Loss.count``)."""
        return 2.0 * float((self._cached_tracks[1].inverse_sds[list(frames)] > 0).sum())

    def to_json(self) -> dict[str, Any]:
        """Files, a checksum of both tables, and the noise (``Loss.to_json``)."""
        digest = sha256(repr([self._rows, self._points]).encode()).hexdigest()
        return {
            "kind": self.kind, "tracks": self.path, "points": self.points_path, "tracks_sha256": digest, "noise": self.noise
        }  # fmt: skip

    def _tracks(self, scene: Scene) -> _Tracks:
        """The tables as arrays for a scene, made once."""
        key = scene.frame_dt, scene.frames, tuple(scene.part_names)
        if self._cached_tracks is None or self._cached_tracks[0] != key:
            self._cached_tracks = key, _Tracks.of(scene, self.path, self._rows, self._points)
        return self._cached_tracks[1]


def _extent(pixels: torch.Tensor) -> float:
    """Largest distance between two of some points [P, 2]."""
    return float(torch.cdist(pixels, pixels).max()) if len(pixels) > 1 else 0.0


@dataclass(frozen=True)
class _Tracks:
    """Tracks of P points over the T frames of a scene.

    Attributes:
        bodies: [P] row of each point's body in the poses, or of its particle after them; -1 for the world.
        local: [P, 3] place in the body's frame, or in the world [m]; zeros for particles.
        pixels: [T, P, 2] tracked places; zeros where not seen.
        inverse_sds: [T, P] inverse standard deviations [1/pixels]; 0 where not seen.
    """

    bodies: torch.Tensor
    local: torch.Tensor
    pixels: torch.Tensor
    inverse_sds: torch.Tensor

    @staticmethod
    def of(scene: Scene, path: str, rows: list[dict[str, Any]], points: dict[str, dict[str, Any]]) -> _Tracks:
        names = list(points)
        pixels, inverse_sds = np.zeros((scene.frames + 1, len(names), 2)), np.zeros((scene.frames + 1, len(names)))
        for row, frame in zip(rows, _frames_of(scene, path, rows), strict=True):
            if row["point"] not in points:
                raise unknown_name_error(f"point in row {row['row']} of {path}", row["point"], names)
            visible = row.get("u") is not None and row.get("v") is not None and row.get("seen") != 0
            if not visible or frame > scene.frames:
                continue
            column, sd = names.index(row["point"]), row.get("sd")
            if inverse_sds[frame, column]:
                raise UserError(
                    f"row {row['row']} of {path} is the second one of point {row['point']} at frame {frame}: leave one out"
                )
            if sd is not None and not sd > 0:
                raise UserError(f"row {row['row']} of {path} has the sd {sd:g}: give a standard deviation above zero, in pixels")
            pixels[frame, column], inverse_sds[frame, column] = (row["u"], row["v"]), 1.0 if sd is None else 1.0 / sd
        if not inverse_sds.any():
            raise UserError(
                f"{path} has no seen point at the frames of {scene.name}: give u and v, in pixels, at frames 0 to {scene.frames}"
            )
        bodies = torch.tensor([_body_row(scene, path, point) for point in points.values()], device=bridge_device())
        local = [[point.get(axis) or 0.0 for axis in _POSITION] for point in points.values()]
        return _Tracks(bodies, constant(local), constant(pixels), constant(inverse_sds))

    def positions(self, scene: Scene, placement: torch.Tensor) -> torch.Tensor:
        """[B, n, P, 3] world places of the points for a placement [B, n, rows, columns]."""
        poses, particles = split_placement(placement, bodies=len(scene.bodies), particles=scene.particle_count)
        world_frame = poses.new_tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).expand(*placement.shape[:2], 1, 7)
        if particles is not None:  # a particle is a frame without rotation
            poses = torch.cat(
                [poses, torch.cat([particles, world_frame[..., 3:].expand(*particles.shape[:-1], 4)], dim=-1)], dim=-2
            )
        pose = torch.cat([poses, world_frame], dim=-2)[:, :, self.bodies]  # row -1 is the world
        return pose[..., :3] + matrix_vector(rotation_matrix(pose[..., 3:]), self.local)


def _body_row(scene: Scene, path: str, point: Mapping[str, Any]) -> int:
    """Row of a point's body (``_Tracks.bodies``)."""
    name, label = point.get("body"), f"point {point['point']}"
    rigid = [body.name for body in scene.bodies]
    if name is None and len(scene.part_names) == 1 and rigid:
        name = rigid[0]
    if name is None:
        raise UserError(f"{label} in {path} names no body, and the scene has {', '.join(scene.part_names)}: give the column body")
    base, index = split_entry(name)
    row = len(rigid)
    for deformable in scene.deformables:
        if base == deformable.name:
            if len(index) != 1 or not 0 <= index[0] < deformable.count:
                particles = f"{base}[0] to {base}[{deformable.count - 1}]"
                raise UserError(f"{label} in {path} has the body {name}: give one of its particles, {particles}")
            return row + index[0]
        row += deformable.count
    if name != WORLD and name not in rigid:
        raise unknown_name_error(f"body of {label} in {path}", name, [*scene.part_names, WORLD])
    if any(point.get(axis) is None for axis in _POSITION):
        raise UserError(f"{label} in {path} has no place on {name}: give its x, y and z in the frame of {name} [m]")
    return -1 if name == WORLD else rigid.index(name)


def _frames_of(scene: Scene, path: str, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """[n] frame number of each row."""
    time_columns = [name for name in TIMES if any(name in row for row in rows)]
    if not time_columns:
        raise UserError(f"{path} has no column frame or time: give one of them")
    columns = {name: np.array([np.nan if row.get(name) is None else row[name] for row in rows]) for name in time_columns}
    return frame_numbers(scene, Table(path, columns))


def _points_by_name(rows: Sequence[dict[str, Any]], path: str) -> dict[str, dict[str, Any]]:
    """Name of a point -> its body and place.

    Raises:
        UserError: two rows contradict each other about a point.
    """
    points: dict[str, dict[str, Any]] = {}
    for row in rows:
        point = {key: row[key] for key in ("point", "body", *_POSITION) if row.get(key) is not None}
        recorded = points.setdefault(row["point"], point)
        if any(recorded.get(key) != value for key, value in point.items()):
            raise UserError(
                f"row {row['row']} of {path} gives point {row['point']} another body or place than a row before: give it one"
            )
    return points


def _read_rows(path: Path, required: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a .csv file by the names of their columns: numbers, names, and None for empty cells; "row" is its number."""
    lines = read_csv_rows(path)
    names = [name.strip() for name in lines[0]] if lines else []
    for name in names:
        if name not in _COLUMNS:
            raise unknown_name_error(f"column of {path}", name, _COLUMNS)
    missing = [name for name in required if name not in names]
    if missing or len(lines) < 2 or len(set(names)) < len(names):
        fault = f"has no column {missing[0]}" if missing else "has no rows, or a column twice"
        raise UserError(
            f"{path} {fault}: give one row for each point and frame, below a row of names such as {','.join(required)}"
        )
    return [_row(path, number, names, line) for number, line in enumerate(lines[1:], start=2)]


def _row(path: Path, number: int, names: Sequence[str], line: Sequence[str]) -> dict[str, Any]:
    if len(line) != len(names):
        raise UserError(f"row {number} of {path} has {len(line)} cells, and the first row {len(names)}: give every row as many")
    row: dict[str, Any] = {"row": number}
    for name, cell in zip(names, line, strict=True):
        text = cell.strip()
        if name in ("point", "body"):
            row[name] = text or None
            continue
        try:
            row[name] = float(text) if text and text.lower() != "nan" else None
        except ValueError:
            raise UserError(f"row {number} of {path} has {text!r} in the column {name}: give a number") from None
        if row[name] is not None and not np.isfinite(row[name]):
            raise UserError(f"row {number} of {path} has {text!r} in the column {name}: give a finite number")
    if row["point"] is None:
        raise UserError(f"row {number} of {path} names no point: give it a name")
    return row
