"""Gradient descent on the weights of a policy, or random policies as a baseline; killed runs can be resumed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import Module
from tqdm import tqdm

from risp_torch.control.objectives import GoalLoss
from risp_torch.control.rollouts import ControlledRollout, Drive
from risp_torch.control.task import ControlTask, Objective
from risp_torch.files.run_folder import RunFolder
from risp_torch.files.search_checkpoint import SearchCheckpoint
from ti_sim.base.parallel import repeatable_sums
from ti_sim.base.rules import FromZero, Seed, checked


@dataclass
class History:
    """History of a search; entry i belongs to the policy after i steps.

    Attributes:
        losses: of the objective.
        errors: of the last frame, relative to the task's size; NaN where the goal's state is not known.
        seconds: that each entry took.
    """

    losses: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def best(self, objective: Objective) -> int:
        """The best entry: lowest loss, or for random policies least error if errors are known."""
        column = np.array(self.errors if objective == "random" and np.isfinite(self.errors).any() else self.losses)
        return int(np.nanargmin(column))

    def curve(self, objective: Objective) -> np.ndarray:
        """Errors [I + 1] for plots: for random policies the least so far."""
        errors = np.array(self.errors)
        return np.fmin.accumulate(errors) if objective == "random" else errors


@dataclass(frozen=True)
class Search:
    """Result of a search.

    Attributes:
        policy: with the weights of the entry that is kept.
        best: number of this entry.
        history: of the whole search.
        rollout: its motion, without gradient.
    """

    policy: Module
    best: int
    history: History
    rollout: ControlledRollout


@checked
def search(
    make_policy: Callable[[int], Module],
    drive: Drive,
    aim: GoalLoss,
    *,
    objective: Objective,
    task: ControlTask,
    iterations: FromZero,
    seed: Seed,
    folder: RunFolder | None = None,
    progress: bool = True,
) -> Search:
    """Search for a policy that reaches a goal.

    Args:
        make_policy: seed -> a new policy with random weights.
        drive: a policy -> its motion.
        aim: the goal.
        objective: the objective.
        task: of the scene: learning rate and penalty.
        iterations: gradient steps, or random policies after the first.
        seed: of the first policy, and of all random ones.
        folder: where the search is saved after each iteration, and from which it is resumed.
        progress: whether to show a progress bar.

    Returns:
        The policy with the lowest loss, or for random policies with the least error.

    Raises:
        DivergenceError: the motion of a policy diverged.
    """
    random = objective == "random"
    policy, history = make_policy(seed), History()
    best = _weights(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1.0 if random else task.rate(objective))
    first, best = _resume(folder, policy, optimizer, history, best)
    bar = tqdm(
        total=iterations + 1, initial=first, desc=f"control ({objective})", disable=not progress, mininterval=0.5, delay=2.0
    )
    for iteration in range(first, iterations + 1):
        began = time.perf_counter()
        if random:
            policy = make_policy(_random_seed(seed, iteration))
        stepping = not random and iteration < iterations
        optimizer.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(stepping):
            rollout = drive(policy)
            loss = aim.loss(rollout, objective)
        history.losses.append(float(loss.detach()))
        history.errors.append(aim.error(rollout))
        if history.best(objective) == iteration:
            best = _weights(policy)
        if stepping:
            with repeatable_sums():
                loss.backward()
            optimizer.step()
        history.seconds.append(time.perf_counter() - began)
        bar.set_postfix(loss=f"{history.losses[-1]:.3e}", error=f"{100 * history.errors[-1]:.1f} %")
        bar.update()
        if folder is not None:
            _save(folder, policy, optimizer, history, best)
    bar.close()
    with torch.no_grad():
        policy.load_state_dict(best)
        return Search(policy, history.best(objective), history, drive(policy))


def _random_seed(seed: int, iteration: int) -> int:
    """Seed of a random policy; that of the first is the run's own, so all objectives start equally."""
    if not iteration:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {iteration}".encode()).digest()[:6], "little")


def _weights(policy: Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in policy.state_dict().items()}


def _save(
    folder: RunFolder, policy: Module, optimizer: torch.optim.Optimizer, history: History, best: dict[str, torch.Tensor]
) -> None:
    state = {"policy": policy.state_dict(), "best": best, "optimizer": optimizer.state_dict(), "history": vars(history)}
    SearchCheckpoint(folder, "search").save(state)


def _resume(
    folder: RunFolder | None, policy: Module, optimizer: torch.optim.Optimizer, history: History, best: dict[str, torch.Tensor]
) -> tuple[int, dict[str, torch.Tensor]]:
    """Load what ``_save`` wrote: the next iteration, and the best weights so far."""
    saved = SearchCheckpoint(folder, "search").load()
    if saved is None:
        return 0, best
    policy.load_state_dict(saved["policy"])
    optimizer.load_state_dict(saved["optimizer"])
    for name, column in saved["history"].items():
        getattr(history, name).extend(column)
    return len(history.losses), saved["best"]
