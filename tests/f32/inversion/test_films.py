"""Several films of one scene in one inversion: shared unknowns, numbers of each film, cameras of one motion."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import (
    Camera,
    LookSettings,
    Loss,
    MatchedLoss,
    OptimiseSettings,
    PictureLoss,
    PixelLoss,
    PixelWeights,
    RispLoss,
    Scene,
    States,
    UserError,
    invert,
    write_frames,
    write_video,
)
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.inversion.problem.films.multi_film import Films, for_every_film
from risp_torch.inversion.problem.films.multi_film_loss import films_loss
from risp_torch.inversion.report.apply_result import apply_result
from tests.reference.small_scenes import make_scene

Risp = Callable[..., tuple[int, str, str]]
DENSITY, VELOCITY = "block.density", "block.velocity"
SPEEDS = ((0.5, 0.1, -0.8), (-0.4, 0.2, -0.9))


def film_of(scene: Scene, **values: object) -> torch.Tensor:
    """[5, 16, 16, 3] linear rgb of the scene with other values."""
    given = {name.replace("_", ".", 1): torch.as_tensor(value, dtype=torch.float32) for name, value in values.items()}
    with torch.no_grad():
        return scene.render(scene.rollout(given, worlds=1), given)[0]


@pytest.fixture(scope="module")
def scene() -> Scene:
    """The small scene with a second camera, from the other side."""
    scene = make_scene()
    scene.add_camera(
        Camera.look_at(
            eye=(-0.2, -0.2, 0.07), target=(0.0, 0.0, 0.03), vertical_fov=30.0, width=16, height=16, near=0.05, far=1.0,
            name="left",
        )  # fmt: skip
    )
    return scene


def test_pictures_are_those_of_each_film(scene: Scene) -> None:
    films = Films(scene, 2, per_film=[VELOCITY])
    values = {DENSITY: torch.tensor([300.0]), f"{VELOCITY}@2": torch.tensor([SPEEDS[1]])}
    wide = films.render(films.rollout(values, worlds=1), values)[0]
    assert wide.shape == (5, 16, 32, 3) and (films.camera.width, films.camera.height) == (32, 16)
    torch.testing.assert_close(wide[:, :, :16], film_of(scene, block_density=300.0), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        wide[:, :, 16:], film_of(scene, block_density=300.0, block_velocity=SPEEDS[1]), rtol=0, atol=1e-6
    )
    films.set(f"{VELOCITY}@1", SPEEDS[1])  # a known number of one film
    films.set("ground.contact.friction", 0.5)  # one that all share
    halves = films.render(films.rollout(worlds=1))[0].split(16, dim=2)
    torch.testing.assert_close(halves[0], film_of(scene, block_velocity=SPEEDS[1]), rtol=0, atol=1e-6)
    scene.set("ground.contact.friction", 0.3)


def test_cameras_of_one_motion(scene: Scene) -> None:
    films = Films(scene, 2, cameras=["left", "left"], per_film=[VELOCITY])
    assert [film.camera.name for film in films.films] == ["left", "left"] and scene.camera.name == ""
    films = Films(scene, 1, cameras=["left"])
    states = films.rollout(worlds=2)
    assert len(states.motions) == 1 and states.finite.tolist() == [True, True]
    torch.testing.assert_close(films.render(states)[0], scene.render(states.motions[0], camera="left")[0], rtol=0, atol=1e-6)


def test_gradient_reaches_shared_and_own_numbers(scene: Scene) -> None:
    """The loss of both films is the mean of the two; so is its gradient by what they share."""
    targets = [film_of(scene, block_velocity=speed) for speed in SPEEDS]
    films = Films(scene, 2, per_film=[VELOCITY])
    names = list(for_every_film([DENSITY, VELOCITY], [VELOCITY], 2))
    assert names == [DENSITY, f"{VELOCITY}@1", f"{VELOCITY}@2"]
    assert Unknowns.of(films, names).labels[1] == f"{VELOCITY}@1[0]"
    together = Comparison.of(films, PixelLoss(), torch.cat(targets, dim=2))
    single = [Comparison.of(scene, PixelLoss(), target) for target in targets]
    density = torch.tensor([500.0], requires_grad=True)
    speeds = [torch.tensor([speed], requires_grad=True) for speed in SPEEDS]
    given = {DENSITY: density, f"{VELOCITY}@1": speeds[0], f"{VELOCITY}@2": speeds[1]}
    joint = torch.autograd.grad(together.losses(films, given, worlds=1).sum(), [density, *speeds])
    losses = [one.losses(scene, {DENSITY: density, VELOCITY: speed}, worlds=1) for one, speed in zip(single, speeds, strict=True)]
    mean = torch.autograd.grad((losses[0] + losses[1]).sum() / 2, [density, *speeds])
    for a, b in zip(joint, mean, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-9)


def test_each_film_has_a_look_of_its_own(scene: Scene, tmp_path: Path) -> None:
    """The matched loss of two films is the mean of the two, each in its own look, and each look has its sheet."""
    targets = [film_of(scene, block_velocity=speed) for speed in SPEEDS]
    targets[1] = 0.3 + 0.5 * targets[1].flip(-1)  # other colours
    films = Films(scene, 2, per_film=[VELOCITY])
    loss = films_loss(MatchedLoss(LookSettings(tolerance=1e-9)))
    together = Comparison.of(films, loss, torch.cat(targets, dim=2))
    single = [Comparison.of(scene, MatchedLoss(LookSettings(tolerance=1e-9)), target) for target in targets]
    given = {f"{VELOCITY}@{k + 1}": torch.tensor([speed]).requires_grad_() for k, speed in enumerate(SPEEDS)}
    joint = together.losses(films, given, worlds=1)
    own = [one.losses(scene, {VELOCITY: value}, worlds=1) for one, value in zip(single, given.values(), strict=True)]
    torch.testing.assert_close(joint, (own[0] + own[1]) / 2, rtol=1e-4, atol=1e-9)
    gradients = [torch.autograd.grad(loss.sum(), list(given.values())) for loss in (joint, (own[0] + own[1]) / 2)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=1e-7)
    with torch.no_grad():
        together.loss.write_pictures(tmp_path, films, films.rollout(worlds=1), {})
        shown = together.loss.render(films, films.rollout(worlds=1), {})
    assert {path.name for path in tmp_path.iterdir()} == {"look@1.png", "look@2.png"}
    assert shown.shape[1:] == torch.cat(targets, dim=2).shape
    blocks = together.blocks
    half = len(blocks) // 2
    assert len(blocks) == together.target.shape[-1] and not set(blocks[:half]) & set(blocks[half:])
    weighed = MatchedLoss(weights=PixelWeights(torch.ones(16, 16)))
    with pytest.raises(UserError, match="belong to one film"):
        films_loss(weighed)


def test_what_a_network_reads_of_each_film(scene: Scene) -> None:
    """A network sees pictures of one film at a time; blocks of one film are none of the other's."""

    class Mean(torch.nn.Module):
        def read(self, pictures: torch.Tensor) -> torch.Tensor:
            assert pictures.shape[-3:] == (16, 16, 3)
            return pictures.mean(dim=(-3, -2))

    films = Films(scene, 2, per_film=[VELOCITY])
    loss = films_loss(RispLoss(Mean()))
    target = torch.cat([film_of(scene, block_velocity=speed) for speed in SPEEDS], dim=2)
    comparison = Comparison.of(films, loss, target)
    assert comparison.target.shape == (5, 6) and sorted(comparison.blocks) == list(range(6))
    assert loss.non_smooth and loss.temporally_correlated
    torch.testing.assert_close(comparison.target[:, 3:], target[:, :, 16:].mean(dim=(1, 2)))


