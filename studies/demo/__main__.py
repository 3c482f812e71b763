"""The main job, ``make demo``: films in, physical numbers out.

For the die on the ground and for the thrown pebble it writes a compressed film of the true scene, forgets the unknown numbers,
and finds them again from the film's pixels alone, from four guesses anywhere in their ranges. Then a path-traced film is read
with and without RISP.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from risp_torch import Inversion, Quality, Scene, invert, load_scene, simulate_video
from risp_torch.files.report import format_table
from risp_torch.inversion import Unknowns
from risp_torch.programs import (
    HEADERS_WITH_TRUTH,
    default_run_path,
    estimate_rows,
    keep_freed_memory,
    number_parser,
    print_inversion,
    write_text,
)
from studies.demo import crossing
from ti_sim import Count

ROOT = Path(__file__).parents[2]
README, TABLE = ROOT / "README.md", ROOT / "docs" / "results" / "demo.json"
FIRST, LAST = "<!-- printed by make demo -->\n```\n", "```\n<!-- end -->"  # around the table in the README
GUESSES = 4
SEED = 7  # of the guesses
MAX_ERROR_BARS = 3.0  # an estimate within fewer error bars of the truth is right


@dataclass(frozen=True)
class Job:
    """One film and what is to be read from it."""

    scene: str
    truth: dict[str, float]


JOBS = (
    Job("cube", {"ground.contact.stiffness": 1e3}),
    Job("toss", {"body.density": 600.0, "ground.contact.friction": 0.3}),
)


def guesses(scene: Scene, names: Sequence[str], *, seed: int = SEED) -> list[dict[str, float]]:
    """Guesses drawn from the allowed ranges, evenly in scaled units."""
    unknowns = Unknowns.of(scene, names)
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    drawn = np.random.default_rng(seed).uniform(low, high, (GUESSES, len(low)))
    return [dict(zip(names, map(float, row), strict=True)) for row in unknowns.physical_values(drawn)]


def run(job: Job, out: Path, *, crf: float, size: int) -> Inversion:
    """Film and invert one job."""
    scene = load_scene(job.scene, size=size)
    if abs(scene.sigma - 1e-4) < 1e-12 and size < 128:
        scene.sigma *= (128 / size) ** 2  # edges stay as soft, in pixels, as in the large picture
    video = simulate_video(scene, out / f"{job.scene}.mp4", crf=crf)
    print(f"\n{job.scene}: {', '.join(job.truth)} from {video}", flush=True)
    print(f"({size} px, H.264 at crf {crf:g}, {video.stat().st_size} bytes)", flush=True)
    result = invert(scene, video, list(job.truth), starts=guesses(scene, list(job.truth)), out=out / job.scene)
    print_inversion(result, job.truth)
    return result


def right(result: Inversion, truth: dict[str, float]) -> bool:
    """Whether every estimate is within ``MAX_ERROR_BARS`` error bars of the truth, and nothing speaks against it."""
    errors = result.scaled_error(truth)
    return not result.doubts and all(abs(errors[name]) <= MAX_ERROR_BARS * result.sd[name] for name in truth)


def write_readme(rows: Sequence[Sequence[str]]) -> None:
    """Put the rows into the README's table, and beside the other results."""
    write_text(TABLE, json.dumps({"headers": HEADERS_WITH_TRUTH, "rows": rows}, indent=1) + "\n")
    text = README.read_text(encoding="utf-8")
    table_start = text.index(FIRST) + len(FIRST)
    write_text(README, text[:table_start] + format_table(rows, HEADERS_WITH_TRUTH) + "\n" + text[text.index(LAST, table_start) :])


def main() -> int:
    """Run both jobs; 0 if every estimate is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="folder (default: runs/demo-TIME)")
    parser.add_argument("--crf", type=number_parser(Quality), default=18, help="compression of the films (default 18)")
    parser.add_argument("--size", type=number_parser(Count), default=128, help="side of the pictures (default 128)")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and docs/results/demo.json")
    options = parser.parse_args()
    out = Path(options.out or default_run_path("demo", "main"))
    keep_freed_memory()
    began = time.perf_counter()
    results = [run(job, out, crf=options.crf, size=options.size) for job in JOBS]
    rows = [row for job, result in zip(JOBS, results, strict=True) for row in estimate_rows(result, job.truth)]
    if options.readme:
        write_readme(rows)
    crossing.run(out / "crossing")
    print(f"\n{format_table(rows, HEADERS_WITH_TRUTH)}")
    print(f"done in {time.perf_counter() - began:.0f} s; look at {out}/*/strip.png, loss.png, parameters.png, comparison.mp4")
    return 0 if all(right(result, job.truth) for job, result in zip(JOBS, results, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
