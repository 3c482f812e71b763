"""Floating-point operations of the rasteriser's pixel-face pairs, counted from the kernels' formulas.

+, -, *, /, square root, minimum and maximum are one each, an exponential or logarithm is sixteen. What all pixels of a face
share is not counted. Phong, one directional light, no texture, no shadows, positions and smooth normals.
"""

from __future__ import annotations

from benchmarks.raster.pairs import Pairs

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
# Coverage with the near fade, product of the gaps, test of the depth.
COVER = 1 + 4 + 2
PERSPECTIVE = 3 + 2 + 1 + 3 + 2

# surface_colour: normal, position and albedo mixed, normal to length one; view and light.
MIXED = 3 * PRODUCT + NORMALIZE
VIEW = 3 + NORMALIZE
LAMBERT = DOT + 1
HIGHLIGHT = DOT + (2 * DOT + 3) + 2 * EXPONENTIAL + 1 + 7 + 1
LIT = DOT + 3 + LAMBERT + 6 + HIGHLIGHT + 6 + 3 + 6
COLOUR = MIXED + VIEW + LIT
# _blend: weight exp(-t), sums of weight and colour.
BLEND = 2 + EXPONENTIAL + 2 + 6

# distance_adjoint: the closest point of the edge again, offset, shares of the corners; sums of the corners and of sigma.
SLIDE = 16 + 12 + 3 + 2 + 6 + 6 + 3
# Log of the coverage's adjoint, perspective, sums of the corners.
COVER_ADJOINT = 4 + 2 + PERSPECTIVE + 2 + 6
# Reverse sweep of a straight line: about two operations for each of its own.
VIEW_ADJOINT, HIGHLIGHT_ADJOINT, NORMALIZE_ADJOINT = VIEW + 2 * VIEW, 2 * HIGHLIGHT, 2 * NORMALIZE
LIT_ADJOINT = (
    LIT + 3 + 3 + 3 + 3  # received light again; adjoints of received and specular light, of ambient light
    + 6 + 2 * 3 + 6  # Lambert to normal and light
    + 6 + 6 + HIGHLIGHT_ADJOINT + 10  # highlight to normal, view, light, shininess
    + DOT + 6 + 3 + 3 + 6 + VIEW_ADJOINT + 6  # intensity, direction, albedo, specular colour, position and eye
)  # fmt: skip
SURFACE_ADJOINT = MIXED + LIT_ADJOINT + 3 * PRODUCT + 6 + NORMALIZE_ADJOINT
# Adjoints of the depth, of the perspective correction and of the barycentrics.
BARYCENTRICS_ADJOINT = 2 + (DOT + 9) + 3 + 9 + (DOT + 6 + 24)
COLOUR_ADJOINT = SURFACE_ADJOINT + 6 * OUTER + BARYCENTRICS_ADJOINT
# share, contrast, their sums; the colour is computed again.
CONTRAST = EXPONENTIAL + 3 + 3 + DOT + 1 + 1 + 3 + 3


def _found(pairs: Pairs) -> int:
    """Of all fragments until their coverage is known."""
    band = SIGMOID * pairs.band + OUTSIDE * pairs.outside
    return VISIT * pairs.visited + NEAREST_EDGE * pairs.near + INSIDE * pairs.inside + band


def forward_flops(pairs: Pairs, *, hard: bool) -> int:
    """Of the pairs of a picture; ``hard``: of DIB-R."""
    if hard:
        silhouettes = EXPONENTIAL * pairs.outside + 3 * pairs.covered + PERSPECTIVE * pairs.inside
        return _found(pairs) + silhouettes + (VISIT + INSIDE + PERSPECTIVE + COLOUR) * pairs.blended
    return _found(pairs) + COVER * pairs.covered + (PERSPECTIVE + COLOUR + BLEND) * pairs.blended


def backward_flops(pairs: Pairs, *, hard: bool) -> int:
    """Of the adjoints of these pairs, with what they compute again."""
    again = VISIT + INSIDE + PERSPECTIVE + COLOUR_ADJOINT if hard else CONTRAST + COLOUR + COLOUR_ADJOINT
    covered = EXPONENTIAL * pairs.outside + 6 * pairs.covered if hard else COVER_ADJOINT * pairs.covered
    return _found(pairs) + covered + SLIDE * pairs.sliding + again * pairs.coloured
