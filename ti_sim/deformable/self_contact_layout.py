"""Memory layout of the arrays of self-contact, and the table of a model."""

import numpy as np

from ti_sim.base.rows import Row

# ``SelfContactArrays.table``: numbers of triangles, vertices and buckets, and the capacity of a chunk's list in pairs. Then
# offsets: in ``table`` itself those of the vertices, of the bounds of the triangles' rings (see ``triangle_rings``), and of one
# number per particle, 1 if it is a vertex, else 0; in ``ints`` those of the buckets, the entries, the keys of the vertices, and
# the lists; in ``reals`` that of the positions of the entries. Then the corners of the triangles themselves.
TABLE = Row(
    triangle_count=1, vertex_count=1, bucket_count=1, list_capacity=1,
    vertices_start=1, ring_bounds_start=1, is_vertex_start=1, buckets_start=1, entries_start=1, keys_start=1, lists_start=1,
    entry_positions_start=1, corners=1,
)  # fmt: skip
# ``SelfContactArrays.ints``: the step that needs a new hash; the step of the positions in the hash; the number of entries with a
# bucket (while many threads build the hash); for each chunk the number of pairs in its list, and 1 if the list is complete or 0.
# A bucket has two numbers: its first entry and the one after its last.
INTS = Row(next_build_step=1, last_build_step=1, placed_count=1, list_headers=1)
# ``SelfContactArrays.reals``: thickness [m]; largest distance of listed pairs at rest [m]; distance that a particle may move
# until the hash is stale [m]; cells per length [1/m]; distance that a particle may move in a step until the hash is stale [m];
# mean velocity when the hash was built [m/s]; positions of all particles at that time [m].
REALS = Row(thickness=1, list_distance=1, max_displacement=1, inverse_cell_size=1, travel_bound=1, mean_velocity=3, positions=1)

BAR_ROWS = 16  # rows of the adjoint of the contact parameters: a chunk adds to row (chunk modulo 16)


def triangle_rings(triangles: np.ndarray) -> list[np.ndarray]:
    """Corners of every triangle and the particles connected to them by an edge, in ascending order.

    Args:
        triangles: [S, 3] particles.
    """
    neighbours: dict[int, set[int]] = {}
    for corners in triangles.tolist():
        for corner in corners:
            neighbours.setdefault(corner, set()).update(corners)
    return [np.array(sorted(neighbours[a] | neighbours[b] | neighbours[c]), dtype=np.int32) for a, b, c in triangles.tolist()]


def contact_table(triangles: np.ndarray, particles: int) -> np.ndarray:
    """``SelfContactArrays.table``, without the entries that depend on the number of chunks.

    Args:
        triangles: [S, 3] particles.
        particles: number of particles P.

    Returns:
        [N] int32.
    """
    vertices = np.unique(triangles).astype(np.int32)
    rings = triangle_rings(triangles)
    is_vertex = np.zeros(particles, dtype=np.int32)
    is_vertex[vertices] = 1
    header = np.zeros(TABLE.corners, dtype=np.int32)
    header[TABLE.triangle_count], header[TABLE.vertex_count] = len(triangles), len(vertices)
    header[TABLE.bucket_count] = 1 << int(np.ceil(np.log2(2 * len(vertices))))
    header[TABLE.vertices_start] = len(header) + triangles.size
    header[TABLE.ring_bounds_start] = header[TABLE.vertices_start] + len(vertices)
    header[TABLE.is_vertex_start] = header[TABLE.ring_bounds_start] + len(rings) + 1
    first_ring = header[TABLE.is_vertex_start] + len(is_vertex)
    ring_bounds = first_ring + np.cumsum([0, *(len(ring) for ring in rings)])
    return np.concatenate([header, triangles.ravel(), vertices, ring_bounds, is_vertex, *rings]).astype(np.int32)
