"""Single entries of arrays as unknowns, and bounds of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import UserError
from risp_torch.commands.options import bounds_of
from risp_torch.inversion import Unknowns
from tests.reference.small_scenes import make_scene

ENTRY = "block.velocity[1]"


def test_an_entry_is_one_unknown() -> None:
    scene = make_scene()
    unknowns = Unknowns.of(scene, [ENTRY, "block.density"])
    assert unknowns.labels == [ENTRY, "block.density"] and unknowns.units == ["m/s", "kg/m3"]
    np.testing.assert_array_equal(unknowns.bounds(), [[-2.0, 80.0], [2.0, 8000.0]])
    assert unknowns.current().tolist() == [0.1, 800.0]


def test_other_entries_keep_their_values() -> None:
    """In the table of values, and in the gradient of a motion: that by the entry is one of those by the whole vector."""
    scene = make_scene(frames=2)
    whole = torch.tensor([[0.5, 0.1, -0.8], [0.5, 0.7, -0.8]], requires_grad=True)
    entry = torch.tensor([0.1, 0.7], requires_grad=True)
    motions = [scene.rollout({name: value}).body_q for name, value in (("block.velocity", whole), (ENTRY, entry))]
    assert torch.equal(*motions)
    for motion in motions:
        (motion**2).sum().backward()
    assert entry.grad.abs().min() > 0
    torch.testing.assert_close(entry.grad, whole.grad[:, 1], rtol=0, atol=0)
    alone = scene.table.values({ENTRY: torch.tensor(0.3)}, worlds=2)["block.velocity"]
    torch.testing.assert_close(alone.cpu(), torch.tensor([[0.5, 0.3, -0.8]] * 2))


def test_bounds_of_vectors_and_of_entries() -> None:
    scene = make_scene()
    name, given = bounds_of("block.position=-1,-0.5,0:(1, 0.5, 0.1)")
    low, high = Unknowns.of(scene, [name], bounds={name: given}).bounds()
    np.testing.assert_array_equal([low, high], [[-1, -0.5, 0], [1, 0.5, 0.1]])
    low, high = Unknowns.of(scene, ["block.velocity"], bounds=dict([bounds_of("block.velocity[2]=-1:0")])).bounds()
    np.testing.assert_array_equal([low, high], [[-2, -2, -1], [2, 2, 0]])
    low, high = Unknowns.of(scene, ["block.position[0]"], bounds=dict([bounds_of("block.position[0]=-1:1")])).bounds()
    assert (low.tolist(), high.tolist()) == ([-1], [1])
    assert bounds_of("a.b=1e-2:10:log10") == ("a.b", (0.01, 10.0, "log10"))


@pytest.mark.parametrize(
    ("names", "bounds", "culprit"),
    [
        (["block.velocity", ENTRY], {}, "block.velocity and its entry"),
        (["block.velocity[3]"], {}, r"no entry \[3\]"),
        (["block.position[0]"], {}, r"block.position\[0\] has no bounds"),
        (["block.position"], {"block.position[0]": (-1, 1)}, r"block.position\[1\] has no bounds"),
        (["block.position"], {"block.position[7]": (-1, 1)}, r"no entry \[7\]"),
        (["block.position"], {"block.position": ((-1, 0), (1, 1))}, "the bounds of block.position"),
        ([ENTRY], {"block.velocity": (-1, 1)}, "unknown with bounds 'block.velocity'"),
    ],
)
def test_what_is_refused(names: list[str], bounds: dict[str, tuple], culprit: str) -> None:
    with pytest.raises(UserError, match=culprit):
        Unknowns.of(make_scene(), names, bounds=bounds)


@pytest.mark.parametrize("text", ["block.velocity", "a=1", "a=1:2:3:4", "a=x:1", "a=(1,:2", "a=[1,None]:2"])
def test_bounds_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="is not NAME=LOW:HIGH"):
        bounds_of(text)
