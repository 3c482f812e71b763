"""Gauss-Newton refinement of every start, with long steps along a valley of the loss."""

from __future__ import annotations

import numpy as np

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.inversion.solvers.gradient_descent import History, HistoryCheckpoint
from risp_torch.inversion.solvers.saved_search import rounds_bar
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.step_search import FixedSteps, ValleySearch
from risp_torch.least_squares.termination import Acceptance, Termination
from risp_torch.scene.scene import Scene

# Gauss-Newton steps are too short where a pixel changes by steps, as edges pass the samples that it averages: its squared
# derivative is then larger than that of the trend.
LONGER_STEPS = (8.0, 2.5)
MAX_VALLEY_UNKNOWNS = 40  # unknowns: each step along a valley needs a Jacobian
VALLEY_LENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1)  # of the ranges
MEETING_DISTANCE = 0.5 * VALLEY_LENGTHS[0]  # nearer starts search the same part of a valley
STEPS_AT_ONCE, VALLEY_STEPS_AT_ONCE = 3, 4  # worlds that cost time each (``Loss.serial``)


def refinement_policy(
    unknowns: int, rounds: int, *, thorough: bool, longer: bool, implicit: bool, serial: bool = False
) -> Policy:
    """The parts of the refinement.

    Where an edge is displaced by more than its softness, a step is only as long as the edge is soft: longer ones lead
    farther. Of many unknowns, such as a sequence, they cost little beside the Jacobian.

    Args:
        unknowns: K.
        rounds: largest number of rounds of a start.
        thorough: whether to try several dampings, steps along valleys, and to stop starts that cannot reach the best.
        longer: whether to try steps of ``LONGER_STEPS``, too.
        implicit: whether the scene has implicit steps, so that each world costs time: then one damping and no valleys.
        serial: whether each world costs time in the loss: then steps of one unknown are tried a few at a time.
    """
    dampings = (1e-6, 1e-3, 3e-2) if thorough and not implicit else (1e-3,)
    if unknowns == 1:  # damping only makes the step shorter
        dampings = dampings[:1]
    at_once, valley_at_once = (STEPS_AT_ONCE, VALLEY_STEPS_AT_ONCE) if serial and unknowns == 1 else (None, None)
    search = FixedSteps(dampings, (1.0, 0.3, 0.05), longer=LONGER_STEPS if longer and not implicit else (), at_once=at_once)
    if unknowns > MAX_VALLEY_UNKNOWNS:
        search = FixedSteps((1e-6, 1e-4, 1e-2), (30.0, 10.0, 3.0, 1.0, 0.3))
    valley = ValleySearch(
        lengths=VALLEY_LENGTHS, damping=1e-6, behind=1.2, most=MAX_VALLEY_UNKNOWNS, at_once=valley_at_once
    )
    return Policy(
        MeanDiagonalDamping(), search, rounds, acceptance=Acceptance(decrease=1e-6),
        termination=Termination(decrease=1e-6, hopeless_rounds=10.0 if thorough else None),
        valley=valley if thorough and not implicit else None, meeting=MEETING_DISTANCE,
    )  # fmt: skip


def refined(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, rounds: int, history: History,
    *, thorough: bool = True, longer: bool = True, checkpoint: SearchCheckpoint | None = None, progress: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Gauss-Newton steps from the end of every start that was not stopped early, each accepted only if the loss decreases.

    If none does, the point may be in a local minimum of a valley's floor (contacts that begin, end, slip or stick cause
    small ones): longer steps along the weakest direction, each followed by a Gauss-Newton step across the valley, leave it.
    That takes some 70 worlds (10 for one unknown), and is left out where each costs time: with implicit steps.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts' ends, [S, K].
        rounds: largest number of rounds per start.
        history: history to which every round is appended.
        thorough: whether to try several dampings, steps along valleys, and to stop starts that cannot reach the best.
        longer: whether to try longer steps than those of Gauss and Newton, which edges in pictures make too short.
        checkpoint: saves the refinement after every round, and resumes it.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] and losses over the whole film [S]; infinite where a world diverged.
    """
    policy = refinement_policy(
        values.shape[1], rounds, thorough=thorough, longer=longer, implicit=scene.stepping.is_implicit,
        serial=comparison.loss.serial,
    )  # fmt: skip
    scaled = unknowns.scaled(values)
    starts = Starts.begin(list(scaled), policy, losses_at(scene, comparison, unknowns, scaled))
    starts.active[history.stopped] = False

    def record(before: Starts, after: Starts) -> None:
        history.append(after.objectives, unknowns.physical_values(np.array(after.points)), comparison.target)

    saved = HistoryCheckpoint(checkpoint, history, comparison.target.device)
    with rounds_bar(saved, record, rounds=policy.rounds, title="refining", progress=progress, leave=False) as after_round:
        minimise(FilmProblem(scene, comparison, unknowns), starts, policy, checkpoint=saved, after_round=after_round)
    return unknowns.physical_values(np.array(starts.points)), starts.objectives
