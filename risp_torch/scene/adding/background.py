"""Background of a scene."""

from __future__ import annotations

from risp_torch.scene.arguments import Picture, Vector
from risp_torch.scene.pictures import add_picture
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@checked
def set_background(
    scene: SceneSpec,
    color: Vector | None = None,
    *,
    top: Vector | None = None,
    bottom: Vector | None = None,
    image: Picture | None = None,
) -> None:
    """Set the background: a colour, a vertical gradient or an image.

    Args:
        scene: the scene.
        color: linear rgb, or
        top, bottom: linear rgb at the upper and lower edge of the image, or
        image: an image file, or linear rgb [h, w, 3], row 0 at the top, scaled to the size of the rendered image.

    Raises:
        UserError: not exactly one of the three, or an image that cannot be read.
    """
    gradient = top is not None and bottom is not None
    if (top is None) != (bottom is None) or (color is not None) + gradient + (image is not None) != 1:
        raise UserError("a background is a color, or top and bottom, or an image: give one of the three")
    scene.table.drop("background.color", "background.top", "background.bottom", "background.image")
    for name, value in (("color", color), ("top", top), ("bottom", bottom)):
        if value is not None:
            scene.table.add(f"background.{name}", value, unit="", shape=(3,), sign="color")
    if image is not None:
        add_picture(scene.table, "background.image", image)
