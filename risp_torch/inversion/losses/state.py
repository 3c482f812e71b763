"""The oracle: true states compared with simulated ones, without images (RISP, ICLR 2022, section 4.1)."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.trajectories import Table, Track, point_coordinates, rows_used
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from risp_torch.scene.state_heads.head import StateHead
from risp_torch.scene.states import States, joined_placement, placement_shape
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_ARRAYS = ("body_q", "particle_q")


class StateLoss(Loss):
    """Mean squared difference of motions, for an inversion with exactly known states.

    With a state head its outputs are compared; without one the positions of points (``point_coordinates``), in m.
    """

    kind = "state"
    needs_film = False
    temporally_correlated = True

    @checked
    def __init__(self, head: StateHead | None, states: States | torch.Tensor | np.ndarray | str | Path) -> None:
        """A loss by true states.

        Args:
            head: state head of the compared quantities; None for positions of points.
            states: poses [T, N, 7] of the true motion (m, unit quaternions; of a batch [1, T, N, 7]; with deformable bodies as
                ``Scene.poses`` returns them), the result of ``scene.rollout``, the states.npz of ``risp simulate``, such an array
                as .npy, or, without a head, a .csv table of known coordinates (``Track.of_table``).

        Raises:
            UserError: the file has no states (arrays of Python objects are not read).
        """
        self.head, self.path, self._body_names = head, "", None
        self._table: Table | None = None
        self.placement: torch.Tensor | None = None
        if isinstance(states, str | Path):
            self.path = str(states)
            check_states_file(Path(states))
            if Path(states).suffix.lower() == ".csv":
                if head is not None:
                    raise UserError(f"{states} is a table, which may have only a part of the states: leave the head out (None)")
                self._table = Table.read(Path(states))
                return
            poses, self._body_names = read_states(Path(states))
        else:
            poses = states.placement if isinstance(states, States) else states
        self.placement = torch.as_tensor(poses).detach().to(dtype=bridge_dtype(), device=bridge_device())
        if self.placement.ndim == 4 and self.placement.shape[0] == 1:
            self.placement = self.placement[0]

    def check(self, scene: Scene) -> None:
        """Compare the states with bodies and film of the scene (``Loss.check``)."""
        if self.head is not None:
            self.head.check(scene)
        if self.placement is None:
            Track.of_table(scene, self._table)
            return
        title = f"the states in {self.path}" if self.path else "the true states"
        names = scene.part_names
        if self._body_names is not None and self._body_names != names:
            raise UserError(
                f"{title} are of {', '.join(self._body_names)}, and the scene has {', '.join(names)}: simulate this scene"
            )
        scene_shape = (scene.frames + 1, *placement_shape(bodies=len(scene.bodies), particles=scene.particle_count))
        shape = tuple(self.placement.shape)
        if self.placement.ndim != 3 or shape[1:] != scene_shape[1:] or shape[0] < scene_shape[0]:
            raise UserError(f"{title} have shape {shape}, and {scene_shape} is needed: simulate the scene's whole film")
        if not torch.isfinite(self.placement[: scene_shape[0]]).all():
            raise UserError(f"{title} have numbers that are not finite: give the states of a simulation that did not diverge")

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """The frames in a table (``Loss.known_frames``)."""
        if self._table is None:
            return frames
        table_frames = set(Track.of_table(scene, self._table).frames)
        common = tuple(frame for frame in frames if frame in table_frames)
        if not common:
            raise UserError(f"{self.path} has none of the compared frames: give rows at frames 0 to {scene.frames}")
        return common

    def target_used(self, scene: Scene) -> list[str]:
        """Rows and frames of a table, or frames of an array (``Loss.target_used``)."""
        if self._table is not None:
            return [rows_used(scene, self.path, np.array(Track.of_table(scene, self._table).frames))]
        return [rows_used(scene, self.path or "the states", np.arange(len(self.placement)))]

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Outputs of the head for the motion, or positions of its points (``Loss.observe``)."""
        placement = states.placement if frames is None else states.placement[:, list(frames)]
        if self.head is not None:
            return self.head.outputs(scene, placement)
        coordinates = point_coordinates(scene, placement)
        return coordinates if self._table is None else coordinates[..., Track.of_table(scene, self._table).coordinate_indices]

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The same of the true states (``Loss.of_target``)."""
        if self.head is not None:
            return self.head.outputs(scene, self.placement[list(frames)])
        if self._table is None:
            return point_coordinates(scene, self.placement[list(frames)])
        track = Track.of_table(scene, self._table)
        return track.values[[track.frames.index(frame) for frame in frames]]

    def pictures(self, scene: Scene) -> torch.Tensor | None:
        """The true motion in the scene's own appearance (``Loss.pictures``); None if a table has only a part of it."""
        if scene.camera is None or self.placement is None:
            return None
        with torch.no_grad():
            return scene.render(self.placement[None, : scene.frames + 1])[0]

    def to_json(self) -> dict[str, Any]:
        """The head and a checksum of the states (``Loss.to_json``)."""
        numbers = self.placement.double().cpu().numpy() if self._table is None else np.stack(list(self._table.columns.values()))
        columns = {} if self._table is None else {"columns": list(self._table.columns)}
        digest = sha256(numbers.tobytes()).hexdigest()
        head = None if self.head is None else self.head.to_json()
        return {"kind": self.kind, "states": self.path or None, "states_sha256": digest, "head": head, **columns}


def check_states_file(path: Path) -> None:
    """Raise a UserError if the file does not exist or is a film."""
    if path.is_dir() or path.suffix.lower() in (".mp4", ".mov", ".mkv", ".avi", ".webm", ".png", ".jpg"):
        raise UserError(f"{path} is a film or a folder: give it with --video, or states as .npz, .npy or .csv")
    if not path.is_file():
        raise UserError(f"the states {path} do not exist: give the states.npz that 'risp simulate' has written, or a .csv table")


def read_states(path: Path) -> tuple[torch.Tensor, list[str] | None]:
    """Placement (``Scene.poses``) [T, ...] and names of the bodies (None if unknown) from a file.

    Args:
        path: states.npz with body_q, particle_q or both, or one such array as .npy.

    Raises:
        UserError: it has no states.
    """
    try:
        if path.suffix.lower() == ".npy":
            return torch.as_tensor(np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)), None
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: torch.as_tensor(np.asarray(file[key], dtype=np.float64)) for key in _ARRAYS if key in file}
            name_lists = [list(file[key]) for key in ("body_names", "deformable_names") if key in file]
            names = [str(name) for name_list in name_lists for name in name_list] if name_lists else None
            if "body_q" not in arrays:
                return arrays["particle_q"], names
            return joined_placement(arrays["body_q"], arrays.get("particle_q")), names
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} holds no states: give the states.npz that 'risp simulate' has written") from error
