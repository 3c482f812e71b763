"""Mesh files referenced by robot files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.robot_files.xml_elements import parse_xml
from ti_sim.base.errors import UserError
from ti_sim.shapes.mesh import HUGE, read_mesh_file
from ti_sim.shapes.surface import TriangleMesh, extent

_PACKAGE_SCHEMES = ("package", "model")


class MeshFiles:
    """The mesh files of one robot, each read once.

    Args:
        robot: path of the robot file; relative names start from its folder.
        unsupported: collects missing parts of mesh files.
    """

    def __init__(self, robot: Path, unsupported: Unsupported) -> None:
        self._robot = robot
        self._unsupported = unsupported
        self._meshes_by_path: dict[Path, TriangleMesh] = {}

    def mesh(self, name: str, scale: np.ndarray, location: str) -> TriangleMesh:
        """The triangles of a file, scaled.

        Args:
            name: as the robot file writes it: a path, file://path or package://package/path.
            scale: [3] m per unit of the file along its axes; a negative product mirrors the mesh and reverses its faces.
            location: the element that references the mesh: "link 'arm'".

        Raises:
            UserError: the file does not exist or is not a mesh.
        """
        path = self._existing_path(name, location)
        if path not in self._meshes_by_path:
            self._meshes_by_path[path] = read_mesh_file(path).transformed(scale=self._metres_per_unit(path))
            if self._meshes_by_path[path].texture_fault:
                self._unsupported.add(
                    f"a texture is not used: {self._meshes_by_path[path].texture_fault}", f"mesh file {path.name}"
                )
        mesh = self._meshes_by_path[path]
        scaled = dataclasses.replace(mesh, vertices=mesh.vertices * scale)
        if (scale == 1.0).all() and extent(scaled.vertices) > HUGE:
            remark = f"a mesh {extent(scaled.vertices):.3g} m across, whose unit may be millimetres, is used as it is"
            self._unsupported.add(remark, f"mesh file {path.name}")
        if np.prod(scale) > 0:
            return scaled
        uv = None if mesh.uv is None else np.ascontiguousarray(mesh.uv[:, ::-1])
        return dataclasses.replace(scaled, faces=np.ascontiguousarray(mesh.faces[:, ::-1]), uv=uv)

    def _metres_per_unit(self, path: Path) -> float:
        """Metres in one unit of a mesh file: 1, except for Collada, which defines its unit but whose reader ignores it."""
        if path.suffix.lower() != ".dae":
            return 1.0
        try:
            root = parse_xml(path.read_bytes())
            unit = root.find("{*}asset/{*}unit")
            metres = 1.0 if unit is None else float(unit.get("meter", "1"))
        except ValueError as error:
            raise UserError(f"mesh file {path} cannot be read ({error}): save it again, for example as OBJ") from error
        if not (np.isfinite(metres) and metres > 0):
            raise UserError(f"mesh file {path} has a unit of {metres:g} m: it must be above zero")
        up = root.findtext("{*}asset/{*}up_axis", "Z_UP").strip()
        if up != "Z_UP":
            self._unsupported.add(f"the upward axis {up} of a Collada file is not used", f"mesh file {path.name}")
        return metres

    def _existing_path(self, name: str, location: str) -> Path:
        candidates = self._candidates(name, location)
        existing = next((path for path in candidates if path.is_file()), None)
        if existing is None:
            searched = ", ".join(str(path) for path in candidates)
            raise UserError(f"{self._robot}: mesh file {name!r} of {location} does not exist (looked for {searched}): add it")
        return existing.resolve()

    def _candidates(self, name: str, location: str) -> list[Path]:
        folder = self._robot.resolve().parent
        scheme, separator, address = name.partition("://")
        if not separator:
            return [folder / name]
        if scheme == "file":
            return [folder / unquote(address)]
        if scheme not in _PACKAGE_SCHEMES:
            raise UserError(
                f"{self._robot}: mesh {name!r} of {location} is not a file: save it beside the robot file and use that"
            )
        package, _, relative_path = address.partition("/")
        # A package is a folder of that name among the parents of the robot file or beside one of them.
        search_folders = [folder, *folder.parents]
        package_paths = [parent / relative_path for parent in search_folders if parent.name == package]
        return package_paths or [parent / package / relative_path for parent in search_folders[:4]]
