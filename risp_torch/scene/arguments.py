"""Types of the arguments of the ``add_`` methods; ``checked`` validates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from ti_render.geometry.lens import DISTORTION_SIZE
from ti_sim.base.param import Param
from ti_sim.base.rules import Rule

# One number, three (one for all of them), or any array: each may be a Param.
Number = Annotated[float | Param, Rule(param=True)]
Vector = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(3,), param=True)]
Pair = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(2,), param=True)]
Array = Annotated[Any, Rule(shape=None, param=True)]
Distortion = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(DISTORTION_SIZE,), param=True)]
# Three or four numbers that are no parameters.
Direction = Annotated[Sequence[float] | np.ndarray, Rule(shape=(3,), exact=True)]
Quaternion = Annotated[Sequence[float] | np.ndarray, Rule(shape=(4,), exact=True)]
Picture = str | Path | np.ndarray | Param
Wrap = Literal["clamp", "repeat"]
# Which particles of a body: indices, a mask, or a function of its vertices [V, 3] that returns a mask.
Where = Callable[[np.ndarray], np.ndarray] | Any
UPRIGHT = (0.0, 0.0, 0.0, 1.0)  # quaternion (x, y, z, w) of no rotation