def test_readings_of_each_film_are_whitened_by_themselves(scene: Scene) -> None:
    """The looks of the second film's motion say how its readings err; together they stand side by side."""

    class Read(PictureLoss):
        kind = "read"

        def read(self, pictures: torch.Tensor) -> torch.Tensor:
            return pictures.mean(dim=(-3, -2))

        def whitened(self, scene: Scene, states: States, values: dict, frames: tuple[int, ...], *, seed: int = 0) -> Loss:
            looks = torch.stack([(1 + k) * self.observe(scene, states, values, frames)[0] for k in range(4)])
            weighed = copy(self)
            weighed.whitening = Whitening.of(looks)
            return weighed

        def blocks(self, shape: tuple[int, ...], size: tuple[int, int]) -> np.ndarray:
            return np.arange(int(np.prod(shape)))

        def to_json(self) -> dict:
            return {}

    targets = [film_of(scene, block_velocity=speed) for speed in SPEEDS]
    films = Films(scene, 2, per_film=[VELOCITY])
    values = {f"{VELOCITY}@{k + 1}": torch.tensor([speed]) for k, speed in enumerate(SPEEDS)}
    together = Comparison.of(films, films_loss(Read()), torch.cat(targets, dim=2)).whitened(films, values)
    for k, (target, speed) in enumerate(zip(targets, SPEEDS, strict=True)):
        single = Comparison.of(scene, Read(), target).whitened(scene, {VELOCITY: torch.tensor([speed])})
        torch.testing.assert_close(together.target[:, 3 * k : 3 * k + 3], single.target, rtol=1e-4, atol=1e-4)
    assert float(together.losses(films, values, worlds=1)) < 1e-6 < float(together.losses(films, {}, worlds=1))


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_two_films_tell_what_one_does_not(scene: Scene, tmp_path: Path) -> None:
    """Density of both and the velocity of each, from two films, from guesses that are far off; the result goes into a scene."""
    targets = [film_of(scene, block_density=500.0, block_velocity=speed) for speed in SPEEDS]
    starts = [{DENSITY: 800.0, f"{VELOCITY}@1": (0.4, 0.2, -0.7), f"{VELOCITY}@2": (-0.3, 0.1, -0.8)}]
    result = invert(
        Films(scene, 2, per_film=[VELOCITY]), targets, [DENSITY, VELOCITY], bounds={f"{VELOCITY}@2": (-1.5, 1.5)}, starts=starts,
        search=OptimiseSettings(iterations=2), out=tmp_path / "run", progress=False,
    )  # fmt: skip
    assert result.values[DENSITY] == pytest.approx(500.0, rel=0.01)
    for film, speed in enumerate(SPEEDS, start=1):
        found = [result.values[f"{VELOCITY}@{film}[{i}]"] for i in range(3)]
        np.testing.assert_allclose(found, speed, atol=0.01)
    unknowns = json.loads((tmp_path / "run/result.json").read_text())["unknowns"]
    assert (unknowns[f"{VELOCITY}@1[0]"]["high"], unknowns[f"{VELOCITY}@2[0]"]["high"]) == (2.0, 1.5)
    for path, speed in (("run", SPEEDS[0]), ("run@2", SPEEDS[1])):
        other = make_scene()
        apply_result(other, tmp_path / path)
        np.testing.assert_allclose(other.table[VELOCITY].value, speed, atol=0.01)
        assert other.table[DENSITY].value == result.values[DENSITY]
    with pytest.raises(UserError, match="has no film 3: name one of 1, 2"):
        apply_result(make_scene(), tmp_path / "run@3")


