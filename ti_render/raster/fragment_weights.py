"""Weights of the faces' corner colours in the pixels of an unlit picture: the picture as a linear function of its colours.

With the terms of ``softras``, an unlit picture over a black background is

    rgb_p = A sum_j w_j sum_k r_jk c_jk,   w_j = D_j e_j / S

with the perspective-correct barycentrics r_jk and the colours c_jk of the corners of face j: A w_j r_jk is the weight of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_render.raster.weight_kernels import fragment_weights_kernel
from ti_render.render import RenderResult
from ti_sim.base.arrays import Array, empty_in_same_library, int_zeros_in_same_library, ints_in_same_library, to_numpy
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require

MIN_WEIGHT = {"f32": 1e-6, "f64": 1e-12}  # of a face in a sample: smaller ones are left out


@dataclass(frozen=True)
class FragmentWeights:
    """Weights of the faces' corners in the pixels of M images, n entries.

    Attributes:
        image: [n] int64, 0 to M - 1, ascending.
        pixel: [n] int64, row W + column.
        face: [n] int64.
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
    counts = int_zeros_in_same_library(layer.faces.screen, (layer.occupied,))
    dummies = _entries(layer.faces.screen, 1)
    fragment_weights_kernel(layer.faces, layer.tiles, layer.pixel_state, *sample_size, min_weight, 0, counts, *dummies)
    stops = np.cumsum(to_numpy(counts))
    starts, total = ints_in_same_library(layer.faces.screen, stops - to_numpy(counts)), int(stops[-1])
    locations, weights = _entries(layer.faces.screen, max(total, 1))
    fragment_weights_kernel(layer.faces, layer.tiles, layer.pixel_state, *sample_size, min_weight, 1, starts, locations, weights)
    # In C order, since columns of rows take longer to read.
    image, row, column, face = to_numpy(locations)[:total].T.astype(np.int64, order="C")
    pixel = row // samples * settings.width + column // samples
    return FragmentWeights(image, pixel, face, to_numpy(weights)[:total] / samples**2)


def _entries(like: Array, count: int) -> tuple[Array, Array]:
    """Arrays of the entries: [n, 4] int32 image, row, column and face; [n, 3] weights."""
    return int_zeros_in_same_library(like, (count, 4)), empty_in_same_library(like, (count, 3))
