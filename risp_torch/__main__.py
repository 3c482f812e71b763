"""The command line: ``risp`` or ``python -m risp_torch``."""

from __future__ import annotations

import sys

from risp_torch.commands.program import Program

COMMANDS = (
    "scenes", "film", "camera", "simulate", "render", "landscape", "check", "invert", "show", "control", "dataset", "train",
    "evaluate", "data",
)  # fmt: skip
PROGRAM = Program("risp", "Turn video into physics: simulate, film and invert scenes.", "risp_torch.commands", COMMANDS)
main = PROGRAM.main

if __name__ == "__main__":
    sys.exit(main())
