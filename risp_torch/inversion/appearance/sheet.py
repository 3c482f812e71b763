"""A picture of a solved look: the film, the film in the look, its bodies alone, its background plate, and the residual."""

from __future__ import annotations

from pathlib import Path

import torch

from risp_torch.files.video import write_picture

NUM_FRAMES, MIN_SIDE, GREY, RESIDUAL_GAIN = 4, 128, 0.2, 4.0


def write_look_sheet(path: Path, film: torch.Tensor, estimate: torch.Tensor, bodies: torch.Tensor, plate: torch.Tensor) -> None:
    """Write the sheet: a row for each of four frames; columns: film, look, bodies, plate, residual (four times, on grey).

    Args:
        path: a .png.
        film: [n, H, W, 3] linear rgb.
        estimate: the film in the solved look, the same shape.
        bodies: its bodies in front of black.
        plate: [n, H, W, 3] background plate.
    """
    frames = sorted({round(k * (len(film) - 1) / (NUM_FRAMES - 1)) for k in range(NUM_FRAMES)})
    rows = [
        torch.cat(
            [film[k], estimate[k], bodies[k], plate[k], (GREY + RESIDUAL_GAIN * (estimate[k] - film[k])).clamp(0, 1)], dim=1
        )
        for k in frames
    ]
    times = max(1, round(MIN_SIDE / min(film.shape[1:3])))
    write_picture(path, torch.cat(rows).repeat_interleave(times, dim=0).repeat_interleave(times, dim=1).clamp(0, 1))
