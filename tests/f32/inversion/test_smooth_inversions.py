"""Inversions with a number for every element: smoothness in the search, in Gauss-Newton steps, in reports and options."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Camera,
    Elastic,
    Inversion,
    OptimiseSettings,
    Param,
    Scene,
    SearchStages,
    SmoothnessPrior,
    Surface,
    film,
    invert,
)
from risp_torch.inversion import Unknowns, error_bars, linearise
from ti_sim.meshes import box_hexes

CELLS, COUNT = (6, 1, 1), 6
TRUTH = np.repeat([3e4, 1e4], 3)  # Pa
NAMES = ["bar.mu", "bar.lam"]


def bar() -> Scene:
    """A short bar of two parts, which sinks from a clamp."""
    scene = Scene(frame_dt=0.02, frames=6, substeps=16, gamma=1e-2, name="bar")
    mesh = box_hexes((0.36, 0.1, 0.1), CELLS)
    scene.add_solid(
        "bar", mesh=mesh, density=1000.0, fixed=lambda x: x[:, 0] < -0.179,
        material=Elastic(
            mu=Param(TRUTH, low=2e3, high=2e5, scale="log10"), lam=Param(TRUTH, low=2e3, high=2e5, scale="log10"), damping=30.0,
        ),
        surface=Surface(vertex_colors=np.where(np.arange(len(mesh.vertices))[:, None] % 2, (0.1, 0.2, 0.6), (0.9, 0.9, 0.8))),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -1.0, 0.1), target=(0.0, 0.0, -0.05), vertical_fov=28.0, width=32, height=32, far=2.0)
    )
    scene.add_light(AmbientLight(intensity=0.9))
    return scene


@pytest.fixture(scope="module")
def inverted(tmp_path_factory: pytest.TempPathFactory) -> Inversion:
    scene = bar()
    with torch.no_grad():
        target = film(scene, {}, worlds=1, frames=scene.frames)[0][0]
    start = dict.fromkeys(NAMES, np.full(COUNT, 2e4))
    return invert(
        scene, target, NAMES, starts=[start], priors=dict.fromkeys(NAMES, SmoothnessPrior(1e-6)),
        search=SearchStages(steps=OptimiseSettings(iterations=6), refine=3),
        out=tmp_path_factory.mktemp("bar") / "run", progress=False,
    )  # fmt: skip


def test_halves_of_different_stiffness_are_found(inverted: Inversion) -> None:
    mu = inverted.final[inverted.best][:COUNT]
    np.testing.assert_allclose([mu[:3].mean(), mu[3:].mean()], [3e4, 1e4], rtol=0.05)
    assert inverted.losses[0] < 0.02 * float(inverted.history.losses[0][0])


def test_the_run_tells_what_the_film_sees(inverted: Inversion) -> None:
    result = json.loads((inverted.folder / "result.json").read_text())
    assert result["observable_modes"] == inverted.uncertainty.observable_modes == (inverted.uncertainty.mode_sd <= 0.25).sum()
    assert result["settings"]["smooth"] == {"bar.mu": 1e-6, "bar.lam": 1e-6}
    assert (inverted.folder / "elements.png").stat().st_size > 5000
    modes = inverted.uncertainty.modes
    np.testing.assert_allclose(modes.T @ modes, np.eye(2 * COUNT), atol=1e-9)
    assert (np.diff(inverted.uncertainty.mode_sd) >= 0).all()


def test_a_heavier_weight_makes_neighbours_alike_and_counts_as_knowledge(inverted: Inversion) -> None:
    scene, spreads, unseen = bar(), [], []
    with torch.no_grad():
        target = film(scene, {}, worlds=1, frames=scene.frames)[0][0]
    point = inverted.final[inverted.best]
    for weight in (1e-7, 10.0):
        unknowns = Unknowns.of(scene, NAMES, priors=dict.fromkeys(NAMES, SmoothnessPrior(weight)))
        bars = error_bars(linearise(scene, target, unknowns, point), unknowns, floor=1e-3)
        difference = np.zeros(2 * COUNT)
        difference[COUNT - 2 : COUNT] = 1.0, -1.0  # of the mu of the two elements at the free end
        spreads.append(np.sqrt(difference @ bars.covariance @ difference))
        unseen.append(bars.unobservable)
        assert all("error bar " in sentence for sentence in bars.unobservable)
        assert 1 <= bars.observable_modes < 2 * COUNT, "the film alone tells no more, whatever the weight"
    assert spreads[1] < 0.1 * spreads[0]
    assert len(unseen[1]) <= 2 <= len(unseen[0]), "with all neighbours alike only two numbers are left"


def test_wrong_options_of_the_command(command_line: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    begin = ["invert", "beam", "--set", "parts=True", "--video", "none.mp4", "--unknown", "beam.mu", "--out", str(tmp_path)]
    for prior, sentence in (
        ("beam.mu=smooth", "--prior: it is '': give a finite number above zero"),
        ("beam.nu=smooth:1", "beam.nu"),
        ("beam.mu=smooth:-1", "--prior: it is -1.0: give a finite number above zero"),
    ):
        status, _, error = command_line(*begin, "--prior", prior, "--precision", "f32")
        assert status == 2 and sentence in error, error
