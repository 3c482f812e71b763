"""Shared parameters of a scene."""

from __future__ import annotations

from risp_torch.scene.arguments import Number
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.rules import checked


@checked
def add_number(scene: SceneSpec, name: str, value: Number, *, unit: str = "") -> None:
    """Add a parameter that joints can share by its name (``Revolute(stiffness="finger.stiffness")``).

    Args:
        scene: the scene.
        name: dotted name.
        value: number or Param.
        unit: unit in tables.

    Raises:
        UserError: the name is taken.
    """
    scene.table.add(name, value, unit=unit)
