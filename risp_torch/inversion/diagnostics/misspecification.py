"""Numbers of a scene that were assumed known and are likely wrong, and the bias of an estimate by them.

A score test (``score_tests``) checks every family of such numbers (``nuisance_parameters``). A family is reported if estimating
it moves an unknown significantly and by more than a part of its error bar, or if it explains most of a residual larger than
noise and compression explain. Reported families are estimated, too, with priors of plausible sizes; the shift of the unknowns
(omitted-variable bias) widens the error bars. If nothing fits the film, one step is too inaccurate, and families are estimated. A
residual that neither noise nor a family explains makes a doubt.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.diagnostics.augmented_fit import MAX_AMPLITUDE, AugmentedFit, AugmentedProblem, fit_augmented
from risp_torch.inversion.diagnostics.nuisance_parameters import (
    BODY_SIZE,
    CAMERA_ZOOM,
    COLOR,
    TIME_STEP,
    Family,
    families_of,
    sizes_of,
    why_untested,
)
from risp_torch.inversion.diagnostics.score_tests import FamilyScores, FilmErrors, ScoreTest, score_test
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.misfit import DOUBTED_RATIO, MISFIT_RATIO
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError

MISFIT_ROUNDS, FIT_ROUNDS = 10, 3  # Gauss-Newton steps with a family of nuisances if the estimate has a misfit, and if it fits
SIGNIFICANCE_LEVEL, CORRELATION_LEVEL = 0.05, 0.01  # of a family, and for all tests together of the residual's power
# Level of all families together. Most p-values are 1, where a family shifts nothing, so that the harmonic mean is conservative: 3
# of 80 films of correct scenes fall below it (`studies.error_bars.wrong_scenes`, seeds 31 and 47).
COMBINED_LEVEL = 0.2
MIN_SHIFT_IN_BARS = 0.5  # in error bars: smaller shifts of the unknowns are ignored
MIN_EXPLAINED_FRACTION = 0.5  # of the residual that noise does not explain: a family that explains less is not reported
MIN_RELATIVE_DECREASE = 0.7  # of the best family's decrease: families with a smaller one are not reported
MAX_BLOCK_VARIANCE_RATIO = 2.0  # a residual with a larger significant ratio (``Diagnosis.block_variance_ratio``) is not noise
MAX_ASSUMED_VISIBILITY = 2.0  # largest ``ScoreTest.visible`` of a number that an unknown is said to assume
MAX_UNKNOWNS = 12  # of an inversion: with more, nothing is tested
MAX_AUGMENTED = 5  # families that are estimated, too, if there is a misfit: those whose first step explains most
_UNTESTED = "the estimates assume all other numbers of the scene, none of which was tested: {}"
MAX_LISTED = 4  # parameters that a sentence names


@dataclass(frozen=True)
class Misspecification:
    """A family of numbers that is likely wrong.

    Attributes:
        augmented: the estimate when it is estimated, too.
        share: fraction of the residual beyond noise that the family explains.
    """

    augmented: AugmentedFit
    share: float

    def to_json(self, unknowns: Unknowns) -> dict[str, Any]:
        """Title, share, changes of the parameters and shifts of the unknowns (scaled units), as JSON values."""
        family = self.augmented.family
        changes = {name: np.round(change, 9).tolist() for name, change in _changes(self.augmented).items()}
        return {
            "family": family.title, "share": round(self.share, 4), "changes": changes,
            "shift": dict(zip(unknowns.labels, self.augmented.shift.tolist(), strict=True)),
        }  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    """Result of the tests of a scene.

    Attributes:
        misspecifications: families that are likely wrong, the best explanation first.
        block_variance_ratio: largest significant power of the residual in blocks, divided by that of the film's errors, at
            least 1; None if nothing was tested or the errors are not known.
        assumptions: sentences on numbers that the film does not show and an unknown can compensate, or that are not tested.
    """

    misspecifications: list[Misspecification] = field(default_factory=list)
    block_variance_ratio: float | None = None
    assumptions: list[str] = field(default_factory=list)


def diagnose(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, bars: np.ndarray, errors: FilmErrors, *,
    explained: float | None, misfit: float | None,
) -> Diagnosis:  # fmt: skip
    """Test a scene's known numbers at an estimate.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        bars: [K] error bars, scaled units.
        errors: errors of a film if the scene is correct.
        explained: mean squared residual that noise and compression explain; None if unknown.
        misfit: mean squared residual divided by that; None if unknown.
    """
    if not np.isfinite(linearisation.loss):
        return Diagnosis()
    if len(unknowns.labels) > MAX_UNKNOWNS:
        return Diagnosis(assumptions=[_UNTESTED.format(f"more than {MAX_UNKNOWNS} unknowns have no such tests")])
    with warnings.catch_warnings():  # warnings of numbers that are varied beyond the scene's limits
        warnings.simplefilter("ignore")
        tests = _tests(scene, unknowns, linearisation, errors)
        if not tests and (why := why_untested(scene, linearisation.comparison.loss)) is not None:
            return Diagnosis(assumptions=[_UNTESTED.format(why)])
        return _diagnosed(tests, unknowns, linearisation, bars, errors, explained, misfit)


def _diagnosed(
    tests: list[tuple[AugmentedProblem, ScoreTest]], unknowns: Unknowns, linearisation: Linearisation, bars: np.ndarray,
    errors: FilmErrors, explained: float | None, misfit: float | None,
) -> Diagnosis:  # fmt: skip
    """Results of the tests (arguments: ``diagnose``)."""
    bars = np.maximum(bars / unknowns.scaled_range(), 1e-300)
    assumptions = _assumptions(tests, unknowns, bars)
    if misfit is not None and misfit > MISFIT_RATIO:
        return Diagnosis(_augmented_without_noise_model(linearisation, tests, errors, explained or 0.0), None, assumptions)
    ratio = None
    if tests and errors.variance is not None:
        corrected_level = CORRELATION_LEVEL / len(tests)
        ratio = max([1.0, *(test.block_variance_ratio for _, test in tests if test.correlation_p_value < corrected_level)])
    unexplained = linearisation.loss - (explained or 0.0)
    p_values = np.array(
        [_p_value(test, bars, linearisation.comparison.observation_count, misfit, unexplained) for _, test in tests]
    )
    significant = [pair for pair, p_value in zip(tests, p_values, strict=True) if p_value < SIGNIFICANCE_LEVEL]
    if significant and p_value_of_all(p_values) >= COMBINED_LEVEL:
        significant = []
    whole_families = {joint.family.title for joint, _ in significant if joint.family.is_complete}
    subfamilies = sorted(
        (pair for pair in significant if pair[0].family.title not in whole_families), key=lambda pair: -pair[1].residual_decrease
    )
    best = {pair[0].family.title: pair for pair in reversed(subfamilies)}
    significant = [pair for pair in significant if pair[0].family.is_complete or best.get(pair[0].family.title) is pair]
    largest_decrease = max((test.residual_decrease for _, test in significant), default=0.0)
    selected = [pair for pair in significant if pair[1].residual_decrease >= MIN_RELATIVE_DECREASE * largest_decrease]
    misspecifications = [_misspecification(linearisation, *pair, errors, unexplained) for pair in selected]
    misspecifications.sort(key=lambda entry: -round(entry.share, 1))  # of families that explain as much, the first ones first
    return Diagnosis(misspecifications, ratio, assumptions)


def _p_value(test: ScoreTest, bars: np.ndarray, count: float, misfit: float | None, unexplained: float) -> float:
    """The p-value of a test; 1 if the family shifts all unknowns by little of their bars [K] and explains no misfit."""
    p_values = np.minimum(test.p_value, test.shift_p_values * len(bars))[np.abs(test.shift) > MIN_SHIFT_IN_BARS * bars]
    explains_misfit = (
        misfit is not None and misfit > DOUBTED_RATIO and test.residual_decrease / count > MIN_EXPLAINED_FRACTION * unexplained
    )
    return float(min([1.0, *p_values, *([test.p_value] if explains_misfit else [])]))


def p_value_of_all(p_values: np.ndarray) -> float:
    """Probability of a harmonic mean as small as that of L p-values [L], however they depend on each other (Wilson, 2019).

    The mean of 1 / p over many tests has a Landau distribution of scale pi / 2 at log L + 1 - gamma - log(2 / pi), with Euler's
    gamma (equation 4 there). For a single test, its own p-value is returned.
    """
    from scipy.stats import landau  # takes most of a second

    inverse = float((1 / np.maximum(p_values, 1e-300)).mean())
    if len(p_values) == 1:
        return 1 / inverse
    location = np.log(len(p_values)) + 1 - np.euler_gamma - np.log(2 / np.pi)
    return float(landau.sf(inverse, location, np.pi / 2))


def _tests(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, errors: FilmErrors
) -> list[tuple[AugmentedProblem, ScoreTest]]:
    """Tests of every family that changes the film, and of the numbers of each parameter of it."""
    tests, families = [], families_of(scene, linearisation.comparison.loss, unknowns)
    for family, columns in _derivatives(families, unknowns, linearisation):
        family_scores = FamilyScores.of(linearisation, columns, errors)
        for subfamily, indices in family.subfamilies():
            scores = (  # of numbers whose worlds do not diverge, where some do
                FamilyScores.of(linearisation, columns[:, indices], errors)
                if family_scores is None
                else family_scores.subset(indices)
            )
            if scores is None:
                continue
            test = score_test(linearisation, scores, subfamily.limits(MAX_AMPLITUDE), errors)
            if test is not None:
                tests.append((AugmentedProblem(subfamily, linearisation.comparison, unknowns), test))
    return tests


def _derivatives(
    families: Sequence[Family], unknowns: Unknowns, linearisation: Linearisation
) -> Iterator[tuple[Family, torch.Tensor]]:
    """Families and derivatives [P, M] of the observations by their numbers: in one batch of films for those of one scene."""
    for batch in _batches(families, linearisation.comparison.worlds_at_once):
        merged = replace(batch[0], nuisances=tuple(nuisance for family in batch for nuisance in family.nuisances))
        try:
            columns = _columns(merged, unknowns, linearisation)
        except (UserError, DivergenceError):  # a film that is longer than the scene's actions, a start below the ground
            if len(batch) > 1:
                yield from (derivatives for family in batch for derivatives in _derivatives([family], unknowns, linearisation))
            continue
        yield from zip(batch, columns.split([len(family.nuisances) for family in batch], dim=1), strict=True)


def _batches(families: Sequence[Family], max_nuisances: int) -> Iterator[list[Family]]:
    """Batches of families of one scene, with at most ``max_nuisances`` numbers each."""
    batch: list[Family] = []
    for family in families:
        count = sum(len(batch_family.nuisances) for batch_family in batch) + len(family.nuisances)
        if batch and (family.scene is not batch[0].scene or family.variants or batch[0].variants or count > max_nuisances):
            yield batch
            batch = []
        batch.append(family)
    if batch:
        yield batch


def _columns(family: Family, unknowns: Unknowns, linearisation: Linearisation) -> torch.Tensor:
    """Derivatives [P, M] by one-sided differences."""
    joint = AugmentedProblem(family, linearisation.comparison, unknowns)
    first_vector = joint.start(linearisation.scaled)
    return joint.columns(first_vector, range(joint.num_unknowns, len(first_vector)), central=False)


def _misspecification(
    linearisation: Linearisation, joint: AugmentedProblem, test: ScoreTest, errors: FilmErrors, unexplained: float
) -> Misspecification:
    """A family whose test is significant, with its amplitudes after some steps, and the larger shifts of these and the test."""
    ranges, loss = (
        joint.unknowns.scaled_range(),
        linearisation.loss - test.residual_decrease / linearisation.comparison.observation_count,
    )
    augmented = AugmentedFit(joint.family, test.amplitudes, test.shift * ranges, loss)
    if not joint.family.variants:
        try:
            fitted = fit_augmented(linearisation, joint, design_effect=errors.design_effect, rounds=FIT_ROUNDS)
            augmented = fitted if fitted.loss < linearisation.loss else augmented
        except (UserError, DivergenceError):
            pass
    augmented = replace(
        augmented, shift=np.where(np.abs(augmented.shift) > np.abs(test.shift * ranges), augmented.shift, test.shift * ranges)
    )
    return Misspecification(augmented, _explained_fraction(linearisation, augmented, unexplained))


def _explained_fraction(linearisation: Linearisation, augmented: AugmentedFit, unexplained: float) -> float:
    """Fraction of the unexplained residual that an estimated family takes away."""
    return float(np.clip((linearisation.loss - augmented.loss) / max(unexplained, 1e-300), 0.0, 1.0))


def _augmented_without_noise_model(
    linearisation: Linearisation, tests: Sequence[tuple[AugmentedProblem, ScoreTest]], errors: FilmErrors, explained: float
) -> list[Misspecification]:
    """Families whose estimation explains most of a residual, among those whose first step explains most."""
    misspecifications = []
    family_decreases = [
        (joint, test.residual_decrease) for joint, test in tests if joint.family.is_complete and not joint.family.variants
    ]
    largest_decreases = sorted((decrease for _, decrease in family_decreases), reverse=True)[:MAX_AUGMENTED]
    for joint in [joint for joint, decrease in family_decreases if decrease >= largest_decreases[-1]]:
        try:
            augmented = fit_augmented(linearisation, joint, design_effect=errors.design_effect, rounds=MISFIT_ROUNDS)
        except (UserError, DivergenceError):
            continue
        misspecifications.append(
            Misspecification(augmented, _explained_fraction(linearisation, augmented, linearisation.loss - explained))
        )
    misspecifications.sort(key=lambda entry: -round(entry.share, 1))
    largest_share = max((candidate.share for candidate in misspecifications), default=0.0)
    return [
        candidate
        for candidate in misspecifications
        if candidate.share >= max(MIN_EXPLAINED_FRACTION, MIN_RELATIVE_DECREASE * largest_share)
    ]


def _assumptions(tests: Sequence[tuple[AugmentedProblem, ScoreTest]], unknowns: Unknowns, bars: np.ndarray) -> list[str]:
    """A sentence for each unknown whose estimate depends on numbers that the film does not determine."""
    assumed: dict[int, list[str]] = {}
    for joint, test in tests:
        if not joint.family.assumed:
            continue
        is_shifted = (np.abs(test.unit_shift) > bars[:, None]) & (test.visible < MAX_ASSUMED_VISIBILITY)
        for k in np.flatnonzero(is_shifted.any(axis=1)):
            assumed.setdefault(int(k), []).append(joint.family.title)
    return [
        f"{unknowns.labels[k]} assumes {', '.join(names)}, which this film does not show beside it: an error there moves it"
        for k, names in sorted(assumed.items())
    ]


def doubts_of_residual(diagnosis: Diagnosis, misfit: float | None) -> list[str]:
    """A sentence on a residual that is no noise and that no family explains.

    Args:
        diagnosis: the tests.
        misfit: mean squared residual divided by what noise and compression explain; None if unknown.
    """
    if diagnosis.misspecifications or (misfit is not None and misfit > MISFIT_RATIO):
        return []
    ratio = diagnosis.block_variance_ratio
    is_correlated = ratio is not None and ratio > MAX_BLOCK_VARIANCE_RATIO
    if not is_correlated and (misfit is None or misfit <= DOUBTED_RATIO):
        return []
    correlation_clause = (
        f"its errors are correlated, {ratio:.2g} times as strongly as noise and compression" if is_correlated else ""
    )
    misfit_clause = (
        f"it is {misfit:.2g} times what noise and compression explain" if misfit is not None and misfit > DOUBTED_RATIO else ""
    )
    return [
        "the scene differs from the film: the residual is no noise "
        f"({' and '.join(clause for clause in (misfit_clause, correlation_clause) if clause)}), "
        "and no number of the scene that was tested explains it: shapes, colours or laws may be others, and the error bars need "
        "not hold"
    ]


def misspecification_sentences(
    misspecifications: Sequence[Misspecification], unknowns: Unknowns, scaled: np.ndarray
) -> list[str]:
    """A sentence on families that are likely wrong, if there are any.

    Args:
        misspecifications: families that are likely wrong.
        unknowns: unknowns of the inversion.
        scaled: [K] the estimate, scaled units.
    """
    if not misspecifications:
        return []
    clauses = [
        f"{entry.augmented.family.title} ({_changes_text(entry.augmented)} would explain {100 * entry.share:.0f} % of what "
        f"noise does not, with {_estimates_text(unknowns, scaled + entry.augmented.shift)}; {_advice(entry.augmented.family)})"
        for entry in misspecifications
    ]
    return [f"likely wrong: {'; or '.join(clauses)}: the error bars include the shift caused by also estimating it"]


def _changes(augmented: AugmentedFit) -> dict[str, np.ndarray]:
    """Parameter -> its change, those of the largest amplitudes first."""
    sizes = sizes_of(augmented.family, augmented.amplitudes)
    if augmented.family.variants:
        return dict(sizes)
    amplitudes = {
        name: np.abs([a for a, n in zip(augmented.amplitudes, augmented.family.nuisances, strict=True) if n.name == name]).max()
        for name in sizes
    }  # fmt: skip
    return {name: np.asarray(sizes[name]) for name in sorted(sizes, key=lambda name: -amplitudes[name])}


def _changes_text(augmented: AugmentedFit) -> str:
    """The largest changes in words."""
    phrases = []
    if augmented.family.variants:
        changes = _changes(augmented)
        if TIME_STEP in changes:
            return "errors of longer steps than the scene's" if changes[TIME_STEP] < 0 else "shorter steps than the scene's"
        if all(name.endswith(f".{BODY_SIZE}") for name in changes):
            return ", ".join(f"{name} by {100 * float(size):.2g} %" for name, size in changes.items())
        return ", ".join(f"{name} by {np.linalg.norm(size):.2g} m" for name, size in changes.items())
    for name, change in list(_changes(augmented).items())[:MAX_LISTED]:
        value = np.asarray(augmented.family.scene.parameters[name].value)
        unit = augmented.family.scene.parameters[name].unit
        size = float(np.linalg.norm(change)) if change.ndim < 2 else float(np.abs(change).max())
        suffix = name.rpartition(".")[2]
        if suffix in ("turn", "rotation", "angle"):
            phrases.append(f"{name} by {np.degrees(size):.2g} degrees")
        elif np.any(value) and (suffix in ("focal", "rate", "intensity") or augmented.family.assumed):
            phrases.append(f"{name} by {100 * size / max(float(np.linalg.norm(value)), 1e-12):.2g} %")
        else:
            phrases.append(f"{name} by {size:.2g} {unit}".rstrip())
    return ", ".join(phrases)


def _estimates_text(unknowns: Unknowns, scaled: np.ndarray) -> str:
    """The first values of a point [K] in words."""
    values = zip(unknowns.labels, unknowns.physical_values(scaled), unknowns.units, strict=True)
    return " and ".join(f"{label} of {value:.4g} {unit}".rstrip() for label, value, unit in list(values)[:MAX_LISTED])


def _advice(family: Family) -> str:
    """The advice for a family: which numbers to make unknown."""
    if any(np.abs(nuisance.move).max() == COLOR for nuisance in family.nuisances):
        return "make psi unknown, or compare with --loss matched or mask"
    if family.variants:
        if TIME_STEP in family.names:
            return "give the scene more substeps"
        return "give the bodies other sizes or shapes, or shapes in parts"
    logarithmic = {nuisance.name for nuisance in family.nuisances if nuisance.logarithmic}
    sizes = {name: max(float(np.abs(n.move).max()) for n in family.nuisances if n.name == name) for name in family.names}
    prior_sizes = {name: f"{100 * CAMERA_ZOOM:g}%" if name.endswith(".focal") else f"{size:.2g}" for name, size in sizes.items()}
    prior_sizes |= {name: f"{100 * (np.exp(sizes[name]) - 1):.2g}%" for name in logarithmic}
    return f"make {' '.join(sizes)} unknown with --prior {' '.join(f'{name}={size}' for name, size in prior_sizes.items())}"
