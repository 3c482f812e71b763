"""Control tasks of scenes: controlled parameter, goal, and objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from torch.nn import Module

from risp_torch.scene.load import find_function, scene_errors_as_user_errors
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, NotNegative, Positive, Rule, checked

Objective = Literal["image", "state", "random"]
Measure = Literal["center", "vertices", "along"]
Widths = Annotated[Sequence[int], Rule(shape=(None,), empty=True, exact=True, integer=True, minimum=1)]
OBJECTIVES = ("image", "state", "random")


@checked
@dataclass(frozen=True)
class Goal:
    """Target positions of the particles.

    Attributes:
        placement: [1, P, 3] or [frames + 1, P, 3] positions of all particles of the scene [m]: one for every compared
            frame, or a motion from the start.
        note: description of the goal, for tables.
    """

    placement: Any
    note: str = ""


@checked
@dataclass(frozen=True, kw_only=True)
class Feedback:
    """Settings of closed-loop control.

    Attributes:
        limit: largest magnitude of an output, in the unit of the controlled parameter.
        hidden: widths of the perceptron's layers.
        particles: indices of the observed particles; if empty, sixteen equally spaced indices.
        every: frames from one observation to the next.
    """

    limit: Positive
    hidden: Widths = (64,)
    particles: Annotated[tuple[int, ...], Rule(shape=(None,), empty=True, exact=True, integer=True, minimum=0)] = ()
    every: Count = 1


@checked
@dataclass(frozen=True, kw_only=True)
class ControlTask:
    """Control task of a scene; its file defines ``make_control(scene) -> ControlTask`` beside ``make_scene``.

    Attributes:
        controlled_parameter: name of the scene parameter that the policy outputs: an actuation, a load's force, or an
            initial velocity.
        policy: (scene, seed) -> a new policy with random weights.
        goal: (scene, number) -> a goal; numbered from 0.
        size: reference length of errors [m].
        measure: error measure of the last frame: "center", distance of the centres of mass; "along", the same along
            ``direction``; "vertices", mean distance of the particles.
        direction: [3] of any length, of the measure "along".
        objectives: available objectives: "image" (pictures), "state" (the error measure), "random" (new policies, no gradient).
        frames: compared frames: "last", "every:K" (K, 2 K ... and the last) or "all"; frame 0 is never compared.
        blur: standard deviations of the Gaussians that blur differences of pictures before they are squared [pixels]; losses are
            summed over them. Wide Gaussians give gradients for bodies that do not overlap.
        penalty: weight of the mean square of the policy's output.
        learning_rate: learning rate of Adam, for all objectives or for each.
        iterations: gradient steps (random policies, of the objective "random").
        checkpoint: steps between two states that are stored for the gradient (``Checkpoint``).
        feedback: settings of closed-loop control, or None.
    """

    controlled_parameter: str
    policy: Callable[[Scene, int], Module]
    goal: Callable[[Scene, int], Goal]
    size: Positive
    measure: Measure
    direction: Annotated[Sequence[float], Rule(shape=(3,), exact=True)] | None = None
    objectives: tuple[Objective, ...] = OBJECTIVES
    frames: str = "last"
    blur: Annotated[tuple[float, ...], Rule(shape=(None,), exact=True, minimum=0)] = (0.0,)
    penalty: NotNegative = 0.0
    learning_rate: Positive | Mapping[str, float] = 0.05
    iterations: Count = 30
    checkpoint: Count = 64
    feedback: Feedback | None = field(default=None)

    def __post_init__(self) -> None:
        if isinstance(self.learning_rate, Mapping):
            Rule(named=True, above=0).check("ControlTask: learning_rate", self.learning_rate)
        if (self.measure == "along") != (self.direction is not None):
            raise UserError("a direction belongs to the measure 'along', and only to it: give both, or neither")
        if self.direction is not None and not np.linalg.norm(self.direction) > 0:
            raise UserError(f"the direction of a control task is {self.direction}: give three numbers that are not all zero")
        if not self.objectives:
            raise UserError(f"the objectives of a control task are {self.objectives}: choose from {', '.join(OBJECTIVES)}")

    def learning_rate_for(self, objective: Objective) -> float:
        """Learning rate of an objective (UserError if there is none)."""
        if not isinstance(self.learning_rate, Mapping):
            return self.learning_rate
        if objective not in self.learning_rate:
            raise UserError(f"learning_rate has none for {objective!r}: give one for every objective that has gradients")
        return self.learning_rate[objective]

    def compared_frames(self, frames: int) -> tuple[int, ...]:
        """Indices of the compared frames, ascending, for a motion of ``frames`` intervals.

        Raises:
            UserError: ``self.frames`` is unknown.
        """
        if self.frames == "last":
            return (frames,)
        if self.frames == "all":
            return tuple(range(1, frames + 1))
        keyword, separator, interval = self.frames.partition(":")
        if keyword != "every" or not separator or not interval.isdecimal() or not int(interval):
            raise UserError(f"frames {self.frames!r} is unknown: choose last, all or every:K")
        return tuple(sorted({*range(int(interval), frames + 1, int(interval)), frames}))

    def check_objective(self, objective: str, scene: str) -> None:
        """Raise a UserError unless the scene has an objective."""
        if objective not in self.objectives:
            raise UserError(f"the scene {scene} has no objective {objective!r}: choose {' or '.join(self.objectives)}")


@checked
def load_control(name: str, scene: Scene) -> ControlTask:
    """The control task of a scene, by the scene's name or the path of its file.

    Args:
        name: see ``load_scene``.
        scene: result of ``load_scene``.

    Raises:
        UserError: the file has no make_control, the controlled parameter does not exist, or the scene's film has a clock.
    """
    make_control = find_function(name, "make_control")
    with scene_errors_as_user_errors(name, "make_control(scene)"):
        task = make_control(scene)
    if not isinstance(task, ControlTask):
        raise UserError(f"make_control of {name} returned {type(task).__name__}: return a ControlTask")
    scene.table[task.controlled_parameter]  # raises an error with similar names
    if scene.clock is not None:
        raise UserError(f"make_control of {name} compares frames of the scene, and its film has a clock: leave set_film out")
    if not scene.deformables:
        raise UserError(f"make_control of {name} drives a scene without deformable bodies: control moves these")
    return task
