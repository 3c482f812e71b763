"""Edges of films whose pixels are means, as those of cameras are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    LookSettings,
    MatchedLoss,
    Scene,
    Start,
    Surface,
    UserError,
)
from risp_torch.inversion.appearance.settings import CAMERA_EDGES, EDGES, FINE_EDGES
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise, newton_step
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.covariance import error_bars
from risp_torch.scene.view.unlit import UnlitRenderInputs

FINER = 8  # pixels of the fine film along one of the camera's


def receding(*, size=32, sigma=4e-4):
    """A box that flies away from the camera at 1 m/s: its silhouette says how fast. A solved look contains its light."""
    scene = Scene(frame_dt=0.02, frames=8, substeps=4, sigma=sigma, name="receding")
    scene.add_rigid(
        "box", shape=Box(0.1, 0.1, 0.1), density=500.0, surface=Surface(color=(0.8, 0.3, 0.2)),
        start=Start(position=(0.0, -0.1, 0.05), velocity=(0.1, 1.0, 0.8), angular_velocity=(1.0, 2.0, 0.5)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -0.6, 0.1), target=(0.0, 0.0, 0.05), vertical_fov=40.0, width=size, height=size, near=0.1, far=1.5
        )
    )
    scene.add_light(AmbientLight(intensity=0.8))
    scene.set_background(top=(0.2, 0.3, 0.6), bottom=(0.7, 0.6, 0.4))
    return scene


def camera_film():
    """The film of a camera whose pixels are means of 64 samples with sharp edges."""
    scene = receding(size=32 * FINER, sigma=1e-7)
    with torch.no_grad():
        fine = scene.render(scene.rollout())[0]
    return torch.nn.functional.avg_pool2d(fine.movedim(-1, 1), FINER).movedim(1, -1)


def test_edges_bias_a_speed_by_less_than_three_bars():
    """Errors of edges are those of the share of each pixel that a body covers; the bars are those of the residual's blocks.

    Edges with twice the samples along a side have half the error, and leave a quarter of the squares.
    """
    film, scene, left = camera_film(), receding(), {}
    unknowns = Unknowns.of(scene, ["box.velocity[1]"], bounds={"box.velocity[1]": (0.5, 1.5)})
    for edges in EDGES:
        comparison = Comparison.of(scene, MatchedLoss(LookSettings(edges=edges)), film)
        at = linearise(scene, comparison, unknowns, unknowns.current())
        (step,), (bar,) = newton_step(at) * unknowns.scaled_range(), error_bars(at, unknowns, floor=1e-12).sd
        assert abs(step) < 3 * bar < 0.02, (edges, step, bar)
        left[edges] = at.loss
    assert left["fine"] < 0.25 * left["camera"] and left["fine"] < left["scene"]


def test_fine_edges_move_evenly():
    """As an edge along the rows moves through a pixel, what it covers grows nearly in proportion.

    With two samples along a side it is 0.09 pixels off (rms), as most of a shift moves the edge between samples; with four 0.02.
    """
    scene = receding()
    shifts = np.linspace(0.0, 0.02, 41)  # about a pixel
    placement = torch.zeros(1, len(shifts), 1, 7)
    placement[..., 6] = 1.0
    placement[..., 2] = torch.as_tensor(shifts)[:, None]
    off = {}
    for edges in (CAMERA_EDGES, FINE_EDGES):
        with torch.no_grad():
            left = UnlitRenderInputs.of(scene, placement, {}, None, edges=edges).weights()[1]
        upper = (1.0 - left)[:, : 16, 14:18].double().sum(dim=1).mean(dim=1).cpu().numpy()  # the box reaches below the middle
        slope, start = np.polyfit(shifts, upper, 1)
        off[edges] = float(np.sqrt(np.mean((upper - start - slope * shifts) ** 2)))
        assert 0.5 < upper[-1] - upper[0] < 3.0
    assert 0.03 < off[CAMERA_EDGES] and off[FINE_EDGES] < 0.5 * off[CAMERA_EDGES]


def test_a_softness_that_nothing_uses_is_refused():
    """Where edges are those of a camera, the scene's softness changes nothing: no silent zero."""
    film, values = camera_film(), {"softness.sigma": torch.tensor([1e-4], requires_grad=True)}
    with pytest.raises(UserError, match="edges=scene"):
        Comparison.of(receding(), MatchedLoss(), film).losses(receding(), values, worlds=1)
    own = Comparison.of(receding(), MatchedLoss(LookSettings(edges="scene")), film)
    (gradient,) = torch.autograd.grad(own.losses(receding(), values, worlds=1).sum(), values["softness.sigma"])
    assert float(gradient) != 0.0
