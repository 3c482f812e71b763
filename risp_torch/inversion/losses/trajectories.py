"""Known motions as points: arrays of poses or particles, and tables of tracked coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from risp_torch.files.csv_rows import read_csv_rows
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.parts.body import Body
from risp_torch.scene.rotations import rotation_matrix
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import placement_shape, split_placement
from ti_sim.base.errors import UserError

TIMES = ("time", "t", "frame")
_POSITION, _QUATERNION = ("x", "y", "z"), ("qx", "qy", "qz", "qw")
_COORDINATES_PER_BODY = 12  # those of its centre of mass, and of a point on each of its axes
_TIME_TOLERANCE = 0.02  # of a frame: largest distance of a time from that of a frame
_MAX_ROUNDING = 0.06  # of a frame: largest rounding of times that is allowed for
_MAX_FRAMES = 2**31 - 1


@dataclass(frozen=True)
class Table:
    """A table of numbers with names.

    Attributes:
        path: of its file.
        columns: name -> [n] numbers, NaN for empty cells.
    """

    path: str
    columns: Mapping[str, np.ndarray]

    @staticmethod
    def read(path: Path) -> Table:
        """Read a CSV file: names in the first row, numbers below.

        Raises:
            UserError: the file does not exist, a name is missing or repeated, or a cell is not a number.
        """
        rows = read_csv_rows(path)
        names = [name.strip() for name in rows[0]] if rows else []
        if len(rows) < 2 or not all(names) or len(set(names)) < len(names):
            raise UserError(f"{path} is not a table: its first row must name the columns, each once, then numbers")
        values = np.array([_numbers(path, number, row, len(names)) for number, row in enumerate(rows[1:], start=2)])
        return Table(str(path), dict(zip(names, values.T, strict=True)))


def _numbers(path: Path, number: int, row: Sequence[str], count: int) -> list[float]:
    """The cells of a row; NaN for empty ones."""
    if len(row) != count:
        raise UserError(f"row {number} of {path} has {len(row)} cells, and the first row has {count}: give every row as many")
    try:
        return [float(cell) if cell.strip() else np.nan for cell in row]
    except ValueError:
        raise UserError(f"row {number} of {path} has a cell that is not a number: give numbers below the first row") from None


@dataclass(frozen=True)
class Track:
    """Known coordinates of a motion.

    Attributes:
        frames: n frame numbers, ascending.
        coordinate_indices: [D] indices of the known ``point_coordinates`` of the scene.
        values: [n, D] these coordinates [m].
    """

    frames: tuple[int, ...]
    coordinate_indices: torch.Tensor
    values: torch.Tensor

    @staticmethod
    def of_table(scene: Scene, table: Table) -> Track:
        """A motion from a table.

        Columns are "time" [s] or "frame" (without either, rows are the frames from the start), and for bodies "NAME.x", "NAME.y",
        "NAME.z" of the centre of mass [m] and "NAME.qx" to "NAME.qw" of the orientation, all four or none; for particles
        "NAME[i].x" and so on. The NAME may be omitted in a scene with a single body. Coordinates without a column
        are not compared, nor are rows with an empty cell.

        Raises:
            UserError: a column does not belong to the scene, or rows are not at frames.
        """
        names = [name for name in table.columns if name not in TIMES]
        numbers = np.stack([table.columns[name] for name in names], axis=1) if names else np.zeros((0, 0))
        rows = np.isfinite(numbers).all(axis=1) if names else np.zeros(0, dtype=bool)
        if not rows.any():
            raise UserError(f"{table.path} has no row without an empty cell beside its times: give coordinates such as NAME.x")
        frames = frame_numbers(scene, table)[rows]
        if (np.diff(frames) <= 0).any():
            raise UserError(f"{table.path} has two rows for one frame, or rows that go back in time: order them by time")
        columns = dict(zip(names, numbers[rows].T, strict=True))
        placement, coordinate_indices = _placement(scene, table.path, columns, int(rows.sum()))
        values = point_coordinates(scene, placement)
        coordinate_indices = torch.as_tensor(coordinate_indices, device=values.device)
        return Track(tuple(int(frame) for frame in frames), coordinate_indices, values[:, coordinate_indices])


def point_coordinates(scene: Scene, placement: torch.Tensor) -> torch.Tensor:
    """Coordinates [..., D] in m of points of all bodies in a placement [..., rows, columns]; differentiable.

    For a rigid body the centre of mass and, on each of its axes, a point at the root mean square distance of the vertices of
    its mesh: rotations count by the displacement of the surface, and q and -q are equivalent. For deformable
    bodies all particles.
    """
    poses, particle_q = split_placement(placement, bodies=len(scene.bodies), particles=scene.particle_count)
    coordinates = []
    if poses.shape[-2]:
        position, rotation = poses[..., None, :3], rotation_matrix(poses[..., 3:])
        radius = poses.new_tensor([_gyration_radius(body) for body in scene.bodies])[:, None, None]
        coordinates.append(torch.cat([position, position + radius * rotation.transpose(-1, -2)], dim=-2).flatten(-3))
    if particle_q is not None:
        coordinates.append(particle_q.flatten(-2))
    return torch.cat(coordinates, dim=-1)


def _gyration_radius(body: Body) -> float:
    """Distance of the points on a body's axes from its centre of mass [m]."""
    if body.mesh is None or not len(body.mesh.vertices):
        return 1.0
    return float(np.sqrt((body.mesh.vertices**2).sum(axis=1).mean()))


