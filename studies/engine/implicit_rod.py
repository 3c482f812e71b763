"""The rod's motion with explicit and implicit steps beside its converged motion, and the stiffness that each would read from it.

The converged motion has many SDIRK2 steps to a frame. E is the one whose motion is nearest to it, over the positions of all
particles at all frames: what a perfect film would tell a user of these steps. Explicit steps are as many as the adaptive scene
takes at 1e5 Pa.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from risp_torch import Scene, load_scene, start
from risp_torch.programs import number_parser, run_with_exit_status
from studies.markdown import markdown
from ti_sim import Count, Positive

CASES = (
    ("semi_implicit", 10), ("backward_euler", 1), ("backward_euler", 2), ("bdf2", 1), ("bdf2", 2), ("bdf2", 4), ("sdirk2", 1),
    ("sdirk2", 2),
)  # fmt: skip
SHOWN = ("semi_implicit 10", "backward_euler 1", "bdf2 1", "sdirk2 1")
RANGE, FINEST = 0.15, 1e-5  # of log10 E
MM = 1e3
HEAD = ("integrator", "steps a frame", "step [ms]", "largest distance [mm]", "E estimated from the converged motion")


@dataclass(frozen=True)
class Reading:
    """Errors of an integrator and step size against the converged motion.

    Attributes:
        integrator: of the scene.
        substeps: steps of a frame.
        dt: step [s].
        away: largest distance of a particle from the converged motion [m].
        error: of the modulus whose motion is nearest, relative to the true one [1].
        height: [frames + 1] of the lowest particle's position at rest, over the frames [m].
    """

    integrator: str
    substeps: int
    dt: float
    away: float
    error: float
    height: np.ndarray


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write the plot: 0, or 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m studies.engine.implicit_rod", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--E", type=number_parser(Positive), default=1e5, help="Young's modulus [Pa] (default 1e5)")
    parser.add_argument(
        "--converged", type=number_parser(Count), default=24, help="steps a frame of the converged motion (default 24)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/implicit_rod"), help="folder (default runs/implicit_rod)")
    options = parser.parse_args(arguments)
    return run_with_exit_status(parser.prog, lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Read E with the steps of ``CASES``."""
    start(precision="f64")
    true = positions(load_scene("rod", E=options.E, substeps=options.converged, integrator="sdirk2"))
    readings = []
    for integrator, substeps in CASES:
        readings.append(read(load_scene("rod", E=options.E, substeps=substeps, integrator=integrator), true))
        print(" ".join(row(readings[-1])), file=sys.stderr, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    table = markdown(HEAD, [row(reading) for reading in readings])
    (options.out / "table.md").write_text(table + "\n")
    plot(options.out / "heights.png", readings, true, load_scene("rod").stepping.frame_dt)
    motion = MM * float((true - true[:1]).norm(dim=-1).max())
    print(f"{table}\n\nThe largest motion is {motion:.0f} mm. Written: {options.out}")
    return 0


def positions(scene: Scene, young: float | None = None) -> torch.Tensor:
    """[frames + 1, P, 3] positions of all particles [m], with another modulus [Pa] if it is given."""
    values = {} if young is None else {"rod.E": torch.tensor([young])}
    with torch.no_grad():
        return scene.rollout(values, worlds=1).particle_q[0].double()


def read(scene: Scene, true: torch.Tensor) -> Reading:
    """Find the modulus whose motion is nearest to ``true`` [frames + 1, P, 3]."""
    young = float(scene.parameters["rod.E"].value)

    def distance(decades: float) -> float:
        return float((positions(scene, young * 10**decades) - true).square().mean())

    minimum = minimize_scalar(distance, bounds=(-RANGE, RANGE), method="bounded", options={"xatol": FINEST})
    motion, stepping = positions(scene), scene.stepping
    return Reading(
        stepping.integrator, stepping.substeps, stepping.dt, float((motion - true).norm(dim=-1).max()),
        10**minimum.x - 1, height(motion),
    )  # fmt: skip


def height(moved: torch.Tensor) -> np.ndarray:
    """[frames + 1] height of the particle that moves farthest [m]."""
    farthest = int((moved - moved[:1]).norm(dim=-1).amax(0).argmax())
    return moved[:, farthest, 2].cpu().numpy()


def row(reading: Reading) -> list[str]:
    """Cells of the table."""
    return [
        f"`{reading.integrator}`", str(reading.substeps), f"{MM * reading.dt:.3g}", f"{MM * reading.away:.3g}",
        f"{100 * reading.error:+.3g} %",
    ]  # fmt: skip


def plot(path: Path, readings: Sequence[Reading], true: torch.Tensor, frame_dt: float) -> None:
    """Write heights over time as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    time = np.arange(len(true)) * frame_dt
    axes.plot(time, height(true), "k-", linewidth=2.5, label="converged")
    for reading in readings:
        name = f"{reading.integrator} {reading.substeps}"
        if name in SHOWN:
            axes.plot(time, reading.height, linewidth=1.2, label=f"{name} a frame")
    axes.set(xlabel="time [s]", ylabel="height of the middle [m]")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
