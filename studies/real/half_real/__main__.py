"""The study from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from risp_torch import start
from risp_torch.data import data_folder
from risp_torch.programs import run_with_exit_status
from studies.real.half_real.study import read_fits, study


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 2 for data or fits that are not here."""
    description = "Measured tosses of a cube, path-traced in drawn looks, and their numbers from pixels."
    parser = argparse.ArgumentParser(prog="python -m studies.real half_real", description=description)
    parser.add_argument("--out", type=Path, default=Path("runs/half_real"), help="folder of films and results")
    parser.add_argument("--fits", type=Path, default=Path("runs/contactnets"), help="folder of studies.real contactnets")
    parser.add_argument("--films", type=int, default=12, help="number of tosses that are filmed")
    parser.add_argument("--alone", type=int, default=4, help="number of films that are tracked by one camera as well")
    parser.add_argument("--jobs", type=int, default=2, help="number of films that are made and tracked at the same time")
    options = parser.parse_args(arguments)

    def work() -> int:
        data_folder("contactnets_cube")
        read_fits(options.fits)
        start()
        options.out.mkdir(parents=True, exist_ok=True)
        settings = {"films": options.films, "alone": options.alone, "jobs": options.jobs}
        print(study(options.out, options.fits, **settings, say=lambda line: print(line, flush=True)))
        return 0

    return run_with_exit_status(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
