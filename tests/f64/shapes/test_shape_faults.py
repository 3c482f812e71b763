"""Arrays, sizes, masses and inertias with faults, which are refused in a sentence, and meshes that overlap themselves."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from risp_torch import Scene
from tests.reference.folders import SCENE_ASSETS as ASSETS
from tests.reference.shapes import EVERY_SHAPE, box_arrays, joined, rotation
from ti_sim import Box, Capsule, Cone, Cylinder, Mesh, Sphere, mass_properties
from ti_sim.base.errors import UserError
from ti_sim.shapes.mass import check_inertia, check_mass
from ti_sim.shapes.overlap import miscounted_volume
from ti_sim.shapes.surface import merge_vertices


def test_a_part_that_is_inside_out_is_refused_and_a_cavity_is_not():
    box = Box(1, 1, 1).surface()
    faces = np.concatenate([box.faces, box.faces[:, ::-1] + len(box.vertices)])
    with pytest.raises(UserError, match=r"of its 2 parts, the one of 12 faces from face 12 on; volume -0.125 m3"):
        Mesh(vertices=np.concatenate([box.vertices, 0.5 * box.vertices + [2, 0, 0]]), faces=faces)
    hollow = Mesh(vertices=np.concatenate([box.vertices, 0.5 * box.vertices]), faces=faces)
    assert mass_properties(hollow).volume == pytest.approx(0.875)


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
