"""What a hand-held film tells of a double pendulum: both angles in every frame, the second length, the film's place in the log.

``python -m scenes.studies.dfki_pendulum`` needs the data set ``dfki_double_pendulum`` (``risp data list``). Each stage writes a
file into runs/dfki_pendulum, and one whose file is there is not done again.

The camera is hand-held (it drifts by 6 cm and turns by a quarter of a degree), so each frame is first laid onto frame
``REFERENCE`` by what stands still of the rig: a shift, a turn and a scale, robustly. Then the arm is
fitted frame by frame in a solved look: the plate behind it and the grey of its three materials are solved from all frames,
the angles of each frame from its own picture. The log of the encoders is read for the comparison at the end alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize_scalar

from risp_torch import Scene, UserError, load_scene, start
from risp_torch.data import data_folder
from risp_torch.files.film import Cut, read_film

from ..real import double_pendulum as pendulum
from .steady_film import camera_motion, steadied

FILM = "experiment_swingup_pendubot_tvlqr.m4v"
FIRST, REFERENCE = 3, 60  # frame of the film that is the first picture here; number among these of the picture that others follow
SIZE = 152  # pixels, width of the pictures
LUMA = (0.2126, 0.7152, 0.0722)
LOOK_SCALE = 0.06  # residual (linear light) from which on a pixel counts less
STEP = 0.02  # rad, of the differences of pictures
WIDEST = 0.3  # rad, of a step
RADIUS = 4  # pixels of a block within which residuals are correlated, for the bars
HANDED = 1.921  # s, film time minus log time, as measured by hand
SWING = 660  # film frame from which on the arm swings freely


# -- the film ---------------------------------------------------------------------------------------------------------------


def read_grey(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures [T, H, W] (linear light) of the film's part, and their time stamps [T] s."""
    size = SIZE, pendulum.film_camera(SIZE).height
    film = read_film(path, cut=Cut(first=FIRST, crop=pendulum.CROP, size=size))
    return film.pictures @ np.array(LUMA, np.float32), film.times + film.clock.start


def rig_mask(height: int, width: int) -> np.ndarray:
    """Pixels [H, W] of the reference that show the rig: pole, beam, struts, away from the pivot."""
    y, x = np.mgrid[:height, :width] + 0.5
    beam = (np.abs(y - 99) < 7) & ((x < 55) | (x > 102))
    pole = np.abs(x - 15) < 7
    left = (np.abs(y - (105 + (66 - x) * 63 / 46)) < 7) & (x < 60)
    right = (np.abs(y - (105 + (x - 95) * 67 / 57)) < 7) & (x > 106)
    return beam | pole | left | right


# -- the arm in its solved look -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arm:
    """Coverage of the arm's materials in pictures, by the scene's own renderer.

    Attributes:
        scene: the pendulum in the light of ``make_scene``, in which a surface has its own colour.
        numbers: values of the scene's numbers in place of its own (lengths, camera).
    """

    scene: Scene
    numbers: dict[str, np.ndarray] = field(default_factory=dict)

    def coverage(self, angles: np.ndarray) -> np.ndarray:
        """[n, 4, H, W]: what share of a pixel is metal, black, the weight's ring, and anything of the arm, at angles [n, 2].

        Materials have the colours red, green and blue, so that one picture holds all three.
        """
        values = {name: torch.as_tensor(np.asarray(value), dtype=torch.float32) for name, value in self.numbers.items()}
        angles = torch.as_tensor(np.asarray(angles), dtype=torch.float32)
        joints = {"upper.angle": angles[:, 0], "lower.angle": angles[:, 1]}
        with torch.no_grad():
            poses = self.scene.start_poses(self.scene.table.values({**values, **joints}))
            of_world = {name: value[None] for name, value in values.items()}
            pictures = self.scene.render(poses[None], of_world | self._materials, alpha=True)[0]
        return pictures.permute(0, 3, 1, 2).numpy()

    @property
    def _materials(self) -> dict[str, torch.Tensor]:
        """One-hot colours in place of those of the scene."""
        names = {tuple(color): k for k, color in enumerate((pendulum.METAL, pendulum.BLACK, pendulum.WEIGHT))}
        found = {"background.color": torch.zeros(1, 3)}
        for name, param in self.scene.parameters.items():
            if name.endswith(("face_colors", ".color")) and name != "background.color":
                rows = np.atleast_2d(param.value)
                hot = np.eye(3)[[names[tuple(row)] for row in rows]]
                found[name] = torch.as_tensor(hot if np.ndim(param.value) == 2 else hot[0], dtype=torch.float32)[None]
        return found


