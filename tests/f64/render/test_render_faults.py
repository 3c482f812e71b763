"""Settings, inputs, meshes and adjoints of wrong shapes or values are refused in a sentence; in f64."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import render_scenes
from tests.reference.render_scenes import STILL
from ti_render import RasterSettings, ShadowSettings, look_at, mesh_topology, render, render_adjoint, render_jvp
from ti_render.camera import intrinsics_from_fov
from ti_sim.base.errors import UserError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "at least 1"),
        ({"height": 0}, "at least 1"),
        ({"sigma": 0.0}, "sigma is 0.0"),
        ({"sigma": float("nan")}, "sigma is nan"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"near": 0.0}, "near is 0.0: give a finite number above zero"),
        ({"near": 5.0, "far": 5.0}, "near < far is needed"),
        ({"far": np.inf}, "far is inf: give a finite number above zero"),
        ({"composite": "over"}, "composite 'over' is unknown: choose .*'alpha'"),
        ({"aggregation": "hard"}, "aggregation 'hard' is unknown: choose .*'softras'"),
        ({"shading": "gouraud"}, "shading 'gouraud' is unknown: choose .*'phong'"),
        ({"quantity": "albedo"}, "quantity 'albedo' is unknown: choose .*'depth'"),
        ({"ground": "grass"}, "ground 'grass' is unknown: choose .*'checker'"),
        ({"background_weight": 1.0}, "background_weight is 1.0"),
        ({"antialias": 0}, "antialias is 0"),
        ({"tile": 0}, "tile is 0: give a whole number of at least 1"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(UserError, match=message):
        RasterSettings(**{"width": 8, "height": 8, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius is 0.0"),
        ({"resolution": 1}, "resolution is 1: give a whole number from 2"),
        ({"bias": -0.1}, "bias is -0.1"),
        ({"sigma": -1e-3}, "sigma is -0.001"),
        ({"width": 0.0}, "width is 0.0"),
        ({"center": (0.0, 0.0)}, "center"),
        ({"center": (0.0, 0.0, float("nan"))}, "center"),
    ],
)
def test_shadow_settings_are_checked(options, message):
    with pytest.raises(UserError, match=message):
        ShadowSettings(**{"center": (0.0, 0.0, 0.0), "radius": 1.0, **options})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("camera", lambda a: np.repeat(a, 3, axis=0)[:3], "camera has 3 rows for 4 images"),
        ("directional", lambda a: a[..., :5], "directional has shape"),
        ("point", lambda a: a[:, 0], "point has shape"),
        ("environment", lambda a: a[:, :8], "environment has shape"),
        ("albedo", lambda a: a.astype(np.float32), "albedo is float32"),
        ("albedo", lambda a: a[:, :-1], "albedo has shape"),
        ("background", lambda a: a[:, 0], "background has shape"),
        ("body_q", lambda a: a[:, :0], "body_q has shape"),
        ("vertices_rest", lambda a: a[:, :-1], "vertices_rest has shape"),
        ("distortion", lambda a: a[:, :4], "distortion has shape"),
        ("softness", lambda a: np.repeat(a, 3, axis=0), "softness has 3 rows for 4 images"),
        ("softness", lambda a: a[:, :1], "softness has shape"),
        ("ground", lambda a: a[:, :4], "ground has shape"),
        ("ground", lambda a: None, "ground is None"),
        ("material", lambda a: None, "material"),
        ("material", lambda a: a[:, :1], "material"),
        ("uv", lambda a: None, "uv"),
        ("uv", lambda a: a[:, :-1], "uv has shape"),
        ("texels", lambda a: None, "texels"),
        ("texels", lambda a: a[:, :-1], "texels"),
    ],
)
def test_inputs_are_checked(name, change, message):
    inputs, settings = render_scenes.scene("batch")
    with pytest.raises(UserError, match=message):
        render(replace(inputs, **{name: change(getattr(inputs, name))}), settings)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_ground_texture_must_exist(number):
    inputs, settings = render_scenes.scene("textured_ground")
    with pytest.raises(UserError, match=f"ground_texture is {number}"):
        render(inputs, replace(settings, ground_texture=number))


@pytest.mark.parametrize("name", ["checker_ground", "textured_ground"])
def test_a_cell_of_the_ground_must_have_a_size(name):
    inputs, settings = render_scenes.scene(name)
    with pytest.raises(UserError, match="cell of the ground is 0.0 m"):
        render(replace(inputs, ground=inputs.ground * (np.arange(10) != 7)), settings)


@pytest.mark.parametrize("sigma_gamma", [(0.0, 1e-2), (1e-3, -1.0), (np.nan, 1e-2)])
def test_softness_must_be_positive(sigma_gamma):
    inputs, settings = render_scenes.scene("intersecting")
    with pytest.raises(UserError, match="softness"):
        render(replace(inputs, softness=np.array([sigma_gamma])), settings)


def test_derivatives_are_asked_for_in_the_right_shape():
    inputs, settings = render_scenes.scene("one_face")
    result = render(inputs, settings)
    with pytest.raises(UserError, match="the images' adjoint has shape"):
        render_adjoint(result, np.zeros((1, 2, 2, 4)))
    with pytest.raises(UserError, match="camera"):
        render_jvp(result, {"camera": np.zeros((2, 1, 15))})
    with pytest.raises(UserError, match="camera|albedo"):
        render_jvp(result, {"camera": np.zeros((2, 1, 16)), "albedo": np.zeros((3, *inputs.albedo.shape))})
    with pytest.raises(UserError, match="camra"):
        render_jvp(result, {"camra": np.zeros((2, 1, 16))})
    with pytest.raises(UserError, match="point"):
        render_jvp(result, {"point": np.zeros((2, 1, 1, 6))})


FACES, BODY = np.array([[0, 1, 2], [0, 2, 3]]), np.zeros(4, dtype=np.int32)
TEXTURES = np.array([[0, 2, 2, 0], [4, 3, 1, 1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faces": np.array([[0, 1, 4], [0, 2, 3]])}, "faces name vertices 0 to 4"),
        ({"faces": np.array([[-1, 1, 2], [0, 2, 3]])}, "faces name vertices -1 to 3"),
        ({"faces": np.zeros((0, 3), dtype=np.int32)}, "face"),
        ({"faces": np.zeros((2, 4), dtype=np.int32)}, "faces"),
        ({"vertex_body": np.array([0, 0, 0, -2])}, "vertex_body names bodies -2 to 0"),
        ({"face_material": np.array([0, -1])}, "face_material"),
        ({"face_material": np.array([0])}, "face_material"),
        ({"face_texture": np.array([0, 2])}, "face_texture"),
        ({"face_texture": np.array([0, -2])}, "face_texture"),
        ({"face_texture": np.array([0, 0]), "textures": None}, "face_texture names textures 0 to 0"),
        ({"corner_normal": np.array([[0, 0, 0]])}, "corner_normal"),
        ({"corner_normal": np.array([[0, 0, -2], [0, 0, 0]])}, "corner_normal"),
        ({"textures": np.array([[0, 2, 2, 0], [4, 3, 0, 1]])}, "texture 1 is .*height 0"),
        ({"textures": np.array([[0, 2, 2, 2], [4, 3, 1, 1]])}, "texture 0 is .*wrap 2"),
        ({"textures": np.array([[-1, 2, 2, 0], [4, 3, 1, 1]])}, "texture 0 is .*first texel -1"),
        ({"textures": np.array([[0, 2, 2]])}, "textures is"),
    ],
)
def test_meshes_are_checked(change, message):
    good = {
        "faces": FACES, "vertex_body": BODY, "face_material": np.array([0, 1]), "face_texture": np.array([-1, 1]),
        "corner_normal": np.array([[0, 1, 2], [-1, -1, -1]]), "textures": TEXTURES,
    }  # fmt: skip
    assert mesh_topology(**good, like=STILL) is not None
    with pytest.raises(UserError, match=message):
        mesh_topology(**{**good, **change}, like=STILL)


def test_bodies_of_the_mesh_must_exist():
    inputs, settings = render_scenes.scene("one_face")
    mesh = render_scenes.mesh_with(inputs.mesh, vertex_body=np.full(3, 1), like=STILL)
    with pytest.raises(UserError, match="the mesh names 2 bodies and body_q has 1"):
        render(replace(inputs, mesh=mesh), settings)


def test_materials_of_the_mesh_must_exist():
    inputs, settings = render_scenes.scene("specular")
    mesh = render_scenes.mesh_with(inputs.mesh, face_material=np.full(20, 2), like=STILL)
    with pytest.raises(UserError, match="material"):
        render(replace(inputs, mesh=mesh), settings)


def test_camera_errors():
    with pytest.raises(UserError, match="coincide"):
        look_at((1, 1, 1), (1, 1, 1))
    with pytest.raises(UserError, match="along up"):
        look_at((0, 0, 1), (0, 0, 0))
    with pytest.raises(UserError, match="vertical_fov is 3.5: give a finite number above zero and below"):
        intrinsics_from_fov(vertical_fov=3.5, width=4, height=4)
