"""The loss of the solved look with motion blur and a rolling shutter: gradients, and the pictures against the scene's own."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from risp_torch import PictureStyle
from risp_torch.inversion.appearance.batch import composed, rendered
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.view.unlit import UnlitRenderInputs
from tests.reference.flying_box import flying_box
from tests.reference.gradients_in_worlds import check_torch_in_worlds

TIGHT = {"tolerance": 1e-15, "rounds": 200, "edges": "scene"}
BLUR, ROLL, SIDEWAYS = {"exposure": 0.01}, {"line_time": 8e-4}, {"exposure": 0.004, "line_time": 6e-4, "readout": "left"}
FILMS = [BLUR, ROLL, SIDEWAYS]
NAMES = ["exposure", "lines", "both"]
LOOKS = {
    "default": {}, "shadow": {"shadow": True, "light": "sh1"},
    "texel and gains": {"colors": "texel", "texels": 2, "exposure": True},
}  # fmt: skip


def scene_of(film, look=None, **options):
    """The flying box with a film that begins late, over a ground where shadows are solved."""
    scene = flying_box(ground=-0.06 if "shadow" in (look or {}) else None, **options)
    scene.set_film(start=-0.001, samples=4, **film)
    return scene


def film_of(scene, values):
    with torch.no_grad():
        return scene.render(scene.rollout(values), values)[0]


def noisy(film):
    return film + 0.05 * torch.as_tensor(np.random.default_rng(1).normal(size=film.shape)).to(film)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@pytest.mark.parametrize("film", FILMS, ids=NAMES)
def test_gradient_is_that_of_the_projected_residual(film, look):
    """By the motion and by the numbers of the film that are not zero, with the look solved again at each point."""
    scene = scene_of(film, look)
    filmed = noisy(film_of(scene, {"box.velocity": torch.tensor([0.5, 0.15, 0.75], dtype=torch.float64)}))
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**(TIGHT | look))), filmed)

    def losses(values):
        return comparison.losses(scene, values, worlds=len(values["box.velocity"]))

    times = {f"film.{name}": np.array(value) for name, value in film.items() if name != "readout"}
    point = {"box.velocity": np.array([0.6, 0.1, 0.7]), "film.start": np.array(-0.001)} | times
    # With shadows a solve ends some 5e-9 of the loss above its minimum, which one-sided differences show, and the gradient is
    # 4e-7 of its largest entry off; without shadows it is exact but for the differences.
    report = check_torch_in_worlds(losses, point, step=1e-7, order=4, rtol=1e-5, floor=1e-6)
    largest = max(abs(entry.adjoint) for entry in report.entries)
    off = [abs(entry.adjoint - entry.difference) for entry in report.entries if entry.status != "ok"]
    assert not off or ("shadow" in look and max(off) < 1e-6 * largest), report.table()


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@pytest.mark.parametrize("film", FILMS, ids=NAMES)
def test_both_ways_to_the_picture_agree(film, look):
    """The picture that the weights compose is the renderer's in the same look, of two worlds with looks of their own.

    But for what the weights leave out: entries of twelve faces below 1e-12, and shadows below a millionth of a pixel.
    """
    scene = scene_of(film, look)
    filmed = noisy(film_of(scene, {}))
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**look)), filmed)
    values = {"box.velocity": torch.tensor([[0.5, 0.15, 0.75], [0.55, 0.1, 0.72]], dtype=torch.float64)}
    with torch.no_grad():
        unlit_inputs, solved, _, _ = comparison.loss._solved(scene, scene.rollout(values), values, None)
        plain, lit = composed(solved, filmed), rendered(unlit_inputs, solved)
    assert (plain[0] - plain[1]).abs().max() > 1e-3
    torch.testing.assert_close(plain, lit, atol=1e-6 if "shadow" in look else 1.2e-11, rtol=0)


@pytest.mark.parametrize("film", FILMS, ids=NAMES)
def test_the_film_is_the_scenes_own(film):
    """In the scene's colours before its background, the film of the unlit pictures is the film that the scene renders.

    Where the weight of the body's colour fades, the scene's mixture also holds the background, the unlit one black.
    """
    scene = scene_of(film, style=PictureStyle(shading="none"))
    color, behind = torch.tensor([0.8, 0.3, 0.2], dtype=torch.float64), torch.tensor([0.2, 0.3, 0.6], dtype=torch.float64)
    scene.set_background(top=behind.tolist(), bottom=behind.tolist())
    with torch.no_grad():
        states = scene.rollout()
        for frames in (None, [1, 4]):
            unlit_inputs = UnlitRenderInputs.of(scene, states, {}, frames)
            images = unlit_inputs.render(color.expand(unlit_inputs.arrays.albedo.shape))
            own = scene.render(states) if frames is None else scene.render(states, frames=frames)
            made = unlit_inputs.film_of(images[..., :3] + (1.0 - images[..., :3] / color) * behind)
            torch.testing.assert_close(made, own, atol=1e-12, rtol=0)


@pytest.mark.parametrize("film", FILMS, ids=NAMES)
def test_the_scenes_own_look_is_found(film):
    """A blurred film leaves nothing at the truth, and what one without blur leaves of it is far more."""
    scene, plain = scene_of(film, style=PictureStyle(shading="none")), flying_box(style=PictureStyle(shading="none"))
    plain.set_film(start=-0.001)
    filmed = film_of(scene, {})
    left = []
    for each in (scene, plain):
        comparison = Comparison.of(each, MatchedLoss(LookSettings(colors="body", light="none", edges="scene")), filmed)
        with torch.no_grad():
            left.append(float(comparison.losses(each, {}, worlds=1)))
    assert left[0] < 0.02 * left[1]


def test_forward_mode_agrees_with_reverse():
    """The tangent by the camera, at the solved look, is that of the reverse mode (dot-product test)."""
    scene = scene_of(SIDEWAYS)
    filmed = film_of(scene, {"box.velocity": torch.tensor([0.5, 0.15, 0.75], dtype=torch.float64)})
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**TIGHT)), filmed)
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


@pytest.mark.parametrize("film", FILMS, ids=NAMES)
def test_the_gradient_of_the_jacobian_is_exact(film):
    """-2 J^T r is the gradient of the loss, with the look held but for a linear step."""
    scene = scene_of(film)
    bounds = {"box.velocity": (-2.0, 2.0), "film.start": (-0.01, 0.01)}
    unknowns = Unknowns.of(scene, tuple(bounds), bounds=bounds)
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(**TIGHT)), noisy(film_of(scene, {})))
    point = np.array([0.65, 0.07, 0.74, -0.002])
    at = linearise(scene, comparison, unknowns, point, step=1e-5)
    found = -2.0 * at.normal_equations[1] / comparison.observation_count / unknowns.scaled_range()
    z = torch.as_tensor(unknowns.scaled(point)[None]).requires_grad_()
    (gradient,) = torch.autograd.grad(comparison.losses(scene, unknowns.from_scaled(z), worlds=1).sum(), z)
    np.testing.assert_allclose(found, gradient[0].cpu().numpy(), rtol=2e-4, atol=2e-5 * float(gradient.abs().max()))
