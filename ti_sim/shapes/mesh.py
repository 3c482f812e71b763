"""A shape from a mesh file or from arrays."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tqdm import tqdm

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, Rule, checked
from ti_sim.base.warn import warn
from ti_sim.shapes.archives import check_unpacked_size
from ti_sim.shapes.mass import MassProperties, integrate_surface
from ti_sim.shapes.overlap import miscounted_volume
from ti_sim.shapes.shape import Shape
from ti_sim.shapes.surface import TriangleMesh, check_arrays, check_solid, extent, single_group_mesh, without_slivers

HUGE = 10.0  # m: a mesh of this size may be one in millimetres
_LARGE_FILE_BYTES = 20_000_000  # bytes: reading a file of this size takes seconds
_LINEAR_COLOUR_FILES = (".glb", ".gltf")  # the glTF 2.0 specification stores colours linear
_REPAIRED_SUFFIXES = (".obj", ".stl", ".ply", ".off")
_STL_HEADER, _STL_FACET = 84, 50  # bytes
_GREY = 0.5  # linear: the colour of bodies without colours


@checked
@dataclass(frozen=True, eq=False)
class Mesh(Shape):
    """A closed mesh from a file (OBJ, STL, PLY, OFF, GLB and other formats of trimesh) or from arrays.

    Coordinates are multiplied by ``scale``; several geometries in one file become one body. Vertices that a file splits (for
    colours or normals) stay split in ``mesh()`` and are merged in ``contact_points``. Colours of vertices, faces and materials
    (Kd of an OBJ file, diffuse colours of Collada, base colours of glTF) are read and made linear, and so are texture coordinates
    and texture images (map_Kd of an OBJ file, base colour texture of a glTF file). Other properties of materials are ignored.

    Attributes:
        path: mesh file; or None if ``vertices`` and ``faces`` are given.
        vertices: [V, 3].
        faces: [F, 3] integers, counter-clockwise seen from outside.
        scale: metres per unit of the file or the vertices.
        collision: source of the contact points, in the same frame as this mesh: a file (same ``scale``; not necessarily closed),
            another shape (in m, placed by its own frame, with the contact points of that shape), or None for this mesh itself.
            Other bodies collide with this mesh, or with the other shape.
        field_cells: cells along the longest side of the grid of the distance field, with which other bodies collide; None for the
            default (see ``distance.sample_distance``).

    Raises:
        UserError: the file is missing, unreadable or without faces; the surface is not watertight, not consistently wound,
            inside-out or degenerate; ``scale`` is not finite and positive.

    A warning is issued if the mesh of a file without a scale is larger than 10 m.
    """

    path: str | Path | None = None
    vertices: np.ndarray | None = field(default=None, repr=False)
    faces: np.ndarray | None = field(default=None, repr=False)
    scale: Positive = 1.0
    collision: str | Path | Shape | None = None
    field_cells: Annotated[int, Rule(integer=True, minimum=4, maximum=512)] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float(self.scale))
        name = self._name()
        with _progress_bar(self.path, 3) as progress_bar:
            # Computed here, so that their errors are raised where the mesh is made.
            for attribute in ("_surface", "_merged", "_collision_surface"):
                getattr(self, attribute)
                progress_bar.update()
        if self.path is not None:
            warn_of_size(self._surface.vertices, self.scale, name)

    def surface(self) -> TriangleMesh:
        """The mesh in its own frame: the file's axes and origin, in m."""
        return self._surface.transformed()

    def solid(self) -> MassProperties:
        """Mass properties of the solid inside the triangles, computed once."""
        return self._solid

    @cached_property
    def _surface(self) -> TriangleMesh:
        """Read from the file or from the arrays, once."""
        mesh = read_mesh_file(Path(self.path)) if self.path is not None else self._mesh_from_arrays(self._name())
        return mesh.transformed(scale=self.scale)

    @cached_property
    def _merged(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices and faces without the splits of a file, checked to enclose a solid."""
        return check_solid(self._surface.vertices, self._surface.faces, self._name())

    @cached_property
    def miscounted_share(self) -> float:
        """Fraction of the volume that is counted twice or with the wrong sign in mass and inertia because the mesh intersects
        itself [1].
        """
        return miscounted_volume(*self._merged) / self._solid.volume

    @cached_property
    def _solid(self) -> MassProperties:
        return integrate_surface(self._surface)

    def corners(self) -> np.ndarray:
        """The merged vertices of the collision mesh, computed once."""
        return self._corners.copy()

    @cached_property
    def _corners(self) -> np.ndarray:
        points, triangles = self._merged
        return super().corners() if self.collision is not None else points[np.unique(triangles)]

    def collision_surface(self) -> TriangleMesh:
        """The collision mesh in the frame of this mesh."""
        return self._collision_surface.transformed()

    def field_surface(self) -> tuple[TriangleMesh, int | None]:
        """Surface of the collision shape, or of this mesh without one, in the shape's frame [m], and ``field_cells``."""
        return (self.collision if isinstance(self.collision, Shape) else self).surface(), self.field_cells

    def local_contact_points(self) -> np.ndarray:
        """The vertices of the collision mesh, or the contact points of the collision shape."""
        return self.collision.local_contact_points() if isinstance(self.collision, Shape) else super().local_contact_points()

    def _name(self) -> str:
        if self.path is not None:
            if self.vertices is not None or self.faces is not None:
                raise UserError(f"Mesh: path {str(self.path)!r} and arrays are both given: give one of them")
            return f"mesh file {self.path}"
        if self.vertices is None or self.faces is None:
            raise UserError("Mesh: give a path, or vertices and faces")
        return f"Mesh of {len(self.vertices)} vertices and {len(self.faces)} faces"

    def _mesh_from_arrays(self, name: str) -> TriangleMesh:
        try:
            vertices, faces = np.array(self.vertices, dtype=np.float64), np.array(self.faces)
        except (TypeError, ValueError):
            raise UserError(f"{name}: vertices [V, 3] and faces [F, 3] must be arrays of numbers") from None
        check_arrays(vertices, faces, name)
        return single_group_mesh(vertices, faces)

    @cached_property
    def _collision_surface(self) -> TriangleMesh:
        """The collision mesh in the mesh's own frame, read once."""
        if isinstance(self.collision, Shape):
            return self.collision.collision_surface()
        if self.collision is None:
            return _without_unused_vertices(self._surface)
        if not isinstance(self.collision, str | Path):
            raise UserError(f"{self._name()}: collision is {type(self.collision).__name__}: give a file or a shape")
        return _without_unused_vertices(read_mesh_file(Path(self.collision))).transformed(scale=self.scale)


def _progress_bar(path: str | Path | None, count: int) -> tqdm:
    """A progress bar with this many stages, shown for large files only."""
    file = None if path is None else Path(path)
    is_large = file is not None and file.is_file() and file.stat().st_size > _LARGE_FILE_BYTES
    return tqdm(total=count, desc="" if file is None else f"mesh file {file.name}", leave=False, disable=not is_large)


def warn_of_size(vertices: np.ndarray, scale: float, name: str) -> None:
    """Warn if a mesh is so large without scaling that its numbers may be in millimetres.

    Args:
        vertices: [V, 3] m.
        scale: metres per unit of the file.
        name: name of the mesh in the warning.
    """
    if scale == 1.0 and extent(vertices) > HUGE:
        warn(f"{name} is {extent(vertices):.3g} m across: if its numbers are millimetres, read it with scale=0.001")


def _without_unused_vertices(mesh: TriangleMesh) -> TriangleMesh:
    """The geometry of a mesh without unused vertices."""
    used_vertices, index = np.unique(mesh.faces, return_inverse=True)
    return single_group_mesh(mesh.vertices[used_vertices], index.reshape(-1, 3))


def read_mesh_file(path: Path) -> TriangleMesh:
    """Read the triangles of all geometries of a file as one mesh.

    Vertices are not merged, and triangles of zero area are removed (``without_slivers``). The mesh has vertex colours if all
    geometries have them; otherwise every face has a colour, unless no geometry has any.

    Args:
        path: path of the file; its extension defines the format.

    Raises:
        UserError: the file is missing, unreadable or far too large when unpacked, or has no faces or invalid ones. Closedness is
            not checked.
    """
    if not path.is_file():
        raise UserError(f"mesh file {path} does not exist (looked for {path.absolute()}): check the path")
    check_unpacked_size(path, f"mesh file {path}")
    submeshes = _triangle_meshes(path)
    if not submeshes:
        raise UserError(f"mesh file {path} has no faces: a triangle mesh is needed, not points or lines")
    offsets = np.cumsum([0] + [len(submesh.vertices) for submesh in submeshes[:-1]])
    vertices = np.concatenate([np.asarray(submesh.vertices, dtype=np.float64) for submesh in submeshes])
    faces = np.concatenate([np.asarray(submesh.faces) + offset for submesh, offset in zip(submeshes, offsets, strict=True)])
    check_arrays(vertices, faces, f"mesh file {path}")
    textures, face_texture = _textures(submeshes)
    vertex_colors, face_colors = _linear_colors(submeshes, path)
    return without_slivers(single_group_mesh(
        vertices, faces, vertex_colors=vertex_colors, face_colors=face_colors, uv=_uv(submeshes), textures=textures,
        face_texture=face_texture, texture_fault=_texture_fault(path),
    ))  # fmt: skip


def _triangle_meshes(path: Path) -> list[Any]:
    """The triangle meshes of a file, each transformed to its pose in the scene of the file."""
    import trimesh  # deferred: this import takes half a second

    content = _repaired_content(path)
    try:
        # With process=True it would merge and drop vertices.
        if content is None:
            scene = trimesh.load_scene(path, process=False)
        else:
            resolver, file_type = trimesh.resolvers.FilePathResolver(path), path.suffix[1:].lower()
            scene = trimesh.load_scene(io.BytesIO(content), file_type=file_type, resolver=resolver, process=False)
        geometries = scene.dump()
    except Exception as error:  # the readers of about twenty formats raise different exceptions
        raise UserError(
            f"mesh file {path} cannot be read ({type(error).__name__}: {error}): save it again, for example as OBJ"
        ) from error
    return [geometry for geometry in geometries if isinstance(geometry, trimesh.Trimesh) and len(geometry.faces)]


def _repaired_content(path: Path) -> bytes | None:
    """The content of a file without parts that its reader rejects: a byte order mark, bytes after the facets of an STL file;
    None if it has none.
    """
    suffix = path.suffix.lower()
    if suffix not in _REPAIRED_SUFFIXES:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"mesh file {path} cannot be read ({error.strerror}): check the path") from error
    if suffix == ".stl" and not _is_text_stl(content):
        return _with_counted_facets(content, path)
    return content[len(BOM_UTF8) :] if content.startswith(BOM_UTF8) else None


