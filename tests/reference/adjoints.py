"""``gradcheck`` of one array of a function of many, for the renderer's tests."""

from collections.abc import Callable

import numpy as np

from ti_sim import GradcheckReport, gradcheck


def adjoint_report(
    loss: Callable[[np.ndarray], float],
    name: str,
    x: np.ndarray,
    adjoint: np.ndarray,
    *,
    rtol: float,
    max_entries: int | None = None,
    seed: int = 0,
) -> GradcheckReport:
    """Compare an adjoint with central differences of ``loss``.

    Every entry may be off by ``rtol`` of itself, or by a thousandth of that of the array's largest: entries add up
    contributions of many pixels that cancel, and differences of the whole loss carry its roundoff.

    Args:
        loss: scalar function of an array of the shape of ``x``.
        name: of the array, for the table.
        x: float64 array.
        adjoint: derivative of the loss with respect to x, under test.
        rtol: see above.
        max_entries: check at most this many entries, drawn with ``seed``.
        seed: of that draw.
    """
    return gradcheck(
        lambda at: (loss(at[name]), {name: adjoint}), {name: x}, loss=lambda at: loss(at[name]),
        order=2, rtol=rtol, atol=1e-3 * rtol * float(np.abs(adjoint).max()), max_entries=max_entries, seed=seed,
    )  # fmt: skip
