"""Families of numbers that were taken for known: which of them explains a residual, and what that moves the estimate by."""

import numpy as np
import pytest
import torch

from risp_torch import Param
from risp_torch.inversion import Uncertainty, Unknowns
from risp_torch.inversion import likely_wrong as checked
from risp_torch.inversion.freed import Freed, Joint, freed
from risp_torch.inversion.likely_wrong import Suspect, sentences_on, share_of_step, suspects_of, widened_by_suspects
from risp_torch.inversion.linearisation import Linearisation, linearise
from risp_torch.inversion.nuisances import Family, Nuisance
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, compared

UNKNOWNS = Unknowns({"a": Param(1.0, low=-10.0, high=10.0)})
NOISE = 0.01


def families() -> list[Family]:
    """Of a scene whose numbers b and c are 0."""
    scene = LinearScene()
    for name in ("b", "c"):
        scene.add_number(name, 0.0, unit="m")
    return [Family(f"the {name}", (Nuisance(name, np.asarray(0.3)),), scene) for name in ("b", "c")]


def at_minimum(b: float) -> Linearisation:
    """The best a for a film with a = 1 and this b, whose columns are alike, if b is taken for 0."""
    random = np.random.default_rng(0)
    first = random.normal(size=(FRAMES, SIDE))
    columns = {"a": first, "b": 0.5 * first + random.normal(size=(FRAMES, SIDE)), "c": random.normal(size=(FRAMES, SIDE))}
    patterns = {name: torch.as_tensor(column) for name, column in columns.items()}
    target = patterns["a"] + b * patterns["b"] + NOISE * torch.as_tensor(random.normal(size=(FRAMES, SIDE)))
    a = float((columns["a"] * target.cpu().numpy()).sum() / (columns["a"] ** 2).sum())
    return linearise(LinearScene(), compared(LinearLoss(patterns, target)), UNKNOWNS, np.array([a]))


def test_the_step_and_the_freed_family_find_what_was_left_out() -> None:
    at = at_minimum(0.4)
    shares = [share_of_step(at, Joint(family, at.comparison, UNKNOWNS), together=1.0) for family in families()]
    assert shares[0] > 0.9 and shares[1] < 0.05, shares
    end = freed(at, Joint(families()[0], at.comparison, UNKNOWNS), together=1.0, rounds=5)
    assert at.scaled[0] + end.shift[0] == pytest.approx(1.0, abs=3e-3) and abs(end.shift[0]) > 0.1
    assert 0.3 * end.amplitudes[0] == pytest.approx(0.4, abs=3e-3) and end.loss < 2 * NOISE**2


def test_the_right_family_is_named_and_nothing_without_a_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "families_of", lambda *_: families())
    at = at_minimum(0.4)
    (suspect,) = suspects_of(None, UNKNOWNS, at, explained=NOISE**2, misfit=at.loss / NOISE**2)
    assert suspect.freed.family.title == "the b" and suspect.share > 0.99
    (sentence,) = sentences_on([suspect], UNKNOWNS, at.scaled)
    assert sentence.startswith("likely wrong: the b (b by 0.4 m would explain 100 % of what noise does not, with a of 0.9998; ")
    assert "make b unknown with --prior b=0.3" in sentence
    clean = at_minimum(0.0)
    assert suspects_of(None, UNKNOWNS, clean, explained=NOISE**2, misfit=1.0) == []
    assert suspects_of(None, UNKNOWNS, clean, explained=None, misfit=None) == [] and sentences_on([], UNKNOWNS, at.scaled) == []


def test_bars_reach_the_estimate_with_the_family_freed_but_not_beyond_what_is_allowed() -> None:
    bars = Uncertainty(np.array([0.03, 0.01]), np.eye(2), [True, True], [])
    ends = [Freed(families()[0], np.array([1.0]), np.array(shift), 0.1) for shift in ([0.04, -0.5], [-0.01, 0.2])]
    wider = widened_by_suspects(bars, [Suspect(end, 0.9) for end in ends], np.array([10.0, 0.3]))
    np.testing.assert_allclose(wider.sd, [0.05, 0.3])
    assert widened_by_suspects(bars, [], np.ones(2)) is bars
