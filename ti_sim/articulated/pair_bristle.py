"""Friction that sticks between two bodies: one elastic element for each pair of shapes, and its adjoint (Taichi functions).

Contact points of two boxes or meshes do not persist from step to step, so a pair has one bristle for its whole contact patch.
With the normal forces f_p of its points x_p along the normals n_p (from the second link to the first), the patch is

    N = sum f_p n_p,   F = |N|,   n = N / F,   c = sum f_p x_p / sum f_p,   r^2 = sum f_p |x_p - c|^2 / sum f_p,

and the mean of the paths of the points in the step, with f_p as weights (``contact_path`` of ``ti_sim.contact.law``). Along it
the patch has the force of one contact point times W, so that the mean of the force is F.

Its friction acts at the centre c. With the relative velocity u_t there (of the first link, tangential), the relative angular
velocity w = n . (w_1 - w_2), the displacement s [m] and the angle a [rad], and the fraction q of the time in contact of the path,
a step is (Cundall and Strack, A discrete numerical model for granular assemblies, 1979, with torsion within the same limit)

    (s, a) <- <kt (tangential(s) + dt q u_t, a + dt q w)> / (kt q)
    force = -h,  moment = -r^2 m n,   (h, m) = <kt s + kf u_t, kt a + kf w>

where <(v, b)> is (v, b) / L times the mean of min(L, mu f) over the path, with L^2 = |v|^2 + r^2 b^2 and the force f of the
patch at each time: force and moment are limited by an ellipsoid (Howe and Cutkosky, Practical force-motion models for sliding
manipulation, 1996). For a single point r is zero: there is no torsion, and the law is that of ``ti_sim.contact.bristle``. ke, kd,
kt, kf and mu are those of the pair as a whole, the means of both links. The displacement is kept in the frame of the second link,
so that links that rotate together keep their force. Where normals oppose each other, as for a peg in the hole of one mesh, N is
the resultant, which also limits the friction.

A pair with kt = 0 has the friction of ``contact_force`` at each point instead, and no bristle.

The normal forces of the points are added as without bristles, and gathered into the patch. ``patch`` is a vector of
``PATCH.size`` numbers: kt, the patch (the ``STORED_PATCH_SIZE`` numbers that rows of states store), and in the adjoint the
derivatives of L (see ``adjoint``) with respect to centre, r^2, resultant and path. The adjoint of friction comes first, from the
stored patch; ``patch_point_adjoint`` then gives the adjoint of each point, in the sweep of the adjoint of its normal force.

Without travel there are kinks, at which the derivative is one-sided: that of sticking where a limit is just reached.
"""

from ti_sim.articulated.contact_bristles import (
    STORED_PATCH_SIZE,
    bristle_size,
    first_bristle,
    first_bristle_bar,
    pair_column,
    pair_count,
    patch_column,
)
from ti_sim.articulated.contact_force import mean_bristle, mean_contact, point_adjoint, point_velocity, subtract_force
from ti_sim.articulated.link_team import contact_row, in_share, share
from ti_sim.articulated.spatial import rotated, rotated_back
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.differentiable import Real, Vector, differentiable, inverse, recorded, sqrt, where
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.contact.law import limited_friction, path_average, path_average_derivatives
from ti_sim.contact.patch import PATCH, PATCH_BAR_SIZE, patch_vec3

_MIN_SQUARED_FORCE = 1e-30  # square of the normal force below which there is no friction [N2]; its powers are in the range of f32


def _path_average(path: Vector) -> tuple[Real, Real]:
    """``path_average`` of a recorded path."""
    depth, travel = path[0], path[1]
    mean_depth, fraction = path_average(depth.value, travel.value)
    by_depth, by_travel, mean_by_travel = path_average_derivatives(depth.value, travel.value)
    fraction_variable = recorded(fraction, [(depth, by_depth), (travel, by_travel)])
    return recorded(mean_depth, [(depth, fraction), (travel, mean_by_travel)]), fraction_variable


def _friction_limit_factor(squared_length: Real, weight: Real, path: Vector, law: Vector) -> Real:
    """Factor that shortens a vector of this squared length to the mean of min(length, mu f) along the path of a patch."""
    is_positive = squared_length > 0.0
    length = sqrt(where(is_positive, squared_length, 1.0))
    mean_force = where(is_positive, length * inverse(weight), 0.0)
    path_values = ti.Vector([x.value for x in path.entries])
    value, rate, by_path, by_law = limited_friction(mean_force.value, path_values, *(x.value for x in law.entries))
    friction_value = recorded(value, [(mean_force, rate), (path, by_path), (law, by_law)])
    return where(is_positive, friction_value * weight * inverse(length), rate)


