"""Images for textures and backgrounds: from files, arrays or Params."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from risp_torch.files.pictures import read_picture_file
from risp_torch.scene.arguments import Picture
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.shapes.mesh import linear_picture


def add_picture(table: ParameterTable, name: str, picture: Picture) -> None:
    """Add the texels of an image to the table.

    Args:
        table: table of the scene.
        name: name of the parameter.
        picture: path of an image file (sRGB), or linear rgb [h, w, 3] in [0, 1], row 0 at the top.

    Raises:
        UserError: the file cannot be read, or the array is not an image.
    """
    texels = read_picture(picture, name) if isinstance(picture, str | Path) else picture
    shape = np.shape(texels.value if isinstance(texels, Param) else texels)
    if len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise UserError(f"{name} has shape {shape}: give a picture file, or linear rgb of shape [height, width, 3]")
    table.add(name, texels, unit="", shape=shape, sign="color")


def read_picture(path: str | Path, name: str) -> np.ndarray:
    """Read an image file as linear colour.

    Args:
        path: PNG, JPEG or another format that Pillow reads; sRGB, transparency is ignored.
        name: its name in error messages.

    Returns:
        [h, w, 3] float64 in [0, 1], row 0 at the top.

    Raises:
        UserError: as ``read_picture_file``.
    """
    return read_picture_file(path, f"{name}: picture {path}", linear_picture)