@dataclass(frozen=True, eq=False)
class Look:
    """What is seen of a motion: grey [3] of the materials, and the plate [H, W] behind the arm (linear light)."""

    grey: np.ndarray
    plate: np.ndarray

    def pictures(self, coverage: np.ndarray) -> np.ndarray:
        """[n, H, W] of coverages [n, 4, H, W]."""
        return np.einsum("k,nkhw->nhw", self.grey, coverage[:, :3]) + (1 - coverage[:, 3]) * self.plate


def first_plate(pictures: np.ndarray) -> np.ndarray:
    """The median [H, W] of pictures [n, H, W] in which the arm is elsewhere most of the time."""
    plate = np.nanmedian(pictures, axis=0)
    return np.where(np.isfinite(plate), plate, np.nanmean(plate))


def solved_look(pictures: np.ndarray, coverage: np.ndarray, plate: np.ndarray, *, rounds: int = 4) -> Look:
    """Greys of the materials by weighted linear least squares, and the plate behind, in turn.

    Args:
        pictures: [n, H, W], NaN where nothing is known.
        coverage: [n, 4, H, W] (``Arm.coverage``).
        plate: [H, W] to begin with; it stays where the arm never leaves.
        rounds: of both.
    """
    seen, behind = np.isfinite(pictures), 1 - coverage[:, 3]
    filled = np.where(seen, pictures, 0.0)
    grey = np.full(3, 0.2)
    near = seen & (coverage[:, 3] > 0.02)
    columns = np.stack([coverage[:, k][near] for k in range(3)], axis=1)
    for done in range(rounds):
        rest = (filled - behind * plate)[near]
        weight = geman(rest - columns @ grey) if done else np.ones(len(rest))
        normal = columns.T @ (weight[:, None] * columns)
        grey = np.linalg.solve(normal + 1e-6 * np.trace(normal) * np.eye(3), columns.T @ (weight * rest))
        arm = np.einsum("k,nkhw->nhw", grey, coverage[:, :3])
        weight = seen * geman(filled - arm - behind * plate)
        pull = 0.3  # pictures: below that much evidence the plate stays
        plate = ((weight * behind * (filled - arm)).sum(0) + pull * plate) / ((weight * behind**2).sum(0) + pull)
    return Look(grey, plate)


def geman(residual: np.ndarray, scale: float = LOOK_SCALE) -> np.ndarray:
    """Weights of residuals (Geman and McClure 1987)."""
    return (1 + (residual / scale) ** 2) ** -2.0


def misfit(residual: np.ndarray, scale: float = LOOK_SCALE) -> np.ndarray:
    """[n] robust sums of residuals [n, H, W], of which ``geman`` has the weights."""
    squares = residual**2
    return (squares / (1 + squares / scale**2)).sum(axis=(1, 2))


