"""Adjoints of pictures that are equal to the last bit each time, whatever order threads come in."""

from __future__ import annotations

import pytest
import torch

from risp_torch import load_scene
from tests.reference.devices import needs_cpu
from ti_sim.base.parallel import repeatable_sums, runs_serially, sums_serially

pytestmark = [pytest.mark.threads, needs_cpu("the atomic sums of a GPU have no fixed order")]


def test_adjoints_of_a_picture_are_repeatable() -> None:
    """Many small faces in many tiles, of which several add to each vertex, and a shadow and a ground below."""
    scene = load_scene("gear", frames=1, size=96)
    placement = torch.as_tensor(scene.deformables[0].rest + (0.0, 0.0, 1.72), dtype=torch.float32)[None, None]
    weights = torch.rand((1, 1, 96, 96, 3), generator=torch.Generator().manual_seed(0))
    with repeatable_sums():
        results = []
        for _ in range(4):
            leaf = placement.clone().requires_grad_()
            (scene.render(leaf) * weights).sum().backward()
            results.append(leaf.grad)
    assert results[0].abs().max() > 0 and all(torch.equal(results[0], other) for other in results[1:])


def test_sums_are_serial_within_the_block_only() -> None:
    many = 10**9
    assert not sums_serially() and not runs_serially(many)
    with repeatable_sums():
        with repeatable_sums():
            assert sums_serially() and runs_serially(many)
        assert sums_serially()
    assert not sums_serially()
