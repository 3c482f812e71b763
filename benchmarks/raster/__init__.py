"""Speed and memory of the soft rasterisers, bounds, and comparisons with other renderers."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.raster.bound import bound_table, launches_table, measure_work
from benchmarks.raster.features import features_table
from benchmarks.raster.memory import memory_table
from benchmarks.raster.mitsuba import compare
from benchmarks.raster.rates import CELLS, rates_table
from benchmarks.raster.speed import (
    AGGREGATIONS,
    Key,
    Speed,
    batch_table,
    measure_batch,
    measure_sizes,
    pytorch3d_table,
    speed_table,
)
from benchmarks.raster.targets import targets_table
from benchmarks.table import Table

TITLE = "Soft rasterisers"

PIXELS, FACES, LARGE = 128, 1008, 256  # of the scene that the targets are about
SIZES = tuple((pixels, faces) for pixels in (64, PIXELS, LARGE) for faces in (80, FACES, 5120))
QUICK_SIZES = ((PIXELS, FACES), (LARGE, FACES))


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of the rasterisers, as they are measured.

    Args:
        quick: fewer sizes and repeats, no memory of whole processes.
    """
    repeats = 4 if quick else 15
    speeds = measure_sizes(QUICK_SIZES if quick else SIZES, repeats=repeats)
    yield speed_table(speeds)
    yield pytorch3d_table(speeds)
    small, large = _of(speeds, PIXELS), _of(speeds, LARGE)
    eight = measure_batch(PIXELS, FACES, repeats=repeats)
    yield batch_table(small, eight, PIXELS, FACES, repeats=repeats)
    one = (PIXELS, FACES, 1)
    scenes = [one, (LARGE, FACES, 1)] if quick else [one, (PIXELS, 5120, 1), (LARGE, FACES, 1), (PIXELS, FACES, 8)]
    memory, footprints = memory_table(scenes, quick=quick)
    yield memory
    works = {(PIXELS, FACES, name): measure_work((PIXELS, FACES, name), repeats=repeats) for name in AGGREGATIONS}
    yield bound_table(works, quick=quick)
    yield launches_table(works, repeats=repeats)
    yield rates_table((100, 1000) if quick else tuple(CELLS), repeats=repeats)
    comparison = compare(PIXELS, FACES, repeats=repeats, quick=quick)
    yield comparison.table
    yield features_table(PIXELS, FACES, repeats=repeats, quick=quick)
    yield targets_table(small, large, eight, {name: footprints[one, name] for name in AGGREGATIONS}, PIXELS, comparison)


def _of(speeds: dict[Key, Speed], pixels: int) -> dict[str, Speed]:
    """Times at this size, by aggregation."""
    return {name: speeds[pixels, FACES, name] for name in AGGREGATIONS}
