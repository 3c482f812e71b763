"""Reading and writing of solid meshes, and reading of sheets from surface meshes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked
from ti_sim.base.warn import warn
from ti_sim.meshes.packages import require_package
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh, jacobians
from ti_sim.shapes.archives import check_unpacked_size
from ti_sim.shapes.mesh import read_mesh_file, warn_of_size
from ti_sim.shapes.surface import connected_parts, merge_vertices

_MESHIO_KINDS = {"tetra": "tet", "hexahedron": "hex", "tetra10": "tet10"}
_FLAT_CELLS = ("vertex", "line", "triangle", "quad", "polygon")  # prefixes of kinds that are not volume elements
_REVERSED_ORDER = {  # node order of the mirror image, by number of nodes: it makes an inverted element valid
    4: (0, 2, 1, 3),
    8: (4, 5, 6, 7, 0, 1, 2, 3),
    10: (0, 2, 1, 3, 6, 5, 4, 7, 9, 8),
}


@checked
def read_solid_mesh(path: str | Path, *, scale: Positive = 1.0) -> SolidMesh:
    """Read tetrahedra, hexahedra or ten-node tetrahedra from a file.

    Files ending in ``.tet`` are text: lines ``v x y z`` (vertices), ``t a b c d`` (tetrahedra, vertices counted from 0) and ``#``
    comments; other records are skipped. All other formats (``.msh``, ``.vtk``, ``.vtu``, ``.mesh``, ``.inp``, ...) are read by
    meshio. Faces and lines in the file and unused vertices are skipped, equal vertices are merged, and a mesh whose elements are
    all inverted is reordered. Colours are not read.

    Args:
        path: path of the file; its extension defines the format.
        scale: metres per unit of the file.

    Raises:
        UserError: the file is missing or unreadable; it has no volume elements, several kinds of them, or unsupported kinds; an
            element is inverted or flat; meshio is not installed.

    A warning is issued if the mesh consists of pieces that share no vertices.
    """
    path = Path(path)
    name = f"solid mesh file {path}"
    factor = float(scale)
    if not path.is_file():
        raise UserError(f"{name} does not exist (looked for {path.absolute()}): check the path")
    check_unpacked_size(path, name)
    vertices, indices = (_read_tet if path.suffix.lower() == ".tet" else _read_meshio)(path, name)
    if not ((indices >= 0) & (indices < len(vertices))).all():
        return SolidMesh(vertices, indices, name=name)  # raises, with the element's index
    points, point_index = merge_vertices(vertices)
    used_points, compact_indices = np.unique(point_index[indices], return_inverse=True)
    vertices, indices = factor * points[used_points], compact_indices.reshape(indices.shape)
    warn_of_size(vertices, factor, name)
    if (jacobians(vertices, indices) < 0).all():
        indices = indices[:, _REVERSED_ORDER[indices.shape[1]]]
    mesh = SolidMesh(vertices, indices, name=name)
    _warn_of_pieces(mesh)
    return mesh


def _warn_of_pieces(mesh: SolidMesh) -> None:
    """Warn if a mesh consists of pieces that share no vertices."""
    count, piece = connected_parts(mesh.indices, len(mesh.vertices))
    if count > 1:
        element_counts = np.bincount(piece)
        listed = ", ".join(
            f"{element_count} from element {int(np.argmax(piece == k))}" for k, element_count in enumerate(element_counts[:4])
        )
        more = f" and {count - 4} more" if count > 4 else ""
        warn(
            f"{mesh.name} has {count} pieces that share no vertices ({listed}{more}) and move apart: join their vertices, or "
            "make a body of each",
        )


@checked
def write_solid_mesh(mesh: SolidMesh, path: str | Path) -> None:
    """Write the vertices (m) and elements of a solid mesh, without surface attributes.

    Args:
        mesh: mesh to write.
        path: path of the file; its extension defines the format, as in ``read_solid_mesh``.

    Raises:
        UserError: the format is unknown or does not support these elements, the folder is missing, or meshio is not installed.
    """
    path = Path(path)
    if path.suffix.lower() == ".tet":
        if mesh.kind != "tet":
            raise UserError(f"mesh file {path}: .tet files hold linear tetrahedra, and the elements are of kind {mesh.kind!r}")
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in mesh.vertices.tolist()]
        lines += [f"t {a} {b} {c} {d}" for a, b, c, d in mesh.indices.tolist()]
        _call_on_file(lambda: path.write_text("\n".join(lines) + "\n"), f"mesh file {path} cannot be written", "check the folder")
        return
    meshio = require_package("meshio", f"writing {path.name}")
    cell_type = next(cell_type for cell_type, kind in _MESHIO_KINDS.items() if kind == mesh.kind)
    content = meshio.Mesh(mesh.vertices, [(cell_type, mesh.indices)])
    file_format = "gmsh" if path.suffix.lower() == ".msh" else None  # .msh is also a format of Ansys
    problem, advice = f"mesh file {path} cannot be written", "choose another format, for example .vtu or .msh"
    _call_on_file(lambda: content.write(path, file_format=file_format), problem, advice)
    written = _call_on_file(lambda: meshio.read(path), problem, advice)
    if sum(len(block.data) for block in written.cells if block.type == cell_type) != len(mesh.indices):
        raise UserError(f"{problem}: the format does not hold elements of kind {mesh.kind!r}: {advice}")


@checked
def read_sheet_mesh(path: str | Path, *, scale: Positive = 1.0) -> SheetMesh:
    """Read a sheet from a surface mesh file (OBJ, STL, PLY, OFF, GLB and others of trimesh), with its colours and textures.

    Vertices that the file splits (for texture seams or normals) are merged, unused vertices are left out.

    Args:
        path: path of the file; its extension defines the format.
        scale: metres per unit of the file.

    Raises:
        UserError: the file is missing, unreadable or without faces, or a triangle is flat.
    """
    path = Path(path)
    name = f"mesh file {path}"
    factor = float(scale)
    surface = read_mesh_file(path)
    warn_of_size(factor * surface.vertices, factor, name)
    points, point_index = merge_vertices(surface.vertices)
    used_points, compact_faces = np.unique(point_index[surface.faces], return_inverse=True)
    colors = surface.vertex_colors
    if colors is not None:
        point_colors = np.empty_like(points)
        point_colors[point_index] = colors
        colors = point_colors[used_points]
    return SheetMesh(
        factor * points[used_points], compact_faces.reshape(-1, 3), vertex_colors=colors, face_colors=surface.face_colors,
        uv=surface.uv, textures=surface.textures, face_texture=surface.face_texture, name=name,
    )  # fmt: skip


def _read_tet(path: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and indices [E, 4] of a .tet file."""
    vertices, indices = [], []
    text = _call_on_file(path.read_text, f"{name} cannot be read", "it must be text")
    for number, line in enumerate(text.splitlines(), start=1):
        record, *words = line.partition("#")[0].split() or [""]
        if record not in ("v", "t"):
            continue
        try:
            if record == "v":
                x, y, z = (float(word) for word in words)
                vertices.append((x, y, z))
            else:
                a, b, c, d = (int(word) for word in words)
                indices.append((a, b, c, d))
        except ValueError:
            expected = "v x y z" if record == "v" else "t a b c d"
            raise UserError(f"{name}, line {number}: {line.strip()!r} is not of the form {expected!r}: fix the file") from None
    if not indices:
        raise UserError(f"{name} has no volume elements: its {len(vertices)} vertices need lines 't a b c d'")
    return np.array(vertices).reshape(-1, 3), np.array(indices)


