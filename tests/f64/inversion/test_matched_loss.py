"""The loss of the solved look: its gradient against differences of the projected residual, and against the composed picture."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from risp_torch.inversion.appearance.fit import look_equations
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.problem.comparison import Comparison
from tests.reference.flying_box import flying_box
from tests.reference.gradients_in_worlds import check_torch_in_worlds
from ti_sim.base.errors import UserError

TIGHT = {"tolerance": 1e-15, "rounds": 200, "edges": "scene"}


def film_of(scene, values):
    with torch.no_grad():
        return scene.render(scene.rollout(values), values)[0]


def scenes_of(look):
    """The scene, and the one that is filmed: over a ground on which it casts shadows, where shadows are solved."""
    if "shadow" not in look:
        return flying_box(), flying_box()
    filmed = flying_box(ground=-0.06)
    filmed.set_shadows(center=(0.0, 0.0, 0.03), radius=0.2, resolution=64)
    return flying_box(ground=-0.06), filmed


@pytest.mark.parametrize(
    "look",
    [
        {}, {"robust_scale": float("inf"), "colors": "face"}, {"light": "none", "colors": "body"},
        {"light": "sh1", "exposure": True},
        {"shadow": True}, {"colors": "texel", "texels": 3}, {"plate": "smooth", "robust_scale": 0.3},
        {"edges": "camera"},
    ],
    ids=["default", "plain", "body", "exposure", "shadow", "texel", "smooth", "camera"],
)  # fmt: skip
def test_gradient_is_that_of_the_projected_residual(look):
    """Envelope theorem: the gradient at the solved look is the derivative of the loss with the look solved again."""
    scene, filmed = scenes_of(look)
    film = film_of(filmed, {"box.velocity": torch.tensor([0.5, 0.15, 0.75], dtype=torch.float64)})
    film = film + 0.05 * torch.as_tensor(np.random.default_rng(1).normal(size=film.shape)).to(film)
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**(TIGHT | look))), film)

    def losses(values):
        return comparison.losses(scene, values, worlds=len(values["box.velocity"]))

    point = {"box.velocity": np.array([0.6, 0.1, 0.7]), "camera.turn": np.array([0.01, -0.02, 0.005])}
    report = check_torch_in_worlds(losses, point, step=2e-6, order=4, rtol=2e-5, floor=1e-6)
    assert report.ok, report.table()


@pytest.mark.parametrize(
    "look", [{}, {"shadow": True}, {"colors": "texel"}, {"edges": "camera"}], ids=["default", "shadow", "texel", "camera"]
)
def test_both_ways_to_the_picture_agree(look):
    """The picture that the weights compose is the renderer's in the same look."""
    scene, filmed = scenes_of(look)
    film = film_of(filmed, {})
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**(TIGHT | look))), film)
    velocity = torch.tensor([[0.55, 0.1, 0.72]], dtype=torch.float64)
    plain, _ = comparison.observe(scene, {"box.velocity": velocity}, worlds=1)
    lit, _ = comparison.observe(scene, {"box.velocity": velocity.requires_grad_()}, worlds=1)
    assert lit.requires_grad
    torch.testing.assert_close(plain, lit.detach().to(plain), atol=1e-6, rtol=0)


def test_the_look_does_not_count_as_seen():
    """A body whose colour, light and background are other than the scene's leaves nothing at the true motion."""
    scene, other = flying_box(), flying_box()
    other.set("box.color", (0.1, 0.7, 0.4))
    other.set_background(top=(0.9, 0.1, 0.1), bottom=(0.1, 0.8, 0.3))
    other.set("light.directional.intensity", 0.2) if "light.directional.intensity" in other.table.params else None
    film = film_of(other, {})
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(edges="scene")), film)
    with torch.no_grad():
        right = float(comparison.losses(scene, {}, worlds=1))
        wrong = float(comparison.losses(scene, {"box.velocity": torch.tensor([[0.8, 0.1, 0.7]], dtype=torch.float64)}, worlds=1))
    assert right < 1e-4
    assert wrong > 10 * right


