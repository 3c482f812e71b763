"""Speed and memory of the soft rasterisers, bounds, and comparisons with other renderers."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.raster.bound import launches_table, measure_work, roofline_table
from benchmarks.raster.features import features_table
from benchmarks.raster.memory import memory_table
from benchmarks.raster.mitsuba import compare
from benchmarks.raster.rates import CELLS, rates_table
from benchmarks.raster.speed import (
    AGGREGATIONS,
    PassTimes,
    SceneKey,
    batch_table,
    measure_batch,
    measure_sizes,
    pytorch3d_table,
    speed_table,
)
from benchmarks.raster.targets import targets_table
from benchmarks.table import Table

TITLE = "Soft rasterisers"

PIXELS, FACES, LARGE_PIXELS = 128, 1008, 256  # of the scene that the targets are about
SIZES = tuple((pixels, faces) for pixels in (64, PIXELS, LARGE_PIXELS) for faces in (80, FACES, 5120))
QUICK_SIZES = ((PIXELS, FACES), (LARGE_PIXELS, FACES))


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of the rasterisers, as they are measured.

    Args:
        quick: fewer sizes and repeats, no memory of whole processes.
    """
    repeats = 4 if quick else 15
    pass_times = measure_sizes(QUICK_SIZES if quick else SIZES, repeats=repeats)
    yield speed_table(pass_times)
    yield pytorch3d_table(pass_times)
    small, large = _times_at(pass_times, PIXELS), _times_at(pass_times, LARGE_PIXELS)
    eight_pictures = measure_batch(PIXELS, FACES, repeats=repeats)
    yield batch_table(small, eight_pictures, PIXELS, FACES, repeats=repeats)
    one_picture = (PIXELS, FACES, 1)
    scenes = (
        [one_picture, (LARGE_PIXELS, FACES, 1)]
        if quick
        else [one_picture, (PIXELS, 5120, 1), (LARGE_PIXELS, FACES, 1), (PIXELS, FACES, 8)]
    )
    memory, footprints = memory_table(scenes, quick=quick)
    yield memory
    scene_works = {(PIXELS, FACES, name): measure_work((PIXELS, FACES, name), repeats=repeats) for name in AGGREGATIONS}
    yield roofline_table(scene_works, quick=quick)
    yield launches_table(scene_works, repeats=repeats)
    yield rates_table((100, 1000) if quick else tuple(CELLS), repeats=repeats)
    comparison = compare(PIXELS, FACES, repeats=repeats, quick=quick)
    yield comparison.table
    yield features_table(PIXELS, FACES, repeats=repeats, quick=quick)
    yield targets_table(
        small, large, eight_pictures, {name: footprints[one_picture, name] for name in AGGREGATIONS}, PIXELS, comparison
    )


def _times_at(pass_times: dict[SceneKey, PassTimes], pixels: int) -> dict[str, PassTimes]:
    """Times at this size, by aggregation."""
    return {name: pass_times[pixels, FACES, name] for name in AGGREGATIONS}
