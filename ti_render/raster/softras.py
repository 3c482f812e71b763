"""The soft rasteriser: all faces of a tile blended into its pixels in one pass.

Per pixel, over the faces j with probability D_j (``fragment``), depth z_j and colour c_j, the ground g (D = 1) and the background
b:

    e_k = exp((zmin - z_k) beta), beta = 1 / (gamma (far - near))   (softmax of inverse temperature beta, zmin any depth)
    S = sum_j D_j e_j + e_g + e_b,   C_in = (sum_j D_j e_j c_j + (e_g + e_b) C_back) / S
    C_back = (e_g c_g + e_b c_b) / (e_g + e_b)  (``backdrop``),   A: ``coverage``
    composite "alpha": rgb = A C_in + (1 - A) C_back;   "softmax": rgb = C_in

(Liu et al., Soft Rasterizer, ICCV 2019, eq. 2-3; A in place of their 1 - prod_j (1 - D_j), which depends on the triangulation;
the running rescaling is Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, eq. 5.) Faces and
pixels are visited by the ``walk``. The state of a pixel between faces is stored in pixel_state, which exists for the tiles that
have faces; a tile without faces shows the backdrop. Colours of fragments far behind the least depth so far are not computed.
To avoid underflow where D is very small, the factor exp(-tail) of D = sigmoid exp(-tail) (``Fragment``) is treated as a greater
depth, z + tail / beta, and zmin is the least of those.

The adjoint is in ``softras_adjoint``, the tangent in ``softras_jvp``.
"""

from typing import Any

from ti_render.arrays import Faces
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, min_exponent
from ti_render.raster.coverage import face_coverage, union_coverage
from ti_render.raster.edge_on import face_steepness, mixed_barycentrics
from ti_render.raster.fragment import fragment_at, perspective
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TilePass, walk
from ti_render.shading.surface import face_attributes, surface_colour
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Columns of pixel_state: zmin, S, sum (after the pass: C_in), and the sums of ``coverage`` over front and back faces.
MIN_DEPTH, WEIGHT, COLOUR, FRONT, BACK = 0, 1, 2, 5, 6
STATE_SIZE = 7


@ti.func
def depth_advantage(pixel_state: ti.template(), pixel: ti.template(), z):
    """zmin - z of a pixel [m]."""
    return pixel_state[pixel.row, MIN_DEPTH, pixel.column] - z


@ti.func
def _blend(pixel_state: ti.template(), pixel: ti.template(), probability, z, tail_exponent, colour, inverse_temperature):
    """Add a fragment to a pixel's running softmax; a nearer one than all before rescales the sums."""
    row, x = pixel.row, pixel.column
    exponent = depth_advantage(pixel_state, pixel, z) * inverse_temperature - tail_exponent
    if exponent > 0:
        scale = 0.0
        if -exponent > ti.static(min_exponent()):
            scale = ti.exp(-exponent)
        pixel_state[row, MIN_DEPTH, x] = z + tail_exponent / inverse_temperature
        pixel_state[row, WEIGHT, x] = pixel_state[row, WEIGHT, x] * scale + probability
        for k in ti.static(range(3)):
            pixel_state[row, COLOUR + k, x] = pixel_state[row, COLOUR + k, x] * scale + probability * colour[k]
    else:
        weight = probability * ti.exp(exponent)
        pixel_state[row, WEIGHT, x] = pixel_state[row, WEIGHT, x] + weight
        for k in ti.static(range(3)):
            pixel_state[row, COLOUR + k, x] = pixel_state[row, COLOUR + k, x] + weight * colour[k]


@ti.func
def inner_colour(pixel_state: ti.template(), pixel: ti.template()):
    """C_in of a pixel, after all of its faces."""
    return vec3(
        pixel_state[pixel.row, COLOUR, pixel.column], pixel_state[pixel.row, COLOUR + 1, pixel.column],
        pixel_state[pixel.row, COLOUR + 2, pixel.column],
    )  # fmt: skip


@ti.func
def pixel_alpha(pixel_state: ti.template(), pixel: ti.template()):
    """A of a pixel, after all of its faces."""
    return union_coverage(pixel_state[pixel.row, FRONT, pixel.column], pixel_state[pixel.row, BACK, pixel.column])


