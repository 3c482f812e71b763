"""Merging of links that are fixed to a free body: mass, centre of mass and inertia of the merged body, and the adjoint.

A link that is attached to the world by a free or spherical joint, and whose descendants are all fixed to it, forms one rigid body
with them and rotates freely (``free_spin``). Its row gets the mass, centre of mass and inertia of this body, the rows of the
other links get zeros:

    M = sum m_k,    c = sum m_k c_k / M,    I = sum R_k I_k R_k^T + m_k (|e_k|^2 1 - e_k e_k^T),    e_k = c_k - c

in the axes of the first link. Contact points and wrenches still refer to the centre of mass of each link, column CENTER.
"""

from ti_sim.articulated.spatial import load_symmetric, quaternion_product, rotated, rotated_back, store_symmetric
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, quaternion_rate, rotation_matrix, vec3, vec4


@ti.func
def place_in_base(tree: ti.template(), link: ti.template(), work: ti.template(), b):
    """Pose of each merged link in the frame of its first link, written to WORK.quaternion and WORK.position of ``work``."""
    for i in range(tree.shape[0]):
        position, quaternion = vec3(0.0), vec4(0.0, 0.0, 0.0, 1.0)
        if tree[i, TREE.merged_into] >= 0 and tree[i, TREE.merged_into] != i:
            parent = tree[i, TREE.parent]
            rotation = load_vec4(work, b, parent, WORK.quaternion)
            position = load_vec3(work, b, parent, WORK.position) + rotated(rotation, load_vec3(link, b, i, LINK.frame_position))
            quaternion = quaternion_product(rotation, load_vec4(link, b, i, LINK.frame_quaternion))
        store_vec3(work, b, i, WORK.position, position)
        store_vec4(work, b, i, WORK.quaternion, quaternion)


@ti.func
def centre_of(link: ti.template(), work: ti.template(), b, i):
    """Centre of mass of link i in the frame of its first link."""
    return load_vec3(work, b, i, WORK.position) + rotated(load_vec4(work, b, i, WORK.quaternion), load_vec3(link, b, i, LINK.com))


@ti.func
def merged_mass(tree: ti.template(), link: ti.template(), work: ti.template(), b, base):
    """(Mass, centre of mass) of all links merged into ``base``, in its frame; if the mass is zero, the centre of ``base``."""
    mass, moment, centre = 0.0, vec3(0.0), load_vec3(link, b, base, LINK.com)
    for i in range(base, tree.shape[0]):
        if tree[i, TREE.merged_into] == base:
            mass += link[b, i, LINK.mass]
            moment += link[b, i, LINK.mass] * centre_of(link, work, b, i)
    if mass > 0:
        centre = moment / mass
    return mass, centre


@ti.kernel
def merge(tree: ti.types.ndarray(), link: ti.types.ndarray(), work: ti.types.ndarray()):
    """Merge links that are fixed to a free link into it, in the packed rows link [B, N, LINK.size].

    Reads ``parent`` and ``merged_into`` of tree; ``work`` [B, N, WORK.size] is scratch. Hand-written adjoint: ``merge_adjoint``.
    """
    for b in range(link.shape[0]):
        place_in_base(tree, link, work, b)
        for base in range(tree.shape[0]):
            if tree[base, TREE.merged_into] == base:
                mass, centre = merged_mass(tree, link, work, b, base)
                inertia = mat3(0.0)
                for i in range(base, tree.shape[0]):
                    if tree[i, TREE.merged_into] == base:
                        e = centre_of(link, work, b, i) - centre
                        rotation = rotation_matrix(load_vec4(work, b, i, WORK.quaternion))
                        rotated_inertia = rotation @ load_symmetric(link, b, i, LINK.inertia) @ rotation.transpose()
                        inertia += rotated_inertia - link[b, i, LINK.mass] * outer(e, e)
                        for k in ti.static(range(3)):
                            inertia[k, k] += link[b, i, LINK.mass] * e.dot(e)
                        link[b, i, LINK.mass] = 0.0
                        store_symmetric(link, b, i, LINK.inertia, mat3(0.0))
                link[b, base, LINK.mass] = mass
                store_vec3(link, b, base, LINK.com, centre)
                store_symmetric(link, b, base, LINK.inertia, inertia)


