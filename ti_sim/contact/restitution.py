"""Coefficient of restitution of the contact law, and the damping for a required coefficient (numpy, no kernels).

A mass m that hits the ground at one contact point moves by m c'' = -f_n, with the depth c and the force f_n = ke c + kd c' of
``ti_sim.contact.law``. A contact does not pull, so it ends when this force is zero, which is before the depth is zero. With the
frequency w = sqrt(ke / m) and the damping ratio z = kd / (2 sqrt(ke m)) it lasts

    t = 2 acos(z) / (w sqrt(1 - z^2)) for z < 1,    2 / w for z = 1,    2 acosh(z) / (w sqrt(z^2 - 1)) for z > 1,

and the mass leaves with e = exp(-z w t) times its speed v (Schwager and Poeschel, Coefficient of restitution and linear-dashpot
model revisited, Granular Matter 9, 2007), at the depth kd e v / ke. As z grows, e falls from 1 to 0, so each e in this range
belongs to one damping. A law whose contact ends at zero depth has exp(-pi z / sqrt(1 - z^2)) instead, and no rebound for z >= 1.

These are the limits for short steps and for contact forces far above the weight. The damper of a step reads the velocity of the
previous step, which changes e by an amount of order dt kd / m.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import FiniteArray, checked

_NEAR_ONE = 1e-4  # of the damping ratio: nearer to one a series is more accurate
_HALVINGS = 80


@checked
def restitution(stiffness: FiniteArray, damping: FiniteArray, mass: FiniteArray) -> np.ndarray:
    """Speed after a normal impact on one contact point, relative to the speed before it (Schwager and Poeschel 2007).

    Args:
        stiffness: ke [N/m], above zero.
        damping: kd [N s/m], not negative.
        mass: mass that hits the ground [kg], above zero; for a corner ``effective_mass``. Arrays are broadcast.

    Returns:
        e in (0, 1], float64 of the broadcast shape.

    Raises:
        UserError: a number is out of its range.
    """
    return np.exp(-2 * _half_angle_times_ratio(_damping_ratio(stiffness, damping, mass)))


@checked
def contact_time(stiffness: FiniteArray, damping: FiniteArray, mass: FiniteArray) -> np.ndarray:
    """Duration of a normal impact on one contact point: until the force is zero (Schwager and Poeschel 2007).

    Args:
        stiffness, damping, mass: as in ``restitution``.

    Returns:
        Seconds, float64 of the broadcast shape.

    Raises:
        UserError: a number is out of its range.
    """
    ratio = _damping_ratio(stiffness, damping, mass)
    return 2 * _half_angle(ratio) * np.sqrt(np.asarray(mass, np.float64) / np.asarray(stiffness, np.float64))


@checked
def damping_for_restitution(stiffness: FiniteArray, restitution: FiniteArray, mass: FiniteArray) -> np.ndarray:
    """Damping of a contact with a required coefficient of restitution: inverse of ``restitution``, by bisection.

    Args:
        stiffness: ke [N/m], above zero.
        restitution: e in (0, 1].
        mass: mass that hits the ground [kg], above zero. Arrays are broadcast.

    Returns:
        kd [N s/m], float64 of the broadcast shape.

    Raises:
        UserError: a number is out of its range.
    """
    stiffness, mass = _above_zero("stiffness", stiffness), _above_zero("mass", mass)
    coefficient = np.asarray(restitution, np.float64)
    if not ((coefficient > 0) & (coefficient <= 1)).all():
        raise UserError(f"restitution is {restitution}: give numbers above 0 and at most 1")
    target = -0.5 * np.log(coefficient)
    # Bisection of the logarithm of the ratio z: z acos(z) / sqrt(1 - z^2) increases; it is below 2 z, and above ln z from 1 on.
    low, high = np.log(np.maximum(0.5 * target, np.finfo(np.float64).tiny)), np.maximum(target, 1.0)
    for _ in range(_HALVINGS):
        midpoint = 0.5 * (low + high)
        is_above = _half_angle_times_ratio(np.exp(midpoint)) > target
        low, high = np.where(is_above, low, midpoint), np.where(is_above, midpoint, high)
    ratio = np.where(target > 0, np.exp(0.5 * (low + high)), 0.0)
    return 2 * ratio * np.sqrt(stiffness * mass)


@checked
def effective_mass(mass: FiniteArray, inertia: FiniteArray, arm: FiniteArray, normal: FiniteArray) -> np.ndarray:
    """Mass with which a free body resists a frictionless force at a point: 1 / (1 / m + n . (I^-1 (r x n)) x r).

    A corner that hits the ground bounces as a point of this mass.

    Args:
        mass: [...] kg, above zero.
        inertia: [..., 3, 3] about the centre of mass, in the axes of arm and normal [kg m2].
        arm: [..., 3] from the centre of mass to the point [m].
        normal: [..., 3] direction of the force, of any length.

    Returns:
        [...] kg, float64; at most ``mass``.

    Raises:
        UserError: the mass is not above zero, or the normal is zero.
    """
    mass, inertia, arm, normal = _above_zero("mass", mass), *(np.asarray(x, np.float64) for x in (inertia, arm, normal))
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    if not (length > 0).all():
        raise UserError("the normal is zero: give a direction")
    lever = np.cross(arm, normal / length)
    angular_response = np.linalg.solve(inertia, lever[..., None])[..., 0]
    return 1 / (1 / mass + (lever * angular_response).sum(axis=-1))


def _above_zero(name: str, values: Any) -> np.ndarray:
    """The values in float64; a UserError if one is not finite and above zero."""
    array = np.asarray(values, np.float64)
    if not (np.isfinite(array) & (array > 0)).all():
        raise UserError(f"{name} is {values}: give finite numbers above zero")
    return array


def _damping_ratio(stiffness: FiniteArray, damping: FiniteArray, mass: FiniteArray) -> np.ndarray:
    """z = kd / (2 sqrt(ke m)) of checked numbers."""
    stiffness, mass, values = _above_zero("stiffness", stiffness), _above_zero("mass", mass), np.asarray(damping, np.float64)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise UserError(f"damping is {damping}: give finite numbers that are not negative")
    return values / (2 * np.sqrt(stiffness * mass))


def _half_angle(ratio: np.ndarray) -> np.ndarray:
    """Half of w t: acos(z) / sqrt(1 - z^2) below z = 1, acosh(z) / sqrt(z^2 - 1) above it."""
    underdamped, overdamped = np.minimum(ratio, 1 - _NEAR_ONE), np.maximum(ratio, 1 + _NEAR_ONE)
    s = 1 - ratio
    series = 1 + s / 3 + 2 * s**2 / 15  # error: 2 s^3 / 35
    exact = np.where(
        ratio < 1, np.arccos(underdamped) / np.sqrt(1 - underdamped**2), np.arccosh(overdamped) / np.sqrt(overdamped**2 - 1)
    )
    return np.where(np.abs(s) < _NEAR_ONE, series, exact)


def _half_angle_times_ratio(ratio: np.ndarray) -> np.ndarray:
    """-ln(e) / 2 as a function of z."""
    return ratio * _half_angle(ratio)
