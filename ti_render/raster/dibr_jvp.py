"""Tangent of the DIB-R rasteriser (``dibr``) in K directions, the columns of the tangents."""

from typing import Any

from ti_render.arrays import MOVING_COLUMN, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop_jvp import pixel_tangent
from ti_render.raster.coverage import face_coverage, face_coverage_gradient, union_coverage_gradient
from ti_render.raster.dibr import BACK, DIBR_STATE_SIZE, FRONT, nearest_face
from ti_render.raster.fragment import fragment_at, perspective, sub_areas
from ti_render.raster.fragment_tangent import (
    barycentrics_tangent,
    corner_tangents,
    coverage_tangent,
    perspective_tangent,
    tangent_entry,
    tangent_rows,
)
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import TilePass, screen_triangle, walk
from ti_render.rows import put3
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import DEPTH, face_attributes, gather_face_tangents, surface_columns
from ti_sim.base.bundles import bundle, kernel, with_fields
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class NearestFacesTangents(TilePass):
    """The pass of ``rasterise_dibr_jvp``."""

    faces: Any
    pixel_state: Any
    dots: Any
    work: Any
    pictures_dot: Any
    silhouettes_only = True  # other faces do not change the coverage

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """``TangentRows`` of the tile."""
        return tangent_rows(self.work, tile.slot)

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Tangents of the nearest face's colour."""
        faces, dots, work, m, p = self.faces, self.dots, self.work, tile.image, pixel.centre
        scratch_offset, face_offset, columns = tile.state.scratch_offset, tile.state.face_offset, tile.state.columns
        f = nearest_face(faces, self.pixel_state, m, pixel)
        if f >= 0:
            triangle = screen_triangle(faces, m, f)
            fragment = fragment_at(p, triangle, tile.radius, tile.inverse_sigma)
            r, z = perspective(fragment.barycentrics, triangle.inverse_depths)
            attributes = face_attributes(faces, m, f)
            gather_face_tangents(faces, dots, work, face_offset, m, f)
            for c in range(columns):
                r_dot, z_dot = vec3(0), 0.0
                if work.column_flags[c] & MOVING_COLUMN != 0:
                    p_dot = pixel_tangent(faces, dots, m, c, pixel.y, pixel.x)
                    a0_dot, a1_dot, a2_dot, depths_dot = corner_tangents(work.face_dot, face_offset, c, p_dot)
                    b_dot = barycentrics_tangent(p, triangle, fragment, a0_dot, a1_dot, a2_dot)
                    r_dot, z_dot = perspective_tangent(fragment.barycentrics, r, z, triangle.inverse_depths, b_dot, depths_dot)
                put3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.r_dot, r_dot)
                work.scratch[scratch_offset + c * SCRATCH.size + SCRATCH.z_dot] = z_dot
            surface_columns(faces, dots, work, scratch_offset, face_offset, attributes, m, r)
            for c in range(columns):
                for k in ti.static(range(3)):
                    self.pictures_dot[tangent_entry(tile, pixel, c) + k] = work.scratch[
                        scratch_offset + c * SCRATCH.size + SCRATCH.colour_dot + k
                    ]

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Gather the tangents of the face's screen corners."""
        faces = with_fields(self.faces, shading=DEPTH)
        gather_face_tangents(faces, self.dots, self.work, tile.state.face_offset, tile.image, face.number)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Tangents of the face's contribution to the coverage."""
        i, p, code = pixel.index, pixel.centre, face.code
        front_derivative, back_derivative = union_coverage_gradient(
            self.pixel_state[i * DIBR_STATE_SIZE + FRONT], self.pixel_state[i * DIBR_STATE_SIZE + BACK]
        )
        if face.fade > 0 and ((code > 0 and front_derivative > 0) or (code < 0 and back_derivative > 0)):
            distances = sub_areas(p, face.triangle) * face.triangle.distance_scales
            gradient = face_coverage_gradient(p, face.triangle, distances, code, tile.radius)
            coverage = face_coverage(p, face.triangle, distances, code, tile.radius)
            for c in range(tile.state.columns):
                if self.work.column_flags[c] & MOVING_COLUMN != 0:
                    alpha_dot = coverage_tangent(self, tile, face, pixel, c, coverage, gradient)
                    alpha = tangent_entry(tile, pixel, c) + 3
                    self.pictures_dot[alpha] = self.pictures_dot[alpha] + alpha_dot


@kernel
def rasterise_dibr_jvp(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), dots: FaceArrays, work: FaceTangentWork,
    width: int, height: int, pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn the flat pictures_dot [M K H W 4] of the backdrop's tangents into those of the pictures (``rasterise_jvp``)."""
    walk(
        faces, tiles, width, height,
        NearestFacesTangents(faces, pixel_state, dots, work, pictures_dot),
    )  # fmt: skip
