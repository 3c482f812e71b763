"""Visits of a face's pixels by neighbours of a row, one pixel in each lane (``ti_sim.base.lanes``)."""

from typing import Any

from ti_render.arrays import FLAG
from ti_render.raster.fragment_lanes import lane_distances
from ti_render.raster.walk import TilePass, pixel_at
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, constant_lanes, lane_numbers, min_lanes
from ti_sim.base.runtime import ti


@bundle
class PixelLanes:
    """Neighbouring pixels of a row in a tile of at least LANES columns, while a kernel is compiled.

    Attributes:
        pixel: the first one, a ``Pixel``.
        is_active: 1 in lanes that are visited, 0 in others; the pictures' right ends may be among these.
        distances: their ``LaneDistances``.
    """

    pixel: Any
    is_active: Any
    distances: Any


@ti.func
def _lane_centres(faces: ti.template(), tile: ti.template(), pixel: ti.template(), is_distorted):
    """Screen positions of the centres of ``pixel`` and the next ones to the right."""
    # Rounded as ``pixel_centre`` rounds, whichever pixel is the first: neighbouring faces must see a pixel at one position, or
    # one on their common edge may lie in neither.
    first = ti.cast(pixel.x, float) + 0.5 - 0.5 * tile.width
    x = (lane_numbers() + first) * (2.0 / ti.min(tile.width, tile.height))
    y = constant_lanes(pixel.centre[1])
    if is_distorted:
        m, row, last = tile.image, pixel.y, tile.width - 1
        x = ti.Vector([faces.centres[m, row, ti.min(pixel.x + lane, last), 0] for lane in range(LANES)])
        y = ti.Vector([faces.centres[m, row, ti.min(pixel.x + lane, last), 1] for lane in range(LANES)])
    return x, y


@bundle
class LanePass(TilePass):
    """Steps of a ``TilePass`` whose faces are visited LANES pixels at a time.

    A subclass is also derived from the pass with single pixels, whose other steps it shares, and defines ``visit_lanes``.
    """

    by_rows = True

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), lanes: ti.template()):
        """``visit`` of all pixels of ``PixelLanes``."""

    @ti.func
    def visit_row(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """Visit the pixels of a row."""
        if face.fade > 0:
            is_distorted = self.faces.flags[FLAG.distorted] == 1
            for block in range((last_x - first_x) // LANES + 1):
                self.visit_block(tile, face, y, first_x + block * LANES, last_x, is_distorted)

    @ti.func
    def visit_block(self, tile: ti.template(), face: ti.template(), y, first_x, last_x, is_distorted):
        """Visit the pixels from ``first_x`` on, up to LANES and at most to ``last_x``."""
        # Lanes end with the tile: the last ones begin to the left of ``first_x``.
        start = ti.min(first_x, tile.x0 + tile.side - LANES)
        pixel, numbers = pixel_at(self.faces, tile, start, y), lane_numbers()
        is_active = ti.select(numbers <= ti.cast(last_x - start, float), constant_lanes(1.0), 0.0)
        is_active = ti.select(numbers >= ti.cast(first_x - start, float), is_active, 0.0)
        x, centre_y = _lane_centres(self.faces, tile, pixel, is_distorted)
        distances = lane_distances(x, centre_y, face.triangle)
        # Where the lens distorts, a face is visited at every pixel of its tiles.
        is_within_reach = True
        if is_distorted:
            is_within_reach = min_lanes(min_lanes(distances.d0, distances.d1), distances.d2).max() > -tile.radius
        if is_within_reach:
            lanes = PixelLanes(pixel, is_active, distances)
            self.visit_lanes(tile, face, lanes)
