"""Errors for unknown names, with suggestions of similar names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["similar_names", "unknown_name_error"]

_MAX_LISTED = 12
_MIN_SIMILARITY = 0.6
_MAX_SCORE_GAP = 0.15  # from the best score to that of the last suggested name
# Synonyms, and words for quantities of which a scene has one or the other; last parts of names, lower case.
_SYNONYMS = tuple(
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

    Names are similar if their spelling is similar (in full, or in the last dotted part), if one contains the other, or if the
    last parts are synonyms (young and E) or alternatives (mass and density).

    Args:
        name: name that the user wrote.
        candidates: valid names.
        most: largest number of names to return.

    Returns:
        At most ``most`` names; empty when none is similar.
    """
    scores = {candidate: _similarity(name.lower(), candidate.lower()) for candidate in candidates}
    min_score = max(_MIN_SIMILARITY, max(scores.values(), default=0.0) - _MAX_SCORE_GAP)
    similar = [candidate for candidate, score in scores.items() if score >= min_score]
    return sorted(similar, key=lambda candidate: (-scores[candidate], candidate))[:most]


@checked
def unknown_name_error(kind: str, name: str, valid_names: Iterable[str]) -> UserError:
    """The error to raise for an unknown name.

    Args:
        kind: kind of name, in the singular: "parameter", "scene", "option".
        name: name that the user wrote.
        valid_names: valid names.

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


def _similarity(name: str, candidate: str) -> float:
    """Similarity of two names, from 0 to 1 for equal names."""
    full_ratio = difflib.SequenceMatcher(a=name, b=candidate).ratio()
    last_part_ratio = difflib.SequenceMatcher(a=_last_part(name), b=_last_part(candidate)).ratio()
    is_contained = len(name) > 2 and name in candidate or len(candidate) > 2 and candidate in name
    # Equal last parts do not make names equal: "a.mass" is not "b.mass".
    return max(full_ratio, 0.9 * last_part_ratio, 0.75 if is_contained else 0.0, _similarity_of_meaning(name, candidate))


def _similarity_of_meaning(name: str, candidate: str) -> float:
    """0 unless last parts are synonyms; else 0.7 plus 0.25 times the similarity of the owners (the parts before the last)."""
    last, other_last = _last_part(name).replace("-", "_"), _last_part(candidate)
    if not any(last in words and other_last in words for words in _SYNONYMS):
        return 0.0
    owner, other_owner = name.rpartition(".")[0], candidate.rpartition(".")[0]
    owner_similarity = difflib.SequenceMatcher(a=owner, b=other_owner).ratio() if owner else 0.5
    return 0.7 + 0.25 * owner_similarity


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _listed(names: list[str]) -> str:
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"
