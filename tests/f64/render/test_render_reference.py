"""Pictures against the plain numpy reference, in f64, and the reference against simple facts."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.reference import numpy_renderer, render_scenes
from ti_render import RasterSettings, RenderInputs, mesh_topology, pack_camera, render

ATOL = 1e-9


def assert_equal_pictures(inputs, settings):
    found, expected = render(inputs, settings).images, numpy_renderer.render(inputs, settings)
    assert np.isfinite(expected).all() and expected[..., 3].max() > 0.05
    np.testing.assert_allclose(found, expected, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", render_scenes.NAMES)
def test_picture_agrees_with_the_reference(name):
    assert_equal_pictures(*render_scenes.scene(name))


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize(("sigma", "gamma"), [(1e-4, 1e-4), (3e-2, 0.5)])
@pytest.mark.parametrize("name", ["intersecting", "behind_camera", "partly_outside", "many_overlapping", "batch", "dibr"])
def test_sharp_and_blurred_pictures_agree_with_the_reference(name, sigma, gamma, composite):
    assert_equal_pictures(*render_scenes.scene(name, sigma=sigma, gamma=gamma, composite=composite))


@pytest.mark.parametrize(
    ("aggregation", "quantity", "shading", "two_sided"),
    [
        *product(["softras", "dibr"], ["color"], ["none", "lambert", "phong"], [False, True]),
        *product(["softras", "dibr"], ["depth", "normal"], ["phong"], [False, True]),
    ],
)
def test_every_combination_agrees_with_the_reference(aggregation, quantity, shading, two_sided):
    # Everything at once: the batch's textures, lights, smooth bodies and lens, an image behind, shadows and anti-aliasing.
    inputs, settings = render_scenes.scene(
        "batch", aggregation=aggregation, quantity=quantity, shading=shading, two_sided=two_sided, antialias=2,
        shadows=render_scenes.shadow_settings(), width=9, height=8,
    )  # fmt: skip
    image = np.random.default_rng(1).uniform(size=(1, 3, 4, 3))
    assert_equal_pictures(replace(inputs, background_image=image), settings)


@pytest.mark.parametrize("ground", [None, "plain", "checker", "texture"])
@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
def test_every_ground_agrees_with_the_reference(ground, aggregation):
    inputs, settings = render_scenes.scene("batch", ground=ground, aggregation=aggregation, ground_texture=1)
    assert_equal_pictures(inputs, settings)


def test_shadow_maps_of_every_light_direction_agree_with_the_reference():
    # The light's frame is continued differently above and below the horizon, and is exact straight down and straight up.
    inputs, settings = render_scenes.scene("shadowed")
    for direction in ([0.0, 0.0, -1.0], [0.0, 0.0, 1.0], [-0.3, 0.4, 0.5], [0.8, 0.3, -0.01], [0.8, 0.3, 0.0]):
        assert_equal_pictures(replace(inputs, directional=np.array([[[*direction, 0.8, 0.7, 0.9]]])), settings)


def test_shadows_fall_where_they_must():
    # A square of 0.4 m, 1 m above the ground, under a light from straight above: its shadow is right below it.
    size = 31
    square = np.array([[-0.2, -0.2, 1.0], [0.2, -0.2, 1.0], [0.2, 0.2, 1.0], [-0.2, 0.2, 1.0]]) + [0.3, 0.1, 0]
    rotation = np.diag([1.0, -1.0, -1.0])  # the camera looks down from below the square, which would hide its shadow
    inputs = RenderInputs(
        mesh=mesh_topology(np.array([[0, 1, 2], [0, 2, 3]]), np.full(4, -1), like=square),
        vertices_rest=square, body_q=np.array([[[0, 0, 0, 0, 0, 0, 1.0]]]),
        camera=pack_camera((20, 20, 15.5, 15.5), rotation, -rotation @ np.array([0, 0, 0.9]))[None],
        albedo=np.ones((1, 2, 3, 3)), ambient=np.zeros((1, 3)), background=np.zeros((1, 2, 3)),
        directional=np.array([[[0, 0, -3.0, 1, 1, 1]]]), ground=np.array([[1.0, 1, 1, 0, 0, 0, 0, 1, 0, 0]]),
    )  # fmt: skip
    settings = RasterSettings(
        width=size, height=size, near=0.1, far=10.0, ground="plain",
        shadows=render_scenes.shadow_settings(center=(0, 0, 0.5), radius=1.5, resolution=150, sigma=1e-4),
    )  # fmt: skip
    picture = numpy_renderer.render(inputs, settings)[0]
    rows, columns = np.mgrid[:size, :size] + 0.5
    x, y = (columns - 15.5) / 20 * 0.9, -(rows - 15.5) / 20 * 0.9
    # Two faces that half cover a texel of the square's diagonal let a quarter of the light through: those are left out.
    inside = (abs(x - 0.3) < 0.15) & (abs(y - 0.1) < 0.15) & (abs(x - 0.3 - (y - 0.1)) > 0.08)
    outside = (abs(x - 0.3) > 0.3) | (abs(y - 0.1) > 0.3)
    assert inside.sum() >= 20 and outside.sum() > 200
    assert picture[inside, :3].max() < 0.01 and picture[outside, :3].min() > 0.99
    np.testing.assert_allclose(render(inputs, settings).images[0], picture, atol=ATOL, rtol=0)


def test_reference_harmonics_are_orthonormal():
    # Gauss-Legendre in z times the trapezoidal rule in the angle is exact for products of two functions of degree 2.
    z, weight = np.polynomial.legendre.leggauss(4)
    angle = np.arange(8) * np.pi / 4
    ring = np.sqrt(1 - z**2)
    directions = np.stack(
        [ring[:, None] * np.cos(angle), ring[:, None] * np.sin(angle), np.repeat(z[:, None], 8, axis=1)], axis=-1
    )
    basis = numpy_renderer.spherical_harmonics(directions)
    products = np.einsum("ija,ijb,i->ab", basis, basis, weight) * np.pi / 4
    np.testing.assert_allclose(products, np.eye(9), atol=1e-14)


def test_reference_lens_is_the_inverse_of_the_forward_model():
    k1, k2, p1, p2, k3 = coefficients = np.array([-0.2, 0.07, 0.01, -0.008, 0.03])
    x, y = np.random.default_rng(3).uniform(-0.5, 0.5, (2, 50))
    r2 = x**2 + y**2
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    x_d = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2)
    y_d = y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y
    np.testing.assert_allclose(numpy_renderer.undistort(x_d, y_d, coefficients), (x, y), atol=1e-14)


def test_reference_texture_has_its_first_row_on_top():
    texels = np.arange(6.0).reshape(2, 3, 1)
    first = numpy_renderer.bilinear(texels, np.array(0.0), np.array(0.0), repeat=False)
    middle = numpy_renderer.bilinear(texels, np.array(2.0), np.array(0.5), repeat=False)
    around = numpy_renderer.bilinear(texels, np.array(2.5), np.array(-1.0), repeat=True)
    assert (first[0], middle[0], around[0]) == (0.0, (2 + 5) / 2, (5 + 3) / 2)
