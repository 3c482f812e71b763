"""Tetrahedral meshes of closed surfaces, by fTetWild."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked
from ti_sim.meshes.packages import check_installed
from ti_sim.meshes.solid import SolidMesh
from ti_sim.meshes.transfer import with_transferred_attributes
from ti_sim.shapes.shape import Shape
from ti_sim.shapes.surface import TriangleMesh, check_solid, enclosed_volume, merge_vertices

_RELATIVE_EDGE_LENGTH = 0.1  # of the diagonal of the bounding box
_MAX_TETRAHEDRA = 5_000_000
_VOLUME_TOLERANCE = 0.05  # relative deviation of the volume of the tetrahedra from that of the surface

# Runs in a separate process: it writes a file to its working folder, and a crash of native code must not end the caller. Without
# coarsening many elements are far smaller than requested, and each of them reduces the step of an explicit solver.
_PROGRAM = """
import sys, numpy, pytetwild
mesh = numpy.load(sys.argv[1])
vertices, tets = pytetwild.tetrahedralize(
    mesh["vertices"], mesh["faces"], edge_length_abs=float(mesh["edge_length"]), vtk_ordering=True, coarsen=True, num_threads=1
)
numpy.savez(sys.argv[2], vertices=vertices, tets=tets)
"""


@checked
def tetrahedralise(surface: TriangleMesh | Shape, *, edge_length: Positive | None = None) -> SolidMesh:
    """Fill a closed surface with tetrahedra.

    The surface of the tetrahedra deviates from ``surface`` by up to a thousandth of the bounding box's diagonal, and has other
    vertices.
    Colours, face groups and uv are transferred from the closest points.

    The tetrahedraliser uses random numbers that cannot be seeded: every mesh is different. For a repeatable run, write the mesh
    to a file (``write_solid_mesh``) and read it.

    Args:
        surface: closed surface with outward normals, in m; or a shape, for its surface in the shape's frame.
        edge_length: edge length of the tetrahedra, m; a tenth of the diagonal of the bounding box by default. The actual lengths
            are between half and twice that, and shorter where the surface requires it. A longer one than the diagonal counts as
            the diagonal.

    Raises:
        UserError: the surface is open, inconsistently wound, inside-out or degenerate; it intersects itself so that its volume is
            undefined; ``edge_length`` is invalid or results in too many tetrahedra; pytetwild is not installed.
    """
    name = f"tetrahedralise: {type(surface).__name__}" if isinstance(surface, Shape) else "tetrahedralise: surface"
    if isinstance(surface, Shape):
        surface = surface.surface()
    check_solid(surface.vertices, surface.faces, name)
    volume = enclosed_volume(surface.vertices, surface.faces)
    length = _edge_length(surface, volume, edge_length)
    check_installed("pytetwild", "tetrahedralise")
    vertices, tets = _tetrahedra(surface, length, name)
    corners = vertices[tets]
    filled_volume = float(np.linalg.det(corners[:, 1:] - corners[:, :1]).sum() / 6.0)
    if abs(filled_volume - volume) > _VOLUME_TOLERANCE * volume:
        raise UserError(
            f"{name} encloses {volume:.4g} m3 and its tetrahedra would fill {filled_volume:.4g} m3: it intersects itself, or "
            "parts of it are thinner than a thousandth of its size: repair it in a mesh editor (union of its parts)"
        )
    used_vertices, compact_indices = np.unique(tets, return_inverse=True)
    return with_transferred_attributes(
        SolidMesh(vertices[used_vertices], compact_indices.reshape(tets.shape), name=name), surface
    )


def _edge_length(surface: TriangleMesh, volume: float, edge_length: float | None) -> float:
    """Edge length for the tetrahedraliser [m]: the requested one, at most the diagonal of the bounding box; a default for None.

    Raises:
        UserError: it is so short that there would be too many tetrahedra.
    """
    diagonal = float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
    if edge_length is None:
        return _RELATIVE_EDGE_LENGTH * diagonal
    length = float(edge_length)
    # A regular tetrahedron has the volume a^3 / (6 sqrt 2).
    min_length = (6.0 * np.sqrt(2.0) * volume / _MAX_TETRAHEDRA) ** (1 / 3)
    if length < min_length:
        raise UserError(
            f"tetrahedralise: edge_length {length:.3g} m would make more than {_MAX_TETRAHEDRA} tetrahedra: "
            f"give at least {min_length:.3g} m"
        )
    return min(length, diagonal)


def _tetrahedra(surface: TriangleMesh, length: float, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and tetrahedra [E, 4] from the tetrahedraliser."""
    points, point_index = merge_vertices(surface.vertices)
    with TemporaryDirectory() as folder:
        surface_file, tetrahedra_file = Path(folder) / "surface.npz", Path(folder) / "tetrahedra.npz"
        np.savez(surface_file, vertices=points, faces=point_index[surface.faces].astype(np.int32), edge_length=length)
        process = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(surface_file), str(tetrahedra_file)],
            cwd=folder, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        if process.returncode or not tetrahedra_file.is_file():
            reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            raise UserError(
                f"{name} cannot be tetrahedralised (pytetwild: {reason}): look for intersections of the surface with itself "
                "in a mesh editor"
            )
        with np.load(tetrahedra_file) as arrays:
            return arrays["vertices"], arrays["tets"]
