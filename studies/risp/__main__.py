"""``python -m studies.risp``: cells and tables of RISP's evaluation."""

from __future__ import annotations

import sys

from risp_torch.programs import Program

COMMANDS = ("task", "table")
PROGRAM = Program("python -m studies.risp", "Tables of RISP (ICLR 2022), and cells of them.", "studies.risp", COMMANDS)
main = PROGRAM.main

if __name__ == "__main__":
    sys.exit(main())
