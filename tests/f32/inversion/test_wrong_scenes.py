"""Inversions whose scene is not quite that of the film: what is named as likely wrong, and bars that hold the truth."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import risp_torch.inversion.run.invert as inversion
from risp_torch import Inversion, load_scene
from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.inversion.diagnostics.misspecification import Diagnosis
from risp_torch.inversion.run import assessment
from risp_torch.inversion.run.assessment import assess
from risp_torch.scene.scene import Scene
from tests.reference.searches import pictures, quick

DENSITY = "body.density"


def scene_of(**numbers: object) -> Scene:
    """The thrown pebble, with some of its numbers changed."""
    scene = load_scene("toss", size=40)
    scene.frames = 12
    for name, value in numbers.items():
        scene.set(name.replace("__", "."), value)
    return scene


def found(filmed: Scene, out: Path | None = None) -> Inversion:
    """The density from a film with the noise of a camera."""
    noise = 0.006 * torch.randn(13, 40, 40, 3, generator=torch.Generator().manual_seed(0)).cpu().numpy()
    video = srgb_to_linear(np.clip(linear_to_srgb(pictures(filmed).cpu().numpy()) + noise, 0, 1))
    return quick(scene_of(), video, [DENSITY], starts=[{DENSITY: 400.0}], refine=4, out=out)


def test_a_wrong_camera_is_named_and_the_bar_holds_the_truth(tmp_path: Path) -> None:
    position = np.asarray(scene_of().parameters["camera.position"].value)
    result = found(scene_of(camera__turn=(0.0122, -0.0087, 0.0087), camera__position=position + 0.012), tmp_path / "run")
    assert result.fits is False and "the camera" in [each["family"] for each in result.misspecifications]
    sentence = next(sentence for sentence in result.doubts if sentence.startswith("likely wrong"))
    assert "the camera (" in sentence and "unknown with --prior camera.turn=0.035" in sentence
    assert abs(result.scaled_error({DENSITY: 600.0})[DENSITY]) <= 3 * result.sd[DENSITY]
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record["misspecifications"] == result.misspecifications and record["residual"]["over_noise"] > 4


def test_a_wrong_light_is_named() -> None:
    result = found(scene_of(light__key__intensity=(0.9, 0.9, 0.9)))
    assert result.misspecifications[0]["family"] == "the look"


def test_nothing_is_named_where_the_scene_is_right() -> None:
    result = found(scene_of())
    assert result.misspecifications == [] and result.doubts == []
    assert result.residual.noise == pytest.approx(result.residual.mean_square, rel=0.3)
    assert result.residual.film_noise > 0 and abs(result.scaled_error({DENSITY: 600.0})[DENSITY]) <= 3 * result.sd[DENSITY]


def test_only_starts_that_fit_as_well_widen_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second start that ended far away counts if its loss is larger by what noise explains, and not by a twentieth."""
    ends_of = []
    monkeypatch.setattr(assessment, "diagnose", lambda *_, **__: Diagnosis())
    monkeypatch.setattr(inversion, "assess", lambda problem, ends: ends_of.append((problem, ends)) or assess(problem, ends))
    result = found(scene_of())
    ((problem, ends),) = ends_of
    final, (loss,) = np.append(ends.final, [[300.0]], axis=0), ends.losses

    def bar(times: float) -> float:
        return assess(problem, replace(ends, final=final, losses=np.array([loss, times * loss]))).bars.sd[0]

    assert bar(np.inf) == bar(1.05) == result.sd[DENSITY]
    assert bar(1.00001) == pytest.approx(np.hypot(bar(np.inf), np.std(np.log10(final), ddof=1)))