def halved(pictures: np.ndarray) -> np.ndarray:
    """Pictures [..., H, W] of half the size; an odd last row is left out."""
    height, width = (side // 2 for side in pictures.shape[-2:])
    return pictures[..., : 2 * height, : 2 * width].reshape(*pictures.shape[:-2], height, 2, width, 2).mean(axis=(-3, -1))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Angles of frames.

    Attributes:
        angles: [n, 2] rad.
        misfit: [n] robust sums of squared residuals.
        bars: [n, 2] rad, standard deviations: of residuals that are correlated within ``RADIUS`` pixels.
    """

    angles: np.ndarray
    misfit: np.ndarray
    bars: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """How pictures are compared: wide far from the truth, narrow near it.

    Attributes:
        smooth: pixels, of the Gaussian that smooths both pictures.
        scale: residual from which on a pixel counts less.
    """

    smooth: float = 0.0
    scale: float = LOOK_SCALE

    def smoothed(self, pictures: np.ndarray) -> np.ndarray:
        """Pictures [..., H, W] after the Gaussian."""
        return gaussian_filter(pictures, self.smooth, axes=(-2, -1)) if self.smooth else pictures


NEAR, FAR, WIDE = Closeness(), Closeness(smooth=1.0, scale=0.2), Closeness(smooth=3.0, scale=0.5)


def angle_step(arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, close: Closeness = NEAR) -> Fitted:
    """One Gauss-Newton step of every frame by its own picture; a frame that it does not help stays where it is.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W]; pixels without a number (NaN) count nothing.
        angles: [n, 2] rad to begin with.
        close: how pictures are compared.
    """
    seen = np.isfinite(pictures)
    filled = np.where(seen, pictures, look.plate)

    def left_by(tries: np.ndarray) -> np.ndarray:
        return close.smoothed(seen * (filled - look.pictures(arm.coverage(tries))))

    moves = np.array([(0, 0), (STEP, 0), (-STEP, 0), (0, STEP), (0, -STEP)])
    drawn = look.pictures(arm.coverage((angles + moves[:, None]).reshape(-1, 2))).reshape(5, *pictures.shape)
    residuals = close.smoothed(seen * (filled - drawn))
    residual = residuals[0]
    jacobian = np.stack([residuals[2] - residuals[1], residuals[4] - residuals[3]]) / (2 * STEP)
    weight = geman(residual, close.scale)
    normal = np.einsum("inhw,jnhw->nij", weight * jacobian, jacobian, optimize=True)
    gradient = np.einsum("inhw,nhw->ni", weight * jacobian, residual, optimize=True)
    ridge = 1e-4 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 1e-9 * np.eye(2)
    step = np.clip(np.linalg.solve(normal + ridge, gradient[..., None])[..., 0], -WIDEST, WIDEST)
    before, after = misfit(residual, close.scale), misfit(left_by(angles + step), close.scale)
    better = after < before
    near = weight * (np.abs(jacobian).sum(axis=0) > 0.01)
    variance = (near * residual**2).sum(axis=(1, 2)) / np.maximum(near.sum(axis=(1, 2)), 1)
    inverse = np.linalg.inv(normal + ridge)
    bars = RADIUS * np.sqrt(variance[:, None] * np.diagonal(inverse, axis1=1, axis2=2))
    return Fitted(angles + better[:, None] * step, np.where(better, after, before), bars)


def fitted(
    arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, *, steps: int, close: Closeness = NEAR, batch: int = 64
) -> Fitted:
    """Some steps of all frames (``angle_step``), in batches."""
    parts = []
    for first in range(0, len(angles), batch):
        part = slice(first, first + batch)
        found = Fitted(angles[part], np.zeros(0), np.zeros(0))
        for _ in range(steps):
            found = angle_step(arm, look, pictures[part], found.angles, close)
        parts.append(found)
    return Fitted(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("angles", "misfit", "bars")))


def searched(arm: Arm, look: Look, picture: np.ndarray, *, count: int = 24, best: int = 16, steps: int = 6) -> np.ndarray:
    """Angles [2] of one picture [H, W] from nothing: a grid of ``count`` angles of both joints, the best of which are fitted."""
    one = -np.pi + 2 * np.pi * np.arange(count) / count
    grid = np.stack(np.meshgrid(one, one, indexing="ij"), axis=-1).reshape(-1, 2)
    filled = WIDE.smoothed(np.where(np.isfinite(picture), picture, look.plate))
    left = [misfit(filled - WIDE.smoothed(look.pictures(arm.coverage(part))), WIDE.scale) for part in np.array_split(grid, 8)]
    starts = grid[np.argsort(np.concatenate(left))[:best]]
    pictures = np.broadcast_to(picture, (best, *picture.shape))
    for close in (WIDE, FAR):
        found = fitted(arm, look, pictures, starts, steps=steps, close=close)
        starts = found.angles
    return found.angles[found.misfit.argmin()]


LOST = 1.6  # times the median misfit of the frames before it, beyond which a frame is searched again
SETTLED = 2e-3  # rad, of a step


def tracked(
    arm: Arm, look: Look, pictures: np.ndarray, *, steps: int = 4, say: Callable[[str], None] | None = None
) -> np.ndarray:
    """Angles [n, 2] of pictures [n, H, W], each from where the two before it lead; the first one, and lost ones, afresh.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W].
        steps: of a frame, at most, with pictures that are smoothed much and then little.
        say: what is called now and then.
    """
    angles, left = np.empty((len(pictures), 2)), np.empty(len(pictures))
    for k in range(len(pictures)):
        here = pictures[k : k + 1]
        if k == 0:
            guess = searched(arm, look, here[0])
        else:
            guess = angles[0] if k == 1 else 2 * angles[k - 1] - angles[k - 2]
        found = refined(arm, look, here, guess, steps)
        if k > 5 and found.misfit[0] > LOST * np.median(left[max(k - 20, 0) : k]):
            # The last angles without their rate, and a search: a fast link may turn within a frame.
            for start_angles in (angles[k - 1], searched(arm, look, here[0])):
                other = refined(arm, look, here, start_angles, steps)
                found = other if other.misfit[0] < 0.9 * found.misfit[0] else found
        angles[k], left[k] = found.angles[0], found.misfit[0]
        if k:
            angles[k] -= 2 * np.pi * np.round((angles[k] - angles[k - 1]) / (2 * np.pi))
        if say and k % 50 == 0:
            say(f"picture {k}: {np.degrees(angles[k]).round(1)} degrees, misfit {left[k]:.2f}")
    return angles


def refined(arm: Arm, look: Look, picture: np.ndarray, guess: np.ndarray, steps: int) -> Fitted:
    """The angles of one picture [1, H, W] near a guess [2], by pictures that are smoothed much and then little."""
    found = Fitted(guess[None], np.zeros(0), np.zeros(0))
    for close in (WIDE, FAR):
        for _ in range(steps):
            before = found.angles
            found = angle_step(arm, look, picture, before, close)
            if np.abs(found.angles - before).max() < SETTLED:
                break
    return found


# -- the camera, and the second length ----------------------------------------------------------------------------------------

CAMERA = ("pivot x [m]", "pivot z [m]", "log focal", "distance [m]", "lower length [m]")
CAMERA_STEPS = np.array([2e-3, 2e-3, 5e-3, 0.1, 2e-3])
PRIOR_SD = np.array([1.0, 1.0, 1.0, 0.4, 1.0])  # of the distance alone: what telephones' fields of view leave open


def camera_numbers(values: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Numbers of a scene of this width from values [5] (``CAMERA``): place of the pivot in the camera's frame, logarithm of the
    focal length over that of the scene file, distance, second length."""
    camera = pendulum.film_camera(size)
    return {
        "camera.position": np.array([values[0], -values[3], values[1]]),
        "camera.focal": np.array(camera.focal) * np.exp(values[2]),
        "lower.length": np.array(values[4]),
    }


