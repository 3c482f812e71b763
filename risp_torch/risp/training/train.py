"""The training loop: every epoch ends with a checkpoint, from which a killed run is resumed with bit-identical results."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from risp_torch.files.memory import check_memory
from risp_torch.files.run_folder import RunFolder, to_jsonable
from risp_torch.risp.dataset.batch import Batch, Source
from risp_torch.risp.network.file import check_device, save_network
from risp_torch.risp.network.resnet import NetworkSettings, RispNetwork, denormals_flushed
from risp_torch.risp.task import RispTask
from risp_torch.risp.training.appearance_jitter import AppearanceJitter
from risp_torch.risp.training.background_augmentation import BackgroundAugmentation
from risp_torch.risp.training.exposure import vary_exposure
from risp_torch.risp.training.feed import Feed
from risp_torch.risp.training.logs import TEST, TensorBoardLog, write_table
from risp_torch.risp.training.losses import error_and_gradient_norm, error_and_jacobian_norm, state_error
from risp_torch.risp.training.ranks import Ranks, joined_ranks, rank_from_environment
from risp_torch.risp.training.settings import TrainSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from risp_torch.risp.evaluation.test_set import TestSet

_BATCH_SIZE = 100  # test pictures per batch
NETWORK_FILE, TABLE_FILE, TENSORBOARD_FOLDER = "network.safetensors", "training.csv", "tensorboard"


@checked
def train(
    scene: Scene,
    task: RispTask,
    source: Source,
    settings: TrainSettings,
    *,
    out: str | Path,
    device: str | torch.device = "cpu",
    test: TestSet | None = None,
    progress: bool = True,
) -> Path:
    """Train a network (RISP, ICLR 2022, B.2).

    Under ``torchrun`` every process calls this with the same arguments; the first one writes.

    Args:
        scene, task: scene and RISP task of the pictures.
        source: source of the pictures.
        settings: settings of the run.
        out: folder for the network, its logs and checkpoints; an unfinished run in it with these settings is resumed.
        device: device of training.
        test: pictures for evaluation after every epoch (column "test" of training.csv).
        progress: whether to show a progress bar.

    Returns:
        Path of network.safetensors.

    Raises:
        UserError: there is no such device; there are too few pictures, the batch is not divisible by the ranks, or the pictures'
            size is not valid for a network; see ``RunFolder.open_or_create``.
        DivergenceError: the loss, the error, the penalty or the validation error of an epoch is not finite.
    """
    check_device(device)
    device = torch.device(device)
    # Before ranks wait for each other and before a folder is created.
    _check(source, settings, rank_from_environment())
    network_settings = settings.network(outputs=task.head.size, size=source.size)
    with joined_ranks(device) as ranks:
        record = {"scene": scene.name, "task": task.to_json(), "training": {**asdict(settings), "data": source.record}}
        test_record = {} if test is None else {"test": {"renderer": test.renderer, "pictures": len(test)}}
        run_settings = {**record, **test_record, "ranks": ranks.count, "device": device.type}
        folder = RunFolder.open_or_create(out, run_settings) if ranks.first else RunFolder(Path(out), to_jsonable(run_settings))
        ranks.wait()
        background_augmentation = (
            BackgroundAugmentation(task.domains.training.parameters) if settings.background_augmentation else None
        )
        background_psi_index = None if background_augmentation is None else background_augmentation.background_psi_index
        appearance_jitter = (
            AppearanceJitter(task.domains.training.parameters, settings.appearance_jitter, fixed_psi_index=background_psi_index)
            if settings.appearance_jitter > 0
            else None
        )
        run = _TrainingRun(
            source, settings, network_settings, folder, ranks, device, background_augmentation, appearance_jitter, test
        )
        with denormals_flushed():  # from the first step on, so a resumed run rounds identically
            run.fit(progress=progress)
        path = Path(out) / NETWORK_FILE
        if ranks.first:
            run.finish(scene, task, path, record)
        ranks.wait()
    return path


@dataclass
class _EpochMeans:
    """Sums over an epoch's steps, and the means computed from them.

    Attributes:
        sums: [3] float64, of the losses, the batches' mean errors and the batches' mean penalties.
        steps: number of steps.
        penalties: number of steps with a penalty.
    """

    sums: torch.Tensor
    steps: int = 0
    penalties: int = 0

    def add(self, loss: torch.Tensor, error: torch.Tensor, penalty: torch.Tensor) -> None:
        self.sums[:2] += torch.stack([loss.detach(), error.detach().mean()]).to(self.sums)
        self.steps += 1
        if len(penalty):
            self.sums[2] += penalty.detach().mean().to(self.sums)
            self.penalties += 1

    def of(self, ranks: Ranks) -> list[float]:
        """Mean [loss, error, penalty] over the steps and the ranks; the penalty's over the steps with a penalty."""
        return (ranks.mean(self.sums) / self.sums.new_tensor([self.steps, self.steps, max(1, self.penalties)])).tolist()


