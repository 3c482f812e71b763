"""What is likely wrong with a scene whose estimate does not fit its film, and how far that may have moved the estimate.

Every family of numbers that were taken for known (camera, time of the film, look, start of the bodies) is tested as in a
Lagrange multiplier test (Rao 1948, Silvey 1959): derivatives of the observations by them at the estimate, and the share of the
residual that one Gauss-Newton step of unknowns and family together explains. What explains a lot is freed, with priors of
sensible sizes, for some steps: what that moves the unknowns by is the bias of having left it out (omitted-variable bias), and
widens the error bars. Where nothing fits the film one step is no measure, and every family is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from risp_torch.inversion.errors_together import errors_together
from risp_torch.inversion.freed import Freed, Joint, freed
from risp_torch.inversion.linearisation import Linearisation
from risp_torch.inversion.misfit import MISFIT
from risp_torch.inversion.nuisances import CAMERA_ZOOM, COLOR, Family, families_of, sizes_of
from risp_torch.inversion.uncertainty import Uncertainty
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError

NOTICED = 1.3  # times the explained residual: below, nothing is tested
ROUNDS, ROUNDS_OF_A_FIT = 10, 3  # Gauss-Newton steps with a family freed, where nothing fits the film, and where it does
TESTED = 0.05  # of the residual: a family whose linear step explains less is not freed, where the estimate fits the film
SURE = 4.0  # times what noise lets a family explain
NAMED = 0.5  # of what noise leaves unexplained: a family that explains less is not named
AS_GOOD = 0.7  # of what the best family explains: others that explain this much are named, too
MOST_UNKNOWNS = 12  # of an inversion: with more, nothing is tested
LISTED = 4  # parameters that a sentence names


@dataclass(frozen=True)
class Suspect:
    """A family of numbers that is likely wrong.

    Attributes:
        freed: the estimate with it freed.
        share: of the residual that noise leaves unexplained, how much it explains.
    """

    freed: Freed
    share: float

    def to_json(self, unknowns: Unknowns) -> dict[str, Any]:
        """Title, share, changes of the parameters and shifts of the unknowns (scaled units), as JSON values."""
        family = self.freed.family
        changes = {name: np.round(change, 9).tolist() for name, change in _changes(self.freed).items()}
        return {
            "family": family.title, "share": round(self.share, 4), "changes": changes,
            "shift": dict(zip(unknowns.labels, self.freed.shift.tolist(), strict=True)),
        }  # fmt: skip


def suspects_of(
    scene: Scene, unknowns: Unknowns, at: Linearisation, *, explained: float | None, misfit: float | None
) -> list[Suspect]:
    """Families of known numbers that are likely wrong, the best explanation first.

    Args:
        scene, unknowns: those of the inversion.
        at: linearisation at the estimate.
        explained: mean squared residual that noise and compression explain; None if unknown.
        misfit: mean squared residual divided by that; None if unknown.
    """
    if len(unknowns.labels) > MOST_UNKNOWNS or (misfit is not None and misfit <= NOTICED) or not np.isfinite(at.loss):
        return []
    together, fits = errors_together(at), misfit is not None and misfit <= MISFIT
    found = []
    for family in families_of(scene, at.comparison.loss, unknowns):
        joint = Joint(family, at.comparison, unknowns)
        try:
            if (fits or misfit is None) and not _worth_freeing(at, joint, together):
                continue
            end = freed(at, joint, together=together, rounds=ROUNDS_OF_A_FIT if fits else ROUNDS)
        except (UserError, DivergenceError):  # a film that is longer than the scene's actions, a start below the ground
            continue
        unexplained = max(at.loss - (explained or 0.0), 1e-300)
        found.append(Suspect(end, float(np.clip((at.loss - end.loss) / unexplained, 0.0, 1.0))))
    found.sort(key=lambda suspect: -round(suspect.share, 1))  # of families that explain as much, the first ones first
    most = max((each.share for each in found), default=0.0)
    return [each for each in found if each.share >= max(NAMED, AS_GOOD * most)]


def share_of_step(at: Linearisation, joint: Joint, together: float) -> float:
    """Share of the summed squared residual that a joint Gauss-Newton step explains beyond a step of the unknowns alone.

    Args:
        at: linearisation at the estimate.
        joint: unknowns and nuisances.
        together: number of observations that count as one independent observation: the weight of the nuisances' priors.
    """
    own, begin = joint.own, joint.start(at.scaled)
    columns = joint.columns(begin, range(own, len(begin))).double()
    jacobian, residual = at.jacobian.double(), at.residual.double()
    cross, normal = (jacobian.T @ columns).cpu().numpy(), np.zeros((len(begin), len(begin)))
    normal[:own, :own], normal[:own, own:], normal[own:, :own] = at.normal_equations[0], cross, cross.T
    normal[own:, own:] = (columns.T @ columns).cpu().numpy()
    slope = np.concatenate([at.normal_equations[1], (columns.T @ residual).cpu().numpy()])
    if not np.isfinite(normal).all():  # a world diverges near the estimate
        return 0.0
    prior = together * max(at.loss, 1e-300) * joint.precision()
    prior += 1e-9 * np.trace(normal[:own, :own]) / own * np.diag(np.arange(len(begin)) < own)

    def falls(part: slice) -> float:
        step = np.linalg.pinv((normal + prior)[part, part], hermitian=True) @ slope[part]
        return float(2 * step @ slope[part] - step @ normal[part, part] @ step)

    whole = float((residual**2).sum())
    return (falls(slice(None)) - falls(slice(own))) / max(whole, 1e-300)


def sentences_on(suspects: Sequence[Suspect], unknowns: Unknowns, scaled: np.ndarray) -> list[str]:
    """A sentence on what is likely wrong, if anything is.

    Args:
        suspects: what is likely wrong.
        unknowns: unknowns of the inversion.
        scaled: [K] the estimate, scaled units.
    """
    if not suspects:
        return []
    parts = [
        f"{each.freed.family.title} ({_amounts(each.freed)} would explain {100 * each.share:.0f} % of what noise does not, with "
        f"{_estimates(unknowns, scaled + each.freed.shift)}; {_advice(each.freed.family)})"
        for each in suspects
    ]
    return [f"likely wrong: {'; or '.join(parts)}: the error bars are widened by the way that freeing it moves the estimate"]


def widened_by_suspects(bars: Uncertainty, suspects: Sequence[Suspect], widest: np.ndarray) -> Uncertainty:
    """Error bars with the largest shifts by what is likely wrong, limited to the widest [K] that ranges and priors allow."""
    if not suspects:
        return bars
    shift = np.abs([each.freed.shift for each in suspects]).max(axis=0)
    return replace(bars, sd=np.maximum(bars.sd, np.minimum(np.hypot(bars.sd, shift), widest)))


def _worth_freeing(at: Linearisation, joint: Joint, together: float) -> bool:
    """Whether a linear step explains more of the residual than errors that hang together let it."""
    by_chance = len(joint.family.nuisances) * together / at.comparison.count
    return share_of_step(at, joint, together) > max(TESTED, SURE * by_chance)


def _changes(end: Freed) -> dict[str, np.ndarray]:
    """Parameter -> its change, those of the largest amplitudes first."""
    sizes = sizes_of(end.family, end.amplitudes)
    amplitudes = {
        name: np.abs([a for a, n in zip(end.amplitudes, end.family.nuisances, strict=True) if n.name == name]).max()
        for name in sizes
    }  # fmt: skip
    return {name: np.asarray(sizes[name]) for name in sorted(sizes, key=lambda name: -amplitudes[name])}


def _amounts(end: Freed) -> str:
    """The largest changes in words."""
    parts = []
    for name, change in list(_changes(end).items())[:LISTED]:
        value = np.asarray(end.family.scene.parameters[name].value)
        unit = end.family.scene.parameters[name].unit
        size = float(np.linalg.norm(change)) if change.ndim < 2 else float(np.abs(change).max())
        last = name.rpartition(".")[2]
        if last in ("turn", "rotation", "angle"):
            parts.append(f"{name} by {np.degrees(size):.2g} degrees")
        elif last in ("focal", "rate", "intensity"):
            parts.append(f"{name} by {100 * size / max(float(np.linalg.norm(value)), 1e-12):.2g} %")
        else:
            parts.append(f"{name} by {size:.2g} {unit}".rstrip())
    return ", ".join(parts)


def _estimates(unknowns: Unknowns, scaled: np.ndarray) -> str:
    """The first values of a point [K] in words."""
    values = zip(unknowns.labels, unknowns.physical_values(scaled), unknowns.units, strict=True)
    return " and ".join(f"{label} of {value:.4g} {unit}".rstrip() for label, value, unit in list(values)[:LISTED])


def _advice(family: Family) -> str:
    """What to do about it."""
    if any(np.abs(each.move).max() == COLOR for each in family.nuisances):
        return "make psi unknown, or compare with --loss matched or mask"
    sizes = {name: max(float(np.abs(n.move).max()) for n in family.nuisances if n.name == name) for name in family.names}
    given = {name: f"{100 * CAMERA_ZOOM:g}%" if name.endswith(".focal") else f"{size:.2g}" for name, size in sizes.items()}
    return f"make {' '.join(sizes)} unknown with --prior {' '.join(f'{name}={size}' for name, size in given.items())}"
