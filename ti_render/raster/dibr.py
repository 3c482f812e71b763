"""DIB-R: the nearest covering face gives a pixel its colour, all faces together give it its soft silhouette.

Chen et al., Learning to predict 3D objects with an interpolation-based differentiable renderer (NeurIPS 2019), eq. 1-5: colours
are interpolated attributes of the nearest face, with derivatives inside that face. The silhouette is the ``coverage`` of
all faces, in place of a product over faces, which depends on the triangulation. Ground and background show where no face covers
the pixel or the ground is nearer.
"""

from typing import Any

from ti_render.arrays import Faces
from ti_render.backdrop.backdrop import inverse_ground_depth
from ti_render.raster.coverage import face_coverage, union_coverage
from ti_render.raster.fragment import fragment_at, perspective, sub_areas
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TilePass, screen_triangle, walk
from ti_render.shading.surface import face_attributes, surface_colour
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti

# Columns of pixel_state: depth of the nearest covering face, its number (-1: none), the sums of ``coverage`` over front and back.
NEAREST, FACE, FRONT, BACK = 0, 1, 2, 3
DIBR_STATE_SIZE = 4


@ti.func
def nearest_face(faces: ti.template(), pixel_state: ti.template(), m, pixel: ti.template()):
    """Number of the face that gives a pixel its colour, -1 for the backdrop."""
    f = ti.cast(pixel_state[pixel.index * DIBR_STATE_SIZE + FACE], ti.i32)
    inverse_depth = inverse_ground_depth(faces, m, pixel.centre)
    if f >= 0 and inverse_depth > 1e-30 and inverse_depth * pixel_state[pixel.index * DIBR_STATE_SIZE + NEAREST] >= 1.0:
        f = -1
    return f


@bundle
class Side:
    """Column of a face's side in pixel_state."""

    column: Any


@bundle
class NearestFaces(TilePass):
    """The pass of ``rasterise_dibr``."""

    faces: Any
    pixel_state: Any
    pictures: Any

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """No face yet."""
        i = pixel.index
        self.pixel_state[i * DIBR_STATE_SIZE + NEAREST] = 1e30
        self.pixel_state[i * DIBR_STATE_SIZE + FACE] = -1.0
        self.pixel_state[i * DIBR_STATE_SIZE + FRONT] = 0.0
        self.pixel_state[i * DIBR_STATE_SIZE + BACK] = 0.0

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Side of the face."""
        column = FRONT
        if face.code < 0:
            column = BACK
        return Side(column)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Coverage, and whether the face is the nearest one."""
        i, p, side_column = pixel.index, pixel.centre, face.state.column
        areas = sub_areas(p, face.triangle)
        distances = areas * face.triangle.distance_scales
        coverage = face.fade * face_coverage(p, face.triangle, distances, face.code, tile.radius)
        if coverage != 0:
            self.pixel_state[i * DIBR_STATE_SIZE + side_column] = self.pixel_state[i * DIBR_STATE_SIZE + side_column] + coverage
        is_inside = ti.min(distances[0], distances[1], distances[2]) >= 0 and face.triangle.inverse_area != 0
        if is_inside and face.fade > MIN_PROBABILITY:
            _r, z = perspective(areas * face.triangle.inverse_area, face.triangle.inverse_depths)
            if z < self.pixel_state[i * DIBR_STATE_SIZE + NEAREST]:
                self.pixel_state[i * DIBR_STATE_SIZE + NEAREST] = z
                self.pixel_state[i * DIBR_STATE_SIZE + FACE] = ti.cast(face.number, float)

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Colour of the nearest face, and the coverage."""
        i, m, x, y = pixel.index, tile.image, pixel.x, pixel.y
        f = nearest_face(self.faces, self.pixel_state, m, pixel)
        if f >= 0:
            triangle = screen_triangle(self.faces, m, f)
            fragment = fragment_at(pixel.centre, triangle, tile.radius, tile.inverse_sigma)
            r, z = perspective(fragment.barycentrics, triangle.inverse_depths)
            colour = surface_colour(self.faces, face_attributes(self.faces, m, f), m, r, z)
            for k in ti.static(range(3)):
                self.pictures[m, y, x, k] = colour[k]
        self.pictures[m, y, x, 3] = union_coverage(
            self.pixel_state[i * DIBR_STATE_SIZE + FRONT], self.pixel_state[i * DIBR_STATE_SIZE + BACK]
        )


@kernel
def rasterise_dibr(faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures: ti.types.ndarray()):
    """Draw the faces into pictures [M, H, W, 4] that hold the backdrop.

    Also writes pixel_state [occupied side^2 4] (face numbers as reals: at most 2^24 in f32). Adjoint: ``rasterise_dibr_adjoint``;
    tangent: ``rasterise_dibr_jvp``; both by hand.
    """
    walk(faces, tiles, pictures.shape[2], pictures.shape[1], NearestFaces(faces, pixel_state, pictures))
