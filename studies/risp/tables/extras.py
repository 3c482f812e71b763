"""Checks of optional packages before hours of work."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from studies.risp.tables.plan import TablePlan
from studies.risp.tables.units import Unit
from ti_sim import UserError


def check_extras(plan: TablePlan, units: Mapping[str, Unit]) -> None:
    """Raise a UserError if units need a package that is not installed.

    Args:
        plan: plan with the preset's renderers.
        units: planned units.
    """
    traced = {"target": plan.preset.target == "mitsuba", "test-set": "mitsuba" in plan.preset.renderers}
    if any(traced.get(unit.kind, False) for unit in units.values()) and find_spec("mitsuba") is None:
        raise UserError("the tables need Mitsuba for their films: install it with pip install 'risp-taichi[photoreal]'")
    if any(unit.about.get("method") == "perceptual" for unit in units.values()):
        from risp_torch.inversion import default_network

        try:
            default_network()
        except UserError as error:
            raise UserError(f"{error}; or leave perceptual out of --methods") from error
