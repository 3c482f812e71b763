"""Table 6 of gradSim's appendix: the numbers of each of its systems that can be found, each from a film by one command.

The paper marks initial positions, velocities, mass, orientation, rest lengths, stiffness, damping, actuation, gravity, friction,
elasticity and external forces. Every row here is a pair of commands, ``risp simulate`` and ``risp invert``, of a shipped scene.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import invert, load_scene, simulate_video
from studies.gradsim.cells import FAILED, Cell, run_cells
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import CRF, INSIDE, Preset
from studies.markdown import markdown
from ti_sim import Count, checked

WIDEST = 0.3  # of the truth: bars (one standard deviation) above it are those of numbers that count as not found
STARTS = 2
TIMES = 4.0  # bounds of a positive number are this many times the truth and its inverse


@dataclass(frozen=True)
class Asked:
    """A number of a system.

    Attributes:
        system: the paper's name.
        mark: its column in the paper's table.
        scene: a shipped scene.
        unknown: name of a number there, or of several that are found together.
        reach: half the width of its bounds, in its unit; None for a positive number, whose bounds are a factor ``TIMES``.
    """

    system: str
    mark: str
    scene: str
    unknown: tuple[str, ...]
    reach: float | None = None

    def bounds(self) -> dict[str, tuple[Any, ...]]:
        """Bounds of each unknown about the scene's values, not in their middle: low, high, scale.

        Starts are spread over them. The truth is at two fifths of a linear range, and at a third of a logarithmic one.
        """
        scene, bounds = load_scene(self.scene), {}
        for name in self.unknown:
            value = _value(scene, name)
            if self.reach is None:
                low, high = abs(value) / TIMES, abs(value) * TIMES**2
                bounds[name] = (low, high, "log10") if value > 0 else (-high, -low, "linear")
            else:
                bounds[name] = (value - 0.8 * self.reach, value + 1.2 * self.reach, "linear")
        return bounds

    @property
    def key(self) -> str:
        """Of its file."""
        return f"{self.system}-{self.mark}".replace(" ", "-")


RIGID, PENDULUM, DOUBLE, SOLID, CLOTH = "rigid body", "simple pendulum", "double pendulum", "deformable object", "cloth"
NET, SMOKE = "spring net", "fluid (smoke), 2D"
ROWS = (
    Asked(RIGID, "position", "toss", tuple(f"body.position[{k}]" for k in range(3)), 0.03),
    Asked(RIGID, "velocity", "toss", tuple(f"body.velocity[{k}]" for k in range(3)), 0.5),
    Asked(RIGID, "mass", "toss", ("body.density",)),
    Asked(RIGID, "orientation", "toss", tuple(f"body.rotation[{k}]" for k in range(3)), 0.4),
    Asked(RIGID, "stiffness", "toss", ("ground.contact.stiffness",)),
    Asked(RIGID, "gravity", "toss", ("gravity[2]",), 4.0),
    Asked(RIGID, "friction", "toss", ("ground.contact.friction",)),
    Asked(RIGID, "elasticity", "toss", ("ground.contact.damping",)),
    Asked(RIGID, "external force", "toss", tuple(f"push.impulse[{k}]" for k in range(3)), 0.006),
    Asked(PENDULUM, "position", "pendulum", ("pendulum.angle",), 0.6),
    Asked(PENDULUM, "velocity", "pendulum", ("pendulum.rate",), 2.0),
    Asked(PENDULUM, "rest length", "pendulum", ("pendulum.length",), 0.2),
    Asked(PENDULUM, "damping", "pendulum", ("pendulum.damping",)),
    Asked(PENDULUM, "gravity", "pendulum", ("gravity",)),
    Asked(DOUBLE, "position", "double_pendulum", ("upper.angle", "lower.angle"), 0.4),
    Asked(DOUBLE, "velocity", "double_pendulum", ("upper.rate", "lower.rate"), 1.0),
    Asked(DOUBLE, "mass", "double_pendulum", ("lower.mass",)),
    Asked(DOUBLE, "rest length", "double_pendulum", ("upper.length", "lower.length"), 0.1),
    Asked(DOUBLE, "gravity", "double_pendulum", ("gravity[2]",), 4.0),
    Asked(SOLID, "position", "ball_soft", tuple(f"ball.position[{k}]" for k in range(3)), 0.08),
    Asked(SOLID, "velocity", "ball_soft", tuple(f"ball.velocity[{k}]" for k in range(3)), 0.5),
    Asked(SOLID, "mass", "ball_soft", ("ball.density",)),
    Asked(SOLID, "orientation", "ball_soft", tuple(f"ball.rotation[{k}]" for k in range(3)), 0.3),
    Asked(SOLID, "stiffness", "ball_soft", ("ball.mu", "ball.lam")),
    Asked(SOLID, "damping", "ball_soft", ("ball.damping",)),
    Asked(SOLID, "actuation", "walker", ("walker.actuation[0][20]", "walker.actuation[2][60]"), 0.3),
    Asked(SOLID, "gravity", "ball_soft", ("gravity[2]",), 4.0),
    Asked(SOLID, "friction", "ball_soft", ("ground.contact.friction",)),
    Asked(SOLID, "elasticity", "ball_soft", ("ground.contact.damping",)),
    Asked(SOLID, "external force", "rod", ("press.force[5]", "press.force[15]"), 60.0),
    Asked(CLOTH, "position", "cloth_control", tuple(f"cloth.position[{k}]" for k in range(3)), 0.2),
    Asked(CLOTH, "velocity", "cloth", tuple(f"cloth.velocity[{k}]" for k in range(3)), 1.0),
    Asked(CLOTH, "mass", "cloth", ("cloth.density",)),
    Asked(CLOTH, "orientation", "cloth_control", tuple(f"cloth.rotation[{k}]" for k in range(3)), 0.3),
    Asked(CLOTH, "rest angle", "cloth", ("cloth.bending.rest_angle[100]", "cloth.bending.rest_angle[200]"), 1.0),
    Asked(CLOTH, "stiffness", "cloth", ("cloth.mu", "cloth.lam")),
    Asked(CLOTH, "bending stiffness", "cloth", ("cloth.bending.stiffness",)),
    Asked(CLOTH, "damping", "cloth", ("cloth.damping",)),
    Asked(CLOTH, "actuation", "jellyfish", ("jellyfish.bending.actuation[5][3]", "jellyfish.bending.actuation[10][8]"), 0.5),
    Asked(CLOTH, "gravity", "cloth", ("gravity[2]",), 4.0),
    Asked(CLOTH, "drag", "cloth", ("cloth.air.drag",)),
    Asked(NET, "mass", "springs", ("net.mass",)),
    Asked(NET, "rest length", "springs", ("net.rest_length[10]", "net.rest_length[40]")),
    Asked(NET, "stiffness", "springs", ("net.stiffness",)),
    Asked(NET, "damping", "springs", ("net.damping",)),
    Asked(SMOKE, "velocity", "smoke", ("smoke.velocity_x[20][12]", "smoke.velocity_y[44][30]"), 0.5),
)
FRAMES = {"walker": 40, "jellyfish": 30, "gear": 40}  # of scenes whose films are long
TINY = 1  # rows of the smallest preset


def commands(row: Asked, size: int) -> tuple[str, str]:
    """The commands that make and invert the film."""
    frames = f" --frames {FRAMES[row.scene]}" if row.scene in FRAMES else ""
    bounds = " ".join(
        f"--bounds {name}={low:.6g}:{high:.6g}" + (":log10" if scale == "log10" else "")
        for name, (low, high, scale) in row.bounds().items()
    )
    film = f"risp simulate {row.scene} --size {size}{frames} --crf {CRF:g} --out runs/{row.scene}"
    read = (
        f"risp invert {row.scene} --size {size}{frames} --video runs/{row.scene}/video.mp4 --unknown "
        f"{' '.join(row.unknown)} {bounds} --starts {STARTS}"
    )
    return film, read


@checked
def found(row: Count, *, size: Count) -> Mapping[str, Any]:
    """Find the numbers of row ``row``, counted from 1, from an mp4 of the scene, as a cell.

    Args:
        row: of ``ROWS``.
        size: side of the pictures [pixels].

    Returns:
        "truth", "values", "bar" (one standard deviation) by name, in the numbers' units, or as parts of the truth where the scale
        is logarithmic; "unit"; verdicts.
    """
    asked = ROWS[row - 1]
    scene = load_scene(asked.scene, size=size)
    scene.frames = FRAMES.get(asked.scene, scene.frames)
    truth = {name: _value(scene, name) for name in asked.unknown}
    bounds = {name: (round_to(low), round_to(high), scale) for name, (low, high, scale) in asked.bounds().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = simulate_video(scene, Path(folder) / "video.mp4", crf=CRF)
        result = invert(scene, path, list(asked.unknown), bounds=bounds, starts=STARTS, progress=False)
    relative = {name: scale == "log10" for name, (_, _, scale) in bounds.items()}
    errors, bars = errors_and_bars(result.values, result.sd, truth, relative)
    return {
        "truth": truth, "values": {name: result.values[name] for name in truth}, "error": errors, "bar": bars,
        "relative": relative, "unit": {name: result.unknowns.units[k] for k, name in enumerate(result.unknowns.labels)},
        "converged": result.converged, "fits": result.fits, "doubts": result.doubts, "unseen": result.uncertainty.unobservable,
    }  # fmt: skip


def errors_and_bars(
    values: Mapping[str, float], sd: Mapping[str, float], truth: Mapping[str, float], relative: Mapping[str, bool]
) -> tuple[dict[str, float], dict[str, float]]:
    """Errors and bars by name: parts of the truth where ``relative``, whose ``sd`` is in decades; else in the number's unit."""
    errors = {name: (values[name] - true) / (true if relative[name] else 1.0) for name, true in truth.items()}
    return errors, {name: math.log(10) * sd[name] if relative[name] else sd[name] for name in truth}


