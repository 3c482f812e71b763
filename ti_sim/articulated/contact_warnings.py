"""Warnings about pairs of bodies that contact could not resolve."""

import numpy as np

from ti_sim.articulated.model import ArticulatedModel
from ti_sim.base.warn import warn
from ti_sim.contact.collision import NEAR, PAIR, TOO_DEEP

_REASONS = {
    True: "are inside each other, deeper than half of the smaller one's half size; contact may push them out on the wrong side: "
    "place them apart, or take more substeps or stiffer contact",
    False: "pass each other in one step by more than the smaller one's half size, so that contact may miss them: take more "
    "substeps",
}


class ContactWarnings:
    """Warns once about each pair of bodies that contact could not resolve."""

    def __init__(self, model: ArticulatedModel, dt: float) -> None:
        """Start without reported pairs.

        Args:
            model: links and pairs.
            dt: physics step [s].
        """
        self._model, self._dt = model, dt
        self._reported: set[tuple[int, int]] = set()

    def warn(self, near_pairs: np.ndarray) -> None:
        """Warn about the first unresolved pair of every world, once per pair and reason.

        Args:
            near_pairs: [B, columns] lists of near pairs after a rollout, see ``collision``.
        """
        for world in np.flatnonzero(near_pairs[:, NEAR.faulty_pair] >= 0) if self._model.has_pairs else ():
            pair, reason, step = (int(near_pairs[world, column]) for column in (NEAR.faulty_pair, NEAR.fault, NEAR.fault_step))
            if (pair, reason) not in self._reported:
                self._reported.add((pair, reason))
                links = self._model.pair[pair, [PAIR.first_link, PAIR.second_link]]
                first_link, second_link = (self._model.link_names[link] for link in links)
                where = f"at step {step} ({step * self._dt:.4g} s)" + (f" of world {world}" if len(near_pairs) > 1 else "")
                warn(f"{where} {first_link!r} and {second_link!r} {_REASONS[reason == TOO_DEEP]}")
