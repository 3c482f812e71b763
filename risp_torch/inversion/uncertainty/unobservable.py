"""Sentences on unobservable unknowns and directions, with error bars."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.problem.unknowns import Unknowns

MAX_LISTED = 12  # unknowns that a sentence lists, and sentences
MAX_REPORTED_SD = 10  # relative to the range: larger error bars are not reported as numbers
PRIOR_RATIO = 0.9  # of a prior's standard deviation: with a wider error bar, the film adds nothing to the prior
MAX_PRIOR_DISTANCE = 3.0  # standard deviations of a prior: an estimate farther from its mean is remarked


def unobservable_directions(directions: np.ndarray, sd: np.ndarray, unknowns: Unknowns) -> list[str]:
    """Sentences on unobservable directions, with one for all after the first few.

    Args:
        directions: [K, W] unit vectors relative to the ranges, the worst first.
        sd: [W] standard deviations of the amplitudes along them.
        unknowns: unknowns of the inversion.
    """
    sentences = [describe_direction(directions[:, k], unknowns, sd[k]) for k in range(min(len(sd), MAX_LISTED))]
    unlisted = sd[MAX_LISTED:]
    if len(unlisted):
        span = (
            f"{size_of(unlisted.min(), 'times the ranges', 'linear')} to {size_of(unlisted.max(), 'times the ranges', 'linear')}"
        )
        sentences.append(f"{len(unlisted)} combinations more (error bars {span})")
    return sentences


def weakly_identified(is_wide: np.ndarray, sd: np.ndarray, unknowns: Unknowns) -> list[str]:
    """Sentences on unknowns with wide error bars, with one for all entries of a large parameter.

    Args:
        is_wide: [K] flags.
        sd: [K] standard deviations, scaled units.
        unknowns: unknowns of the inversion.
    """
    remarks = []
    for name, group in unknowns.groups.items():
        indices = [k for k in range(group.start, group.stop) if is_wide[k]]
        unit, scale = unknowns.units[group.start], unknowns.scales[group.start]
        if len(indices) > MAX_LISTED:
            remarks.append(
                f"{len(indices)} of the {group.stop - group.start} numbers of {name} are hardly fixed: their error bars of "
                f"{size_of(np.median(sd[indices]), unit, scale)} (median) are wider than a quarter of their ranges"
            )
            continue
        remarks += [
            f"{unknowns.labels[k]} is hardly fixed: its error bar of {size_of(sd[k], unit, scale)} is wider than a quarter of "
            "its range"
            for k in indices
        ]
    return remarks


def determined_by_priors(sd: np.ndarray, unknowns: Unknowns) -> list[str]:
    """Sentences on unknowns whose error bars [K] (scaled units) are those of their priors."""
    priors, sentences = unknowns.priors, []
    prior_only = {int(k) for k, prior_sd in zip(priors.indices, priors.sd, strict=True) if sd[k] >= PRIOR_RATIO * prior_sd}
    for name, group in unknowns.groups.items():
        indices = sorted(prior_only & set(range(group.start, group.stop)))
        if len(indices) > MAX_LISTED:
            sentences.append(
                f"{len(indices)} of the {group.stop - group.start} numbers of {name} are known from their priors only"
            )
            continue
        sizes = {k: size_of(sd[k], unknowns.units[k], unknowns.scales[k]) for k in indices}
        sentences += [f"{unknowns.labels[k]} is known from its prior only ({size})" for k, size in sizes.items()]
    return sentences


def far_from_priors(physical: np.ndarray, unknowns: Unknowns) -> list[str]:
    """Sentences on estimates [K] (physical units) that their priors call unlikely."""
    priors = unknowns.priors
    distances = (unknowns.scaled(physical)[priors.indices] - priors.mean) / priors.sd
    far = sorted(
        ((abs(size), int(k)) for size, k in zip(distances, priors.indices, strict=True) if abs(size) > MAX_PRIOR_DISTANCE),
        reverse=True,
    )
    return [
        f"the estimate of {unknowns.labels[k]} lies {size:.2g} standard deviations from the mean of its prior: the prior, the "
        "scene or its look is likely wrong"
        for size, k in far[:MAX_LISTED]
    ]


def describe_direction(direction: np.ndarray, unknowns: Unknowns, sd: float) -> str:
    """A sentence on an unobservable direction [K] (relative to the ranges), with its error bar.

    Args:
        direction: unit vector.
        unknowns: unknowns of the inversion.
        sd: standard deviation of the amplitude along it.
    """
    labels = np.array(unknowns.labels)
    large = np.abs(direction) >= min(0.2, 0.5 * np.abs(direction).max())  # with many unknowns, none may have a large component
    bar = f"error bar {size_of(sd, 'times its range' if large.sum() == 1 else 'times the ranges', 'linear')}"
    if large.sum() > MAX_LISTED:
        first = labels[np.abs(direction).argmax()]
        return f"{large.sum()} of the {len(labels)} unknowns, {first} first, only in combination ({bar})"
    named = [str(label) for label in labels[large]]
    if len(named) == 1:
        k = int(np.flatnonzero(large)[0])
        if sd <= MAX_REPORTED_SD:
            bar = f"error bar {size_of(sd * unknowns.scaled_range()[k], unknowns.units[k], unknowns.scales[k])}"
        return f"{named[0]} leaves no trace in the film at this estimate ({bar})"
    scaled_direction = direction * unknowns.scaled_range()
    large_components = scaled_direction[large]
    logs = all(scale == "log10" for scale, is_large in zip(unknowns.scales, large, strict=True) if is_large)
    names = ", ".join(named)
    if logs and np.ptp(large_components) < 0.15 * np.abs(large_components).mean():
        return f"{names} only up to a common scale ({bar})"
    signs = ", ".join(f"{'+' if value > 0 else '-'}{label}" for label, value in zip(named, large_components, strict=True))
    return f"{names} only in combination ({signs} together leave no trace: {bar})"


def size_of(sd: float, unit: str, scale: str) -> str:
    """An error bar in words: "± 0.4 m/s", "± 1.2 decades", "above 10 times its range"."""
    if unit.startswith("times") and sd > MAX_REPORTED_SD:
        return f"above {MAX_REPORTED_SD:g} {unit}"
    return f"± {sd:.2g} {'decades' if scale == 'log10' else unit}".rstrip()