@differentiable(constant=("dt",))
def patch_friction(resultant, squared_radius, path, u, angular_velocity, s, angle, contact, kt, dt):
    """Friction of a patch and its bristle after the step, see the formulas above.

    Args:
        resultant: N, of length above zero [N].
        squared_radius: r^2 [m2].
        path: mean path of the points.
        u: relative velocity at the centre [m/s].
        angular_velocity: relative angular velocity [rad/s].
        s: displacement of the bristle at the start of the step, world axes [m].
        angle: its angle [rad].
        contact: ke, kd, kf, mu.
        kt: bristle stiffness, above zero [N/m].
        dt: physics step [s].

    Returns:
        (force on the first link [N], moment on it about the centre [N m], displacement [m] and angle [rad] after the step).
    """
    ke, kd, kf, mu = contact.entries
    force, (mean_depth, fraction) = sqrt(resultant.dot(resultant)), _path_average(path)
    weight = force * inverse(ke * mean_depth + kd * fraction * path[2])
    normal, law = resultant * inverse(force), Vector([ke, kd, mu])
    tangential_velocity, torsion_rate = u - normal * u.dot(normal), angular_velocity.dot(normal)
    s = s - normal * s.dot(normal) + tangential_velocity * (fraction * dt)
    angle = where(squared_radius > 0.0, angle + torsion_rate * (fraction * dt), 0.0)
    factor = _friction_limit_factor((s.dot(s) + squared_radius * angle * angle) * kt * kt, weight, path, law) * inverse(fraction)
    s, angle = s * factor, angle * factor
    tangential_force, torsion = s * kt + tangential_velocity * kf, angle * kt + torsion_rate * kf
    factor = _friction_limit_factor(
        tangential_force.dot(tangential_force) + squared_radius * torsion * torsion, weight, path, law
    )
    return tangential_force * (-factor), normal * (-(squared_radius * torsion * factor)), s, angle


@ti.func
def load_displacement(world: ti.template(), rows: ti.template(), b, row, column):
    """(Displacement, angle) of a bristle in a row, from a column on."""
    return vec3(rows[b, row, column], rows[b, row, column + 1], rows[b, row, column + 2]), rows[b, row, column + 3]


@ti.func
def store_displacement(rows: ti.template(), b, row, column, s, angle):
    """Write displacement and angle of a bristle to a row, from a column on."""
    store_vec3(rows, b, row, column, s)
    rows[b, row, column + 3] = angle


@ti.func
def clear_patch(world: ti.template(), b, i, j, patch: ti.template()):
    """Set the patch of a pair of links to its kt and no points."""
    for k in ti.static(range(1 + STORED_PATCH_SIZE)):
        patch[k] = 0.0
    patch[PATCH.kt] = mean_bristle(world, b, i, j)


@ti.func
def centre_motion(world: ti.template(), b, i, j, centre, separation):
    """Relative velocity of two links at the centre of their patch, and relative angular velocity."""
    u = point_velocity(world, b, i, centre) - point_velocity(world, b, j, centre + separation)
    return u, load_vec3(world.work, b, i, WORK.spin) - load_vec3(world.work, b, j, WORK.spin)


@ti.func
def subtract_moment(world: ti.template(), b, i, moment):
    """Subtract a moment from the load of link i."""
    if world.tree[i, TREE.moves] == 1:
        add_vec3(world.work, b, contact_row(world, i), WORK.load, -moment)


@ti.func
def patch_loads(world: ti.template(), states: ti.template(), b, slot, p, i, j, patch: ti.template()):
    """Add the friction of pair p of links i and j to their loads.

    Reads the displacement before the step in a row of ``states``, and writes that after it and the patch there.
    """
    resultant = patch_vec3(patch, PATCH.resultant)
    if patch[PATCH.kt] > 0 and patch[PATCH.force_sum] > 0 and resultant.dot(resultant) > _MIN_SQUARED_FORCE:
        patch[PATCH.squared_radius] = patch[PATCH.squared_radius] / patch[PATCH.force_sum]
        centre, contact = patch_vec3(patch, PATCH.centre), mean_contact(world, b, i, j)
        separation = load_vec3(world.work, b, i, WORK.position) - load_vec3(world.work, b, j, WORK.position)
        u, angular_velocity = centre_motion(world, b, i, j, centre, separation)
        column, rotation = first_bristle(world) + pair_column(p), load_vec4(world.work, b, j, WORK.quaternion)
        s, angle = load_displacement(world, states, b, slot, column)
        force, moment, new_displacement, new_angle = patch_friction.value(
            resultant,
            patch[PATCH.squared_radius],
            patch_vec3(patch, PATCH.path),
            u,
            angular_velocity,
            rotated(rotation, s),
            angle,
            contact,
            patch[PATCH.kt],
            world.dt,
        )
        subtract_force(world, b, i, centre, force)
        subtract_force(world, b, j, centre + separation, -force)
        subtract_moment(world, b, i, moment)
        subtract_moment(world, b, j, -moment)
        store_displacement(states, b, slot, column + bristle_size(world), rotated_back(rotation, new_displacement), new_angle)
        for k in ti.static(range(STORED_PATCH_SIZE)):
            states[b, slot, patch_column(world, p) + k] = patch[PATCH.force_sum + k]


