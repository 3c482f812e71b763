"""Makes the fourteen objects of gradSim's rigid films reproducibly, and tetrahedral meshes of them (for soft objects):
``python scenes/assets/make_objects.py``.

The paper's own meshes (ICLR 2021, appendix G: primitives, and shapes of ShapeNet and DexNet, of at most 250 vertices) were never
released. These are six primitives and eight non-convex shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import trimesh

from ti_sim import Mesh
from ti_sim.meshes import SolidMesh, tetrahedralise, write_solid_mesh

MAX_VERTICES = 250  # appendix G
TET_EDGE = 0.25  # edge length of tetrahedra, relative to the diagonal of an object's bounding box


def lathe(profile: Sequence[tuple[float, float]], around: int) -> trimesh.Trimesh:
    """A closed profile of (radius, height), counter-clockwise, revolved about the z axis; points on the axis are shared."""
    return trimesh.creation.revolve(np.array(profile), sections=around)


def extrude(outline: np.ndarray, triangles: Sequence[tuple[int, int, int]], height: float) -> trimesh.Trimesh:
    """An outline [n, 2], counter-clockwise, with a triangulation of its inside, extruded along z."""
    count, side = len(outline), np.arange(len(outline))
    vertices = np.concatenate([np.column_stack([outline, np.full(count, z)]) for z in (-height / 2, height / 2)])
    next_side = (side + 1) % count
    base_triangles = np.array(triangles)
    faces = [base_triangles[:, ::-1], base_triangles + count, np.column_stack([side, next_side, next_side + count])]
    return trimesh.Trimesh(vertices, np.concatenate([*faces, np.column_stack([side, next_side + count, side + count])]))


def tube(centres: np.ndarray, radius: float, sides: int) -> trimesh.Trimesh:
    """A closed tube about a closed curve [n, 3], in rings that do not twist (rotation-minimising frames)."""
    count = len(centres)
    tangents = np.roll(centres, -1, axis=0) - np.roll(centres, 1, axis=0)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    normals = [np.cross(tangents[0], (0.0, 0.0, 1.0))]
    for tangent in tangents[1:]:
        normals.append(normals[-1] - (normals[-1] @ tangent) * tangent)
    angles = 2 * np.pi * np.arange(sides) / sides
    rings = []
    for k, (centre, tangent, normal) in enumerate(zip(centres, tangents, normals, strict=True)):
        normal_axis = normal / np.linalg.norm(normal)
        binormal = np.cross(tangent, normal_axis)
        # The last ring would meet the first at an angle, which is distributed over all rings.
        closing_angle = _closing_angle(tangents, normals) * k / count
        ring_angles = angles + closing_angle
        rings.append(centre + radius * (np.cos(ring_angles)[:, None] * normal_axis + np.sin(ring_angles)[:, None] * binormal))
    index = np.arange(count * sides).reshape(count, sides)
    next_ring, next_side = np.roll(index, -1, axis=0), np.roll(index, -1, axis=1)
    next_ring_and_side = np.roll(next_ring, -1, axis=1)
    faces = np.concatenate(
        [np.stack([index, next_side, next_ring_and_side], -1), np.stack([index, next_ring_and_side, next_ring], -1)]
    ).reshape(-1, 3)
    mesh = trimesh.Trimesh(np.concatenate(rings), faces, process=False)
    return mesh if mesh.volume > 0 else trimesh.Trimesh(np.concatenate(rings), faces[:, ::-1], process=False)


def _closing_angle(tangents: np.ndarray, normals: Sequence[np.ndarray]) -> float:
    """Angle about the first tangent from the first normal, carried once around, back to itself."""
    last = normals[-1] - (normals[-1] @ tangents[0]) * tangents[0]
    first = normals[0] / np.linalg.norm(normals[0])
    return -float(np.arctan2(last @ np.cross(tangents[0], first), last @ first))


def box() -> trimesh.Trimesh:
    """A cube."""
    return trimesh.creation.box((1.0, 1.0, 1.0))


def sphere() -> trimesh.Trimesh:
    """An icosphere."""
    return trimesh.creation.icosphere(subdivisions=2)


def capsule() -> trimesh.Trimesh:
    """A cylinder with round ends."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 8)
    profile = [(np.cos(a), np.sin(a) + (0.8 if a > 0 else -0.8)) for a in angles]
    profile[0], profile[-1] = (0.0, -1.8), (0.0, 1.8)
    return lathe(profile, 16)


def cylinder() -> trimesh.Trimesh:
    """A cylinder."""
    return lathe([(0.0, -1.0), (1.0, -1.0), (1.0, 1.0), (0.0, 1.0)], 32)


def cone() -> trimesh.Trimesh:
    """A cone."""
    return lathe([(0.0, 0.0), (1.0, 0.0), (0.0, 1.8)], 32)


