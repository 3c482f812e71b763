"""Films to explain, and inversions of them."""

from collections.abc import Mapping, Sequence

import torch

from risp_torch import Inversion, Scene, film, invert


def pictures(scene: Scene, values: Mapping[str, torch.Tensor] | None = None) -> torch.Tensor:
    """The film [T, H, W, 3] of a scene."""
    with torch.no_grad():
        return film(scene, values or {}, worlds=1, frames=scene.frames)[0][0]


def quick(scene: Scene, target: object, names: Sequence[str], **options: object) -> Inversion:
    """An inversion that prints nothing."""
    return invert(scene, target, names, progress=False, **options)