def _is_text_stl(content: bytes) -> bool:
    """Whether an STL file is text; binary ones may begin with "solid" too."""
    head = content.removeprefix(BOM_UTF8).lstrip()
    return head[:5].lower() == b"solid" and (b"facet" in head[:4096].lower() or b"endsolid" in head[-4096:].lower())


def _with_counted_facets(content: bytes, path: Path) -> bytes | None:
    """A binary STL file whose header counts the facets that follow; None if it is valid already, or has no header.

    Raises:
        UserError: it is cut short.
    """
    if len(content) < _STL_HEADER:
        return None
    header_count = int.from_bytes(content[80:84], "little")
    stored_count, remaining_bytes = divmod(len(content) - _STL_HEADER, _STL_FACET)
    if header_count == stored_count and not remaining_bytes:
        return None
    if header_count > stored_count and remaining_bytes:
        raise UserError(f"mesh file {path} is cut short: it counts {header_count} facets and holds {stored_count}: save it again")
    facet_count = header_count if 0 < header_count <= stored_count else stored_count
    stored_text = f"{stored_count} and {remaining_bytes} bytes" if remaining_bytes else str(stored_count)
    warn(f"mesh file {path} counts {header_count} facets and holds {stored_text}: {facet_count} are read")
    return content[:80] + facet_count.to_bytes(4, "little") + content[_STL_HEADER : _STL_HEADER + facet_count * _STL_FACET]


