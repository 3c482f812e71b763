"""Starts of an inversion: the worse ones are stopped early, and a search without gradients goes before."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import CmaSettings, Inversion, OptimiseSettings, UserError
from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.solvers import gradient_descent
from tests.reference import small_scenes
from tests.reference.searches import quick

pytestmark = pytest.mark.usefixtures("undiagnosed")
INVERT = sys.modules["risp_torch.inversion.run.invert"]
DENSITY, FRICTION = "block.density", "ground.contact.friction"
KEEP = ((0.25, 2), (0.6, 1))
STOPPED = "stopped early"


def found(target: torch.Tensor, names: list[str], **options: object) -> Inversion:
    return quick(small_scenes.make_scene(), target, names, **{"starts": 4, "refine": 1} | options)


def search(**changes: object) -> OptimiseSettings:
    return OptimiseSettings(**{"iterations": 20, "keep": KEEP} | changes)


# -- stopping early -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_the_worse_starts_stop_and_the_others_do_not_notice(
    optimizer: str, target: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds, losses = [], gradient_descent._losses

    def counted(scene: object, comparison: object, unknowns: object, z: torch.Tensor, *rest: object) -> torch.Tensor:
        worlds.append(len(z))
        return losses(scene, comparison, unknowns, z, *rest)

    monkeypatch.setattr(gradient_descent, "_losses", counted)
    kept = found(target, [DENSITY], steps=search(optimizer=optimizer))
    assert worlds == [4] * 5 + [2] * 7 + [1] * 8  # the batch shrinks
    everyone = found(target, [DENSITY], steps=search(optimizer=optimizer, keep=()))
    table, whole = (torch.stack(result.history.losses[:20]) for result in (kept, everyone))
    for iteration, count in ((5, 2), (12, 1)):
        remaining = torch.isfinite(table[iteration - 1])
        best = torch.where(remaining, whole[iteration - 1], torch.inf).argsort()[:count].sort().values
        assert torch.isfinite(table[iteration]).nonzero()[:, 0].tolist() == best.tolist()
    going = torch.isfinite(table)
    torch.testing.assert_close(table[going], whole[going], rtol=1e-3, atol=1e-8)
    assert kept.status.count(STOPPED) == 3
    assert kept.history.stopped == [number for number, status in enumerate(kept.status) if status == STOPPED]
    assert kept.values[DENSITY] == pytest.approx(800.0, rel=0.01) and np.isfinite(kept.losses).all()
    values = torch.stack(everyone.history.values)[:, :, 0]
    for start in kept.history.stopped:  # it stays where it was going to look next
        assert kept.final[start, 0] == pytest.approx(float(values[int(going[:, start].sum()), start]), rel=1e-3)


def test_a_killed_search_stops_the_same_starts(target: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"steps": search(iterations=30), "out": tmp_path / "killed"}
    save, calls = RunFolder.save_checkpoint, []

    def killed(self: RunFolder, *given: object) -> None:
        save(self, *given)
        calls.append(given)
        if len(calls) == 2:  # after 20 of 30 iterations, when one start is left
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            found(target, [DENSITY], **options)
    again = found(target, [DENSITY], **options)
    straight = found(target, [DENSITY], **options | {"out": None})
    assert again.status == straight.status and again.history.stopped == straight.history.stopped
    for one, other in zip(again.history.losses[:30], straight.history.losses[:30], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-10, equal_nan=True)
    result = json.loads((tmp_path / "killed" / "result.json").read_text())
    assert [start["status"] for start in result["starts"]] == straight.status
    assert (tmp_path / "killed" / "loss.png").stat().st_size > 0 and (tmp_path / "killed" / "parameters.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keep": ((0.5, 2), (0.3, 1))}, r"keep is 0.5:2, 0.3:1: give shares of the iterations that rise between 0 and 1"),
        ({"keep": ((0.2, 2), (0.3, 2))}, "each with fewer starts than before"),
        ({"keep": ((0.0, 2),)}, "between 0 and 1"),
        ({"keep": ((0.5, 0),)}, "at least 1"),
        ({"optimizer": "lbfgs"}, "lbfgs optimises each start separately: choose adam or rmsprop"),
    ],
    ids=str,
)
def test_numbers_of_starts_that_make_no_sense(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        search(**changes)


# -- a search without gradients -------------------------------------------------------------------------------------------


def test_a_search_without_gradients_goes_before(target: torch.Tensor) -> None:
    warm = CmaSettings(generations=8, population=6)
    starts = [{DENSITY: 200.0, FRICTION: 0.1}, {DENSITY: 3000.0, FRICTION: 1.0}]
    options = {"starts": starts, "steps": OptimiseSettings(iterations=1), "refine": 0, "warm_start": warm}
    result = found(target, [DENSITY, FRICTION], **options)
    table = torch.stack(result.history.losses)
    assert table.shape == (9, 2) and (table[1:8] <= table[:7]).all() and (table[7] < 0.3 * table[0]).all()
    np.testing.assert_allclose(result.initial, [[200.0, 0.1], [3000.0, 1.0]])
    state = np.random.get_state()[1].copy()
    again = found(target, [DENSITY, FRICTION], **options)
    torch.testing.assert_close(torch.stack(again.history.losses), table, rtol=1e-4, atol=1e-9)
    assert (np.random.get_state()[1] == state).all()  # the user's generator is left alone
    other = found(target, [DENSITY, FRICTION], **options | {"seed": 1})
    assert not torch.allclose(torch.stack(other.history.losses)[1:8], table[1:8], rtol=1e-3)


@pytest.mark.usefixtures("unplotted")
def test_one_unknown_and_a_killed_run(target: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was killed during the first search begins again; after it, the descent resumes."""
    warm = CmaSettings(generations=4)
    options = {"starts": [{DENSITY: 300.0}], "steps": OptimiseSettings(iterations=20), "warm_start": warm}
    with monkeypatch.context() as patch:
        patch.setattr(INVERT, "status_of_starts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            found(target, [DENSITY], **options, out=tmp_path / "run")
        patch.setattr("risp_torch.inversion.solvers.search.cma_es_search", interrupted)  # not asked again: a checkpoint is there
        with pytest.raises(KeyboardInterrupt):
            found(target, [DENSITY], **options, out=tmp_path / "run")
    again = found(target, [DENSITY], **options, out=tmp_path / "run")
    straight = found(target, [DENSITY], **options)
    assert len(again.history.losses) == len(straight.history.losses) >= 24
    assert again.values[DENSITY] == pytest.approx(straight.values[DENSITY], rel=1e-4)
    assert straight.values[DENSITY] == pytest.approx(800.0, rel=0.01)


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_without_the_library_one_sentence(target: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(UserError, match=r"needs the package cma: install it with pip install 'risp-taichi\[search\]'"):
        found(target, [DENSITY], warm_start=CmaSettings())


def test_the_command_line(command_line: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    scene = tmp_path / "small.py"
    scene.write_text(Path(small_scenes.__file__).read_text())
    arguments = ["invert", scene, "--video", tmp_path / "none.mp4", "--unknown", DENSITY]
    for extra, words in (
        (["--solver", "cma.population=8"], "--solver cma.population belongs to --warm-start cma"),
        (["--warm-start", "cma", "--solver", "cma.population=2"], "--solver cma.population is 2: give a whole number"),
    ):
        status, _, error = command_line(*arguments, *extra)
        assert status == 2 and words in error
