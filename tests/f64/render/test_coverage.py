"""The alpha channel is the area of the silhouette, whatever the triangulation, and so are its derivatives."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay
from trimesh.creation import icosphere

from tests.reference.numpy_renderer import CUT_OFF, share_of_disc
from ti_render import RasterSettings, RenderInputs, mesh_topology, render, render_adjoint, render_jvp

SIZE = 32
STILL = np.array([[[0.0, 0, 0, 0, 0, 0, 1]]])
CAMERA = np.array([[40.0, 40.0, 16.0, 16.0, *np.eye(3).ravel(), 0, 0, 0]])  # in the origin, along z


def inputs_of(vertices, faces, body_q=STILL):
    faces = np.asarray(faces, dtype=np.int64)
    return RenderInputs(
        mesh=mesh_topology(faces, np.zeros(len(vertices), dtype=np.int64), like=vertices), vertices_rest=vertices, body_q=body_q,
        camera=CAMERA, albedo=np.ones((1, len(faces), 3, 3)), ambient=np.ones((1, 3)), background=np.zeros((1, 2, 3)),
    )  # fmt: skip


def settings_of(aggregation="softras", sigma=1e-3, **options):
    return RasterSettings(
        width=SIZE, height=SIZE, sigma=sigma, near=0.1, far=10.0, shading="none", aggregation=aggregation, **options
    )


def alpha_of(vertices, faces, **options):
    return render(inputs_of(np.asarray(vertices, dtype=np.float64), faces), settings_of(**options)).images[0, ..., 3]


def ball(radius, subdivisions):
    """Vertices and faces of a sphere."""
    mesh = icosphere(subdivisions=subdivisions, radius=radius)
    return np.array(mesh.vertices), np.array(mesh.faces)


def pixels_of(points):
    """Pixels [n, 2] of points."""
    return points[:, :2] / points[:, 2:] * 40 + 16


CORNER, SIDES = np.array([-0.31, -0.27, 1.0]), np.array([[0.64, 0.05, 0.1], [0.02, 0.52, 0.05]])
TWO = [[0, 1, 2], [0, 2, 3]]


def test_the_reference_share_is_the_weighted_area():
    rng = np.random.default_rng(0)
    sigma, radius = 0.04, np.sqrt(CUT_OFF * 0.04)
    r = (np.arange(400) + 0.5) / 400
    angle = (np.arange(400) + 0.5) * 2 * np.pi / 400
    disc = radius * r[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    weight = (3 / np.pi * (1 - r**2) ** 2 * r / 400 * 2 * np.pi / 400)[:, None]
    for _ in range(5):
        corners, pixels = rng.uniform(-1, 1, (3, 2)), rng.uniform(-0.8, 0.8, (4, 1, 2))
        for pixel, share in zip(pixels[:, 0], share_of_disc(pixels, corners, sigma)[:, 0], strict=True):
            places = np.stack([*(disc + pixel).reshape(-1, 2).T, np.ones(disc[..., 0].size)])
            inside = (np.linalg.solve(np.vstack([corners.T, np.ones(3)]), places) >= 0).all(axis=0)
            assert share == pytest.approx(np.sum(weight * inside.reshape(disc.shape[:2])), abs=2e-3)


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
def test_coverage_does_not_depend_on_the_triangulation(aggregation):
    """A quadrilateral of 2 faces, of 150 random ones, and of ones that share no vertices."""
    rng = np.random.default_rng(1)
    places = np.concatenate([[[0, 0], [1, 0], [1, 1], [0, 1]], rng.uniform(0.02, 0.98, (75, 2))])
    faces = Delaunay(places).simplices
    assert len(faces) > 140
    flat = CORNER + places @ SIDES
    wanted = alpha_of(flat[:4], TWO, aggregation=aggregation)
    assert wanted.max() == pytest.approx(1, abs=1e-12) and wanted.min() == 0
    np.testing.assert_allclose(alpha_of(flat, faces, aggregation=aggregation), wanted, atol=1e-12)
    apart = flat[faces].reshape(-1, 3)
    np.testing.assert_allclose(
        alpha_of(apart, np.arange(len(apart)).reshape(-1, 3), aggregation=aggregation), wanted, atol=1e-12
    )


@pytest.mark.parametrize("sigma", [1e-4, 3e-3])
def test_a_sphere_has_the_area_of_its_outline_at_any_fineness(sigma):
    for subdivisions in (1, 2, 3, 4):
        vertices, faces = ball(0.25, subdivisions)
        vertices = vertices + np.array([0.01, -0.02, 1.1])
        alpha = alpha_of(vertices, faces, sigma=sigma)
        area = ConvexHull(pixels_of(vertices)).volume
        assert np.sqrt(alpha.sum() / np.pi) == pytest.approx(np.sqrt(area / np.pi), abs=2e-3 if sigma > 1e-3 else 0.03)
        rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
        inside = np.hypot(rows - 15.3, columns - 16.4) < 6 - 50 * sigma**0.5 * 0.3
        assert inside.sum() > 20
        np.testing.assert_allclose(alpha[inside], 1, atol=1e-12)


def test_folded_sheets_and_bodies_behind_each_other_are_whole():
    """A sheet folded onto itself, and two squares one behind the other, cover what their union does."""
    fold = np.array([[-0.3, -0.2, 1.0], [0.2, -0.2, 1.0], [0.2, 0.2, 1.0], [-0.3, 0.2, 1.0], [-0.1, -0.2, 1.0], [-0.1, 0.2, 1.0]])
    folded = alpha_of(fold, [*TWO, [1, 4, 5], [1, 5, 2]])
    np.testing.assert_allclose(folded, alpha_of(fold[:4], TWO), atol=1e-12)
    behind = np.concatenate([fold[:4], 2 * fold[:4] * [0.5, 0.5, 1]])
    two = [*TWO, *(np.array(TWO) + 4)]
    np.testing.assert_allclose(alpha_of(behind, two), alpha_of(fold[:4], TWO), atol=1e-12)


def test_pixels_on_edges_and_corners_count_once():
    """Corners at pixel centres, and a diagonal through them: one inside, a half on the edges, a quarter at the corners."""
    side = 8 / 40
    square = np.array([[-side, -side, 1.0], [side, -side, 1.0], [side, side, 1.0], [-side, side, 1.0]]) + [0.5 / 40, 0.5 / 40, 0]
    alpha = alpha_of(square, TWO, sigma=1e-3)
    row = alpha[16]
    assert row[16] == pytest.approx(1, abs=1e-12) and row[8] == pytest.approx(0.5) and row[24] == pytest.approx(0.5)
    np.testing.assert_allclose(alpha[9:24, 9:24].diagonal()[3:-3], 1, atol=1e-12)
    np.testing.assert_allclose(alpha, alpha.T, atol=1e-9)


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
def test_adjoints_of_a_turn_integrate_to_the_secant(aggregation):
    """Of a box and a ball that turn through the edges of many faces, over 0.5 rad."""
    sphere, faces = ball(0.12, 1)
    box = np.array([[x, y, z] for x in (-0.2, 0.1) for y in (-0.1, 0.15) for z in (-0.1, 0.1)]) + [0.1, 0.0, 0.05]
    hull = ConvexHull(box)
    sides = np.array([s if np.dot(np.cross(*(box[s[1:]] - box[s[0]])), n[:3]) > 0 else s[::-1] for s, n in
                      zip(hull.simplices, hull.equations, strict=True)])  # fmt: skip
    vertices, faces = np.concatenate([sphere, box]), np.concatenate([faces, sides + len(sphere)])
    settings = settings_of(aggregation, sigma=4e-4)
    wanted = np.random.default_rng(2).uniform(size=(SIZE, SIZE))

    def pose(angle):
        return np.array([[[0.01, 0.02, 1.1, 0.6 * np.sin(angle / 2), 0.8 * np.sin(angle / 2), 0, np.cos(angle / 2)]]])

    def rate(angle):
        half = angle / 2
        return np.array([[[0, 0, 0, 0.3 * np.cos(half), 0.4 * np.cos(half), 0, -0.5 * np.sin(half)]]])

    def loss(angle):
        result = render(inputs_of(vertices, faces, pose(angle)), settings)
        error = result.images[0, ..., 3] - wanted
        bar = np.zeros((1, SIZE, SIZE, 4))
        bar[0, ..., 3] = 2 * error
        slope = float((render_adjoint(result, bar).body_q * rate(angle)).sum())
        pushed = float((render_jvp(result, {"body_q": rate(angle)[None]})[0, 0, ..., 3] * 2 * error).sum())
        assert pushed == pytest.approx(slope, rel=1e-9, abs=1e-9)
        return float((error**2).sum()), slope

    def integral(first, last, begin, end, depth=0):
        """Of the slopes by the trapezoidal rule, in smaller steps around kinks: sides that turn through their edge."""
        width = last - first
        sum_of_two = 0.5 * width * (begin[1] + end[1])
        if abs(sum_of_two - (end[0] - begin[0])) < 3e-5 * 2**-depth or depth == 9:
            return sum_of_two
        middle = loss(first + 0.5 * width)
        return integral(first, first + 0.5 * width, begin, middle, depth + 1) + integral(
            first + 0.5 * width, last, middle, end, depth + 1
        )

    angles = np.linspace(0.1, 0.6, 18)
    values = [loss(angle) for angle in angles]
    total = sum(integral(*angles[k : k + 2], *values[k : k + 2]) for k in range(17))
    assert abs(values[-1][0] - values[0][0]) > 0.5
    assert total == pytest.approx(values[-1][0] - values[0][0], rel=1e-3)
