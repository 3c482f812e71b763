"""Mesh files of every format: colours, textures, faults of exporters, packed files; files that are refused by name."""

from __future__ import annotations

import bz2
import importlib.util
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from tests.reference.folders import SCENE_ASSETS as ASSETS
from ti_sim import Box, Mesh, Sphere, contact_points, mass_properties
from ti_sim.base.errors import UserError
from ti_sim.meshes.files import read_sheet_mesh, read_solid_mesh


def test_colours_of_a_file_become_linear(tmp_path):
    surface = Box(1, 1, 1).surface()
    colours = np.full((8, 4), 255, np.uint8)
    colours[:, 0] = np.arange(8) * 36
    trimesh.Trimesh(surface.vertices, surface.faces, vertex_colors=colours, process=False).export(tmp_path / "v.ply")
    mesh = Mesh(tmp_path / "v.ply").mesh()
    red = colours[:, 0] / 255
    expected = np.where(red <= 0.04045, red / 12.92, ((red + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(mesh.vertex_colors[:, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(mesh.vertex_colors[:, 1:], 1.0)
    assert mesh.face_colors is None
    faces = np.tile(np.array([188, 0, 255, 255], np.uint8), (12, 1))
    trimesh.Trimesh(surface.vertices, surface.faces, face_colors=faces, process=False).export(tmp_path / "f.ply")
    mesh = Mesh(tmp_path / "f.ply").mesh()
    assert mesh.vertex_colors is None
    np.testing.assert_allclose(mesh.face_colors, np.tile([0.5029, 0.0, 1.0], (12, 1)), atol=1e-4)
    trimesh.Trimesh(surface.vertices, surface.faces, vertex_colors=colours, process=False).export(tmp_path / "v.glb")
    np.testing.assert_allclose(Mesh(tmp_path / "v.glb").mesh().vertex_colors[:, 0], red, rtol=1e-14)  # glTF is linear


def test_colours_of_materials_are_kept(tmp_path):
    """A cube of each material, and cubes whose colours differ in kind."""
    box = Box(1, 1, 1).surface()
    lines = [f"v {x} {y} {z}" for x, y, z in np.concatenate([box.vertices, box.vertices + [2, 0, 0]])]
    lines += ["mtllib a.mtl", "usemtl red", *("f {} {} {}".format(*face) for face in box.faces + 1)]
    lines += ["usemtl green", *("f {} {} {}".format(*face) for face in box.faces + 1 + len(box.vertices))]
    (tmp_path / "two.obj").write_text("\n".join(lines))
    assert Mesh(tmp_path / "two.obj").mesh().face_colors is None  # its materials are elsewhere
    (tmp_path / "a.mtl").write_text("newmtl red\nKd 0.8 0.2 0\nnewmtl green\nKd 0 0.6 0\n")
    mesh = Mesh(tmp_path / "two.obj").mesh()
    left = mesh.vertices[mesh.faces].mean(axis=1)[:, 0] < mesh.vertices[:, 0].mean()
    np.testing.assert_allclose(mesh.face_colors[left], np.tile([0.6038, 0.0331, 0.0], (12, 1)), atol=1e-4)
    np.testing.assert_allclose(mesh.face_colors[~left], np.tile([0.0, 0.3185, 0.0], (12, 1)), atol=1e-4)
    material = trimesh.visual.material.PBRMaterial(baseColorFactor=[204, 51, 0, 255])
    plain = trimesh.Trimesh(box.vertices, box.faces, process=False, visual=trimesh.visual.TextureVisuals(material=material))
    plain.export(tmp_path / "plain.glb")
    np.testing.assert_allclose(Mesh(tmp_path / "plain.glb").mesh().face_colors, np.tile([0.8, 0.2, 0.0], (12, 1)), atol=1e-9)
    blue = trimesh.Trimesh(box.vertices + [2, 0, 0], box.faces, process=False)
    blue.visual.vertex_colors = np.tile([0, 0, 255, 255], (len(box.vertices), 1))
    trimesh.Scene([plain, blue]).export(tmp_path / "mixed.glb")
    mixed = Mesh(tmp_path / "mixed.glb").mesh().face_colors
    assert sorted(map(tuple, np.unique(mixed.round(3), axis=0))) == [(0.0, 0.0, 1.0), (0.8, 0.2, 0.0)]


PENTAGONS = """
v 0 0 0\nv 1 0 0\nv 2 0 0\nv 2 2 0\nv 0 2 0\nv 0 0 2\nv 1 0 2\nv 2 0 2\nv 2 2 2\nv 0 2 2
vt 0 0\nvt 0.5 0\nvt 1 0\nvt 1 1\nvt 0 1
f 5/5 4/4 3/3 2/2 1/1\nf 6/1 7/2 8/3 9/4 10/5\nf 1/1 2/2 7/2 6/1\nf 2/2 3/3 8/3 7/2\nf 3/3 4/4 9/4 8/3\nf 4/4 5/5 10/5 9/4
f 5/5 1/1 6/1 10/5
"""  # of two walls, one edge has a vertex in its middle


def test_a_vertex_on_an_edge_of_a_polygon_divides_the_triangle_behind_it(tmp_path):
    (tmp_path / "pentagons.obj").write_text(PENTAGONS)
    shape = Mesh(tmp_path / "pentagons.obj")
    assert mass_properties(shape).volume == pytest.approx(8.0) and len(contact_points(shape)) == 10
    mesh = shape.mesh()
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    assert areas.min() > 0.1 and areas.sum() == pytest.approx(24.0)
    flat = np.abs(mesh.vertices[mesh.faces][..., 2] - mesh.vertices[:, 2].max()).max(axis=1) < 1e-9
    corners = mesh.vertices[mesh.faces[flat]] - mesh.vertices.min(axis=0)
    np.testing.assert_allclose(mesh.uv[flat], corners[..., :2] / 2, atol=1e-12)  # texture coordinates are divided with it


def test_a_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "marked.obj").write_bytes(b"\xef\xbb\xbf" + PENTAGONS.replace("\n", "\r\n").lstrip().encode())
    assert mass_properties(Mesh(tmp_path / "marked.obj")).volume == pytest.approx(8.0)


def test_binary_stl_files_with_other_counts(tmp_path):
    whole = trimesh.creation.box().export(file_type="stl")
    head, facets = whole[:80], whole[84:]
    counted = {"trailing": whole + b"\0" * 10, "zero": head + b"\0" * 4 + facets, "streamed": head + b"\xff" * 4 + facets}
    for name, content in counted.items():
        (tmp_path / f"{name}.stl").write_bytes(content)
        with pytest.warns(UserWarning, match="12 are read"):
            assert mass_properties(Mesh(tmp_path / f"{name}.stl")).volume == pytest.approx(1.0)
    (tmp_path / "named.stl").write_bytes(b"solid".ljust(80, b" ") + whole[80:])
    assert mass_properties(Mesh(tmp_path / "named.stl")).volume == pytest.approx(1.0)
    (tmp_path / "cut.stl").write_bytes(whole[:-70])
    with pytest.raises(UserError, match="cut short: it counts 12 facets and holds 10"):
        Mesh(tmp_path / "cut.stl")


def wrapped_box(folder: Path, *, material: str = "newmtl a\nmap_Kd tex.png\n") -> Path:
    surface = Box(1, 1, 1).surface()
    lines = ["mtllib box.mtl", "usemtl a", *(f"v {x} {y} {z}" for x, y, z in surface.vertices)]
    lines += [f"vt {u} {v}" for u, v in surface.uv.reshape(-1, 2)]
    lines += [" ".join(["f", *(f"{v + 1}/{3 * f + k + 1}" for k, v in enumerate(face))]) for f, face in enumerate(surface.faces)]
    (folder / "box.obj").write_text("\n".join(lines) + "\n")
    (folder / "box.mtl").write_text(material)
    return folder / "box.obj"


def test_uv_and_textures_of_a_file_are_kept(tmp_path):
    path = wrapped_box(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "tex.png")  # with alpha, which is dropped
    stored = pixels[..., :3] / 255
    linear = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
    mesh = Mesh(path, scale=2.0).mesh()
    np.testing.assert_allclose(mesh.uv, Box(1, 1, 1).mesh().uv, atol=1e-12)
    np.testing.assert_allclose(mesh.textures[0], linear, atol=1e-14)
    assert len(mesh.textures) == 1 and mesh.face_texture.tolist() == [0] * 12 and mesh.texture_fault == ""
    trimesh.load_scene(path, process=False).export(tmp_path / "box.glb")  # glTF turns v around, and its reader turns it back
    again = Mesh(tmp_path / "box.glb").mesh()
    np.testing.assert_allclose(np.sort(again.uv.reshape(-1, 2), axis=0), np.sort(mesh.uv.reshape(-1, 2), axis=0), atol=1e-6)
    np.testing.assert_allclose(again.textures[0], linear, atol=1e-14)
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(tmp_path / "tex.png")  # 16 bits of grey
    np.testing.assert_allclose(Mesh(path).mesh().textures[0], np.repeat(linear[..., :1], 3, axis=2), atol=1e-14)
    assert Mesh(ASSETS / "pebble.obj").mesh().uv is None and Mesh(ASSETS / "pebble.obj").mesh().textures == ()


def test_textures_that_cannot_be_read_are_a_note_on_the_mesh(tmp_path):
    path = wrapped_box(tmp_path)
    mesh = Mesh(path).mesh()  # whoever paints the body otherwise does not need the picture
    assert mesh.textures == () and mesh.uv is not None
    assert "tex.png does not exist" in mesh.texture_fault
    (tmp_path / "tex.png").write_bytes(b"no picture")
    assert "tex.png is damaged, cut short or no picture" in Mesh(path).mesh().texture_fault
    wrapped_box(tmp_path, material="newmtl a\nKd 1 0 0\n")
    assert Mesh(path).mesh().texture_fault == "" and Mesh(path).mesh().textures == ()
    (tmp_path / "box.mtl").unlink()
    assert Mesh(path).mesh().texture_fault == "" and Mesh(path).mesh().textures == ()


def test_several_geometries_of_a_scene_file_are_one_body_each_in_its_place(tmp_path):
    scene, surface = trimesh.Scene(), Box(0.1, 0.1, 0.1).surface()
    for x in (-1.0, 1.0):
        placed = np.eye(4)
        placed[0, 3] = x
        scene.add_geometry(trimesh.Trimesh(surface.vertices, surface.faces, process=False), transform=placed)
    scene.export(tmp_path / "two.glb")
    mesh = Mesh(tmp_path / "two.glb")
    assert len(mesh.mesh().faces) == 24
    assert mass_properties(mesh).volume == pytest.approx(2e-3, rel=1e-6)
    assert np.ptp(mesh.mesh().vertices[:, 0]) == pytest.approx(2.1, rel=1e-6)


def test_broken_files_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"mesh file .*absent.obj does not exist .looked for /"):
        Mesh(tmp_path / "absent.obj")
    contents = {
        "noise.stl": b"\x00\x01\x02 not a mesh",
        "noise.ply": b"ply\nformat nonsense",
        "words.xyzzy": b"hello",
        "empty.obj": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=rf"mesh file .*{name} (cannot be read|has no faces)"):
            Mesh(tmp_path / name)
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    with pytest.raises(UserError, match=r"points.obj has no faces"):
        Mesh(tmp_path / "points.obj")
    (tmp_path / "open.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    with pytest.raises(UserError, match=r"open.obj is not watertight: 3 edges"):
        Mesh(tmp_path / "open.obj")
    with pytest.raises(UserError, match=r"gone.obj does not exist"):
        Mesh(ASSETS / "wedge.stl", collision=tmp_path / "gone.obj")


def test_assets_are_what_their_script_makes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_assets", ASSETS / "make_assets.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    for name in ("pebble.obj", "wedge.stl"):
        np.testing.assert_allclose(Mesh(tmp_path / name).surface().vertices, Mesh(ASSETS / name).surface().vertices, atol=2e-6)
    pebble = Mesh(ASSETS / "pebble.obj")
    assert pebble.mesh().vertices.shape == (162, 3) and pebble.mesh().faces.shape == (320, 3)
    assert np.ptp(pebble.mesh().vertices, axis=0).max() == pytest.approx(0.08, rel=1e-4)
    moments = np.linalg.eigvalsh(mass_properties(pebble).inertia_per_density)
    assert np.diff(moments).min() > 0.05 * moments[2]  # three distinct axes: its tumbling shows the gyroscopic term
    # Lopsided: it reaches less far along some u than along -u from its centre of mass.
    directions = Sphere(1.0).surface().vertices
    reach = directions @ pebble.mesh().vertices.T
    assert np.abs(reach.max(axis=1) + reach.min(axis=1)).max() > 0.02 * 0.08


def test_a_file_in_millimetres_gets_a_remark(tmp_path):
    ball = Sphere(20.0).surface()
    trimesh.Trimesh(ball.vertices, ball.faces, process=False).export(tmp_path / "ball.stl")
    sentence = "is 40 m across: if its numbers are millimetres, read it with scale=0.001"
    with pytest.warns(UserWarning, match=sentence):
        Mesh(tmp_path / "ball.stl")
    with pytest.warns(UserWarning, match=sentence):
        read_sheet_mesh(tmp_path / "ball.stl")
    (tmp_path / "rod.tet").write_text("v 0 0 0\nv 40 0 0\nv 0 40 0\nv 0 0 40\nt 0 1 2 3\n")
    with pytest.warns(UserWarning, match=sentence):
        read_solid_mesh(tmp_path / "rod.tet")
    with warnings.catch_warnings(action="error"):
        Mesh(tmp_path / "ball.stl", scale=1e-3)
        read_sheet_mesh(tmp_path / "ball.stl", scale=1e-3)
        read_solid_mesh(tmp_path / "rod.tet", scale=1e-3)


def test_packed_files_are_measured_before_they_are_unpacked(tmp_path):
    box = Box(1.0, 2.0, 3.0).surface()
    text = trimesh.Trimesh(box.vertices, box.faces, process=False).export(file_type="obj")
    with zipfile.ZipFile(tmp_path / "box.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("box.obj", text)
    assert mass_properties(Mesh(tmp_path / "box.zip")).volume == pytest.approx(6.0, rel=1e-7)
    with zipfile.ZipFile(tmp_path / "bomb.3mf", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("box.obj", text + "#" * 20_000_000)
    with pytest.raises(UserError, match=r"bomb.3mf holds 0.0\d+ MB that unpack to 20 MB: no mesh packs like that"):
        Mesh(tmp_path / "bomb.3mf")
    (tmp_path / "bomb.obj.bz2").write_bytes(bz2.compress(b"#" * 18_000_000))
    with pytest.raises(UserError, match=r"bomb.obj.bz2 holds .* MB that unpack to more than 17.\d+ MB: no mesh packs like that"):
        Mesh(tmp_path / "bomb.obj.bz2")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "box.zip").read_bytes()[:-30])
    with pytest.raises(UserError, match="cut.zip cannot be read"):
        Mesh(tmp_path / "cut.zip")


def test_large_files_show_a_bar(monkeypatch, capsys):
    Mesh(ASSETS / "pebble.obj")
    assert "pebble" not in capsys.readouterr().err
    monkeypatch.setattr("ti_sim.shapes.mesh._LARGE_FILE_BYTES", 100)
    Mesh(ASSETS / "pebble.obj")
    assert "mesh file pebble.obj" in capsys.readouterr().err
