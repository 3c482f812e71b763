"""The patch of a pair of shapes in contact: sums over its points, gathered point by point, and their adjoint (Taichi functions).

A patch is a vector of ``PATCH`` numbers, see ``pair_bristle`` for their meaning. The centre is relative to the origin of the
pair's first link. Centre and second moment are updated with each point (Welford, Note on a method for calculating corrected sums
of squares and products, 1962), so that a patch of one point has exactly no extent.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

KT = 0  # bristle stiffness of the pair [N/m]; 0 for a pair without bristle, whose patch is not gathered
SUM = 1  # sum of the normal forces [N]
CENTRE = 2  # 3 [m]
SPREAD = 5  # mean square of the distance from the centre [m2]; while points are gathered, times the sum of the forces [N m2]
RESULTANT = 6  # 3, sum of the normal forces as vectors [N]
PATH = 9  # 3, path (``ti_sim.contact.law``), mean over the points with their forces as weights
CENTRE_BAR = 12  # 3, adjoints: of the centre, of the mean square of the radius, of the resultant, of the path
SPREAD_BAR = 15
RESULTANT_BAR = 16
PATH_BAR = 19
PATCH_SIZE = 11  # numbers of a patch that rows of states store: SUM to PATH
BAR_SIZE = 10
PATCH = 1 + PATCH_SIZE + BAR_SIZE


@ti.func
def empty_patch():
    """A patch without points of a pair without bristle."""
    return ti.Vector([0.0 for _ in range(PATCH)])


@ti.func
def patch_vec3(patch: ti.template(), first: ti.template()):
    """Three numbers of a patch."""
    return vec3(patch[first], patch[first + 1], patch[first + 2])


@ti.func
def add_to_patch(patch: ti.template(), point, normal, force, path):
    """Add a point to a patch.

    Args:
        patch: the sums so far.
        point: of the point, relative to the origin of the pair's first link [m].
        normal: unit vector towards the first link.
        force: normal force [N]; a point without force adds nothing.
        path: of the point.
    """
    if force > 0:
        total = patch[SUM] + force
        offset = point - patch_vec3(patch, CENTRE)
        step = force / total * offset
        patch[SUM] = total
        patch[SPREAD] += force * offset.dot(offset - step)
        for k in ti.static(range(3)):
            patch[PATH + k] += force / total * (path[k] - patch[PATH + k])
            patch[CENTRE + k] += step[k]
            patch[RESULTANT + k] += force * normal[k]


@ti.func
def merge_patch(patch: ti.template(), addend: ti.template(), scale):
    """Add the points of another patch to a patch, with their forces times a scale."""
    force = scale * addend[SUM]
    if force > 0:
        add_to_patch(patch, patch_vec3(addend, CENTRE), vec3(0.0), force, patch_vec3(addend, PATH))
        patch[SPREAD] += scale * addend[SPREAD]
        for k in ti.static(range(3)):
            patch[RESULTANT + k] += scale * addend[RESULTANT + k]


@ti.func
def patch_point_adjoint(patch: ti.template(), point, normal, force, path):
    """Adjoint of ``add_to_patch``, from the derivatives that the patch holds: (force_bar, place_bar, normal_bar, path_bar).

    The adjoint of the normal is orthogonal to it. Zeros for a pair that has no bristle, or did not touch in the step.
    """
    force_bar, place_bar, normal_bar, path_bar = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    if patch[KT] > 0 and patch[SUM] > 0:
        offset, resultant_bar = point - patch_vec3(patch, CENTRE), patch_vec3(patch, RESULTANT_BAR)
        centre_bar, mean_bar = patch_vec3(patch, CENTRE_BAR), patch_vec3(patch, PATH_BAR)
        normal_component = resultant_bar.dot(normal)
        force_bar = (
            normal_component + (offset.dot(centre_bar) + patch[SPREAD_BAR] * (offset.dot(offset) - patch[SPREAD])) / patch[SUM]
        )
        force_bar += mean_bar.dot(path - patch_vec3(patch, PATH)) / patch[SUM]
        path_bar = force / patch[SUM] * mean_bar
        place_bar = force / patch[SUM] * (centre_bar + 2 * patch[SPREAD_BAR] * offset)
        normal_bar = force * (resultant_bar - normal_component * normal)
    return force_bar, place_bar, normal_bar, path_bar
