"""Films with a clock: time stamps, start and rate, exposure, rolling shutter, their derivatives, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from risp_torch import Param, PixelLoss, Scene, StateLoss, UserError, invert
from risp_torch.inversion import Comparison
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.risp import photoreal_film
from risp_torch.scene.numbers import constant
from risp_torch.scene.parts.clock import FilmClock
from risp_torch.scene.simulation.exposure import exposures
from risp_torch.scene.view.unlit import UnlitRenderInputs
from tests.reference.gradients_in_worlds import check_torch_in_worlds
from tests.reference.small_scenes import make_scene

STAMPS = (0.0, 0.004, 0.0111, 0.0183)


def filmed(scene: Scene, **numbers: float) -> torch.Tensor:
    """The pictures [T, H, W, 3] of a scene with these numbers of its film."""
    given = {f"film.{name}": torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    with torch.no_grad():
        return scene.render(scene.rollout(given, worlds=1), given)[0]


def with_film(**film: Any) -> Scene:
    scene = make_scene()
    scene.set_film(**film)
    return scene


def weights(exposure: float, line_time: float, lines: int = 9, **clock: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Moments [S] and weights [L, S] of one world."""
    values = {"film.exposure": constant([exposure]), "film.line_time": constant([line_time])}
    after, given = exposures(FilmClock(**clock), values, lines)
    return after[0], given[0]


def test_pictures_are_at_their_time_stamps() -> None:
    """Stamps at frames give the frames' pictures; another rate, or another start, gives those of the moved stamps."""
    usual = make_scene()
    with torch.no_grad():
        plain = usual.render(usual.rollout())[0]
    torch.testing.assert_close(filmed(with_film()), plain, rtol=0, atol=1e-11)
    torch.testing.assert_close(filmed(with_film(times=[0.0, 0.01, 0.02])), plain[::2], rtol=0, atol=1e-11)
    stamps = with_film(times=STAMPS)
    assert stamps.frames == 3
    assert stamps.fps == pytest.approx(3 / 0.0183)
    direct = filmed(stamps)
    moved = with_film(times=[4 * (time + 0.25) for time in STAMPS])
    torch.testing.assert_close(filmed(moved, start=1.0, rate=0.25), direct, rtol=0, atol=1e-11)
    assert (filmed(stamps, start=-0.001) - direct).abs().max() > 0.01
    states = stamps.rollout()
    torch.testing.assert_close(states.moment, constant(STAMPS).double()[None])
    parts = torch.cat([stamps.render(states, frames=slice(0, 2)), stamps.render(states, frames=[2, 3])], dim=1)
    torch.testing.assert_close(parts[0], direct, rtol=0, atol=0)


@pytest.mark.parametrize("readout", ["down", "left"])
def test_gradients_through_all_of_it(readout: str) -> None:
    """Start, rate, exposure, line time, and physical numbers, by pictures whose weights are random."""
    scene = with_film(times=STAMPS, samples=4, states_per_interval=2, readout=readout)
    noise = torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 16, 16, 3)))

    def losses(given: dict[str, torch.Tensor]) -> torch.Tensor:
        count = 2 * len(given["film.start"])
        worlds = {name: value.flatten(0, 1) for name, value in given.items()}
        pictures = scene.render(scene.rollout(worlds, worlds=count), worlds)
        return (noise * pictures.unflatten(0, (-1, 2))).flatten(1).sum(dim=1)

    numbers = {"film.start": [-1.3e-3, 0.6e-3], "film.rate": [0.93, 1.04], "film.exposure": [3e-3, 1e-3]}
    numbers |= {"film.line_time": [2e-4, 1e-4], "block.density": [800.0, 900.0], "block.velocity": [[0.5, 0.1, -0.8]] * 2}
    steps = {"film.start": 1e-8, "film.rate": 1e-6, "film.exposure": 1e-8, "film.line_time": 1e-9}
    steps |= {"block.density": 1e-6, "block.velocity": 1e-7}
    point = {name: np.array(value) for name, value in numbers.items()}
    report = check_torch_in_worlds(losses, point, step=steps, order=4, rtol=1e-6, floor=1e-3)
    report.raise_if_wrong()
    assert report.observable == 16


