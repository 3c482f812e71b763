"""The ground plane."""

from __future__ import annotations

from risp_torch.scene.arguments import Number, Pair, Picture, Vector, Wrap
from risp_torch.scene.parts.backdrop import Ground, Pattern
from risp_torch.scene.parts.contact import Contact, add_contact
from risp_torch.scene.pictures import add_picture
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Real, checked

GREY, WHITISH = (0.45, 0.45, 0.45), (0.9, 0.9, 0.9)


@checked
def add_ground(
    scene: SceneSpec,
    *,
    contact: Contact,
    height: Real = 0.0,
    color: Vector | None = None,
    pattern: Pattern = "plain",
    second_color: Vector | None = None,
    cell: Number = 0.1,
    origin: Pair = (0.0, 0.0),
    texture: Picture | None = None,
    wrap: Wrap = "repeat",
) -> None:
    """Add the ground plane. It must be added before the bodies.

    Args:
        scene: the scene.
        contact: contact parameters.
        height: z of the plane [m].
        color: linear rgb, grey by default; with a texture, a factor (white by default).
        pattern: "plain", "checker" or "texture".
        second_color: colour of the other squares of the checker.
        cell: side of a square, or of the texture image [m].
        origin: x and y of a corner of the pattern [m].
        texture: an image file, or linear rgb [h, w, 3], row 0 at the top; u grows along x, v along y.
        wrap: wrap mode of the texture, "repeat" or "clamp".

    Raises:
        UserError: there is a ground or a body already, an option does not fit the pattern, or an image cannot be read.
    """
    if scene.bodies or scene.deformables:
        raise UserError("the ground comes before the bodies: call add_ground first")
    add_contact(scene.table, "ground.contact", contact)
    _check_pattern(pattern, second_color=second_color, texture=texture, wrap=wrap)
    add, default_color = scene.table.add, (1.0, 1.0, 1.0) if pattern == "texture" else GREY
    add("ground.color", default_color if color is None else color, unit="", shape=(3,), sign="color")
    if pattern == "checker":
        add("ground.second_color", WHITISH if second_color is None else second_color, unit="", shape=(3,), sign="color")
    if pattern != "plain":
        add("ground.cell", cell, unit="m", sign="positive")
        add("ground.origin", origin, unit="m", shape=(2,))
    if texture is not None:
        add_picture(scene.table, "ground.texture", texture)
    scene.ground = Ground(float(height), pattern, wrap)


def _check_pattern(pattern: Pattern, *, second_color: Vector | None, texture: Picture | None, wrap: Wrap) -> None:
    if (pattern == "texture") != (texture is not None):
        raise UserError(
            f"the ground has the pattern {pattern!r} and {'no' if texture is None else 'a'} texture: "
            "give pattern='texture' and a texture together"
        )
    if second_color is not None and pattern != "checker":
        raise UserError(f"the ground has a second colour and the pattern {pattern!r}: a checker has two colours")
