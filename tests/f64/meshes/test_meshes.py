"""Meshes of deformable bodies: closed forms, surfaces, files, tetrahedra in surfaces; what is refused, and with which words."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import meshio
import numpy as np
import pytest
import trimesh

from ti_sim import Box, Shape, Sphere
from ti_sim.base.errors import UserError
from ti_sim.meshes import (
    SheetMesh,
    SolidMesh,
    box_hexes,
    box_tet10s,
    box_tets,
    quadratic,
    read_sheet_mesh,
    read_solid_mesh,
    sheet_disk,
    sheet_grid,
    sphere_tets,
    tetrahedra,
    tetrahedralise,
    write_solid_mesh,
)
from ti_sim.meshes.transfer import closest_faces, with_transferred_attributes
from ti_sim.shapes.primitives import sphere_uv
from ti_sim.shapes.surface import TriangleMesh, single_group_mesh

SIZE = (0.4, 0.2, 0.3)
BOXES = {"tet": box_tets, "hex": box_hexes, "tet10": box_tet10s}
TET = np.array([(0.0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])


def tet_volumes(mesh: SolidMesh) -> np.ndarray:
    corners = mesh.vertices[mesh.indices[:, :4]]
    return np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6


def outer(body: SolidMesh | SheetMesh | Shape) -> trimesh.Trimesh:
    surface = body.surface()
    return trimesh.Trimesh(surface.vertices, surface.faces, process=False)


def check_surface(mesh: SolidMesh, volume: float) -> None:
    """Closed, outward, its faces in their owners, and enclosing ``volume``."""
    surface = outer(mesh)
    assert surface.is_watertight and surface.is_winding_consistent
    assert surface.volume == pytest.approx(volume, rel=1e-12)
    assert (mesh.faces[:, :, None] == mesh.indices[mesh.owner][:, None, :]).any(axis=2).all()
    assert (mesh.faces.dtype, mesh.owner.dtype, mesh.indices.dtype) == (np.int32, np.int32, np.int32)


@pytest.mark.parametrize("kind", BOXES)
def test_boxes(kind):
    cells = (3, 2, 4)
    mesh = BOXES[kind](SIZE, cells)
    assert mesh.kind == kind and len(mesh.indices) == (1 if kind == "hex" else 5) * np.prod(cells)
    check_surface(mesh, np.prod(SIZE))
    np.testing.assert_allclose([mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)], 0.5 * np.outer([-1, 1], SIZE), atol=1e-16)
    if kind == "hex":
        assert len(mesh.vertices) == 4 * 3 * 5 and len(mesh.faces) == 4 * (3 * 2 + 2 * 4 + 3 * 4)
    else:
        assert tet_volumes(mesh).sum() == pytest.approx(np.prod(SIZE), rel=1e-14)
        shares = np.prod(SIZE) / np.prod(cells) * np.array([1, 1, 1, 1, 2]) / 6
        np.testing.assert_allclose(np.sort(tet_volumes(mesh).reshape(-1, 5)), np.tile(shares, (24, 1)), rtol=1e-12)


def test_box_looks_are_those_of_the_box():
    surface, mesh = Box(*SIZE).surface(), box_tet10s(SIZE, (2, 1, 1))
    normals = outer(mesh).face_normals
    sides = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    np.testing.assert_allclose(normals, sides[mesh.face_groups], atol=1e-12)
    carried = with_transferred_attributes(mesh.with_attributes(uv=None, face_groups=None), surface)
    np.testing.assert_allclose(mesh.uv, carried.uv, atol=1e-12)
    np.testing.assert_array_equal(mesh.face_groups, carried.face_groups)


def test_even_boxes_of_tetrahedra_are_mirror_symmetric():
    mesh = box_tets(SIZE, (2, 4, 2))
    centres = mesh.vertices[mesh.indices].mean(axis=1)
    for axis in range(3):
        mirrored = centres * np.where(np.arange(3) == axis, -1.0, 1.0)
        assert np.abs(mirrored[:, None] - centres[None]).max(axis=2).min(axis=1).max() < 1e-14


@pytest.mark.parametrize("resolution", [2, 3, 5])
def test_spheres(resolution):
    mesh = sphere_tets(0.5, resolution)
    assert len(mesh.indices) == 20 * resolution**3 - 80
    check_surface(mesh, tet_volumes(mesh).sum())
    surface = np.unique(mesh.faces)
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices[surface], axis=1), 0.5, rtol=1e-14)
    assert len(surface) == 10 * resolution**2 + 2
    corners = mesh.vertices[mesh.indices]
    sides = sum(((corners[:, a] - corners[:, b]) ** 2).sum(axis=1) for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
    assert (12 * (3 * tet_volumes(mesh)) ** (2 / 3) / sides).min() > 0.75  # mean ratio: 1 for a regular tetrahedron
    np.testing.assert_allclose(mesh.vertices.mean(axis=0), 0, atol=1e-15)
    assert mesh.uv.shape == (len(mesh.faces), 3, 2)


def test_finer_spheres_approach_the_ball():
    missing = [1 - tet_volumes(sphere_tets(0.5, n)).sum() / (np.pi / 6) for n in (3, 6)]
    assert 0 < missing[1] < 0.3 * missing[0] < 0.02


def test_sheets():
    grid = sheet_grid((0.4, 0.6), (4, 3))
    surface = outer(grid)
    assert surface.area == pytest.approx(0.24, rel=1e-14) and len(grid.triangles) == 24 and len(grid.vertices) == 20
    np.testing.assert_allclose(surface.face_normals, np.tile([0, 0, 1], (24, 1)), atol=1e-15)
    np.testing.assert_allclose(grid.uv, grid.vertices[grid.triangles][..., :2] / (0.4, 0.6) + 0.5, atol=1e-15)
    turned = grid.vertices[grid.triangles].mean(axis=1) * (-1, -1, 1)
    assert (np.abs(turned[:, None] - grid.vertices[grid.triangles].mean(axis=1)[None]).max(axis=2).min(axis=1) > 0.02).any()
    disk = sheet_disk(0.3, 6)
    surface = outer(disk)
    assert surface.is_winding_consistent and surface.face_normals[:, 2].min() == pytest.approx(1)
    assert surface.area == pytest.approx(18 * np.sin(np.pi / 18) * 0.09, rel=1e-12)  # the polygon of 36 corners
    assert (len(disk.triangles), len(disk.vertices)) == (216, 127) and surface.euler_number == 1
    assert (disk.surface().faces == disk.triangles).all()


def test_quadratic_keeps_looks():
    tet = SolidMesh(TET, [[0, 1, 2, 3]])
    looks = {
        "vertex_colors": np.eye(4)[:, :3], "face_colors": np.full((4, 3), 0.5), "uv": TET[tet.faces][..., :2],
        "textures": (np.zeros((2, 2, 3)),), "face_texture": [0, -1, 0, 0], "face_groups": [0, 1, 2, 3],
    }  # fmt: skip
    mesh = quadratic(tet.with_attributes(**looks))
    middles = [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)]
    np.testing.assert_allclose(mesh.vertices[mesh.indices[0, 4:]], [(TET[a] + TET[b]) / 2 for a, b in middles])
    np.testing.assert_allclose(mesh.uv, mesh.vertices[mesh.faces][..., :2])
    np.testing.assert_allclose(mesh.vertex_colors[mesh.indices[0, 4]], [0.5, 0.5, 0])
    np.testing.assert_array_equal(mesh.face_groups, np.repeat(np.arange(4), 4))
    check_surface(mesh, 1 / 6)
    surface = mesh.surface()
    assert surface.face_texture.tolist() == [0] * 4 + [-1] * 4 + [0] * 8 and len(surface.textures) == 1
    np.testing.assert_array_equal(surface.vertices, mesh.vertices)


TWO = np.concatenate([TET, TET + 2.0])
FOLDED = box_hexes((1, 1, 1), (1, 1, 1))
BAD_SOLIDS = {
    "element 1 is inverted (1 of 2 elements are)": (TWO, [[0, 1, 2, 3], [4, 6, 5, 7]]),
    "element 0 is flat (1 of 2 elements are)": (
        np.where(np.arange(8)[:, None] < 4, TWO * (1, 1, 0), TWO), [[0, 1, 2, 3], [4, 5, 6, 7]],
    ),
    "element 0 is inverted (1 of 1 elements are)": (
        np.where((np.arange(8) == FOLDED.indices[0, 6])[:, None], -2.0, FOLDED.vertices), FOLDED.indices,
    ),
    "element 1 names the vertices 4, 5, 6, 8, and there are 0 to 7": (TWO, [[0, 1, 2, 3], [4, 5, 6, 8]]),
    "element 1 names a vertex twice (4, 5, 6, 6)": (TWO, [[0, 1, 2, 3], [4, 5, 6, 6]]),
    "vertex 4 belongs to no element (4 of 8 do not)": (TWO, [[0, 1, 2, 3]]),
    "vertex 2 is not finite": (np.where(np.arange(4)[:, None] == 2, np.nan, TET), [[0, 1, 2, 3]]),
    "its elements have 3 nodes": (TET, [[0, 1, 2], [1, 2, 3]]),
    "vertices have shape (4, 2)": (TET[:, :2], [[0, 1, 2, 3]]),
    "its elements have shape (0,)": (TET, []),
    "give an array of numbers": ([["a"]], [[0, 1, 2, 3]]),
    "has a face that belongs to 3 elements": (TWO[:6] + 0.1 * TWO[:6] ** 2, [[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 5]]),
}  # fmt: skip


@pytest.mark.parametrize("words", BAD_SOLIDS)
def test_unsound_solids_are_refused(words):
    vertices, indices = BAD_SOLIDS[words]
    with pytest.raises(UserError, match="^(part|SolidMesh): ") as caught:
        SolidMesh(vertices, indices, name="part")
    assert words in str(caught.value)


def test_a_bent_ten_node_tetrahedron_is_inverted():
    mesh = quadratic(SolidMesh(TET, [[0, 1, 2, 3]]))
    mesh.vertices[mesh.indices[0, 4]] = (0.9, 0, 0)  # beyond three quarters of its edge
    with pytest.raises(UserError, match="element 0 is inverted"):
        SolidMesh(mesh.vertices, mesh.indices)
    with pytest.raises(UserError, match="ten-node tetrahedra are made of linear ones.*'tet10'"):
        quadratic(mesh)


def test_unsound_sheets_and_looks_are_refused():
    with pytest.raises(UserError, match=r"sheet mesh: element 1 is flat \(1 of 2 elements are\)"):
        SheetMesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 0, 0)], [[0, 1, 2], [0, 1, 3]])
    with pytest.raises(UserError, match=r"its elements have 4 nodes: give triangles"):
        SheetMesh(TET, [[0, 1, 2, 3]])
    with pytest.raises(UserError, match=r"box: face_colors has shape \(6, 3\), and \(12, 3\) is needed"):
        box_hexes(SIZE, (1, 1, 1)).with_attributes(face_colors=np.ones((6, 3)))
    with pytest.raises(UserError, match="face_texture names picture 0, and there are 0 textures"):
        box_hexes(SIZE, (1, 1, 1)).with_attributes(face_texture=np.zeros(12))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: box_tets((1, 0, 1), (1, 1, 1)), "box_tets: size is (1, 0, 1): give finite numbers of shape (3,) above zero"),
        (lambda: box_hexes((1, 1), (1, 1, 1)), "box_hexes: size has shape (2,), and (3,) is needed"),
        (lambda: box_tets((1, 1, 1), (1, 2.5, 1)), "cells is (1, 2.5, 1): give whole numbers of shape (3,) of at least 1"),
        (lambda: sphere_tets("big"), "sphere_tets: radius is 'big': give a finite number above zero"),
        (lambda: sphere_tets(1.0, 1), "sphere_tets: resolution is 1: give a whole number from 2 to 40"),
        (lambda: sheet_grid((1, 1), (1, 0)), "sheet_grid: cells is (1, 0)"),
        (lambda: sheet_disk(-1.0), "sheet_disk: radius is -1.0"),
    ],
)  # fmt: skip
def test_generators_refuse(make, words):
    with pytest.raises(UserError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", BOXES)
@pytest.mark.parametrize("ending", ["vtu", "vtk", "msh", "mesh", "inp", "tet"])
def test_files_round_trip(tmp_path, kind, ending):
    mesh, path = BOXES[kind](SIZE, (2, 1, 1)), tmp_path / f"box.{ending}"
    refusal = {"tet": "tet files hold linear tetrahedra", "mesh": "the format does not hold elements of kind 'tet10'"}
    if (ending, kind) in (("tet", "hex"), ("tet", "tet10"), ("mesh", "tet10")):
        with pytest.raises(UserError, match=refusal[ending]):
            write_solid_mesh(mesh, path)
        return
    write_solid_mesh(mesh, path)
    read = read_solid_mesh(path, scale=2.0)
    np.testing.assert_allclose(read.vertices, 2 * mesh.vertices, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(read.indices, mesh.indices)


@pytest.mark.parametrize("kind", BOXES)
def test_files_with_other_cells_stray_vertices_and_elements_inside_out(tmp_path, kind):
    mesh = BOXES[kind](SIZE, (1, 1, 1))
    mirrored = np.concatenate([np.full((1, 3), 9.0), mesh.vertices * (1, 1, -1)])
    cells = [("triangle", 1 + mesh.faces), ({"tet": "tetra", "hex": "hexahedron", "tet10": "tetra10"}[kind], 1 + mesh.indices)]
    meshio.Mesh(mirrored, cells).write(tmp_path / "box.vtu")
    read = read_solid_mesh(tmp_path / "box.vtu")
    np.testing.assert_array_equal(read.vertices, mirrored[1:])
    check_surface(read, np.prod(SIZE))


def test_pieces_with_vertices_of_their_own_are_joined_where_they_touch_and_named_where_they_do_not(tmp_path):
    block = box_tets((1.0, 1.0, 1.0), (1, 1, 1))
    count = len(block.vertices)
    for shift, vertices, warned in ((1.0, 2 * count - 4, False), (1.5, 2 * count, True)):
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.concatenate([block.vertices, block.vertices + [shift, 0, 0]]).tolist()]
        lines += ["t {} {} {} {}".format(*row) for row in np.concatenate([block.indices, block.indices + count]).tolist()]
        (tmp_path / "two.tet").write_text("\n".join(lines))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mesh = read_solid_mesh(tmp_path / "two.tet")
        assert len(mesh.vertices) == vertices and len(mesh.indices) == 2 * len(block.indices)
        sentence = "has 2 pieces that share no vertices (5 from element 0, 5 from element 5) and move apart"
        assert [sentence in str(one.message) for one in caught] == [True] * warned
        assert all(one.filename == __file__ for one in caught)


def test_tet_text(tmp_path):
    path = tmp_path / "one.tet"
    path.write_text("# a comment\nv 0 0 0\nv 1 0 0 # corner\nv 0 1 0\n\nv 0 0 1\nf 0 1 2\nt 0 1 2 3\n")
    mesh = read_solid_mesh(path, scale=0.5)
    np.testing.assert_array_equal(mesh.vertices, 0.5 * TET)
    assert mesh.indices.tolist() == [[0, 1, 2, 3]]


def write_cells(path: Path, **cells) -> None:
    meshio.Mesh(TWO, [(kind, np.array(indices)) for kind, indices in cells.items()]).write(path)


BAD_FILES = {
    "absent.vtu": (None, "does not exist (looked for "),
    "words.vtu": (lambda path: path.write_text("not a mesh"), "cannot be read ("),
    "unknown.xyz": (lambda path: path.write_text("0 0 0"), "cannot be read ("),
    "shell.vtu": (lambda path: write_cells(path, triangle=[[0, 1, 2]]), "no volume elements (it holds 1 triangle)"),
    "wedge.vtu": (lambda path: write_cells(path, wedge=[[0, 1, 2, 3, 4, 5]]), "holds 1 wedge: a body has elements of one kind"),
    "mixed.vtu": (lambda path: write_cells(path, tetra=[range(4)], hexahedron=[range(8)]), "1 tetra, 1 hexahedron: a body has"),
    "line.tet": (lambda path: path.write_text("v 0 0 0\nv 1 2\n"), "line 2: 'v 1 2' is not of the form 'v x y z'"),
    "index.tet": (lambda path: path.write_text("v 0 0 0\nt 0 1 2 x\n"), "line 2: 't 0 1 2 x' is not of the form 't a b c d'"),
    "points.tet": (lambda path: path.write_text("v 0 0 0\n"), "no volume elements: its 1 vertices need lines"),
    "range.tet": (lambda path: path.write_text("v 0 0 0\nt 0 1 2 3\n"), "element 0 names the vertices 0, 1, 2, 3, and"),
    "binary.tet": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "cannot be read ("),
}  # fmt: skip


@pytest.mark.parametrize("file", BAD_FILES)
def test_unsound_files_are_refused(tmp_path, file, capsys):
    write, words = BAD_FILES[file]
    if write:
        write(tmp_path / file)
    with pytest.raises(UserError) as caught:
        read_solid_mesh(tmp_path / file)
    assert str(caught.value).startswith(f"solid mesh file {tmp_path / file}") and words in str(caught.value)
    assert "\n" not in str(caught.value) and not capsys.readouterr().err


def test_files_and_missing_packages(tmp_path, monkeypatch):
    mesh = box_tets(SIZE, (1, 1, 1))
    with pytest.raises(UserError, match="scale is -1: give a finite number above zero"):
        read_solid_mesh(tmp_path / "a.vtu", scale=-1)
    for path in (tmp_path / "box.xyz", tmp_path / "nowhere" / "box.vtu", tmp_path / "nowhere" / "box.tet"):
        with pytest.raises(UserError, match="cannot be written"):
            write_solid_mesh(mesh, path)
    monkeypatch.setitem(sys.modules, "meshio", None)
    monkeypatch.setitem(sys.modules, "pytetwild", None)
    (tmp_path / "box.vtu").touch()
    with pytest.raises(UserError, match=r"reading box.vtu needs the package meshio .*risp-taichi\[meshes\]"):
        read_solid_mesh(tmp_path / "box.vtu")
    with pytest.raises(UserError, match=r"tetrahedralise needs the package pytetwild, which is not .*risp-taichi\[meshes\]"):
        tetrahedralise(Box(*SIZE))


def test_sheets_from_files(tmp_path):
    path = tmp_path / "strip.obj"  # two squares, split along their common edge
    path.write_text(
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 1 0 0\nv 2 0 0\nv 2 1 0\nv 1 1 0\nv 9 9 9\n"
        "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nf 1/1 2/2 3/3\nf 1/1 3/3 4/4\nf 5/1 6/2 7/3\nf 5/1 7/3 8/4\n"
    )
    sheet = read_sheet_mesh(path, scale=0.1)
    assert sheet.vertices.shape == (6, 3) and sheet.triangles.shape == (4, 3)
    assert outer(sheet).area == pytest.approx(0.02)
    expected = sheet.vertices[sheet.triangles][..., :2] * 10
    expected[2:, :, 0] -= 1
    np.testing.assert_allclose(sheet.uv, expected, atol=1e-12)


def test_closest_faces_agree_with_trimesh():
    surface = Sphere(0.5, subdivisions=1).surface()
    points = np.random.default_rng(0).standard_normal((300, 3))
    corners = surface.vertices[surface.faces]
    faces, feet = closest_faces(points, corners)
    every = [trimesh.triangles.closest_point(corners, np.tile(point, (len(corners), 1))) for point in points]
    distance = np.linalg.norm(np.array(every) - points[:, None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(feet - points, axis=1), distance.min(axis=1), rtol=1e-12)
    np.testing.assert_allclose(feet, np.array(every)[np.arange(300), faces], atol=1e-14)


def test_tetrahedra_in_a_box_carry_its_looks():
    surface = Box(*SIZE).surface()
    surface = TriangleMesh(
        surface.vertices, surface.faces, surface.face_groups, vertex_colors=surface.vertices / SIZE + 0.5,
        face_colors=np.eye(6, 3)[surface.face_groups], uv=surface.uv, textures=(np.ones((2, 3, 3)),),
        face_texture=np.where(surface.face_groups < 2, 0, -1).astype(np.int32),
    )  # fmt: skip
    mesh = tetrahedralise(surface, edge_length=0.15)
    check_surface(mesh, tet_volumes(mesh).sum())
    assert tet_volumes(mesh).sum() == pytest.approx(np.prod(SIZE), rel=0.02)
    edges = np.linalg.norm(np.diff(mesh.vertices[mesh.indices][:, [0, 1, 2, 3, 0]], axis=1), axis=2)
    assert 0.075 < edges.mean() < 0.3
    normals = outer(Box(*SIZE)).face_normals[::2][mesh.face_groups]
    np.testing.assert_allclose(np.einsum("fi,fi->f", outer(mesh).face_normals, normals), 1, atol=0.05)
    np.testing.assert_array_equal(mesh.face_colors, np.eye(6, 3)[mesh.face_groups])
    np.testing.assert_array_equal(mesh.face_texture, np.where(mesh.face_groups < 2, 0, -1))
    used = np.unique(mesh.faces)
    np.testing.assert_allclose(mesh.vertex_colors[used], mesh.vertices[used] / SIZE + 0.5, atol=0.01)
    column, row = mesh.face_groups % 3, mesh.face_groups // 3
    centre = mesh.uv.mean(axis=1)
    np.testing.assert_array_equal(np.floor(centre * (3, 2)), np.stack([column, 1 - row], axis=1))


def test_tetrahedra_in_a_sphere():
    mesh = tetrahedralise(Sphere(0.05, subdivisions=2), edge_length=0.02)
    check_surface(mesh, tet_volumes(mesh).sum())
    assert tet_volumes(mesh).sum() == pytest.approx(outer(Sphere(0.05)).volume, rel=0.02)
    unit = mesh.vertices[mesh.faces] / np.linalg.norm(mesh.vertices[mesh.faces], axis=2, keepdims=True)
    apart = np.abs(mesh.uv - sphere_uv(unit))
    around = np.minimum(apart[..., 0], 1 - apart[..., 0])
    flat = np.abs(unit[..., 2]).max(axis=1) < 0.8  # longitudes near the poles depend on the triangles
    assert around[flat].max() < 0.02 and apart[..., 1].max() < 0.06 and np.ptp(mesh.uv[flat], axis=1).max() < 0.25


@pytest.mark.parametrize(
    "surface, options, words",
    [
        (
            lambda: single_group_mesh(Box(*SIZE).surface().vertices, Box(*SIZE).surface().faces[1:]), {},
            "surface is not watertight",
        ),
        (lambda: Box(*SIZE), {"edge_length": 0}, "edge_length is 0: give a finite number above zero"),
        (lambda: Box(*SIZE), {"edge_length": "fine"}, "edge_length is 'fine'"),
        (lambda: Box(*SIZE), {"edge_length": 1e-4}, "would make more than 5000000 tetrahedra: give at least 0.0"),
    ],
)  # fmt: skip
def test_surfaces_that_cannot_be_tetrahedralised(surface, options, words):
    with pytest.raises(UserError, match="tetrahedralise") as caught:
        tetrahedralise(surface(), **options)
    assert words in str(caught.value)


def test_a_failing_tetrahedraliser_is_one_sentence(monkeypatch):
    smaller = box_tets(0.9 * np.array(SIZE), (1, 1, 1))  # as if the surface were that of two boxes that overlap
    monkeypatch.setattr(tetrahedra, "_tetrahedra", lambda *_: (smaller.vertices, smaller.indices))
    with pytest.raises(UserError, match=r"Box encloses 0.024 m3 and its tetrahedra would fill 0.0175 m3: it intersects itself"):
        tetrahedralise(Box(*SIZE))
    monkeypatch.undo()
    for program, words in (("raise MemoryError('no room')", "MemoryError: no room"), ("import os; os._exit(3)", "exit status 3")):
        monkeypatch.setattr(tetrahedra, "_PROGRAM", program)
        with pytest.raises(UserError, match=rf"Box cannot be tetrahedralised \(pytetwild: {words}\)"):
            tetrahedralise(Box(*SIZE))
