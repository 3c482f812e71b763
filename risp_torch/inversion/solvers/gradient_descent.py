"""Gradient descent on the loss of a batch of starts, with a growing horizon and early stopping of starts; killed runs can be
resumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.search_settings import OptimiseSettings
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

CHECKPOINT_INTERVAL = 10  # iterations of a descent


@dataclass
class History:
    """History of a search.

    Attributes:
        losses: per iteration [S]; NaN where a world diverged or a start was stopped.
        values: per iteration [S, K], physical units; NaN after a start was stopped.
        stopped: indices of the starts that were stopped early.
    """

    losses: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def append(self, losses: np.ndarray, values: np.ndarray, like: torch.Tensor) -> None:
        """Append an iteration: losses [S] and values [S, K] as tensors like another one, NaN for stopped starts."""
        for column, rows in ((self.losses, losses), (self.values, values)):
            row = torch.tensor(rows, dtype=like.dtype, device=like.device)
            row[self.stopped] = torch.nan
            column.append(row)


@dataclass(frozen=True)
class HistoryCheckpoint:
    """The checkpoint of a search whose history is saved and restored with it.

    Attributes:
        checkpoint: of the search; None saves nothing.
        history: of the search, restored in place.
        device: of the history's tensors.
    """

    checkpoint: SearchCheckpoint | None
    history: History
    device: torch.device

    def load(self) -> Any | None:
        """The last state of the search, after its history was restored; None if there is none."""
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if saved is None:
            return None
        history = saved["history"]
        self.history.losses[:] = [row.to(self.device) for row in history["losses"]]
        self.history.values[:] = [row.to(self.device) for row in history["values"]]
        self.history.stopped = [int(start) for start in history["stopped"]]
        return saved["search"]

    def save(self, state: Any) -> None:
        """Save a state of the search."""
        if self.checkpoint is not None:
            history = {"losses": self.history.losses, "values": self.history.values, "stopped": self.history.stopped}
            self.checkpoint.save({"search": state, "history": history})


def descend(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, z: torch.Tensor, settings: OptimiseSettings,
    *, checkpoint: SearchCheckpoint | None = None, history: History | None = None, progress: bool = True,
) -> tuple[torch.Tensor, History]:  # fmt: skip
    """Descend from the starts z [S, K].

    Args:
        scene: the scene.
        comparison: loss and target.
        unknowns: the map from z to parameter values.
        z: unbounded variables of the starts.
        settings: optimiser, iterations, horizon, and how rollouts keep states.
        checkpoint: saves the search every few iterations, and resumes it.
        history: history of previous searches, to which the descent is appended.
        progress: whether to show a progress bar.

    Returns:
        Final z [S, K] and the history.
    """
    history = history or History()
    history_checkpoint = HistoryCheckpoint(checkpoint, history, z.device)
    if settings.optimizer == "lbfgs":
        return _descend_lbfgs(scene, comparison, unknowns, z, settings, history_checkpoint, progress=progress)
    z = z.clone().requires_grad_()
    if settings.optimizer == "adam":
        optimizer = torch.optim.Adam([z], lr=settings.learning_rate, betas=(0.8, 0.95))
    else:
        optimizer = torch.optim.RMSprop([z], lr=settings.learning_rate, alpha=settings.smoothing, momentum=0.5)
    first_iteration = 0
    if (state := history_checkpoint.load()) is not None:
        first_iteration = state["iteration"]
        optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            z.copy_(state["z"])
    active = _other_starts(len(z), history.stopped)
    frames = comparison.last
    bar = tqdm(total=settings.iterations, initial=first_iteration, desc="inverting", disable=not progress, mininterval=0.5)
    for iteration in range(first_iteration, settings.iterations):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate(iteration)
        if (count := settings.kept(iteration)) is not None:
            active = _best_starts(history.losses[-1], active, count)
            history.stopped = _other_starts(len(z), active)
        optimizer.zero_grad()
        previous = z.detach().clone()
        losses = _losses(scene, comparison, unknowns, z[active], settings.horizon(iteration, frames), settings)
        torch.where(torch.isfinite(losses), losses, torch.zeros_like(losses)).sum().backward()
        losses = _rows_of_all(losses.detach(), active, len(z))
        history.losses.append(losses)
        history.values.append(_rows_of_all(unknowns.physical_vector(previous[active]), active, len(z)))
        z.grad[~torch.isfinite(losses)] = 0  # a start that diverged does not move and has a NaN loss
        optimizer.step()
        with torch.no_grad():
            z[history.stopped] = previous[history.stopped]  # despite the momentum of the optimiser
        bar.set_postfix(loss=f"{_smallest(losses):.3e}")
        bar.update()
        if (iteration + 1) % CHECKPOINT_INTERVAL == 0:
            history_checkpoint.save({"z": z, "optimizer": optimizer.state_dict(), "iteration": iteration + 1})
    bar.close()
    return z.detach(), history


def _losses(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, z: torch.Tensor, frames: int, settings: OptimiseSettings
) -> torch.Tensor:
    """Loss of every start [S], NaN where its world diverged."""
    film_loss = comparison.losses(scene, unknowns.physical(z), worlds=len(z), horizon=frames, adjoint=settings.adjoint)
    return unknowns.penalised(film_loss, z, comparison.observation_count_of(comparison.frames_up_to(frames)))


def _best_starts(losses: torch.Tensor, active: list[int], count: int) -> list[int]:
    """The ``count`` active starts with the lowest losses [S], in order; starts without a loss are last."""
    loss_values = losses.nan_to_num(nan=math.inf).tolist()
    return sorted(sorted(active, key=lambda start: loss_values[start])[:count])


def _other_starts(count: int, starts: list[int]) -> list[int]:
    """Which of ``count`` starts are not among these."""
    return [start for start in range(count) if start not in starts]


def _rows_of_all(rows: torch.Tensor, active: list[int], count: int) -> torch.Tensor:
    """Rows of all starts [S, ...] from those of the active ones, NaN for the others."""
    all_rows = rows.new_full((count, *rows.shape[1:]), torch.nan)
    all_rows[active] = rows
    return all_rows


def _descend_lbfgs(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, starts: torch.Tensor, settings: OptimiseSettings,
    history_checkpoint: HistoryCheckpoint, *, progress: bool,
) -> tuple[torch.Tensor, History]:  # fmt: skip
    """Each start separately, because each line search has its own step length; saved after every iteration."""
    frames = comparison.last
    state = history_checkpoint.load() or {"ends": [], "losses": [], "values": [], "running": None}
    minima = [minimum.to(starts) for minimum in state["ends"]]
    losses, values = ([[row.to(starts.device) for row in rows] for rows in state[name]] for name in ("losses", "values"))
    done = sum(len(rows) for rows in losses)
    bar = tqdm(total=settings.iterations * len(starts), initial=done, desc="inverting", disable=not progress, mininterval=0.5)
    for start in starts[len(minima) :]:
        z = start[None].clone().requires_grad_()
        optimizer = torch.optim.LBFGS([z], lr=1.0, max_iter=1, max_eval=8, history_size=10, line_search_fn="strong_wolfe")
        if state["running"] is None:
            losses.append([])
            values.append([])
        else:
            optimizer.load_state_dict(state["running"]["optimizer"])
            with torch.no_grad():
                z.copy_(state["running"]["z"])
            state["running"] = None
        for iteration in range(len(losses[-1]), settings.iterations):
            horizon = settings.horizon(iteration, frames)
            values[-1].append(unknowns.physical_vector(z).detach())

            def closure(z: torch.Tensor = z, optimizer: torch.optim.LBFGS = optimizer, horizon: int = horizon) -> torch.Tensor:
                optimizer.zero_grad()
                # A mean square is tiny; LBFGS stops at absolute thresholds, so it gets a larger number.
                loss = 1e3 * _losses(scene, comparison, unknowns, z, horizon, settings).sum()
                loss.backward()
                return loss

            try:
                loss = optimizer.step(closure).detach() / 1e3
            except DivergenceError:  # this start ends here, marked by its NaN losses; the others continue
                loss = z.new_tensor(torch.nan)
            losses[-1].append(loss.reshape(1))
            running = {"z": z, "optimizer": optimizer.state_dict()}
            history_checkpoint.save({"ends": minima, "losses": losses, "values": values, "running": running})
            bar.update()
        minima.append(z.detach())
    bar.close()
    history = history_checkpoint.history
    history.losses.extend(torch.cat(column) for column in zip(*losses, strict=True))
    history.values.extend(torch.cat(column) for column in zip(*values, strict=True))
    return torch.cat(minima), history


def _smallest(losses: torch.Tensor) -> float:
    finite = losses.detach()[torch.isfinite(losses.detach())]
    return float(finite.min()) if len(finite) else float("nan")