def test_gradients_at_no_exposure_and_no_line_time() -> None:
    """An exposure that grows from zero moves the mean of its moments by half of it, a line time row l by l of it."""
    scene = with_film(times=STAMPS)

    def slope(*names: str) -> float:
        """Of the squares of row 7 by the last of the numbers, which are zero."""
        given = {name: torch.zeros((), dtype=torch.float64, requires_grad=True) for name in names}
        (scene.render(scene.rollout(given), given)[:, :, 7, ..., 0] ** 2).sum().backward()
        return float(given[names[-1]].grad)

    later = -slope("film.start")
    assert slope("film.exposure") == pytest.approx(0.5 * later, rel=1e-9)
    assert slope("film.line_time") == pytest.approx(7 * later, rel=1e-9)  # the row that is compared
    with pytest.raises(UserError, match="no derivative by both"):
        slope("film.exposure", "film.line_time")


EXPOSED = [(0.0, 1e-3), (4e-3, 0.0), (4e-3, 1e-3), (1e-5, 1e-3), (0.1, 1e-6), (0.0, 0.0)]


@pytest.mark.parametrize(("exposure", "line_time"), EXPOSED)
def test_weights_of_the_lines(exposure: float, line_time: float) -> None:
    """They are not negative, sum to one, have the mean time of each line's exposure, and leave out what is not exposed."""
    after, given = weights(exposure, line_time, samples=6)
    assert float(after[-1]) == pytest.approx(exposure + 8 * line_time)
    assert float(given.min()) >= 0.0
    torch.testing.assert_close(given.sum(dim=1), torch.ones(9, dtype=torch.float64), rtol=0, atol=1e-11)
    line = torch.arange(9, dtype=torch.float64)
    torch.testing.assert_close(given @ after, line_time * line + 0.5 * exposure, rtol=0, atol=1e-12)
    spacing = after[1] - after[0]
    unseen = (after < (line_time * line)[:, None] - spacing) | (after > (line_time * line)[:, None] + exposure + spacing)
    assert not given[unseen].any()
    for turned in ("up", "left"):
        torch.testing.assert_close(weights(exposure, line_time, samples=6, readout=turned)[1], given.flip(0), rtol=0, atol=0)


def test_blur_is_the_mean_of_pictures() -> None:
    """A moving, turning block: the trapezoidal rule exactly, and the mean of 200 pictures to its error."""
    scene, exposure = with_film(times=STAMPS, samples=5), 1.5e-3
    blurred = filmed(scene, exposure=exposure)
    shifts = np.linspace(0.0, exposure, 5)
    pictures = torch.stack([filmed(scene, start=-shift) for shift in shifts])
    rule = torch.tensor([0.5, 1.0, 1.0, 1.0, 0.5], dtype=torch.float64) / 4
    torch.testing.assert_close(blurred, torch.einsum("s,sthwc->thwc", rule, pictures), rtol=0, atol=1e-12)
    many = torch.stack([filmed(scene, start=-exposure * (k + 0.5) / 200) for k in range(200)]).mean(dim=0)
    sharp = filmed(scene, start=-0.5 * exposure)
    error, blur = (blurred - many).abs().max(), (sharp - many).abs().max()
    assert error < 0.25 * blur
    finer = filmed(with_film(times=STAMPS, samples=17), exposure=exposure)
    assert (finer - many).abs().max() < 0.1 * error  # of second order: 1/16


@pytest.mark.parametrize("readout", ["down", "up", "right", "left"])
def test_lines_are_those_of_pictures_at_their_times(readout: str) -> None:
    """With a moment for each line, line l is that of the film that begins its exposures line_time l later."""
    line_time = 2e-4
    scene = with_film(times=STAMPS, samples=16, readout=readout)
    rolled = filmed(scene, line_time=line_time)
    for line in (0, 5, 15):
        later = filmed(scene, start=-line_time * line)
        at = line if readout in ("down", "right") else 15 - line
        axis = 1 if readout in ("down", "up") else 2
        torch.testing.assert_close(rolled.select(axis, at), later.select(axis, at), rtol=0, atol=1e-11)
    assert (rolled - filmed(scene)).abs().max() > 0.01