def _read_meshio(path: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and indices [E, n] of the volume elements of a file, read by meshio."""
    meshio = require_package("meshio", f"reading {path.name}")
    content = _call_on_file(lambda: meshio.read(path), f"{name} cannot be read", "save it again, for example as .vtu or .msh")
    counts: Counter[str] = Counter()
    for block in content.cells:
        counts[block.type] += len(block.data)
    listed = ", ".join(f"{count} {cell_type}" for cell_type, count in counts.items() if count) or "nothing"
    volume_types = [cell_type for cell_type, count in counts.items() if count and not cell_type.startswith(_FLAT_CELLS)]
    if not volume_types:
        raise UserError(
            f"{name} has no volume elements (it holds {listed}): make them from its surface with ti_sim.meshes.tetrahedralise"
        )
    if len(volume_types) > 1 or volume_types[0] not in _MESHIO_KINDS:
        raise UserError(
            f"{name} holds {listed}: a body has elements of one kind, {', '.join(_MESHIO_KINDS)}: mesh it again with one of these"
        )
    blocks = [np.asarray(block.data) for block in content.cells if block.type == volume_types[0]]
    return np.asarray(content.points, dtype=np.float64), np.concatenate(blocks).astype(np.int64)


def _call_on_file(action: Callable[[], Any], problem: str, advice: str) -> Any:
    """Call ``action``, which accesses a file, and return its result; if it fails, raise a UserError with the reason."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):  # meshio prints its errors, and may call sys.exit
            return action()
    except (Exception, SystemExit) as error:  # the readers of about thirty formats raise different exceptions
        reason = str(error) if isinstance(error, Exception) and str(error) else printed.getvalue()
        raise UserError(f"{problem} ({type(error).__name__}: {' '.join(reason.split())}): {advice}") from error
