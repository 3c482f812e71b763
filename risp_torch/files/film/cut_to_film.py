"""Numbers of a film's whole pictures, such as masks, cut and averaged as the film was."""

from __future__ import annotations

import numpy as np

from risp_torch.files.film.area import placed_picture, stored_region
from risp_torch.files.film.facts import FilmFacts
from ti_sim.base.errors import UserError

__all__ = ["cut_to_film"]


def cut_to_film(pictures: np.ndarray, facts: FilmFacts, label: str) -> np.ndarray:
    """Cut pictures of the original film like the film that was cut from it (``risp film --out``).

    Args:
        pictures: [T, H, W], shares of pixels; those that have the film's size or number of frames are not cut in that respect.
            One picture belongs to all frames.
        facts: of the film.
        label: name of the pictures in error messages.

    Returns:
        float32 [T, height, width]: means over the pixels of the film.

    Raises:
        UserError: there are more pictures than the film has frames, and not as many as the whole film has.
    """
    count = len(pictures)
    if facts.numbers is not None and count > facts.frames:
        if count != facts.frames_of_source:
            raise UserError(
                f"{label} have {count} pictures, and {facts.path} has {facts.frames} of the {facts.frames_of_source} frames of "
                "the film that it was cut from: give a picture for each of one or the other"
            )
        pictures = pictures[list(facts.numbers)]
    height, width = pictures.shape[1:]
    full_frame = facts.whole
    if (width, height) == (full_frame.width, full_frame.height):
        return pictures
    placement = full_frame.within(width, height)
    if placement is None and facts.placement is None:
        return pictures  # of a film that is no part, they have the size of the scene's camera, or none that fits
    if placement is None:
        sizes = dict.fromkeys((f"{full_frame.width}x{full_frame.height}", *full_frame.stored.sizes.split(" or ")))
        raise UserError(
            f"{label} are {width} x {height} pixels, and {facts.path} has or was cut from {' or '.join(sizes)}: give pictures of "
            "one of these sizes"
        )
    rows, columns = stored_region(placement)
    return placed_picture(pictures[:, rows, columns].transpose(1, 2, 0), placement).transpose(2, 0, 1)
