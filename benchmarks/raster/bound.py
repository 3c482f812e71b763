"""Times relative to the arithmetic of the covered pixel-face pairs, and their distribution over kernels and launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from benchmarks import peaks
from benchmarks.raster.flops import backward_flops, forward_flops
from benchmarks.raster.launches import LaunchCost, Launches, launch_cost, watch_launches
from benchmarks.raster.pairs import Pairs, count_pairs
from benchmarks.raster.passes import make_passes
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.raster.speed import AGGREGATIONS, Key
from benchmarks.table import Table, number, times
from benchmarks.timing import best_times
from ti_render import render
from ti_sim.base.runtime import require

KINDS = {"forward": "forward", "backward": "backward", "looks": "8 looks", "geometry": "8 of geometry"}
ROUNDS = 4
BINNING = ("tile_boxes", "count_faces", "fill_tiles")


@dataclass(frozen=True)
class SceneWork:
    """Work and times of one scene.

    Attributes:
        pairs: of its pixels and faces.
        pass_seconds: time of each pass [s].
        launches: of each pass.
    """

    pairs: Pairs
    pass_seconds: Mapping[str, float]
    launches: Mapping[str, Launches]


def measure_work(key: Key, *, repeats: int) -> SceneWork:
    """Count the pairs of a scene, time its passes and watch their launches."""
    pixels, faces, aggregation = key
    inputs, settings = make_inputs(sphere(faces), pixels, aggregation=aggregation)
    passes = make_passes(inputs, settings)
    pass_seconds: dict[str, float] = {}
    launches: dict[str, Launches] = {}
    for _ in range(ROUNDS):  # interleaved, so that other load affects both
        for kind, seconds in best_times(passes, repeats=-(-repeats // ROUNDS)).items():
            pass_seconds[kind] = min(seconds, pass_seconds.get(kind, seconds))
        for kind, function in passes.items():
            observed = watch_launches(function, repeats=-(-repeats // ROUNDS))
            launches[kind] = observed.least(launches.get(kind, observed))
    return SceneWork(count_pairs(render(inputs, settings)), pass_seconds, launches)


def bound_table(works: Mapping[Key, SceneWork], *, quick: bool) -> Table:
    """Arithmetic of the pairs against the measured times.

    Args:
        works: of the scenes.
        quick: a shorter measurement of the peak.
    """
    peak = peaks.measure(quick=quick).flops
    cores = torch.get_num_threads() if require().device == "cpu" else 1
    result = Table(
        "Bound: the arithmetic of the pixel-face pairs, Phong",
        ("pass", "pairs visited", "covered", "coloured", "Mflop", "flops a covered pair", "at the peak, ms",
         "rasteriser kernel, ms", "kernel / peak", "whole pass, ms", "whole / peak"),
    )  # fmt: skip
    for key, work in works.items():
        is_dibr = key[2] == "dibr"
        for kind, flops, coloured in (
            ("forward", forward_flops(work.pairs, dibr=is_dibr), work.pairs.blended),
            ("backward", backward_flops(work.pairs, dibr=is_dibr), work.pairs.coloured),
        ):
            peak_seconds, pass_seconds = flops / (peak * cores), work.pass_seconds[kind]
            kernel_seconds = _rasteriser(work.launches[kind])
            result.add(
                _label(key, kind), f"{work.pairs.visited:,}", f"{work.pairs.covered:,}", f"{coloured:,}", number(flops / 1e6),
                number(flops / work.pairs.covered), number(peak_seconds * 1e3), _ms(kernel_seconds),
                times(kernel_seconds / peak_seconds) if kernel_seconds else "",
                number(pass_seconds * 1e3), times(pass_seconds / peak_seconds),
            )  # fmt: skip
    result.remarks.append(
        "Visited: a pixel in the box of a face grown by the cut-off distance; covered: with coverage; coloured: near enough in "
        "depth that its colour counts (DIB-R: pixels that show a face). Mflop: counted from the formulas "
        "(`benchmarks/raster/flops.py`), an exponential as 16, with nothing for what a face's pixels share, for memory and for "
        f"branches. Peak: scalar multiply-adds, {number(peak / 1e9)} Gflop/s a core, {cores} cores, measured in this run."
    )
    return result


def launches_table(works: Mapping[Key, SceneWork], *, repeats: int) -> Table:
    """Distribution of the time of the passes.

    Args:
        works: of the scenes.
        repeats: measurements of the cost of a launch.
    """
    cost = launch_cost(repeats=repeats)
    result = Table(
        "Where the time goes, ms",
        ("pass", "whole", "rasteriser kernel", "binning", "other kernels", "launches", "with arrays", "their cost", "the rest"),
    )
    for key, work in works.items():
        for kind, label in KINDS.items():
            if work.launches[kind].number:
                _add_launches(result, _label(key, label), work.pass_seconds[kind], work.launches[kind], cost)
    result.remarks.append(
        "The time of a kernel is that of the compiled call, the least of several. A launch costs "
        f"{number(cost.launch * 1e6)} us and each array that it is given {number(cost.array * 1e6)} us, measured in this run "
        "with kernels that do nothing. The rest: checks, new arrays, and what the least times of the parts do not have in common."
    )
    return result


def _add_launches(table: Table, label: str, pass_seconds: float, launches: Launches, cost: LaunchCost) -> None:
    rasteriser_seconds = _rasteriser(launches)
    binning_seconds = sum(launches.seconds.get(kernel, 0.0) for kernel in BINNING)
    launch_seconds = cost.of(launches)
    table.add(
        label, number(pass_seconds * 1e3), _ms(rasteriser_seconds), _ms(binning_seconds),
        _ms(launches.inside - rasteriser_seconds - binning_seconds), launches.number, launches.arrays, _ms(launch_seconds),
        number(1e3 * (pass_seconds - launches.inside - launch_seconds)),
    )  # fmt: skip


def _label(key: Key, kind: str) -> str:
    pixels, faces, name = key
    return f"{AGGREGATIONS[name]} {kind}, {pixels} px, {faces:,} faces"


def _rasteriser(launches: Launches) -> float:
    return sum(seconds for kernel, seconds in launches.seconds.items() if kernel.startswith("rasterise"))


def _ms(seconds: float) -> str:
    return number(seconds * 1e3) if seconds else ""
