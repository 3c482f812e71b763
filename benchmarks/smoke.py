"""Smoke in a plane: forward and backward passes and targets, divergence after projection, and drift of the mass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.table import Table, format_number
from benchmarks.timing import best_time
from risp_torch.scene.bridge import bridge_dtype
from ti_sim.rollout.adjoint import StoreAll
from ti_sim.smoke import SmokeInputs, SmokeModel, SmokeSettings, SmokeSolver

TITLE = "Smoke in a plane"

STEPS, DT = 40, 1 / 30
SIDES = (64, 128, 256)
TARGETS = {128: (0.4, 1.2)}  # s, forward, and forward and backward


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer sizes and repeats.
    """
    speed = Table(
        f"{STEPS} steps of one world, four vortices and bands of smoke",
        ("cells", "advection", "forward [s]", "forward and backward [s]", "target [s]", "largest divergence times the side [m/s]",
         "mass after / before - 1"),
    )  # fmt: skip
    for side in SIDES[:2] if quick else SIDES:
        for advection in ("semi_lagrangian", "maccormack", "cubic"):
            solver = SmokeSolver(SmokeModel((side, side), 1 / side), SmokeSettings(DT, 1, advection))
            inputs = vortices(side)
            forward_seconds = best_time(
                lambda solver=solver, inputs=inputs: solver.rollout(inputs, STEPS), repeats=3 if quick else 9
            )
            both_seconds = best_time(
                lambda solver=solver, inputs=inputs: forward_and_backward(solver, inputs), repeats=3 if quick else 9
            )
            final_rollout = solver.rollout(inputs, STEPS)
            x, y = (rows[0, -1].double() for rows in (final_rollout.velocity_x, final_rollout.velocity_y))
            max_divergence = float((x[1:] - x[:-1] + y[:, 1:] - y[:, :-1]).abs().max())
            mass = final_rollout.density[0].double().sum(dim=(1, 2))
            target = ", ".join(f"{one:g}" for one in TARGETS[side]) if side in TARGETS else "-"
            speed.add(
                f"{side} x {side}", advection, format_number(forward_seconds), format_number(both_seconds), target,
                f"{max_divergence:.1e}",
                f"{float(mass[-1] / mass[0] - 1):+.1e}",
            )  # fmt: skip
    speed.remarks.append(
        "Without sources, buoyancy and viscosity. Advection keeps values, and not their sum: the last column is its drift. "
        "Backward goes from every number at every frame to every input."
    )
    yield speed


def vortices(side: int) -> SmokeInputs:
    """Four vortices of .4 m/s in a box of one metre, and bands of smoke that do not touch the walls at the sides."""
    node_sines = np.sin(2 * np.pi * np.linspace(0, 1, side + 1))
    stream_function = 0.4 / (2 * np.pi) * node_sines[:, None] * node_sines[None]
    centres = (np.arange(side) + 0.5) / side
    bands = np.outer((centres > 0.2) & (centres < 0.8), (0.5 + 0.5 * np.cos(8 * np.pi * centres)) * (abs(centres - 0.5) < 0.3))
    velocities = side * np.diff(stream_function, axis=1), -side * np.diff(stream_function, axis=0)
    arrays = (bands, *velocities, np.zeros((STEPS, side, side)), 0.0, 0.0, 0.0)
    return SmokeInputs(*(torch.as_tensor(np.asarray(a, dtype=float)[None].copy(), dtype=bridge_dtype()) for a in arrays))


def forward_and_backward(solver: SmokeSolver, inputs: SmokeInputs) -> None:
    rollout = solver.rollout(inputs, STEPS, adjoint=StoreAll())
    solver.rollout_adjoint(rollout, *(torch.ones_like(rows) for rows in rollout.frame_arrays))
