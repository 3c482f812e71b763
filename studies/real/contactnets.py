"""570 measured tosses of a cube: contact, size and inertia, and how well held-out tosses are predicted.

``python -m studies.real contactnets`` needs the data set ``contactnets_cube`` (``risp data list``) and writes, into
runs/contactnets, ``results.md`` with its tables, a plot, and a JSON file for each fit. Fits that are there are not done again.

Tosses are split by a hash of their names before anything is looked at (``held_out``). Fits see windows of the others, of four
lengths, by friction that is viscous at rest and by bristles. Where the model is right, all lengths give the same: their spread
is part of the error bars. Of the two kinds of friction the one counts that predicts the tosses of the fit better.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import Scene, load_scene, start
from risp_torch.motions import (
    MotionFit,
    MotionFitSettings,
    PoseNoise,
    PredictionErrors,
    Recording,
    fit_motions,
    held_out,
    predict_motions,
    whole_recordings,
    windows,
)
from risp_torch.programs import run_with_exit_status
from scenes.real import contactnets_cube as cube
from studies.markdown import markdown
from ti_sim import restitution

SCALE, GRAVITY = "poses.scale", "gravity"
CONTACT = ("stiffness", "damping", "friction_stiffness", "friction", "radius")
UNKNOWN = ("cube.mass", *(f"ground.contact.{name}" for name in CONTACT), GRAVITY, SCALE)
BRISTLE = "ground.contact.bristle_stiffness"
LENGTHS = (12, 16, 24, 32)  # frames of a window
FIRST_BRISTLE = 3000.0  # N/m, where the search begins
SETTINGS = MotionFitSettings(
    noise=PoseNoise(coordinate=cube.FLIGHT_NOISE, start_position=5e-4, start_rotation=5e-3, start_velocity=0.1, start_spin=1.0),
    robust_scale=5.0,
    iterations=40,
    first_guesses=1,
    shortest_window=None,  # the lengths of the study are fitted one by one
)
MIN_MOTION = 0.01  # m over a window
KNOWN = {"side": cube.SIDE, "friction": (0.15, 0.18)}
PUBLISHED = {  # Acosta, Yang and Posa (RA-L 2022): means and standard deviations over all tosses, % of the width and degrees
    "Drake": ("13.5 ± 8.2", "16.5 ± 20.0"), "Bullet": ("14.9 ± 8.9", "16.5 ± 20.2"), "MuJoCo": ("25.1 ± 10.8", "21.7 ± 21.4"),
}  # fmt: skip
DERIVED: dict[str, tuple[str, Callable[[Mapping[str, float]], float]]] = {
    "friction": ("", lambda values: values["ground.contact.friction"]),
    "side": ("m", cube.real_side),
    "a metre is measured as": ("m", cube.measured_metre),
    "inertia / (mass side²)": ("", cube.inertia_ratio),
    "corner radius": ("m", lambda values: values["ground.contact.radius"] * cube.GRAVITY / values[GRAVITY]),
    "stiffness / mass": ("1/s2", lambda values: values["ground.contact.stiffness"] / values["cube.mass"]),
    "damping / mass": ("1/s", lambda values: values["ground.contact.damping"] / values["cube.mass"]),
    "measured g": ("m/s2", lambda values: values[GRAVITY] * values[SCALE]),
}


def scene_of(kind: str) -> Scene:
    """The scene with "viscous" or "bristle" friction."""
    return load_scene("real/contactnets_cube", bristle_stiffness=FIRST_BRISTLE if kind == "bristle" else 0.0)


def fit(tosses: Sequence[Recording], kind: str, frames: int, path: Path) -> dict[str, Any]:
    """Estimates from windows of this length, read from ``path`` if they are there; with the derived numbers and their bars."""
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    scene = scene_of(kind)
    fit_windows = windows(tosses, frames=frames, stride=frames - 1, least_motion=MIN_MOTION)
    fit_windows = [cube.with_contact_noise(window) for window in fit_windows]
    unknown = [*UNKNOWN, *([BRISTLE] if kind == "bristle" else [])]
    motion_fit: MotionFit = fit_motions(scene, fit_windows, unknown, SETTINGS, scale=SCALE, progress=True)
    derived = {name: vars(motion_fit.derived(function)) for name, (_, function) in DERIVED.items()}
    record = motion_fit.to_json() | {"derived": derived, "iterations": len(motion_fit.costs) - 1, "tosses": len(tosses)}
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
    temporary.replace(path)
    return record


def together(records: Sequence[Mapping[str, Any]], names: Iterable[str] = tuple(DERIVED)) -> dict[str, tuple[float, float]]:
    """Derived numbers over all lengths: mean, and the root of the mean variance plus that of the spread."""
    result = {}
    for name in names:
        values = np.array([record["derived"][name]["value"] for record in records])
        bars = np.array([record["derived"][name]["sd"] for record in records])
        spread = values.var(ddof=1) if len(values) > 1 else 0.0
        result[name] = float(values.mean()), float(np.sqrt((bars**2).mean() + spread))
    return result


def bounce(records: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Coefficient of restitution of an impact through the centre of mass that the fits mean: mean and spread over all lengths."""
    restitutions = [
        restitution(*(record["values"][f"ground.contact.{name}"] for name in CONTACT[:2]), record["values"]["cube.mass"])
        for record in records
    ]
    return float(np.mean(restitutions)), float(np.std(restitutions))


