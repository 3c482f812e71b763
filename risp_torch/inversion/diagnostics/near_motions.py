"""Motions of points near another one: simulated, or with implicit steps between a few simulated ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from risp_torch.inversion.problem.films.rendered_film import motion_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States

MAX_CURVATURE = 0.1  # second difference of a motion relative to its first one, up to which motions are linear


def motions_near(
    scene: Scene, unknowns: Unknowns, scaled: np.ndarray, moves: np.ndarray, directions: np.ndarray
) -> Iterator[tuple[States, dict[str, torch.Tensor]]]:
    """Motions of one world and their values, no gradient (``motion_at``), at ``scaled`` [K] plus each of the moves.

    Each world with implicit steps takes as long as the first. If there are more moves than 2 K + 1, and if the motion hardly
    curves along each direction, motions of such a scene are linear in the move. States then lack velocities and
    ``States.last``: they serve for pictures.

    Args:
        scene, unknowns: those of the inversion.
        scaled: the point.
        moves: [M, K] scaled units.
        directions: [K, K] moves of the usual size, one in each row, whose combinations the moves are.
    """
    linear = None
    if scene.stepping.is_implicit and len(moves) > 2 * len(directions) + 1:
        linear = _LinearMotion.of(scene, unknowns, scaled, directions)
    for move, coordinates in zip(moves, moves @ np.linalg.pinv(directions), strict=True):
        if linear is None:
            yield motion_at(scene, unknowns, unknowns.physical_values(scaled + move))
        else:
            yield linear.at(coordinates), _values_at(unknowns, scaled + move)


class _LinearMotion:
    """Particles near a motion, by its central differences along some directions."""

    def __init__(self, center: States, slopes: list[torch.Tensor], exposed_slopes: list[torch.Tensor]) -> None:
        self.center, self.slopes, self.exposed_slopes = center, slopes, exposed_slopes

    @staticmethod
    def of(scene: Scene, unknowns: Unknowns, scaled: np.ndarray, directions: np.ndarray) -> _LinearMotion | None:
        """The motions at a point; None where they curve, beyond bounds, where a world diverges, or with bodies that are not
        particles."""
        low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        if (np.abs(directions) > np.minimum(scaled - low, high - scaled)).any():
            return None

        def states_at(move: np.ndarray) -> States:
            return motion_at(scene, unknowns, unknowns.physical_values(scaled + move))[0]

        center, slopes, exposed_slopes = states_at(np.zeros(len(scaled))), [], []
        if center.particle_q is None or center.body_q.shape[2]:
            return None
        for direction in directions:
            ahead, behind = states_at(direction), states_at(-direction)
            first, second = ahead.particle_q - behind.particle_q, ahead.particle_q + behind.particle_q - 2 * center.particle_q
            if not bool(second.abs().max() <= MAX_CURVATURE * first.abs().max()):  # NaN, too
                return None
            slopes.append(0.5 * first)
            if center.exposed is not None:
                exposed_slopes.append(0.5 * (ahead.exposed.placement - behind.exposed.placement))
        return _LinearMotion(center, slopes, exposed_slopes)

    def at(self, coordinates: np.ndarray) -> States:
        """The motion after a move with these coordinates [K] in the directions."""
        center, exposed = self.center, self.center.exposed
        if exposed is not None:
            exposed = replace(exposed, placement=_moved(exposed.placement, self.exposed_slopes, coordinates))
        particle_q = _moved(center.particle_q, self.slopes, coordinates)
        return replace(center, particle_q=particle_q, particle_qd=None, exposed=exposed, last=None)


def _moved(positions: torch.Tensor, slopes: list[torch.Tensor], coordinates: np.ndarray) -> torch.Tensor:
    return positions + sum(float(coordinate) * slope for coordinate, slope in zip(coordinates, slopes, strict=True))


def _values_at(unknowns: Unknowns, scaled: np.ndarray) -> dict[str, torch.Tensor]:
    """Values [1, ...] of the unknowns, as of ``motion_at``."""
    with torch.no_grad():
        return unknowns.from_scaled(torch.as_tensor(scaled[None], dtype=bridge_dtype(), device=bridge_device()))
