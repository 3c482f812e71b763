"""Across rendering domains: the stiffness of a contact from a path-traced film, by its pixels and by what RISP reads in it.

The film (assets/cube_target.mp4) was made by Mitsuba: other materials, lamps, sky and ground than any picture that the network
(assets/cube_risp.safetensors) was trained on, and than the pictures that are compared with it. The README.md beside them has the
commands that made both.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from risp_torch import OptimiseSettings, PixelLoss, RispLoss, SearchStages, invert
from risp_torch.files.report import format_table
from risp_torch.programs import default_run_path
from risp_torch.risp import load_task, training_scene

ASSETS = Path(__file__).parents[2] / "scenes" / "assets"
NETWORK, FILM = ASSETS / "cube_risp.safetensors", ASSETS / "cube_target.mp4"
UNKNOWN, TRUTH = "ground.contact.stiffness", 1e3  # N/m
GUESSES = (10**2.7, 10**3.3)  # N/m


def run(out: Path, *, iterations: int = 25) -> dict[str, float]:
    """Invert the film with both losses and print their errors side by side.

    Args:
        out: folder of the runs.
        iterations: gradient steps of the loss by pixels; what the network reads takes wide steps.

    Returns:
        Loss -> estimate minus truth in log10.
    """
    from risp_torch.risp import load_network

    network, _ = load_network(NETWORK)
    scene = training_scene("cube", network.settings.size)
    task = load_task("cube", scene)
    losses = {"pixel": PixelLoss(), "risp": RispLoss(NETWORK, task=task)}
    errors, rows = {}, []
    for name, loss in losses.items():
        print(f"\ncube: {UNKNOWN} from {FILM.name}, {name} loss", flush=True)
        steps = None if loss.non_smooth else OptimiseSettings(iterations=iterations)
        result = invert(
            scene, FILM, [UNKNOWN], loss=loss, starts=[{UNKNOWN: guess} for guess in GUESSES],
            search=SearchStages(steps=steps, refine=5), out=out / name,
        )  # fmt: skip
        for sentence in result.doubts:
            print(sentence)
        errors[name] = result.scaled_error({UNKNOWN: TRUTH})[UNKNOWN]
        rows.append([name, f"{result.values[UNKNOWN]:.1f} N/m", f"{errors[name]:+.4f}", f"{result.seconds:.0f} s"])
    print(f"\nthe same path-traced film, truth {TRUTH:g} N/m, first guesses {' and '.join(f'{g:.0f}' for g in GUESSES)} N/m:")
    print(format_table(rows, ["loss", "estimate", "error in log10", "time"]))
    return errors


def main() -> int:
    """Run it; 0 if every estimate is a finite number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="folder (default: runs/crossing-TIME)")
    options = parser.parse_args()
    errors = run(Path(options.out or default_run_path("crossing", "cube")))
    return 0 if np.isfinite(list(errors.values())).all() else 1


if __name__ == "__main__":
    sys.exit(main())
