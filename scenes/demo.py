"""The main job, ``make demo``: films in, physical numbers out.

For the die on the ground and for the thrown pebble it writes a compressed film of the true scene, forgets the unknown numbers,
and finds them again from the film's pixels alone, from four guesses. Then a path-traced film is read with and without RISP.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from risp_torch import OptimiseSettings, invert, load_scene, simulate_video
from risp_torch.commands.invert import print_inversion
from risp_torch.run_folder import default_run_path

from . import crossing


@dataclass(frozen=True)
class Job:
    """One film and what is to be read from it: starts are factors on the truth, errors are in parts of it."""

    scene: str
    truth: dict[str, float]
    starts: list[dict[str, float]]
    settings: OptimiseSettings
    tolerance: dict[str, float]


CUBE = Job(
    scene="cube",
    truth={"ground.contact.stiffness": 1e3},
    # a quarter of a decade apart, spread over the two half decades that the scene allows
    starts=[{"ground.contact.stiffness": 10**k} for k in (-0.375, -0.125, 0.125, 0.375)],
    settings=OptimiseSettings(iterations=40),
    tolerance={"ground.contact.stiffness": 10**0.01 - 1},
)
TOSS = Job(
    scene="toss",
    truth={"body.density": 600.0, "ground.contact.friction": 0.3},
    starts=[{"body.density": a, "ground.contact.friction": b} for a in (0.5, 2.0) for b in (0.5, 2.0)],
    settings=OptimiseSettings(iterations=60, first_frames=6),
    tolerance={"body.density": 0.01, "ground.contact.friction": 0.05},
)


def run(job: Job, out: Path, *, crf: float, size: int) -> int:
    """Film and invert one job; returns how many starts ended within the tolerances."""
    scene = load_scene(job.scene, size=size)
    if abs(scene.sigma - 1e-4) < 1e-12 and size < 128:
        scene.sigma *= (128 / size) ** 2  # edges stay as soft, in pixels, as in the large picture
    video = simulate_video(scene, out / f"{job.scene}.mp4", crf=crf)
    print(f"\n{job.scene}: {', '.join(job.truth)} from {video}", flush=True)
    print(f"({size} px, H.264 at crf {crf:g}, {video.stat().st_size} bytes)", flush=True)
    starts = [{name: job.truth[name] * factor for name, factor in start.items()} for start in job.starts]
    result = invert(scene, video, list(job.truth), starts=starts, settings=job.settings, out=out / job.scene)
    print_inversion(result, job.truth)
    good = [
        all(abs(value / job.truth[name] - 1) <= job.tolerance[name] for name, value in zip(job.truth, row, strict=True))
        for row in result.final
    ]
    limits = ", ".join(f"{name} {100 * part:.3g} %" for name, part in job.tolerance.items())
    print(f"{sum(good)} of {len(good)} starts ended within {limits}")
    return sum(good)


def main() -> int:
    """Run both jobs; 0 if at least three of four starts of each ended at the truth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="folder (default: runs/demo-TIME)")
    parser.add_argument("--crf", type=float, default=18, help="compression of the films (default 18)")
    parser.add_argument("--size", type=int, default=128, help="side of the pictures (default 128)")
    options = parser.parse_args()
    out = Path(options.out or default_run_path("demo", "main"))
    began = time.perf_counter()
    good = [run(job, out, crf=options.crf, size=options.size) for job in (CUBE, TOSS)]
    crossing.run(out / "crossing")
    print(f"\ndone in {time.perf_counter() - began:.0f} s; look at {out}/*/strip.png, loss.png, parameters.png, comparison.mp4")
    return 0 if min(good) >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
