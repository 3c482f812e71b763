"""Smoke as users run it: a film tells buoyancy and viscosity; a flow that forms a picture, resumed, and refused input."""

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import UserError, film, invert, load_scene
from studies.films import smoke_picture
from studies.films.smoke_picture import main, picture_loss, wanted_density

UNKNOWN = ["smoke.buoyancy", "smoke.viscosity"]


def test_a_film_without_loss_tells_buoyancy_and_viscosity():
    scene = load_scene("smoke", cells=24, frames=15, size=48)
    with torch.no_grad():
        shown = film(scene, {}, worlds=1, frames=scene.frames)[0][0]
    # Noise that is far above the rounding of f32, of which no error bar is a measure.
    shown = shown + 1e-4 * torch.randn(shown.shape, generator=torch.Generator().manual_seed(0)).to(shown)
    found = invert(scene, shown, UNKNOWN, starts=[{"smoke.buoyancy": 1.0, "smoke.viscosity": 1e-3}], progress=False)
    truth = {name: scene.parameters[name].value for name in UNKNOWN}
    for name, error in found.scaled_error(truth).items():
        assert abs(error) < 1e-4 and found.sd[name] < 1e-3, name
    assert found.converged and found.doubts == []


def test_a_film_in_another_colour_is_said_to_be_in_another_look():
    scene = load_scene("smoke", cells=16, frames=8, size=32)
    with torch.no_grad():
        shown = film(scene, {"smoke.color": torch.tensor([0.9, 0.6, 0.4])}, worlds=1, frames=scene.frames)[0][0]
    found = invert(scene, shown, ["smoke.buoyancy"], progress=False)
    assert found.misfit > 10 and [each["family"] for each in found.misspecifications] == ["the look"]


def test_a_flow_is_found_and_a_killed_command_goes_on(tmp_path, monkeypatch, capsys):
    command = ["--cells", "16", "--steps", "10", "--out", str(tmp_path / "out")]
    main([*command, "--iterations", "4"])
    first = np.load(tmp_path / "out" / "state.npz")["losses"]
    assert len(first) == 4 and first[-1] < first[0]
    assert main([*command, "--iterations", "30"]) == 1  # not yet a fifth of the first loss
    losses = np.load(tmp_path / "out" / "state.npz")["losses"]
    assert len(losses) == 30 and (losses[:4] == first).all() and losses[-1] < 0.5 * losses[0]
    whole = [*command[:-1], str(tmp_path / "whole")]
    main([*whole, "--iterations", "30"])
    np.testing.assert_allclose(np.load(tmp_path / "whole" / "state.npz")["losses"], losses, rtol=1e-3)
    assert all((tmp_path / "out" / name).is_file() for name in ("strip.png", "video.mp4", "loss.png"))
    monkeypatch.setattr(smoke_picture, "picture_loss", lambda *given: pytest.fail("an iteration was done again"))
    main([*command, "--iterations", "30"])

    for other in (["--cells", "12", "--steps", "10"], ["--cells", "16", "--steps", "9"], [*command[:4], "--rate", "0.1"]):
        assert main([*other, "--out", str(tmp_path / "out")]) == 2
        assert "of another picture, grid, number of steps or rate" in capsys.readouterr().err
    whole = (tmp_path / "out" / "state.npz").read_bytes()
    for damaged in (b"no archive", whole[: len(whole) // 2], b""):
        (tmp_path / "out" / "state.npz").write_bytes(damaged)
        assert main(command) == 2 and "is damaged" in capsys.readouterr().err
    assert main(["--cells", "4"]) == 2 and "give 8 or more" in capsys.readouterr().err


def test_a_picture_becomes_as_much_smoke_as_there_is(tmp_path):
    pixels = np.zeros((8, 8), dtype=np.uint8)
    pixels[0, 1] = 255  # near the upper left corner
    Image.fromarray(pixels).save(tmp_path / "dot.png")
    density = wanted_density(tmp_path / "dot.png", 8, 5.0)
    assert density.sum() == pytest.approx(5) and density[1, 7] == density.max() == pytest.approx(5)
    assert wanted_density(None, 32, 7.0).sum() == pytest.approx(7)
    Image.fromarray(0 * pixels).save(tmp_path / "black.png")
    for name, words in (("black.png", "is black"), ("missing.png", "is no picture that can be read")):
        with pytest.raises(UserError, match=words):
            wanted_density(tmp_path / name, 8, 5.0)


def test_the_loss_sees_a_spot_from_afar():
    target, near, far = (torch.zeros(32, 32, 3) for _ in range(3))
    target[15:17, 15:17], near[15:17, 18:20], far[15:17, 28:30] = 1.0, 1.0, 1.0
    assert picture_loss(target, target) == 0 and picture_loss(near, target) < picture_loss(far, target)