def frame_numbers(scene: Scene, table: Table) -> np.ndarray:
    """[n] frame numbers of the rows of a table, by its column of frames or times.

    Raises:
        UserError: it has several such columns, or a row is not at a frame.
    """
    time_columns = [name for name in TIMES if name in table.columns]
    if len(time_columns) > 1:
        raise UserError(f"{table.path} has the columns {' and '.join(time_columns)}: leave one out")
    if not time_columns:
        return np.arange(len(next(iter(table.columns.values()))))
    column, has_times = table.columns[time_columns[0]], time_columns[0] != "frame"
    if has_times:
        _check_unit(scene, table.path, column)
    fractional = _fractional_frames(scene, column) if has_times else column
    frames = np.rint(fractional)
    tolerance = _TIME_TOLERANCE + (_rounding(scene, column) if has_times else 0.0)
    is_between_frames = ~(np.abs(fractional - frames) <= tolerance) | (frames < 0) | (frames > _MAX_FRAMES)
    if is_between_frames.any():
        row = int(np.argmax(is_between_frames))
        raise UserError(
            f"row {row + 2} of {table.path} has {time_columns[0]} {column[row]:g}, not a frame of {scene.name} "
            f"({_frame_times_text(scene)}): give rows at frames, or change the scene's frame time"
        )
    return frames.astype(np.int64)


def _rounding(scene: Scene, times: np.ndarray) -> float:
    """Frames by which times [s] may be off because they are written with few digits; 0 where that would be much of a frame."""
    finite_times = times[np.isfinite(times)]
    for digits in range(1, 9):
        if np.abs(finite_times * 10**digits - np.rint(finite_times * 10**digits)).max(initial=0.0) < 1e-6:
            interval = scene.frame_dt if scene.clock is None else float(np.diff(scene.film_times).min())
            rounding = 0.5 * 10.0**-digits / interval
            return rounding if rounding <= _MAX_ROUNDING else 0.0
    return 0.0


def _check_unit(scene: Scene, path: str, times: np.ndarray) -> None:
    """Refuse times that lie in the film as milliseconds or microseconds, and behind its end as seconds."""
    duration = float(scene.frames * scene.frame_dt if scene.clock is None else scene.film_times[-1]) * (1 + 1e-6)
    finite_times = times[np.isfinite(times)]
    if not len(finite_times) or (finite_times > duration).mean() <= 0.5:
        return
    for unit, factor in (("milliseconds", 1e-3), ("microseconds", 1e-6), ("nanoseconds", 1e-9)):
        if 0.2 * duration < finite_times.max() * factor <= 3 * duration:
            raise UserError(
                f"the times of {path} go to {finite_times.max():g}, and the film of {scene.name} to {duration:g} s: they look "
                f"like {unit}, so give seconds"
            )


