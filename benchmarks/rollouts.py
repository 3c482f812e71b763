"""Rollouts of a solver as benchmark cases, and tables that all solvers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.peaks import Peaks
from benchmarks.table import Table, format_number
from benchmarks.timing import best_times
from ti_sim.rollout.adjoint import Adjoint, StoreAll

TO_MILLIONS = 1e-6
PASS_LABELS = {"no_gradient": "forward, no gradient", "taped": "forward, taped", "backward": "backward"}

ROOFLINE_HEADER = (
    "pass", "flops a step", "Gflop/s", "of the scalar peak", "a step in dependent multiply-adds", "state bytes a step", "GB/s",
    "of the copy rate",
)  # fmt: skip

# Frame arrays that a rollout may have, in the order of the arguments of the solver's adjoint.
_FRAME_ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd", "particle_q", "particle_qd")


@dataclass(frozen=True)
class Case:
    """A solver with its inputs and a number of frames.

    Attributes:
        solver: one model and its time stepping.
        inputs: torch tensors.
        frames: frame intervals of ``substeps`` steps each.
        system_count: number of bodies or trees of links in all worlds; the steps of each are counted.
    """

    solver: Any
    inputs: Any
    frames: int
    system_count: int = 1

    @property
    def steps(self) -> int:
        """Steps of one rollout, each part's counted."""
        return self.frames * self.solver.settings.substeps * self.system_count


def unit_frame_adjoints(rollout: Any) -> tuple[torch.Tensor, ...]:
    """Adjoints of 1 for every number at every frame of a rollout, as a loss on a whole film has them."""
    return tuple(torch.ones_like(getattr(rollout, name)) for name in _FRAME_ARRAYS if hasattr(rollout, name))


def time_rollouts(cases: dict[str, Case], *, repeats: int, adjoint: Adjoint | None = None) -> dict[str, dict[str, float]]:
    """Times of each case's "taped" and "no_gradient" (without gradient) rollout and of its "backward" pass, interleaved.

    The backward pass gets an adjoint at every frame, as from a loss on a whole film.
    """
    functions = {}
    for name, case in cases.items():
        rollout = case.solver.rollout(case.inputs, case.frames, adjoint=adjoint or StoreAll())
        if (rollout.diverged_step >= 0).any():
            raise RuntimeError(f"{name} diverged: this measures nothing")
        bars = unit_frame_adjoints(rollout)
        functions[name, "taped"] = lambda case=case: case.solver.rollout(case.inputs, case.frames, adjoint=adjoint or StoreAll())
        functions[name, "no_gradient"] = lambda case=case: case.solver.rollout(case.inputs, case.frames)
        functions[name, "backward"] = lambda case=case, rollout=rollout, bars=bars: case.solver.rollout_adjoint(rollout, *bars)
    best_seconds = best_times(functions, repeats=repeats)
    return {name: {kind: best_seconds[name, kind] for kind in ("taped", "no_gradient", "backward")} for name in cases}


def scaling_table(title: str, case_header: str, cases: dict[str, Case], *, repeats: int) -> tuple[Table, dict[str, float]]:
    """Rates of cases beside the first one's; also the rates of the last case [steps/s].

    Args:
        title: of the table.
        case_header: header of the column of cases.
        cases: by the cell of their row.
        repeats: timed calls of each.
    """
    best_seconds = time_rollouts(cases, repeats=repeats)
    result = Table(
        title,
        (case_header, "steps", "forward, taped", "ratio to 1", "forward, no gradient", "ratio to 1", "backward", "ratio to 1"),
    )
    first, rates = None, {}
    for name, case in cases.items():
        rates = {kind: case.steps / seconds for kind, seconds in best_seconds[name].items()}
        first = first or rates
        cells = [
            cell
            for kind, rate in rates.items()
            for cell in (format_number(rate * TO_MILLIONS), format_number(rate / first[kind], 2))
        ]
        result.add(name, f"{case.frames * case.solver.settings.substeps:,}", *cells)
    return result, rates


def add_roofline_row(
    result: Table, label: str, rate: float, flops: int, state_bytes: int, peak: Peaks, *, one_chain: bool = False, cores: int = 1
) -> None:
    """Append a row under ``ROOFLINE_HEADER``.

    Args:
        result: the table.
        label: names the pass.
        rate: steps/s.
        flops, state_bytes: of a step.
        peak: of the machine.
        one_chain: whether the steps are sequential, so that their time in dependent multiply-adds is meaningful.
        cores: that the steps ran on.
    """
    result.add(
        label, f"{flops:,}", format_number(rate * flops * 1e-9), f"{100 * rate * flops / (peak.flops_per_second * cores):.0f} %",
        f"{1 / rate / peak.multiply_add_latency:,.0f}" if one_chain else "",
        f"{state_bytes:,}", format_number(rate * state_bytes * 1e-9),
        f"{100 * rate * state_bytes / peak.copy_bytes_per_second:.1f} %",
    )  # fmt: skip
