"""The command line: ``risp`` or ``python -m risp_torch``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from risp_torch.suggest import near_names
from ti_sim.base.errors import DivergenceError, UserError

COMMANDS = (
    "scenes", "simulate", "render", "gradcheck", "landscape", "invert", "control", "dataset", "train", "evaluate", "task",
    "table",
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors name the near options, in one sentence."""

    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            wrong = message.removeprefix(prefix).split()[0]
            near = near_names(wrong.split("=")[0], self.known_options())
            hint = f": did you mean {' or '.join(near)}?" if near else f" ({self.prog} --help lists the options)"
            message = f"unknown option {wrong!r}{hint}"
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)

    def known_options(self) -> list[str]:
        """All option strings of this parser and its commands."""
        options = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    options.extend(parser._option_string_actions)
        return [option for option in dict.fromkeys(options) if option.startswith("--")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: of the command line, sys.argv by default.

    Returns:
        Exit status: 0 when all went well, 1 for a check that failed, 2 for wrong input, 3 for a simulation that diverged.
    """
    from risp_torch import commands

    parser = _Parser(prog="risp", description="Turn video into physics: simulate, film and invert scenes.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS:
        commands.add_command(name, subparsers)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except DivergenceError as error:
        print(f"risp {options.command}: {error}", file=sys.stderr)
        return 3
    except UserError as error:
        print(f"risp {options.command}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"risp {options.command}: stopped; the same command with the same --out goes on where it was", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
