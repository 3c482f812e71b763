"""How the tables and the memory of self-contact are laid out, and the table of a model."""

import numpy as np

# ``SelfContactArrays.table``: numbers of triangles and vertices, buckets, pairs in a part's list; then where things begin, in the
# table itself (vertices, rings, the particles that are vertices), in ``ints`` (buckets, entries, keys, lists) and in ``reals``
# (positions of the entries). The corners of the triangles begin at CORNERS.
TRIANGLES, VERTICES, BUCKETS, CAPACITY, VERTEX, RING, MEMBER, BUCKET, ENTRY, KEY, PAIRS, ENTRY_POSITION = range(12)
CORNERS = 12
# ``SelfContactArrays.ints``: the step that needs a new hash; the step whose positions the hash holds; how many entries have a
# bucket (while many threads build the hash); for each part the number of pairs in its list, and whether these are all. A bucket
# has two numbers, of its first entry and of the one after its last.
STALE, BUILT, PLACED = range(3)
COUNTS = 3
# ``SelfContactArrays.reals``: thickness [m], distance up to which pairs are listed [m], how far a particle may move until the
# hash is stale [m], cells per length [1/m], mean velocity when the hash was built [m/s], positions then of all particles [m].
THICKNESS, REACH, SLACK, INVERSE_CELL, DRIFT = range(5)
POSITIONS = 7

BAR_ROWS = 16  # of the adjoint of the contact parameters, which parts share


def triangle_rings(triangles: np.ndarray) -> list[np.ndarray]:
    """Corners of every triangle, and the particles that an edge of a triangle joins to them, rising.

    Args:
        triangles: [S, 3] particles.
    """
    joined: dict[int, set[int]] = {}
    for corners in triangles.tolist():
        for corner in corners:
            joined.setdefault(corner, set()).update(corners)
    return [np.array(sorted(joined[a] | joined[b] | joined[c]), dtype=np.int32) for a, b, c in triangles.tolist()]


def contact_table(triangles: np.ndarray, particles: int) -> np.ndarray:
    """``SelfContactArrays.table``, without what depends on the number of parts.

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
    header = np.zeros(CORNERS, dtype=np.int32)
    header[TRIANGLES], header[VERTICES] = len(triangles), len(vertices)
    header[BUCKETS] = 1 << int(np.ceil(np.log2(2 * len(vertices))))
    header[VERTEX] = len(header) + triangles.size
    header[RING] = header[VERTEX] + len(vertices)
    header[MEMBER] = header[RING] + len(rings) + 1
    first_ring = header[MEMBER] + len(member)
    ends = first_ring + np.cumsum([0, *(len(ring) for ring in rings)])
    return np.concatenate([header, triangles.ravel(), vertices, ends, member, *rings]).astype(np.int32)
