"""Shadows of directional lights."""

from __future__ import annotations

from typing import Annotated

from risp_torch.scene.arguments import Direction
from risp_torch.scene.spec import SceneSpec
from ti_render import ShadowSettings
from ti_sim.base.rules import NotNegative, Positive, Rule, checked


@checked
def set_shadows(
    scene: SceneSpec,
    *,
    center: Direction,
    radius: Positive,
    resolution: Annotated[int, Rule(integer=True, minimum=2, maximum=2**15)] = 128,
    sigma: Positive = 2e-4,
    bias: NotNegative = 0.04,
    width: Positive = 0.01,
) -> None:
    """Add shadows of directional lights, on bodies and on the ground (``scene.shadows = None`` removes them).

    Args:
        scene: the scene.
        center, radius: of a ball that contains all bodies throughout the film [m].
        resolution, sigma, bias, width: see ``ti_render.ShadowSettings``.

    Raises:
        UserError: a number is out of its range.
    """
    scene.shadows = ShadowSettings(
        center=tuple(float(x) for x in center), radius=radius, resolution=resolution, sigma=sigma, bias=bias, width=width
    )
