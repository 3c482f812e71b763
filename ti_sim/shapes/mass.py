"""Mass properties of a homogeneous solid from its surface, and checks of given masses and inertias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.shapes.surface import TriangleMesh

_ROUNDING_TOLERANCE = 1e-8  # relative: manually entered numbers are rounded
_INERTIA_TOLERANCE = 1e-3  # relative: inertias in robot files have three digits or more


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Integrals over a solid of density 1.

    Attributes:
        volume: m3; times the density (kg/m3) it is the mass.
        centre_of_mass: [3] float64, m, in the shape's frame.
        inertia_per_density: [3, 3] float64, m5, about the centre of mass along the axes of the shape's frame; times the density
            it is the inertia in kg m2.
    """

    volume: float
    centre_of_mass: np.ndarray
    inertia_per_density: np.ndarray


def integrate_surface(mesh: TriangleMesh) -> MassProperties:
    """Volume, centre of mass and inertia of the solid inside a closed surface.

    The solid is the signed sum of the tetrahedra between each face and one fixed point (divergence theorem); the second
    moment of such a tetrahedron (0, a, b, c) is ``det(a b c) / 120 * (s s^T + a a^T + b b^T + c c^T)`` with
    ``s = a + b + c`` (J. Blow and A. J. Binstock, "How to find the inertia tensor (or other mass properties) of a 3D
    solid body represented by a triangle mesh", 2004).

    Args:
        mesh: closed mesh with outward normals, in the frame of the result.
    """
    vertices = mesh.vertices
    origin = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))  # near the solid, to avoid cancellation
    corners = vertices[mesh.faces] - origin
    determinant = np.einsum("fi,fi->f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2]))
    sums = corners.sum(axis=1)
    volume = determinant.sum() / 6.0
    centre = determinant @ sums / (24.0 * volume)
    moment = np.einsum("f,fi,fj->ij", determinant, sums, sums) + np.einsum("f,fki,fkj->ij", determinant, corners, corners)
    moment = moment / 120.0 - volume * np.outer(centre, centre)
    inertia = np.trace(moment) * np.eye(3) - moment
    return MassProperties(float(volume), origin + centre, 0.5 * (inertia + inertia.T))


def check_mass(m: float, name: str) -> float:
    """Return a mass in kg as a float.

    Args:
        m: kg.
        name: name in error messages, for example "die.mass".

    Raises:
        UserError: the mass is not one finite positive number.
    """
    try:
        mass = float(m)
    except (TypeError, ValueError):
        raise UserError(f"{name} is {m!r}: give one number in kg") from None
    if not (np.isfinite(mass) and mass > 0):
        raise UserError(f"{name} is {mass:g} kg: give a finite mass above zero")
    return mass


def possible_inertia(inertia: np.ndarray) -> np.ndarray:
    """Whether inertias are physical: no principal moment is negative or larger than the sum of the other two.

    Args:
        inertia: [..., 3, 3] kg m2 or m2; the symmetric part is checked, to three digits.

    Returns:
        [...] bool.
    """
    moments = np.linalg.eigvalsh(0.5 * (inertia + np.swapaxes(inertia, -1, -2)))
    low, middle, high = np.moveaxis(moments, -1, 0)
    return (low >= -_INERTIA_TOLERANCE * np.abs(high)) & (high <= (low + middle) * (1 + _INERTIA_TOLERANCE))


def check_inertia(I: np.ndarray, name: str, *, solid: bool = True) -> np.ndarray:  # noqa: E741, N803 (the field's symbol)
    """Return an inertia as a float64 array [3, 3] in kg m2 after checking that it is physical.

    Args:
        I: [3, 3] kg m2 about the centre of mass.
        name: name in error messages, for example "die.inertia".
        solid: whether it is the inertia of a solid; otherwise moments may be zero (point masses, thin rods, frames without mass),
            and the triangle inequality is not checked.

    Raises:
        UserError: the inertia is not finite, symmetric and positive definite (semidefinite if it is not a solid's), or violates
            the triangle inequality (no principal moment exceeds the sum of the other two, because they are integrals of y2 + z2,
            x2 + z2 and x2 + y2).
    """
    try:
        inertia = np.array(I, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} is not an array of numbers: give a 3 x 3 matrix in kg m2") from None
    if inertia.shape != (3, 3):
        raise UserError(f"{name} has shape {inertia.shape}: give a 3 x 3 matrix in kg m2 (np.diag for principal moments)")
    if not np.isfinite(inertia).all():
        raise UserError(f"{name} has entries that are not finite: give a 3 x 3 matrix in kg m2")
    largest_entry = np.abs(inertia).max()
    if np.abs(inertia - inertia.T).max() > _ROUNDING_TOLERANCE * largest_entry:
        raise UserError(f"{name} is not symmetric: entries [i, j] and [j, i] must be equal")
    moments = np.linalg.eigvalsh(0.5 * (inertia + inertia.T))
    shown = ", ".join(f"{moment:.4g}" for moment in moments)
    if not solid:
        if moments[0] < -_INERTIA_TOLERANCE * largest_entry:
            raise UserError(f"{name} has the principal moments {shown} kg m2, and none may be below zero")
        return 0.5 * (inertia + inertia.T)
    if moments[0] <= 1e-14 * largest_entry:
        raise UserError(f"{name} is not positive definite: its principal moments are {shown} kg m2, and all must be above zero")
    if moments[2] > (moments[0] + moments[1]) * (1 + _ROUNDING_TOLERANCE):
        raise UserError(
            f"{name} breaks the triangle inequality: its principal moments are {shown} kg m2, and no body has one "
            "above the sum of the other two: check units and signs of the products of inertia"
        )
    return 0.5 * (inertia + inertia.T)
