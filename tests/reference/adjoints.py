"""``gradcheck`` of one array of a function of many, for the renderer's tests."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.reference.gradients_in_worlds import Point, gradcheck_in_worlds
from ti_sim import GradcheckReport


def adjoint_report(
    losses: Callable[[list[np.ndarray]], np.ndarray],
    name: str,
    x: np.ndarray,
    adjoint: np.ndarray,
    *,
    rtol: float = 1e-5,
    entries: int | None = None,
    directions: int = 0,
    step: float = 1e-6,
    order: int = 4,
    seed: int = 0,
) -> GradcheckReport:
    """Compare an adjoint with central differences of a loss, entry by entry and along dense random directions.

    The entry with the largest adjoint is always compared, then entries drawn half among those whose adjoint is not zero and
    half among all. A direction moves every entry of the array at once, so that no entry goes unseen.

    Every derivative may be off by ``rtol`` of itself, or by a thousandth of that of the array's largest entry: entries add up
    contributions of many pixels that cancel, and differences of the whole loss carry its roundoff.

    Args:
        losses: losses at many arrays of the shape of ``x``.
        name: of the array, for the table.
        x: float64 array.
        adjoint: derivative of the loss with respect to x, under test.
        rtol: see above.
        entries: how many entries to compare; None compares all.
        directions: how many dense directions to compare.
        step: of the differences (see ``gradcheck``).
        order: of the differences.
        seed: of the draws.
    """
    assert adjoint.shape == x.shape, f"the adjoint of {name} has shape {adjoint.shape}, and {x.shape} is needed"
    rng = np.random.default_rng(seed)
    labels, vectors, at, slopes = [], [], [], []
    for flat in _chosen(adjoint, entries, rng):
        index = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        vector = np.zeros(x.shape)
        vector[index] = 1.0
        labels.append(f"{name}{list(index)}")
        vectors.append(vector)
        at.append(x[index])
        slopes.append(adjoint[index])
    for k in range(directions):
        labels.append(f"{name} along direction {k}")
        vectors.append(rng.standard_normal(x.shape))
        at.append(0.0)
        slopes.append(np.sum(vectors[-1] * adjoint))
    here = {"all": np.array(at)}

    def moved(point: Point) -> np.ndarray:
        array, values = x.copy(), point["all"]
        for k in np.flatnonzero(values != here["all"]):
            array = array + (values[k] - at[k]) * vectors[k]
        return array

    report = gradcheck_in_worlds(
        lambda points: losses([moved(point) for point in points]), lambda _: {"all": np.array(slopes)}, here, step=step,
        order=order, rtol=rtol, atol=1e-3 * rtol * float(np.abs(adjoint).max()),
    )  # fmt: skip
    named = [replace(entry, name=labels[entry.index[0]], index=()) for entry in report.entries]
    return replace(report, entries=named)


def _chosen(adjoint, entries, rng):
    if entries is None or adjoint.size <= entries:
        return np.arange(adjoint.size)
    flat = np.abs(adjoint).ravel()
    seen = np.flatnonzero(flat)
    some = rng.choice(seen, min(len(seen), entries // 2), replace=False) if len(seen) else seen
    others = rng.choice(flat.size, entries - entries // 2, replace=False)
    return np.unique(np.concatenate([[flat.argmax()], some, others]).astype(int))
