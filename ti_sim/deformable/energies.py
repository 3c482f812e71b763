"""Elastic energy densities of solids at a point: the density Psi(F), the stress P = dPsi/dF and its differential dP(F; dF).

F is the deformation gradient (3x3); mu and lambda [Pa] are the parameters of the energy itself, which ``solids.energy_constants``
computes from those of linear elasticity; a [1] is the actuation, a target change of volume (St. Venant-Kirchhoff: of the trace of
the strain). All densities are zero at F = 1 and a = 0, invariant under rotations, and defined for inverted F:

- neo_hookean: mu/2 (|F|^2 - 3) + lambda/2 (J - 1 - a)^2 - 3/4 mu (J - 1) - mu/2 log((|F|^2 + 1) / 4), the stable neo-Hookean
  material (Smith et al. 2018; gradSim, Eq. 1) with its square expanded, so that there is no division by lambda;
- corotated: mu |F - R|^2 + lambda/2 (J - 1 - a)^2, R the rotation closest to F;
- stvk: mu E:E + lambda/2 (tr E - a)^2, E = (F^T F - 1) / 2.

Explicit adjoints, implicit steps and implicit adjoints all need the same dP, which is symmetric: <dP(F; A), B> = <dP(F; B), A>.
"""

from ti_sim.base.lanes import matrix_like, vector_like
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, rotation_matrix, vec3, vec4
from ti_sim.deformable.families import ENERGIES

COROTATED, STVK = (ENERGIES.index(name) for name in ("corotated", "stvk"))

_NEWTON_STEPS = 40  # maximum for the sum of the singular values; a few are enough unless F is nearly flat
# Smallest determinant of the equations for the change of rotation, over the cubed sum of the singular values.
_MIN_DETERMINANT = 1e-6
_TINY = 1e-18  # its square is a normal number in f32


@ti.func
def inner(a, b):
    """Frobenius inner product of two 3x3 matrices."""
    return (
        a[0, 0] * b[0, 0] + a[0, 1] * b[0, 1] + a[0, 2] * b[0, 2]
        + a[1, 0] * b[1, 0] + a[1, 1] * b[1, 1] + a[1, 2] * b[1, 2]
        + a[2, 0] * b[2, 0] + a[2, 1] * b[2, 1] + a[2, 2] * b[2, 2]
    )  # fmt: skip


@ti.func
def cofactor(f):
    """Cofactor matrix, the derivative of the determinant."""
    return matrix_like(
        f,
        f[1, 1] * f[2, 2] - f[1, 2] * f[2, 1], f[1, 2] * f[2, 0] - f[1, 0] * f[2, 2], f[1, 0] * f[2, 1] - f[1, 1] * f[2, 0],
        f[2, 1] * f[0, 2] - f[2, 2] * f[0, 1], f[2, 2] * f[0, 0] - f[2, 0] * f[0, 2], f[2, 0] * f[0, 1] - f[2, 1] * f[0, 0],
        f[0, 1] * f[1, 2] - f[0, 2] * f[1, 1], f[0, 2] * f[1, 0] - f[0, 0] * f[1, 2], f[0, 0] * f[1, 1] - f[0, 1] * f[1, 0],
    )  # fmt: skip


@ti.func
def cofactor_differential(f, g):
    """Differential of ``cofactor(f)`` for a change g of f."""
    return matrix_like(
        f,
        f[1, 1] * g[2, 2] + g[1, 1] * f[2, 2] - f[1, 2] * g[2, 1] - g[1, 2] * f[2, 1],
        f[1, 2] * g[2, 0] + g[1, 2] * f[2, 0] - f[1, 0] * g[2, 2] - g[1, 0] * f[2, 2],
        f[1, 0] * g[2, 1] + g[1, 0] * f[2, 1] - f[1, 1] * g[2, 0] - g[1, 1] * f[2, 0],
        f[2, 1] * g[0, 2] + g[2, 1] * f[0, 2] - f[2, 2] * g[0, 1] - g[2, 2] * f[0, 1],
        f[2, 2] * g[0, 0] + g[2, 2] * f[0, 0] - f[2, 0] * g[0, 2] - g[2, 0] * f[0, 2],
        f[2, 0] * g[0, 1] + g[2, 0] * f[0, 1] - f[2, 1] * g[0, 0] - g[2, 1] * f[0, 0],
        f[0, 1] * g[1, 2] + g[0, 1] * f[1, 2] - f[0, 2] * g[1, 1] - g[0, 2] * f[1, 1],
        f[0, 2] * g[1, 0] + g[0, 2] * f[1, 0] - f[0, 0] * g[1, 2] - g[0, 0] * f[1, 2],
        f[0, 0] * g[1, 1] + g[0, 0] * f[1, 1] - f[0, 1] * g[1, 0] - g[0, 1] * f[1, 0],
    )


