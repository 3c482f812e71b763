"""Shared parts of the pages of loss landscapes: the films, cells of work, columns, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.gradsim.cells import Cell, run_cells
from studies.gradsim.landscapes.cells import DEEP, Facts, reinforce_steps, rigid_losses
from studies.gradsim.landscapes.films import LANDING_FRAMES
from studies.gradsim.landscapes.minima import local_minima
from studies.gradsim.landscapes.surrogate import rewards, surrogate
from studies.gradsim.pages import digits, share
from studies.gradsim.presets import Preset

PAPER_FRAMES = 20  # of the paper's film of the cube
RIGID = {"flight": PAPER_FRAMES, "landing": LANDING_FRAMES}
SOFT = ("beam", "ball")
SAMPLINGS = {"all": "all frames", "first+last": "first and last frame"}
CENTRES = (0.3, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0, 4.0)  # of the black box's samples, kg a vertex
COLUMNS = ("minima at", f"deeper than {DEEP:.0%}", "falls to the truth from", "curvature", "normalised", "slope at 1/2", "at 2")
WHERE = {"flight": "in flight, no gravity", "landing": "pushed, falls and lands", "beam": "hanging beam", "ball": "falling ball"}
MAX_LISTED = 4  # minima that a cell of a table lists


def cubes(preset: Preset, folder: Path, *, jobs: int, title: str) -> dict[str, Mapping[str, Any]]:
    """Losses of all frames of both cubes against the mass, by kind (``rigid_losses``)."""
    cells = [
        Cell(
            f"landscapes/{kind}", rigid_losses, {"kind": kind, "size": preset.size, "points": preset.points, "scale": "linear"}
        )
        for kind in RIGID
    ]
    return dict(zip(RIGID, run_cells(cells, folder, jobs=jobs, title=title), strict=True))


def black_boxes(preset: Preset, folder: Path, *, jobs: int, title: str) -> dict[str, Mapping[str, Any]]:
    """Shares of the steps of REINFORCE that go towards the truth, by kind of film (``reinforce_steps``)."""
    cells = [
        Cell(
            f"landscapes/black-box-{kind}", reinforce_steps,
            {
                "kind": kind, "size": preset.small, "frames": frames, "centres": list(CENTRES), "samples": preset.samples,
                "draws": preset.updates, "seed": preset.seed,
            },
        )
        for kind, frames in RIGID.items()
    ]  # fmt: skip
    return dict(zip(RIGID, run_cells(cells, folder, jobs=jobs, title=title), strict=True))


def reward_of(kind: str, result: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Masses over the truth [N] and rewards [N] of a cube's films."""
    return np.asarray(result["ratio"]), rewards(np.asarray(result["losses"], dtype=np.float64)[:, : RIGID[kind] + 1])


def convergence(kind: str, result: Mapping[str, Any], box: Mapping[str, Any]) -> str:
    """From where the derivative of the pixels' error and steps of REINFORCE lead to the truth.

    Args:
        kind: of the cube's film.
        result: its losses.
        box: its steps of REINFORCE.
    """
    masses, reward = reward_of(kind, result)
    low, high = Facts.of(masses, -reward).reach
    several = sum(len(local_minima(surrogate(masses, reward, centre), depth=DEEP)) > 1 for centre in CENTRES)
    shares = " to ".join(dict.fromkeys(f"{fraction:.0%}" for fraction in (min(box["right"]), max(box["right"]))))
    return (
        f"Cube {WHERE[kind]}: the derivative of the pixels' error points to the truth from {digits(low)} to {digits(high)} kg a "
        f"vertex. REINFORCE's surrogate has more than one minimum (deeper than {DEEP:.0%} of its span) at "
        f"{share(several, len(CENTRES))} centres; of its steps {shares} go towards the truth, by centre (half would be chance)."
    )


def fact_cells(facts: Facts) -> list[str]:
    """Cells under ``COLUMNS``."""
    return [
        listed([digits(value) for value in facts.minima]), str(facts.deep),
        f"{digits(facts.reach[0])} to {digits(facts.reach[1])}", digits(facts.curvature), digits(facts.sharpness),
        digits(facts.slope_below), digits(facts.slope_above),
    ]  # fmt: skip


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """The first of several names, and how many more there are."""
    more = len(names) - MAX_LISTED
    return separator.join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def image_lines(name: str, keys: Sequence[str]) -> str:
    """Pictures of a page, one below the other."""
    return "\n\n".join(f"![{key}](images/{name}-{key}.png)" for key in keys)


def mark(axes: Any, title: str, along: str, up: str, *, legend: bool = True) -> None:
    """Draw the truth as a vertical line, and write the titles."""
    axes.axvline(1.0, color="#555555", linestyle=":", linewidth=1.0)
    axes.set(title=title, xlabel=along, ylabel=up)
    if legend:
        axes.legend(fontsize=8)
