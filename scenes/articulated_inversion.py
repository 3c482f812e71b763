"""Numbers of articulated bodies from compressed films: lengths, gravity, damping, angles, and the stiffness of five fingers.

Every job writes a film of the true scene, starts a factor of 1.5 above and below the truth, and finds the numbers again. What is
finished is not done again: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from risp_torch import OptimiseSettings, Scene, StateLoss, UserError, invert, load_scene, load_task, simulate_video, start
from risp_torch.atomic import write_text
from risp_torch.report import format_table

FACTOR = 1.5
MOST = 0.98  # of the upper bound, where a start would lie beyond it


@dataclass(frozen=True)
class Job:
    """What is read from one film.

    Attributes:
        name: of the job.
        scene: what is filmed.
        unknowns: names of the numbers.
        starts: powers of ``FACTOR`` on the unknowns of each start.
        asked: largest error; of the truth if ``relative``, else in the unknown's unit.
        relative: whether errors are parts of the truth.
        oracle: whether true states take the film's place.
        truths: seed of drawn truths in [0.3, 1], None for the scene's own values.
    """

    name: str
    scene: str
    unknowns: tuple[str, ...]
    starts: tuple[tuple[int, ...], ...]
    asked: float
    relative: bool = True
    oracle: bool = False
    truths: int | None = None


BOTH = ((1,), (-1,))
FOUR = ((1, 1), (-1, -1), (1, -1), (-1, 1))
FINGERS = tuple(f"{finger}.stiffness" for finger in ("thumb", "index", "middle", "ring", "little"))
ALL = ((1,) * 5, (-1,) * 5)
JOBS = (
    Job("length", "pendulum", ("pendulum.length",), BOTH, 1e-3),
    Job("damping", "pendulum", ("pendulum.damping",), BOTH, 2e-2),
    Job("gravity", "pendulum", ("gravity",), BOTH, 1e-3),
    Job("angle", "pendulum", ("pendulum.angle",), BOTH, float(np.radians(0.1)), relative=False),
    Job("lengths", "double_pendulum", ("upper.length", "lower.length"), FOUR, 5e-3),
    Job("angles", "double_pendulum", ("upper.angle", "lower.angle"), FOUR, float(np.radians(0.1)), relative=False),
    Job("fingers, states", "hand", FINGERS, ALL, 0.02, relative=False, oracle=True, truths=7),
    Job("fingers, pixels", "hand", FINGERS, ALL, 0.02, relative=False, truths=7),
)


def run(job: Job, out: Path, *, crf: float, iterations: int) -> list[str]:
    """Film and invert one job.

    Args:
        job: what is read.
        out: folder of the job.
        crf: quality of the film.
        iterations: gradient steps.

    Returns:
        A row of the table: job, unknowns, largest error and what was asked, best start, seconds.
    """
    scene = load_scene(job.scene)
    random = np.random.default_rng(job.truths)
    truth = {}
    for name in job.unknowns:
        if job.truths is not None:
            scene.set(name, random.uniform(0.3, 1.0))
        truth[name] = float(scene.parameters[name].value)
    starts = [{name: _start(scene, name, power) for name, power in zip(truth, powers, strict=True)} for powers in job.starts]
    settings = OptimiseSettings(iterations=iterations)
    if job.oracle:
        with torch.no_grad():
            loss = StateLoss(load_task(job.scene, scene).head, scene.rollout())
        result = invert(scene, None, list(truth), loss=loss, starts=starts, settings=settings, out=out / "run")
    else:
        film = out / "target.mp4"
        video = film if film.is_file() else simulate_video(scene, film, crf=crf)
        result = invert(scene, video, list(truth), starts=starts, settings=settings, out=out / "run")
    errors = [result.values[name] - x for name, x in truth.items()]
    if job.relative:
        errors = [error / x for error, x in zip(errors, truth.values(), strict=True)]
    worst = max(errors, key=abs)
    unit = "of the truth" if job.relative else scene.parameters[job.unknowns[0]].unit
    return [
        job.scene, job.name, f"{worst:+.1e} {unit}", f"{job.asked:.1e}", "yes" if abs(worst) <= job.asked else "NO",
        f"{sum(status in ('best', 'same minimum') for status in result.status)} of {len(starts)}", f"{result.seconds:.0f}",
    ]  # fmt: skip


def _start(scene: Scene, name: str, power: int) -> float:
    """The truth times FACTOR to a power, within the parameter's bounds."""
    param = scene.parameters[name]
    return min(float(param.value) * FACTOR**power, MOST * float(param.high))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs: 0 if every error is within what was asked, 1 if not, 2 for wrong input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", nargs="+", choices=sorted({job.scene for job in JOBS}), help="default all")
    parser.add_argument("--crf", type=float, default=18.0, help="quality of the films, H.264 (default 18)")
    parser.add_argument("--iterations", type=int, default=50, help="gradient steps (default 50)")
    parser.add_argument("--out", default="runs/articulated", help="folder (default runs/articulated)")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    try:
        start(precision="f32")
        rows = []
        for job in JOBS:
            if options.scenes is None or job.scene in options.scenes:
                folder = out / job.scene / job.name.replace(", ", "-")
                folder.mkdir(parents=True, exist_ok=True)
                print(f"\n{job.scene}: {job.name}", flush=True)
                rows.append(run(job, folder, crf=options.crf, iterations=options.iterations))
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    table = format_table(rows, ["scene", "unknown", "largest error", "asked", "within", "starts that found it", "s"])
    write_text(
        out / "articulated.md",
        "# Articulated bodies from films\n\n"
        f"Films of 128 x 128 pixels, H.264 at crf {options.crf:g}; starts a factor of {FACTOR} off; {options.iterations} "
        f"gradient steps, then Gauss-Newton.\n\n```\n{table}\n```\n",
    )
    print(f"\n{table}\nwritten: {out}/articulated.md")
    return 0 if all(row[4] == "yes" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
