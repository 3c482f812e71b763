"""Table of the memory that pictures take above the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.raster.footprint import Footprint, measure, process_growth
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.raster.speed import AGGREGATIONS
from benchmarks.table import Table, format_number

SceneSize = tuple[int, int, int]  # pixels, faces, pictures
MIN_PROCESS_PIXELS = 60_000  # pixels above which the growth of a process exceeds the page granularity


def memory_table(scenes: Sequence[SceneSize], *, quick: bool) -> tuple[Table, dict[tuple[SceneSize, str], Footprint]]:
    """Bytes a pixel; also the footprints by scene and aggregation.

    Args:
        scenes: pixels, faces and number of pictures of each.
        quick: no child processes.
    """
    result = Table(
        "Memory above the inputs (bytes a pixel)",
        ("pixels", "faces", "pictures", "aggregation", "kept by the result", "forward, most", "backward, most",
         "of it adjoints of the inputs", "process", "all, MB"),
    )  # fmt: skip
    footprints = {}
    for scene in scenes:
        pixels, faces, images = scene
        pixel_count = pixels * pixels * images
        for name, label in AGGREGATIONS.items():
            footprint = measure(*make_inputs(sphere(faces), pixels, images=images, aggregation=name))
            footprints[scene, name] = footprint
            growth = None
            if not quick and pixel_count >= MIN_PROCESS_PIXELS and faces == 1008:
                growth = process_growth(pixels, faces, images, name)
            result.add(
                f"{pixels} x {pixels}", f"{faces:,}", images, label,
                *(format_number(memory_bytes / pixel_count) for memory_bytes in (
                    footprint.held_by_result, footprint.forward, footprint.backward, footprint.adjoints,
                )),
                "" if growth is None else format_number(growth / pixel_count), format_number(footprint.backward / 1e6),
            )  # fmt: skip
    result.remarks.append(
        "Counted exactly (numpy's allocations, `tracemalloc`), pictures of 16 bytes a pixel included. Backward, most: with the "
        "memory that the result keeps and the adjoints of the inputs, without the pictures' adjoint, which belongs to the "
        "caller. "
        "Faces and vertices need memory too, which matters for small pictures. Process: growth of the peak memory of a separate "
        "process that has drawn 8 x 8 pixels before; it rounds to pages and reuses free memory."
    )
    return result, footprints
