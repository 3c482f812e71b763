"""The kernels of solved looks: plates, weights and normal matrices as by numpy and sparse products."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch.inversion.appearance import batch
from risp_torch.inversion.appearance.fit import appearance_system, look_equations, objective
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.look_equations import LookEquations
from risp_torch.inversion.appearance.fit.objective import Fit
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.problem.comparison import Comparison
from tests.reference.flying_box import flying_box

LOOKS = {
    "default": {}, "plain": {"robust_scale": float("inf"), "colors": "face"}, "body": {"light": "none", "colors": "body"},
    "shadow": {"shadow": True}, "camera": {"edges": "camera", "colors": "texel", "texels": 2},
}  # fmt: skip


@pytest.fixture(params=LOOKS.values(), ids=LOOKS.keys())
def solved(request, monkeypatch):
    """A system with weights of its pixels, settings, and a look with random colours, light and plate."""
    settings, systems = LookSettings(**request.param), []
    solve = batch.solve_look

    def recorded(system, *arguments, **options):
        systems.append(system)
        return solve(system, *arguments, **options)

    monkeypatch.setattr(batch, "solve_look", recorded)
    scene = flying_box(ground=-0.06 if settings.shadow else None)
    rng = np.random.default_rng(3)
    with torch.no_grad():
        film = scene.render(scene.rollout({}), {})[0]
        film = film + 0.05 * torch.as_tensor(rng.normal(size=film.shape)).to(film)
        Comparison.of(scene, MatchedLoss(settings), film).losses(scene, {}, worlds=1)
    system = replace(systems[-1], weight=rng.uniform(0.2, 1.0, systems[-1].weight.shape))
    look = Look.grey(system)
    light = look.light + 0.1 * rng.normal(size=look.light.shape) * (np.arange(len(look.light)) > 0)[:, None]
    plate = rng.uniform(0.0, 1.0, look.plate.shape)
    return system, settings, replace(look, colors=rng.uniform(0.1, 0.9, look.colors.shape), light=light, plate=plate), rng


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_the_matrix_is_that_of_sorted_entries(look, monkeypatch):
    """Rows, columns and weights of a motion's pixels, inserted row by row and by sorting all of them."""
    scene, systems = flying_box(ground=-0.06 if "shadow" in look else None), []
    with torch.no_grad():
        film = scene.render(scene.rollout({}), {})[0]
        for most in (appearance_system.MAX_LOOKUP_SIZE, 0):
            monkeypatch.setattr(appearance_system, "MAX_LOOKUP_SIZE", most)
            comparison = Comparison.of(scene, MatchedLoss(LookSettings(**look)), film)
            comparison.losses(scene, {}, worlds=1)
            systems.append(comparison.loss._begin.system)
    found, expected = systems
    for name in ("active", "row", "color", "basis", "plate_share", "film"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.matrix.nnz == expected.matrix.nnz and found.matrix.has_canonical_format
    np.testing.assert_allclose(found.matrix.toarray(), expected.matrix.toarray(), rtol=0, atol=1e-15)


def check_fits(found, expected):
    """Compare two fits."""
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    for a, b in ((found.look.plate, expected.look.plate), (found.residual, expected.residual), (found.weight, expected.weight)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)
    np.testing.assert_allclose(look_equations._plate_weights(found), look_equations._plate_weights(expected), rtol=1e-11)


def test_plates_are_those_of_numpy(solved, monkeypatch):
    system, settings, look, rng = solved
    step = 0.05 * rng.normal(size=(len(look.colors) + len(look.light) - 1, 3))
    weight = rng.uniform(0.0, 1.0, system.weight.shape)

    def fits():
        first = Fit.of(system, settings, look)
        return first, first.after(step), Fit.with_fixed_weight(system, settings, look, weight).after(step)

    found = fits()
    assert all(fit.plate_fit is not None for fit in found)
    monkeypatch.setattr(objective, "_has_free_plate", lambda *_: False)
    expected = fits()
    assert all(fit.plate_fit is None for fit in expected)
    for pair in zip(found, expected, strict=True):
        check_fits(*pair)


def test_normal_matrices_are_those_of_sparse_products(solved, monkeypatch):
    system, settings, look, _ = solved
    equations = LookEquations(Fit.of(system, settings, look))
    expected = [equations._matrix(k) for k in range(3)]
    found = look_equations.normal_matrices(
        system, equations.shade, equations.color, equations.basis, equations.gain, equations.weight[:, 0],
        equations.plate_share, equations.plate_weight,
    )  # fmt: skip
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
    whole = equations._matrices
    monkeypatch.setattr(look_equations, "MAX_COLUMNS", 0)
    for a, b in zip(whole, LookEquations(Fit.of(system, settings, look))._matrices, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())


@pytest.mark.parametrize("look", [{}, {"exposure": True}, {"plate": "smooth"}, {"shadow": True}], ids=str)
def test_observations_are_those_of_the_pictures(look):
    """Observations in a solved look, in one pass and by the pictures in it."""
    scene = flying_box(ground=-0.06 if "shadow" in look else None)
    with torch.no_grad():
        film = scene.render(scene.rollout({}), {})[0]
        film = film + 0.1 * torch.as_tensor(np.random.default_rng(2).normal(size=film.shape)).to(film)
        loss = Comparison.of(scene, MatchedLoss(LookSettings(**look)), film).loss
        found = loss.observe(scene, scene.rollout({}), {}, None)
        residual = batch.composed([loss._begin], film) - film
    factor = torch.rsqrt(1.0 + (residual * residual).sum(dim=-1, keepdim=True) / loss.settings.robust_scale**2)
    torch.testing.assert_close(found[..., :-1], (film + factor * residual).flatten(-3), rtol=0, atol=1e-12)