def rows_used(scene: Scene, path: str, frames: np.ndarray) -> str:
    """A sentence on which rows of a table, at frame numbers [n], lie in the film of a scene.

    Raises:
        UserError: none does.
    """
    used = frames[frames <= scene.frames]
    if not len(used):
        raise UserError(f"{path} has no row at the frames 0 to {scene.frames} of {scene.name}: simulate more frames")
    stamps = np.arange(scene.frames + 1) * scene.frame_dt if scene.clock is None else scene.film_times
    first, last = int(used.min()), int(used.max())
    num_left_out = len(frames) - len(used)
    left_out_text = f"; {num_left_out} rows after the last frame {scene.frames} are left out" if num_left_out else ""
    return (
        f"{path}: {len(used)} of {len(frames)} rows are compared, at {len(np.unique(used))} frames from {first} to {last} "
        f"({stamps[first]:.6g} to {stamps[last]:.6g} s){left_out_text}"
    )


def _fractional_frames(scene: Scene, times: np.ndarray) -> np.ndarray:
    """[n] frame numbers at times [s], with fractions between frames."""
    if scene.clock is None:
        return times / scene.frame_dt
    stamps = scene.film_times
    nearest = np.abs(stamps[:, None] - times).argmin(axis=0)
    return nearest + (times - stamps[nearest]) / float(np.diff(stamps).min())


def _frame_times_text(scene: Scene) -> str:
    """The times of the frames, for messages."""
    if scene.clock is None or scene.clock.times is None:
        return f"every {scene.frame_dt:g} s from 0"
    return f"{scene.frames + 1} time stamps from {scene.film_times[0]:g} s to {scene.film_times[-1]:g} s"


def _placement(scene: Scene, path: str, columns: Mapping[str, np.ndarray], count: int) -> tuple[torch.Tensor, list[int]]:
    """Placement [n, rows, columns] with the table's numbers, placeholders elsewhere, and which point coordinates are known."""
    bodies, cells = len(scene.bodies), _cells(scene)
    placement = np.zeros((count, *placement_shape(bodies=len(scene.bodies), particles=scene.particle_count)))
    if bodies:
        placement[:, :bodies, 6] = 1.0
    coordinate_indices: list[int] = []
    for name, numbers in columns.items():
        if name not in cells:
            raise UserError(f"{path}: {unknown_name_error('column', name, [*TIMES, *cells])}")
        row, column = cells[name]
        placement[:, row, column] = numbers
        if row < bodies and column < 3:
            coordinate_indices.append(_COORDINATES_PER_BODY * row + column)
        elif row >= bodies:
            coordinate_indices.append(_COORDINATES_PER_BODY * bodies + 3 * (row - bodies) + column)
    for row, body in enumerate(scene.bodies):
        known_columns = {column for name in columns for cell_row, column in [cells[name]] if cell_row == row}
        if not known_columns & {3, 4, 5, 6}:
            continue
        if known_columns != set(range(7)):
            raise UserError(f"{path} has only a part of the pose of {body.name}: give all of x, y, z, qx, qy, qz and qw, or no q")
        length = np.linalg.norm(placement[:, row, 3:], axis=1)
        if (np.abs(length - 1) > 0.05).any():
            raise UserError(f"the orientation of {body.name} in {path} is not a unit quaternion: give qx, qy, qz, qw of length 1")
        placement[:, row, 3:] /= length[:, None]
        coordinate_indices += range(_COORDINATES_PER_BODY * row + 3, _COORDINATES_PER_BODY * (row + 1))
    return torch.as_tensor(placement, dtype=bridge_dtype(), device=bridge_device()), sorted(coordinate_indices)


def _cells(scene: Scene) -> dict[str, tuple[int, int]]:
    """Name of a column -> row and column of the placement."""
    cells = {}
    for row, body in enumerate(scene.bodies):
        for column, coordinate in enumerate((*_POSITION, *_QUATERNION)):
            cells[f"{body.name}.{coordinate}"] = row, column
            if len(scene.part_names) == 1:
                cells[coordinate] = row, column
    row = len(scene.bodies)
    for deformable in scene.deformables:
        for particle in range(deformable.count):
            for column, coordinate in enumerate(_POSITION):
                cells[f"{deformable.name}[{particle}].{coordinate}"] = row, column
            row += 1
    return cells
