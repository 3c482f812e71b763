"""The pixel-face pairs of a picture: how many the rasteriser looks at, covers, and gives a colour."""

# No postponed annotations here: a kernel's must be types.
from dataclasses import dataclass, fields

import torch

from ti_render import RenderResult
from ti_render.arrays import UNIFORM, Faces
from ti_render.backdrop.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.raster.fragment import fragment, near_fade_rates, perspective, setup
from ti_render.raster.softras import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti


@dataclass(frozen=True)
class Pairs:
    """Numbers of pixel-face pairs of a result, by what the rasteriser does with them.

    Attributes:
        visited: the pixel lies in the box of the face, grown by the cut-off distance.
        near: outside the face, and not beyond the cut-off distance of an edge's line: its closest point is looked for.
        inside: inside the face.
        band: inside it, and so near to its boundary that the coverage is below one.
        outside: outside it with coverage.
        blended: whose colour the forward pass computes; DIB-R: pixels that show a face.
        coloured: whose colour the backward pass needs (the forward pass cannot know yet what lies in front).
        sliding: whose distance to the boundary has an adjoint in the colour. (Terms of silhouettes are not counted.)
    """

    visited: int
    near: int
    inside: int
    band: int
    outside: int
    blended: int
    coloured: int
    sliding: int

    @property
    def covered(self) -> int:
        """Pairs with coverage."""
        return self.inside + self.outside


VISITED, NEAR, INSIDE, BAND, OUTSIDE, BLENDED, COLOURED, SLIDING = range(8)
# Columns of the workspace of a pixel: least depth so far, 1 for a pixel that lies inside a face.
DEPTH, SHOWN, WORKSPACE = 0, 1, 2


@kernel
def count_kernel(
    faces: Faces, tiles: Tiles, width: int, height: int, hard: int, pixels: ti.types.ndarray(), counts: ti.types.ndarray()
):  # fmt: skip
    """Count pixel-face pairs with the tests of the rasteriser, in its order.

    Reads the bundles of a ``Layer`` (``ti_render.render``). Writes pixels [occupied side^2, 2] (workspace) and adds to counts [8]
    int32 (see ``Pairs``). A first walk over the faces is the forward pass, a second one, which reads the least depths,
    the backward pass. No adjoint: integers.
    """
    half = 0.5 * ti.min(width, height)
    for tile in range(tiles.slot.shape[0]):
        if tiles.slot[tile] < 0:
            continue
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        base = tiles.slot[tile] * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        rate = depth_rate(faces, m)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                i = base + (y - y0) * tiles.side + x - x0
                p = pixel_centre(faces, m, x, y, width, height)
                depth, _g, _b = backdrop_weights(faces, inverse_ground_depth(faces, m, p), rate, hard)
                pixels[i, DEPTH], pixels[i, SHOWN] = depth, 0.0
        for walk, entry in ti.ndrange(2, (tiles.start[tile], tiles.start[tile + 1])):
            f = tiles.entries[entry]
            a0, a1, a2, depths = face_screen(faces, m, f)
            fade, _rates = near_fade_rates(depths, 1.0 / faces.near)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    bare, tail, _signed, slope, b, _edge, inside, _distance = fragment(
                        pixel_centre(faces, m, x, y, width, height), a0, a1, a2, inverse_area, inverse_squared,
                        to_distance, radius, inverse_sigma,
                    )  # fmt: skip
                    i = base + (y - y0) * tiles.side + x - x0
                    covered = bare * fade > NO_COVERAGE
                    _r, z = perspective(b, 1.0 / depths)
                    shaded = 0
                    if covered and hard == 0 and (pixels[i, DEPTH] - z) * rate - tail > ti.static(negligible()):
                        shaded = 1
                    if walk == 0:
                        counts[VISITED] += 1
                        if inside == 0 and b[0] + b[1] + b[2] > 0:
                            counts[NEAR] += 1
                        if covered:
                            counts[INSIDE] += inside
                            counts[OUTSIDE] += 1 - inside
                            if inside == 1 and slope > 0:
                                counts[BAND] += 1
                            counts[BLENDED] += shaded
                            if shaded == 1:
                                pixels[i, DEPTH] = ti.min(pixels[i, DEPTH], z + tail / rate)
                            pixels[i, SHOWN] = ti.max(pixels[i, SHOWN], inside)
                    elif covered:
                        counts[COLOURED] += shaded
                        if slope > 0 and shaded == 1:
                            counts[SLIDING] += 1
        if hard == 1:
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    if pixels[base + (y - y0) * tiles.side + x - x0, SHOWN] > 0:
                        counts[BLENDED] += 1
                        counts[COLOURED] += 1


def count_pairs(result: RenderResult) -> Pairs:
    """Pixel-face pairs of a result in torch tensors, without ground."""
    layer, settings = result.layer, result.settings
    samples = settings.antialias
    device = result.images.device
    counts = torch.zeros(len(fields(Pairs)), dtype=torch.int32, device=device)
    pixels = torch.empty(max(layer.occupied, 1) * layer.tiles.side**2, WORKSPACE, dtype=torch.float32, device=device)
    count_kernel(
        layer.faces, layer.tiles, samples * settings.width, samples * settings.height, int(layer.hard), pixels, counts
    )
    return Pairs(*counts.tolist())