@ti.func
def symmetric_product(a, b):
    """Symmetric part of a^T b."""
    c = a.transpose() @ b
    xy, yz, zx = 0.5 * (c[0, 1] + c[1, 0]), 0.5 * (c[1, 2] + c[2, 1]), 0.5 * (c[2, 0] + c[0, 2])
    return matrix_like(c, c[0, 0], xy, zx, xy, c[1, 1], yz, zx, yz, c[2, 2])


@ti.func
def green_strain(f):
    """E = (F^T F - 1) / 2."""
    strain = 0.5 * (f.transpose() @ f)
    for i in ti.static(range(3)):
        strain[i, i] -= 0.5
    return strain


@ti.func
def nearest_rotation(f):
    """Rotation R with the largest <R, F>: the rotation of the polar decomposition if det F > 0; defined for every F.

    In quaternions <R, F> is a quadratic form. Its largest eigenvalue is the sum of the singular values (the smallest one with the
    sign of det F). Newton's method on the characteristic polynomial converges to it from the bound sqrt(3) |F| without overshoot.
    All columns of the adjugate are then parallel to the eigenvector, and the longest one is used.
    """
    norm = ti.sqrt(inner(f, f))
    q = vec4(0.0, 0.0, 0.0, 1.0)
    if norm > _TINY:
        a = f / norm
        c = cofactor(a)
        determinant = a[0, 0] * c[0, 0] + a[0, 1] * c[0, 1] + a[0, 2] * c[0, 2]
        squared_cofactor_norm = inner(c, c)
        eigenvalue = ti.sqrt(3.0 * inner(a, a))
        for _ in range(_NEWTON_STEPS):
            pair_sum = 0.5 * (eigenvalue * eigenvalue - 1)  # sum of the products of pairs of singular values, at the root
            polynomial_derivative = 2 * (pair_sum * eigenvalue - determinant)
            next_eigenvalue = eigenvalue
            if polynomial_derivative > 0:
                next_eigenvalue = (
                    eigenvalue
                    - (pair_sum * pair_sum - 2 * determinant * eigenvalue - squared_cofactor_norm) / polynomial_derivative
                )
            if not next_eigenvalue < eigenvalue:
                break
            eigenvalue = next_eigenvalue
        # eigenvalue - (matrix of the quadratic form), in the order x, y, z, w.
        xx, yy = eigenvalue - a[0, 0] + a[1, 1] + a[2, 2], eigenvalue + a[0, 0] - a[1, 1] + a[2, 2]
        zz, ww = eigenvalue + a[0, 0] + a[1, 1] - a[2, 2], eigenvalue - a[0, 0] - a[1, 1] - a[2, 2]
        xy, xz, yz = -a[0, 1] - a[1, 0], -a[0, 2] - a[2, 0], -a[1, 2] - a[2, 1]
        xw, yw, zw = a[1, 2] - a[2, 1], a[2, 0] - a[0, 2], a[0, 1] - a[1, 0]
        # Minors of the first two and of the last two rows.
        s0, s1, s2 = xx * yy - xy * xy, xx * yz - xy * xz, xx * yw - xy * xw
        s3, s4, s5 = xy * yz - yy * xz, xy * yw - yy * xw, xz * yw - yz * xw
        c5, c4, c3 = zz * ww - zw * zw, yz * ww - yw * zw, yz * zw - yw * zz
        c2, c1 = xz * ww - xw * zw, xz * zw - xw * zz
        column0 = vec4(yy * c5 - yz * c4 + yw * c3, -xy * c5 + xz * c4 - xw * c3, yw * s5 - zw * s4 + ww * s3,
                     -yz * s5 + zz * s4 - zw * s3)  # fmt: skip
        column1 = vec4(column0.y, xx * c5 - xz * c2 + xw * c1, -xw * s5 + zw * s2 - ww * s1, xz * s5 - zz * s2 + zw * s1)
        column2 = vec4(column0.z, column1.z, xw * s4 - yw * s2 + ww * s0, -xz * s4 + yz * s2 - zw * s0)
        column3 = vec4(column0.w, column1.w, column2.w, xz * s3 - yz * s1 + zz * s0)
        longest_column = column3
        longest_diagonal = column3.w
        if column2.z > longest_diagonal:
            longest_column, longest_diagonal = column2, column2.z
        if column1.y > longest_diagonal:
            longest_column, longest_diagonal = column1, column1.y
        if column0.x > longest_diagonal:
            longest_column, longest_diagonal = column0, column0.x
        if longest_column.norm_sqr() > _TINY * _TINY:
            q = longest_column.normalized()
    return rotation_matrix(q)


