"""Settings of a training run, and two presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from risp_torch.files.suggest import unknown_name_error
from risp_torch.risp.network.resnet import HeadKind, NetworkSettings
from risp_torch.risp.training.losses import Norm, Regulariser
from ti_sim.base.rules import Count, NotNegative, Positive, Rule, Seed, UnitInterval, checked

if TYPE_CHECKING:
    from risp_torch.risp.task import RispTask

Precision = Literal["f32", "bf16"]


@checked
@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of training.

    Attributes:
        gamma: weight of the gradient loss at the end of its warm-up.
        regulariser: "error" (RISP, Eq. 12), "outputs" (Eq. 10) or "none"; "none" with ``appearance_jitter`` 0 is no-grad: domain
            randomisation alone.
        norm: "norm" or "squared", see ``losses``.
        interval: the gradient loss is used in every ``interval``-th step, with this factor, because its second derivatives
            take most of a step's time (Karras et al., CVPR 2020, appendix B: lazy regularisation); 1 uses it in every step.
        appearance_jitter: fraction of the step to other appearances along dI/dpsi, different in every epoch
            (``AppearanceJitter``); 0 for none.
        warmup: share of the steps over which gamma grows linearly from 0.
        epochs: passes over the pictures.
        batch_size: pictures per step over all ranks.
        learning_rate: initial learning rate of Adam; decays by a cosine to 0 over all steps.
        weight_decay: weight decay of Adam.
        width, head: width and head of the network (``NetworkSettings``).
        precision: "f32", or "bf16" for the network's arithmetic (weights and losses stay f32).
        validation: held-out fraction of the pictures, the last ones.
        exposure_augmentation: whether to vary exposure, tone curve and light in every epoch (``vary_exposure``).
        background_augmentation: whether to add patterns to background and ground in every epoch (``BackgroundAugmentation``).
        seed: seed of the initial weights and of the order of the pictures.
    """

    gamma: NotNegative
    regulariser: Regulariser = "error"
    norm: Norm = "norm"
    interval: Count = 1
    appearance_jitter: UnitInterval = 0.0
    warmup: UnitInterval = 0.5
    epochs: Count
    batch_size: Count = 16
    learning_rate: Positive
    weight_decay: NotNegative = 1e-6
    width: Count
    head: HeadKind = "spatial"
    precision: Precision = "f32"
    validation: Annotated[float, Rule(above=0, below=1)] = 0.05
    exposure_augmentation: bool = True
    background_augmentation: bool = True
    seed: Seed = 0

    @property
    def uses_jacobian(self) -> bool:
        """Whether dI/dpsi is used."""
        return self.regulariser != "none" and self.gamma > 0

    def network(self, *, outputs: int, size: int) -> NetworkSettings:
        """The shape of the network for a state head and a size of picture."""
        return NetworkSettings(outputs=outputs, size=size, width=self.width, head=self.head)

    def has_penalty(self, step: int) -> bool:
        """Whether step ``step``, counted from 0, has the gradient loss."""
        return self.uses_jacobian and step % self.interval == 0

    def gamma_at(self, progress: float) -> float:
        """gamma at a fraction of all steps, linear warm-up from 0 (RISP, B.2)."""
        return self.gamma if self.warmup == 0 else self.gamma * min(1.0, progress / self.warmup)

    def rate_at(self, progress: float) -> float:
        """Learning rate at a fraction of all steps, cosine to 0 (RISP, B.2)."""
        return 0.5 * self.learning_rate * (1 + math.cos(math.pi * progress))


# gamma of the paper preset is ``RispTask.gamma``.
PRESETS: dict[str, TrainSettings] = {
    # RISP, B.2, with ResNet-18's own width.
    "paper": TrainSettings(gamma=1.0, epochs=100, learning_rate=1e-2, width=64),
    # For two CPU cores and some thousand pictures of 64 pixels, whose small network tolerates only a small gradient loss.
    "quick": TrainSettings(gamma=0.02, interval=4, appearance_jitter=0.75, epochs=30, learning_rate=3e-3, width=16),
}


@checked
def preset(name: str, task: RispTask, **changes: Any) -> TrainSettings:
    """A preset for a scene, with some settings changed.

    Args:
        name: "quick" or "paper".
        task: RISP task of the scene, with gamma for the paper preset.
        changes: settings in place of the preset's.

    Raises:
        UserError: the preset is unknown, or a setting is invalid.
    """
    if name not in PRESETS:
        raise unknown_name_error("preset", name, list(PRESETS))
    task_settings = {"gamma": task.gamma} if name == "paper" else {}
    return replace(PRESETS[name], **(task_settings | changes))
