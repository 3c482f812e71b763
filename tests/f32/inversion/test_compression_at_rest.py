"""Error bars of bodies that rest in a compressed film: the shift is the same in all pictures, and that of the edges' places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import t

from risp_torch import AmbientLight, Box, Camera, DirectionalLight, Param, PixelLoss, Scene, Start, Surface
from risp_torch.inversion.diagnostics.compressed_neighbours import compressed_neighbours
from risp_torch.inversion.losses.loss import PictureLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.films.rendered_film import film_at
from risp_torch.inversion.problem.linearisation import linearise, newton_step
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.compression import (
    OFFSETS,
    CompressedFilm,
    Encoder,
    compressed_films,
    compression_moves,
    size_of_moves,
)
from risp_torch.inversion.uncertainty.covariance import Uncertainty

BOX = "box.position"


def still(x: float, *, frames: int = 12) -> Scene:
    """A box that floats in space."""
    scene = Scene(frame_dt=1 / 30, frames=frames, substeps=1, gravity=(0, 0, 0), name="still")
    scene.add_rigid(
        "box", shape=Box(0.4, 0.3, 0.3), density=500.0, surface=Surface(color=(0.8, 0.3, 0.2)),
        start=Start(position=Param((x, 0.02, 0.01), low=-1.0, high=1.0)),
    )  # fmt: skip
    scene.add_camera(Camera.look_at(eye=(0.3, -2.0, 0.6), target=(0, 0, 0), vertical_fov=40, width=32, height=32))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.75))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def encoder_of(scene: Scene, target: torch.Tensor | None, loss: PictureLoss, values: np.ndarray) -> Encoder:
    unknowns = Unknowns.of(scene, [BOX])
    own = film_at(scene, unknowns, values, loss)
    return Encoder(Comparison.of(scene, loss, own if target is None else target), own, scene.fps)


def errors_in_bars(x: float, *, crf: float, loss: PictureLoss) -> tuple[np.ndarray, np.ndarray]:
    """Error of the position [3] that a compressed film tells, in bars by films of the estimate at its place and at all places."""
    scene = still(x)
    unknowns = Unknowns.of(scene, [BOX])
    true, ranges = unknowns.current(), unknowns.scaled_range()
    filmed = encoder_of(scene, None, loss, true).film(crf).pictures
    error = newton_step(linearise(scene, Comparison.of(scene, loss, filmed), unknowns, true))
    found = unknowns.physical_values(unknowns.scaled(true) + error * ranges)
    encoder = encoder_of(scene, filmed, loss, found)
    at, films = linearise(scene, encoder.comparison, unknowns, found), compressed_films(encoder)
    own, all_places = compression_moves(at, films), compression_moves(at, films, encoder.at_other_offsets)
    assert len(all_places) == len(own) + len(OFFSETS)
    np.testing.assert_array_equal(all_places[: len(own)], own)
    return np.abs(error) / size_of_moves(own), np.abs(error) / size_of_moves(all_places)


def test_bars_of_a_body_at_rest_hold() -> None:
    places = np.random.default_rng(0).uniform(-0.1, 0.1, 10)
    errors = np.array([errors_in_bars(x, crf=23.0, loss=PixelLoss()) for x in places])
    # A bar of eight samples holds as often as Student's t says. One sample does not, as its place of the edges is the film's.
    beyond = (errors > 1.96).mean(axis=(0, 2))
    assert beyond[1] <= 2 * t.sf(1.96, 1 + len(OFFSETS)) < beyond[0], beyond
    assert errors[:, 1].max() < 4.5


def test_a_film_that_was_moved_comes_back_to_its_place() -> None:
    """At the best quality the film itself, and on the borders that were moved out of the picture exactly; each place differs."""
    scene = still(0.03, frames=4)
    encoder = encoder_of(scene, None, PixelLoss(), Unknowns.of(scene, [BOX]).current())
    films = [encoder.film(1.0), *encoder.at_other_offsets(encoder.film(1.0))]
    for film, (down, right) in zip(films, ((0, 0), *OFFSETS), strict=True):
        assert (film.pictures - encoder.estimate).abs().mean() < 0.01 and film.crf == 1.0 and film.power > 0
        if down:
            assert torch.equal(film.pictures[:, -1], encoder.estimate[:, -1])
        if right:
            assert torch.equal(film.pictures[:, :, -1], encoder.estimate[:, :, -1])
    assert not torch.equal(films[0].residual, films[1].residual)
    tiny = replace(encoder, estimate=encoder.estimate[:, :4, :6])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "film", lambda self, crf, place: place)
        assert tiny.at_other_offsets(films[0]) == [(1, 3), (3, 2)]  # what a picture of 4 rows leaves room for
    larger = replace(encoder, enlargement=2)
    assert larger.film(1.0, (1, 1)).pictures.shape == encoder.estimate.shape


def neighbours_of(sd: float, *, crf: int = 23) -> tuple[Encoder, list[CompressedFilm]]:
    """Of the box, whose place is known this well [m], within bounds of 1 m."""
    scene = still(0.03, frames=4)
    unknowns = Unknowns.of(scene, [BOX])
    encoder = encoder_of(scene, None, PixelLoss(), unknowns.current())
    at = linearise(scene, encoder.comparison, unknowns, unknowns.current())
    bars = Uncertainty(np.full(3, sd), np.eye(3), [True] * 3, [])
    return encoder, list(compressed_neighbours(scene, unknowns, at, bars, encoder, crf, count=12))


def test_neighbours_are_films_of_the_estimate_where_nothing_is_uncertain() -> None:
    encoder, films = neighbours_of(0.0)
    assert [film.crf for film in films] == [23, 22, 24] * 4
    for film in films:
        assert torch.equal(film.residual, encoder.film(film.crf).residual)


def test_neighbours_have_the_errors_of_films_of_other_places_within_the_bars() -> None:
    """Errors are relative to each neighbour's own film, and differ by the parts of a pixel by which edges have moved."""
    encoder, films = neighbours_of(0.002)
    assert torch.equal(films[0].residual, encoder.film(23).residual)
    powers = np.array([film.power for film in films])
    assert powers.std() > 0 and powers.max() < 2 * powers.min()
    apart = [(film.pictures - films[0].pictures).square().mean().item() for film in films[1:]]
    assert min(apart) > 0 and max(apart) < 100 * films[0].power
    far = neighbours_of(50.0, crf=51)[1]  # beyond the bounds of places and qualities they are moved onto these
    assert [film.crf for film in far] == [51, 50, 51] * 4
