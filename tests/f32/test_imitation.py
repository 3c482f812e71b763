"""The study of imitation, on a rod of a few elements and frames."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from risp_torch import UserError, load_scene
from scenes import imitation, risp_inversion

SIDE, FRAMES = 32, 6


@pytest.fixture
def small(monkeypatch):
    """A soft rod of 16 hexahedra, 6 frames and little pictures."""
    options = {"E": 1e4, "cells": (4, 2, 2), "frames": FRAMES, "substeps": 4}
    monkeypatch.setitem(imitation.CASES, "rod", replace(imitation.CASES["rod"], options=options))
    monkeypatch.setattr(imitation, "SIZE", SIDE)
    monkeypatch.setattr(imitation, "load_scene", partial(load_scene, size=SIDE))


def study(**changes):
    given = {"repeats": 1, "losses": ("state",), "iterations": 8, "refine": 0, "optimizer": "lbfgs", "linearise_up_to": 1}
    return risp_inversion.Study(**given | changes)


def test_forces_follow_from_the_own_film_and_from_true_states(small, tmp_path, monkeypatch):
    results = imitation.run_scene("rod", study(), tmp_path)
    (guess,), (own,), (state,) = results["guess"], results[imitation.OWN], results["state"]
    assert np.ptp(guess.actions) == 0 and abs(guess.actions[0]) <= 400
    assert state.part < 0.02 < guess.part and state.total == pytest.approx(state.part * guess.total / guess.part)
    assert own.part < 0.5 * guess.part
    monkeypatch.setattr(risp_inversion, "invert", None)
    again = imitation.run_scene("rod", study(), tmp_path)
    assert again["state"][0].total == pytest.approx(state.total, abs=1e-4)
    text = imitation.report({"rod": results}, study())
    assert "own film (H.264), pixels" in text and "0.28 ± 0.16" in text and "actions, rms [N]" in text
    imitation.plot(tmp_path / "rod.png", "rod", results)
    assert (tmp_path / "rod.png").stat().st_size > 1000
    with pytest.raises(UserError, match=r"has other settings \(search.iterations is 8 there and 9 here\)"):
        imitation.run_scene("rod", study(iterations=9), tmp_path)


def test_a_true_force_makes_no_error(small):
    scene = imitation.load_scene("rod", **imitation.CASES["rod"].options)
    task, truth = imitation.made_true(scene, "rod")
    errors = imitation.errors_of(scene, task, imitation.CASES["rod"], truth)
    assert truth.shape == (FRAMES,) and errors.total == errors.part == errors.action == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--scenes", "toss"], "there is no experiment for the scene 'toss': choose among rod"),
        (["--networks", "nowhere"], "there is no no-grad network in nowhere/rod/10: train it"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence, tmp_path, capsys):
    assert imitation.main([*arguments, "--out", str(tmp_path), "--device", "cpu"]) == 2
    assert sentence in capsys.readouterr().err
