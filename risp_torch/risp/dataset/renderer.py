"""Training pictures rendered on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch.risp.dataset.batch import Batch
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.scene.numbers import constant
from risp_torch.scene.rendering_parameters import image_jacobian
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene


class RendererSource:
    """The pictures of a dataset, rendered on demand: bit-identical to those of ``ShardSource``.

    Pictures are rendered between training steps, not concurrently, because kernels and training compete for the cores.

    States and appearances are rounded to single precision before use, in any working precision.
    """

    concurrent = False

    @checked
    def __init__(self, scene: Scene, task: RispTask, settings: DatasetSettings) -> None:
        """Pictures of a scene's training domain.

        Args:
            scene: rendered by its first camera, whose pictures have the size of the settings (``training_scene``).
            task: task with its states and appearances.
            settings: settings of the dataset.

        Raises:
            UserError: the camera's pictures have another size, or the scene has no camera.
        """
        camera = scene.camera
        if camera is None or {camera.width, camera.height} != {settings.size}:
            have = "no camera" if camera is None else f"pictures of {camera.width} x {camera.height} pixels"
            raise UserError(
                f"the scene has {have} and the dataset pictures of {settings.size} x {settings.size}: make the scene with "
                "training_scene(name, size)"
            )
        self.scene, self.task, self.settings = scene, task, settings
        self.size, self.record = settings.size, settings.record
        self._parameters = task.domains.training.parameters

    def __len__(self) -> int:
        """Number of pictures."""
        return self.settings.images

    def batch(self, indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        """Render pictures (``Source.batch``).

        Raises:
            UserError: an index does not exist, or a picture has derivatives that are not finite in half precision.
        """
        return self.batch_and_states(indices, jacobian=jacobian)[0]

    def batch_and_states(self, indices: Sequence[int], *, jacobian: bool = True) -> tuple[Batch, torch.Tensor]:
        """Pictures as in ``batch``, and the poses of their bodies [B, N, 7] float32, all on the device of kernels."""
        check_indices(indices, len(self))
        numbers = np.stack([self.settings.appearance(i, self._parameters.size) for i in indices])
        sampled = [self.task.head.sample(self.scene, self.settings.state_generator(i)) for i in indices]
        states = torch.stack(sampled).float()
        psi, body_q = constant(numbers), constant(states)
        with torch.no_grad():
            outputs = self.task.head.outputs(self.scene, body_q)
            if jacobian:
                images, columns = image_jacobian(self.scene, body_q, psi, self._parameters)
                columns = _saturated(images, columns)
                _check_finite(columns, indices, self._parameters.labels)
            else:
                images, columns = self.scene.render(body_q[:, None], self._parameters.values(psi))[:, 0], None
        batch = Batch(
            images=images.clamp(0.0, 1.0).float(),
            jacobian=columns,
            outputs=outputs.float(),
            psi=torch.from_numpy(numbers).to(images.device),
        )
        return batch, states.to(images.device)


def check_indices(indices: Sequence[int], images: int) -> None:
    """Raise a UserError for indices of pictures that do not exist.

    Raises:
        UserError: an index is out of range, or there are none.
    """
    if not len(indices):
        raise UserError("an empty batch was requested: give at least one index")
    if min(indices) < 0 or max(indices) >= images:
        invalid = min(indices) if min(indices) < 0 else max(indices)
        raise UserError(f"picture {invalid} was requested, but the dataset has the pictures 0 to {images - 1}")


def _saturated(images: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Derivatives in half precision of pictures clipped to 1 like a film; they are zero where a picture is saturated."""
    return (columns * (images <= 1.0)[:, None]).half()


def _check_finite(columns: torch.Tensor, indices: Sequence[int], labels: Sequence[str]) -> None:
    is_finite = torch.isfinite(columns).flatten(2).all(dim=2)
    if not is_finite.all():
        row, column = (~is_finite).nonzero()[0].tolist()
        raise UserError(
            f"the derivative of picture {indices[row]} with respect to {labels[column]} is not finite in half precision: "
            "narrow its range, or make the edges softer (sigma)"
        )
