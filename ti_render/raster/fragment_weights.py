"""Weights of the faces' corner colours in the pixels of an unlit picture: the picture as a linear function of its colours.

With the terms of ``softras``, an unlit picture over a black background is

    rgb_p = A sum_j w_j sum_k r_jk c_jk,   w_j = D_j e_j / S

with the perspective-correct barycentrics r_jk and the colours c_jk of the corners of face j: A w_j r_jk is the weight of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_render.raster.weight_kernels import fragment_weights_kernel, gather_fragments
from ti_render.render import Layer, RenderResult
from ti_sim.base.arrays import (
    Array,
    empty_in_same_library,
    int_empty_in_same_library,
    int_zeros_in_same_library,
    ints_in_same_library,
    to_numpy,
)
from ti_sim.base.errors import UserError
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require

MIN_WEIGHT = {"f32": 1e-6, "f64": 1e-12}  # of a face in a sample: smaller ones are left out
MAX_UNCOUNTED = 2**24  # entries that are written without being counted before: 20 bytes each


@dataclass(frozen=True)
class FragmentWeights:
    """Weights of the faces' corners in the pixels of M images, n entries.

    Attributes:
        image: [n] int32, 0 to M - 1, ascending.
        pixel: [n] int32, row W + column.
        face: [n] int32.
        weight: [n, 3] of the three corners. A pixel and a face have several entries where the image is antialiased.
    """

    image: np.ndarray
    pixel: np.ndarray
    face: np.ndarray
    weight: np.ndarray


@checked
def fragment_weights(result: RenderResult) -> FragmentWeights:
    """The weights of the corner colours in a rendered picture; weights below 1e-6 (f64: 1e-12) are left out.

    Args:
        result: of ``render``, by SoftRas.

    Raises:
        UserError: the picture was made by DIB-R.
    """
    layer, settings, samples = result.layer, result.settings, result.settings.antialias
    if layer.nearest_only:
        raise UserError("fragment_weights needs a picture of the soft rasteriser: render it with aggregation 'softras'")
    sample_size = (samples * settings.width, samples * settings.height)
    min_weight = MIN_WEIGHT[require().precision]
    tile_of_slot, most = _occupied_tiles(layer)
    arguments = layer.faces, layer.tiles, layer.pixel_state, *sample_size, min_weight
    counts = int_zeros_in_same_library(layer.faces.screen, (len(most),))
    if most.sum() > MAX_UNCOUNTED:
        fragment_weights_kernel(*arguments, 0, counts, counts, *_entries(layer.faces.screen, 1))
        most = to_numpy(counts).astype(np.int64)
    starts = ints_in_same_library(layer.faces.screen, (np.cumsum(most) - most).astype(np.int32))
    locations, weights = _entries(layer.faces.screen, max(int(most.sum()), 1))
    fragment_weights_kernel(*arguments, 1, starts, counts, locations, weights)
    stops = np.cumsum(to_numpy(counts), dtype=np.int32)
    total = int(stops[-1])
    fragments = int_empty_in_same_library(layer.faces.screen, (3, max(total, 1)))
    pixel_weights = empty_in_same_library(layer.faces.screen, (max(total, 1), 3))
    gather_fragments(
        iterations_per_task(len(tile_of_slot)), ints_in_same_library(layer.faces.screen, tile_of_slot), layer.tiles.side, samples,
        *sample_size, starts, ints_in_same_library(layer.faces.screen, stops), locations, weights, fragments, pixel_weights,
    )  # fmt: skip
    image, pixel, face = to_numpy(fragments)[:, :total]
    return FragmentWeights(image, pixel, face, to_numpy(pixel_weights)[:total])


def _occupied_tiles(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Number of each tile that has faces, int32, and the most fragments that it can have, int64; one without any if none has."""
    slot, start = to_numpy(layer.tiles.slot), to_numpy(layer.tiles.start).astype(np.int64)
    occupied = np.flatnonzero(slot >= 0)
    if not len(occupied):
        return np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64)
    tile_of_slot = np.empty(len(occupied), dtype=np.int32)
    tile_of_slot[slot[occupied]] = occupied
    return tile_of_slot, np.diff(start)[tile_of_slot] * layer.tiles.side**2


def _entries(like: Array, count: int) -> tuple[Array, Array]:
    """Arrays of the entries: [n, 2] int32 number of the pixel in its tile, and face; [n, 3] weights."""
    return int_empty_in_same_library(like, (count, 2)), empty_in_same_library(like, (count, 3))
