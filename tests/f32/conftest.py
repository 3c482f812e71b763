"""Every test below this folder runs with the kernels in f32; the other precision needs another process."""

import os

import pytest

from risp_torch.__main__ import main
from tests.reference.command_lines import CommandLine, captured
from ti_sim.base.runtime import start

# At import, so that the runtime runs before any test module is collected.
start(device=os.environ.get("RISP_DEVICE", "cpu"), precision="f32")


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs the command line in this process: exit status, stdout, stderr."""
    return captured(main, capsys)
