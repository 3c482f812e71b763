"""Contact sheets: several captioned pictures in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.atomic import atomic_replacement
from risp_torch.files.film.curves import linear_to_srgb
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

MIN_SIDE = 192  # pixels of a picture's shorter side on a sheet; smaller ones are enlarged by whole factors
MARGIN, CAPTION_HEIGHT, FONT_SIZE = 8, 18, 13  # pixels around a picture, for its caption and of the letters


@checked
def contact_sheet(path: Path | str, pictures: Any, captions: Sequence[str], *, columns: Count = 4) -> None:
    """Write captioned pictures side by side as one PNG.

    Args:
        path: file to write, ending in .png.
        pictures: [n, H, W, 3] linear rgb (numpy or torch), clipped to [0, 1].
        captions: n texts.
        columns: pictures per row.

    Raises:
        UserError: the shapes do not fit, or the file cannot be written.
    """
    from PIL import Image, ImageDraw, ImageFont

    path = Path(path)
    if path.suffix.lower() != ".png":
        raise UserError(f"{path} is not a .png file: give the sheet a name that ends in .png")
    linear = np.asarray(pictures.detach().cpu() if hasattr(pictures, "detach") else pictures)
    if linear.ndim != 4 or linear.shape[-1] != 3 or len(captions) != len(linear) or not len(linear):
        raise UserError(f"{len(captions)} captions for pictures of shape {linear.shape}: give [n, H, W, 3] and n captions")
    zoom = max(1, math.ceil(MIN_SIDE / min(linear.shape[1:3])))
    height, width = zoom * linear.shape[1], zoom * linear.shape[2]
    columns = min(columns, len(linear))
    rows = math.ceil(len(linear) / columns)
    lines = max(caption.count("\n") + 1 for caption in captions)
    step_x, step_y = width + MARGIN, height + lines * CAPTION_HEIGHT + MARGIN
    sheet = Image.new("RGB", (columns * step_x + MARGIN, rows * step_y + MARGIN), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=FONT_SIZE)
    for index, (picture, caption) in enumerate(zip(linear, captions, strict=True)):
        image = np.round(255 * linear_to_srgb(np.nan_to_num(picture).clip(0.0, 1.0))).astype(np.uint8)
        x, y = MARGIN + index % columns * step_x, MARGIN + index // columns * step_y
        sheet.paste(Image.fromarray(image.repeat(zoom, axis=0).repeat(zoom, axis=1)), (x, y))
        draw.multiline_text((x, y + height + 2), caption, fill="black", font=font, spacing=CAPTION_HEIGHT - FONT_SIZE - 2)
    with atomic_replacement(path) as temporary:
        sheet.save(temporary, format="PNG")
