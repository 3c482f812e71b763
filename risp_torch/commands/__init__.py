"""The commands of ``risp``, one module each with ``run(options) -> int`` and, for its options, ``add_arguments(parser)``.

A command whose killed runs can be resumed has ``goes_on(options) -> bool``, and sets ``options.out`` to the folder of its run
before it begins.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any


def add_command(name: str, subparsers: Any) -> None:
    """Add the command of the module ``risp_torch.commands.<name>`` to a parser."""
    module = importlib.import_module(f"risp_torch.commands.{name}")
    summary = (module.__doc__ or "").splitlines()[0]
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=summary, description=summary)
    if hasattr(module, "add_arguments"):  # a command may have no options
        module.add_arguments(parser)
    parser.set_defaults(run=module.run, goes_on=getattr(module, "goes_on", lambda options: False))
