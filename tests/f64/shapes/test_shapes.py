"""Meshes, mass properties and contact points against closed forms; what is refused, and with which words."""

from __future__ import annotations

import bz2
import importlib.util
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from risp_torch import Scene
from tests.reference.folders import SCENE_ASSETS as ASSETS
from ti_sim import Box, Capsule, Cone, Cylinder, Mesh, Sphere, contact_points, mass_properties
from ti_sim.base.errors import UserError
from ti_sim.meshes.files import read_sheet_mesh, read_solid_mesh
from ti_sim.shapes.contact_points import largest_share, placed
from ti_sim.shapes.mass import check_inertia, check_mass, integrate_surface
from ti_sim.shapes.overlap import miscounted_volume
from ti_sim.shapes.shape import collision_corners
from ti_sim.shapes.surface import check_solid, merge_vertices, smooth_groups

EVERY_SHAPE = [
    Box(0.1, 0.2, 0.3),
    Sphere(0.5),
    Sphere(0.5, subdivisions=0),
    Capsule(0.1, 0.3),
    Cylinder(0.2, 0.1),
    Cone(0.2, 0.5, sections=3),
    Mesh(ASSETS / "pebble.obj"),
    Mesh(ASSETS / "wedge.stl"),
]


def rotation(seed: int) -> np.ndarray:
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)  # an odd dimension: the sign of the whole is the sign of the determinant


def as_mesh(shape, **changes) -> Mesh:
    surface = shape.surface()
    return Mesh(vertices=changes.get("vertices", surface.vertices), faces=changes.get("faces", surface.faces))


@pytest.mark.parametrize("shape", EVERY_SHAPE, ids=repr)
def test_every_shape_is_a_solid_about_its_centre_of_mass(shape):
    surface, mesh, properties = shape.surface(), shape.mesh(), mass_properties(shape)
    check_solid(surface.vertices, surface.faces, "shape")
    np.testing.assert_allclose(mesh.vertices, surface.vertices - properties.centre_of_mass, rtol=0, atol=1e-15)
    assert (mesh.vertices.dtype, mesh.faces.dtype, mesh.face_groups.dtype) == (np.float64, np.int32, np.int32)
    assert mesh.face_groups.shape == (len(mesh.faces),)
    check_inertia(properties.inertia_per_density, "shape.inertia")
    other, properties = trimesh.Trimesh(surface.vertices, surface.faces, process=False), integrate_surface(surface)
    assert properties.volume == pytest.approx(other.volume, rel=1e-12)
    np.testing.assert_allclose(properties.centre_of_mass, other.center_mass, rtol=0, atol=1e-14)
    np.testing.assert_allclose(properties.inertia_per_density, other.moment_inertia, rtol=0, atol=1e-12 * properties.volume)


def test_box_closed_forms():
    x, y, z = 0.04, 0.06, 0.1
    properties = mass_properties(Box(x, y, z))
    volume = x * y * z
    assert properties.volume == pytest.approx(volume, rel=1e-14)
    np.testing.assert_allclose(properties.centre_of_mass, 0, atol=1e-17)
    expected = volume / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    np.testing.assert_allclose(properties.inertia_per_density, expected, rtol=1e-13, atol=1e-20)


def test_box_faces_look_outwards_in_the_order_of_the_sides():
    mesh = Box(1.0, 2.0, 3.0).mesh()
    assert mesh.vertices.shape == (8, 3) and mesh.faces.shape == (12, 3)
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    sides = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    np.testing.assert_array_equal(mesh.face_groups, np.repeat(np.arange(6), 2))
    np.testing.assert_allclose(normals, sides[mesh.face_groups], atol=1e-15)


