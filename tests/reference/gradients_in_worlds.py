"""``gradcheck`` of rollouts, with the points of all differences as the worlds of one rollout."""

from collections.abc import Callable, Mapping

import numpy as np
import torch

from risp_torch.inversion.diagnostics.gradient_check import loss_and_gradient
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


def check_torch_in_worlds(
    losses: Callable[[dict[str, torch.Tensor]], torch.Tensor], point: Mapping[str, np.ndarray], *, most: int = 512,
    **options: object,
) -> GradcheckReport:  # fmt: skip
    """``gradcheck_in_worlds`` of a torch function.

    Args:
        losses: function from named tensors [K, *shape] of K worlds to their losses [K].
        point: arrays [*shape] of one world by name.
        most: largest K.
        options: of ``gradcheck``.
    """
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in point.items()}

    def values(points: list[Point]) -> np.ndarray:
        batches = [points[first : first + most] for first in range(0, len(points), most)]
        with torch.no_grad():
            return np.concatenate([
                losses({name: torch.from_numpy(np.stack([at[name] for at in batch])) for name in arrays}).cpu().numpy()
                for batch in batches
            ])  # fmt: skip

    evaluate = loss_and_gradient(lambda given: losses({name: value[None] for name, value in given.items()}).sum())
    return gradcheck_in_worlds(values, lambda at: evaluate(at)[1], arrays, **options)