def _linear_colors(submeshes: list[Any], path: Path) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Linear colours of the vertices [V, 3] and of the faces [F, 3] of all parts; one of them or both are None.

    If the kinds of colours of the parts differ, every face gets a colour: white if it is textured (its texture is multiplied by
    it), and grey if it has no colour.
    """
    suffix = path.suffix.lower()

    def to_linear(stored: Any) -> np.ndarray:
        values = np.asarray(stored, dtype=np.float64)[..., :3] / 255.0
        return values if suffix in _LINEAR_COLOUR_FILES else _srgb_to_linear(values)

    if all(submesh.visual.kind == "vertex" for submesh in submeshes):
        return np.concatenate([to_linear(submesh.visual.vertex_colors) for submesh in submeshes]), None
    # If the material file is missing, trimesh substitutes grey materials.
    has_materials = suffix != ".obj" or any(library.is_file() for library in _named_files(path, "mtllib"))
    face_colors = []
    for submesh in submeshes:
        kind, colors = submesh.visual.kind, None
        if kind == "face":
            colors = to_linear(submesh.visual.face_colors)
        elif kind == "vertex":
            colors = to_linear(submesh.visual.vertex_colors)[np.asarray(submesh.faces)].mean(axis=1)
        elif kind == "texture" and has_materials and not _is_textured(submesh):
            material_color = _material_color(submesh.visual.material)
            colors = None if material_color is None else to_linear(material_color)
        face_colors.append(colors)
    if all(colors is None for colors in face_colors):
        return None, None
    default_colors = [1.0 if _is_textured(submesh) else _GREY for submesh in submeshes]
    return None, np.concatenate([
        np.broadcast_to(default if colors is None else colors, (len(submesh.faces), 3))
        for submesh, colors, default in zip(submeshes, face_colors, default_colors, strict=True)
    ])  # fmt: skip


def _is_textured(submesh: Any) -> bool:
    return _texture_image(submesh) is not None and _uv_of(submesh) is not None


def _material_color(material: Any) -> Any:
    """The colour [3 or 4] of a material, 0 to 255, or None if it has none."""
    if hasattr(material, "baseColorFactor"):
        return material.baseColorFactor
    return getattr(material, "diffuse", None)


def _uv(submeshes: list[Any]) -> np.ndarray | None:
    """Texture coordinates [F, 3, 2] of all parts, NaN for parts without; None if no part has any."""
    coordinates = [_uv_of(submesh) for submesh in submeshes]
    if all(uv is None for uv in coordinates):
        return None
    missing = [np.full((len(submesh.faces), 3, 2), np.nan) for submesh in submeshes]
    return np.concatenate([missing_uv if uv is None else uv for uv, missing_uv in zip(coordinates, missing, strict=True)])


def _uv_of(submesh: Any) -> np.ndarray | None:
    uv = getattr(submesh.visual, "uv", None) if submesh.visual.kind == "texture" else None
    if uv is None or len(uv) != len(submesh.vertices):
        return None
    return np.asarray(uv, dtype=np.float64)[:, :2][np.asarray(submesh.faces)]


def _textures(submeshes: list[Any]) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """Distinct texture images of the parts, and the index of the texture of each face (-1 for none)."""
    textures: list[np.ndarray] = []
    face_texture = []
    for submesh in submeshes:
        image = _texture_image(submesh)
        index = -1
        if _is_textured(submesh):
            texture = linear_picture(image)
            index = next((k for k, other in enumerate(textures) if np.array_equal(other, texture)), len(textures))
            textures += [texture] * (index == len(textures))
        face_texture.append(np.full(len(submesh.faces), index, dtype=np.int32))
    return tuple(textures), np.concatenate(face_texture) if textures else None


def _texture_image(submesh: Any) -> Any:
    """The texture image of a part's material, or None."""
    if submesh.visual.kind != "texture":
        return None
    material = submesh.visual.material
    if hasattr(material, "baseColorTexture"):
        return material.baseColorTexture
    image = getattr(material, "image", None)
    # For a missing material, trimesh returns a blank image of 2 x 2 pixels.
    return None if image is None or (image.size == (2, 2) and not image.info) else image