@ti.func
def symmetric_adjoint(link_bar: ti.template(), b, i):
    """Adjoint of the inertia in a row as a symmetric matrix; the off-diagonal entries of the row count twice."""
    inertia_bar = 0.5 * load_symmetric(link_bar, b, i, LINK.inertia)
    for k in ti.static(range(3)):
        inertia_bar[k, k] *= 2
    return inertia_bar


@ti.func
def store_symmetric_adjoint(link_bar: ti.template(), b, i, inertia_bar):
    """Inverse of ``symmetric_adjoint``: write the adjoint of the inertia to a row."""
    entry_bar = 2 * inertia_bar
    for k in ti.static(range(3)):
        entry_bar[k, k] *= 0.5
    store_symmetric(link_bar, b, i, LINK.inertia, entry_bar)


@ti.kernel
def merge_adjoint(tree: ti.types.ndarray(), link: ti.types.ndarray(), work: ti.types.ndarray(), link_bar: ti.types.ndarray()):
    """Adjoint of ``merge``, in place in the rows link_bar [B, N, LINK.size]; ``link`` holds the rows before the merge.

    The adjoints of mass, centre of mass and inertia of each merged link, including the first, follow from those of the whole in
    the first row. Adds to the adjoints of the joint frames between the links. ``work`` is scratch.
    """
    for b in range(link.shape[0]):
        place_in_base(tree, link, work, b)
        for base in range(tree.shape[0]):
            if tree[base, TREE.merged_into] == base:
                mass, centre = merged_mass(tree, link, work, b, base)
                mass_bar, inertia_bar = link_bar[b, base, LINK.mass], symmetric_adjoint(link_bar, b, base)
                centre_bar = load_vec3(link_bar, b, base, LINK.com)
                trace = inertia_bar[0, 0] + inertia_bar[1, 1] + inertia_bar[2, 2]
                if mass > 0:
                    centre_bar /= mass
                for i in range(base, tree.shape[0]):
                    if tree[i, TREE.merged_into] == base:
                        quaternion, link_mass = load_vec4(work, b, i, WORK.quaternion), link[b, i, LINK.mass]
                        rotation, e = rotation_matrix(quaternion), centre_of(link, work, b, i) - centre
                        half_offset_bar = trace * e - inertia_bar @ e
                        position_bar = link_mass * (2 * half_offset_bar + centre_bar)
                        inertia_product = rotation @ load_symmetric(link, b, i, LINK.inertia) @ rotation.transpose() @ inertia_bar
                        arm = rotated(quaternion, load_vec3(link, b, i, LINK.com))
                        rotation_bar = 2 * vec3(
                            inertia_product[1, 2] - inertia_product[2, 1],
                            inertia_product[2, 0] - inertia_product[0, 2],
                            inertia_product[0, 1] - inertia_product[1, 0],
                        ) + arm.cross(position_bar)
                        link_bar[b, i, LINK.mass] = mass_bar + e.dot(half_offset_bar) + e.dot(centre_bar)
                        store_vec3(link_bar, b, i, LINK.com, rotated_back(quaternion, position_bar))
                        store_symmetric_adjoint(link_bar, b, i, rotation.transpose() @ inertia_bar @ rotation)
                        store_vec3(work, b, i, WORK.bars, rotation_bar)
                        store_vec3(work, b, i, WORK.bars + 3, position_bar)
        for k in range(tree.shape[0]):
            i = tree.shape[0] - 1 - k
            if tree[i, TREE.merged_into] >= 0 and tree[i, TREE.merged_into] != i:
                parent, quaternion = tree[i, TREE.parent], load_vec4(link, b, i, LINK.frame_quaternion)
                rotation = load_vec4(work, b, parent, WORK.quaternion)
                rotation_bar, position_bar = load_vec3(work, b, i, WORK.bars), load_vec3(work, b, i, WORK.bars + 3)
                arm = rotated(rotation, load_vec3(link, b, i, LINK.frame_position))
                add_vec3(link_bar, b, i, LINK.frame_position, rotated_back(rotation, position_bar))
                add_vec4(
                    link_bar, b, i, LINK.frame_quaternion, 4 * quaternion_rate(rotated_back(rotation, rotation_bar), quaternion)
                )
                add_vec3(work, b, parent, WORK.bars, rotation_bar + arm.cross(position_bar))
                add_vec3(work, b, parent, WORK.bars + 3, position_bar)
