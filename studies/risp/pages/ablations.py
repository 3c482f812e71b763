"""Pictures and pages of the two ablations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.report import figure_file
from studies.risp.tables.plan import ABLATIONS, CONFIGS, NETWORKS, SAMPLING_METHODS

Results = Mapping[str, Mapping[str, Any]]

LABELS = {"pixel": "pixels", "no-grad": "RISP without gradient loss", "full": "RISP"}
COLORS = {"1": "#2b8a4b", "10": "#e07b1f", "each": "#c0392b"}  # as in the paper's figure
SAMPLINGS = {
    "all": "every frame", "every:5": "every 5th frame", "first+last": "first and last", "first+middle": "first and middle"
}  # fmt: skip
_SHADES = ("#e07b1f", "#2a6fb0", "#2b8a4b", "#8a8a8a")


def plot_configs(path: Path | str, results: Results) -> None:
    """Plot test errors against epochs: colours for appearances, solid with the gradient loss, dashed without (figure 6a).

    Args:
        path: picture to write.
        results: of ``configs_unit``, by any name.
    """
    with figure_file(path, 6.4, 4.0) as figure:
        axes = figure.add_subplot()
        for configs, method in _sorted_configs(results):
            curve = results[_name(results, method=method, configs=configs)]
            line = "-" if method == "full" else "--"
            axes.plot(
                curve["epochs"], curve["test"], line, color=COLORS.get(configs), marker="." if len(curve["epochs"]) < 3 else None,
                label=f"{LABELS[method]}, {_appearances(configs)}",
            )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.2g}")
        axes.yaxis.set_minor_formatter("{x:.2g}")
        axes.tick_params(axis="y", which="minor", labelsize=7)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch")
        axes.set_ylabel("error on unseen appearances")
        axes.legend(fontsize=7)


def configs_markdown(results: Results) -> str:
    """Errors after the last epoch as a Markdown page (arguments: ``plot_configs``)."""
    lines = ["# Appearances of the training pictures (RISP, figure 6a)", ""]
    last = {(r["configs"], r["method"]): r for r in results.values()}
    one = next(iter(last.values()))
    lines += [
        f"Mean L1 error of a normalised output of the quadrotor after {one['epochs'][-1]} epochs with {one['images']} training "
        f"pictures, on pictures of unseen states in {one['appearances']} unseen appearances of the rasteriser. The training "
        "pictures have 1 appearance, 10, or each its own, and no patterned surroundings: lights and colours are all that varies. "
        "One network a cell.", "",
        "| appearances | without gradient loss | with it | ratio | error on training pictures, without / with |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for configs in dict.fromkeys(configs for configs, _ in _sorted_configs(results)):
        pair = [last.get((configs, method)) for method in NETWORKS]
        test, train = ([None if r is None else r[key][-1] for r in pair] for key in ("test", "train"))
        ratio = "-" if None in test else f"{test[1] / test[0]:.2f}"
        cells = [configs, _number(test[0]), _number(test[1]), ratio, f"{_number(train[0])} / {_number(train[1])}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_configs_sentences(last)])


def _configs_sentences(last: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[str]:
    """The paper's claims about its curves, and whether they hold here."""
    sentences = []
    lower = [c for c in CONFIGS if {(c, m) for m in NETWORKS} <= set(last) and _end(last, c, "full") < _end(last, c, "no-grad")]
    pairs = [c for c in CONFIGS if {(c, m) for m in NETWORKS} <= set(last)]
    if pairs:
        sentences.append(f"The gradient loss lowers the error in {len(lower)} of {len(pairs)} cases (in the paper in all).")
    if {("10", "full"), ("each", "no-grad")} <= set(last):
        few, many = _end(last, "10", "full"), _end(last, "each", "no-grad")
        holds = "holds" if few < many else "does not hold"
        sentences.append(
            f"10 appearances with it against an own appearance for every picture without it: {few:.4f} against {many:.4f}; the "
            f"paper's statement that the former is lower {holds} here."
        )
    return sentences


def _end(last: Mapping[tuple[str, str], Mapping[str, Any]], configs: str, method: str) -> float:
    return last[configs, method]["test"][-1]


