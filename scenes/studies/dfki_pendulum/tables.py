"""The study's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...real import double_pendulum as pendulum

Figures = Mapping[str, Any]
HEAD = ("", "unit", "found", "drawing (1.0)", "identified (2.0)", "from the nearer")


def tables(film: Figures, swing: Figures, power: Figures, spring: Figures, moved: Figures) -> str:
    """The study's tables in Markdown.

    Args:
        film: of the angles (``log.compared``) and the camera.
        swing: of ``free_swing``.
        power: of ``driven``.
        spring: of ``elastic``.
        moved: of ``torques``.
    """
    length, bar = film["lower length [m]"]
    offset, offset_bar = film["offset in the swing-up [s]"]
    parts = [
        table(
            (f"{film['moving frames']} moving frames", "first joint", "second joint"),
            [
                ["rms against the encoders [deg]", *_each(film["rms, raw [deg]"])],
                ["the same, the film's own angles at rest as zero [deg]", *_each(film["rms, from rest [deg]"])],
                ["frames off by more than 10 degrees", *(str(count) for count in film["off by more than 10 degrees, from rest"])],
            ],
        ),
        f"Second length {length:.4f} ± {bar:.4f} m ({100 * (length / pendulum.LOWER - 1):+.2f} %). The film is "
        f"{offset:.4f} ± {offset_bar:.4f} s behind the log in the middle of the swing-up, and its time stamps grow by "
        f"{100 * film['drift']:.2f} % more.",
        "Free swing, first half (the second mass is given):",
        table(HEAD, swing["rows"]),
        f"First length from the swing alone: {_bar(swing['first length [m]'])} m (0.3).",
        "Without a given mass and centre: " + "; ".join(swing["unseen"]) + ".",
        table(
            ("second half, predicted", "first joint", "second joint"),
            [[name, *_each(swing[name])] for name in ("rms, first second [deg]", "rms, after 1 s [deg]")],
        ),
        "Driven, swing-up:",
        table(HEAD, power["rows"]),
        table(
            ("predicted for 2 s", "rms [deg]", *(name for name in next(iter(_ahead(power).values())) if name.endswith(" s"))),
            [[name, *(" / ".join(_each(pair)) for pair in each.values())] for name, each in _ahead(power).items()],
        ),
        f"Upright, errors grow by e in {1 / power['growth upright [1/s]'][0]:.3f} s.",
        f"Upright, windows of 0.1 s: {spring['rigid']['rms [deg]']:.2f} degrees are left with rigid joints, "
        f"{spring['elastic']['rms [deg]']:.2f} with elastic ones of {_bar(spring['upper.stiffness'])} and "
        f"{_bar(spring['lower.stiffness'])} N m/rad; rotor of the first joint "
        f"{_bar(spring['upper_rotor.armature'])} kg m2.",
        table(
            ("torques, rms error in % of the measured range", "swing-up", "upright", "all", "of no torque, all"),
            [
                [f"from the {kind}, {joint} joint", *(f"{moved[kind][name][k]:.1f}" for name in _TORQUE_COLUMNS)]
                for kind in ("film", "encoders") for k, joint in enumerate(("first", "second"))
            ],
        ),
    ]  # fmt: skip
    return "\n\n".join(parts)


_TORQUE_COLUMNS = ("rms, swing-up [%]", "rms, upright [%]", "rms, all [%]", "of no torque, all [%]")


def _ahead(power: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in power.items() if name.endswith(("half", "swing-up"))}


def _each(numbers: Any) -> list[str]:
    return [f"{number:.2f}" for number in numbers]


def _bar(pair: Any) -> str:
    return f"{pair[0]:.4g} ± {pair[1]:.2g}"


def table(head: Any, body: Any) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body))