@ti.func
def rotation_differential(f, rotation, g):
    """Differential of ``rotation = nearest_rotation(f)`` for a change g of f.

    It is R [w]x with (tr U - U) w the axial vector of R^T dF - dF^T R, and U = R^T F. The matrix is singular if F maps onto a
    line, or inverts by as much as it stretches. The rotation is discontinuous there, and the result is bounded.
    """
    u = symmetric_product(rotation, f)
    trace = u[0, 0] + u[1, 1] + u[2, 2]
    h = rotation.transpose() @ g
    axis = vec3(h[2, 1] - h[1, 2], h[0, 2] - h[2, 0], h[1, 0] - h[0, 1])
    m = -u
    for i in ti.static(range(3)):
        m[i, i] = trace - u[i, i]
    adjugate = cofactor(m)
    determinant = m[0, 0] * adjugate[0, 0] + m[0, 1] * adjugate[0, 1] + m[0, 2] * adjugate[0, 2]
    w = adjugate @ axis / ti.max(determinant, _MIN_DETERMINANT * trace * trace * trace + _TINY)
    return rotation @ mat3(0.0, -w.z, w.y, w.z, 0.0, -w.x, -w.y, w.x, 0.0)


@ti.func
def energy_density(energy: ti.template(), f, mu, lam, actuation):
    """Psi(F) [J/m3].

    Args:
        energy: index of the energy in ``ENERGIES``, a compile-time constant.
        f: deformation gradient.
        mu, lam: parameters of the energy [Pa].
        actuation: target change of volume [1].
    """
    psi = 0.0
    if ti.static(energy == STVK):
        strain = green_strain(f)
        dilation = strain[0, 0] + strain[1, 1] + strain[2, 2] - actuation
        psi = mu * inner(strain, strain) + 0.5 * lam * dilation * dilation
    else:
        volume_change = f.determinant() - 1
        psi = 0.5 * lam * (volume_change - actuation) * (volume_change - actuation)
        if ti.static(energy == COROTATED):
            deviation = f - nearest_rotation(f)
            psi += mu * inner(deviation, deviation)
        else:
            squared_norm = inner(f, f)
            psi += mu * (0.5 * (squared_norm - 3) - 0.75 * volume_change - 0.5 * ti.log(0.25 * (squared_norm + 1)))
    return psi


@ti.func
def stress(energy: ti.template(), f, mu, lam, actuation):
    """First Piola-Kirchhoff stress P(F) = dPsi/dF [Pa]; arguments as in ``energy_density``."""
    p = mat3(0.0)
    if ti.static(energy == STVK):
        strain = green_strain(f)
        pressure = lam * (strain[0, 0] + strain[1, 1] + strain[2, 2] - actuation)
        second_stress = 2 * mu * strain
        for i in ti.static(range(3)):
            second_stress[i, i] += pressure
        p = f @ second_stress
    elif ti.static(energy == COROTATED):
        c = cofactor(f)
        p = 2 * mu * (f - nearest_rotation(f)) + lam * excess_volume_of(f, c, actuation) * c
    else:
        p = neo_hookean_stress(f, mu, lam, actuation)
    return p


