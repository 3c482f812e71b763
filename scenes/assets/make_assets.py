"""Makes the mesh files of this folder reproducibly: ``python scenes/assets/make_assets.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import trimesh

PEBBLE_LENGTH = 0.08  # m, longest side of its bounding box
WEDGE_SIZE = (0.06, 0.04, 0.03)  # m


def pebble() -> tuple[np.ndarray, np.ndarray]:
    """An irregular, asymmetric stone: vertices [162, 3] m and faces [320, 3].

    An icosphere with axes 1 : 0.75 : 0.55, whose radius is modulated by waves of low frequency.
    """
    sphere = trimesh.creation.icosphere(subdivisions=2, radius=1.0)
    x, y, z = sphere.vertices.T
    bumps = (
        0.10 * np.sin(1.7 * x + 0.9 * y + 0.4) + 0.07 * np.sin(2.3 * y - 1.1 * z + 1.3) + 0.05 * np.sin(2.9 * z + 1.9 * x - 0.7)
    )
    vertices = sphere.vertices * (1.0 + bumps)[:, None] * (1.0, 0.75, 0.55)
    return vertices * (PEBBLE_LENGTH / np.ptp(vertices, axis=0).max()), np.asarray(sphere.faces)


def wedge() -> tuple[np.ndarray, np.ndarray]:
    """A ramp, a right-angled triangle in xz, extruded along y: vertices [6, 3] m and faces [8, 3]."""
    length, width, height = WEDGE_SIZE
    profile = [(0.0, 0.0), (length, 0.0), (0.0, height)]
    vertices = np.array([(x, y, z) for y in (0.0, width) for x, z in profile])
    faces = [(0, 1, 2), (3, 5, 4), (0, 3, 4), (0, 4, 1), (1, 4, 5), (1, 5, 2), (2, 5, 3), (2, 3, 0)]
    return vertices, np.array(faces)


def write_obj(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Write vertices [V, 3] in m to the micrometre, and faces [F, 3], without colours."""
    lines = [f"# {path.stem}, metres, made by make_assets.py"]
    lines += ["v {:.6f} {:.6f} {:.6f}".format(*vertex) for vertex in vertices]
    lines += ["f {} {} {}".format(*face) for face in faces + 1]
    path.write_text("\n".join(lines) + "\n")


def write_stl(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Write vertices [V, 3] in m and faces [F, 3] as an ASCII STL."""
    lines = [f"solid {path.stem}"]
    for corners in vertices[faces]:
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        lines.append("facet normal {:.6f} {:.6f} {:.6f}".format(*normal / np.linalg.norm(normal)))
        lines.append(" outer loop")
        lines += ["  vertex {:.6f} {:.6f} {:.6f}".format(*corner) for corner in corners]
        lines += [" endloop", "endfacet"]
    path.write_text("\n".join([*lines, f"endsolid {path.stem}"]) + "\n")


def main(folder: Path = Path(__file__).parent) -> None:
    """Write all assets into ``folder``."""
    write_obj(folder / "pebble.obj", *pebble())
    write_stl(folder / "wedge.stl", *wedge())


if __name__ == "__main__":
    main()
