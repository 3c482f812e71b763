"""The kernel that writes the weights of the faces in the pixels (``fragment_weights``)."""

from typing import Any

from ti_render.arrays import Faces
from ti_render.backdrop.backdrop import min_exponent
from ti_render.raster.edge_on import face_steepness, mixed_barycentrics
from ti_render.raster.fragment import fragment_at, perspective
from ti_render.raster.softras import WEIGHT, depth_advantage, pixel_alpha
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TilePass, walk
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti


@bundle
class FragmentCount:
    """Number of a tile's fragments that were counted or written so far."""

    count: Any


@bundle
class Steepness:
    """Steepness s of a face (``edge_on``)."""

    steepness: Any


@bundle
class WeightPass(TilePass):
    """The pass of ``fragment_weights_kernel``."""

    faces: Any
    pixel_state: Any
    min_weight: Any
    write: Any
    tile_entries: Any
    locations: Any
    weights: Any

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """Start at zero."""
        count = 0
        return FragmentCount(count)

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Steepness of the face."""
        triangle = face.triangle
        steepness = face_steepness(triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.edge_on_slope)
        return Steepness(steepness)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Count or write a fragment."""
        p, triangle = pixel.centre, face.triangle
        fragment = fragment_at(p, triangle, tile.radius, tile.inverse_sigma)
        probability = fragment.sigmoid * face.fade
        if probability > MIN_PROBABILITY:
            b, _edge_average = mixed_barycentrics(p, triangle, fragment.barycentrics, face.state.steepness, tile.inverse_sigma)
            r, z = perspective(b, triangle.inverse_depths)
            exponent = depth_advantage(self.pixel_state, pixel, z) * tile.inverse_temperature - fragment.tail_exponent
            if exponent > ti.static(min_exponent()):
                face_weight = pixel_alpha(self.pixel_state, pixel)
                if self.faces.softmax_only == 1:
                    face_weight = 1.0
                weight = face_weight * probability * ti.exp(exponent) / self.pixel_state[pixel.row, WEIGHT, pixel.column]
                if weight >= self.min_weight:
                    if self.write == 1:
                        entry = self.tile_entries[tile.slot] + tile.state.count
                        self.locations[entry, 0], self.locations[entry, 1] = tile.image, pixel.y
                        self.locations[entry, 2], self.locations[entry, 3] = pixel.x, face.number
                        for k in ti.static(range(3)):
                            self.weights[entry, k] = weight * r[k]
                    tile.state.count += 1

    @ti.func
    def end_tile(self, tile: ti.template()):
        """Write the count of the tile."""
        if self.write == 0:
            self.tile_entries[tile.slot] = tile.state.count


@kernel
def fragment_weights_kernel(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), width: int, height: int, min_weight: float, write: int,
    tile_entries: ti.types.ndarray(), locations: ti.types.ndarray(), weights: ti.types.ndarray(),
):  # fmt: skip
    """Count the fragments with a weight of at least ``min_weight``, or write them.

    Reads pixel_state, which ``rasterise`` has written. With ``write`` 0 it writes tile_entries [occupied] int32, the number of
    fragments of each tile that has faces; with 1 it reads there the first entry of each, and writes locations [n, 4] int32
    (image, row, column, face) and weights [n, 3] of the face's corners. No adjoint: weights have no derivatives.
    """
    walk(faces, tiles, width, height, WeightPass(faces, pixel_state, min_weight, write, tile_entries, locations, weights))
