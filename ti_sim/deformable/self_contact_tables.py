"""The memory in which the kernels of self-contact look for near pairs, and the distances at which they do."""

from __future__ import annotations

import numpy as np

from ti_sim.base.arrays import ints_like_family, reals_like_family
from ti_sim.deformable import self_contact_layout as layout
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.self_contact_lists import SelfContactArrays

# Pairs nearer than the thickness and a skin are listed, the skin in thicknesses and in mean lengths of an edge: the longer, the
# rarer a new search, and the more pairs are looked at in vain. A cell's size beyond that distance, in mean lengths of an edge.
_SKIN_OF_THICKNESS, _SKIN_OF_EDGE, _CELL_OF_EDGE = 0.25, 0.15, 1.0

PAIRS_PER_TRIANGLE = 16  # room in the lists; more cost time, see ``self_contact_lists``


def search_distances(model: DeformableModel) -> tuple[float, float]:
    """The skin and the size of a cell [m]."""
    corners = np.asarray(model.particle_rest)[np.asarray(model.contact_triangles)]
    edge = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    skin = _SKIN_OF_THICKNESS * model.self_thickness + _SKIN_OF_EDGE * edge
    return skin, model.self_thickness + skin + _CELL_OF_EDGE * edge


def self_contact_memory(model: DeformableModel, inputs: DeformableInputs, *, step: int, parts: int) -> SelfContactArrays:
    """What kernels need for self-contact, with lists yet to be filled.

    Args:
        model: whose triangles touch vertices.
        inputs: numbers of every world.
        step: the first one that is taken.
        parts: number of parts of the triangles, each with a list of its own.

    Returns:
        Arrays that are all but the first tiny where the model has no self-contact.
    """
    like, worlds = inputs.particle_mass, inputs.world_count
    if not model.with_self_contact:
        nothing = ints_like_family(like, np.zeros((1, 1), dtype=np.int32))
        return SelfContactArrays(
            inputs.self_contact, ints_like_family(like, np.zeros(1)), nothing, reals_like_family(like, np.zeros((1, 1)))
        )
    table = model.tables["self_contact"].copy()
    vertices = int(table[layout.VERTICES])
    table[layout.CAPACITY] = max(-(-int(table[layout.TRIANGLES]) // parts) * PAIRS_PER_TRIANGLE, 1)
    table[layout.BUCKET] = layout.COUNTS + 2 * parts
    table[layout.ENTRY] = table[layout.BUCKET] + 2 * table[layout.BUCKETS]
    table[layout.KEY] = table[layout.ENTRY] + vertices
    table[layout.PAIRS] = table[layout.KEY] + vertices
    table[layout.ENTRY_POSITION] = layout.POSITIONS + 3 * model.particle_count
    ints = np.zeros((worlds, int(table[layout.PAIRS]) + 2 * parts * int(table[layout.CAPACITY])), dtype=np.int32)
    ints[:, layout.STALE] = step
    reals = np.zeros((worlds, int(table[layout.ENTRY_POSITION]) + 3 * vertices))
    skin, cell = search_distances(model)
    reals[:, layout.THICKNESS], reals[:, layout.REACH] = model.self_thickness, model.self_thickness + skin
    reals[:, layout.SLACK], reals[:, layout.INVERSE_CELL] = 0.49 * skin, 1 / cell
    return SelfContactArrays(
        inputs.self_contact, ints_like_family(like, table), ints_like_family(like, ints), reals_like_family(like, reals)
    )
