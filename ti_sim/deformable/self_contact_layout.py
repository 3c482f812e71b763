"""Memory layout of the arrays of self-contact, and the table of a model."""

import numpy as np

from ti_sim.base.rows import Row

# ``SelfContactArrays.table``: numbers of triangles, vertices, buckets, and pairs per list of a chunk; then offsets in the table
# itself (vertices, rings, a 0/1 mask of the particles that are vertices), in ``ints`` (buckets, entries, keys, lists) and
# in ``reals`` (positions of the entries), and the corners of the triangles.
TABLE = Row(
    triangles=1, vertices=1, buckets=1, capacity=1, vertex=1, ring=1, member=1, bucket=1, entry=1, key=1, pairs=1,
    entry_position=1, corners=1,
)  # fmt: skip
# ``SelfContactArrays.ints``: the step that needs a new hash; the step of the positions in the hash; the number of entries with a
# bucket (while many threads build the hash); for each chunk the number of pairs in its list, and whether the list is complete. A
# bucket has two numbers: its first entry and the one after its last.
INTS = Row(stale=1, built=1, placed=1, counts=1)
# ``SelfContactArrays.reals``: thickness [m], largest distance of listed pairs at rest [m], distance that a particle
# may move until the hash is stale [m], cells per length [1/m], distance that a particle may move in a step until the hash is
# stale [m], mean velocity when the hash was built [m/s], positions of all particles at that time [m].
REALS = Row(thickness=1, reach=1, slack=1, inverse_cell=1, travel=1, drift=3, positions=1)

BAR_ROWS = 16  # rows of the adjoint of the contact parameters, shared by the chunks


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
    member = np.zeros(particles, dtype=np.int32)
    member[vertices] = 1
    header = np.zeros(TABLE.corners, dtype=np.int32)
    header[TABLE.triangles], header[TABLE.vertices] = len(triangles), len(vertices)
    header[TABLE.buckets] = 1 << int(np.ceil(np.log2(2 * len(vertices))))
    header[TABLE.vertex] = len(header) + triangles.size
    header[TABLE.ring] = header[TABLE.vertex] + len(vertices)
    header[TABLE.member] = header[TABLE.ring] + len(rings) + 1
    first_ring = header[TABLE.member] + len(member)
    ring_bounds = first_ring + np.cumsum([0, *(len(ring) for ring in rings)])
    return np.concatenate([header, triangles.ravel(), vertices, ring_bounds, member, *rings]).astype(np.int32)
