"""``gradcheck`` of rollouts, with the points of all differences as the worlds of one rollout."""

from collections.abc import Callable

import numpy as np

from ti_sim.base.gradcheck import GradcheckReport, gradcheck

Point = dict[str, np.ndarray]


def gradcheck_in_worlds(
    losses: Callable[[list[Point]], np.ndarray], gradient: Callable[[Point], Point], point: Point, **options: object
) -> GradcheckReport:
    """Compare a gradient with central differences, as ``gradcheck`` does.

    Args:
        losses: function from points to their losses.
        gradient: function from a point to the gradient there.
        point, options: of ``gradcheck``.
    """
    needed: dict[bytes, Point] = {}

    def key(at: Point) -> bytes:
        return b"".join(array.tobytes() for array in at.values())

    def note(at: Point) -> float:
        needed[key(at)] = at
        return 0.0

    zero = {name: np.zeros_like(array) for name, array in point.items()}
    gradcheck(lambda at: (note(at), zero), point, loss=note, **options | {"min_observable": 0})
    values = dict(zip(needed, losses(list(needed.values())), strict=True))

    def loss(at: Point) -> float:
        if key(at) not in values:  # the one-sided differences of a failing entry
            values[key(at)] = losses([at])[0]
        return float(values[key(at)])

    return gradcheck(lambda at: (loss(at), gradient(at)), point, loss=loss, **options)