class _TrainingRun:
    """One training run in one process."""

    def __init__(
        self, source: Source, settings: TrainSettings, network_settings: NetworkSettings, folder: RunFolder, ranks: Ranks,
        device: torch.device, background_augmentation: BackgroundAugmentation | None,
        appearance_jitter: AppearanceJitter | None, test: TestSet | None,
    ) -> None:  # fmt: skip
        self.background_augmentation, self.appearance_jitter = background_augmentation, appearance_jitter
        self.test = None if test is None else (test.images, test.outputs)
        self.source, self.settings, self.folder, self.ranks, self.device = source, settings, folder, ranks, device
        num_training_pictures = len(source) - held_out_count(len(source), settings)
        self.feed = Feed(
            source,
            num_training_pictures,
            settings.batch_size,
            seed=settings.seed,
            ranks=ranks,
            jacobian=settings.uses_jacobian
            or appearance_jitter is not None
            or (background_augmentation is not None and background_augmentation.background_psi_index is not None),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network = RispNetwork(network_settings).to(device)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.history: list[dict[str, float]] = []
        self._resume()
        self.parallel_network = ranks.data_parallel(self.network)

    def fit(self, *, progress: bool) -> None:
        """Run the remaining epochs."""
        first_epoch, epochs = len(self.history), self.settings.epochs
        board = TensorBoardLog(self.folder.path / TENSORBOARD_FOLDER, first_epoch=first_epoch) if self.ranks.first else None
        total_steps, done_steps = epochs * self.feed.steps, first_epoch * self.feed.steps
        with tqdm(
            total=total_steps, initial=done_steps, desc="training", unit="step", disable=not (progress and self.ranks.first)
        ) as bar:
            for epoch in range(first_epoch, epochs):
                row = self._epoch(epoch, bar)
                _check_finite(row, self.settings.learning_rate)
                self.history.append(row)
                if board is not None:
                    write_table(self.folder.path / TABLE_FILE, self.history)
                    board.add(row)
                    self._save()  # last: an epoch missing in the checkpoint is repeated
                bar.set_postfix(error=f"{row['error']:.3f}", validation=f"{row['validation']:.3f}")
        if board is not None:
            board.close()

    def _epoch(self, epoch: int, bar: tqdm) -> dict[str, float]:
        start_time, waiting_time_before = time.perf_counter(), self.feed.waiting_time
        means = _EpochMeans(torch.zeros(3, dtype=torch.float64, device=self.device))
        self.parallel_network.train()
        for step, batch in enumerate(self.feed.epoch(epoch)):
            progress, global_step = (epoch + step / self.feed.steps) / self.settings.epochs, epoch * self.feed.steps + step
            seed = (self.settings.seed, epoch, step, self.ranks.rank)
            batch = self._augmented(batch.to(self.device), self.settings.has_penalty(global_step), seed=seed)
            means.add(*self._step(batch, global_step, progress))
            bar.update()
        seconds = time.perf_counter() - start_time
        loss, error, penalty = means.of(self.ranks)
        outputs = self.network.settings.outputs
        row = {
            "epoch": epoch, "rate": self.settings.rate_at(progress), "gamma": self.settings.gamma_at(progress), "loss": loss,
            "error": error / outputs, "penalty": penalty, "validation": self._validation_error(), "seconds": seconds,
            "waited": (self.feed.waiting_time - waiting_time_before) / seconds,
        }  # fmt: skip
        return row if self.test is None else row | {TEST: self._test_error()}

    def _augmented(self, batch: Batch, derivatives: bool, *, seed: tuple[int, ...]) -> Batch:
        """The batch with varied appearance, background and exposure."""
        if self.appearance_jitter is not None:
            batch = self.appearance_jitter(batch, seed=seed)
        if self.background_augmentation is not None:
            batch = self.background_augmentation(batch, seed=seed, derivatives=derivatives)
        if self.settings.exposure_augmentation:
            images, jacobian = vary_exposure(batch.images, batch.jacobian if derivatives else None, seed=seed)
            batch = replace(batch, images=images, jacobian=jacobian)
        return batch

    def _step(self, batch: Batch, step: int, progress: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step of Adam on the loss of a batch (RISP, Eq. 8 with Eq. 10 or Eq. 12); ``step`` counts from 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate_at(progress)
        error, penalty = self._losses(batch, penalty=self.settings.has_penalty(step))
        loss = error.mean()
        if len(penalty):
            loss = loss + self.settings.interval * self.settings.gamma_at(progress) * penalty.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss, error, penalty

    def _losses(self, batch: Batch, *, penalty: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Error [B] and penalty [B], or [0] without a penalty."""
        images, outputs = batch.images.permute(0, 3, 1, 2).contiguous(), batch.outputs
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bf16"):
            if not penalty:
                return state_error(self.parallel_network(images).float(), outputs), torch.zeros(0, device=self.device)
            error_and_penalty = error_and_jacobian_norm if self.settings.regulariser == "outputs" else error_and_gradient_norm
            return error_and_penalty(self.parallel_network, images, outputs, batch.jacobian, norm=self.settings.norm)

    def _validation_error(self) -> float:
        """Mean L1 error of an output over the held-out pictures."""
        first, size = self.feed.count, self.settings.batch_size
        self.network.eval()
        errors = []
        for start in range(first, len(self.source), size):
            batch = self.source.batch(range(start, min(start + size, len(self.source))), jacobian=False)
            errors.append(self._errors(batch.images, batch.outputs))
        return float(torch.cat(errors).mean())

    def _test_error(self) -> float:
        """Mean L1 error of an output over the test pictures."""
        self.network.eval()
        chunks = zip(*(tensor.split(_BATCH_SIZE) for tensor in self.test), strict=True)
        return float(torch.cat([self._errors(images, outputs) for images, outputs in chunks]).mean())

    def _errors(self, images: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """Mean L1 error of an output for every picture."""
        with torch.no_grad():
            return (self.network.read(images.to(self.device)) - outputs.to(self.device)).abs().mean(dim=1)

    def finish(self, scene: Scene, task: RispTask, path: Path, record: dict[str, Any]) -> None:
        """Write the network, a plot of its losses, a sheet of predictions and the result."""
        from risp_torch.risp.training.pictures import plot_training, prediction_sheet

        save_network(path, self.network, record)
        plot_training(self.folder.path / "training.png", self.history)
        indices = range(self.feed.count, min(self.feed.count + 16, len(self.source)))
        validation_batch = self.source.batch(indices, jacobian=False).to("cpu")
        with torch.no_grad():
            predicted = self.network.eval().read(validation_batch.images.to(self.device)).cpu()
        prediction_sheet(
            self.folder.path / "predictions.png", validation_batch.images, predicted, validation_batch.outputs, task.head
        )
        seconds = sum(row["seconds"] for row in self.history)
        self.folder.write_result(
            {"schema": 1, "scene": scene.name, "network": path.name, "last": self.history[-1], "seconds": seconds}
        )

    def _save(self) -> None:
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
        self.folder.save_checkpoint(tensors, {"history": self.history})

    def _resume(self) -> None:
        """Load the last checkpoint."""
        saved = self.folder.load_checkpoint()
        if saved is None:
            return
        tensors, metadata = saved
        weights = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = tensor
        self.network.load_state_dict(weights)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.history = metadata["history"]


def held_out_count(pictures: int, settings: TrainSettings) -> int:
    """Number of held-out pictures, the last ones."""
    return max(1, round(settings.validation * pictures))


def _check_finite(row: Mapping[str, float], rate: float) -> None:
    """Raise a DivergenceError if an epoch ended with numbers that are not finite."""
    wrong = [name for name in ("loss", "error", "penalty", "validation") if not math.isfinite(row[name])]
    if wrong:
        raise DivergenceError(
            f"the training diverged: the {wrong[0]} of epoch {row['epoch'] + 1} is not finite: take a smaller learning rate than "
            f"{rate:g} (--learning-rate) and another folder", body="", step=0,
        )  # fmt: skip


def _check(source: Source, settings: TrainSettings, ranks: Ranks) -> None:
    # Every epoch has its own order of the pictures.
    check_memory(2 * np.dtype(np.int64).itemsize * len(source), f"an order of {len(source)} pictures", "take fewer (--images)")
    num_training_pictures = len(source) - held_out_count(len(source), settings)
    if num_training_pictures < settings.batch_size:
        raise UserError(
            f"the data hold {len(source)} pictures, {max(num_training_pictures, 0)} of them to train on, and a batch takes "
            f"{settings.batch_size}: make more, or take smaller batches"
        )
    if settings.batch_size % ranks.count:
        raise UserError(f"a batch of {settings.batch_size} is not divisible by {ranks.count} ranks: change --batch")


def parameter_count(network: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(p.numel() for p in network.parameters())