def test_times_before_the_start_and_after_the_end() -> None:
    """Free flight is continued backwards exactly; the scene is simulated as long as the film lasts."""
    scene = make_scene(height=0.3)
    scene.set("push.impulse", 0.0)
    longer = scene.rollout(frames=6)
    scene.set_film(times=[0.0, 0.03])
    torch.testing.assert_close(scene.rollout().body_q[:, 1], longer.body_q[:, 6], rtol=0, atol=1e-12)
    scene.set("film.start", 0.004)
    before = scene.rollout().body_q[0, 0, 0, :3].cpu().numpy()
    start, velocity = np.array([0.0, 0.0, 0.3]), np.array([0.5, 0.1, -0.8])
    exact = start - 0.004 * velocity - 0.5 * 9.81 * 0.004**2 * np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(before, exact, atol=1e-12)
    scene.set("film.start", 0.0053)
    with pytest.raises(UserError, match="before the scene begins.*film.start"):
        scene.rollout()


def test_films_of_one_scene_have_starts_of_their_own() -> None:
    scene = with_film(times=STAMPS)
    starts = {"film.start@1": constant(-0.001), "film.start@2": constant(0.002)}
    films = Films(scene, 2, per_film=["film.start"])
    with torch.no_grad():
        both = films.render(films.rollout(starts), starts)[0]
    for part, start in zip(both.chunk(2, dim=2), (-0.001, 0.002), strict=True):
        torch.testing.assert_close(part, filmed(scene, start=start), rtol=0, atol=0)


def test_losses_see_the_film_at_its_times() -> None:
    """Also states, and the first frames of a growing horizon."""
    scene = with_film(times=STAMPS, start=-0.0012)
    with torch.no_grad():
        states, film = scene.rollout(), filmed(scene)
        for loss, video in ((PixelLoss(), film), (StateLoss(None, states), None)):
            comparison = Comparison.of(scene, loss, video)
            assert float(comparison.losses(scene, {}, worlds=1)) < 1e-25
            assert float(comparison.losses(scene, {}, worlds=1, horizon=1)) < 1e-25
            assert float(comparison.losses(scene, {"film.start": constant(0.0)}, worlds=1)) > 1e-9
    assert scene.description()["film"]["times"] == list(STAMPS)
    assert "film" not in make_scene().description()


def test_what_is_refused() -> None:
    scene = with_film(times=STAMPS, exposure=1e-3)
    with pytest.raises(UserError, match="has a film already"):
        scene.set_film()
    with pytest.raises(UserError, match="counts from the scene's start"):
        scene.rollout(state=scene.state())
    with pytest.raises(UserError, match="4 time stamps, and 6 pictures"):
        scene.rollout(frames=5)
    states = scene.rollout()
    scene.resize_camera(8, 8)
    with pytest.raises(UserError, match="16 lines, and these have 8"):
        scene.render(states)
    with pytest.raises(UserError, match="16 lines, and these have 8"):
        UnlitRenderInputs.of(scene, states, {}, None)
    with pytest.raises(UserError, match="no motion blur"):
        photoreal_film(scene, states)
    with pytest.raises(UserError, match="do not ascend: 0.01 s follows 0.02 s"):
        with_film(times=[0.0, 0.02, 0.01])
    with pytest.raises(UserError, match="at least two"):
        with_film(times=[0.0])
    with pytest.raises(UserError, match="divides the substeps"):
        with_film(states_per_interval=3)
    with pytest.raises(UserError, match="film.line_time"):
        with_film(line_time=-1e-4)
    with pytest.raises(UserError, match="film.rate"):
        with_film(rate=0.0)


def test_bounds_that_begin_too_early_are_refused_before_the_search() -> None:
    scene = with_film(start=Param(0.0, low=-0.01, high=0.006))
    film = filmed(scene)
    with pytest.raises(UserError, match="0.006 s before the scene begins"):
        invert(scene, film, ["film.start"], progress=False)
    films = Films(with_film(), 2, per_film=["film.start"])
    bounds = {"film.start": (-0.01, 0.0), "film.start@2": (0.0, 0.007)}
    with pytest.raises(UserError, match="0.007 s before the scene begins"):
        invert(films, [film, film], ["film.start"], bounds=bounds, progress=False)
