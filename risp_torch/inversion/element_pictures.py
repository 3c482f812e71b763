"""Estimates of numbers that every element of a body has, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from risp_torch.files.report import ElementNumbers, plot_elements
from risp_torch.inversion.smoothness import body_of_elements
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.scene import Scene
from ti_sim.meshes.boundary import boundary_faces


def write_elements(path: Path, scene: Scene, unknowns: Unknowns, columns: Mapping[str, np.ndarray]) -> bool:
    """Draw all unknowns that have a number for each element of a solid or sheet; whether there are any.

    Args:
        path: picture to write.
        scene: whose bodies they belong to.
        unknowns: of the inversion.
        columns: title -> [K] values of all unknowns, physical units.
    """
    rows = []
    for name, param in unknowns.params.items():
        part = body_of_elements(scene, name)
        if part is None:
            continue
        own = unknowns.groups[name]
        corners, owner = _surface(part)
        shown = {title: values[own] for title, values in columns.items()}
        rows.append(ElementNumbers(name, corners, owner, shown, param.unit, param.scale == "log10"))
    if rows:
        plot_elements(path, rows)
    return bool(rows)


def _surface(part: Deformable) -> tuple[np.ndarray, np.ndarray]:
    """Triangles [F, 3, 3] of a body at rest, along the world's axes, and the element [F] of each."""
    indices = part.elements.indices
    if indices.shape[1] == 3:
        return part.rest[indices], np.arange(len(indices))
    faces, owner = boundary_faces(indices, part.name)
    return part.rest[faces], owner
