"""Every test below this folder runs with the kernels in f32; the other precision needs another process."""

import os
from collections.abc import Iterator

import pytest

from risp_torch.__main__ import main
from tests.reference.command_lines import CommandLine, captured
from tests.reference.searches import without_diagnosis, without_plots
from ti_sim.base.runtime import start

# At import, so that the runtime runs before any test module is collected.
start(device=os.environ.get("RISP_DEVICE", "cpu"), precision="f32")


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs the command line in this process: exit status, stdout, stderr."""
    return captured(main, capsys)


@pytest.fixture
def undiagnosed() -> Iterator[None]:
    """Inversions leave out the tests of the scene's known numbers (``without_diagnosis``)."""
    with without_diagnosis():
        yield


@pytest.fixture
def unplotted() -> Iterator[None]:
    """Inversions write no curves (``without_plots``)."""
    with without_plots():
        yield
