"""Sizes of all tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from risp_torch.programs import unknown_name_error
from ti_sim import Count, Seed, checked


@checked
@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes.

    Attributes:
        name: of the preset.
        size: side of the square pictures of inversions [pixels].
        small: side of the pictures that networks read, and of the black box's [pixels].
        train: films that networks are trained with.
        test: films of tables 1 and 2 that are held out.
        epochs: of these networks.
        updates: gradient steps of the black box; ``samples`` films each (table 5 of the paper: 125 and 5).
        samples: films of one such step.
        objects: of each kind, of tables 3 and 4.
        points: of a loss landscape along one number.
        tetrahedra: of the largest body whose rates are measured.
        repeats: timed calls.
        seed: seed of all draws.
    """

    name: str
    size: Count = 128
    small: Count = 64
    train: Count = 800
    test: Count = 42
    epochs: Count = 100
    updates: Count = 125
    samples: Count = 5
    objects: Count = 10
    points: Count = 61
    tetrahedra: Count = 10_000
    repeats: Count = 9
    seed: Seed = 0

    def to_json(self) -> Mapping[str, Any]:
        """As JSON values."""
        return asdict(self)


PRESETS = {
    # Hours on two CPU cores.
    "quick": Preset(name="quick"),
    # The paper's sizes: 256 pixels, 200 test films, 100 and 90 objects.
    "paper": Preset(name="paper", size=256, test=200, objects=30, points=500),
    # A minute, to test that everything runs; its numbers mean nothing.
    "tiny": Preset(
        name="tiny", size=32, small=32, train=3, test=1, epochs=1, updates=2, samples=2, objects=1, points=3,
        tetrahedra=200, repeats=1,
    ),
}  # fmt: skip


def preset_of(name: str) -> Preset:
    """A preset by name (UserError: there is none)."""
    if name not in PRESETS:
        raise unknown_name_error("preset", name, list(PRESETS))
    return PRESETS[name]


