"""Inversions whose scene differs from that of the film in one respect, drawn from a seed, and inversions whose scene is right."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import Scene, film, invert, load_scene, read_video, write_frames, write_video

STARTS = 2  # of an inversion
AWAY = 0.1  # of the range: largest distance of a start from the truth
MIDDLE = 0.25  # of a range at both ends: truths are drawn between these
CRF, NOISE = (18, 23), (0.004, 0.012)  # of the films: H.264's quality, and standard deviation of stored colours
GAMMA = 2.2  # about that of sRGB
EVERY = 4  # of so many inversions, one has the right scene
CORRELATED = 16.0  # errors of compression that count as one
SHOWN = 50.0  # squared difference of the estimate's film from the true one, in variances: more is visible in the film

Random = np.random.Generator
Change = Callable[[Scene, Random], None]


@dataclass(frozen=True)
class Subject:
    """A scene of the study: frame intervals of its films, and its unknowns."""

    frames: int
    unknowns: tuple[str, ...]
    size: int = 48


SUBJECTS = {
    "toss": Subject(18, ("body.density", "ground.contact.friction")),
    "pendulum": Subject(16, ("pendulum.length", "pendulum.damping")),
    "quadrotor": Subject(14, ("quadrotor.mass",)),
    "cube": Subject(28, ("ground.contact.stiffness",)),
    "beam": Subject(6, ("beam.E",)),
}


def _either_way(random: Random, low: float, high: float) -> float:
    """A number with this range of magnitudes."""
    return float(random.choice((-1.0, 1.0)) * random.uniform(low, high))


def _times(name: str, low: float, high: float) -> Change:
    """Multiply a number by 1 + (low to high), or divide it by that."""

    def change(scene: Scene, random: Random) -> None:
        factor = 1.0 + random.uniform(low, high)
        _put(scene, name, np.asarray(scene.parameters[name].value) * (factor if random.random() < 0.5 else 1.0 / factor))

    return change


def _away(name: str, low: float, high: float) -> Change:
    """Add a vector of this length in a random direction."""

    def change(scene: Scene, random: Random) -> None:
        direction = random.standard_normal(3)
        step = random.uniform(low, high) * direction / np.linalg.norm(direction)
        _put(scene, name, np.asarray(scene.parameters[name].value) + step)

    return change


def _put(scene: Scene, name: str, value: Any) -> None:
    """Set a number, outside its bounds too."""
    scene.table.params[name] = replace(scene.table.params[name], low=None, high=None)
    scene.set(name, value)


def _lens(scene: Scene, random: Random) -> None:
    scene.use_cameras([replace(scene.camera, distortion=(_either_way(random, 0.2, 0.6), 0, 0, 0, 0))])


def _late(scene: Scene, random: Random) -> None:
    scene.set_film()
    _put(scene, "film.start", -random.uniform(0.05, 0.3) * scene.frame_dt)


def _rate(scene: Scene, random: Random) -> None:
    scene.set_film()
    _put(scene, "film.rate", 1.0 - random.uniform(0.001, 0.02))


def _gravity(scene: Scene, random: Random) -> None:
    tilt, about = math.radians(random.uniform(0.3, 2.0)), random.uniform(0, 2 * math.pi)
    down = (math.sin(tilt) * math.cos(about), math.sin(tilt) * math.sin(about), -math.cos(tilt))
    scene.set("gravity", 9.81 * np.array(down))


def _drag(scene: Scene, random: Random) -> None:
    mass = scene.parameters["body.density"].value * scene.bodies[0].mass_properties.volume
    scene.table.add("body.linear_drag", random.uniform(0.1, 0.5) * mass, unit="N s/m", sign="not negative")


def _coarse(scene: Scene, random: Random) -> None:
    times = int(random.choice((5, 10)))
    scene.stepping = replace(scene.stepping, substeps=scene.stepping.substeps // times)
    scene.applied_forces = tuple(
        replace(force, first_step=force.first_step // times, end_step=force.end_step // times) for force in scene.applied_forces
    )


def _inertia(scene: Scene, random: Random) -> None:
    solid = scene.bodies[0].mass_properties
    unit = np.asarray(solid.inertia_per_density) / solid.volume
    root = np.diag(1.0 + np.array([_either_way(random, 0.02, 0.12) for _ in range(3)]))
    scene.table.add("body.inertia_per_mass", root @ unit @ root, unit="m2", shape=(3, 3))


@dataclass(frozen=True)
class Kind:
    """A fault: its name, the scene, what changes the film's scene, and the unknowns (by default the subject's)."""

    name: str
    scene: str
    change: Change | None
    unknowns: tuple[str, ...] = ()
    options: Callable[[Random], dict[str, Any]] = lambda random: {}


KINDS = (
    Kind("camera turned", "toss", _away("camera.turn", 0.005, 0.03)),
    Kind("camera moved", "pendulum", _away("camera.position", 0.01, 0.05)),
    Kind("focal length", "toss", _times("camera.focal", 0.003, 0.02)),
    Kind("lens distortion", "quadrotor", _lens),
    Kind("film begins late", "toss", _late),
    Kind("rate of the film", "pendulum", _rate),
    Kind("direction of gravity", "toss", _gravity),
    Kind("known contact stiffness", "toss", _times("ground.contact.stiffness", 0.15, 1.0)),
    Kind("known friction", "toss", _times("ground.contact.friction", 0.1, 0.6), ("body.density",)),
    Kind("known damping", "pendulum", _times("pendulum.damping", 0.3, 2.0), ("pendulum.length",)),
    Kind("air drag", "toss", _drag),
    Kind("drag of the rotors", "quadrotor", _times("quadrotor.linear_drag", 0.3, 2.0)),
    Kind("coarse steps", "toss", _coarse),
    Kind("mass distribution", "toss", _inertia, ("body.density",)),
    Kind("start position", "toss", _away("body.position", 0.001, 0.006)),
    Kind("initial spin", "cube", _away("die.angular_velocity", 0.05, 0.5)),
    Kind("pivot", "pendulum", _away("pendulum.position", 0.002, 0.006)),
    Kind("light", "toss", _times("light.key.intensity", 0.03, 0.3)),
    Kind("size of the body", "toss", None, options=lambda random: {"scale": 1.0 + _either_way(random, 0.005, 0.04)}),
    Kind("known Poisson's ratio", "beam", lambda scene, random: _put(scene, "beam.nu", random.uniform(0.2, 0.45))),
)
RIGHT = "right scene"


@dataclass(frozen=True)
class Case:
    """One inversion: its number in the study, its kind, and the study's seed."""

    number: int
    kind: Kind
    seed: int

    @staticmethod
    def of(number: int, seed: int) -> Case:
        """The case with this number, of the study with this seed: every fourth has the right scene."""
        if number % EVERY == EVERY - 1:
            names = list(SUBJECTS)
            return Case(number, Kind(RIGHT, names[number // EVERY % len(names)], None), seed)
        return Case(number, KINDS[(number - number // EVERY) % len(KINDS)], seed)


def run(case: Case, folder: Path) -> dict[str, Any]:
    """Film and invert one case.

    Args:
        case: the case.
        folder: where its film is written.

    Returns:
        JSON values: the case, each unknown's truth, estimate, error and error bar (scaled units), doubts, and whether the
        film shows the fault.
    """
    began, kind = time.perf_counter(), case.kind
    random = np.random.default_rng([case.seed, case.number])
    scene, true = _scene(kind.scene), _scene(kind.scene, **kind.options(random))
    unknowns = kind.unknowns or SUBJECTS[kind.scene].unknowns
    truth = {name: _drawn(scene, name, random, MIDDLE) for name in unknowns}
    for name, value in truth.items():
        true.set(name, value)
        scene.set(name, value)
    if kind.change is not None:
        kind.change(true, random)
    clean = _film_of(true)
    video, quality, variance = _written(clean, folder, scene.fps, random)
    starts = [{name: _near(scene, name, value, random) for name, value in truth.items()} for _ in range(STARTS)]
    result = invert(scene, video, list(truth), starts=starts, progress=False)
    for name in truth:
        _put(scene, name, result.values[name])
    strength = float(((clean - _film_of(scene)) ** 2).sum()) / variance
    errors = result.scaled_error(truth)
    return {
        "number": case.number, "scene": kind.scene, "kind": kind.name, "seed": case.seed, "film": quality,
        "unknowns": {
            name: {"truth": value, "value": result.values[name], "error": float(errors[name]), "sd": result.sd[name]}
            for name, value in truth.items()
        },
        "shown": strength > SHOWN, "strength": strength, "misfit": result.misfit, "doubts": result.doubts,
        "families": [entry["family"] for entry in result.misspecifications], "seconds": round(time.perf_counter() - began, 2),
    }  # fmt: skip


def _scene(name: str, **options: Any) -> Scene:
    subject = SUBJECTS[name]
    scene = load_scene(name, size=subject.size, **options)
    scene.frames = subject.frames
    return scene


def _film_of(scene: Scene) -> np.ndarray:
    """The scene's film [T, H, W, 3], linear rgb."""
    with torch.no_grad():
        return film(scene, {}, worlds=1, frames=scene.frames)[0][0].cpu().numpy()


def _range(scene: Scene, name: str) -> tuple[float, float, bool]:
    """Bounds of a number in its scale, and whether that is the decimal logarithm."""
    param = scene.parameters[name]
    logarithmic = param.scale == "log10"
    return *((math.log10(bound) if logarithmic else bound) for bound in (param.low, param.high)), logarithmic


def _drawn(scene: Scene, name: str, random: Random, margin: float) -> float:
    """A number of the scene, evenly from its range without a part of it at both ends."""
    low, high, logarithmic = _range(scene, name)
    scaled = low + random.uniform(margin, 1 - margin) * (high - low)
    return float(10**scaled if logarithmic else scaled)


def _near(scene: Scene, name: str, value: float, random: Random) -> float:
    """A start near a true value."""
    low, high, logarithmic = _range(scene, name)
    scaled = (math.log10(value) if logarithmic else value) + random.uniform(-AWAY, AWAY) * (high - low)
    return float(10**scaled if logarithmic else scaled)


def _written(pictures: np.ndarray, folder: Path, fps: float, random: Random) -> tuple[Path, str, float]:
    """The film as H.264, or with noise as PNG pictures; which; and the variance of its errors, in independent ones."""
    if random.random() < 0.5:
        crf = int(random.integers(CRF[0], CRF[1] + 1))
        write_video(folder / "film.mp4", pictures, fps=fps, crf=crf)
        errors = np.asarray(read_video(folder / "film.mp4")) - pictures
        return folder / "film.mp4", f"H.264, crf {crf}", CORRELATED * float((errors**2).mean())
    noise = random.uniform(*NOISE)
    noisy = np.clip(pictures, 0, 1) ** (1 / GAMMA) + noise * random.standard_normal(pictures.shape)
    noisy = np.clip(noisy, 0, 1) ** GAMMA
    write_frames(folder / "frames", noisy, fps=fps)
    return folder / "frames", f"PNG, noise {255 * noise:.1f} of 255", float(((noisy - pictures) ** 2).mean())
