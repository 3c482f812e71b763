"""Every test below this folder runs with the kernels in f32; the other precision needs another process."""

import os
from collections.abc import Callable

import pytest

from risp_torch.__main__ import main
from ti_sim.base.runtime import start

# At import, so that the runtime runs before any test module is collected.
start(device=os.environ.get("RISP_DEVICE", "cpu"), precision="f32")


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
