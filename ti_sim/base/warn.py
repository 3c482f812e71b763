"""Warnings that show the line of the user's code that led to them."""

import sys
import warnings

# Modules whose lines are not shown: those of the engine, and those through which it calls itself.
_INNER = {"ti_sim", "ti_render", "risp_torch", "contextlib", "functools", "torch", "taichi"}


def warn(sentence: str) -> None:
    """Issue a UserWarning at the innermost line outside of the engine.

    A fixed ``stacklevel`` depends on the decorators (``checked``) between this line and the warning, and ``skip_file_prefixes``
    needs Python 3.12.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INNER:
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, stacklevel=level)
