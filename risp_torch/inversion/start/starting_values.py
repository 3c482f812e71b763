"""Unknowns of the initial state of bodies: poses, and their rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from risp_torch.inversion.problem.films.multi_film import MARK
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.parts.links import Link
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

MAX_NUMBERS = 12  # numbers of one parameter: fields with a value for each particle are no starting values
_POSES, _RATES = ("position", "rotation"), ("velocity", "angular_velocity", "velocity_gradient")


@dataclass(frozen=True)
class StartingValues:
    """Indices of the unknowns of the initial state of bodies.

    Attributes:
        poses: [P] of positions, rotations and joint coordinates, which the first picture shows.
        rates: [R] of their velocities, which the next pictures show.
    """

    poses: np.ndarray
    rates: np.ndarray

    @staticmethod
    def of(scene: Scene, unknowns: Unknowns) -> StartingValues:
        """The starting values among the unknowns of a scene.

        Raises:
            UserError: there is none.
        """
        poses, rates = _names(scene)
        indices: dict[bool, list[int]] = {True: [], False: []}
        for name, group in unknowns.groups.items():
            base = split_entry(name)[0].partition(MARK)[0]
            if base in poses | rates and group.stop - group.start <= MAX_NUMBERS:
                indices[base in poses] += range(group.start, group.stop)
        if not indices[True] and not indices[False]:
            candidates = [name for name in scene.parameters if name.partition(MARK)[0] in poses | rates]
            raise UserError(
                f"no start of a body is unknown, so there is none to find: name one of {', '.join(candidates[:8])} as unknown "
                "with its bounds, or leave out --warm-start pictures (find_start)"
                if candidates
                else "the scene has no bodies whose start could be found: leave out --warm-start pictures (find_start)"
            )
        return StartingValues(np.array(indices[True], dtype=np.int64), np.array(indices[False], dtype=np.int64))

    @property
    def all(self) -> np.ndarray:
        """[P + R] both."""
        return np.concatenate([self.poses, self.rates])


def _names(scene: Scene) -> tuple[set[str], set[str]]:
    """Names of the parameters of poses, and of rates."""
    poses, rates = set(), set()
    for body in scene.bodies:
        if isinstance(body, Link):
            poses |= {body.parameter_names[key] for key in (body.joint.coordinate_name,) if key in body.parameter_names}
            rates |= {body.parameter_names[key] for key in ("rate",) if key in body.parameter_names}
        else:
            poses |= {f"{body.name}.{key}" for key in _POSES}
            rates |= {f"{body.name}.{key}" for key in _RATES}
    for deformable in scene.deformables:
        poses |= {f"{deformable.name}.{key}" for key in _POSES}
        rates |= {f"{deformable.name}.{key}" for key in _RATES}
    return poses, rates
