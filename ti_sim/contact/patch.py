"""The patch of a pair of shapes in contact: sums over its points, gathered point by point, and their adjoint (Taichi functions).

A patch is a vector of ``PATCH.size`` numbers, see ``pair_bristle`` for their meaning. The centre is relative to the origin of the
pair's first link. Centre and second moment are updated with each point (Welford, Note on a method for calculating corrected sums
of squares and products, 1962), so that a patch of one point has exactly no extent.
"""

from ti_sim.base.rows import Row
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

PATCH = Row(
    kt=1,  # bristle stiffness of the pair [N/m]; 0 for a pair without bristle, whose patch is not gathered
    force_sum=1,  # sum of the normal forces [N]
    centre=3,  # [m]
    squared_radius=1,  # mean square of the distance from the centre [m2]; while points are gathered, times force_sum [N m2]
    resultant=3,  # sum of the normal forces as vectors [N]
    path=3,  # path (``ti_sim.contact.law``), mean over the points with their forces as weights
    centre_bar=3, squared_radius_bar=1, resultant_bar=3, path_bar=3,  # adjoints, of squared_radius in m2
)  # fmt: skip
STORED_PATCH_SIZE = PATCH.centre_bar - PATCH.force_sum  # numbers of a patch that rows of states store: force_sum to path
PATCH_BAR_SIZE = PATCH.size - PATCH.centre_bar  # numbers of its adjoints


@ti.func
def empty_patch():
    """A patch without points of a pair without bristle."""
    return ti.Vector([0.0 for _ in range(PATCH.size)])


@ti.func
def patch_vec3(patch: ti.template(), column: ti.template()):
    """Three numbers of a patch."""
    return vec3(patch[column], patch[column + 1], patch[column + 2])


@ti.func
def add_to_patch(patch: ti.template(), point, normal, force, path):
    """Add a point to a patch.

    Args:
        patch: the sums so far.
        point: position of the point relative to the origin of the pair's first link [m].
        normal: unit vector towards the first link.
        force: normal force [N]; a point without force adds nothing.
        path: path of the point, of ``contact_path``.
    """
    if force > 0:
        new_force_sum = patch[PATCH.force_sum] + force
        offset = point - patch_vec3(patch, PATCH.centre)
        centre_shift = force / new_force_sum * offset
        patch[PATCH.force_sum] = new_force_sum
        patch[PATCH.squared_radius] += force * offset.dot(offset - centre_shift)
        for k in ti.static(range(3)):
            patch[PATCH.path + k] += force / new_force_sum * (path[k] - patch[PATCH.path + k])
            patch[PATCH.centre + k] += centre_shift[k]
            patch[PATCH.resultant + k] += force * normal[k]


@ti.func
def merge_patch(patch: ti.template(), addend: ti.template(), scale):
    """Add the points of another patch to a patch, with their forces times a scale."""
    force = scale * addend[PATCH.force_sum]
    if force > 0:
        add_to_patch(patch, patch_vec3(addend, PATCH.centre), vec3(0.0), force, patch_vec3(addend, PATCH.path))
        patch[PATCH.squared_radius] += scale * addend[PATCH.squared_radius]
        for k in ti.static(range(3)):
            patch[PATCH.resultant + k] += scale * addend[PATCH.resultant + k]


@ti.func
def patch_point_adjoint(patch: ti.template(), point, normal, force, path):
    """Adjoint of ``add_to_patch``, from the derivatives that the patch holds: (force_bar, point_bar, normal_bar, path_bar).

    The adjoint of the normal is orthogonal to it. Zeros for a pair that has no bristle, or did not touch in the step.
    """
    force_bar, point_bar, normal_bar, path_bar = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    if patch[PATCH.kt] > 0 and patch[PATCH.force_sum] > 0:
        offset, resultant_bar = point - patch_vec3(patch, PATCH.centre), patch_vec3(patch, PATCH.resultant_bar)
        centre_bar, mean_path_bar = patch_vec3(patch, PATCH.centre_bar), patch_vec3(patch, PATCH.path_bar)
        normal_component = resultant_bar.dot(normal)
        squared_radius_term = patch[PATCH.squared_radius_bar] * (offset.dot(offset) - patch[PATCH.squared_radius])
        force_bar = normal_component + (offset.dot(centre_bar) + squared_radius_term) / patch[PATCH.force_sum]
        force_bar += mean_path_bar.dot(path - patch_vec3(patch, PATCH.path)) / patch[PATCH.force_sum]
        path_bar = force / patch[PATCH.force_sum] * mean_path_bar
        point_bar = force / patch[PATCH.force_sum] * (centre_bar + 2 * patch[PATCH.squared_radius_bar] * offset)
        normal_bar = force * (resultant_bar - normal_component * normal)
    return force_bar, point_bar, normal_bar, path_bar
