"""The study from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from risp_torch import start
from risp_torch.data import data_folder
from risp_torch.programs import run_with_exit_status
from studies.real.dfki_pendulum.study import study


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 2 for data that are not here."""
    description = "A double pendulum from a hand-held film and a log."
    parser = argparse.ArgumentParser(prog="python -m studies.real dfki_pendulum", description=description)
    parser.add_argument("--out", type=Path, default=Path("runs/dfki_pendulum"), help="folder of the results")
    options = parser.parse_args(arguments)

    def work() -> int:
        folder = data_folder("dfki_double_pendulum")
        start()
        print(study(folder, options.out, lambda line: print(line, flush=True)))
        return 0

    return run_with_exit_status(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
