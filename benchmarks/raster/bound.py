"""Times relative to the arithmetic of the covered pixel-face pairs, and their distribution over kernels and launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from benchmarks import peaks
from benchmarks.raster.flops import backward_flops, forward_flops
from benchmarks.raster.launches import LaunchCost, Launches, launch_cost, watch_launches
from benchmarks.raster.pairs import PairCounts, count_pairs
from benchmarks.raster.passes import make_passes
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.raster.speed import AGGREGATIONS, SceneKey
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from ti_render import render
from ti_sim.base.runtime import require

PASS_LABELS = {"forward": "forward", "backward": "backward", "appearance": "8 looks", "geometry": "8 of geometry"}
ROUNDS = 4
BINNING = ("tile_boxes", "count_faces", "fill_tiles", "count_faces_in_parallel", "fill_tiles_in_parallel")


@dataclass(frozen=True)
class SceneWork:
    """Work and times of one scene.

    Attributes:
        pairs: of its pixels and faces.
        pass_seconds: time of each pass [s].
        launches: of each pass.
    """

    pairs: PairCounts
    pass_seconds: Mapping[str, float]
    launches: Mapping[str, Launches]


def measure_work(key: SceneKey, *, repeats: int) -> SceneWork:
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


def roofline_table(scene_works: Mapping[SceneKey, SceneWork], *, quick: bool) -> Table:
    """Arithmetic of the pairs against the measured times.

    Args:
        scene_works: of the scenes.
        quick: a shorter measurement of the peak.
    """
    peak = peaks.measure(quick=quick).flops_per_second
    cores = torch.get_num_threads() if require().device == "cpu" else 1
    result = Table(
        "Bound: the arithmetic of the pixel-face pairs, Phong",
        ("pass", "pairs visited", "covered", "coloured", "Mflop", "flops a covered pair", "at the peak, ms",
         "rasteriser kernel, ms", "kernel / peak", "whole pass, ms", "whole / peak"),
    )  # fmt: skip
    for key, work in scene_works.items():
        is_dibr = key[2] == "dibr"
        for kind, flops, coloured in (
            ("forward", forward_flops(work.pairs, dibr=is_dibr), work.pairs.blended),
            ("backward", backward_flops(work.pairs, dibr=is_dibr), work.pairs.coloured),
        ):
            peak_seconds, pass_seconds = flops / (peak * cores), work.pass_seconds[kind]
            kernel_seconds = _rasteriser_seconds(work.launches[kind])
            result.add(
                _row_label(key, kind), f"{work.pairs.visited:,}", f"{work.pairs.covered:,}", f"{coloured:,}",
                format_number(flops / 1e6),
                format_number(flops / work.pairs.covered), format_number(peak_seconds * 1e3), _milliseconds_text(kernel_seconds),
                format_ratio(kernel_seconds / peak_seconds) if kernel_seconds else "",
                format_number(pass_seconds * 1e3), format_ratio(pass_seconds / peak_seconds),
            )  # fmt: skip
    result.remarks.append(
        "Visited: a pixel in the box of a face grown by the cut-off distance; covered: with coverage; coloured: near enough in "
        "depth that its colour counts (DIB-R: pixels that show a face). Mflop: counted from the formulas "
        "(`benchmarks/raster/flops.py`), an exponential as 16, with nothing for what a face's pixels share, for memory and for "
        f"branches. Peak: scalar multiply-adds, {format_number(peak / 1e9)} Gflop/s a core, {cores} cores, measured in this run."
    )
    return result


def launches_table(scene_works: Mapping[SceneKey, SceneWork], *, repeats: int) -> Table:
    """Distribution of the time of the passes.

    Args:
        scene_works: of the scenes.
        repeats: measurements of the cost of a launch.
    """
    cost = launch_cost(repeats=repeats)
    result = Table(
        "Where the time goes, ms",
        ("pass", "whole", "rasteriser kernel", "binning", "other kernels", "launches", "with arrays", "their cost", "the rest"),
    )
    for key, work in scene_works.items():
        for kind, label in PASS_LABELS.items():
            if work.launches[kind].total:
                _add_launches(result, _row_label(key, label), work.pass_seconds[kind], work.launches[kind], cost)
    result.remarks.append(
        "The time of a kernel is that of the compiled call, the least of several. A launch costs "
        f"{format_number(cost.launch * 1e6)} us and each array that it is given {format_number(cost.array * 1e6)} us, measured "
        f"in this run "
        "with kernels that do nothing. The rest: checks, new arrays, and what the least times of the parts do not have in common."
    )
    return result


def _add_launches(table: Table, label: str, pass_seconds: float, launches: Launches, cost: LaunchCost) -> None:
    rasteriser_seconds = _rasteriser_seconds(launches)
    binning_seconds = sum(launches.seconds.get(kernel, 0.0) for kernel in BINNING)
    launch_seconds = cost.of(launches)
    table.add(
        label, format_number(pass_seconds * 1e3), _milliseconds_text(rasteriser_seconds), _milliseconds_text(binning_seconds),
        _milliseconds_text(launches.inside - rasteriser_seconds - binning_seconds), launches.total, launches.arrays,
        _milliseconds_text(launch_seconds),
        format_number(1e3 * (pass_seconds - launches.inside - launch_seconds)),
    )  # fmt: skip


def _row_label(key: SceneKey, kind: str) -> str:
    pixels, faces, name = key
    return f"{AGGREGATIONS[name]} {kind}, {pixels} px, {faces:,} faces"


def _rasteriser_seconds(launches: Launches) -> float:
    return sum(seconds for kernel, seconds in launches.seconds.items() if kernel.startswith("rasterise"))


def _milliseconds_text(seconds: float) -> str:
    return format_number(seconds * 1e3) if seconds else ""
