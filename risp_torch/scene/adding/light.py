"""Lights."""

from __future__ import annotations

from risp_torch.scene.parts.lights import Light, prefix_of
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@checked
def add_light(scene: SceneSpec, light: Light) -> None:
    """A light: any number of each kind. Ambient and environment lights add up.

    Args:
        scene: that gets it.
        light: ``AmbientLight``, ``DirectionalLight``, ``PointLight`` or ``EnvironmentLight``.

    Raises:
        UserError: the name is taken, or a number makes no sense.
    """
    prefix = prefix_of(light)
    if any(name.startswith(f"{prefix}.") for name in scene.table.params):
        raise UserError(f"the scene has a light {light.name!r} already: give the second one another name")
    light.add_to(scene.table, prefix)
    scene.lights += (light,)
