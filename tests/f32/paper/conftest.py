"""Fixtures of the tests of the paper's trials and tables."""

from typing import Any

import pytest

from tests.reference.trials import quadrotor_trials


@pytest.fixture(scope="module")
def quadrotor() -> dict[str, tuple[Any, ...]]:
    """Kind -> (trial, true scene, task, true motion)."""
    return quadrotor_trials()