def ideal(kind: str) -> tuple[float, np.ndarray, float]:
    """Volume, principal moments per density and height of the centre of mass of the ideal round body."""
    r, h = 0.3, 0.5
    if kind == "sphere":
        v = 4 / 3 * np.pi * r**3
        return v, 0.4 * v * r * r * np.ones(3), 0.0
    if kind == "cylinder":
        v = np.pi * r * r * h
        return v, v * np.array([(3 * r * r + h * h) / 12, (3 * r * r + h * h) / 12, r * r / 2]), 0.0
    if kind == "cone":
        v = np.pi * r * r * h / 3
        return v, v * np.array([3 * (4 * r * r + h * h) / 80, 3 * (4 * r * r + h * h) / 80, 0.3 * r * r]), h / 4
    vc, vs = np.pi * r * r * h, 4 / 3 * np.pi * r**3
    across = vc * (3 * r * r + h * h) / 12 + vs * (0.4 * r * r + h * h / 4 + 3 * h * r / 8)
    return vc + vs, np.array([across, across, vc * r * r / 2 + 0.4 * vs * r * r]), 0.0


FAMILIES = {
    "sphere": [Sphere(0.3, subdivisions=n) for n in (2, 3, 4)],
    "cylinder": [Cylinder(0.3, 0.5, sections=n) for n in (16, 32, 64)],
    "cone": [Cone(0.3, 0.5, sections=n) for n in (16, 32, 64)],
    "capsule": [Capsule(0.3, 0.5, sections=n) for n in (16, 32, 64)],
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_round_shapes_have_the_mass_of_the_round_body_and_their_meshes_approach_it(kind):
    volume, moments, height = ideal(kind)
    errors = []
    for shape in FAMILIES[kind]:
        exact = mass_properties(shape)
        assert exact.volume == pytest.approx(volume, rel=1e-14)
        np.testing.assert_allclose(exact.centre_of_mass, [0, 0, height], atol=1e-15)
        np.testing.assert_allclose(exact.inertia_per_density, np.diag(moments), rtol=1e-13)
        properties = integrate_surface(shape.surface())
        np.testing.assert_allclose(properties.centre_of_mass, [0, 0, height], atol=1e-15)
        inertia = properties.inertia_per_density
        np.testing.assert_allclose(inertia - np.diag(np.diag(inertia)), 0, atol=1e-15)
        errors.append(np.concatenate([[1 - properties.volume / volume], 1 - np.diag(inertia) / moments]))
    errors = np.array(errors)
    assert (errors > 0).all()  # inscribed
    rates = np.log2(errors[:-1] / errors[1:])
    assert np.abs(rates[0] - 2).max() < 0.1 and np.abs(rates[1] - 2).max() < 0.03
    assert errors[2].max() < 0.01


def test_moving_and_turning_a_mesh_follows_the_parallel_axis_theorem():
    pebble = Mesh(ASSETS / "pebble.obj")
    surface, here = pebble.surface(), mass_properties(pebble)
    turn, shift = rotation(3), np.array([0.7, -0.4, 1.1])
    assert np.linalg.det(turn) == pytest.approx(1.0)
    there = mass_properties(as_mesh(pebble, vertices=surface.vertices @ turn.T + shift))
    assert there.volume == pytest.approx(here.volume, rel=1e-10)
    np.testing.assert_allclose(there.centre_of_mass, turn @ here.centre_of_mass + shift, atol=1e-14)
    expected = turn @ here.inertia_per_density @ turn.T
    np.testing.assert_allclose(there.inertia_per_density, expected, atol=1e-10 * np.abs(expected).max())


def test_parallel_axis_two_boxes_in_one_mesh():
    box, gap = Box(0.02, 0.04, 0.06), np.array([0.05, 0.01, -0.03])
    surface, one = box.surface(), mass_properties(box)
    both = Mesh(
        vertices=np.concatenate([surface.vertices - gap, surface.vertices + gap]),
        faces=np.concatenate([surface.faces, surface.faces + 8]),
    )
    properties = mass_properties(both)
    expected = 2 * one.inertia_per_density + 2 * one.volume * (gap @ gap * np.eye(3) - np.outer(gap, gap))
    assert properties.volume == pytest.approx(2 * one.volume, rel=1e-13)
    np.testing.assert_allclose(properties.inertia_per_density, expected, atol=1e-12 * np.abs(expected).max())


def test_a_cavity_is_taken_away():
    outer, inner = Box(0.2, 0.2, 0.2).surface(), Box(0.1, 0.1, 0.1).surface()
    hollow = Mesh(
        vertices=np.concatenate([outer.vertices, inner.vertices]),
        faces=np.concatenate([outer.faces, inner.faces[:, ::-1] + 8]),
    )
    assert mass_properties(hollow).volume == pytest.approx(0.008 - 0.001, rel=1e-13)


def test_scale_goes_with_the_third_and_fifth_power():
    one, small = mass_properties(Mesh(ASSETS / "wedge.stl")), mass_properties(Mesh(ASSETS / "wedge.stl", scale=0.1))
    assert small.volume == pytest.approx(1e-3 * one.volume, rel=1e-12)
    np.testing.assert_allclose(small.centre_of_mass, 0.1 * one.centre_of_mass, rtol=1e-12)
    size = np.abs(one.inertia_per_density).max()
    np.testing.assert_allclose(small.inertia_per_density, 1e-5 * one.inertia_per_density, atol=1e-17 * size)


def test_contact_points_of_a_split_box_merge_to_eight():
    surface = Box(0.1, 0.2, 0.3).surface()
    vertices = surface.vertices[surface.faces].reshape(-1, 3) + (0.5, 0.0, 0.0)
    jitter = 1e-12 * np.random.default_rng(0).standard_normal(vertices.shape)
    split = Mesh(vertices=vertices + jitter, faces=np.arange(36).reshape(12, 3))
    assert len(split.mesh().vertices) == 36
    points = collision_corners(split)
    assert points.shape == (8, 3)
    np.testing.assert_array_equal(contact_points(split), np.hstack([points, np.zeros((8, 5))]))
    np.testing.assert_allclose(np.abs(points), np.tile([0.05, 0.1, 0.15], (8, 1)), atol=1e-10)


def test_merging_is_not_torn_by_a_rounding_grid_and_keeps_the_order():
    base = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5e-9, 1.0, 0.0]])
    points, index = merge_vertices(np.concatenate([base, base + 0.45e-9, base - 0.45e-9]))
    np.testing.assert_array_equal(points, base)
    np.testing.assert_array_equal(index, np.tile([0, 1, 2], 3))
    assert len(merge_vertices(np.concatenate([base, base + 2e-9]))[0]) == 6


