"""Targets of the rasteriser and measurements."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.raster.footprint import Footprint
from benchmarks.raster.mitsuba import Comparison
from benchmarks.raster.speed import AGGREGATIONS, PassTimes
from benchmarks.table import Table, format_number

FORWARD_MS, BACKWARD_MS = 3.0, 8.0  # ms
SIZE_RATIO, BATCH_RATIO, JACOBIAN_RATIO = 4.0, 8.0, 3.0  # times
PIXEL_BYTES = 64.0
MITSUBA_RATIO = 3.0  # times faster


def targets_table(
    small: Mapping[str, PassTimes], large: Mapping[str, PassTimes], eight_pictures: Mapping[str, PassTimes],
    memory: Mapping[str, Footprint],
    pixels: int, comparison: Comparison,
) -> Table:  # fmt: skip
    """The targets.

    Args:
        small, large: times at 128 and at 256 pixels, by aggregation.
        eight_pictures: times of eight pictures of 128 pixels.
        memory: of one picture of ``pixels`` x ``pixels``.
        pixels: side of that picture.
        comparison: with Mitsuba.
    """
    result = Table(
        "Asked and measured: 1,008 faces, 128 x 128 pixels, Phong",
        ("what", "at most", *(cell for label in AGGREGATIONS.values() for cell in (label, "of the limit"))),
    )
    rows = {
        "forward, ms": (FORWARD_MS, lambda n: small[n].forward * 1e3),
        "backward, ms": (BACKWARD_MS, lambda n: small[n].backward * 1e3),
        "forward at 256 px / at 128 px": (SIZE_RATIO, lambda n: large[n].forward / small[n].forward),
        "backward at 256 px / at 128 px": (SIZE_RATIO, lambda n: large[n].backward / small[n].backward),
        "forward of 8 / of one": (BATCH_RATIO, lambda n: eight_pictures[n].forward / small[n].forward),
        "backward of 8 / of one": (BATCH_RATIO, lambda n: eight_pictures[n].backward / small[n].backward),
        "picture and 8 looks / picture": (JACOBIAN_RATIO, lambda n: small[n].jacobian_ratio("appearance")),
        "8 looks alone / picture": (JACOBIAN_RATIO, lambda n: small[n].appearance / small[n].forward),
        "picture and 8 of geometry / picture": (JACOBIAN_RATIO, lambda n: small[n].jacobian_ratio("geometry")),
        "8 of geometry alone / picture": (JACOBIAN_RATIO, lambda n: small[n].geometry / small[n].forward),
        f"forward, bytes a pixel at {pixels} px": (PIXEL_BYTES, lambda n: memory[n].forward / pixels**2),
        f"forward and backward, bytes a pixel at {pixels} px": (PIXEL_BYTES, lambda n: memory[n].backward / pixels**2),
    }
    for what, (limit, measured) in rows.items():
        cells = [cell for name in AGGREGATIONS for cell in _cells(measured(name), limit)]
        result.add(what, f"{limit:g}", *cells)
    for kind, ratio in (("forward", comparison.forward_ratio), ("backward", comparison.backward_ratio)):
        # This target is a lower bound: its inverse makes smaller values better in every row.
        cells = ("not measured", "") if ratio is None else _cells(1 / ratio, 1 / MITSUBA_RATIO)
        result.add(f"{kind} / Mitsuba's with 16 samples", format_number(1 / MITSUBA_RATIO, 2), *cells, "", "")
    return result


def _cells(value: float, limit: float) -> tuple[str, str]:
    return format_number(value), f"{100 * value / limit:.0f} %"
