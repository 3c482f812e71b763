"""Shifts by compression, found by estimating again from films of the estimate."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import AmbientLight, Camera, LookSettings, MatchedLoss, PixelLoss, Scene, Sphere, Start, Surface
from risp_torch.files.video import compress_and_decode
from risp_torch.inversion.appearance.settings import CAMERA_EDGES
from risp_torch.inversion.losses.mixed import MixedLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.films.rendered_film import film_at
from risp_torch.inversion.problem.linearisation import linearise
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.uncertainty import error_bars as bars_module
from risp_torch.inversion.uncertainty.compression import CompressedFilm, Encoder, compressed_films, size_of_moves
from risp_torch.inversion.uncertainty.compression_refits import few_samples, refitted_moves

NAME, BOUNDS = "ball.velocity[0]", (0.3, 1.5)


def thrown(speed=0.8):
    scene = Scene(frame_dt=0.02, frames=8, substeps=2, name="thrown")
    scene.add_rigid(
        "ball", shape=Sphere(0.04), density=500.0, surface=Surface(color=(0.8, 0.3, 0.2)),
        start=Start(position=(-0.08, 0.0, 0.03), velocity=(speed, 0.1, 0.9)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -0.5, 0.1), target=(0.0, 0.0, 0.05), vertical_fov=34.0, width=32, height=32, near=0.1, far=1.5)
    )
    scene.add_light(AmbientLight(intensity=0.8))
    scene.set_background(top=(0.2, 0.3, 0.6), bottom=(0.7, 0.6, 0.4))
    return scene


def film_of(scene):
    with torch.no_grad():
        return scene.render(scene.rollout())[0]


@pytest.mark.parametrize("loss", [PixelLoss(), MatchedLoss(LookSettings(edges="scene"))], ids=["pixel", "matched"])
def test_a_shift_is_found_whole(loss):
    """Decoded films of other speeds move the estimate there; the film of the same size is first."""
    scene = thrown()
    unknowns = Unknowns.of(scene, [NAME], bounds={NAME: BOUNDS})
    at = linearise(scene, Comparison.of(scene, loss, film_of(scene)), unknowns, np.array([0.8]))
    speeds, none = {400.0: 0.8, 100.0: 0.82, 30.0: 0.79}, torch.zeros(0)
    films = [CompressedFilm(size, none, pictures=film_of(thrown(speed))) for size, speed in speeds.items()]
    moves = refitted_moves(scene, unknowns, at, films, 120.0)
    assert few_samples(3) == pytest.approx(1.6237, abs=1e-4)  # 3.1824 / 1.9600
    np.testing.assert_allclose(moves[:, 0] * 1.2 / few_samples(3), [0.02, 0.0, -0.01], atol=1e-3)


def test_bars_of_refits_are_not_stretched_again(monkeypatch):
    """How flat a loss is stretches the other parts of a bar; a shift that an estimate has made already knows it.

    A Gauss-Newton step is stretched, and then the bar is the larger one of the shift and the residual's.
    """
    scene, flat = thrown(), 5.0
    unknowns = Unknowns.of(scene, [NAME], bounds={NAME: BOUNDS})
    monkeypatch.setattr(bars_module, "flatness", lambda scene, unknowns, at, spread, sizes: np.full(len(sizes), flat))
    clean = film_of(scene)
    film = clean + 0.02 * torch.as_tensor(np.random.default_rng(0).normal(size=(9, 32, 32, 3))).to(clean)
    at = linearise(scene, Comparison.of(scene, PixelLoss(), film), unknowns, np.array([0.8]))
    ends = SimpleNamespace(final=np.array([[0.8]]), losses=np.zeros(1), best=0)

    def sd(move, refits):
        moves = np.array([[move]])
        return bars_module._bars(scene, unknowns, at, ends, floor=1e-6, moves=moves, measure_flatness=True, has_refits=refits)[
            0
        ].sd[0]

    alone, both, stretched = sd(0.0, True), sd(0.1, True), sd(0.1, False)
    assert both == pytest.approx(np.hypot(alone, 0.1 * 1.2))
    assert stretched == pytest.approx(max(alone, flat * 0.1 * 1.2), rel=1e-9)  # the root of a sum of squares: rounding


def test_mixes_refit_where_one_of_their_losses_does():
    """The losses that solve a look say so, and mixes with them."""
    assert MatchedLoss().compression_by_refit and not PixelLoss().compression_by_refit
    assert MixedLoss(MatchedLoss(), PixelLoss()).compression_by_refit


def error_over_bar(speed, crf):
    """Error of a speed estimated from a compressed film with the edges of a camera, over its bar of compression."""
    scene = thrown()
    filmed = thrown(speed)
    filmed.style = replace(filmed.style, antialias=CAMERA_EDGES.samples)
    values = {"softness.sigma": torch.tensor([CAMERA_EDGES.sigma(32)])}
    with torch.no_grad():
        film = filmed.render(filmed.rollout(values, worlds=1), values)[0]
    pictures, size = compress_and_decode(film, fps=scene.fps, crf=crf)
    unknowns = Unknowns.of(scene, [NAME], bounds={NAME: BOUNDS})
    comparison = Comparison.of(scene, MatchedLoss(), torch.as_tensor(pictures, dtype=torch.float32))
    ends, _ = refined(scene, comparison, unknowns, np.array([[1.01 * speed]]), 8, History(), progress=False)
    at, estimate = linearise(scene, comparison, unknowns, ends[0]), film_at(scene, unknowns, ends[0], comparison.loss)
    moves = refitted_moves(scene, unknowns, at, compressed_films(Encoder(comparison, estimate, scene.fps)), size)
    return (ends[0, 0] - speed) / (size_of_moves(moves)[0] * 1.2)


def test_bars_of_refits_hold_errors_of_compressed_films():
    """Errors by compression are as large as its part of the bar, and not many times smaller or larger."""
    ratios = [error_over_bar(speed, 38) for speed in (0.7, 0.8, 0.9, 1.0)]
    assert 0.1 < np.sqrt(np.mean(np.square(ratios))) < 1.5
