"""The oracle: true states against simulated ones, without any picture (RISP, ICLR 2022, section 4.1)."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.bridge import bridge_dtype
from risp_torch.bridge.checks import bridge_device
from risp_torch.inversion.losses.loss import Loss
from risp_torch.scene import Scene, States
from risp_torch.scene.states import joined_placement, placement_shape
from risp_torch.state_heads import StateHead
from ti_sim.base.errors import UserError


class StateLoss(Loss):
    """Mean squared difference of the state head's outputs: what an inversion would reach if a film told the states exactly."""

    kind = "state"
    needs_film = False
    lasting = True

    def __init__(self, head: StateHead, states: States | torch.Tensor | np.ndarray | str | Path) -> None:
        """A loss by true states.

        Args:
            head: what of the states counts, and in which units.
            states: poses [T, N, 7] of the true motion (m, unit quaternions; of a batch [1, T, N, 7]; with deformable bodies as
                ``Scene.poses`` has it), what ``scene.rollout`` returned, or the states.npz of ``risp simulate``.

        Raises:
            UserError: the file holds no states (arrays of Python objects are not read).
        """
        self.head, self.path, self._bodies = head, "", None
        if isinstance(states, str | Path):
            self.path = str(states)
            poses, self._bodies = read_states(Path(states))
        else:
            poses = states.placement if isinstance(states, States) else states
        self.placement = torch.as_tensor(poses).detach().to(dtype=bridge_dtype(), device=bridge_device())
        if self.placement.ndim == 4 and self.placement.shape[0] == 1:
            self.placement = self.placement[0]

    def check(self, scene: Scene) -> None:
        """Compare the states with bodies and film of the scene (``Loss.check``)."""
        self.head.check(scene)
        what = f"the states in {self.path}" if self.path else "the true states"
        names = scene.part_names
        if self._bodies is not None and self._bodies != names:
            raise UserError(f"{what} are of {', '.join(self._bodies)}, and the scene has {', '.join(names)}: simulate this scene")
        wanted = (scene.frames + 1, *placement_shape(scene))
        shape = tuple(self.placement.shape)
        if self.placement.ndim != 3 or shape[1:] != wanted[1:] or shape[0] < wanted[0]:
            raise UserError(f"{what} have shape {shape}, and {wanted} is needed: simulate the scene's whole film")
        if not torch.isfinite(self.placement[: wanted[0]]).all():
            raise UserError(f"{what} have numbers that are not finite: give the states of a simulation that did not diverge")

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """The head's outputs of the motion (``Loss.observe``)."""
        placement = states.placement
        return self.head.outputs(scene, placement if frames is None else placement[:, list(frames)])

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The head's outputs of the true states (``Loss.of_target``)."""
        return self.head.outputs(scene, self.placement[list(frames)])

    def pictures(self, scene: Scene) -> torch.Tensor | None:
        """The true motion in the scene's own look (``Loss.pictures``)."""
        if scene.camera is None:
            return None
        with torch.no_grad():
            return scene.render(self.placement[None, : scene.frames + 1])[0]

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Every output by itself (``Loss.blocks``)."""
        return np.arange(int(np.prod(shape)))

    def to_json(self) -> dict[str, Any]:
        """The head and a checksum of the states (``Loss.to_json``)."""
        digest = sha256(self.placement.double().cpu().numpy().tobytes()).hexdigest()
        return {"kind": self.kind, "states": self.path or None, "states_sha256": digest, "head": self.head.to_json()}


def read_states(path: Path) -> tuple[torch.Tensor, list[str] | None]:
    """Where everything is (``Scene.poses``) [T, ...], and names of the bodies (None where there are none), of a states.npz.

    Raises:
        UserError: there is no such file, or it holds no states.
    """
    if not path.is_file():
        raise UserError(f"the states {path} do not exist: give the states.npz that 'risp simulate' has written")
    try:
        with np.load(path, allow_pickle=False) as file:
            poses = torch.as_tensor(np.asarray(file["body_q"], dtype=np.float64))
            given = [list(file[key]) for key in ("body_names", "deformable_names") if key in file]
            names = [str(name) for some in given for name in some] if given else None
            if "particle_q" in file:
                poses = joined_placement(poses, torch.as_tensor(np.asarray(file["particle_q"], dtype=np.float64)))
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} holds no states: give the states.npz that 'risp simulate' has written") from error
    return poses, names
