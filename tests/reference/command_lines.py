"""Command lines that run in the process of a test."""

from collections.abc import Callable, Sequence

import pytest

CommandLine = Callable[..., tuple[int, str, str]]


def captured(main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A function that runs a program with arguments: exit status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            status = int(stop.code or 0)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run
