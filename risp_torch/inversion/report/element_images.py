"""Images of estimated per-element parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from risp_torch.files.report import ElementNumbers, plot_elements
from risp_torch.inversion.problem.smoothness import body_of_elements
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import checked
from ti_sim.meshes.boundary import boundary_faces


@checked
def write_elements(path: Path, scene: Scene, unknowns: Unknowns, columns: Mapping[str, np.ndarray]) -> bool:
    """Plot all unknowns with a value for each element of a solid or sheet; return whether there are any.

    Args:
        path: image to write.
        scene: the scene.
        unknowns: unknowns of the inversion.
        columns: title -> [K] values of all unknowns, physical units.
    """
    rows = []
    for name, param in unknowns.params.items():
        body = body_of_elements(scene, name)
        if body is None:
            continue
        group = unknowns.groups[name]
        corners, face_elements = _surface(body)
        group_columns = {title: values[group] for title, values in columns.items()}
        rows.append(ElementNumbers(name, corners, face_elements, group_columns, param.unit, param.scale == "log10"))
    if rows:
        plot_elements(path, rows)
    return bool(rows)


def _surface(body: Deformable) -> tuple[np.ndarray, np.ndarray]:
    """Triangles [F, 3, 3] of a body at rest, in the world's axes, and the element [F] of each."""
    indices = body.elements.indices
    if indices.shape[1] == 3:
        return body.rest[indices], np.arange(len(indices))
    faces, face_elements = boundary_faces(indices, body.name)
    return body.rest[faces], face_elements
