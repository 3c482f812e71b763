"""Random appearance: materials, lamps, sky and ground, as named numbers that can be saved and loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any
from zlib import crc32

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json
from ti_sim.base.rules import Rule, Seed, checked

SCHEMA = 1
COLOR_MODES = ("keep", "tint", "draw")
SKIES = ("day", "overcast", "studio")
PATTERNS = ("checker", "tiles", "planks", "concrete")

BODY_RANGES: Mapping[str, tuple[float, float]] = {
    "roughness": (0.15, 0.7),
    "metallic": (0.0, 0.3),
    "specular": (0.2, 0.8),
    "clearcoat": (0.0, 0.6),
    "red": (0.05, 0.9),
    "green": (0.05, 0.9),
    "blue": (0.05, 0.9),
}
SCENE_RANGES: Mapping[str, tuple[float, float]] = {
    "key.azimuth": (-math.pi, math.pi),
    "key.elevation": (0.7, 1.3),
    "key.size": (0.1, 0.4),
    "key.intensity": (0.5, 0.85),
    "key.warmth": (-1.0, 1.0),
    "fill.azimuth": (-math.pi, math.pi),
    "fill.elevation": (0.3, 0.9),
    "fill.size": (0.4, 0.9),
    "fill.intensity": (0.05, 0.2),
    "fill.warmth": (-1.0, 1.0),
    "sky.azimuth": (-math.pi, math.pi),
    "sky.intensity": (0.2, 0.45),
    "sky.warmth": (-0.5, 0.5),
    "ground.grey": (0.15, 0.55),
    "ground.warmth": (-1.0, 1.0),
    "ground.contrast": (0.25, 0.7),
    "ground.cell": (0.2, 0.6),
    "ground.turn": (-math.pi, math.pi),
    "ground.roughness": (0.3, 0.9),
    "ground.depth": (1.2, 2.0),
}
CHOICES: Mapping[str, tuple[str, ...]] = {"sky.kind": SKIES, "ground.pattern": PATTERNS}


@dataclass(frozen=True)
class Appearance:
    """A sampled appearance.

    Attributes:
        seed: of the random numbers, also those of textures and skies.
        numbers: the numbers of ``SCENE_RANGES``, and for each body "<body>.<name>" with the names of ``BODY_RANGES``. Angles in
            rad; "size" of a lamp as a fraction of its distance; "intensity" in units in which a white surface that faces the
            light (for the sky: upwards) has radiance 1; "cell" of the ground's pattern, and "depth" of an added ground below the
            scene's centre, in radii of the scene; "warmth" from bluish to reddish; red, green and blue are the drawn colour.
        choices: "sky.kind", one of ``SKIES``, and "ground.pattern", one of ``PATTERNS``.
        colors: "keep" for the colours and textures of the scene, "tint" for these times a drawn colour for each body, "draw" for
            the drawn colour alone.
    """

    seed: int
    numbers: Mapping[str, float]
    choices: Mapping[str, str]
    colors: str = "keep"

    def to_json(self) -> str:
        """The appearance as JSON text, which ``from_json`` reads."""
        content = {"schema": SCHEMA, "seed": self.seed, "colors": self.colors, "choices": self.choices, "numbers": self.numbers}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, *, name: str = "the appearance") -> Appearance:
        """The appearance that ``to_json`` wrote.

        Args:
            text: JSON.
            name: in error messages.

        Raises:
            UserError: the text is not an appearance, or has another schema; a number or a choice is missing or wrong.
        """
        try:
            content = parse_json(text)
            schema, seed, colors = content["schema"], int(content["seed"]), str(content["colors"])
            numbers = {str(key): float(value) for key, value in content["numbers"].items()}
            choices = {str(key): str(value) for key, value in content["choices"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                f"{name} is no drawn appearance ({error!r}): give an appearance.json that a run has written"
            ) from error
        if schema != SCHEMA:
            raise UserError(f"{name} has schema {schema} and {SCHEMA} is needed: draw a new one with --seed")
        appearance = cls(seed, numbers, choices, colors)
        scene_parts = {key.partition(".")[0] for key in SCENE_RANGES}
        appearance.check(sorted({key.rpartition(".")[0] for key in numbers} - scene_parts), name=name)
        return appearance

    def check(self, bodies: Sequence[str], *, name: str = "the appearance") -> None:
        """Raise a UserError unless every number and choice for these bodies is present and valid."""
        if self.colors not in COLOR_MODES:
            raise UserError(f"{name} has colors {self.colors!r}: choose one of {', '.join(COLOR_MODES)}")
        for key, options in CHOICES.items():
            if self.choices.get(key) not in options:
                raise UserError(f"{name} has {key} {self.choices.get(key)!r}: choose one of {', '.join(options)}")
        for key in (*SCENE_RANGES, *(f"{body}.{entry}" for body in bodies for entry in BODY_RANGES)):
            if key not in self.numbers:
                raise UserError(f"{name} has no number {key!r}: draw an appearance for this scene with --seed")
            if not math.isfinite(self.numbers[key]):
                raise UserError(f"{name} has {key} {self.numbers[key]}: give a finite number")

    def body(self, name: str) -> dict[str, float]:
        """The numbers of one body, with the names of ``BODY_RANGES``."""
        return {entry: self.numbers[f"{name}.{entry}"] for entry in BODY_RANGES}


Ranges = Annotated[Mapping[str, tuple[float, float]], Rule(named=True, shape=(2,), exact=True)]


@checked
def draw_appearance(bodies: Sequence[str], *, seed: Seed, ranges: Ranges | None = None, colors: str = "keep") -> Appearance:
    """Draw an appearance. Each number depends on its name and the seed only, so that adding a body changes no other number.

    Args:
        bodies: names of the bodies.
        seed: non-negative integer.
        ranges: name -> (low, high) in place of the ranges of ``SCENE_RANGES`` and ``BODY_RANGES``; "<body>.roughness" is the
            range of one body, "roughness" that of all of them. Equal bounds fix a number.
        colors: "keep", "tint" or "draw", see ``Appearance``.

    Raises:
        UserError: a range has an unknown name, bounds that are not finite, or its upper bound below the lower one.
    """
    ranges = dict(ranges or {})
    valid_names = [*SCENE_RANGES, *BODY_RANGES, *(f"{body}.{entry}" for body in bodies for entry in BODY_RANGES)]
    for name, (low, high) in ranges.items():
        if name not in valid_names:
            similar_names = get_close_matches(name, valid_names, n=2)
            hint = f"choose among {', '.join(valid_names)}"
            if similar_names:
                hint = f"did you mean {' or '.join(map(repr, similar_names))}?"
            raise UserError(f"unknown number of an appearance {name!r}: {hint}")
        if low > high:
            raise UserError(f"the range of {name!r} is {low} to {high}: give the lower end first")
    numbers = {name: _draw(seed, name, ranges.get(name, value_range)) for name, value_range in SCENE_RANGES.items()}
    for body in bodies:
        for entry, value_range in BODY_RANGES.items():
            name = f"{body}.{entry}"
            numbers[name] = _draw(seed, name, ranges.get(name, ranges.get(entry, value_range)))
    choices = {name: options[int(generator_for(seed, name).integers(len(options)))] for name, options in CHOICES.items()}
    appearance = Appearance(seed, numbers, choices, colors)
    appearance.check(bodies)
    return appearance


def generator_for(seed: int, name: str) -> np.random.Generator:
    """Random number generator of a name."""
    return np.random.default_rng([seed, crc32(name.encode())])


def tint(warmth: float) -> np.ndarray:
    """Linear rgb [3] of a light or a grey of some warmth: bluish at -1, white at 0, reddish at 1; green is always 1."""
    return np.array([1 + 0.2 * warmth, 1.0, 1 - 0.25 * warmth])


def _draw(seed: int, name: str, value_range: Any) -> float:
    low, high = value_range
    return float(generator_for(seed, name).uniform(low, high))
