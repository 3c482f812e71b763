"""Wind."""

from __future__ import annotations

from risp_torch.scene.arguments import Vector
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@checked
def set_wind(scene: SceneSpec, velocity: Vector) -> None:
    """Set the velocity of the air, which acts on cloths with ``Air``.

    Args:
        scene: the scene.
        velocity: "wind" [m/s].

    Raises:
        UserError: there is a wind already.
    """
    if "wind" in scene.table.params:
        raise UserError("the scene has a wind already: give its velocity once, or replace the parameter 'wind'")
    scene.table.add("wind", velocity, unit="m/s", shape=(3,))