@pytest.mark.usefixtures("unplotted")
def test_films_on_the_command_line(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Risp) -> None:
    from tests.reference import small_scenes

    monkeypatch.chdir(tmp_path)
    source = Path(small_scenes.__file__).read_text(encoding="utf-8")
    second = source[source.index("    scene.add_camera(") : source.index("    scene.add_light(Directional")]
    second = second.replace("eye=(0.08, -0.25, 0.07)", "name='left', eye=(-0.2, -0.2, 0.07)")
    light = "    scene.add_light(Directional"
    (tmp_path / "small.py").write_text(source.replace(light, second + light))
    write_video(tmp_path / "a.mp4", film_of(scene), fps=200, crf=4)
    with torch.no_grad():
        write_frames(tmp_path / "b", scene.render(scene.rollout(), camera="left")[0], fps=200)
    search = ["--unknown", DENSITY, "--starts", 1, "--iterations", 1, "--solver", "refine=4"]
    status, out, err = command_line("invert", "small.py", "--video", "b", "--camera", "left", *search, "--out", "one")
    assert status == 0, err
    # Of the first film the velocity that the scene has, of the second another one, which is set.
    each = ["--per-film", VELOCITY, "--set", f"{VELOCITY}@2={SPEEDS[0]}", "--set", f"{VELOCITY}={SPEEDS[0]}"]
    status, out, err = command_line("invert", "small.py", "--video", "a.mp4", "a.mp4", *each, *search, "--out", "two")
    assert status == 0, err
    assert "density" in out and "nothing fits" not in out  # compression is reckoned with, in every film
    for run in ("one", "two"):
        found = json.loads((tmp_path / run / "result.json").read_text())["unknowns"]
        assert found[DENSITY]["value"] == pytest.approx(800, rel=0.05), run


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--video", "a", "b"], "the 2 films show one motion by one camera"),
        (["--video", "a", "b", "c", "--camera", "x", "y"], "3 films and 2 cameras are named"),
        (["--video", "a", "b", "--camera", "left"], "no camera is called 'left': the scene's only camera has no name"),
        (["--video", "a", "--camera", "x", "y"], "2 cameras are named, and there is 1 film"),
        (["--video", "a", "b", "--per-film", "block.velocty"], "did you mean 'block.velocity'"),
        (["--video", "a", "b", "--per-film", VELOCITY, "--set", f"{VELOCITY}@3=(0, 0, 0)"], f"'{VELOCITY}@3'"),
        (["--loss", "state", "--states", "a.csv", "--per-film", VELOCITY], "--per-film needs films"),
        (  # a number of each film is unknown, with bounds for all: nothing lacks but the films
            ["--video", "a", "b", "--per-film", VELOCITY, "--unknown", VELOCITY, "--bounds", f"{VELOCITY}=-1,-1,-1:1,1,1"],
            "video a does not exist",
        ),
    ],
)
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Risp, arguments: list[str], culprit: str
) -> None:
    from tests.reference import small_scenes

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n0\n")
    status, _, err = command_line("invert", small_scenes.__file__, "--unknown", DENSITY, *arguments)
    assert status == 2 and culprit in err and len(err.strip().splitlines()) == 1, err
