"""Allocation of the memory for the search of contact pairs, and the distances of the search."""

from __future__ import annotations

import numpy as np

from ti_sim.base.arrays import ints_in_same_library, reals_in_same_library
from ti_sim.deformable import self_contact_layout as layout
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.self_contact_lists import SelfContactArrays

# Pairs closer than the thickness plus a skin are listed. Skin in thicknesses and in mean edge lengths: a larger one makes
# searches rarer and lists longer. Size of a cell beyond that distance, in mean edge lengths.
_SKIN_OF_THICKNESS, _SKIN_OF_EDGE, _CELL_OF_EDGE = 0.25, 0.15, 1.0

PAIRS_PER_TRIANGLE = 16  # capacity of the lists; more pairs cost time, see ``self_contact_lists``


def search_distances(model: DeformableModel) -> tuple[float, float]:
    """The skin and the size of a cell [m]."""
    corners = np.asarray(model.particle_rest)[np.asarray(model.contact_triangles)]
    edge_length = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    skin = _SKIN_OF_THICKNESS * model.self_thickness + _SKIN_OF_EDGE * edge_length
    return skin, model.self_thickness + skin + _CELL_OF_EDGE * edge_length


def self_contact_memory(model: DeformableModel, inputs: DeformableInputs, *, step: int, num_chunks: int) -> SelfContactArrays:
    """Arrays of self-contact with empty lists.

    Args:
        model: model with self-contact triangles.
        inputs: numbers of every world.
        step: first step.
        num_chunks: number of chunks of triangles, each with a separate list.

    Returns:
        The arrays; if the model has no self-contact, all except the first are tiny.
    """
    like, worlds = inputs.particle_mass, inputs.world_count
    if not model.with_self_contact:
        no_ints = ints_in_same_library(like, np.zeros((1, 1), dtype=np.int32))
        return SelfContactArrays(
            inputs.self_contact, ints_in_same_library(like, np.zeros(1)), no_ints, reals_in_same_library(like, np.zeros((1, 1)))
        )
    table = model.tables["self_contact"].copy()
    vertex_count = int(table[layout.TABLE.vertex_count])
    table[layout.TABLE.list_capacity] = max(-(-int(table[layout.TABLE.triangle_count]) // num_chunks) * PAIRS_PER_TRIANGLE, 1)
    table[layout.TABLE.buckets_start] = layout.INTS.list_headers + 2 * num_chunks
    table[layout.TABLE.entries_start] = table[layout.TABLE.buckets_start] + 2 * table[layout.TABLE.bucket_count]
    table[layout.TABLE.keys_start] = table[layout.TABLE.entries_start] + vertex_count
    table[layout.TABLE.lists_start] = table[layout.TABLE.keys_start] + vertex_count
    table[layout.TABLE.entry_positions_start] = layout.REALS.positions + 3 * model.particle_count
    lists_size = 2 * num_chunks * int(table[layout.TABLE.list_capacity])
    ints = np.zeros((worlds, int(table[layout.TABLE.lists_start]) + lists_size), dtype=np.int32)
    ints[:, layout.INTS.next_build_step] = step
    reals = np.zeros((worlds, int(table[layout.TABLE.entry_positions_start]) + 3 * vertex_count))
    skin, cell_size = search_distances(model)
    reals[:, layout.REALS.thickness], reals[:, layout.REALS.list_distance] = model.self_thickness, model.self_thickness + skin
    reals[:, layout.REALS.max_displacement], reals[:, layout.REALS.inverse_cell_size] = 0.49 * skin, 1 / cell_size
    return SelfContactArrays(
        inputs.self_contact, ints_in_same_library(like, table), ints_in_same_library(like, ints),
        reals_in_same_library(like, reals),
    )  # fmt: skip