def verdict_of(result: Mapping[str, Any]) -> str:
    """Whether the numbers are found, or why not: a film hardly determines a number with a relative bar above ``WIDEST``."""
    if result["unseen"]:
        return "not told by the film"
    if result["converged"] is False:
        return "not converged"
    wide = any(result["relative"][name] and bar > WIDEST for name, bar in result["bar"].items())
    return f"not found: bar above {100 * WIDEST:g} %" if wide else "found"


def round_to(value: float) -> float:
    """A number as ``commands`` prints it."""
    return float(f"{value:.6g}")


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of table 6.

    Args:
        name: of the page.
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    count = TINY if preset.name == "tiny" else len(ROWS)
    chosen = list(range(9, 9 + TINY)) if count == TINY else list(range(len(ROWS)))
    cells = [Cell(f"{name}/{ROWS[k].key}", found, {"row": k + 1, "size": preset.size}) for k in chosen]
    results = run_cells(cells, folder, jobs=jobs, title=name)
    return Page(name, page_text([ROWS[k] for k in chosen], results, preset))


def page_text(rows: Sequence[Asked], results: Sequence[Mapping[str, Any]], preset: Preset) -> str:
    """The page's Markdown: what was found, then all commands."""
    table = [_line(row, result) for row, result in zip(rows, results, strict=True)]
    counts = [inside(result) for result in results if FAILED not in result]
    num_held, total = sum(a for a, _ in counts), sum(b for _, b in counts)
    films = dict.fromkeys(commands(row, preset.size)[0] for row in rows)
    lists = ["```", *films, "", *(commands(row, preset.size)[1] for row in rows), "```"]
    return "\n".join([
        "# gradSim, table 6: which numbers of which system can be found from a film", "",
        f"`python -m studies.gradsim table-6 --preset {preset.name}`", "",
        f"Films of {preset.size} pixels, H.264 at crf {CRF:g}; {STARTS} starts spread over the bounds, which are up to "
        f"{TIMES**2:g} times the truth for positive numbers. Errors and bars (one standard deviation) of these are parts of the "
        f"truth; others have the number's unit. {share(num_held, total)} errors are within {INSIDE} bars. A number whose "
        f"relative bar is above {100 * WIDEST:g} % counts as not found.", "",
        markdown(["system", "number", "unknown", "truth", "error", "bar", "within", "verdict", "s"], table), "",
        "The commands:", "", *lists,
    ])  # fmt: skip


