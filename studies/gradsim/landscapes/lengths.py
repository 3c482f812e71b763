"""Figure 12: loss landscapes of the mass in films of several lengths and frame rates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from risp_torch.files.report import figure_file
from studies.gradsim.landscapes.cells import DEEP, Facts, sampled_loss
from studies.gradsim.landscapes.films import FLIGHT_FRAMES, LANDING_FRAMES
from studies.gradsim.landscapes.pages import COLUMNS, WHERE, cubes, fact_cells, mark
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import Preset
from studies.markdown import markdown

LENGTHS = {"flight": FLIGHT_FRAMES, "landing": LANDING_FRAMES}  # frame intervals of the longest films
QUARTERS = (1, 2, 3, 4)  # of the longest film
FPS = 30
RATES = {"all": "30 Hz", "every:2": "15 Hz", "every:5": "6 Hz", "first+last": "first and last frame"}

ByFilm = Mapping[tuple[str, int, str], Facts]  # kind, quarters and rate of a film -> what its landscape is like


def lengths_page(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of figure 12 (arguments: ``figures.make``)."""
    rigid = cubes(preset, folder, jobs=jobs, title=name)
    facts = {
        (kind, quarter, rate): Facts.of(
            rigid[kind]["ratio"], sampled_loss(rigid[kind]["losses"], rate, longest * quarter // 4)
        )
        for kind, longest in LENGTHS.items() for quarter in QUARTERS for rate in RATES
    }  # fmt: skip
    rows = [
        [f"cube {WHERE[kind]}", f"{LENGTHS[kind] * quarter // 4 / FPS:.2f}", RATES[rate], *fact_cells(one)]
        for (kind, quarter, rate), one in facts.items()
    ]
    picture = _lengths_figure(folder / "pictures" / "lengths.png", rigid)
    text = f"""# Figure 12: lengths of videos and frame rates

The paper says that shorter videos (down to the first and last frame) have steeper landscapes, that the frame rate has an effect,
and that all are smooth with the same minimum. Here the mass of the cubes of figure 4, films of {preset.size} pixels, of a quarter
to the whole of their length; columns as on the page of figure 4.

{markdown(["film", "length [s]", "compared", *COLUMNS], rows)}

![Lengths](images/{name}-lengths.png)

{_steeper(facts)}

{_rates(facts)}

{_same_minimum(facts)}
"""
    return Page(name, text, {"lengths.png": picture})


def _steeper(facts: ByFilm) -> str:
    """Whether curvature falls with the length, over neighbouring lengths of equal films and rates."""
    pairs = [
        (one, facts[kind, quarter + 1, rate]) for (kind, quarter, rate), one in facts.items() if quarter < QUARTERS[-1]
    ]  # fmt: skip
    raw = sum(short.curvature > long.curvature for short, long in pairs)
    shares = sum(short.sharpness > long.sharpness for short, long in pairs)
    wider = sum(short.decades > long.decades + 1e-6 for short, long in pairs)
    narrower = sum(short.decades < long.decades - 1e-6 for short, long in pairs)
    return (
        f'"Shorter videos are steeper" {"holds" if raw > len(pairs) / 2 else "does not hold"}: of {len(pairs)} pairs of lengths '
        f"that follow each other, the shorter film has the larger curvature at the truth in {raw} (of the loss over its largest "
        f"value in {shares}). What shorter films have is reach: the interval from which the loss falls to the truth is wider in "
        f"{wider} pairs and narrower in {narrower}."
    )


def _rates(facts: ByFilm) -> str:
    over = {key: one.curvature / facts[key[0], key[1], "all"].curvature for key, one in facts.items()}
    fewer = [ratio for (_, _, rate), ratio in over.items() if rate.startswith("every")]
    ratios = [ratio for (_, _, rate), ratio in over.items() if rate == "first+last"]
    return (
        f"A lower frame rate multiplies the curvature by {digits(min(fewer))} to {digits(max(fewer))}, the first and last frame "
        f"alone by {digits(min(ratios))} to {digits(max(ratios))}."
    )


def _same_minimum(facts: ByFilm) -> str:
    lowest = sum(abs(one.minima[0] - 1) < 1e-9 for one in facts.values())
    single = sum(one.deep == 1 for one in facts.values())
    many = [one for (_, _, rate), one in facts.items() if rate != "first+last"]
    holds = lowest == single == len(facts)
    return (
        f'"Smooth with the same unique minimum" {"holds" if holds else "holds in part"}: the lowest minimum is the truth in '
        f"{share(lowest, len(facts))}; {share(single, len(facts))} have one minimum deeper than {DEEP:.0%} of the span, of those "
        f"with more than two frames {share(sum(one.deep == 1 for one in many), len(many))}."
    )


def _lengths_figure(path: Path, rigid: Mapping[str, Mapping[str, Any]]) -> Path:
    with figure_file(path, 9.0, 6.6) as figure:
        for (kind, longest), (left, right) in zip(LENGTHS.items(), figure.subplots(2, 2), strict=True):
            masses, losses = rigid[kind]["ratio"], rigid[kind]["losses"]
            for quarter in QUARTERS:
                frames = longest * quarter // 4
                left.plot(masses, sampled_loss(losses, "all", frames), label=f"{frames / FPS:.2f} s")
            for rate, label in RATES.items():
                right.plot(masses, sampled_loss(losses, rate, longest), label=label)
            mark(left, f"{WHERE[kind]}: lengths", "mass of a vertex [kg]", "MSE")
            mark(right, f"{WHERE[kind]}: frame rates of the longest", "mass of a vertex [kg]", "MSE")
    return path
