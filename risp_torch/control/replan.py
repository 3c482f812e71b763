"""Model-predictive control: every few frames the rest of the plan is optimised again from the current state of the real scene."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import Module
from tqdm import tqdm

from risp_torch.control.objectives import GoalLoss
from risp_torch.control.rollouts import ControlledRollout, at_start, driven_rows
from risp_torch.control.task import ControlTask, Objective
from risp_torch.control.windows import Windows, joined_states
from risp_torch.scene.scene import Scene
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.parallel import repeatable_sums
from ti_sim.base.rules import Count, FromZero, Positive, checked
from ti_sim.rollout.adjoint import Checkpoint


@dataclass(frozen=True)
class Replanned:
    """Result of replanning.

    Attributes:
        rollout: the real motion and its outputs.
        error: of it, relative to the task's size.
        promised: [plans] errors at the last frame predicted by the model for each plan.
    """

    rollout: ControlledRollout
    error: float
    promised: list[float]


@checked
def replan(
    model: Scene,
    world: Scene,
    task: ControlTask,
    aim: GoalLoss,
    policy: Module,
    *,
    every: Count,
    iterations: FromZero,
    objective: Objective = "image",
    learning_rate: Positive | None = None,
    progress: bool = True,
) -> Replanned:
    """Drive a real scene by plans for a model of it whose parameters may be wrong.

    Args:
        model: model scene for planning.
        world: driven scene: the same scene with other parameters.
        task: control task of the scene.
        aim: the goal, on the model's scene.
        policy: open loop, the first plan; each plan starts with the weights of the previous one. It
            is changed in place.
        every: executed frames of each plan; all frames of the scene for a single plan.
        iterations: gradient steps for each plan after the first, 0 for none.
        objective: "image" or "state".
        learning_rate: of Adam, the task's by default.
        progress: whether to show a progress bar.

    Raises:
        UserError: the driven parameter has no rows over time, the scenes differ in more than parameters, or a count is invalid.
        DivergenceError: a motion diverged.
    """
    if objective not in ("image", "state"):
        raise UserError(f"plans are made for the objective image or state, not {objective!r}")
    if every > model.frames:
        raise UserError(f"replan: every is {every}, and the scene has {model.frames} frames: give as many at most")
    if (world.frames, world.particle_count) != (model.frames, model.particle_count):
        raise UserError("the world has other frames or particles than the model: make both from one scene")
    per_frame = driven_rows(model, task)
    believed, real = Windows(model), Windows(world)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate or task.rate(objective))
    intervals: list[States] = [at_start(world)]
    done: list[torch.Tensor] = []
    promised: list[float] = []
    firsts = range(0, model.frames, every)
    for first in tqdm(firsts, desc="replanning", unit="plan", disable=not progress, delay=2.0):
        state = intervals[-1].last
        # The model may have other inertias than the world: velocities are measured, angular momenta follow from them.
        measured = state if state.body_momentum is None else state.replace(body_qd=state.body_qd)
        plan = _Plan(believed, task, aim, first, per_frame, measured)
        promised.append(_improve(plan, policy, optimizer, objective, iterations))
        with torch.no_grad():
            count = min(every, model.frames - first)
            rows = policy()[first * per_frame : (first + count) * per_frame]
            intervals.append(real.rollout(first, count, {task.drives: rows}, state=state))
            done.append(rows)
    rollout = ControlledRollout(joined_states(intervals), torch.cat(done))
    return Replanned(rollout, aim.error(rollout), promised)


def _improve(plan: _Plan, policy: Module, optimizer: torch.optim.Optimizer, objective: Objective, iterations: int) -> float:
    """Optimise a policy by ``iterations`` steps; return the error predicted by the model."""
    lowest_loss, error, best_weights = math.inf, math.nan, policy.state_dict()
    for iteration in range(iterations + 1):
        stepping = iteration < iterations
        optimizer.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(stepping):
            rollout = plan.drive(policy)
            loss = plan.aim.loss(rollout, objective)
        if float(loss.detach()) < lowest_loss:
            lowest_loss, error = float(loss.detach()), plan.aim.error(rollout)
            best_weights = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        if stepping:
            with repeatable_sums():
                loss.backward()
            optimizer.step()
    policy.load_state_dict(best_weights)
    return error


class _Plan:
    """The rest of a motion from a frame on, and its aim."""

    def __init__(self, windows: Windows, task: ControlTask, aim: GoalLoss, first: int, per_frame: int, state: State) -> None:
        self.windows, self.task, self.first, self.per_frame, self.state = windows, task, first, per_frame, state
        self.aim = aim.after(first)

    def drive(self, policy: Module) -> ControlledRollout:
        outputs = policy()
        rest = outputs[self.first * self.per_frame :]
        adjoint = Checkpoint(every=self.task.checkpoint)
        count = self.windows.scene.frames - self.first
        states = self.windows.rollout(self.first, count, {self.task.drives: rest}, state=self.state, adjoint=adjoint)
        return ControlledRollout(states, rest)
