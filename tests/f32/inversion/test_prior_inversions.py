"""Inversions of films by a camera that is known up to a standard deviation, and the option --prior."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from risp_torch import Inversion
from risp_torch.commands.options import prior_of
from risp_torch.scene.adding.camera import add_lens
from tests.reference.searches import pictures, quick, without_diagnosis
from tests.reference.small_scenes import make_scene

DENSITY, TURN = "block.density", "camera.turn"
TURNED = np.array([0.012, -0.01, 0.015])


@pytest.fixture(scope="module")
def inverted(tmp_path_factory: pytest.TempPathFactory) -> Inversion:
    filmed = make_scene(size=24)
    filmed.set(TURN, TURNED)
    with without_diagnosis():
        return quick(
            make_scene(size=24), pictures(filmed), [DENSITY, TURN, "camera.focal"],
            priors={TURN: 0.0175, "camera.focal": "2%"}, starts=[{DENSITY: 1000.0}], refine=4,
            out=tmp_path_factory.mktemp("turned") / "run",
        )  # fmt: skip


def test_a_wrong_camera_is_found_with_the_density(inverted: Inversion) -> None:
    focal = make_scene(size=24).parameters["camera.focal"].value
    truth = {DENSITY: 800.0} | {f"camera.focal[{i}]": focal[i] for i in range(2)}
    truth |= {f"{TURN}[{i}]": angle for i, angle in enumerate(TURNED)}
    errors = inverted.scaled_error(truth)
    assert all(abs(error) <= 3 * inverted.sd[label] for label, error in errors.items()), (errors, inverted.sd)
    assert abs(errors[DENSITY]) < 0.01 and all(inverted.sd[f"{TURN}[{i}]"] < 0.3 * 0.0175 for i in range(3))


def test_the_run_holds_its_priors(inverted: Inversion) -> None:
    result = json.loads((inverted.folder / "result.json").read_text())
    assert result["settings"]["priors"][TURN] == {"mean": [0.0, 0.0, 0.0], "sd": [0.0175] * 3}
    assert result["unknowns"][f"{TURN}[1]"]["prior"] == {"mean": 0.0, "sd": 0.0175}
    assert "prior" not in result["unknowns"][DENSITY]
    assert result["unknowns"][f"{TURN}[1]"]["high"] == pytest.approx(5 * 0.0175), "bounds at five standard deviations"


def test_a_lens_is_found_by_a_camera_without_one() -> None:
    filmed, scene = make_scene(size=24), make_scene(size=24)
    add_lens(filmed, "camera.distortion")
    filmed.set("camera.distortion[0]", -0.4)
    result = quick(scene, pictures(filmed), ["camera.distortion[0]"], priors={"camera.distortion[0]": 0.3}, starts=1, refine=4)
    found, sd = result.values["camera.distortion[0]"], result.sd["camera.distortion[0]"]
    # The film has no noise: the estimate is the mean of the truth and the prior's 0, weighted by their precisions.
    shrunk = -0.4 * (1 - (sd / 0.3) ** 2)
    assert sd < 0.15 and found == pytest.approx(shrunk, abs=0.2 * sd)  # a fifth for the squares of the distortion
    assert scene.cameras[0].distortion is not None and not scene.parameters["camera.distortion"].value.any()


def test_the_option() -> None:
    assert prior_of("a.b=0.5") == ("a.b", 0.5) and prior_of("a.b=700:50") == ("a.b", (700.0, 50.0))
    assert prior_of("a.b=5%") == ("a.b", "5%") and prior_of("a.b=1,2:0.1,0.2") == ("a.b", ([1.0, 2.0], [0.1, 0.2]))
    for text in ("a.b", "=1", "a.b=1:2:3", "a.b=x", "a.b=1:"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not NAME=SD or NAME=MEAN:SD"):
            prior_of(text)


def test_wrong_priors_of_the_command(command_line: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    begin = ["invert", "toss", "--video", "none.mp4", "--unknown", "camera.turn", "--out", tmp_path / "run", "--precision", "f32"]
    for given, sentence in (
        ([], "camera.turn has no bounds"), (["--prior", "camera.turn"], "is not NAME=SD"),
        (["--prior", "camera.turn=0"], "standard deviation 0"), (["--prior", "camera.position=1"], "unknown with a prior"),
        (["--prior", "camera.turn=0.1"], "none.mp4"),
    ):  # fmt: skip
        status, _, error = command_line(*begin, *given)
        assert status == 2 and sentence in error, error
