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
from risp_torch.control.rollouts import ControlledRollout, PolicySimulator
from risp_torch.control.task import ControlTask, Objective
from risp_torch.files.run_folder import RunFolder
from risp_torch.files.search_checkpoint import SearchCheckpoint
from ti_sim.base.parallel import repeatable_sums
from ti_sim.base.rules import FromZero, Seed, checked


@dataclass
class History:
    """History of a search; entry i belongs to the policy after i steps.

    Attributes:
        losses: losses of the objective.
        errors: error measures of the last frame, relative to the task's size; NaN where the goal's state is unknown.
        seconds: duration of each iteration [s].
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
class PolicySearchResult:
    """Result of a search.

    Attributes:
        policy: policy with the weights of the best entry.
        best: index of the best entry.
        history: history of the whole search.
        rollout: motion under the policy, without gradient.
    """

    policy: Module
    best: int
    history: History
    rollout: ControlledRollout


@checked
def search(
    make_policy: Callable[[int], Module],
    simulate_policy: PolicySimulator,
    goal_loss: GoalLoss,
    *,
    objective: Objective,
    task: ControlTask,
    iterations: FromZero,
    seed: Seed,
    folder: RunFolder | None = None,
    progress: bool = True,
) -> PolicySearchResult:
    """Search for a policy that reaches a goal.

    Args:
        make_policy: seed -> a new policy with random weights.
        simulate_policy: policy -> motion under the policy.
        goal_loss: loss and error relative to the goal.
        objective: the objective.
        task: control task of the scene, with the learning rate and the penalty.
        iterations: gradient steps, or random policies after the first.
        seed: seed of the first policy, and of all random ones.
        folder: where the search is saved after each iteration, and from which it is resumed.
        progress: whether to show a progress bar.

    Returns:
        The policy with the lowest loss, or for random policies with the least error.

    Raises:
        DivergenceError: the motion of a policy diverged.
    """
    is_random = objective == "random"
    policy, history = make_policy(seed), History()
    best_weights = _weights(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1.0 if is_random else task.learning_rate_for(objective))
    first_iteration, best_weights = _resume(folder, policy, optimizer, history, best_weights)
    progress_bar = tqdm(
        total=iterations + 1,
        initial=first_iteration,
        desc=f"control ({objective})",
        disable=not progress,
        mininterval=0.5,
        delay=2.0,
    )
    for iteration in range(first_iteration, iterations + 1):
        start_time = time.perf_counter()
        if is_random:
            policy = make_policy(_random_seed(seed, iteration))
        takes_step = not is_random and iteration < iterations
        optimizer.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(takes_step):
            rollout = simulate_policy(policy)
            loss = goal_loss.loss(rollout, objective)
        history.losses.append(float(loss.detach()))
        history.errors.append(goal_loss.error(rollout))
        if history.best(objective) == iteration:
            best_weights = _weights(policy)
        if takes_step:
            with repeatable_sums():
                loss.backward()
            optimizer.step()
        history.seconds.append(time.perf_counter() - start_time)
        progress_bar.set_postfix(loss=f"{history.losses[-1]:.3e}", error=f"{100 * history.errors[-1]:.1f} %")
        progress_bar.update()
        if folder is not None:
            _save(folder, policy, optimizer, history, best_weights)
    progress_bar.close()
    with torch.no_grad():
        policy.load_state_dict(best_weights)
        return PolicySearchResult(policy, history.best(objective), history, simulate_policy(policy))


def _random_seed(seed: int, iteration: int) -> int:
    """Seed of a random policy; that of the first is the run's own, so all objectives start equally."""
    if not iteration:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {iteration}".encode()).digest()[:6], "little")


def _weights(policy: Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in policy.state_dict().items()}


def _save(
    folder: RunFolder, policy: Module, optimizer: torch.optim.Optimizer, history: History, best_weights: dict[str, torch.Tensor]
) -> None:
    checkpoint = {
        "policy": policy.state_dict(),
        "best": best_weights,
        "optimizer": optimizer.state_dict(),
        "history": vars(history),
    }
    SearchCheckpoint(folder, "search").save(checkpoint)


def _resume(
    folder: RunFolder | None,
    policy: Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    best_weights: dict[str, torch.Tensor],
) -> tuple[int, dict[str, torch.Tensor]]:
    """Load the checkpoint of ``_save``; return the next iteration, and the best weights so far."""
    saved = SearchCheckpoint(folder, "search").load()
    if saved is None:
        return 0, best_weights
    policy.load_state_dict(saved["policy"])
    optimizer.load_state_dict(saved["optimizer"])
    for name, values in saved["history"].items():
        getattr(history, name).extend(values)
    return len(history.losses), saved["best"]
