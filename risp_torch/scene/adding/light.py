"""Lights."""

from __future__ import annotations

from risp_torch.scene.parts.lights import Light, prefix_of
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@checked
def add_light(scene: SceneSpec, light: Light) -> None:
    """Add a light. A scene may have several of each kind; ambient and environment lights are summed.

    Args:
        scene: the scene.
        light: ``AmbientLight``, ``DirectionalLight``, ``PointLight`` or ``EnvironmentLight``.

    Raises:
        UserError: the name is taken, or a number is invalid.
    """
    prefix = prefix_of(light)
    if any(name.startswith(f"{prefix}.") for name in scene.table.params):
        raise UserError(f"the scene has a light {light.name!r} already: give the second one another name")
    light.add_to(scene.table, prefix)
    scene.lights += (light,)
