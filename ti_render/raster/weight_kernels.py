"""The kernels that write the weights of the faces in the pixels (``fragment_weights``)."""

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
class WeightedFace:
    """Steepness s of a face (``edge_on``), and its least depth."""

    steepness: Any
    min_depth: Any


@bundle
class WeightPass(TilePass):
    """The pass of ``fragment_weights_kernel``."""

    faces: Any
    pixel_state: Any
    min_weight: Any
    write: Any
    starts: Any
    counts: Any
    locations: Any
    weights: Any

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """Start at zero."""
        count = 0
        return FragmentCount(count)

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Steepness and least depth of the face."""
        triangle = face.triangle
        min_depth = ti.min(triangle.depths[0], triangle.depths[1], triangle.depths[2])
        steepness = face_steepness(triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.edge_on_slope)
        return WeightedFace(steepness, min_depth)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Count or write a fragment; a face so far behind that its softmax weight is zero has none."""
        if depth_advantage(self.pixel_state, pixel, face.state.min_depth) * tile.inverse_temperature > ti.static(min_exponent()):
            self.weigh(tile, face, pixel)

    @ti.func
    def weigh(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Count or write a fragment of a face that is not too far behind."""
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
                        entry = self.starts[tile.slot] + tile.state.count
                        self.locations[entry, 0] = (pixel.y - tile.y0) * tile.side + pixel.x - tile.x0
                        self.locations[entry, 1] = face.number
                        for k in ti.static(range(3)):
                            self.weights[entry, k] = weight * r[k]
                    tile.state.count += 1

    @ti.func
    def end_tile(self, tile: ti.template()):
        """Write the count of the tile."""
        self.counts[tile.slot] = tile.state.count


@kernel
def fragment_weights_kernel(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), width: int, height: int, min_weight: float, write: int,
    starts: ti.types.ndarray(), counts: ti.types.ndarray(), locations: ti.types.ndarray(), weights: ti.types.ndarray(),
):  # fmt: skip
    """Count the fragments with a weight of at least ``min_weight``, and write them.

    Reads pixel_state, which ``rasterise`` has written. Writes counts [occupied] int32, the number of fragments of each tile that
    has faces. With ``write`` 1 it reads in starts [occupied] int32 where those of each begin, and writes locations [n, 2] int32
    (number of the pixel in its tile, face) and weights [n, 3] of the face's corners. No adjoint: weights have no derivatives.
    """
    walk(faces, tiles, width, height, WeightPass(faces, pixel_state, min_weight, write, starts, counts, locations, weights))


@kernel
def gather_fragments(
    iterations_per_tile: int, tile_of_slot: ti.types.ndarray(), side: int, samples: int, width: int, height: int,
    starts: ti.types.ndarray(), stops: ti.types.ndarray(), locations: ti.types.ndarray(), weights: ti.types.ndarray(),
    fragments: ti.types.ndarray(), fragment_weights: ti.types.ndarray(),
):  # fmt: skip
    """Copy the fragments of all tiles to places without gaps, those of tile slot s to stops[s] - n to stops[s] with its count n.

    Reads tile_of_slot, starts and stops [occupied] int32, and locations and weights of ``fragment_weights_kernel`` in pictures of
    ``width`` by ``height`` samples, ``samples`` along each side of a pixel. Writes fragments [3, n] int32 (image, pixel and
    face) and fragment_weights [n, 3] of the pixel. No adjoint.
    """
    for index in range(tile_of_slot.shape[0] * iterations_per_tile):
        if index % iterations_per_tile > 0:
            continue
        slot = index // iterations_per_tile
        columns = (width + side - 1) // side
        tiles_per_image = columns * ((height + side - 1) // side)
        image, tile = tile_of_slot[slot] // tiles_per_image, tile_of_slot[slot] % tiles_per_image
        x0, y0, scale, first = tile % columns * side, tile // columns * side, 1.0 / (samples * samples), 0
        if slot > 0:
            first = stops[slot - 1]
        for entry in range(first, stops[slot]):
            source = starts[slot] + entry - first
            y, x = y0 + locations[source, 0] // side, x0 + locations[source, 0] % side
            fragments[0, entry] = image
            fragments[1, entry] = y // samples * (width // samples) + x // samples
            fragments[2, entry] = locations[source, 1]
            for k in ti.static(range(3)):
                fragment_weights[entry, k] = weights[source, k] * scale
