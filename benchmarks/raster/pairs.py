"""Pixel-face pairs of a picture: numbers of those that the rasteriser visits, covers and colours."""

# No postponed annotations here: a kernel's must be types.
from dataclasses import dataclass, fields
from typing import Any

import torch

from ti_render import RenderResult
from ti_render.arrays import Faces
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, min_exponent
from ti_render.raster.fragment import fragment_at, perspective
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TilePass, walk
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti


@dataclass(frozen=True)
class PairCounts:
    """Numbers of pixel-face pairs of a result, by their treatment in the rasteriser.

    Attributes:
        visited: the pixel lies in the box of the face, grown by the cut-off distance.
        near: outside the face, and not beyond the cut-off distance of an edge's line: its closest point is computed.
        inside: inside the face.
        band: inside it, so near to its boundary that D (``fragment``) is below one.
        outside: outside it with D above zero.
        blended: whose colour the forward pass computes; DIB-R: pixels that show a face.
        coloured: whose colour the backward pass needs (the forward pass does not know later occluders).
        distance_adjoint: whose distance to the boundary has an adjoint in the colour. (Terms of silhouettes are not counted.)
    """

    visited: int
    near: int
    inside: int
    band: int
    outside: int
    blended: int
    coloured: int
    distance_adjoint: int

    @property
    def covered(self) -> int:
        """Pairs with D above zero."""
        return self.inside + self.outside


VISITED, NEAR, INSIDE, BAND, OUTSIDE, BLENDED, COLOURED, DISTANCE_ADJOINT_PAIRS = range(8)
# Columns of the workspace of a pixel: least depth so far, 1 for a pixel that lies inside a face.
DEPTH, COVERED, WORKSPACE = 0, 1, 2


@bundle
class CountingPass(TilePass):
    """A pass that counts pairs: those of the forward pass, or with ``backward`` those of the backward pass."""

    faces: Any
    nearest_only: Any
    backward: Any
    workspace: Any
    counts: Any

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """The backdrop's depth."""
        if ti.static(not self.backward):
            inverse_depth = inverse_ground_depth(self.faces, tile.image, pixel.centre)
            depth, _g, _b = backdrop_weights(self.faces, inverse_depth, tile.inverse_temperature, self.nearest_only)
            self.workspace[pixel.index, DEPTH], self.workspace[pixel.index, COVERED] = depth, 0.0

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Count a pair."""
        i = pixel.index
        fragment = fragment_at(pixel.centre, face.triangle, tile.radius, tile.inverse_sigma)
        covered = fragment.sigmoid * face.fade > MIN_PROBABILITY
        _r, z = perspective(fragment.barycentrics, face.triangle.inverse_depths)
        shaded = 0
        if covered and self.nearest_only == 0:
            if (self.workspace[i, DEPTH] - z) * tile.inverse_temperature - fragment.tail_exponent > ti.static(min_exponent()):
                shaded = 1
        if ti.static(self.backward):
            if covered:
                self.counts[COLOURED] += shaded
                if fragment.log_derivative > 0 and shaded == 1:
                    self.counts[DISTANCE_ADJOINT_PAIRS] += 1
        else:
            self.counts[VISITED] += 1
            if fragment.inside == 0 and fragment.barycentrics.sum() > 0:
                self.counts[NEAR] += 1
            if covered:
                self.counts[INSIDE] += fragment.inside
                self.counts[OUTSIDE] += 1 - fragment.inside
                if fragment.inside == 1 and fragment.log_derivative > 0:
                    self.counts[BAND] += 1
                self.counts[BLENDED] += shaded
                if shaded == 1:
                    self.workspace[i, DEPTH] = ti.min(
                        self.workspace[i, DEPTH], z + fragment.tail_exponent / tile.inverse_temperature
                    )
                self.workspace[i, COVERED] = ti.max(self.workspace[i, COVERED], fragment.inside)

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """DIB-R gives a pixel one colour."""
        if ti.static(self.backward):
            if self.nearest_only == 1 and self.workspace[pixel.index, COVERED] > 0:
                self.counts[BLENDED] += 1
                self.counts[COLOURED] += 1


@kernel
def count_kernel(
    faces: Faces, tiles: Tiles, width: int, height: int, nearest_only: int, workspace: ti.types.ndarray(),
    counts: ti.types.ndarray()
):  # fmt: skip
    """Count pixel-face pairs with the tests of the rasteriser, in its order.

    Reads the bundles of a ``Layer`` (``ti_render.render``). Writes workspace [occupied side^2, 2] and adds to counts [8]
    int32 (see ``PairCounts``). A first traversal of the faces is the forward pass, a second one, which reads the least depths,
    the backward pass. No adjoint: integers.
    """
    walk(faces, tiles, width, height, CountingPass(faces, nearest_only, False, workspace, counts))
    walk(faces, tiles, width, height, CountingPass(faces, nearest_only, True, workspace, counts))


def count_pairs(result: RenderResult) -> PairCounts:
    """Pixel-face pairs of a result in torch tensors, without ground."""
    layer, settings = result.layer, result.settings
    samples = settings.antialias
    device = result.images.device
    counts = torch.zeros(len(fields(PairCounts)), dtype=torch.int32, device=device)
    workspace = torch.empty(max(layer.occupied, 1) * layer.tiles.side**2, WORKSPACE, dtype=torch.float32, device=device)
    count_kernel(
        layer.faces, layer.tiles, samples * settings.width, samples * settings.height, int(layer.nearest_only), workspace, counts
    )
    return PairCounts(*counts.tolist())