def errors_in_widths(errors: PredictionErrors) -> tuple[np.ndarray, np.ndarray]:
    """Mean errors of each toss [M]: % of the measured width, and degrees."""
    position, rotation = errors.mean()
    return 100 * position[:, 0] / cube.MEASURED_SIDE, rotation[:, 0]


def row_of(name: str, errors: PredictionErrors) -> list[str]:
    """A row of the table of predictions."""
    position, rotation = errors_in_widths(errors)
    return [
        name, str(len(position)), f"{np.median(position):.1f}", f"{np.median(rotation):.1f}",
        f"{position.mean():.1f} ± {position.std():.1f}", f"{rotation.mean():.1f} ± {rotation.std():.1f}",
    ]  # fmt: skip


def free_flight(tosses: Sequence[Recording]) -> tuple[float, float, float]:
    """Measured acceleration of free flight [m/s2] with its standard error, and its residual [m]: no contact model is involved."""
    accelerations, left = [], []
    for toss in tosses:
        poses = toss.body_q[:, 0]
        low = cube.lowest_corner(poses) < cube.CONTACT_HEIGHT
        count = (int(low.argmax()) if low.any() else len(poses)) - 2
        if count >= 12:
            times = np.arange(count) * toss.dt
            fitted = np.polyfit(times, poses[:count, 2], 2)
            accelerations.append(-2 * fitted[0])
            left.append(np.std(poses[:count, 2] - np.polyval(fitted, times)))
    return float(np.median(accelerations)), float(np.std(accelerations) / np.sqrt(len(accelerations))), float(np.median(left))


def impulse_ratio(tosses: Sequence[Recording]) -> tuple[float, float, int]:
    """Inertia / (mass side^2) from impacts on one corner, by Newton and Euler alone: what no contact law enters.

    Between the frames before and after the impact the velocity changes by J / m (plus weight) and the angular momentum by r x J.

    Returns:
        (median, its standard error, number of impacts).
    """
    ratios = []
    corners = 0.5 * cube.MEASURED_SIDE * np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3), axis=-1).reshape(-1, 3)
    for toss in tosses:
        poses = toss.body_q[:, 0]
        turns = cube.Rotation.from_quat(poses[:, 3:])
        arms = np.einsum("tij,kj->tki", turns.as_matrix(), corners)
        heights = poses[:, 2:3] + arms[..., 2]
        velocity = np.diff(poses[:, :3], axis=0) / toss.dt
        spin = (turns[1:] * turns[:-1].inv()).as_rotvec() / toss.dt
        for k in range(3, len(poses) - 6):
            order = np.argsort(heights[k])
            alone = heights[k, order[1]] > 0.012 and heights[k - 2 : k + 3, order[1]].min() > 0.008
            if not (heights[k, order[0]] < 4e-3 and heights[k - 2, order[0]] > 2e-3 and alone):
                continue
            change = velocity[k + 1] - velocity[k - 2] + np.array([0.0, 0.0, 3 * toss.dt * 9.6])
            turn = spin[k + 1] - spin[k - 2]
            if np.linalg.norm(change) > 0.5:
                ratios.append(float(np.cross(arms[k, order[0]], change) @ turn / (turn @ turn)) / cube.MEASURED_SIDE**2)
    return float(np.median(ratios)), float(1.25 * np.std(ratios) / np.sqrt(len(ratios))), len(ratios)