def ellipsoid() -> trimesh.Trimesh:
    """An egg with three different axes."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    x, y, z = mesh.vertices.T
    return trimesh.Trimesh(np.column_stack([x * (1 + 0.2 * z), 0.75 * y * (1 + 0.2 * z), 1.3 * z]), mesh.faces, process=False)


def torus() -> trimesh.Trimesh:
    """A ring."""
    angles = 2 * np.pi * np.arange(24) / 24
    return tube(np.column_stack([np.cos(angles), np.sin(angles), 0 * angles]), 0.4, 10)


def bowl() -> trimesh.Trimesh:
    """Half of a spherical shell with a thick wall."""
    angles = np.linspace(-np.pi / 2, 0.0, 6)
    outer = [(np.cos(a), np.sin(a)) for a in angles]
    inner = [(0.8 * np.cos(a), 0.8 * np.sin(a)) for a in angles[::-1]]
    outer[0], inner[-1] = (0.0, -1.0), (0.0, -0.8)
    return lathe([*outer, *inner], 20)


def mug() -> trimesh.Trimesh:
    """A cup with a handle, one closed surface."""
    cup = lathe([(0.0, -1.0), (0.8, -1.0), (0.8, 1.0), (0.62, 1.0), (0.62, -0.8), (0.0, -0.8)], 20)
    angles = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
    ring = tube(np.column_stack([0.72 + 0.55 * np.cos(angles), 0 * angles, 0.6 * np.sin(angles)]), 0.12, 6)
    interior = lathe([(0.0, -0.8), (0.7, -0.8), (0.7, 1.1), (0.0, 1.1)], 20)
    return trimesh.boolean.union([cup, trimesh.boolean.difference([ring, interior])])


def corner() -> trimesh.Trimesh:
    """An L."""
    outline = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 0.4), (0.4, 0.4), (0.4, 1.4), (0.0, 1.4)])
    return extrude(outline, [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)], 0.6)


def bracket() -> trimesh.Trimesh:
    """A U with unequal arms."""
    outline = np.array([(0.0, 0.0), (1.6, 0.0), (1.6, 1.2), (1.2, 1.2), (1.2, 0.4), (0.4, 0.4), (0.4, 0.8), (0.0, 0.8)])
    triangles = [(0, 1, 5), (1, 4, 5), (1, 2, 4), (2, 3, 4), (0, 5, 6), (0, 6, 7)]
    return extrude(outline, triangles, 0.7)


def knot() -> trimesh.Trimesh:
    """A trefoil."""
    t = 2 * np.pi * np.arange(40) / 40
    curve = np.column_stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -1.4 * np.sin(3 * t)])
    return tube(curve, 0.75, 6)


def star() -> trimesh.Trimesh:
    """A star with five spikes, extruded."""
    angles = np.pi / 2 + np.pi * np.arange(10) / 5
    outline = np.column_stack([np.cos(angles), np.sin(angles)]) * np.where(np.arange(10) % 2, 0.45, 1.0)[:, None]
    spikes = [(k, (k + 1) % 10, (k - 1) % 10) for k in range(0, 10, 2)]
    return extrude(outline, [*spikes, (1, 3, 5), (1, 5, 7), (1, 7, 9)], 0.5)


def dumbbell() -> trimesh.Trimesh:
    """Two unequal discs on a bar."""
    profile = [(0.0, -1.0), (0.9, -1.0), (0.9, -0.5), (0.25, -0.5), (0.25, 0.6), (0.6, 0.6), (0.6, 1.0), (0.0, 1.0)]
    return lathe(profile, 24)


MAKERS: tuple[Callable[[], trimesh.Trimesh], ...] = (
    box, sphere, capsule, cylinder, cone, ellipsoid, torus, bowl, mug, corner, bracket, knot, star, dumbbell,
)  # fmt: skip


def normalise(mesh: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3], centred at the centre of mass, the longest side of their box 1, and faces [F, 3]."""
    vertices = mesh.vertices - mesh.center_mass
    return vertices / np.ptp(vertices, axis=0).max(), np.asarray(mesh.faces)


def write_obj(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Write vertices [V, 3] with six decimals, and faces [F, 3], without colours."""
    lines = [f"# {path.stem}, longest side 1, made by make_objects.py"]
    lines += ["v {:.6f} {:.6f} {:.6f}".format(*vertex) for vertex in vertices]
    lines += ["f {} {} {}".format(*face) for face in faces + 1]
    path.write_text("\n".join(lines) + "\n")


def write_tets(folder: Path) -> None:
    """Write tetrahedra of the objects that have none in ``folder``.

    The tetrahedraliser's meshes differ from run to run, so that existing files are kept.
    """
    for make in MAKERS:
        path, surface = folder / f"{make.__name__}.tet", Mesh(folder / f"{make.__name__}.obj").mesh()
        if not path.is_file():
            mesh = tetrahedralise(surface, edge_length=TET_EDGE * float(np.linalg.norm(np.ptp(surface.vertices, axis=0))))
            write_solid_mesh(SolidMesh(np.round(mesh.vertices, 6), mesh.indices), path)


def main(folder: Path = Path(__file__).parent / "objects") -> None:
    """Write all objects into ``folder``."""
    folder.mkdir(exist_ok=True)
    for make in MAKERS:
        write_obj(folder / f"{make.__name__}.obj", *normalise(make()))
    write_tets(folder)


if __name__ == "__main__":
    main()
