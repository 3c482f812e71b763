"""Which values ``checked`` accepts for annotations of lists, mappings, arrays, functions and choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from ti_sim import UserError
from ti_sim.base.arrays import Array
from ti_sim.base.rules import Count, Positive, checked

TEXTS = ["a", ("a", "b"), {"a", "b"}, {"a": 1}.keys(), [np.str_("a")], []]
ROWS = [[[1, 2]], [(1.0,)], np.zeros((2, 3)), torch.zeros(2, 3), np.zeros((0, 3)), [np.ones(2), [1]]]
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "names": (str | Sequence[str], TEXTS, [b"a", 3, None, [1], ["a", None], {"a": 1}, np.array(["a"]), np.zeros(0), np.ones(2)]),
    "keys": (Iterable[str], [*TEXTS[1:], {"a": 1}, iter("ab")], ["ab", {1: 2}, [3], np.zeros(3)]),
    "paths": (Path | str, ["a", Path("a")], [b"a", 3, None, ["a"], "a\ud800", Path("\udcff"), "a\0b"]),
    "rows": (Sequence[Sequence[float]], ROWS, ["ab", 3, [1.0], np.zeros(3), {"a": [1.0]}]),
    "numbers": (np.ndarray, [[1, 2], (1.0,), [[True]], np.zeros(2, bool), torch.ones(1), [], np.array([np.nan])], [
        3, 2.5, np.float64(1), "a", ["a"], [10**400], [[1.0], [1.0, 2.0]], np.array(["a"]), 1j, None,
    ]),
    "array": (Array | None, [np.zeros(2), torch.zeros(2), None], [[1.0], 3, np.float64(1), "a"]),
    "pictures": (Sequence[np.ndarray], [[], [np.zeros((2, 2))], np.zeros((1, 2, 2)), [[[1]]]], [[1.0], [np.ones(1), "a"], None]),
    "values": (Mapping[str, torch.Tensor], [{}, {"a": torch.ones(2)}, {"a": 1.0}, {"a": [1]}], [{"a": "b"}, {1: 1.0}, [1.0]]),
    "bounds": (dict[str, tuple] | None, [{"a": (1, 2)}, {"a": [1, 2]}, {}, None], [{"a": 1}, {1: (1, 2)}, [1, 2], "a"]),
    "pairs": (list, [[], (1,), np.ones(2)], ["a", 3, {"a": 1}, None]),
    "table": (dict, [{}, {1: 2}], [[], 3, "a", None]),
    "point": (Mapping[str, np.ndarray], [{}, {"a": np.ones(2)}, {"a": np.array(1.0)}, {"a": 2}], [{"a": "b"}, {1: 1.0}, [1.0]]),
    "guesses": (Count | list[Mapping[str, Any]], [3, np.int64(3), [{"a": 1}], ({},)], [0, 2.5, [1], [{1: 2}], "3", None]),
    "rate": (Positive | Mapping[str, float], [1, np.float32(2), {"a": 1.0}], [0, "a", [1.0], None]),
    "call": (Callable[..., Any], [len, int, lambda: 0], [3, "len", None]),
    "flag": (bool, [True, np.bool_(False)], [0, 1, "yes", None]),
    "word": (Literal["x", "y"] | None, ["x", None], ["z", 3, ["x"]]),
    "words": (tuple[Literal["x", "y"], ...], [("x", "y"), ["x"]], ["x", ("z",), 3]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_are_accepted_or_refused_by_name(case: str) -> None:
    hint, right, wrong = CASES[case]

    def function(thing: Any, *others: Any) -> int:
        return 1 + len(others)

    function.__annotations__ = {"thing": hint, "others": hint}
    function = checked(function)
    for value in right:
        assert function(value) == 1 and function(right[0], value, value) == 3
    for value in wrong:
        for arguments, label in (((value,), "thing"), ((right[0], right[0], value), r"others\[1\]")):
            with pytest.raises(UserError, match=f"^function: {label} ") as error:
                function(*arguments)
            assert "\n" not in str(error.value) and len(str(error.value)) < 400