def test_collision_mesh_is_placed_by_the_mass_of_the_render_mesh(tmp_path):
    surface = Cone(0.1, 0.4).surface()
    separate = Mesh(vertices=surface.vertices, faces=surface.faces, collision=Box(0.2, 0.2, 0.2))
    com = mass_properties(separate).centre_of_mass
    np.testing.assert_allclose(com, [0, 0, 0.1], atol=1e-15)
    np.testing.assert_allclose(collision_corners(separate), Box(0.2, 0.2, 0.2).surface().vertices - com, atol=1e-15)
    np.testing.assert_array_equal(contact_points(separate)[:, :3], collision_corners(separate))
    ball = Mesh(vertices=surface.vertices, faces=surface.faces, collision=Sphere(0.1))
    np.testing.assert_allclose(contact_points(ball), [[0, 0, -0.1, 0.1, 0, 0, 0, 0]], atol=1e-15)
    path = tmp_path / "points.obj"
    path.write_text("v 0 0 0\nv 9 9 9\nv 1 0 0\nv 0 1 0\nf 1 3 4\n")  # open, and with a vertex that no face uses
    from_file = Mesh(vertices=surface.vertices, faces=surface.faces, scale=2.0, collision=path)
    corners = contact_points(from_file)[:, :3] + 2 * com
    np.testing.assert_allclose(corners, 2.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), atol=1e-15)


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


