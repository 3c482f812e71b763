"""Options of what is compared: parts of a look that are solved, samples of a pixel, silhouettes while an exposure drifts."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from risp_torch import LookSettings, MatchedLoss, UserError, write_frames
from risp_torch.__main__ import PROGRAM
from risp_torch.commands.loss_options import check_loss_options, make_compared_scene, make_loss
from risp_torch.commands.observation_options import masks_of
from risp_torch.scene.load import load_scene

PARSER, _ = PROGRAM.parsers()


def options(*words: str) -> argparse.Namespace:
    return PARSER.parse_args(["invert", "toss", "--video", "no.mp4", "--unknown", "body.density", *words])


def test_what_is_solved_of_a_look() -> None:
    scene = load_scene("toss", size=16)
    given = options("--loss", "matched", "--look", "exposure", "light=sh1", "--look", "robust_scale=0.05", "rounds=12")
    loss = make_loss(given, scene)
    assert isinstance(loss, MatchedLoss)
    assert loss.settings == LookSettings(exposure=True, light="sh1", robust_scale=0.05, rounds=12)
    finer = make_loss(options("--loss", "matched", "--look", "shadow", "colors=texel", "texels=3"), scene)
    assert finer.settings == LookSettings(shadow=True, colors="texel", texels=3)
    assert make_loss(options("--loss", "matched"), scene).settings == LookSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brightness", "unknown part of the look 'brightness'"), ("exposure=1", "'exposure=1': write exposure"),
        ("robust_scale", "'robust_scale': write robust_scale=VALUE"), ("robust_scale=x", "'robust_scale=x' is no number"),
        ("light=sun", "light 'sun' is unknown"),
        ("color_regularisation=-1", "color_regularisation is -1"), ("texels=0", "texels is 0"),
    ],
)  # fmt: skip
def test_parts_of_a_look_that_are_refused(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--loss", "matched", "--look", text)
    assert said in capsys.readouterr().err


def test_refusals() -> None:
    with pytest.raises(UserError, match="--look belongs to --loss matched, not to pixel"):
        check_loss_options(options("--look", "exposure"), target_needed=True)
    with pytest.raises(UserError, match="--look names exposure, exposure: name each once"):
        make_loss(options("--loss", "matched", "--look", "exposure", "exposure"), load_scene("toss", size=16))
    with pytest.raises(UserError, match="--samples pixel=N does not go with a network"):
        make_compared_scene(options("--loss", "risp", "--network", "none.safetensors", "--size", "16", "--samples", "pixel=2"))


def test_samples_of_a_pixel(tmp_path: Path) -> None:
    write_frames(tmp_path, np.zeros((36, 16, 16, 3)), fps=100)
    words = ["invert", "toss", "--video", str(tmp_path), "--unknown", "body.density", "--size", "16"]
    assert make_compared_scene(PARSER.parse_args(words)).style.antialias == 1
    assert make_compared_scene(PARSER.parse_args([*words, "--samples", "pixel=3"])).style.antialias == 3


def test_silhouettes_of_a_film_whose_exposure_drifts(tmp_path: Path) -> None:
    """The median is taken of frames of one exposure: a patch that moves is all that differs."""
    film = np.full((36, 16, 16, 3), 0.4)
    for k in range(36):
        film[k, 4:9, k % 12 : k % 12 + 4] = (0.8, 0.1, 0.1)
    write_frames(tmp_path, film * np.linspace(1.0, 0.5, 36)[:, None, None, None], fps=100)
    words = ["invert", "toss", "--video", str(tmp_path), "--unknown", "body.density", "--size", "16", "--plate", "median"]
    given = PARSER.parse_args([*words, "--loss", "mask"])
    masks, _ = masks_of(given, make_compared_scene(given))
    shown = np.zeros((36, 16, 16))
    for k in range(36):
        shown[k, 4:9, k % 12 : k % 12 + 4] = 1.0
    assert np.abs(masks.cpu().numpy() - shown).mean() < 0.02
