"""Pictures that belong to an uncut film, such as masks, cropped and downsampled like the film that was cut from it."""

from __future__ import annotations

import numpy as np

from risp_torch.files.film.area import place_picture, stored_region
from risp_torch.files.film.facts import FilmFacts
from ti_sim.base.errors import UserError

__all__ = ["cut_to_film"]


def cut_to_film(pictures: np.ndarray, facts: FilmFacts, label: str) -> np.ndarray:
    """Cut pictures of the original film like the film that was cut from it (``risp film --out``).

    Args:
        pictures: [T, H, W], shares of pixels; if they already have the film's size or number of frames, that is kept. A single
            picture belongs to all frames.
        facts: facts of the cut film.
        label: name of the pictures in error messages.

    Returns:
        float32 [T, height, width]: means over the pixels of the film.

    Raises:
        UserError: the number of pictures is larger than that of the film's frames, and differs from that of the original film.
    """
    count = len(pictures)
    if facts.source_frames is not None and count > facts.frames:
        if count != facts.num_source_frames:
            raise UserError(
                f"{label} have {count} pictures, and {facts.path} has {facts.frames} of the {facts.num_source_frames} frames of "
                "the film that it was cut from: give a picture for each of one or the other"
            )
        pictures = pictures[list(facts.source_frames)]
    height, width = pictures.shape[1:]
    full_frame = facts.full_placement
    if (width, height) == (full_frame.width, full_frame.height):
        return pictures
    placement = full_frame.within(width, height)
    if placement is None and facts.placement is None:
        return pictures  # the film was not cut: other sizes are checked against the scene's camera
    if placement is None:
        sizes = dict.fromkeys((f"{full_frame.width}x{full_frame.height}", *full_frame.stored.sizes.split(" or ")))
        raise UserError(
            f"{label} are {width} x {height} pixels, and {facts.path} has or was cut from {' or '.join(sizes)}: give pictures of "
            "one of these sizes"
        )
    rows, columns = stored_region(placement)
    return place_picture(pictures[:, rows, columns].transpose(1, 2, 0), placement).transpose(2, 0, 1)