def test_a_part_that_is_inside_out_is_refused_and_a_cavity_is_not():
    box = Box(1, 1, 1).surface()
    faces = np.concatenate([box.faces, box.faces[:, ::-1] + len(box.vertices)])
    with pytest.raises(UserError, match=r"of its 2 parts, the one of 12 faces from face 12 on; volume -0.125 m3"):
        Mesh(vertices=np.concatenate([box.vertices, 0.5 * box.vertices + [2, 0, 0]]), faces=faces)
    hollow = Mesh(vertices=np.concatenate([box.vertices, 0.5 * box.vertices]), faces=faces)
    assert mass_properties(hollow).volume == pytest.approx(0.875)


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


def test_where_round_shapes_touch():
    np.testing.assert_array_equal(contact_points(Sphere(0.3)), [[0, 0, 0, 0.3, 0, 0, 0, 0]])
    ends = contact_points(Capsule(0.1, 0.4))
    np.testing.assert_allclose(ends, [[0, 0, -0.2, 0.1, 0, 0, 0, 0], [0, 0, 0.2, 0.1, 0, 0, 0, 0]])
    cylinder = contact_points(Cylinder(0.1, 0.4))
    np.testing.assert_allclose(cylinder, [[0, 0, z, 0.1, quarter, 0, 0, 1] for z in (-0.2, 0.2) for quarter in (1, 2, 3, 4)])
    cone = contact_points(Cone(0.1, 0.4))
    np.testing.assert_allclose(cone[:4], [[0, 0, -0.1, 0.1, quarter, 0, 0, 1] for quarter in (1, 2, 3, 4)], atol=1e-16)
    np.testing.assert_allclose(cone[4], [0, 0, 0.3, 0, 0, 0, 0, 0])


def test_patches_share_out_the_surface():
    rows = contact_points(Box(0.1, 0.2, 0.3), per_area=True)
    assert (rows[:, 4] == 5).all() and len(rows) == 8
    np.testing.assert_allclose(rows[:, 5:].sum(axis=0), 0.0, atol=1e-16)
    assert rows[rows[:, 2] < 0, 7].sum() == pytest.approx(-0.1 * 0.2, rel=1e-14)  # the lower corners carry the lower side
    assert largest_share(rows) == pytest.approx(0.2 * 0.3, rel=1e-14)
    ball = contact_points(Sphere(0.5, subdivisions=4), per_area=True)
    assert np.linalg.norm(ball[:, 5:], axis=1).sum() == pytest.approx(4 * np.pi * 0.25, rel=3e-3)
    turn = rotation(2)
    turned = placed(ball, turn, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(turned[:, :3], ball[:, :3] @ turn.T + (1, 2, 3), atol=1e-15)
    np.testing.assert_allclose(turned[:, 5:], ball[:, 5:] @ turn.T, atol=1e-15)


PRIMITIVES = [shape for shape in EVERY_SHAPE if not isinstance(shape, Mesh)]


@pytest.mark.parametrize("shape", PRIMITIVES, ids=repr)
def test_every_primitive_is_unwrapped(shape):
    mesh = shape.mesh()
    assert mesh.uv.shape == (*mesh.faces.shape, 2) and np.isfinite(mesh.uv).all()
    assert mesh.uv.min() >= -1e-12 and mesh.uv[..., 1].max() <= 1 + 1e-12
    # Seen from outside no face shows its texture mirrored, and none is empty.
    along, across = mesh.uv[:, 1] - mesh.uv[:, 0], mesh.uv[:, 2] - mesh.uv[:, 0]
    assert (along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0] > 1e-9).all()


