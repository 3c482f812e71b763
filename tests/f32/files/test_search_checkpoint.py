"""States of searches come back from a checkpoint as they were saved."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch.files.run_folder import RunFolder
from risp_torch.files.search_checkpoint import SearchCheckpoint
from ti_sim import UserError


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    z = torch.ones(2, 3, requires_grad=True)
    optimizer = torch.optim.LBFGS([z], max_iter=3, line_search_fn="strong_wolfe")
    optimizer.step(lambda: _loss(optimizer, z))
    state = {
        "points": np.arange(6.0).reshape(2, 3).astype(np.float32), "active": np.array([True, False]), "rounds": np.int64(3),
        "lowest": math.inf, "nothing": None, "history": [torch.tensor([math.nan, 1.0]), torch.zeros(0)],
        "optimizer": optimizer.state_dict(),
    }  # fmt: skip
    folder = RunFolder.create(tmp_path / "run", {"seed": 0})
    SearchCheckpoint(folder, "first").save({"done": True})
    SearchCheckpoint(folder, "second").save(state)
    assert SearchCheckpoint(folder, "first").load() == {"done": True} and SearchCheckpoint(folder, "third").load() is None
    again = SearchCheckpoint(folder, "second").load()
    assert again["points"].dtype == np.float32 and again["points"].tobytes() == state["points"].tobytes()
    assert again["active"].tolist() == [True, False] and again["rounds"] == 3
    assert again["lowest"] == math.inf and again["nothing"] is None
    torch.testing.assert_close(again["history"][0], state["history"][0], equal_nan=True)
    other = torch.optim.LBFGS([z.detach().clone().requires_grad_()], max_iter=3, line_search_fn="strong_wolfe")
    other.load_state_dict(again["optimizer"])
    before, after = (each.state_dict()["state"][0] for each in (optimizer, other))
    assert list(before) == list(after) and before["n_iter"] == after["n_iter"] and before["t"] == after["t"]
    for one, two in zip(before["old_dirs"], after["old_dirs"], strict=True):
        assert torch.equal(one, two)


def _loss(optimizer: torch.optim.Optimizer, z: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = ((z - torch.arange(3.0)) ** 4).sum()
    loss.backward()
    return loss


def test_nothing_is_saved_without_a_folder(tmp_path: Path) -> None:
    checkpoint = SearchCheckpoint(None, "search")
    checkpoint.save({"rounds": 1})
    assert checkpoint.load() is None
    folder = RunFolder.create(tmp_path / "run", {"seed": 0})
    folder.save_checkpoint({}, {"iteration": 3})
    with pytest.raises(UserError, match="the checkpoint of another program: remove it"):
        SearchCheckpoint(folder, "search").load()
