"""The pixel-face pairs of a picture: how many the rasteriser looks at, covers, and gives a colour."""

# No postponed annotations here: a kernel's must be types.
from dataclasses import dataclass, fields

import torch

from ti_render import RenderResult, dibr, rasterise
from ti_render.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.fragment import fragment, near_fade_rates, perspective, setup
from ti_render.rasterise import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.rasterise_adjoint import OPAQUE
from ti_render.tiles import CUT_OFF
from ti_render.uniforms import SOFTNESS
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
        sliding: whose distance to the boundary has an adjoint.
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


@ti.kernel
def count_kernel(
    flags: ti.types.ndarray(), screen: ti.types.ndarray(), corners: ti.types.ndarray(), uniforms: ti.types.ndarray(),
    centres: ti.types.ndarray(), start: ti.types.ndarray(), slot: ti.types.ndarray(), entries: ti.types.ndarray(), side: int,
    width: int, height: int, near: float, background_depth: float, depth_range: float, hard: int, gap_column: int,
    pixel_state: ti.types.ndarray(), depths_so_far: ti.types.ndarray(), counts: ti.types.ndarray(),
):  # fmt: skip
    """Count pixel-face pairs with the tests of the rasteriser, in its order.

    Reads arrays of a ``Layer`` (``ti_render.render``) and its pixel_state after the pass. Writes depths_so_far [occupied side^2]
    (workspace) and adds to counts [8] int32 (see ``Pairs``). No adjoint: integers.
    """
    half = 0.5 * ti.min(width, height)
    for tile in range(slot.shape[0]):
        if slot[tile] < 0:
            continue
        m, x0, y0, x1, y1 = tile_box(tile, width, height, side)
        base = slot[tile] * side * side
        inverse_sigma = 1.0 / uniforms[m, SOFTNESS]
        radius = ti.sqrt(CUT_OFF * uniforms[m, SOFTNESS])
        rate = depth_rate(uniforms, m, depth_range)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                p = pixel_centre(flags, centres, m, x, y, width, height)
                depth, _g, _b = backdrop_weights(inverse_ground_depth(uniforms, m, p), near, background_depth, rate, hard)
                depths_so_far[base + (y - y0) * side + x - x0] = depth
        for entry in range(start[tile], start[tile + 1]):
            f = entries[entry]
            a0, a1, a2, depths = face_screen(screen, corners, m, f)
            fade, _rates = near_fade_rates(depths, 1.0 / near)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(flags, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(flags, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            visited, near_pairs, inside_pairs, band, outside, blended, coloured, sliding = 0, 0, 0, 0, 0, 0, 0, 0
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    visited += 1
                    bare, _gap, _signed, slope, b, _edge, inside = fragment(
                        pixel_centre(flags, centres, m, x, y, width, height), a0, a1, a2, inverse_area, inverse_squared,
                        to_distance, radius, inverse_sigma,
                    )  # fmt: skip
                    if inside == 0 and b[0] + b[1] + b[2] > 0:
                        near_pairs += 1
                    if bare * fade > NO_COVERAGE:
                        i = base + (y - y0) * side + x - x0
                        inside_pairs += inside
                        outside += 1 - inside
                        if inside == 1 and slope > 0:
                            band += 1
                        seen = 0
                        if hard == 0:
                            _r, z = perspective(b, 1.0 / depths)
                            if (depths_so_far[i] - z) * rate > ti.static(negligible()):
                                blended += 1
                                depths_so_far[i] = ti.min(depths_so_far[i], z)
                            if (pixel_state[i, rasterise.LEAST_DEPTH] - z) * rate > ti.static(negligible()):
                                seen = 1
                        coloured += seen
                        if pixel_state[i, gap_column] > OPAQUE or seen == 1:
                            if slope > 0 and (hard == 0 or inside == 0):
                                sliding += 1
            counts[VISITED] += visited
            counts[NEAR] += near_pairs
            counts[INSIDE] += inside_pairs
            counts[BAND] += band
            counts[OUTSIDE] += outside
            counts[BLENDED] += blended
            counts[COLOURED] += coloured
            counts[SLIDING] += sliding
        if hard == 1:
            shown = 0
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    if pixel_state[base + (y - y0) * side + x - x0, dibr.FACE] >= 0:
                        shown += 1
            counts[BLENDED] += shown
            counts[COLOURED] += shown


def count_pairs(result: RenderResult) -> Pairs:
    """Pixel-face pairs of a result in torch tensors."""
    layer, settings = result.layer, result.settings
    samples = settings.antialias
    counts = torch.zeros(len(fields(Pairs)), dtype=torch.int32, device=layer.screen.device)
    depths = torch.empty(len(layer.pixel_state), dtype=torch.float32, device=layer.screen.device)
    count_kernel(
        result.flags, layer.screen, result.inputs.mesh.corners, layer.uniforms, result.centres, layer.tiles.start,
        layer.tiles.slot, layer.tiles.entries, layer.tiles.side, samples * settings.width, samples * settings.height, layer.near,
        layer.background_depth, layer.depth_range, int(layer.hard), dibr.GAP if layer.hard else rasterise.GAP,
        layer.pixel_state, depths, counts,
    )  # fmt: skip
    return Pairs(*counts.tolist())
