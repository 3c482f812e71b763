"""Exit statuses of studies: wrong input and divergence are one sentence and a status, as of the command ``risp``."""

from __future__ import annotations

import sys
from collections.abc import Callable

from risp_torch import DivergenceError, UserError


def exit_status(program: str, work: Callable[[], int]) -> int:
    """Do a script's work.

    Args:
        program: what error messages begin with.
        work: returns the status of a script that comes to its end.

    Returns:
        Its status; 2 for wrong input, 3 where a simulation diverged.
    """
    try:
        return work()
    except UserError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 2
    except DivergenceError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
