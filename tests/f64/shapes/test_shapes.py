"""Meshes, mass properties, contact points and texture coordinates of shapes against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from tests.reference.folders import SCENE_ASSETS as ASSETS
from tests.reference.shapes import EVERY_SHAPE, as_mesh, rotation
from ti_sim import Box, Capsule, Cone, Cylinder, Mesh, Sphere, contact_points, mass_properties
from ti_sim.shapes.contact_points import max_parameter_factor, placed
from ti_sim.shapes.mass import check_inertia, integrate_surface
from ti_sim.shapes.shape import collision_corners
from ti_sim.shapes.surface import check_solid, merge_vertices, smooth_groups


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
    assert max_parameter_factor(rows) == pytest.approx(0.2 * 0.3, rel=1e-14)
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