def inside(result: Mapping[str, Any]) -> tuple[int, int]:
    """Number of errors within ``INSIDE`` bars, and number of all errors."""
    return sum(abs(result["error"][n]) <= INSIDE * result["bar"][n] for n in result["error"]), len(result["error"])


def _line(row: Asked, result: Mapping[str, Any]) -> list[str]:
    """A row of the page."""
    names = ", ".join(f"`{name}`" for name in row.unknown)
    if FAILED in result:
        return [row.system, row.mark, names, "-", "-", "-", "-", result[FAILED], f"{result['seconds']:.0f}"]
    units = {name: "" if result["relative"][name] else f" {result['unit'][name]}".rstrip() for name in row.unknown}
    errors, bars = (
        "; ".join(digits(result[key][name]) + units[name] for name in row.unknown) for key in ("error", "bar")
    )
    verdict = verdict_of(result)
    truth = "; ".join(digits(result["truth"][name]) for name in row.unknown)
    return [
        row.system, row.mark, names, truth, errors, bars, share(*inside(result)), verdict, f"{result['seconds']:.0f}"
    ]  # fmt: skip


def _value(scene: Any, name: str) -> float:
    """A number of a scene, or an entry of an array."""
    base, _, rest = name.partition("[")
    value = np.asarray(scene.parameters[base].value, dtype=float)
    for index in rest.rstrip("]").split("][") if rest else ():
        value = value[int(index)]
    return float(value)
