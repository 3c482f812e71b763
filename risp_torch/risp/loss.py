"""Loss of RISP: a frozen network predicts the states of both films; the loss compares the predictions (ICLR 2022, Eq. 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from risp_torch.files.module_checksum import checksum
from risp_torch.inversion.losses.loss import PictureLoss, in_batches
from risp_torch.inversion.losses.whitening import APPEARANCES, Whitening
from risp_torch.risp.domains.domains import RasteriserDomain
from risp_torch.risp.network.file import check_network, load_network
from risp_torch.risp.task import RispTask
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_BATCH_SIZE = 512  # images per batch; for the derivative each needs one megabyte (width 32) or two (64)


class RispLoss(PictureLoss):
    """Mean squared difference of predicted states: target and simulation may have different appearances.

    As in RISP, each prediction counts as an independent measurement, unless the loss is ``whitened``.
    """

    kind = "risp"
    temporally_correlated = True
    non_smooth = True

    @checked
    def __init__(
        self,
        network: torch.nn.Module | str | Path,
        *,
        task: RispTask | None = None,
        loop: RasteriserDomain | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the network and the loop domain.

        Args:
            network: a file of ``risp train``, or a module whose method ``read`` predicts normalised outputs [..., S] from
                pictures [..., H, W, 3] (linear rgb). The loss uses a frozen copy.
            task: task of the scene; the size of its state head must be that of the network's output, and its loop domain is
                rendered.
            loop: domain in which the simulated film is rendered, the task's by default, else the scene's own appearance.
            record: origin of the network, as JSON values; that of the file by default.

        Raises:
            UserError: the file has no network, the module has no ``read``, or the loop domain has no fixed appearance.
        """
        self.task, self.path = task, "" if isinstance(network, torch.nn.Module) else str(network)
        self.record = dict(record or {})
        if not isinstance(network, torch.nn.Module):
            network, self.record = load_network(network)
        if not callable(getattr(network, "read", None)):
            raise UserError(f"{type(network).__name__} has no read(pictures): give a RispNetwork, or a module with this function")
        self.network = deepcopy(network).eval().requires_grad_(False).to(device=bridge_device(), dtype=bridge_dtype())
        self.loop = loop or (task.domains.loop if task else None)
        if self.loop is not None and self.loop.psi is None:
            raise UserError("the loop domain samples appearances: give it one fixed psi, RasteriserDomain(parameters, psi)")

    def check(self, scene: Scene) -> None:
        """Compare the network with scene and task (``Loss.check``)."""
        super().check(scene)
        if self.weights is not None:
            raise UserError("a RISP network reads whole pictures: omit pixel weights, or choose frames with the sampling")
        camera, settings = scene.camera, getattr(self.network, "settings", None)
        if settings is not None and (camera.width, camera.height) != (settings.size, settings.size):
            raise UserError(
                f"{self._name} takes images of {settings.size} x {settings.size} pixels, and the camera's are "
                f"{camera.width} x {camera.height}: use --size {settings.size} (resize_camera), or train one of this size"
            )
        self.appearance()  # raises for a psi of another length
        if self.task is None:
            self._outputs(camera)
            return
        self.task.head.check(scene)
        trained_head, task_head = self.record.get("task", {}).get("head"), self.task.head.to_json()
        if self.path:
            check_network(
                self.network, self.record, scene=scene.name, outputs=self.task.head.size, size=settings.size, path=self.path
            )
        elif (outputs := self._outputs(camera)) != self.task.head.size:
            raise UserError(
                f"{self._name} has {outputs} outputs and the scene's state head has {self.task.head.size}: "
                "train a network for this scene"
            )
        if trained_head is not None and _with_lists(trained_head) != _with_lists(task_head):
            raise UserError(
                f"{self._name} was trained for another state head than the scene's ({difference(trained_head, task_head)}): "
                "train it again, or give the scene's task the head that it was trained for"
            )

    def appearance(self) -> dict[str, torch.Tensor]:
        """The loop domain's fixed appearance (``Loss.appearance``)."""
        if self.loop is None:
            return {}
        psi = torch.tensor(self.loop.psi, dtype=bridge_dtype(), device=bridge_device())
        return self.loop.parameters.values(psi)

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Predicted outputs (``PictureLoss.read``)."""
        return in_batches(self.network.read, pictures, most=_BATCH_SIZE)

    def whitened(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int], *, seed: int = 0,
        appearances: int = APPEARANCES,
    ) -> RispLoss | None:  # fmt: skip
        """The loss, whitened by its errors over appearances of the training domain (``Loss.whitened``).

        None without a task, if a part of the appearance is unknown (its effect would count as an error), and if the appearances
        do not change the predictions.
        """
        if self.task is None:
            return None
        domain = self.task.domains.training
        sampled = [domain.parameters.values(row[None]) for row in domain.appearances(appearances, seed=seed)]
        if any(split_entry(name)[0] in sampled[0] for name in values):
            return None
        nominal_loss, whitened_loss = copy(self), copy(self)
        nominal_loss.whitening = None
        with torch.no_grad():
            nominal_predictions = nominal_loss.observe(scene, states, values, frames)
            predictions = torch.cat(
                [nominal_loss.observe(scene, states, {**values, **appearance}, frames) for appearance in sampled]
            )
        errors = predictions - nominal_predictions
        if not errors.any():
            return None
        whitened_loss.whitening = Whitening.of(errors)
        return whitened_loss

    def to_json(self) -> dict[str, Any]:
        """Checksum and origin of the network, and the loop domain (``Loss.to_json``)."""
        whitening = {} if self.whitening is None else {"whitening_looks": self.whitening.appearances}
        return {
            "kind": self.kind,
            "network": self.path or type(self.network).__name__,
            "network_sha256": sha256(Path(self.path).read_bytes()).hexdigest() if self.path else checksum(self.network),
            "domains": self.record.get("task", {}).get("domains"),
            "loop": None if self.loop is None else self.loop.to_json(),
        } | whitening

    def _outputs(self, camera: Camera) -> int:
        """Number of outputs of the network."""
        picture = torch.zeros((1, camera.height, camera.width, 3), dtype=bridge_dtype(), device=bridge_device())
        with torch.no_grad():
            outputs = self.network.read(picture)
        if outputs.ndim != 2 or len(outputs) != 1:
            raise UserError(
                f"{self._name} reads {tuple(outputs.shape)} from pictures {tuple(picture.shape)}: its read(pictures) must return "
                "one row of outputs a picture"
            )
        return outputs.shape[1]

    @property
    def _name(self) -> str:
        return f"the network {self.path}".strip()


def _with_lists(value: Any) -> Any:
    """Nested values with lists in place of tuples, as read from JSON."""
    if isinstance(value, Mapping):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value


def difference(stored: Mapping[str, Any], required: Mapping[str, Any]) -> str:
    """The first entry in which two plain mappings differ, as text."""
    for key in [*stored, *required]:
        if _with_lists(stored.get(key)) != _with_lists(required.get(key)):
            return f"{key} is {stored.get(key)} there and {required.get(key)} here"
    return "nothing"
