"""The study of shapes: its page, mass properties and distances of surfaces, and a search that gets nearer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import Mesh
from risp_torch.inversion import mesh_neighbours
from studies.gradsim import cells
from studies.gradsim.presets import preset_of
from studies.gradsim.shape import solids, truths
from studies.gradsim.shape import study as shape
from studies.gradsim.shape.fit import FitSettings, fit_shape, smoother, tried_mass
from studies.gradsim.shape.flight import MASSES, Flight
from studies.gradsim.shape.solids import distances_to, solid_of, sphere, surface_distance
from studies.gradsim.shape.truths import TRUTHS, true_surface


def test_page_has_a_row_for_each_search_and_is_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truths, "DIVISIONS", 2)
    preset = replace(preset_of("tiny"), size=16)
    page = shape.make("shape", preset, tmp_path, jobs=1)
    rows = [line for line in page.text.splitlines() if line.startswith("| ellipsoid |")]
    assert [row.split(" | ")[1] for row in rows] == list(shape.WAYS) and all(path.is_file() for path in page.pictures.values())
    monkeypatch.setattr(cells, "_perform", None)
    assert shape.make("shape", preset, tmp_path, jobs=1).text == page.text


@pytest.mark.parametrize("name", list(TRUTHS))
def test_mass_properties_are_those_of_the_engine(name: str) -> None:
    vertices, faces = true_surface(name, seed=3)
    own, wanted = solid_of(torch.as_tensor(vertices), torch.as_tensor(faces)), Mesh(vertices=vertices, faces=faces).solid()
    assert float(own.volume) == pytest.approx(wanted.volume, rel=1e-10)
    np.testing.assert_allclose(own.centre, wanted.centre_of_mass, atol=1e-10)
    np.testing.assert_allclose(own.inertia, wanted.inertia_per_density / wanted.volume, atol=1e-10)


def test_spheres_are_closed_and_round() -> None:
    vertices, faces = sphere(3)
    assert vertices.shape == (642, 3) and faces.shape == (1280, 3)
    np.testing.assert_allclose(np.linalg.norm(vertices, axis=1), 1.0)
    assert float(solid_of(torch.as_tensor(vertices), torch.as_tensor(faces)).volume) == pytest.approx(4 / 3 * np.pi, rel=0.01)


def test_distances_of_points_and_surfaces() -> None:
    triangle = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), np.array([[0, 1, 2]])
    points = np.array([[0.5, 0.5, 3.0], [-3.0, -4.0, 0.0], [1.0, -1.0, 1.0], [2.0, 2.0, 0.0]])  # above, corner, edge, edge
    np.testing.assert_allclose(distances_to(points, *triangle), [3.0, 5.0, np.sqrt(2), np.sqrt(2)])
    vertices, faces = sphere(3)
    apart = np.random.default_rng(0).standard_normal((40, 3))  # most too far for the nearest centres to decide alone
    corners = vertices[faces]
    each = [solids._to_triangles(point[None, None], corners[None]).min() for point in apart]
    np.testing.assert_allclose(distances_to(apart, vertices, faces), each)
    assert surface_distance((vertices, faces), (1.1 * vertices, faces)) == pytest.approx(0.1, rel=0.02)


def test_smoother_keeps_constants_and_spreads_a_push() -> None:
    flight = Flight(divisions=1, size=16, frames=5)
    matrix = smoother(mesh_neighbours(flight.faces, 42), 20.0)
    np.testing.assert_allclose(matrix.sum(dim=1), 1.0, atol=1e-9)
    assert torch.all(matrix > 0) and torch.allclose(matrix, matrix.T)


def test_a_search_finds_mass_and_size_of_a_larger_sphere() -> None:
    flight = Flight(divisions=1, size=32, frames=15)
    vertices, faces = sphere(1)
    film = shape.true_film(1.2 * vertices, faces, mass=20.0, size=32, frames=15)[:1]
    first = tried_mass(flight, film, cameras=("front",), every=5)
    assert first == MASSES[np.argmin(np.abs(np.log(MASSES / first)))] and 0.5 < first / 20.0 < 2.0
    settings = FitSettings(iterations=120, smoothing=1.0)  # 42 vertices need less than 642
    fit = fit_shape(flight, film, cameras=("front",), settings=settings, mass=first, free_mass=True)
    found = shape.centred(fit.vertices, flight.faces)
    assert fit.losses[-1] < 0.05 * fit.losses[0] and abs(fit.mass / 20.0 - 1) < 0.05
    before, after = (surface_distance((points, faces), (1.2 * vertices, faces)) for points in (vertices, found))
    assert after < 0.25 * before


def test_signal_to_noise() -> None:
    assert shape.psnr(1e-3) == pytest.approx(30.0) and shape.psnr(0.0) == float("inf")