@ti.func
def excess_volume_of(f, c, actuation):
    """det F - 1 - a, from F and its cofactors c."""
    return f[0, 0] * c[0, 0] + f[0, 1] * c[0, 1] + f[0, 2] * c[0, 2] - 1.0 - actuation


@ti.func
def neo_hookean_stress(f, mu, lam, actuation):
    """``stress`` of the neo-Hookean energy; also in lanes (``ti_sim.base.lanes``)."""
    c = cofactor(f)
    return f * (mu * (1.0 - 1.0 / (inner(f, f) + 1.0))) + c * (lam * excess_volume_of(f, c, actuation) - 0.75 * mu)


@ti.func
def neo_hookean_differential(f, g, mu, lam, actuation):
    """``stress_differential`` of the neo-Hookean energy; also in lanes."""
    c = cofactor(f)
    excess_volume, volume_differential = excess_volume_of(f, c, actuation), inner(c, g)
    inverse, inner_product = 1.0 / (inner(f, f) + 1.0), inner(f, g)
    dp = (
        g * (mu * (1.0 - inverse)) + f * (2.0 * mu * inverse * inverse * inner_product) + c * (lam * volume_differential)
        + cofactor_differential(f, g) * (lam * excess_volume - 0.75 * mu)
    )  # fmt: skip
    parameter_derivatives = vector_like(
        f, (1.0 - inverse) * inner_product - 0.75 * volume_differential, excess_volume * volume_differential,
        0.0 - lam * volume_differential,
    )  # fmt: skip
    return dp, parameter_derivatives


@ti.func
def rotation_for(energy: ti.template(), f):
    """Argument ``rotation`` of ``stress_differential``: ``nearest_rotation`` of f if the energy depends on it, else zero."""
    rotation = mat3(0.0)
    if ti.static(energy == COROTATED):
        rotation = nearest_rotation(f)
    return rotation


@ti.func
def stress_differential(energy: ti.template(), f, rotation, g, mu, lam, actuation):
    """Differential dP(F; G) of the stress, and the derivatives of <P, G> with respect to the parameters.

    Args:
        energy, f, mu, lam: as in ``energy_density``.
        rotation: ``rotation_for`` the energy and f.
        g: change of f, or the adjoint of the stress (dP is symmetric).
        actuation: as in ``energy_density``.

    Returns:
        dP, and the 3-vector of derivatives of <P, G> with respect to (mu, lambda, actuation).
    """
    dp = mat3(0.0)
    parameter_derivatives = vec3(0.0)
    if ti.static(energy == STVK):
        strain = green_strain(f)
        strain_differential = symmetric_product(f, g)
        dilation = strain[0, 0] + strain[1, 1] + strain[2, 2] - actuation
        volume_differential = strain_differential[0, 0] + strain_differential[1, 1] + strain_differential[2, 2]
        second_stress, second_stress_differential = 2 * mu * strain, 2 * mu * strain_differential
        for i in ti.static(range(3)):
            second_stress[i, i] += lam * dilation
            second_stress_differential[i, i] += lam * volume_differential
        dp = g @ second_stress + f @ second_stress_differential
        parameter_derivatives = vec3(
            2 * inner(strain, strain_differential), dilation * volume_differential, -lam * volume_differential
        )
    elif ti.static(energy == COROTATED):
        c = cofactor(f)
        excess_volume, volume_differential = excess_volume_of(f, c, actuation), inner(c, g)
        dp = 2 * mu * (g - rotation_differential(f, rotation, g)) + lam * volume_differential * c
        dp += lam * excess_volume * cofactor_differential(f, g)
        parameter_derivatives = vec3(
            2 * inner(f - rotation, g), excess_volume * volume_differential, -lam * volume_differential
        )
    else:
        dp, parameter_derivatives = neo_hookean_differential(f, g, mu, lam, actuation)
    return dp, parameter_derivatives