@bundle
class BlendedFace:
    """State of ``Blending`` for a face: steepness, ``Attributes``, least depth, and the column of its side in pixel_state."""

    steepness: Any
    attributes: Any
    min_depth: Any
    side_column: Any


@bundle
class Blending(TilePass):
    """The pass of ``rasterise``."""

    faces: Any
    pixel_state: Any
    pictures: Any

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Start the softmax with the backdrop."""
        inverse_depth = inverse_ground_depth(self.faces, tile.image, pixel.centre)
        depth, e_ground, e_background = backdrop_weights(self.faces, inverse_depth, tile.inverse_temperature, 0)
        weight = e_ground + e_background
        self.pixel_state[pixel.row, MIN_DEPTH, pixel.column] = depth
        self.pixel_state[pixel.row, WEIGHT, pixel.column] = weight
        self.pixel_state[pixel.row, FRONT, pixel.column] = 0.0
        self.pixel_state[pixel.row, BACK, pixel.column] = 0.0
        for k in ti.static(range(3)):
            self.pixel_state[pixel.row, COLOUR + k, pixel.column] = weight * self.pictures[tile.image, pixel.y, pixel.x, k]

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Steepness, attributes and side of the face."""
        triangle = face.triangle
        min_depth = ti.min(triangle.depths[0], triangle.depths[1], triangle.depths[2])
        steepness = face_steepness(triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.edge_on_slope)
        attributes = face_attributes(self.faces, tile.image, face.number)
        side_column = FRONT
        if face.code < 0:
            side_column = BACK
        return BlendedFace(steepness, attributes, min_depth, side_column)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Add the coverage and the colour of a fragment."""
        p, state, side_column = pixel.centre, face.state, face.state.side_column
        fragment = fragment_at(p, face.triangle, tile.radius, tile.inverse_sigma)
        coverage = face.fade * face_coverage(p, face.triangle, fragment.distances, face.code, tile.radius)
        if coverage != 0:
            row, x = pixel.row, pixel.column
            self.pixel_state[row, side_column, x] = self.pixel_state[row, side_column, x] + coverage
        probability = fragment.sigmoid * face.fade
        if probability > MIN_PROBABILITY:
            # A face so far behind that its softmax weight is zero contributes coverage and no colour.
            if depth_advantage(self.pixel_state, pixel, state.min_depth) * tile.inverse_temperature > ti.static(
                min_exponent()
            ):
                b, _edge_average = mixed_barycentrics(
                    p, face.triangle, fragment.barycentrics, state.steepness, tile.inverse_sigma
                )
                r, z = perspective(b, face.triangle.inverse_depths)
                exponent = depth_advantage(self.pixel_state, pixel, z) * tile.inverse_temperature - fragment.tail_exponent
                if exponent > ti.static(min_exponent()):
                    colour = surface_colour(self.faces, state.attributes, tile.image, r, z)
                    _blend(self.pixel_state, pixel, probability, z, fragment.tail_exponent, colour, tile.inverse_temperature)

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """C_in, and the pixel of the picture."""
        m, x, y = tile.image, pixel.x, pixel.y
        alpha = pixel_alpha(self.pixel_state, pixel)
        face_weight = alpha
        if self.faces.softmax_only == 1:
            face_weight = 1.0
        inverse_weight = 1.0 / self.pixel_state[pixel.row, WEIGHT, pixel.column]
        for k in ti.static(range(3)):
            c_in = self.pixel_state[pixel.row, COLOUR + k, pixel.column] * inverse_weight
            self.pixel_state[pixel.row, COLOUR + k, pixel.column] = c_in
            self.pictures[m, y, x, k] = face_weight * c_in + (1.0 - face_weight) * self.pictures[m, y, x, k]
        self.pictures[m, y, x, 3] = alpha


@kernel
def rasterise(faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures: ti.types.ndarray()):
    """Draw the faces into pictures [M, H, W, 4] that hold the backdrop. Also writes pixel_state
    [occupied side, 7, side]: a row for each row of pixels of a tile that has faces.

    Adjoint: ``rasterise_adjoint``; tangent: ``rasterise_jvp``; both by hand.
    """
    walk(faces, tiles, pictures.shape[2], pictures.shape[1], Blending(faces, pixel_state, pictures))
