"""Numbers of the double pendulum: what is unknown, and the combinations that motions tell.

The motion depends on masses, centres of mass and inertias through four combinations alone, besides the rotors' inertia and the
joints' friction (the base parameters of a double pendulum). Masses and inertias follow from them where centres of mass are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from scenes.real import double_pendulum as pendulum

MASSES = ("upper.mass", "upper.inertia[1][1]", "lower.mass", "lower.inertia[1][1]", "lower.armature")
FRICTION = ("upper.damping", "lower.damping", "upper.dry_friction", "lower.dry_friction")
GIVEN = "1.0"  # the published model whose centres of mass the scene has
IDENTIFIED = "2.0"  # the published model whose centres of mass its masses go with
GRAVITY = 9.81  # m/s2
RATE = 3.0  # rad/s, at which viscous and dry friction of a joint are added
Values = Mapping[str, float]


class Number(NamedTuple):
    """A number of the tables.

    Attributes:
        name, unit: as shown.
        found: from values of the unknowns.
        known: from a published model.
    """

    name: str
    unit: str
    found: Callable[[Values], float]
    known: Callable[[dict[str, tuple[float, float]]], float]


def mass(values: Values, link: str) -> float:
    """Mass of a link [kg], that of the scene where it is not unknown."""
    return values.get(f"{link}.mass", pendulum.MODELS[GIVEN]["m"][link == "lower"])


def inertia(values: Values, link: str) -> float:
    """Inertia of a link about its joint [kg m2]."""
    return values[f"{link}.inertia[1][1]"] + mass(values, link) * pendulum.MODELS[GIVEN]["r"][link == "lower"] ** 2


def moment(values: Values) -> float:
    """m2 r2 [kg m]."""
    return mass(values, "lower") * pendulum.MODELS[GIVEN]["r"][1]


def whole_moment(values: Values) -> float:
    """m1 r1 + m2 l1 [kg m]."""
    return mass(values, "upper") * pendulum.MODELS[GIVEN]["r"][0] + mass(values, "lower") * pendulum.UPPER_LENGTH


def whole_inertia(values: Values) -> float:
    """I1 + m2 l1^2 [kg m2]."""
    return inertia(values, "upper") + mass(values, "lower") * pendulum.UPPER_LENGTH**2


def lower_mass(values: Values) -> float:
    """m2 [kg] with the centres of mass of the identified model."""
    return moment(values) / pendulum.MODELS[IDENTIFIED]["r"][1]


def upper_mass(values: Values) -> float:
    """m1 [kg] with the centres of mass of the identified model."""
    return (whole_moment(values) - lower_mass(values) * pendulum.UPPER_LENGTH) / pendulum.MODELS[IDENTIFIED]["r"][0]


BASE = (
    Number("m1 r1 + m2 l1", "kg m", whole_moment, lambda m: m["m"][0] * m["r"][0] + m["m"][1] * pendulum.UPPER_LENGTH),
    Number("m2 r2", "kg m", moment, lambda m: m["m"][1] * m["r"][1]),
    Number("I1 + m2 l1²", "kg m2", whole_inertia, lambda m: m["I"][0] + m["m"][1] * pendulum.UPPER_LENGTH**2),
    Number("I2", "kg m2", lambda values: inertia(values, "lower"), lambda m: m["I"][1]),
    Number(
        "rotor's inertia at the joint",
        "kg m2",
        lambda values: values["lower.armature"],
        lambda m: pendulum.GEAR_RATIO**2 * m["Ir"],
    ),
)
RATIOS = tuple(
    Number(
        f"({number.name}) / (m2 r2)", "m" if number.unit == "kg m2" else "",
        lambda values, at=number: at.found(values) / moment(values), lambda m, at=number: at.known(m) / (m["m"][1] * m["r"][1]),
    )
    for number in (BASE[0], BASE[2], BASE[3])
)  # fmt: skip
OF_IDENTIFIED_CENTRES = (
    Number("m1, centres as identified", "kg", upper_mass, lambda m: m["m"][0]),
    Number("m2, centres as identified", "kg", lower_mass, lambda m: m["m"][1]),
    Number(
        "I1, centres as identified", "kg m2",
        lambda values: whole_inertia(values) - lower_mass(values) * pendulum.UPPER_LENGTH**2,
        lambda m: m["I"][0],
    ),
)  # fmt: skip
JOINTS = tuple(
    number
    for k, (link, word) in enumerate((("upper", "first"), ("lower", "second")))
    for number in (
        Number(f"dry friction, {word} joint", "N m", lambda v, at=link: v[f"{at}.dry_friction"], lambda m, k=k: m["cf"][k]),
        Number(f"viscous friction, {word} joint", "N m s", lambda v, at=link: v[f"{at}.damping"], lambda m, k=k: m["b"][k]),
        Number(
            f"both at {RATE:g} rad/s, {word} joint", "N m",
            lambda v, at=link: v[f"{at}.dry_friction"] + RATE * v[f"{at}.damping"], lambda m, k=k: m["cf"][k] + RATE * m["b"][k],
        ),
    )
)  # fmt: skip


def upright_growth(values: Values) -> float:
    """Rate [1/s] at which the pendulum falls fastest from upright, without friction: errors grow e-fold in its inverse."""
    p, coupling = moment(values), moment(values) * pendulum.UPPER_LENGTH
    rotor, lower = pendulum.GEAR_RATIO**2 * pendulum.MODELS[GIVEN]["Ir"], inertia(values, "lower")
    mixed = lower + coupling
    masses = np.array(
        [[whole_inertia(values) + rotor + lower + 2 * coupling, mixed], [mixed, lower + values["lower.armature"]]]
    )  # fmt: skip
    gravity = GRAVITY * np.array([[whole_moment(values) + p, p], [p, p]])
    return float(np.sqrt(np.linalg.eigvals(np.linalg.solve(masses, gravity)).real.max()))


def rows(numbers: tuple[Number, ...], estimate: Callable[[Callable[[Values], float]], tuple[float, float]]) -> list[list[str]]:
    """Rows of a table: name, unit, value with bar, both published values, difference from the identified one in per cent, and
    from the nearer one in bars.

    Args:
        numbers: of the rows.
        estimate: value and error bar of a function of the unknowns (``GrowingFits.number``).
    """
    result = []
    for number in numbers:
        value, bar = estimate(number.found)
        published = [number.known(model) for model in pendulum.MODELS.values()]
        low, high = min(published), max(published)
        nearest = min(max(value, low), high)
        away = "between" if low <= value <= high else f"{abs(value - nearest) / bar:.1f}"
        identified = number.known(pendulum.MODELS[IDENTIFIED])
        share = f"{100 * (value / identified - 1):+.0f} %" if identified else ""
        cells = [number.name, number.unit, f"{value:.4g} ± {bar:.2g}", *(f"{model:.4g}" for model in published)]
        result.append([*cells, share, away])
    return result
