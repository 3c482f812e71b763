"""Choices of time stepping: integrators and execution plans."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ti_sim.base.errors import UserError

ExplicitIntegrator = Literal["semi_implicit", "rk4"]  # of rigid and of articulated bodies
ImplicitIntegrator = Literal["backward_euler", "bdf2", "sdirk2"]  # of deformable bodies
DeformableIntegrator = Literal["semi_implicit", "backward_euler", "bdf2", "sdirk2"]
AnyIntegrator = Literal["semi_implicit", "rk4", "backward_euler", "bdf2", "sdirk2"]
IMPLICIT = get_args(ImplicitIntegrator)
Plan = Literal["auto", "world", "element"]


def check_integrator(integrator: str, allowed: Any = ExplicitIntegrator) -> None:
    """Raise a UserError for an integrator that is not in the Literal ``allowed``."""
    if integrator in get_args(AnyIntegrator) and integrator not in get_args(allowed):
        raise UserError(f"integrator {integrator!r} is not one of these bodies': choose {_joined_choices(allowed)}")
    _check("integrator", integrator, allowed)


def check_plan(plan: str, integrator: str = "semi_implicit") -> None:
    """Raise a UserError for an unknown plan, or one without this integrator."""
    _check("plan", plan, Plan)
    if plan != "auto" and integrator in IMPLICIT:
        raise UserError(f"plan {plan!r} is only for explicit steps, and the integrator is {integrator!r}: leave the plan out")


def _check(label: str, value: str, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise UserError(f"{label} {value!r} is unknown: choose {_joined_choices(allowed)}")


def _joined_choices(literal: Any) -> str:
    *first_choices, last = map(repr, get_args(literal))
    return f"{', '.join(first_choices)} or {last}"
