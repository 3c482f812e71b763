"""What all solvers share: declared arrays, and how the adjoint runs over what a rollout kept."""

from dataclasses import dataclass, fields

import numpy as np
import pytest

from ti_sim.articulated.model import ArticulatedInputs
from ti_sim.base.errors import UserError
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.rigid.model import RigidInputs
from ti_sim.rollout.adjoint import Checkpoint, StoreAll, segment_length, storage_interval
from ti_sim.rollout.arrays import Array, Arrays, array
from ti_sim.rollout.divergence import mark_diverged_frames, mark_diverged_worlds


@dataclass(frozen=True)
class Inner(Arrays):
    """Two arrays, one of which may be left out."""

    mass: Array = array("B N", "kg")
    drag: Array | None = array("B N 2", "drag [N s/m]", default=None)


@dataclass(frozen=True)
class Outer(Arrays):
    """Arrays beside arrays."""

    first: Inner
    last: Array = array("B 3", "m/s2")


def outer() -> Outer:
    return Outer(Inner(np.ones((2, 3))), np.full((2, 3), 2.0))


def test_arrays_by_name_and_exchanged_for_others() -> None:
    assert list(outer().named_arrays()) == ["first.mass", "last"]
    other = outer().with_arrays([np.zeros((2, 3)), np.full((2, 3), 5.0)])
    assert other.first.drag is None and (other.first.mass == 0).all() and (other.last == 5).all()
    assert all((each == 0).all() for each in outer().zeros().arrays())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Inner(np.ones((2, 4))), r"mass has shape \(2, 4\), and \(2, 3\) is needed"),
        (Inner(np.ones((2, 3)), np.ones((2, 3, 1))), r"drag has shape \(2, 3, 1\), and \(2, 3, 2\) is needed"),
        (Inner(np.ones((3, 2)).T), "mass is not contiguous"),
        (Inner(np.ones((2, 3), dtype=np.float32)), "mass is float32"),
    ],
)
def test_arrays_that_do_not_fit(given: Inner, message: str) -> None:
    with pytest.raises(UserError, match=message):
        given.check_shapes({"B": 2, "N": 3})


@pytest.mark.parametrize("kind", [RigidInputs, ArticulatedInputs, DeformableInputs])
def test_every_input_says_its_shape_and_its_meaning(kind: type) -> None:
    for each in fields(kind):
        assert each.metadata["shape"][0] == "B" and len(each.metadata["meaning"]) > 1, each.name


@pytest.mark.parametrize(
    ("adjoint", "runs"),
    [
        (StoreAll(), [("back", 0, 10)]),
        (Checkpoint(every=1), [("back", 0, 10)]),
        (Checkpoint(every=4), [(kind, first, min(4, 10 - first)) for first in (8, 4, 0) for kind in ("again", "back")]),
        (Checkpoint(every=99), [("again", 0, 10), ("back", 0, 10)]),
    ],
)
def test_the_adjoint_runs_over_segments_from_the_last(adjoint: StoreAll | Checkpoint, runs: list[tuple[str, int, int]]) -> None:
    seen: list[tuple[str, int, int]] = []
    adjoint.run_backwards(
        10,
        recompute=lambda first, count: seen.append(("again", first, count)),
        differentiate=lambda first, count: seen.append(("back", first, count)),
    )
    assert seen == runs
    assert segment_length(adjoint, 10) == max(count for _, _, count in runs)
    assert storage_interval(adjoint, 10) == (1 if isinstance(adjoint, StoreAll) else adjoint.every)
    assert storage_interval(None, 10) == 11


def test_frames_and_adjoints_of_worlds_that_diverge_are_nan() -> None:
    frames, bodies = np.zeros((2, 4, 3)), np.zeros((2, 4, 2, 7))
    mark_diverged_frames([frames], np.array([-1, 11]), 10)  # step 11 lies between frames 1 and 2
    mark_diverged_frames([bodies], np.array([[-1, 10], [-1, -1]]), 10)
    assert np.isnan(frames[1, 2:]).all() and np.isfinite(frames[1, :2]).all() and np.isfinite(frames[0]).all()
    assert np.isnan(bodies[0, 1:, 1]).all() and np.isfinite(bodies[0, :, 0]).all() and np.isfinite(bodies[1]).all()
    adjoint = np.zeros((2, 3))
    mark_diverged_worlds(iter([adjoint]), np.array([False, True]))
    assert np.isnan(adjoint[1]).all() and np.isfinite(adjoint[0]).all()
