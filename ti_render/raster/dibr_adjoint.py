"""Adjoint of DIB-R: of the nearest face's colour inside it, and of the silhouette."""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.raster.coverage import face_coverage, face_coverage_gradient, union_coverage_gradient
from ti_render.raster.dibr import BACK, DIBR_STATE_SIZE, FRONT, nearest_face
from ti_render.raster.fragment import barycentrics_adjoint, fragment_at, perspective, sub_areas, vec2
from ti_render.raster.softras_adjoint import add_screen
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import TilePass, screen_triangle, walk
from ti_render.shading.reflection import add_light_sums, make_light_sums
from ti_render.shading.surface import add_attribute_adjoints, face_attributes, surface_adjoint
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import outer, vec3


@bundle
class SigmaSum:
    """Adjoint of sigma, summed over a tile; exists while a kernel is compiled."""

    sigma_bar: Any


@bundle
class ScreenSums:
    """Adjoints of a face's screen corners and fade, summed over a tile; exist while a kernel is compiled."""

    a0_bar: Any
    a1_bar: Any
    a2_bar: Any
    fade_bar: Any


@bundle
class NearestFacesAdjoint(TilePass):
    """The pass of ``rasterise_dibr_adjoint``."""

    faces: Any
    pixel_state: Any
    pictures_bar: Any
    backdrop_bar: Any
    bars: Any
    empty_tiles = True
    silhouettes_only = True  # other faces do not change the coverage

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """Sum of the tile."""
        sigma_bar = 0.0
        return SigmaSum(sigma_bar)

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Adjoint of the pixel's colour, to the nearest face or to the backdrop."""
        m, x, y = tile.image, pixel.x, pixel.y
        colour_bar = vec3(self.pictures_bar[m, y, x, 0], self.pictures_bar[m, y, x, 1], self.pictures_bar[m, y, x, 2])
        if tile.slot >= 0:
            f = nearest_face(self.faces, self.pixel_state, m, pixel)
            if f >= 0:
                self.colour_adjoint(tile, pixel, f, colour_bar)
                colour_bar = vec3(0)
        for k in ti.static(range(3)):
            self.backdrop_bar[m, y, x, k] = colour_bar[k]

    @ti.func
    def colour_adjoint(self, tile: ti.template(), pixel: ti.template(), f, colour_bar):
        """Adjoint of the colour of face ``f`` at the pixel."""
        faces, bars, m, p = self.faces, self.bars, tile.image, pixel.centre
        triangle = screen_triangle(faces, m, f)
        fragment = fragment_at(p, triangle, tile.radius, tile.inverse_sigma)
        r, z = perspective(fragment.barycentrics, triangle.inverse_depths)
        attributes = face_attributes(faces, m, f)
        light_sums = make_light_sums()
        r_bar, albedo_bar, uv_bar, normal_bar, point_bar, z_bar = surface_adjoint(
            faces, bars, tile.slot, light_sums, attributes, m, r, colour_bar
        )
        add_light_sums(faces, bars, tile.slot, attributes.material, light_sums)
        add_attribute_adjoints(
            faces, bars, m, f, outer(albedo_bar, r), outer(uv_bar, r), outer(normal_bar, r), outer(point_bar, r)
        )
        ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
        b_bar = ratio_bar * triangle.inverse_depths
        a0_bar, a1_bar, a2_bar = barycentrics_adjoint(p, triangle, fragment, b_bar)
        add_screen(faces, bars, m, f, a0_bar, a1_bar, a2_bar, -b_bar * fragment.barycentrics * triangle.inverse_depths)
        if faces.flags[FLAG.distorted] == 1:
            for k in ti.static(range(2)):
                bars.centres[m, pixel.y, pixel.x, k] -= a0_bar[k] + a1_bar[k] + a2_bar[k]

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Sums of the face."""
        a0_bar, a1_bar, a2_bar, fade_bar = vec2(0), vec2(0), vec2(0), 0.0
        return ScreenSums(a0_bar, a1_bar, a2_bar, fade_bar)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Adjoint of the face's contribution to the coverage."""
        i, p, m, sums, triangle = pixel.index, pixel.centre, tile.image, face.state, face.triangle
        front_derivative, back_derivative = union_coverage_gradient(
            self.pixel_state[i * DIBR_STATE_SIZE + FRONT], self.pixel_state[i * DIBR_STATE_SIZE + BACK]
        )
        coverage_bar = (
            face.fade * self.pictures_bar[m, pixel.y, pixel.x, 3] * (front_derivative if face.code > 0 else back_derivative)
        )
        if coverage_bar != 0:
            distances = sub_areas(p, triangle) * triangle.distance_scales
            gradient = face_coverage_gradient(p, triangle, distances, face.code, tile.radius)
            sums.a0_bar += gradient.a0 * coverage_bar
            sums.a1_bar += gradient.a1 * coverage_bar
            sums.a2_bar += gradient.a2 * coverage_bar
            tile.state.sigma_bar += gradient.sigma * tile.inverse_sigma * coverage_bar
            if face.fade < 1:
                sums.fade_bar += coverage_bar * face_coverage(p, triangle, distances, face.code, tile.radius)
            if self.faces.flags[FLAG.distorted] == 1:
                for k in ti.static(range(2)):
                    corners_derivative = gradient.a0[k] + gradient.a1[k] + gradient.a2[k]
                    self.bars.centres[m, pixel.y, pixel.x, k] -= corners_derivative * coverage_bar

    @ti.func
    def end_face(self, tile: ti.template(), face: ti.template()):
        """Add the sums of the face."""
        sums = face.state
        depths_bar = face.log_fade_gradient * sums.fade_bar
        add_screen(self.faces, self.bars, tile.image, face.number, sums.a0_bar, sums.a1_bar, sums.a2_bar, depths_bar)

    @ti.func
    def end_tile(self, tile: ti.template()):
        """Add the sum of the tile to its row of the uniforms' adjoints."""
        bars, row = self.bars, tile.slot
        bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + tile.state.sigma_bar


@kernel
def rasterise_dibr_adjoint(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures_bar: ti.types.ndarray(),
    backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise_dibr`` from pictures_bar [M, H, W, 4]: arrays as for ``rasterise_adjoint``."""
    ti.loop_config(serialize=serial)
    walk(
        faces, tiles, pictures_bar.shape[2], pictures_bar.shape[1],
        NearestFacesAdjoint(faces, pixel_state, pictures_bar, backdrop_bar, bars),
    )  # fmt: skip