def test_box_uv_are_six_upright_sides():
    mesh = Box(1.0, 2.0, 3.0).mesh()
    centres = {  # middle of a side -> its place in the picture of three columns and two rows
        (0.5, 0, 0): (1 / 6, 3 / 4), (-0.5, 0, 0): (3 / 6, 3 / 4), (0, 1, 0): (5 / 6, 3 / 4),
        (0, -1, 0): (1 / 6, 1 / 4), (0, 0, 1.5): (3 / 6, 1 / 4), (0, 0, -1.5): (5 / 6, 1 / 4),
    }  # fmt: skip
    for side, (point, place) in enumerate(centres.items()):
        faces = mesh.faces[mesh.face_groups == side]
        uv = mesh.uv[mesh.face_groups == side].reshape(-1, 2)
        corners = mesh.vertices[faces].reshape(-1, 3)
        up = np.array([0, 0, 1]) if side < 4 else np.array([0, 1, 0])
        right = np.cross(up, point)  # seen from outside
        np.testing.assert_allclose(0.5 * (uv.min(axis=0) + uv.max(axis=0)), place, atol=1e-15)
        np.testing.assert_allclose(np.ptp(uv, axis=0), [1 / 3, 1 / 2], atol=1e-15)
        np.testing.assert_array_equal(uv[:, 1] > place[1], corners @ up > 0)
        np.testing.assert_array_equal(uv[:, 0] > place[0], corners @ right > 0)


def test_round_uv_are_angle_and_height():
    sphere = Sphere(2.0, subdivisions=2).surface()
    corners = sphere.vertices[sphere.faces] / 2.0
    np.testing.assert_allclose(np.sin(np.pi * (sphere.uv[..., 1] - 0.5)), corners[..., 2], atol=1e-12)
    flat = corners[..., 0] + 1j * corners[..., 1]
    ring = np.abs(flat) > 1e-9  # the poles have no angle
    np.testing.assert_allclose(np.exp(2j * np.pi * sphere.uv[..., 0])[ring], (flat[ring] / np.abs(flat[ring])), atol=1e-12)
    assert np.ptp(sphere.uv[..., 0], axis=1).max() < 0.3  # no face runs around the sphere the long way
    tube = Cylinder(0.5, 2.0, sections=12).surface()
    corners = tube.vertices[tube.faces]
    side = (tube.uv[..., 1] > 0.16) & (tube.uv[..., 1] < 0.84)  # the profile: 0.5, 2.0, 0.5
    np.testing.assert_allclose(tube.uv[..., 1][side], (0.5 + corners[..., 2][side] + 1.0) / 3.0, atol=1e-12)


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


def test_smooth_groups_join_corners_at_a_point_and_keep_creases():
    box = Box(1, 1, 1).surface()
    groups = smooth_groups(box.vertices, box.faces)
    assert groups.max() + 1 == 8 and groups.dtype == np.int32
    split = box.vertices[box.faces].reshape(-1, 3)  # no two faces share a vertex
    again = smooth_groups(split, np.arange(36).reshape(12, 3)).reshape(-1)
    np.testing.assert_array_equal(again[:, None] == again, groups.reshape(-1)[:, None] == groups.reshape(-1))
    creased = smooth_groups(box.vertices, box.faces, crease_angle=1.0)
    assert creased.max() + 1 == 24  # every side by itself, its two faces together
    for side in range(6):
        assert len(np.unique(creased[box.face_groups == side])) == 4
    assert smooth_groups(box.vertices, box.faces, crease_angle=1.6).max() + 1 == 8  # more than a right angle
    tube = Cylinder(0.5, 1.0, sections=16).surface()
    assert smooth_groups(tube.vertices, tube.faces, crease_angle=0.6).max() + 1 == 32 + 32 + 2  # sharp rims, smooth side
    assert smooth_groups(tube.vertices, tube.faces, crease_angle=0.0).max() + 1 == 16 * 4 + 2 * (16 + 1)


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