def first_camera() -> np.ndarray:
    """Values [5] (``CAMERA``) of the scene file."""
    position = pendulum.film_camera(SIZE).position.value
    return np.array([position[0], position[2], 0.0, -position[1], pendulum.LOWER])


def camera_step(
    arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, values: np.ndarray, size: int, close: Closeness = NEAR
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One Gauss-Newton step of camera and second length by all frames together, in which the angles of every frame follow.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W].
        angles: [n, 2] rad.
        values: [5] (``CAMERA``).
        size: width of the pictures.
        close: how pictures are compared.

    Returns:
        (angles [n, 2], values [5], their bars [5]).
    """
    seen = np.isfinite(pictures)
    filled = np.where(seen, pictures, look.plate)

    def left_by(tries: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        moved = replace(arm, numbers=camera_numbers(numbers, size))
        return close.smoothed(seen * (filled - look.pictures(moved.coverage(tries))))

    residual = left_by(angles, values)
    near = [(left_by(angles - move, values) - left_by(angles + move, values)) / (2 * STEP) for move in STEP * np.eye(2)]
    shared = []
    for move in np.diag(CAMERA_STEPS):
        shared.append((left_by(angles, values - move) - left_by(angles, values + move)) / (2 * move.sum()))
    own, all_ = (np.stack(part, axis=1).reshape(len(angles), len(part), -1) for part in (near, shared))
    flat = residual.reshape(len(angles), -1)
    weight = geman(flat, close.scale)
    a = np.einsum("nip,np,njp->nij", own, weight, own, optimize=True) + 1e-6 * np.eye(2)
    b = np.einsum("nip,np,njp->nij", own, weight, all_, optimize=True)
    c = np.einsum("nip,np,njp->ij", all_, weight, all_, optimize=True)
    g, h = (np.einsum("nip,np,np->ni", part, weight, flat, optimize=True) for part in (own, all_))
    solved = np.linalg.solve(a, np.concatenate([b, g[..., None]], axis=2))
    touched = weight * (np.abs(own).sum(axis=1) > 0.01)
    variance = (touched * flat**2).sum() / touched.sum()
    prior = np.diag(variance * RADIUS**2 / PRIOR_SD**2)
    schur = c - np.einsum("nij,nik->jk", b, solved[..., :-1]) + prior
    right = h.sum(axis=0) - np.einsum("nij,ni->j", b, solved[..., -1]) + prior @ (first_camera() - values)
    step = np.linalg.solve(schur, right)
    follow = solved[..., -1] - solved[..., :-1] @ step
    bars = RADIUS * np.sqrt(variance * np.diagonal(np.linalg.inv(schur)))
    return angles + np.clip(follow, -WIDEST, WIDEST), values + step, bars


# -- the log --------------------------------------------------------------------------------------------------------------------


def read_log(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Times [K] s and measured angles [K, 2] rad of the log."""
    rows = np.genfromtxt(path, delimiter=",", names=True)
    return rows["time"], np.stack([rows["pos_meas1"], rows["pos_meas2"]], axis=1)