@ti.func
def clear_pair_adjoints(world: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row):
    """Set the adjoints of the displacements of pairs that did not touch in the step to zero."""
    for n in range(share(world, pair_count(world))):
        p = in_share(world, n)
        if states[b, slot, patch_column(world, p)] <= 0:
            store_displacement(bar, b, row, first_bristle_bar(world) + pair_column(p), vec3(0.0), 0.0)


@ti.func
def add_parameter_adjoints(bars: ti.template(), b, row, contact_bar, kt_bar):
    """Add to the adjoints of a link's contact parameters and bristle stiffness, in its row (``contact_row``)."""
    add_vec4(bars.link, b, row, LINK.contact, contact_bar)
    bars.link[b, row, LINK.bristle] = bars.link[b, row, LINK.bristle] + kt_bar


@ti.func
def patch_loads_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, p, i, j,
    patch: ti.template(),
):  # fmt: skip
    """Adjoint of ``patch_loads``, of the negative power of the friction on the virtual velocities of the links.

    Loads the patch of the step, and writes the derivatives with respect to it to ``patch``. Replaces the adjoint of the
    displacement after the step, in a row of ``bar``, by that of the displacement before it, and adds to the adjoints of both
    links' motion, contact parameters and bristle stiffness.
    """
    patch[PATCH.kt] = mean_bristle(world, b, i, j)
    for k in ti.static(range(STORED_PATCH_SIZE)):
        patch[PATCH.force_sum + k] = states[b, slot, patch_column(world, p) + k]
    for k in ti.static(range(PATCH_BAR_SIZE)):
        patch[PATCH.centre_bar + k] = 0.0
    if patch[PATCH.kt] > 0 and patch[PATCH.force_sum] > 0:
        centre, contact = patch_vec3(patch, PATCH.centre), mean_contact(world, b, i, j)
        separation = load_vec3(world.work, b, i, WORK.position) - load_vec3(world.work, b, j, WORK.position)
        u, angular_velocity = centre_motion(world, b, i, j, centre, separation)
        s, angle = load_displacement(world, states, b, slot, first_bristle(world) + pair_column(p))
        column, rotation = first_bristle_bar(world) + pair_column(p), load_vec4(world.work, b, j, WORK.quaternion)
        new_displacement_bar, new_angle_bar = load_displacement(world, bar, b, row, column)
        s, new_displacement_bar = rotated(rotation, s), rotated(rotation, new_displacement_bar)
        virtual_spin, virtual_spin_j = load_vec3(world.work, b, i, WORK.virtual), load_vec3(world.work, b, j, WORK.virtual)
        virtual_velocity = load_vec3(world.work, b, i, WORK.virtual + 3) + virtual_spin.cross(centre)
        virtual_velocity -= load_vec3(world.work, b, j, WORK.virtual + 3) + virtual_spin_j.cross(centre + separation)
        linearization = patch_friction.linearize(
            patch_vec3(patch, PATCH.resultant),
            patch[PATCH.squared_radius],
            patch_vec3(patch, PATCH.path),
            u,
            angular_velocity,
            s,
            angle,
            contact,
            patch[PATCH.kt],
            world.dt,
        )
        force, moment, new_displacement, _angle = linearization.value
        resultant_bar, squared_radius_bar, path_bar, u_bar, angular_velocity_bar, s_bar, angle_bar, contact_bar, kt_bar, _dt = (
            linearization.vjp((-virtual_velocity, virtual_spin_j - virtual_spin, new_displacement_bar, new_angle_bar))
        )
        centre_bar = point_adjoint(world, b, i, centre, force, u_bar)
        separation_bar = point_adjoint(world, b, j, centre + separation, -force, -u_bar)
        row_i, row_j = contact_row(world, i), contact_row(world, j)
        add_vec3(world.work, b, row_i, WORK.bars + 3, separation_bar)
        add_vec3(world.work, b, row_j, WORK.bars + 3, -separation_bar)
        add_vec3(world.work, b, row_i, WORK.bars + 6, angular_velocity_bar)
        add_vec3(world.work, b, row_j, WORK.bars + 6, -angular_velocity_bar)
        add_vec3(world.work, b, row_i, WORK.bars + 18, -moment)
        add_vec3(world.work, b, row_j, WORK.bars + 18, moment)
        # The frame of j rotates the displacement before the step forwards, and that after it backwards.
        add_vec3(world.work, b, row_j, WORK.bars, s.cross(s_bar) - new_displacement.cross(new_displacement_bar))
        store_displacement(bar, b, row, column, rotated_back(rotation, s_bar), angle_bar)
        add_parameter_adjoints(bars, b, row_i, 0.5 * contact_bar, 0.5 * kt_bar)
        add_parameter_adjoints(bars, b, row_j, 0.5 * contact_bar, 0.5 * kt_bar)
        centre_bar += separation_bar
        for k in ti.static(range(3)):
            patch[PATCH.centre_bar + k] = centre_bar[k]
            patch[PATCH.resultant_bar + k] = resultant_bar[k]
            patch[PATCH.path_bar + k] = path_bar[k]
        patch[PATCH.squared_radius_bar] = squared_radius_bar
