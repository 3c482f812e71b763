"""Warnings show the line of the user's code, whatever lies between it and the warning."""

import warnings
from pathlib import Path

import pytest

from risp_torch import Scene
from tests.reference.folders import ROBOTS
from ti_sim.base.rules import Count, checked
from ti_sim.base.warn import warn

HERE = {"__name__": "ti_sim.somewhere", "warn": warn, "checked": checked, "Count": Count}
exec("@checked\ndef inner(count: Count) -> None:\n    warn(f'{count} too many')\n", HERE)
exec("@checked\ndef outer(count: Count) -> None:\n    inner(count)\n", HERE)


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_the_line_of_the_caller_is_shown(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HERE[name](3)
    line = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), start=1) if "HERE[name](3)" in text)
    assert [(str(one.message), one.filename, one.lineno) for one in caught] == [("3 too many", __file__, line)]


def test_the_line_that_adds_a_robot_is_shown() -> None:
    pytest.importorskip("yourdfpy")
    with pytest.warns(UserWarning, match="is not imported completely") as caught:
        Scene(frame_dt=0.01, frames=1, substeps=1).add_robot(ROBOTS / "arm.urdf")
    assert {one.filename for one in caught} == {__file__}
