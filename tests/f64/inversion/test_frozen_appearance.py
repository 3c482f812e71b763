"""Jacobians of the matched loss: with the look held but for one linear step, against gradients and against looks solved again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch.inversion.appearance.fit.frozen_appearance import FrozenAppearance
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise, predict
from risp_torch.inversion.problem.unknowns import Unknowns
from tests.reference.flying_box import flying_box

TIGHT = {"tolerance": 1e-15, "rounds": 200, "edges": "scene"}
BOUNDS = {"box.velocity": (-2.0, 2.0), "box.angular_velocity": (-10.0, 10.0)}
LOOKS = {
    "default": {}, "plain": {"robust_scale": float("inf"), "colors": "face"}, "body": {"light": "none", "colors": "body"},
    "exposure": {"light": "sh1", "exposure": True}, "shadow": {"shadow": True}, "texel": {"colors": "texel", "texels": 2},
    "smooth": {"plate": "smooth"}, "camera": {"edges": "camera"},
}  # fmt: skip
SEEN = ("default", "plain", "exposure", "shadow", "texel", "smooth")  # looks that can show the film


def case(look, noise):
    """A film of a box that flies a little otherwise, its comparison, and the unknowns."""
    scene = flying_box(ground=-0.06 if "shadow" in look else None)
    unknowns = Unknowns.of(scene, ("box.velocity", "box.angular_velocity"), bounds=BOUNDS)
    with torch.no_grad():
        film = scene.render(scene.rollout({}), {})[0]
    film = film + noise * torch.as_tensor(np.random.default_rng(1).normal(size=film.shape)).to(film)
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**(TIGHT | look))), film)
    return scene, comparison, unknowns, np.array([0.6, 0.1, 0.7, 3.0, -5.0, 8.0])


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_the_gradient_is_exact_with_a_large_residual(look):
    """-2 J^T r is the gradient of the loss, far from the minimum and with noise."""
    scene, comparison, unknowns, truth = case(look, 0.05)
    point = truth + np.array([0.05, -0.03, 0.04, 0.5, -0.4, 0.3])
    at = linearise(scene, comparison, unknowns, point, step=1e-5)
    found = -2.0 * at.normal_equations[1] / comparison.observation_count / unknowns.scaled_range()
    z = torch.as_tensor(unknowns.scaled(point)[None]).requires_grad_()
    (gradient,) = torch.autograd.grad(comparison.losses(scene, unknowns.from_scaled(z), worlds=1).sum(), z)
    np.testing.assert_allclose(found, gradient[0].cpu().numpy(), rtol=2e-4, atol=2e-5 * float(gradient.abs().max()))


@pytest.mark.parametrize("look", [LOOKS[name] for name in SEEN], ids=SEEN)
def test_what_the_look_absorbs_is_not_seen(look, monkeypatch):
    """With a small residual, J is the derivative of observations whose look is solved again; that at a fixed look is not."""
    scene, comparison, unknowns, truth = case(look, 0.0)
    at = linearise(scene, comparison, unknowns, truth, step=1e-5)
    ranges, step = unknowns.scaled_range(), 1e-5
    ends = [predict(scene, comparison, unknowns, at.scaled + sign * step * np.diag(ranges))[0] for sign in (1, -1)]
    solved = ((ends[0] - ends[1]) / (2 * step)).T
    scale = solved.norm(dim=0)
    assert float(((at.jacobian - solved).norm(dim=0) / scale).max()) < 0.02
    monkeypatch.setattr(FrozenAppearance, "followed", lambda held, system: replace(held.look, plate=held.plate[system.active]))
    fixed = linearise(scene, comparison, unknowns, truth, step=1e-5).jacobian
    assert float(((fixed - solved).norm(dim=0) / scale).max()) > 0.1


def test_near_a_motion_the_observations_are_those_of_the_solved_look():
    """At the motion itself nothing changes; and a look that is not held has other frames."""
    scene, comparison, unknowns, truth = case({}, 0.02)
    z = unknowns.scaled(truth)[None]
    frozen = comparison.frozen_at(scene, unknowns.from_scaled(torch.as_tensor(z)))
    there, here = (predict(scene, each, unknowns, z)[0] for each in (frozen, comparison))
    assert frozen.loss is not comparison.loss
    torch.testing.assert_close(there, here, atol=1e-6, rtol=0)
