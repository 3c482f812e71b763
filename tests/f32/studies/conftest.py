"""Fixtures of the tests of studies."""

from typing import Any

import pytest

from studies.risp.__main__ import main
from tests.reference.command_lines import CommandLine, captured
from tests.reference.trials import quadrotor_trials


@pytest.fixture
def risp_study(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs ``python -m studies.risp`` in this process: exit status, stdout, stderr."""
    return captured(main, capsys)


@pytest.fixture(scope="module")
def quadrotor() -> dict[str, tuple[Any, ...]]:
    """Kind -> (trial, true scene, task, true motion)."""
    return quadrotor_trials()
