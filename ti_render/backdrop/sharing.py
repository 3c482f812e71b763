"""Draws a backdrop that several images share once, and copies it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ti_render.arrays import FLAG, Backdrop
from ti_render.backdrop.backdrop import draw_backdrop
from ti_render.inputs import RenderInputs
from ti_sim.base.arrays import Array, ints_in_same_library
from ti_sim.base.parallel import iterations_per_task


def draw_backdrops(backdrop: Backdrop, inputs: RenderInputs, pictures: Array) -> None:
    """Draw ground and background into every picture.

    Args:
        backdrop: of the M images.
        inputs: of the images.
        pictures: [M, H, W, 3 or 4], written.
    """
    images = drawn = sources = np.arange(pictures.shape[0])
    copies: Sequence[int] = ()
    if len(images) > 1 and isinstance(pictures, np.ndarray):
        sources = source_images(backdrop, inputs)
        drawn, copies = np.unique(sources), np.flatnonzero(sources != images)
    draw_backdrop(
        backdrop,
        ints_in_same_library(pictures, drawn),
        iterations_per_task(len(drawn) * pictures.shape[1]),
        pictures,
    )
    for image in copies:
        pictures[image] = pictures[sources[image]]


def source_images(backdrop: Backdrop, inputs: RenderInputs) -> np.ndarray:
    """[M] int64, for each image the first image with the same backdrop.

    With shadows, backdrops are not compared, as the bodies' shadows differ: each image is its own source.

    Args:
        backdrop: of the M images, in numpy arrays.
        inputs: of the images.
    """
    images = backdrop.uniforms.shape[0]
    image_numbers = np.arange(images)
    if backdrop.flags[FLAG.shadows] == 1:
        return image_numbers
    keys = [backdrop.uniforms]
    if inputs.distortion is not None:
        keys += [rows[image_numbers * len(rows) // images] for rows in (inputs.camera, inputs.distortion)]
    # Images are compared by the number of their row.
    keys += [
        (image_numbers * len(rows) // images)[:, None] for rows in (inputs.texels, inputs.background_image) if rows is not None
    ]
    first_index: dict[bytes, int] = {}
    key = np.column_stack(keys)
    return np.array([first_index.setdefault(row.tobytes(), image) for image, row in enumerate(key)])