def _texture_fault(path: Path) -> str:
    """Reason why a texture in the material files of an OBJ file cannot be read, "" if all can; trimesh does not report it."""
    from PIL import Image

    if path.suffix.lower() != ".obj":
        return ""
    for library in _named_files(path, "mtllib"):
        # Meshes are often distributed without their material files; then it is unknown whether there is a texture.
        for picture in _named_files(library, "map_Kd") if library.is_file() else ():
            try:
                with Image.open(picture) as image:
                    image.load()
            except FileNotFoundError:
                return f"its texture {picture} does not exist"
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
                return f"its texture {picture} is damaged, cut short or no picture"
    return ""


def _named_files(path: Path, keyword: str) -> list[Path]:
    """Files from the lines ``keyword <file>`` of a text file, relative to its folder."""
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines())
    return [path.parent / line[1].strip() for line in lines if len(line) == 2 and line[0].lower() == keyword.lower()]


def linear_picture(image: Any) -> np.ndarray:
    """A PIL image (sRGB, 8 or 16 bits; alpha is dropped) as linear RGB [h, w, 3] float64 in [0, 1], row 0 at the top."""
    if image.mode.startswith("I"):  # 16-bit grey, which the conversion of PIL would clip at 255
        stored = np.repeat(np.asarray(image, dtype=np.float64)[..., None] / 65535.0, 3, axis=2).clip(0.0, 1.0)
    else:
        stored = np.asarray(image.convert("RGB"), dtype=np.float64) / 255.0
    return _srgb_to_linear(stored)


def _srgb_to_linear(stored: np.ndarray) -> np.ndarray:
    """Transfer function of IEC 61966-2-1; values in [0, 1]."""
    return np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
