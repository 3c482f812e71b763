"""Floating-point operations of the rasteriser's pixel-face pairs, counted from the kernels' formulas.

+, -, *, /, square root, minimum and maximum are one each, an exponential or logarithm is sixteen. Values that all pixels of a
face share are not counted. Phong, one directional light, no texture, no shadows, positions and smooth normals.
"""

from __future__ import annotations

from benchmarks.raster.pairs import PairCounts

EXPONENTIAL = 16
DOT, CROSS2, PRODUCT, OUTER = 5, 3, 15, 9  # of 3-vectors; of plane vectors; 3x3 matrix times vector; of 3-vectors
NORMALIZE = DOT + 5

# fragment: pixel centre, doubled sub-areas, signed distances and their least.
VISIT = 6 + (2 + 2 * CROSS2 + 2) + 5
# closest_point: one edge's parameter and squared distance; then the test against the cut-off.
NEAREST_EDGE = (2 + 3 + 1 + 2) + 4 + 3 + 1 + 2
INSIDE = 2 + 1 + 3
# The sigmoid of the distance; outside faded out at the cut-off, and its derivative.
SIGMOID = EXPONENTIAL + 2
OUTSIDE = SIGMOID + 4 + 5 + 7 + 1
# Probability with the near fade, product of the complements, test of the depth.
PROBABILITY = 1 + 4 + 2
PERSPECTIVE = 3 + 2 + 1 + 3 + 2

# surface_colour: interpolated normal, position and albedo, normalisation; view and light.
ATTRIBUTES = 3 * PRODUCT + NORMALIZE
VIEW_DIRECTION = 3 + NORMALIZE
LAMBERT = DOT + 1
HIGHLIGHT = DOT + (2 * DOT + 3) + 2 * EXPONENTIAL + 1 + 7 + 1
LIGHTING = DOT + 3 + LAMBERT + 6 + HIGHLIGHT + 6 + 3 + 6
COLOUR = ATTRIBUTES + VIEW_DIRECTION + LIGHTING
# _blend: weight exp(-t), sums of weight and colour.
BLEND = 2 + EXPONENTIAL + 2 + 6

# distance_adjoint: the closest point of the edge again, offset, contributions of the corners; sums of the corners and of sigma.
DISTANCE_ADJOINT = 16 + 12 + 3 + 2 + 6 + 6 + 3
# Adjoint of the probability's logarithm, perspective, sums of the corners.
PROBABILITY_ADJOINT = 4 + 2 + PERSPECTIVE + 2 + 6
# Reverse sweep of straight-line code: about two operations for each forward operation.
VIEW_DIRECTION_ADJOINT, HIGHLIGHT_ADJOINT, NORMALIZE_ADJOINT = VIEW_DIRECTION + 2 * VIEW_DIRECTION, 2 * HIGHLIGHT, 2 * NORMALIZE
LIGHTING_ADJOINT = (
    LIGHTING + 3 + 3 + 3 + 3  # recomputed irradiance; adjoints of irradiance and specular light, of ambient light
    + 6 + 2 * 3 + 6  # Lambert to normal and light
    + 6 + 6 + HIGHLIGHT_ADJOINT + 10  # highlight to normal, view, light, shininess
    + DOT + 6 + 3 + 3 + 6 + VIEW_DIRECTION_ADJOINT + 6  # intensity, direction, albedo, specular colour, position and eye
)  # fmt: skip
SURFACE_ADJOINT = ATTRIBUTES + LIGHTING_ADJOINT + 3 * PRODUCT + 6 + NORMALIZE_ADJOINT
# Adjoints of the depth, of the perspective correction and of the barycentrics.
BARYCENTRICS_ADJOINT = 2 + (DOT + 9) + 3 + 9 + (DOT + 6 + 24)
COLOUR_ADJOINT = SURFACE_ADJOINT + 6 * OUTER + BARYCENTRICS_ADJOINT
# weight and its adjoint, their sums; the colour is recomputed.
WEIGHT_ADJOINT = EXPONENTIAL + 3 + 3 + DOT + 1 + 1 + 3 + 3


def _visit_flops(pairs: PairCounts) -> int:
    """Operations of all fragments up to their probability."""
    distance_flops = SIGMOID * pairs.band + OUTSIDE * pairs.outside
    return VISIT * pairs.visited + NEAREST_EDGE * pairs.near + INSIDE * pairs.inside + distance_flops


def forward_flops(pairs: PairCounts, *, dibr: bool) -> int:
    """Of the pairs of a picture; ``dibr``: of DIB-R."""
    if dibr:
        silhouettes = EXPONENTIAL * pairs.outside + 3 * pairs.covered + PERSPECTIVE * pairs.inside
        return _visit_flops(pairs) + silhouettes + (VISIT + INSIDE + PERSPECTIVE + COLOUR) * pairs.blended
    return _visit_flops(pairs) + PROBABILITY * pairs.covered + (PERSPECTIVE + COLOUR + BLEND) * pairs.blended


def backward_flops(pairs: PairCounts, *, dibr: bool) -> int:
    """Operations of the adjoints of these pairs, recomputation included."""
    per_coloured_pair = VISIT + INSIDE + PERSPECTIVE + COLOUR_ADJOINT if dibr else WEIGHT_ADJOINT + COLOUR + COLOUR_ADJOINT
    covered_flops = EXPONENTIAL * pairs.outside + 6 * pairs.covered if dibr else PROBABILITY_ADJOINT * pairs.covered
    return _visit_flops(pairs) + covered_flops + DISTANCE_ADJOINT * pairs.distance_adjoint + per_coloured_pair * pairs.coloured
