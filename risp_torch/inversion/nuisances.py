"""Numbers of a scene that an inversion takes for known and that may be wrong: camera, time, look, start of the bodies."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.inversion.films import Films
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.matched import MatchedLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.unknowns import PSI, Unknowns
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.parts.cameras import prefix_of
from risp_torch.scene.parts.clock import RATE, START
from risp_torch.scene.parts.lights import ARRAYS
from risp_torch.scene.scene import Scene

# What may be wrong unnoticed, as standard deviations: of a camera in rad and in parts of its distance from the world's origin and
# of its focal length; of a film in frame intervals and in parts of its rate; of lights in parts of their intensity and in rad, of
# colours in parts of white; of a start in rad and in parts of the camera's distance.
CAMERA_TURN, CAMERA_SHIFT, CAMERA_ZOOM = np.radians(2.0), 0.07, 0.1
FILM_START, FILM_RATE = 0.3, 0.03
BRIGHTNESS, LIGHT_TURN, COLOR = 0.3, 0.2, 0.1
BODY_TURN, BODY_SHIFT = 0.05, 0.02


@dataclass(frozen=True)
class Nuisance:
    """A direction in which a known number may be wrong.

    Attributes:
        name: of the parameter.
        move: change of its value by one standard deviation, of its shape.
    """

    name: str
    move: np.ndarray


@dataclass(frozen=True)
class Family:
    """Numbers that are wrong together.

    Attributes:
        title: what they are, in sentences.
        nuisances: M directions.
        scene: the scene, with all parameters that these name.
    """

    title: str
    nuisances: tuple[Nuisance, ...]
    scene: Scene

    @property
    def names(self) -> list[str]:
        """The parameters."""
        return list(dict.fromkeys(each.name for each in self.nuisances))

    def values(self, amplitudes: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [B, ...] of amplitudes [B, M] in standard deviations."""
        values: dict[str, torch.Tensor] = {}
        for amplitude, each in zip(amplitudes.T, self.nuisances, strict=True):
            own = torch.as_tensor(np.asarray(self.scene.parameters[each.name].value), dtype=amplitude.dtype).to(amplitude.device)
            move = torch.as_tensor(each.move, dtype=amplitude.dtype).to(amplitude.device)
            moved = amplitude.reshape(-1, *[1] * move.ndim) * move
            values[each.name] = values.get(each.name, own) + moved
        return {name: self._allowed(name, value) for name, value in values.items()}

    def _allowed(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The values within what the scene takes."""
        sign = self.scene.table.signs.get(name)
        if sign == "color":
            return value.clamp(0.0, 1.0)
        return value.clamp(min=0.0) if sign in ("positive", "not negative") else value


def families_of(scene: Scene, loss: Loss, unknowns: Unknowns) -> list[Family]:
    """What may be wrong in a scene besides its unknowns; nothing for several films, and where a film takes a solve of its look.

    Args:
        scene: the scene.
        loss: the loss: masks and depths do not show the look, states and tracks in space not the camera.
        unknowns: the unknowns; parameters of which a part is unknown are not among the nuisances.
    """
    if isinstance(scene, Films) or isinstance(loss, MatchedLoss) or loss.rough or scene.camera is None:
        return []
    taken = {split_entry(name)[0] for name in unknowns.params} | set(loss.appearance())
    if unknowns.appearance is not None:
        taken |= set(unknowns.appearance.spreads)
    found = []
    if loss.of_pictures and scene.smoke is None:  # smoke fills the picture, whatever the camera
        found.append(("the camera", _camera(scene), scene))
    if (filmed := _with_clock(scene)) is not None:
        found.append(("the film's time", _time(filmed), filmed))
    if isinstance(loss, PixelLoss) and PSI not in unknowns.params:
        found.append(("the look", _look(scene), scene))
    found.append(("the start of the bodies", _starts(scene), scene))
    families = [Family(title, tuple(n for n in numbers if n.name not in taken), own) for title, numbers, own in found]
    return [family for family in families if family.nuisances]


def _with_clock(scene: Scene) -> Scene | None:
    """The scene with a film that has times as parameters; None if it cannot have one."""
    if scene.clock is not None:
        return scene
    if scene.stepping.adaptive or scene.smoke is not None:
        return None
    filmed = copy.deepcopy(scene)
    filmed.set_film()
    return filmed


def _camera(scene: Scene) -> Iterator[Nuisance]:
    prefix, reach = prefix_of(scene.camera), CAMERA_SHIFT * _distance(scene)
    yield from _each(f"{prefix}.turn", CAMERA_TURN, 3)
    yield from _each(f"{prefix}.position", reach, 3)
    yield Nuisance(f"{prefix}.focal", CAMERA_ZOOM * np.asarray(scene.parameters[f"{prefix}.focal"].value))


def _time(scene: Scene) -> Iterator[Nuisance]:
    yield Nuisance(START, np.asarray(FILM_START * scene.frame_dt))
    yield Nuisance(RATE, FILM_RATE * np.asarray(scene.parameters[RATE].value))


def _look(scene: Scene) -> Iterator[Nuisance]:
    """Lights and colours; large arrays of colours by the three channels; of smoke its colour and opacity, and the background."""
    if scene.smoke is not None:
        yield from _look_of_smoke(scene)
    for array, field in scene.view.picture_fields().items():
        for name in field.names:
            last = name.rpartition(".")[2]
            if name not in scene.parameters or last in ("cell", "origin"):
                continue
            value = np.asarray(scene.parameters[name].value, dtype=np.float64)
            if array in ARRAYS and last in ("intensity", "coefficients") and np.any(value):
                yield Nuisance(name, BRIGHTNESS * value)
            elif array == "directional" and last == "direction":
                yield from (Nuisance(name, LIGHT_TURN * tangent) for tangent in _tangents(value))
            elif array in ("albedo", "ground", "background") and value.shape[-1:] == (3,):
                yield from (Nuisance(name, COLOR * np.broadcast_to(np.eye(3)[c], value.shape)) for c in range(3))


def _look_of_smoke(scene: Scene) -> Iterator[Nuisance]:
    for name in scene.view.picture_parameters:
        value = np.asarray(scene.parameters[name].value, dtype=np.float64)
        if value.shape == (3,):
            yield from _each(name, COLOR, 3)
        elif value.shape == ():
            yield Nuisance(name, BRIGHTNESS * value)


def _starts(scene: Scene) -> Iterator[Nuisance]:
    """Poses and velocities at the start: velocities that lead as far as the places in the time of the film."""
    reach, seconds = BODY_SHIFT * _distance(scene), scene.frames * scene.frame_dt
    sizes = {
        "position": reach, "velocity": reach / seconds, "rotation": BODY_TURN, "angle": BODY_TURN,
        "angular_velocity": BODY_TURN / seconds, "rate": BODY_TURN / seconds,
    }  # fmt: skip
    bodies = [name.rpartition(".")[0] for name in scene.parameters if name.rpartition(".")[2] in ("density", "mass")]
    for body in dict.fromkeys(bodies):
        for last, size in sizes.items():
            name = f"{body}.{last}"
            if name in scene.parameters and np.shape(scene.parameters[name].value) in ((), (3,)):
                yield from _each(name, size, 3 if np.shape(scene.parameters[name].value) else 0)


def _each(name: str, size: float, count: int) -> Iterator[Nuisance]:
    """One direction for each of the entries of a vector, or one for a number."""
    yield from (Nuisance(name, size * row) for row in np.eye(count)) if count else [Nuisance(name, np.asarray(size))]


def _tangents(direction: np.ndarray) -> np.ndarray:
    """Two directions [2, 3] at right angles to one, of its length."""
    return np.linalg.svd(direction[None])[2][1:] * np.linalg.norm(direction)


def _distance(scene: Scene) -> float:
    """Of the camera from the world's origin [m]."""
    return float(np.linalg.norm(scene.parameters[f"{prefix_of(scene.camera)}.position"].value))


def sizes_of(family: Family, amplitudes: np.ndarray) -> Mapping[str, np.ndarray]:
    """Parameter -> its change by amplitudes [M]."""
    return {
        name: sum(a * each.move for a, each in zip(amplitudes, family.nuisances, strict=True) if each.name == name)
        for name in family.names
    }
