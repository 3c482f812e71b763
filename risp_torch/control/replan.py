"""Model-predictive control: the remaining plan is optimised again every few frames, from the current state of the plant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import Module
from tqdm import tqdm

from risp_torch.control.objectives import GoalLoss
from risp_torch.control.rollouts import ControlledRollout, control_rows_per_frame, initial_states
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
class ReplanResult:
    """Result of replanning.

    Attributes:
        rollout: the plant's motion and the executed outputs.
        error: error measure of the plant's motion, relative to the task's size.
        predicted_errors: [plans] the model's prediction of the error at the last frame, for each plan.
    """

    rollout: ControlledRollout
    error: float
    predicted_errors: list[float]


@checked
def replan(
    model: Scene,
    plant: Scene,
    task: ControlTask,
    goal_loss: GoalLoss,
    policy: Module,
    *,
    every: Count,
    iterations: FromZero,
    objective: Objective = "image",
    learning_rate: Positive | None = None,
    progress: bool = True,
) -> ReplanResult:
    """Control a plant by plans that are optimised on a model, whose parameters may be wrong.

    Args:
        model: scene in which plans are optimised.
        plant: scene that is controlled; it differs from the model in parameters only.
        task: control task of the scene.
        goal_loss: the goal, for the model.
        policy: open-loop policy, the first plan; each plan starts with the weights of the previous one. It is changed in place.
        every: executed frames of each plan; all frames of the scene for a single plan.
        iterations: gradient steps for each plan after the first, 0 for none.
        objective: "image" or "state".
        learning_rate: of Adam, the task's by default.
        progress: whether to show a progress bar.

    Raises:
        UserError: the controlled parameter has no rows over time, the scenes differ in more than parameters, or a count is
            invalid.
        DivergenceError: a motion diverged.
    """
    if objective not in ("image", "state"):
        raise UserError(f"plans are made for the objective image or state, not {objective!r}")
    if every > model.frames:
        raise UserError(f"replan: every is {every}, and the scene has {model.frames} frames: give as many at most")
    if (plant.frames, plant.particle_count) != (model.frames, model.particle_count):
        raise UserError("the world has other frames or particles than the model: make both from one scene")
    rows_per_frame = control_rows_per_frame(model, task)
    model_windows, plant_windows = Windows(model), Windows(plant)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate or task.learning_rate_for(objective))
    segments: list[States] = [initial_states(plant)]
    executed_rows: list[torch.Tensor] = []
    predicted_errors: list[float] = []
    first_frames = range(0, model.frames, every)
    for first_frame in tqdm(first_frames, desc="replanning", unit="plan", disable=not progress, delay=2.0):
        state = segments[-1].last
        # The model's inertias may differ from the plant's: velocities are measured, angular momenta are computed from them.
        measured_state = state if state.body_momentum is None else state.replace(body_qd=state.body_qd)
        plan = _Plan(model_windows, task, goal_loss, first_frame, rows_per_frame, measured_state)
        predicted_errors.append(_improve(plan, policy, optimizer, objective, iterations))
        with torch.no_grad():
            num_frames = min(every, model.frames - first_frame)
            rows = policy()[first_frame * rows_per_frame : (first_frame + num_frames) * rows_per_frame]
            segments.append(plant_windows.rollout(first_frame, num_frames, {task.controlled_parameter: rows}, state=state))
            executed_rows.append(rows)
    rollout = ControlledRollout(joined_states(segments), torch.cat(executed_rows))
    return ReplanResult(rollout, goal_loss.error(rollout), predicted_errors)


def _improve(plan: _Plan, policy: Module, optimizer: torch.optim.Optimizer, objective: Objective, iterations: int) -> float:
    """Optimise a policy by ``iterations`` gradient steps; return the error that the model predicts."""
    lowest_loss, error, best_weights = math.inf, math.nan, policy.state_dict()
    for iteration in range(iterations + 1):
        takes_step = iteration < iterations
        optimizer.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(takes_step):
            rollout = plan.simulate_policy(policy)
            loss = plan.goal_loss.loss(rollout, objective)
        if float(loss.detach()) < lowest_loss:
            lowest_loss, error = float(loss.detach()), plan.goal_loss.error(rollout)
            best_weights = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        if takes_step:
            with repeatable_sums():
                loss.backward()
            optimizer.step()
    policy.load_state_dict(best_weights)
    return error


class _Plan:
    """The motion from a frame to the end, and its goal loss."""

    def __init__(
        self, windows: Windows, task: ControlTask, goal_loss: GoalLoss, first_frame: int, rows_per_frame: int, state: State
    ) -> None:
        self.windows, self.task, self.first_frame, self.rows_per_frame, self.state = (
            windows,
            task,
            first_frame,
            rows_per_frame,
            state,
        )
        self.goal_loss = goal_loss.remaining(first_frame)

    def simulate_policy(self, policy: Module) -> ControlledRollout:
        outputs = policy()
        remaining_rows = outputs[self.first_frame * self.rows_per_frame :]
        adjoint = Checkpoint(every=self.task.checkpoint)
        num_frames = self.windows.scene.frames - self.first_frame
        states = self.windows.rollout(
            self.first_frame, num_frames, {self.task.controlled_parameter: remaining_rows}, state=self.state, adjoint=adjoint
        )
        return ControlledRollout(states, remaining_rows)
