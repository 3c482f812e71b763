"""Choices of time stepping that solvers share: explicit integrators and execution plans."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ti_sim.base.errors import UserError

ExplicitIntegrator = Literal["semi_implicit", "rk4"]  # of rigid and of articulated bodies
Plan = Literal["auto", "world", "element"]


def check_integrator(integrator: str, known: Any = ExplicitIntegrator) -> None:
    """Raise a UserError for an integrator that is not in the Literal ``known``."""
    _check("integrator", integrator, known)


def check_plan(plan: str, integrator: str = "semi_implicit") -> None:
    """Raise a UserError for an unknown plan, or one without this integrator."""
    _check("plan", plan, Plan)
    if plan == "element" and integrator == "rk4":
        raise UserError("the element plan steps with 'semi_implicit' only: choose plan 'world' for 'rk4'")


def _check(what: str, given: str, known: Any) -> None:
    choices = get_args(known)
    if given not in choices:
        *others, last = map(repr, choices)
        raise UserError(f"{what} {given!r} is unknown: choose {', '.join(others)} or {last}")