def plot(path: Path, errors: Mapping[str, PredictionErrors]) -> None:
    """Errors over time: median, and the middle half of the tosses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axis, quantity, unit in zip(figure.subplots(1, 2), ("position", "rotation"), ("% of the width", "degrees"), strict=True):
        for name, one in errors.items():
            rows = getattr(one, quantity)[:, :101, 0] * (100 / cube.MEASURED_SIDE if quantity == "position" else 1.0)
            times = np.arange(rows.shape[1]) / cube.RATE
            low, middle, high = np.nanpercentile(rows, [25, 50, 75], axis=0)
            (line,) = axis.plot(times, middle, label=name)
            axis.fill_between(times, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axis.set(xlabel="time [s]", ylabel=f"error of the {quantity} [{unit}]", ylim=(0, None))
        axis.legend()
    figure.savefig(path, dpi=120)


def study(out: Path, tosses: Sequence[Recording], lengths: Sequence[int]) -> str:
    """Everything; returns the text of ``results.md``."""
    names = set(held_out([toss.name for toss in tosses]))
    fitted, unseen = ([toss for toss in tosses if (toss.name in names) == is_held_out] for is_held_out in (False, True))
    out.mkdir(parents=True, exist_ok=True)
    lines = [f"{len(fitted)} tosses for fits, {len(unseen)} held out (`held_out`, by a hash of their names).", ""]
    g, g_bar, left = free_flight(fitted)
    ratio, ratio_bar, impacts = impulse_ratio(fitted)
    height = float(np.median([toss.body_q[-1, 0, 2] for toss in fitted]))
    lines += [
        "Without a contact law:", "",
        f"- free flight falls with {g:.3f} ± {g_bar:.3f} m/s2 in measured metres: a metre is measured as {g / 9.81:.4f} m; "
        f"a parabola leaves {1e3 * left:.2f} mm",
        f"- the centre rests at {1e3 * height:.2f} mm, {height / (0.5 * cube.SIDE):.4f} of half the known side",
        f"- {impacts} impacts on one corner: inertia / (mass side²) = {ratio:.3f} ± {ratio_bar:.3f} (solid cube 0.167, hollow "
        f"cube 0.278, published 0.199)",
        "",
    ]  # fmt: skip
    best: dict[str, tuple[float, PredictionErrors, dict[str, float], Scene]] = {}
    for kind in ("viscous", "bristle"):
        records = [fit(fitted, kind, frames, out / f"{kind}-{frames}.json") for frames in lengths]
        sums = together(records)
        head = ["", *(f"{frames} frames" for frames in lengths), "together"]
        table = [
            [f"{name} {f'[{unit}]' if unit else ''}".strip()]
            + [f"{record['derived'][name]['value']:.5g} ± {record['derived'][name]['sd']:.2g}" for record in records]
            + [f"{sums[name][0]:.5g} ± {sums[name][1]:.2g}"]
            for name, (unit, _) in DERIVED.items()
        ]
        table.append(["converged", *("yes" if record["converged"] else "no" for record in records), ""])
        values = mean_values(records)
        scene = scene_of(kind)
        errors = predict_motions(scene, whole_recordings(fitted, first=0), values, scale=SCALE)
        best[kind] = float(np.median(errors_in_widths(errors)[0])), errors, values, scene
        lines += [
            f"Friction: {kind}.", "", markdown(head, table), "",
            f"Stiffness and damping mean a coefficient of restitution of {bounce(records)[0]:.2f} ± {bounce(records)[1]:.2f} "
            "(impact through the centre of mass; published 0.125).",
            "",
        ]  # fmt: skip
    chosen = min(best, key=lambda kind: best[kind][0])
    _, errors, values, scene = best[chosen]
    predicted = predict_motions(scene, whole_recordings(unseen, first=0), values, scale=SCALE)
    nominal_scene = scene_of("viscous")
    nominal = predict_motions(nominal_scene, whole_recordings(unseen, first=0), {"gravity": 9.81, SCALE: g / 9.81}, scale=SCALE)
    lines += [
        f"Predictions of whole tosses from the first pose and velocity, by {chosen} friction, which predicts those of the fit "
        f"better ({', '.join(f'{kind} {one[0]:.1f} %' for kind, one in best.items())}):", "",
        markdown(
            ["", "tosses", "position, median [%]", "rotation, median [deg]", "position, mean [%]", "rotation, mean [deg]"],
            [
                row_of("held out", predicted), row_of("of the fit", errors), row_of("held out, the scene's own numbers", nominal),
                *([f"{name} (published, all)", "550", "", "", *numbers] for name, numbers in PUBLISHED.items()),
            ],
        ),
        "",
    ]  # fmt: skip
    plot(out / "errors.png", {"held out": predicted, "of the fit": errors})
    text = "\n".join(lines)
    (out / "results.md").write_text(text + "\n", encoding="utf-8")
    return text


def mean_values(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean estimates over all lengths, of logarithms where the scale is one."""
    result = {}
    for name, scale in records[0]["scales"].items():
        numbers = np.array([record["values"][name] for record in records])
        result[name] = float(10 ** np.log10(numbers).mean() if scale == "log10" else numbers.mean())
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 2 for data that are not here."""
    parser = argparse.ArgumentParser(prog="python -m studies.real contactnets", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/contactnets"), help="folder of the results")
    parser.add_argument("--tosses", type=int, help="only the first so many tosses: a look, not a result")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="frames of the windows")
    options = parser.parse_args(arguments)

    def work() -> int:
        tosses = cube.recordings()[: options.tosses]
        start()
        print(study(options.out, tosses, options.lengths))
        return 0

    return run_with_exit_status(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
