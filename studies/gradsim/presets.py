"""Sizes of all tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from risp_torch.programs import unknown_name_error
from ti_sim import Count, Seed, checked

INSIDE = 1.96  # standard deviations: 95 % of a normal distribution
CRF = 18.0  # quality of the H.264 films


@checked
@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes.

    Attributes:
        name: of the preset.
        size: side of the square pictures of inversions [pixels].
        large: side of the pictures of a second row of compressed tosses, as large as the paper's [pixels].
        small: side of the pictures that networks read, and of the black box's [pixels].
        train: films that networks are trained with.
        test: films of tables 1 and 2 that are held out.
        epochs: of these networks.
        updates: gradient steps of the black box; ``samples`` films each (table 5 of the paper: 125 and 5).
        samples: films of one such step.
        frames: frame intervals of the tosses.
        objects: tosses of each look of figure 7.
        wrong: objects of each kind that are filmed for each row of table 4 (left).
        bodies: deformable bodies of each kind with few unknowns, of table 3.
        fields: deformable bodies whose every particle has unknowns.
        side: side of the pictures of deformable bodies [pixels].
        rounds: of the searches of table 3.
        points: of a loss landscape along one number.
        tetrahedra: of the largest body whose rates are measured.
        repeats: timed calls.
        seed: seed of all draws.
        shapes: bodies of the study of shapes.
        divisions: of the icosahedron that shapes start from.
        shape_steps: gradient steps of a shape.
        predictions: tosses of the study of predictions.
        control_runs: runs of each scene of figure 5, at most.
        control_steps: of figure 5; None for those of each scene.
        control_frames: frame intervals of the scenes of figures 5 and 6; None for those of each scene.
        goals: goals of each scene of figure 6, at most.
        goal_steps: gradient steps of figure 6.
    """

    name: str
    size: Count = 96
    large: Count = 256
    small: Count = 64
    train: Count = 800
    test: Count = 28
    epochs: Count = 100
    updates: Count = 125
    samples: Count = 5
    frames: Count = 60
    objects: Count = 10
    wrong: Count = 2
    bodies: Count = 3
    fields: Count = 1
    side: Count = 96
    rounds: Count = 30
    points: Count = 61
    tetrahedra: Count = 10_000
    repeats: Count = 9
    seed: Seed = 0
    shapes: Count = 3
    divisions: Count = 3
    shape_steps: Count = 200
    predictions: Count = 6
    control_runs: Count = 1
    control_steps: Count | None = None
    control_frames: Count | None = None
    goals: Count = 6
    goal_steps: Count = 20

    def to_json(self) -> Mapping[str, Any]:
        """As JSON values."""
        return asdict(self)


PRESETS = {
    # Hours on two CPU cores.
    "quick": Preset(name="quick"),
    # The paper's sizes: 256 pixels, 200 test films, 100 and 90 objects.
    "paper": Preset(
        name="paper", size=256, test=200, objects=30, wrong=30, points=500, shapes=5, shape_steps=500, predictions=28,
        control_runs=6, bodies=20, fields=10, side=128,
    ),
    # A minute, to test that everything runs; its numbers mean nothing.
    "tiny": Preset(
        name="tiny", size=32, large=48, small=32, train=3, test=1, epochs=1, updates=2, samples=2, frames=24, objects=1,
        wrong=1, points=3, shapes=1, divisions=1, shape_steps=2, predictions=1, control_steps=1, control_frames=3,
        goals=1, goal_steps=1, bodies=1, side=32, rounds=16, tetrahedra=200, repeats=1,
    ),
}  # fmt: skip


def preset_of(name: str) -> Preset:
    """A preset by name (UserError: there is none)."""
    if name not in PRESETS:
        raise unknown_name_error("preset", name, list(PRESETS))
    return PRESETS[name]


