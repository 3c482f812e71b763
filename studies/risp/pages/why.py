"""Explanations, as sentences with numbers, for cells in which RISP is not the best or worse than in the paper."""

from __future__ import annotations

from collections.abc import Mapping

from studies.risp.tables.results import Cell, lowest

NAMES = {
    "average": "average", "random": "random", "pixel": "pixels", "perceptual": "perceptual", "no-grad": "RISP, no gradient loss",
    "matched": "matched", "full": "RISP", "chain": "RISP, then matched", "full-rmsprop": "RISP, the paper's RMSProp",
    "state": "true states (oracle)",
}  # fmt: skip
# A loss so much lower at the estimate than at the truth indicates a shifted minimum, one so much higher an unfinished search.
_CLEARLY = 1.02
_FAR = 3.0  # ratio of the largest to the least error of repeats above which a sentence is written


def reasons(cells: Mapping[tuple[str, str], Cell], scene: str) -> list[str]:
    """Sentences about the full method's cell of a scene; none if it is the lowest and not worse than in the paper.

    Args:
        cells: of one table.
        scene: scene of the cell.
    """
    full = cells.get((scene, "full"))
    best = lowest(cells, scene)
    if full is None or best is None:
        return []
    verdicts = []
    if best != "full":
        verdicts.append(f"the lowest error is {cells[scene, best].mean:.3g} ({NAMES[best]}), RISP has {full.mean:.3g}")
    if full.paper is not None and full.mean > full.paper[0]:
        verdicts.append(f"RISP's {full.mean:.3g} is worse than the paper's {full.paper[0]:.3g}")
    if not verdicts:
        return []
    compared = ["full"] if best == "full" else ["full", best]
    sentences = [sentence for method in compared for sentence in _causes(cells[scene, method])]
    return [f"{scene}: {'; '.join(verdicts)}.", *sentences]


def _causes(cell: Cell) -> list[str]:
    """Sentences on the error of a cell from its results."""
    if cell.table == "1":
        return [_spread(cell)]
    sentences = []
    reading = cell.mean_of("reading_error")
    if reading is not None:
        sentences.append(f"{NAMES[cell.method]}: an output that its network reads from the target films is off by {reading:.3g}.")
    estimate, truth = cell.mean_of("loss_estimate"), cell.mean_of("loss_truth")
    if estimate is not None and truth is not None:
        sentences.append(_minimum(cell.method, estimate, truth))
    if max(cell.errors) > _FAR * min(cell.errors):
        sentences.append(f"{NAMES[cell.method]}: its repeats go from {min(cell.errors):.3g} to {max(cell.errors):.3g}.")
    return sentences


def _minimum(method: str, estimate: float, truth: float) -> str:
    """Whether the loss or the search causes the error."""
    numbers = f"the loss is {estimate:.4g} at the estimate and {truth:.4g} at the truth"
    if estimate * _CLEARLY < truth:
        cause = "what the network misreads" if method in ("no-grad", "full") else "the other look of the film"
        return f"{NAMES[method]}: {numbers}: {cause} moves the minimum."
    if estimate > _CLEARLY * truth:
        return f"{NAMES[method]}: {numbers}: the search ended before the minimum."
    return f"{NAMES[method]}: {numbers}: the loss does not tell the two apart, as the film hardly shows the difference."


def _spread(cell: Cell) -> str:
    """Part of the prediction error due to appearance."""
    return (
        f"{NAMES[cell.method]}: the same state read in different appearances differs by {cell.spread():.3g} "
        f"({cell.spread() / cell.mean:.0%} of the error)."
    )
