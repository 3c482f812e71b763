"""A command line of several commands: one-sentence errors, exit statuses, and interruptions."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from risp_torch.commands.paths import check_paths
from risp_torch.files.atomic import PATH_ERRNOS
from risp_torch.files.memory import keep_freed_memory
from risp_torch.files.run_folder import FinishedError, program_version
from risp_torch.files.signals import Terminated, terminable
from risp_torch.files.suggest import similar_names
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import checked

_BROKEN_PIPE_STATUS = 141  # 128 + SIGPIPE, as shells report it
Work = Callable[[], int]  # returns an exit status


class _Parser(argparse.ArgumentParser):
    """An argument parser with one-sentence errors."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)


@checked
@dataclass(frozen=True)
class Program:
    """A command line of several commands.

    Attributes:
        name: the program's name, with which messages begin.
        description: for ``--help``.
        modules: package of the commands' modules.
        commands: their names. The module of a command has ``run(options) -> int``; for its options
            ``add_arguments(parser)``; and, where killed runs can be resumed, ``is_resumable(options) -> bool``, which may read
            ``options.out``, the folder of the run.
    """

    name: str
    description: str
    modules: str
    commands: tuple[str, ...]

    def parsers(self) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
        """The parser of the command line, and those of its commands by name."""
        parser = _Parser(prog=self.name, description=self.description)
        parser.add_argument("--version", action="version", version=f"risp {program_version()}", help="print the version and end")
        subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
        for name in self.commands:
            module = importlib.import_module(f"{self.modules}.{name}")
            summary = (module.__doc__ or "").splitlines()[0]
            command: argparse.ArgumentParser = subparsers.add_parser(name, help=summary, description=summary)
            if hasattr(module, "add_arguments"):  # a command may have no options
                module.add_arguments(command)
            command.set_defaults(run=module.run, is_resumable=getattr(module, "is_resumable", lambda options: False))
        return parser, subparsers.choices

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run one command.

        Args:
            arguments: words of the command line, sys.argv by default.

        Returns:
            Exit status: 0 for success or an already finished run, 1 for a failed check, 2 for wrong input, 3 for a
            simulation that diverged, 130 after Ctrl-C, 141 if the reader of the output has ended, 143 after SIGTERM.
        """
        try:
            try:
                with terminable(), warnings.catch_warnings():
                    return self.run(self._parsed(arguments))
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Python would try again at exit and print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _BROKEN_PIPE_STATUS

    def run(self, options: argparse.Namespace) -> int:
        """Run the command of parsed options; the exit status, with a message on stderr if it is not 0 (``main``)."""
        program = f"{self.name} {options.command}"
        keep_freed_memory()
        if "LOCAL_RANK" in os.environ:  # of torchrun
            from risp_torch.risp.training.ranks import bind_local_gpu

            bind_local_gpu()
        warnings.showwarning = partial(_print_warning, program)
        try:
            return run_with_exit_status(program, lambda: _checked_run(options))
        except SystemExit as stop:
            message = f"the scene's file ends the program (sys.exit({stop.code})): take that out of it"
            print(f"{program}: error: {message}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            out = getattr(options, "out", None)
            resumable = out and options.is_resumable(options)
            resume_text = f"; repeat the command with --out {out} to resume the run" if resumable else ""
            print(f"{program}: stopped{resume_text}", file=sys.stderr)
            return 143 if isinstance(stop, Terminated) else 130

    def _parsed(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options of the command line; an unknown one ends the program with status 2 and similar options."""
        parser, parsers = self.parsers()
        options, unparsed = parser.parse_known_args(arguments)
        if unparsed:
            parsers[options.command].error(self._unknown_argument_error(unparsed[0], options.command, parsers))
        return options

    def _unknown_argument_error(self, argument: str, command: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
        """Error message for an unknown word of the command line."""
        if not argument.startswith("--"):
            return f"unexpected argument {argument!r} ({self.name} {command} --help shows what it takes)"
        options_of = {
            name: [option[2:] for option in parser._option_string_actions if option.startswith("--")]
            for name, parser in parsers.items()
        }
        option = argument[2:].split("=")[0]
        other_commands = [f"{self.name} {name}" for name, options in options_of.items() if option in options]
        if other_commands:
            return f"unknown option {argument!r} (that is an option of {', '.join(other_commands)})"
        similar = similar_names(option, options_of[command])
        if similar:
            return f"unknown option {argument!r}: did you mean {' or '.join(f'--{name}' for name in similar)}?"
        return f"unknown option {argument!r} ({self.name} {command} --help lists the options)"


@checked
def run_with_exit_status(program: str, work: Work) -> int:
    """Do the work of a program, and turn errors of its user into one sentence on stderr.

    Args:
        program: name with which messages begin.
        work: returns the exit status of a program that comes to its end.

    Returns:
        That status; 0 if the run had finished before, 2 for wrong input, a path that cannot be used, or too little memory, and
        3 for a simulation that diverged.
    """
    try:
        return work()
    except FinishedError as error:
        print(f"{program}: {error}")
        return 0
    except DivergenceError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
    except UserError as error:
        sentence = str(error)
    except OSError as error:
        if error.filename is None or error.errno not in PATH_ERRNOS:
            raise
        sentence = f"{error.filename} cannot be used ({error.strerror}): check the path"
    except (MemoryError, RuntimeError) as error:
        # Torch has no separate error type for a failed allocation.
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        sentence = "it does not fit into memory: take less of it at a time"
    print(f"{program}: error: {sentence}", file=sys.stderr)
    return 2


def _checked_run(options: argparse.Namespace) -> int:
    """Run a command whose paths can be used."""
    check_paths(options)
    return options.run(options)


def _print_warning(program: str, message: Warning | str, *location: object) -> None:
    """Print a warning as one line, without its source line."""
    print(f"{program}: warning: {' '.join(str(message).split())}", file=sys.stderr)
