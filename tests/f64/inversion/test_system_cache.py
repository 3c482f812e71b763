"""Systems of motions that come again: rendered once, and the same for a part of the worlds."""

import numpy as np
import torch

from risp_torch.inversion.appearance import batch
from risp_torch.inversion.appearance.fit.solve import solve_look
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.scene.view.unlit import UnlitRenderInputs
from tests.reference.flying_box import flying_box

VELOCITIES = torch.tensor([[0.6, 0.1, 0.7], [0.5, 0.1, 0.7], [0.6, 0.2, 0.7]], dtype=torch.float64)


def film_of(scene):
    with torch.no_grad():
        return scene.render(scene.rollout({}), {})[0]


def rendered_worlds(monkeypatch):
    """Numbers of worlds of the calls that render from now on."""
    calls, weights = [], UnlitRenderInputs.weights

    def counted(inputs):
        calls.append(inputs.worlds)
        return weights(inputs)

    monkeypatch.setattr(UnlitRenderInputs, "weights", counted)
    return calls


def test_a_motion_that_comes_again_is_not_rendered(monkeypatch):
    """Losses of the same worlds in another order, and of a similar film, need no picture; other edges do.

    Looks are solved again for another film, other frames, or other settings.
    """
    scene = flying_box()
    film = film_of(scene)
    comparison = Comparison.of(scene, MatchedLoss(LookSettings(tolerance=1e-13, rounds=200)), film)
    calls, solves = rendered_worlds(monkeypatch), []
    monkeypatch.setattr(batch, "solve_look", lambda *look, **given: solves.append(1) or solve_look(*look, **given))
    with torch.no_grad():
        states = scene.rollout({"box.velocity": VELOCITIES}, worlds=3)
        first = comparison.losses(scene, {"box.velocity": VELOCITIES}, worlds=3)
        assert sum(calls) == len(solves) == 3
        again = comparison.losses(scene, {"box.velocity": VELOCITIES.flip(0)}, worlds=3)
        assert len(solves) == 3
        comparison.loss.rebind_target(0.9 * film).observe(scene, states, {}, None)
        assert sum(calls) == 3 and len(solves) == 6
        comparison.coarse().losses(scene, {"box.velocity": VELOCITIES[:1]}, worlds=1)
        assert sum(calls) == 4 and len(solves) == 7
        comparison.loss.observe(scene, states, {}, [0, 1, 2])
        assert len(solves) == 10
    torch.testing.assert_close(again.flip(0), first, rtol=0, atol=0)


def test_inputs_of_some_worlds():
    """Weights in the pictures of a world are those in the pictures of all."""
    scene = flying_box()
    turns = torch.tensor([[0.01, 0.0, 0.0], [0.0, 0.02, 0.0], [0.0, 0.0, 0.03]], dtype=torch.float64)
    values = {"box.velocity": VELOCITIES, "camera.turn": turns}
    states = scene.rollout(values, worlds=3)
    whole = UnlitRenderInputs.of(scene, states, values, None)
    images = whole.frames * whole.moments
    (entries, share), (found, found_share) = whole.weights(), whole.of_worlds([2, 0]).weights()
    torch.testing.assert_close(found_share, torch.cat([share[2 * images :], share[:images]]), rtol=0, atol=0)
    expected = [np.flatnonzero(entries.image // images == world) for world in (2, 0)]
    np.testing.assert_array_equal(found.weight, entries.weight[np.concatenate(expected)])
    np.testing.assert_array_equal(found.pixel, entries.pixel[np.concatenate(expected)])
