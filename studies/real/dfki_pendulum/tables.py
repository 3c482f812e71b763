"""The study's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenes.real import double_pendulum as pendulum
from studies.real.dfki_pendulum.log.driven import HORIZONS
from studies.real.dfki_pendulum.log.log import OFFSET_BY_HAND

Figures = Mapping[str, Any]
HEAD = ("", "unit", "found", "drawing (1.0)", "identified (2.0)", "from identified", "bars from the nearer")


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
    sections = [
        table(
            (f"{film['moving frames']} moving frames", "first joint", "second joint"),
            [
                ["rms against the encoders [deg]", *_each(film["rms, raw [deg]"])],
                ["the same, the film's own angles at rest as zero [deg]", *_each(film["rms, from rest [deg]"])],
                ["frames off by more than 10 degrees", *(str(count) for count in film["off by more than 10 degrees, from rest"])],
            ],
        ),
        f"Second length {length:.4f} ± {bar:.4f} m ({100 * (length / pendulum.LOWER_LENGTH - 1):+.2f} %). The film is "
        f"{offset:.4f} ± {offset_bar:.4f} s behind the log in the middle of the swing-up (by hand {OFFSET_BY_HAND:g} s), and its "
        f"time stamps grow by {100 * film['drift']:.2f} % more. With one offset for all frames it would be "
        f"{film['offset of all frames, without drift [s]']:.4f} s.",
        f"The camera's last step was {film['last step [bars]']:.2g} bars; of the length's bar, the scatter of frames is "
        f"{film['scatter of the length [m]']:.5f} m.",
        "Free swing, first half (the second mass is given):",
        table(HEAD, swing["rows"]),
        _left(swing),
        f"First length from the swing alone: {_bar(swing['first length [m]'])} m (0.3).",
        "Without a given mass and centre: " + "; ".join(swing["unseen"]) + ".",
        table(
            ("second half, predicted", "first joint", "second joint"),
            [[name, *_each(swing[name])] for name in ("rms, first second [deg]", "rms, after 1 s [deg]")],
        ),
        "Driven, swing-up:",
        table(HEAD, power["rows"]),
        _left(power),
        table(
            ("predicted for 2 s", "rms [deg]", *(f"{time:g} s" for time in HORIZONS)),
            [[name, *(" / ".join(_each(pair)) for pair in errors.values())] for name, errors in _predictions(power).items()],
        ),
        f"Upright, errors grow by e in {1 / power['growth upright [1/s]'][0]:.3f} s.",
        f"Upright, windows of 0.1 s: {_pair(spring['rigid']['rms [deg]'])} degrees are left of the encoders with rigid joints, "
        f"{_pair(spring['elastic']['rms [deg]'])} with springs of {_bar(spring['upper.stiffness'])} and "
        f"{_bar(spring['lower.stiffness'])} N m/rad; inertia of the rotors {_bar(spring['upper_rotor.armature'])} and "
        f"{_bar(spring['lower_rotor.armature'])} kg m2; at a bound: {', '.join(spring['at bounds']) or 'none'}.",
        table(
            ("torques, rms error in % of the measured range", "swing-up", "upright", "all", "zero, swing-up", "zero, all"),
            [
                [f"from the {kind}, {joint} joint", *(f"{moved[kind][name][k]:.1f}" for name in _TORQUE_COLUMNS)]
                for kind in ("film", "encoders") for k, joint in enumerate(("first", "second"))
            ],
        ),
    ]  # fmt: skip
    return "\n\n".join(sections)


_TORQUE_COLUMNS = ("rms, swing-up [%]", "rms, upright [%]", "rms, all [%]", "of no torque, swing-up [%]", "of no torque, all [%]")


def _predictions(power: Mapping[str, Any]) -> dict[str, Any]:
    return {name: errors for name, errors in power.items() if name.endswith(("half", "swing-up"))}


def _left(figures: Figures) -> str:
    left = ", ".join(f"{degrees:.2f} of {count}" for count, degrees in figures["left"])
    bounds = ", ".join(figures["at bounds"]) or "none"
    return f"Left of the angles [deg rms], by the number of windows: {left}. At a bound: {bounds}."


def _pair(numbers: Any) -> str:
    return " and ".join(_each(numbers))


def _each(numbers: Any) -> list[str]:
    return [f"{number:.2f}" for number in numbers]


def _bar(pair: Any) -> str:
    return f"{pair[0]:.4g} ± {pair[1]:.2g}"


def table(head: Any, body: Any) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body))
