"""Trials of RISP's evaluation for scenes: unknowns, truth, first guesses and search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal
from zlib import crc32

import numpy as np

from risp_torch import Scene, WideSteps
from risp_torch.programs import find_function, scene_errors_as_user_errors, unknown_name_error
from risp_torch.risp import RispTask, load_task, training_scene
from ti_sim import Count, FromZero, NotNegative, UserError, checked

RANDOM_FROM = 4  # the first repeats have the scene's own truth, the middle of the paper's range
_TRUTHS = 86  # random stream of truths, different from those of guesses, initial states and appearances
SCENES = ("quadrotor", "cube", "hand", "rod")  # in the order of the paper, with trials in studies/risp/scenes
KINDS = ("state", "identify", "imitate", "reach")  # tables 1 to 4 of RISP (ICLR 2022)

Values = Mapping[str, Any]
Measure = Literal["parameter", "motion", "final"]


@checked
@dataclass(frozen=True, kw_only=True)
class Trial:
    """One of RISP's inversions on a scene.

    A file of ``studies/risp/scenes``, or the file of another scene, has ``make_trials() -> dict[str, Trial]`` with keys among
    "identify" (known actions, unknown parameters), "imitate" (known parameters, unknown actions, a film) and "reach" (unknown
    actions that lead from a random initial state to the state in one picture).

    Attributes:
        unknowns: names of the unknown parameters.
        truth: name -> true value; for "reach" the actions that lead the scene from its own start to the goal.
        truths: samples a truth for the repeats from number ``RANDOM_FROM`` on, from the inner part of the allowed range; None
            uses ``truth`` for all.
        guess: samples the first guess of a repeat.
        average: mean of the samples: the baseline "average".
        random: the baseline "random", sampled from the whole prior.
        options: of make_scene.
        initial: for "reach": samples parameters of the initial state.
        measure: "parameter", mean distance of the numbers; "motion", mean L1 distance of the state head's outputs summed over
            the frames; "final", the same of the last frame.
        unit: unit of the error; "log10" with ``log``, for distances in decades.
        search: settings of the wide steps.
        starts: number of first guesses, of which the worse ones are stopped early; the first one is "guess" in results.
        refine: Gauss-Newton rounds after it, for losses that are locally smooth (``Loss.non_smooth``).
        smooth: weight of a penalty on changes of actions from frame to frame (``penalised``), the same for all methods.
        sampling: compared frames (``sampled_frames``).
        unseen: name -> a true scene with a held-out motion: the error of the estimate on it is the mean L1 distance of
            the outputs, in a longer film over the frames after the fitted ones.
    """

    unknowns: tuple[str, ...]
    truth: Values
    truths: Callable[[np.random.Generator], Values] | None = None
    guess: Callable[[np.random.Generator], Values]
    average: Values
    random: Callable[[np.random.Generator], Values]
    options: Mapping[str, Any] = field(default_factory=dict)
    initial: Callable[[np.random.Generator], Values] | None = None
    measure: Measure
    unit: str = ""
    log: bool = False
    search: WideSteps
    starts: Count = 1
    refine: FromZero = 0
    smooth: NotNegative = 0.0
    sampling: str = "all"
    unseen: Callable[[], Mapping[str, Scene]] | None = None

    def row(self, values: Values) -> np.ndarray:
        """[K] values of all unknowns, in the order of their names and of their elements."""
        return np.concatenate([np.ravel(values[name]) for name in self.unknowns]).astype(np.float64)

    def of_repeat(self, name: str, kind: str, *, seed: int, repeat: int) -> Trial:
        """The trial of a repeat: from number ``RANDOM_FROM`` on the truth is sampled if the trial defines ``truths``.

        Args:
            name: of the scene.
            kind: of the trial.
            seed, repeat: seeds of the samples.
        """
        if self.truths is None or repeat < RANDOM_FROM:
            return self
        random = np.random.default_rng([seed, _TRUTHS, repeat, crc32(f"{name} {kind}".encode())])
        return replace(self, truth=self.truths(random))


@checked
def load_trials(name: str) -> dict[str, Trial]:
    """The trials of a scene, by the scene's name or the path of its file.

    Raises:
        UserError: the file has no make_trials, or it returns something else.
    """
    if name in SCENES:
        make_trials = import_module(f"studies.risp.scenes.{name}").make_trials
    else:
        signature = f"make_trials() that returns a dict of Trials (scenes with one: {', '.join(SCENES)})"
        make_trials = find_function(name, "make_trials", signature=signature)
    with scene_errors_as_user_errors(name, "make_trials()"):
        trials = make_trials()
    if not isinstance(trials, dict) or not all(isinstance(trial, Trial) for trial in trials.values()):
        raise UserError(f"make_trials of {name} returned {type(trials).__name__}: return a dict of Trials")
    for kind in trials:
        if kind not in KINDS[1:]:
            raise unknown_name_error(f"trial in make_trials of {name}", kind, KINDS[1:])
    return trials


@checked
def load_trial(name: str, kind: str) -> Trial:
    """One trial of a scene.

    Raises:
        UserError: see ``load_trials``, or the scene does not have the trial.
    """
    if kind not in KINDS[1:]:
        raise unknown_name_error("task", kind, KINDS)
    trials = load_trials(name)
    if kind not in trials:
        raise UserError(f"the scene {name} has no task {kind!r}: it has state, {', '.join(trials)}")
    return trials[kind]


@checked
def true_scene(name: str, trial: Trial, size: Count) -> tuple[Scene, RispTask]:
    """The scene of a trial with its true parameters, resized for networks with this picture size, and its RISP task.

    Args:
        name: of the scene, or the path of its file.
        trial: of the scene.
        size: side of the pictures [pixels].

    Raises:
        UserError: see ``training_scene`` and ``load_task``.
    """
    scene = training_scene(name, size, **trial.options)
    set_truth(scene, trial)
    return scene, load_task(name, scene)


def set_truth(scene: Scene, trial: Trial) -> None:
    """Set the parameters of a scene to the truth of a trial."""
    for unknown in trial.unknowns:
        scene.set(unknown, trial.truth[unknown])
