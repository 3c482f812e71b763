"""Errors for a wrong name, which list the names that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["similar_names", "unknown_name_error"]

_MAX_LISTED = 12
_MIN_SIMILARITY = 0.6
# A name this much more like the given one than another makes the other not worth a mention.
_CLEAR_LEAD = 0.15
# Words for one thing, or for things of which a scene has one or another; last parts of names, small letters.
_ALIKE = tuple(
    frozenset(words.split())
    for words in (
        "mass density weight rho area_density inertia inertia_per_mass",
        "stiffness e young youngs youngs_modulus young_modulus modulus elasticity elastic_modulus rigidity hardness k ke lam mu "
        "lambda shear_modulus bulk_modulus lame spring_constant",
        "nu poisson poissons_ratio poisson_ratio poisson_s_ratio",
        "friction mu friction_coefficient coefficient_of_friction cof",
        "friction_stiffness kf tangential_stiffness",
        "damping kd viscosity dissipation restitution bounce bounciness",
        "velocity speed v v0 initial_velocity linear_velocity qd",
        "angular_velocity angular_speed omega spin rate",
        "position positions place location translation x0 start pos xyz pose center origin",
        "rotation orientation quaternion attitude turn angle pose rpy euler",
        "angle joint_angle theta q rest",
        "color colour colors colours albedo tint face_colors vertex_colors texture rgb",
        "intensity brightness power radiance strength",
        "force impulse push load thrust thrusts actions action torque actuation control controls",
        "gravity g",
        "linear_drag drag air_drag air_resistance angular_drag",
        "length rest_length size height",
        "focal focal_length fov field_of_view vertical_fov zoom",
        "sigma blur softness edge_softness",
    )
)


def similar_names(name: str, candidates: Iterable[str], *, most: int = 3) -> list[str]:
    """The candidates most similar to ``name``, best first.

    A name is similar when its spelling is close (in full, or in its last dotted part), when one name contains the other, or when
    the last parts mean the same (young and E) or things of which a body has one or the other (mass and density).

    Args:
        name: what the user wrote.
        candidates: the names there are.
        most: how many to return at most.

    Returns:
        At most ``most`` names; empty when none is similar.
    """
    scores = {candidate: _likeness(name.lower(), candidate.lower()) for candidate in candidates}
    least = max(_MIN_SIMILARITY, max(scores.values(), default=0.0) - _CLEAR_LEAD)
    similar = [candidate for candidate, score in scores.items() if score >= least]
    return sorted(similar, key=lambda candidate: (-scores[candidate], candidate))[:most]


@checked
def unknown_name_error(kind: str, name: str, valid_names: Iterable[str]) -> UserError:
    """The error to raise for an unknown name.

    Args:
        kind: what the name stands for, in the singular: "parameter", "scene", "option".
        name: what the user wrote.
        valid_names: the names there are.

    Returns:
        A ``UserError`` (not raised) that gives similar names and the valid ones.
    """
    names = sorted(valid_names)
    if not names:
        return UserError(f"unknown {kind} {name!r}: there is no {kind} to choose from")
    similar = similar_names(name, names)
    if not similar:
        return UserError(f"unknown {kind} {name!r}: choose one of {_listed(names)}")
    guesses = " or ".join(repr(candidate) for candidate in similar)
    return UserError(f"unknown {kind} {name!r}: did you mean {guesses}? (known: {_listed(names)})")


def _likeness(name: str, candidate: str) -> float:
    """How much two names look alike: 0 nothing, 1 the same."""
    ratio = difflib.SequenceMatcher(a=name, b=candidate).ratio()
    last = difflib.SequenceMatcher(a=_last_part(name), b=_last_part(candidate)).ratio()
    contained = len(name) > 2 and name in candidate or len(candidate) > 2 and candidate in name
    # The last part alone says less than the whole name: "a.mass" is not "b.mass".
    return max(ratio, 0.9 * last, 0.75 if contained else 0.0, _likeness_of_meaning(name, candidate))


def _likeness_of_meaning(name: str, candidate: str) -> float:
    """0.95 for names of the same owner whose last parts mean alike, down to 0.7 for those of owners that look different."""
    last, other_last = _last_part(name).replace("-", "_"), _last_part(candidate)
    if not any(last in words and other_last in words for words in _ALIKE):
        return 0.0
    owner, other_owner = name.rpartition(".")[0], candidate.rpartition(".")[0]
    owner_likeness = difflib.SequenceMatcher(a=owner, b=other_owner).ratio() if owner else 0.5
    return 0.7 + 0.25 * owner_likeness


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _listed(names: list[str]) -> str:
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"