def log_at(times: np.ndarray, log: tuple[np.ndarray, np.ndarray], offset: float) -> np.ndarray:
    """Angles [T, 2] of the log at film times [T] s, NaN outside of it; ``offset`` is film time minus log time [s]."""
    return np.stack([np.interp(times - offset, log[0], column, left=np.nan, right=np.nan) for column in log[1].T], axis=1)


def aligned(
    times: np.ndarray, angles: np.ndarray, log: tuple[np.ndarray, np.ndarray], *, near: float, width: float = 0.5
) -> float:
    """The offset [s] at which angles [T, 2] at film times [T] agree best with the log (sum of absolute differences)."""

    def cost(offset: float) -> float:
        return float(np.nanmean(np.abs(wrapped(angles - log_at(times, log, offset)))))

    coarse = near + np.linspace(-width, width, 101)
    best = coarse[np.argmin([cost(each) for each in coarse])]
    return float(minimize_scalar(cost, bounds=(best - 0.02, best + 0.02), method="bounded", options={"xatol": 1e-5}).x)


def wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles within half a turn of 0 [rad]."""
    return (angles + np.pi) % (2 * np.pi) - np.pi


def moving(angles: np.ndarray, *, least: float = 0.01) -> np.ndarray:
    """[T] bool: frames between whose neighbours an angle [T, 2] changes by more than ``least`` rad."""
    return (np.abs(np.gradient(angles, axis=0)) > 0.5 * least).any(axis=1)


def rest_zeros(angles: np.ndarray, count: int = 45) -> np.ndarray:
    """Angles [2] of the pendulum at rest: the median of the first pictures. Both encoders are zero there."""
    return np.median(angles[:count], axis=0)


# -- stages --------------------------------------------------------------------------------------------------------------


def made(path: Path, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of a file, which is made first if it is not there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(temporary, **make())
        temporary.replace(path)
    with np.load(path) as file:
        return dict(file)


def steady_film(folder: Path) -> dict[str, np.ndarray]:
    """Grey pictures as the reference's camera would see them, motions of the camera, time stamps."""
    grey, times = read_grey(folder / FILM)
    motion = camera_motion(grey, rig_mask(*grey.shape[1:]), reference=REFERENCE)
    return {"pictures": steadied(grey, motion).astype(np.float16), "motion": motion, "times": times}


def plate_frames(count: int) -> np.ndarray:
    """Frames whose median is the first plate: few of those in which the arm stands upright."""
    return np.r_[0 : min(200, count) : 5, min(680, count) : count : 5, min(210, count) : min(660, count) : 60]


FIRST_GREY = np.array([0.35, 0.02, 0.05])  # metal, black, the weight's ring: until they are solved


