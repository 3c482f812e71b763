"""``python -m studies.real STUDY``: runs a study of measured data with its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from risp_torch.programs import run_with_exit_status, unknown_name_error

STUDIES = {"contactnets": "contactnets", "half_real": "half_real.__main__", "dfki_pendulum": "dfki_pendulum.__main__"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study.

    Args:
        arguments: name of the study and its options, sys.argv by default.

    Returns:
        Exit status of the study; 2 for an unknown one.
    """
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: python -m studies.real {{{','.join(STUDIES)}}} [options]")
        return 0

    def find() -> Callable[[Sequence[str]], int]:
        if name not in STUDIES:
            raise unknown_name_error("study", name, list(STUDIES))
        return import_module(f"studies.real.{STUDIES[name]}").main

    return run_with_exit_status("python -m studies.real", lambda: find()(rest))


if __name__ == "__main__":
    sys.exit(main())
