"""Rollouts of a solver as cases to time, and the tables that any solver's cases fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.peaks import Peaks
from benchmarks.table import Table, number
from benchmarks.timing import best_times
from ti_sim.rollout.adjoint import Adjoint, StoreAll

MEGA = 1e-6
KINDS = {"free": "forward, no gradient", "taped": "forward, taped", "backward": "backward"}

BOUND_HEADER = (
    "pass", "flops a step", "Gflop/s", "of the scalar peak", "a step in dependent multiply-adds", "state bytes a step", "GB/s",
    "of the copy rate",
)  # fmt: skip

# What a rollout gives at its frames, where it has it, in the order that the solver's adjoint takes it.
_FRAMES = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")


@dataclass(frozen=True)
class Case:
    """A solver with its inputs and a number of frames.

    Attributes:
        solver: one model and its time stepping.
        inputs: torch tensors.
        frames: frame intervals of ``substeps`` steps each.
        parts: what is counted in a step, all worlds together: bodies, or trees of links.
    """

    solver: Any
    inputs: Any
    frames: int
    parts: int = 1

    @property
    def steps(self) -> int:
        """Steps of one rollout, each part's counted."""
        return self.frames * self.solver.settings.substeps * self.parts


def frame_bars(kept: Any) -> tuple[torch.Tensor, ...]:
    """Adjoints of one for every number at every frame of a rollout, as a loss on a film gives some."""
    return tuple(torch.ones_like(getattr(kept, name)) for name in _FRAMES if hasattr(kept, name))


def timed(cases: dict[str, Case], *, repeats: int, adjoint: Adjoint | None = None) -> dict[str, dict[str, float]]:
    """Times of each case's "taped" and "free" (without gradient) rollout and of its "backward" pass, all in turns.

    The backward pass gets an adjoint at every frame, as a loss on a film gives it.
    """
    functions = {}
    for name, case in cases.items():
        kept = case.solver.rollout(case.inputs, case.frames, adjoint=adjoint or StoreAll())
        if (kept.diverged_step >= 0).any():
            raise RuntimeError(f"{name} diverged: this measures nothing")
        bars = frame_bars(kept)
        functions[name, "taped"] = lambda case=case: case.solver.rollout(case.inputs, case.frames, adjoint=adjoint or StoreAll())
        functions[name, "free"] = lambda case=case: case.solver.rollout(case.inputs, case.frames)
        functions[name, "backward"] = lambda case=case, kept=kept, bars=bars: case.solver.rollout_adjoint(kept, *bars)
    least = best_times(functions, repeats=repeats)
    return {name: {kind: least[name, kind] for kind in ("taped", "free", "backward")} for name in cases}


def scaling_table(title: str, what: str, cases: dict[str, Case], *, repeats: int) -> tuple[Table, dict[str, float]]:
    """Rates of cases beside the first one's; also the rates of the last case [steps/s].

    Args:
        title: of the table.
        what: names the cases.
        cases: by the cell of their row.
        repeats: timed calls of each.
    """
    least = timed(cases, repeats=repeats)
    result = Table(
        title,
        (what, "steps", "forward, taped", "ratio to 1", "forward, no gradient", "ratio to 1", "backward", "ratio to 1"),
    )
    first, rates = None, {}
    for name, case in cases.items():
        rates = {kind: case.steps / seconds for kind, seconds in least[name].items()}
        first = first or rates
        cells = [cell for kind, rate in rates.items() for cell in (number(rate * MEGA), number(rate / first[kind], 2))]
        result.add(name, f"{case.frames * case.solver.settings.substeps:,}", *cells)
    return result, rates


def add_bound(
    result: Table, label: str, rate: float, flops: int, state_bytes: int, peak: Peaks, *, one_chain: bool = False, cores: int = 1
) -> None:
    """Append a row under ``BOUND_HEADER``.

    Args:
        result: the table.
        label: names the pass.
        rate: steps/s.
        flops, state_bytes: of a step.
        peak: what the machine can do.
        one_chain: the steps follow one another, so that the time of one in dependent multiply-adds tells something.
        cores: that the steps ran on.
    """
    result.add(
        label, f"{flops:,}", number(rate * flops * 1e-9), f"{100 * rate * flops / (peak.flops * cores):.0f} %",
        f"{1 / rate / peak.dependent:,.0f}" if one_chain else "",
        f"{state_bytes:,}", number(rate * state_bytes * 1e-9), f"{100 * rate * state_bytes / peak.copy:.1f} %",
    )  # fmt: skip
