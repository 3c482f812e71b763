"""State of a simulation: everything that the next step reads, as one value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from risp_torch.files.atomic import atomic_replacement
from risp_torch.scene.numbers import unwrapped
from ti_sim.base.errors import UserError
from ti_sim.base.rules import FromZero, checked

# Arrays that a solver computes from others: a change of the latter drops them (``State.replace``).
_DERIVED = {
    ("body_q", "body_qd"): ("body_momentum",),
    ("joint_q", "joint_qd"): ("body_q", "body_qd"),
    ("particle_q", "particle_qd"): ("particle_history", "particle_driving", "particle_factor"),
}


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """State of B worlds at a frame. ``Scene.state`` and ``Scene.step`` make it; a scene uses the arrays of its solvers alone.

    Only positions and velocities are required. Arrays that are None get their values at the start of a simulation: bristles
    without deflection, and multistep formulas with their first step.

    Attributes:
        frame: number of frame intervals since the start: it selects the rows of parameters over time. At 0 the state is treated
            as a start, at which quaternions are normalised and the velocities of smoke projected.
        body_q: [B, N, 7] positions of the centres of mass [m] and quaternions (x, y, z, w); in a scene with links derived from
            ``joint_q``, and not read.
        body_qd: [B, N, 6] velocities [m/s] and angular velocities [rad/s], world frame; the same.
        body_momentum: [B, N, 3] angular momenta of rigid bodies without links [kg m2/s], read in place of the angular velocities.
        joint_q: [B, Q] coordinates of all joints [m, rad, quaternions].
        joint_qd: [B, D] velocities of all joints [m/s, rad/s].
        joint_bristle: [B, D] deflections of the dry friction of joints [m, rad].
        contact_bristle: displacements of the bristles of contacts: [B, P, 2] of rigid bodies [m], [B, K] of links [m, rad].
        particle_q: [B, P, 3] positions of the particles of deformable bodies [m].
        particle_qd: [B, P, 3] their velocities [m/s].
        particle_history: [B, 2 or 3, P, 6] f64 latest stages of implicit steps [m, m/s]; the last one is read in place of
            ``particle_q`` and ``particle_qd``.
        particle_driving: [B, G] f64 loads and actuations of the last step, which BDF2 reads.
        particle_factor: [B, W] f64 matrices whose factors precondition implicit steps of large bodies; no result depends on them
            beyond the tolerance of the steps, and they have no derivative.
        substeps: [B] integers, steps per frame of each world in an adaptive scene.
        density: [B, X, Y] density of smoke [1].
        velocity_x: [B, X + 1, Y] velocity of smoke along x at the faces of the cells [m/s].
        velocity_y: [B, X, Y + 1] the same along y.
    """

    frame: FromZero = 0
    body_q: torch.Tensor | None = None
    body_qd: torch.Tensor | None = None
    body_momentum: torch.Tensor | None = None
    joint_q: torch.Tensor | None = None
    joint_qd: torch.Tensor | None = None
    joint_bristle: torch.Tensor | None = None
    contact_bristle: torch.Tensor | None = None
    particle_q: torch.Tensor | None = None
    particle_qd: torch.Tensor | None = None
    particle_history: torch.Tensor | None = None
    particle_driving: torch.Tensor | None = None
    particle_factor: torch.Tensor | None = None
    substeps: torch.Tensor | None = None
    density: torch.Tensor | None = None
    velocity_x: torch.Tensor | None = None
    velocity_y: torch.Tensor | None = None

    def arrays(self) -> dict[str, torch.Tensor]:
        """The arrays by name."""
        return {name: array for name in STATE_ARRAYS if (array := getattr(self, name)) is not None}

    @property
    def worlds(self) -> int:
        """B, the number of worlds (UserError: the arrays have different numbers of them, or there are none)."""
        counts = {name: len(array) for name, array in self.arrays().items() if array.ndim}
        if not counts:
            raise UserError("the state holds no arrays: take it from Scene.state, Scene.step or States.last")
        (first_name, count), *remaining = counts.items()
        for name, size in remaining:
            if size != count:
                raise UserError(f"state.{name} has {size} worlds, and state.{first_name} has {count}: give as many in all arrays")
        return count

    @property
    def finite(self) -> torch.Tensor:
        """[B] bool: worlds all of whose numbers are finite."""
        arrays = (unwrapped(array.detach()) for array in self.arrays().values() if array.ndim > 1)
        return torch.stack([torch.isfinite(array).flatten(1).all(dim=1) for array in arrays]).all(dim=0)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """A state with every array changed, for example to another device."""
        return replace(self, **{name: change(array) for name, array in self.arrays().items()})

    def detach(self) -> Self:
        """The state without its history of gradients."""
        return self.map(torch.Tensor.detach)

    def replace(self, **changes: Any) -> Self:
        """A state with other arrays, without those that were computed from the replaced ones.

        New ``body_q`` or ``body_qd`` drop ``body_momentum``; new ``particle_q`` or ``particle_qd`` drop the history of implicit
        steps; new ``joint_q`` or ``joint_qd`` drop ``body_q`` and ``body_qd``.
        """
        for sources, derived in _DERIVED.items():
            if changes.keys() & set(sources) and not (sources[0] == "body_q" and self.joint_q is not None):
                changes = dict.fromkeys(derived) | changes
        return replace(self, **changes)

    def save(self, path: Path | str) -> None:
        """Write the state to a .npz file, without Python objects (UserError: the path cannot be written)."""
        with atomic_replacement(path) as temporary, open(temporary, "wb") as file:
            arrays = {name: array.detach().cpu().numpy() for name, array in self.arrays().items()}
            np.savez(file, frame=np.asarray(self.frame), **arrays)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file of ``save``; the arrays have the precision that they were saved in.

        Raises:
            UserError: there is no such file, or it holds no state.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except FileNotFoundError as error:
            raise UserError(f"there is no file {str(path)!r}") from error
        except (OSError, ValueError, EOFError, AttributeError) as error:
            raise UserError(f"{str(path)!r} is not a file of State.save") from error
        frame = arrays.pop("frame", None)
        unknown = sorted(set(arrays) - set(STATE_ARRAYS))
        if frame is None or frame.shape != () or frame.dtype.kind != "i" or unknown or not arrays:
            unknown_text = f" (it holds {unknown[0]!r})" if unknown else ""
            raise UserError(f"{str(path)!r} is not a file of State.save{unknown_text}")
        return cls(frame=int(frame), **{name: torch.from_numpy(array) for name, array in arrays.items()})


STATE_ARRAYS = tuple(field.name for field in fields(State) if field.name != "frame")


def check_state_arrays(state: State, expected: Mapping[str, torch.Size], *, optional: Collection[str] = ()) -> None:
    """Raise a UserError for a state of another scene or of other worlds.

    Args:
        state: the state.
        expected: shapes of the arrays that a state of this scene needs, by name.
        optional: names of arrays that it may also have; the solver checks their shapes.
    """
    arrays = state.arrays()
    for name, shape in expected.items():
        if name not in arrays:
            raise UserError(f"the state has no {name}, which this scene reads: take it from Scene.state or States.last")
        if tuple(arrays[name].shape) != tuple(shape):
            raise UserError(
                f"state.{name} has shape {tuple(arrays[name].shape)}, and this scene in {shape[0]} worlds needs {tuple(shape)}: "
                "give a state of this scene, with as many worlds as parameters and actions"
            )
    unexpected = [name for name in arrays if name not in expected and name not in optional]
    if unexpected:
        raise UserError(f"the state has {unexpected[0]}, which this scene does not read: give a state of this scene")