def track(pictures: np.ndarray, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Angles of all frames in pictures of half the size and the first look."""
    arm, small = Arm(load_scene("real/double_pendulum", size=SIZE // 2)), halved(pictures)
    look = Look(FIRST_GREY, halved(first_plate(pictures[plate_frames(len(pictures))])))
    return {"angles": tracked(arm, look, small, say=say)}


def fit(pictures: np.ndarray, angles: np.ndarray, say: Callable[[str], None], *, rounds: int = 4, every: int = 12) -> dict:
    """Look, camera with the second length, and angles in turn, in pictures of half and then of full size."""
    plate, values = first_plate(pictures[plate_frames(len(pictures))]), first_camera()
    some = np.arange(0, len(angles), every)
    bars = np.zeros(len(values))
    arm = Arm(load_scene("real/double_pendulum", size=SIZE), camera_numbers(values, SIZE))
    chosen, place = pictures[some], angles[some]
    for k in range(2 * rounds):
        close = FAR if k < rounds else NEAR
        look = solved_look(chosen, arm.coverage(place), plate)
        for _ in range(2):
            place, values, bars = camera_step(arm, look, chosen, place, values, SIZE, close)
            arm = replace(arm, numbers=camera_numbers(values, SIZE))
        say(f"grey {look.grey.round(3)}, camera {values.round(4)} ± {bars.round(4)}")
    found = fitted(arm, look, pictures, angles, steps=2, close=FAR)
    found = fitted(arm, look, pictures, found.angles, steps=2)
    return {"angles": found.angles, "misfit": found.misfit, "bars": found.bars, "grey": look.grey, "plate": look.plate,
            "camera": values, "camera_bars": bars}  # fmt: skip


def compare(times: np.ndarray, angles: np.ndarray, log: tuple[np.ndarray, np.ndarray]) -> dict[str, float | list[float]]:
    """The offset of the film in the log, and rms differences [degrees] of both angles in moving frames, as they are and from the
    zeros of the pendulum at rest."""
    zero = rest_zeros(angles)
    fast = moving(angles)
    result: dict[str, float | list[float]] = {"rest [deg]": np.degrees(zero).round(3).tolist()}
    result["offset [s]"] = offset = aligned(times, angles - zero, log, near=HANDED)
    truth = log_at(times, log, offset)
    inside = np.isfinite(truth).all(axis=1) & fast
    result["moving frames"] = int(inside.sum())
    for name, these in (("raw", angles), ("from rest", angles - zero)):
        error = np.degrees(wrapped(these - truth)[inside])
        result[f"rms, {name} [deg]"] = np.sqrt((error**2).mean(axis=0)).round(3).tolist()
        result[f"median, {name} [deg]"] = np.median(error, axis=0).round(3).tolist()
        result[f"median size, {name} [deg]"] = np.median(np.abs(error), axis=0).round(3).tolist()
        result[f"off by more than 10 degrees, {name}"] = (np.abs(error) > 10).sum(axis=0).tolist()
    return result


def write_angles(path: Path, times: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """``angles.csv``: time [s], angles [rad], misfit, bars [rad]."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "angle1", "angle2", "residual", "bar1", "bar2"])
        for row in zip(times, *found["angles"].T, found["misfit"], *found["bars"].T, strict=True):
            writer.writerow([f"{number:.6f}" for number in row])


def overlay(path: Path, pictures: np.ndarray, found: dict[str, np.ndarray], frames: Sequence[int]) -> None:
    """A sheet of frames: the film above, what was fitted below."""
    from PIL import Image

    arm = Arm(load_scene("real/double_pendulum", size=SIZE), camera_numbers(found["camera"], SIZE))
    drawn = Look(found["grey"], found["plate"]).pictures(arm.coverage(found["angles"][list(frames)]))
    shown = np.nan_to_num(np.concatenate([np.concatenate(list(rows), axis=1) for rows in (pictures[list(frames)], drawn)]))
    Image.fromarray((255 * np.clip(shown, 0, 1) ** 0.45).astype(np.uint8)).save(path)


def study(folder: Path, out: Path, say: Callable[[str], None]) -> str:
    """All stages; returns the text of ``results.json``."""
    film = made(out / "steady.npz", lambda: steady_film(folder))
    pictures, times = film["pictures"].astype(np.float32), film["times"]
    first = made(out / "track.npz", lambda: track(pictures, say))
    found = made(out / "fit.npz", lambda: fit(pictures, first["angles"], say))
    write_angles(out / "angles.csv", times, found)
    overlay(out / "overlay.png", pictures, found, range(60, len(times), 110))
    result = compare(times, found["angles"], read_log(folder / "trajectory.csv"))
    camera = zip(CAMERA, found["camera"], found["camera_bars"], strict=True)
    result |= {name: [float(value), float(bar)] for name, value, bar in camera}
    result["second length over first"] = float(found["camera"][4] / pendulum.UPPER)
    text = json.dumps(result, indent=1)
    (out / "results.json").write_text(text + "\n", encoding="utf-8")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 2 for data that are not here."""
    parser = argparse.ArgumentParser(prog="python -m scenes.studies.dfki_pendulum", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/dfki_pendulum"), help="folder of the results")
    options = parser.parse_args(arguments)
    try:
        folder = data_folder("dfki_double_pendulum")
        start()
        print(study(folder, options.out, lambda line: print(line, flush=True)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