def test_many_colours_are_solved_by_conjugate_gradients(monkeypatch):
    """Beyond ``MAX_DIRECT_COLORS`` colours the matrix is only applied: the same loss as by its factors."""
    scene = flying_box()
    film = film_of(scene, {})
    losses = []
    for direct in (1500, 1):
        monkeypatch.setattr(look_equations, "MAX_DIRECT_COLORS", direct)
        monkeypatch.setattr(look_equations, "MAX_CG_STEPS", 1000)
        monkeypatch.setattr(look_equations, "CG_TOLERANCE", 1e-9)
        comparison = Comparison.of(scene, MatchedLoss(LookSettings(tolerance=1e-12, rounds=60)), film)
        with torch.no_grad():
            velocity = torch.tensor([[0.65, 0.1, 0.7]], dtype=torch.float64)
            losses.append(float(comparison.losses(scene, {"box.velocity": velocity}, worlds=1)))
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_forward_mode_agrees_with_reverse():
    """The tangent of the observations, at the solved look, is that of the reverse mode (dot-product test), and not zero."""
    scene = flying_box()
    film = film_of(scene, {"box.velocity": torch.tensor([0.5, 0.15, 0.75], dtype=torch.float64)})
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**TIGHT)), film)
    direction = torch.tensor([[0.3, -0.5, 0.2]], dtype=torch.float64)
    with forward_ad.dual_level():
        turn = forward_ad.make_dual(torch.zeros_like(direction), direction)
        observed, _ = comparison.observe(scene, {"camera.turn": turn}, worlds=1)
        tangent = forward_ad.unpack_dual(observed).tangent
    turn = torch.zeros_like(direction).requires_grad_()
    observed, _ = comparison.observe(scene, {"camera.turn": turn}, worlds=1)
    upstream = torch.as_tensor(np.random.default_rng(2).normal(size=observed.shape)).to(observed)
    (gradient,) = torch.autograd.grad(observed, turn, upstream)
    forward = float((tangent * upstream).sum())
    assert abs(forward) > 1e-3
    assert forward == pytest.approx(float((gradient * direction).sum()), rel=1e-6)


def test_one_picture_takes_a_smooth_plate():
    """With any plate behind the box one picture fits every pose, and is refused; a smooth one tells the right pose."""
    scene = flying_box()
    film = film_of(scene, {})
    with pytest.raises(UserError, match="smooth"):
        Comparison.of(scene, MatchedLoss(), film, "last")
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(plate="smooth", edges="scene")), film, "last")
    losses = []
    for speed in (0.5, 0.6, 0.7):
        with torch.no_grad():
            velocity = torch.tensor([[speed, 0.1, 0.7]], dtype=torch.float64)
            losses.append(float(comparison.losses(scene, {"box.velocity": velocity}, worlds=1)))
    assert losses[1] < 0.5 * min(losses[0], losses[2])


def test_conjugate_gradients_and_factors_agree_before_a_smooth_plate(monkeypatch):
    """The matrix that is applied is the one that is factorised."""
    scene = flying_box()
    film = film_of(scene, {})
    losses = []
    for direct in (1500, 1):
        monkeypatch.setattr(look_equations, "MAX_DIRECT_COLORS", direct)
        monkeypatch.setattr(look_equations, "MAX_CG_STEPS", 1000)
        monkeypatch.setattr(look_equations, "CG_TOLERANCE", 1e-9)
        comparison = Comparison.of(scene, MatchedLoss(LookSettings(tolerance=1e-12, rounds=60, plate="smooth")), film)
        with torch.no_grad():
            velocity = torch.tensor([[0.65, 0.1, 0.7]], dtype=torch.float64)
            losses.append(float(comparison.losses(scene, {"box.velocity": velocity}, worlds=1)))
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_gradients_hold_at_the_default_tolerance():
    """With a look that is solved as users solve it; the loss of a motion does not depend on the one before."""
    scene, filmed = scenes_of({})
    film = film_of(filmed, {"box.velocity": torch.tensor([0.5, 0.15, 0.75], dtype=torch.float64)})

    def run(settings, points):
        comparison, found = Comparison.of(scene, MatchedLoss(settings), film), []
        for point in points:
            velocity = point.clone().requires_grad_()
            loss = comparison.losses(scene, {"box.velocity": velocity}, worlds=1).sum()
            found.append((float(loss.detach()), torch.autograd.grad(loss, velocity)[0]))
        return found

    moves = 0.02 * torch.as_tensor(np.random.default_rng(4).uniform(-1, 1, (5, 1, 3)))
    points = torch.tensor([[0.55, 0.12, 0.72]], dtype=torch.float64) + moves
    default = LookSettings(edges="scene")
    exact, forward, backward = run(LookSettings(**TIGHT), points), run(default, points), run(default, points.flip(0))[::-1]
    for (loss, gradient), *others in zip(exact, forward, backward, strict=True):
        for other, slope in others:
            assert other == pytest.approx(loss, rel=1e-7)
            assert float((slope - gradient).norm() / gradient.norm()) < 1e-3