def test_results_share_no_memory():
    mesh = Mesh(ASSETS / "wedge.stl")
    before = contact_points(mesh)
    for array in (mesh.mesh().vertices, mesh.surface().vertices, mesh.collision_surface().vertices, mesh.mesh().faces):
        array[:] = 0
    np.testing.assert_array_equal(contact_points(mesh), before)
    given = Box(1, 1, 1).surface()
    own = Mesh(vertices=given.vertices, faces=given.faces)
    given.vertices[:] = 0
    assert mass_properties(own).volume == pytest.approx(1.0)


def box_arrays() -> tuple[np.ndarray, np.ndarray]:
    surface = Box(1, 1, 1).surface()
    return surface.vertices, surface.faces.copy()


def test_broken_arrays_are_refused():
    vertices, faces = box_arrays()
    with pytest.raises(UserError, match=r"not watertight: 3 edges .* close its holes"):
        Mesh(vertices=vertices, faces=faces[1:])
    with pytest.raises(UserError, match="inside-out .* reverse the vertex order"):
        Mesh(vertices=vertices, faces=faces[:, ::-1])
    twisted = faces.copy()
    twisted[0] = twisted[0, ::-1]
    with pytest.raises(UserError, match="opposite winding: the two faces at 3 edges"):
        Mesh(vertices=vertices, faces=twisted)
    with pytest.raises(UserError, match="2 of its 14 faces have no area .the first is face 12"):
        Mesh(vertices=vertices, faces=np.concatenate([faces, [[0, 0, 1], [2, 3, 3]]]))
    with pytest.raises(UserError, match="encloses no volume"):
        Mesh(vertices=[[0, 0, 0], [1, 0, 0], [0, 1, 0]], faces=[[0, 1, 2], [0, 2, 1]])
    with pytest.raises(UserError, match="faces name vertices 0 to 7, and there are 0 to 6"):
        Mesh(vertices=vertices[:7], faces=faces)
    with pytest.raises(UserError, match="vertex 2 is not finite"):
        Mesh(vertices=np.where(np.arange(8)[:, None] == 2, np.nan, vertices), faces=faces)
    with pytest.raises(UserError, match="has no faces"):
        Mesh(vertices=vertices, faces=np.zeros((0, 3), int))
    with pytest.raises(UserError, match=r"faces have shape .*float64.*integers"):
        Mesh(vertices=vertices, faces=faces.astype(float))
    with pytest.raises(UserError, match=r"vertices have shape \(8, 2\)"):
        Mesh(vertices=vertices[:, :2], faces=faces)
    with pytest.raises(UserError, match="give a path, or vertices and faces"):
        Mesh(vertices=vertices)
    with pytest.raises(UserError, match="both given"):
        Mesh("a.obj", vertices=vertices, faces=faces)
    with pytest.raises(UserError, match="Mesh: collision is 3: give a text or a Path or a Shape"):
        Mesh(vertices=vertices, faces=faces, collision=3)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), "big"])
def test_bad_scale_is_refused(scale):
    with pytest.raises(UserError, match="Mesh: scale is .*: give a finite number above zero"):
        Mesh(ASSETS / "wedge.stl", scale=scale)


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Box(0.1, 0.0, 0.1), "Box: y is 0.0: give a finite number above zero"),
        (lambda: Box(0.1, 0.1, float("inf")), "Box: z is inf"),
        (lambda: Sphere(-1), "Sphere: radius is -1: "),
        (lambda: Sphere("a"), "Sphere: radius is 'a': give a finite number above zero"),
        (lambda: Sphere(1, subdivisions=1.5), "Sphere: subdivisions is 1.5: give a whole number from 0 to 7"),
        (lambda: Capsule(0.1, -0.2), "Capsule: length is -0.2: "),
        (lambda: Cylinder(0.1, float("nan")), "Cylinder: height is nan: "),
        (lambda: Cone(0.1, 0.1, sections=2), "Cone: sections is 2: give a whole number from 3 to 4096"),
    ],
)
def test_bad_sizes_are_refused(make, words):
    with pytest.raises(UserError, match=words):
        make()