def _sorted_configs(results: Results) -> list[tuple[str, str]]:
    """(configs, method) of the results, in the order of the legend."""
    computed = {(r["configs"], r["method"]) for r in results.values()}
    order = [*CONFIGS, *sorted({configs for configs, _ in computed} - set(CONFIGS))]
    return [(configs, method) for configs in order for method in NETWORKS if (configs, method) in computed]


def _name(results: Results, **settings: str) -> str:
    return next(name for name, r in results.items() if all(r[key] == value for key, value in settings.items()))


def _appearances(configs: str) -> str:
    return {"each": "each picture its own", "1": "1 appearance"}.get(configs, f"{configs} appearances")


def plot_sampling(path: Path | str, results: Results) -> None:
    """Plot loss against Young's modulus for each sampling, a panel for each method, the truth as a red line (figure 6b).

    Every curve is divided by its median: the samplings' shapes, and not their heights, are compared.

    Args:
        path: picture to write.
        results: of ``sampling_unit``, by any name.
    """
    methods = _sorted_methods(results)
    with figure_file(path, 3.7 * len(methods) + 0.4, 3.6) as figure:
        for number, (method, axes) in enumerate(zip(methods, figure.subplots(1, len(methods), squeeze=False)[0], strict=True)):
            result = results[_name(results, method=method)]
            for (sampling, label), color in zip(SAMPLINGS.items(), _SHADES, strict=True):
                losses = _losses(result, sampling)
                axes.plot(result["values"], losses / np.nanmedian(losses), color=color, label=label)
            axes.axvline(result["truth"], color="#c0392b", linewidth=1.0, label="truth")
            axes.set_xscale("log")
            axes.set_yscale("log", nonpositive="mask")
            axes.set_title(LABELS[method], fontsize=10)
            axes.set_xlabel(f"{result['name']} [{result['unit'] or 'Pa'}]")
            if number == 0:
                axes.set_ylabel("loss / its median")
                axes.legend(fontsize=7)


def sampling_markdown(results: Results) -> str:
    """Lowest points, minima and basins as a Markdown page (arguments: ``plot_sampling``)."""
    lines = [
        "# Frames that are compared (RISP, figure 6b)", "",
        "Loss of the rod's simulated film against the target's along Young's modulus, when all frames count or only some. The "
        "lowest point: of the grid, and its distance from the truth. Minima: places of the grid lower than both neighbours. "
        "Basin: decades around the lowest point from which the loss falls all the way to it.", "",
        "| method | frames | lowest at [Pa] | distance [log10] | minima | basin [decades] |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for method in _sorted_methods(results):
        result = results[_name(results, method=method)]
        for sampling, label in SAMPLINGS.items():
            log_values, minima, basin = shape_of(np.log10(result["values"]), _losses(result, sampling))
            distance = log_values - np.log10(result["truth"])
            lines.append(f"| {LABELS[method]} | {label} | {10**log_values:.3g} | {distance:+.2f} | {minima} | {basin:.2f} |")
    return "\n".join(lines)


def shape_of(places: np.ndarray, losses: np.ndarray) -> tuple[float, int, float]:
    """The lowest place of a loss curve, its number of minima (ends included), and the width of the lowest one's basin.

    Args:
        places: rising, [n].
        losses: [n]; NaN where there is none, which counts as high.
    """
    losses = np.nan_to_num(losses, nan=np.inf)
    lowest = int(losses.argmin())
    around = np.concatenate([[np.inf], losses, [np.inf]])
    minima = int(np.sum((losses < around[:-2]) & (losses <= around[2:]) & np.isfinite(losses)))
    left, right = lowest, lowest
    while left > 0 and losses[left] < losses[left - 1] < np.inf:
        left -= 1
    while right < len(losses) - 1 and losses[right] < losses[right + 1] < np.inf:
        right += 1
    return float(places[lowest]), minima, float(places[right] - places[left])


def _losses(result: Mapping[str, Any], sampling: str) -> np.ndarray:
    return np.array([np.nan if loss is None else loss for loss in result["losses"][sampling]])


def _sorted_methods(results: Results) -> list[str]:
    computed = {r["method"] for r in results.values()}
    return [method for method in reversed(SAMPLING_METHODS) if method in computed]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


# Ablation -> what draws its plot, and what writes its page.
PAGES = dict(zip(ABLATIONS, ((plot_configs, configs_markdown), (plot_sampling, sampling_markdown)), strict=True))
