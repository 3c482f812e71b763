"""Handlers of Ctrl-C and SIGTERM for the command line.

The package imports this module first, and the module imports only fast modules, so that a signal during the other imports also
ends the command line with a message.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "terminable"]


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


def _handle_signals_while_loading() -> None:
    """Let Ctrl-C and SIGTERM end ``risp`` while its modules are being imported; other programs keep their handlers."""
    runs_risp = os.path.basename(sys.argv[0]) == "risp" or sys.argv[0] == "-m" and "risp_torch" in sys.orig_argv
    if runs_risp and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _exit_immediately)


@contextmanager
def terminable() -> Iterator[None]:
    """In the block, Ctrl-C raises KeyboardInterrupt and SIGTERM ``Terminated``; the next signal ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, signal.default_int_handler if handler is _exit_immediately else handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _exit_immediately(number: int, frame: FrameType | None) -> None:
    os.write(2, b"risp: stopped before it had begun\n")
    os._exit(128 + number)


_handle_signals_while_loading()