def test_hand_given_mass_and_inertia_are_checked():
    assert check_mass(np.float32(2), "die.mass") == 2.0
    for bad in (0.0, -1.0, float("nan"), float("inf"), None, [1, 2]):
        with pytest.raises(UserError, match="die.mass is"):
            check_mass(bad, "die.mass")
    turn = rotation(1)
    good = turn @ np.diag([1.0, 2.0, 2.9]) @ turn.T
    np.testing.assert_allclose(check_inertia(good, "die.inertia"), good, rtol=1e-14)
    np.testing.assert_allclose(check_inertia(np.diag([1.0, 2.0, 3.0]), "rod"), np.diag([1.0, 2.0, 3.0]))  # a flat body
    bad = {
        "breaks the triangle inequality": turn @ np.diag([1.0, 2.0, 3.1]) @ turn.T,
        "not positive definite": turn @ np.diag([-1.0, 2.0, 2.0]) @ turn.T,
        "not symmetric": good + np.triu(np.ones((3, 3)), 1),
        r"has shape \(3,\)": np.ones(3),
        "not finite": np.full((3, 3), np.nan),
        "not an array of numbers": "heavy",
    }
    for words, inertia in bad.items():
        with pytest.raises(UserError, match=f"die.inertia.*{words}"):
            check_inertia(inertia, "die.inertia")


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


# --- what a mesh file may hide ------------------------------------------------------------------------------------------------


def joined(*surfaces) -> dict:
    starts = np.cumsum([0] + [len(surface.vertices) for surface in surfaces])
    faces = [surface.faces + start for surface, start in zip(surfaces, starts[:-1], strict=True)]
    return {"vertices": np.concatenate([surface.vertices for surface in surfaces]), "faces": np.concatenate(faces)}


def test_overlapping_parts_are_told_of_with_what_counts_twice():
    turn = rotation(5)
    box = Box(0.1, 0.1, 0.1).surface()
    moved = [box.transformed(offset=np.array(offset)) for offset in ((0.05, 0, 0), (0.1, 0, 0), (0.3, 0, 0))]
    cavity = Box(0.05, 0.05, 0.05).surface()
    inside_out = replace(cavity, faces=cavity.faces[:, ::-1].copy())

    def miscounted_share(*surfaces) -> float:
        given = joined(*surfaces)
        points, index = merge_vertices(given["vertices"] @ turn.T)
        return miscounted_volume(points, index[given["faces"]])

    assert miscounted_share(box, moved[0]) == pytest.approx(5e-4, rel=0.02)
    assert miscounted_share(box, inside_out.transformed(offset=np.array([0.3, 0.0, 0.0]))) == pytest.approx(1.25e-4, rel=0.02)
    assert miscounted_share(box, moved[1]) == miscounted_share(box, moved[2]) == miscounted_share(box, inside_out) == 0.0
    for shape in EVERY_SHAPE:
        points, index = merge_vertices(shape.surface().vertices)
        assert miscounted_volume(points, index[shape.surface().faces]) == 0.0
    overlapping, beside = Mesh(**joined(box, moved[0])), Mesh(**joined(box, moved[1]))
    assert overlapping.miscounted_share == pytest.approx(0.25, rel=0.02) and beside.miscounted_share == 0.0
    scene = Scene(frame_dt=0.01, frames=1, substeps=1)
    sentence = "the mesh of double intersects itself, or has parts that overlap or are inside out: 25 % of its volume is wrong"
    with pytest.warns(UserWarning, match=sentence):
        scene.add_rigid("double", shape=overlapping, density=1000.0)
    with warnings.catch_warnings(action="error"):
        scene.add_rigid("given", shape=overlapping, mass=1.0, inertia=1e-3 * np.eye(3))
        scene.add_rigid("beside", shape=beside, density=1000.0)


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
    monkeypatch.setattr("ti_sim.shapes.mesh._LARGE", 100)
    Mesh(ASSETS / "pebble.obj")
    assert "mesh file pebble.obj" in capsys.readouterr().err
