"""Training of RISP: cost of a step with each loss, waiting for data, and memory over an epoch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.memory import resident_bytes
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from risp_torch.risp import Batch, DatasetSettings, NetworkSettings, RendererSource, RispNetwork, ShardSource, generate, load_task
from risp_torch.risp.task import training_scene
from risp_torch.risp.training.feed import Feed
from risp_torch.risp.training.losses import error_and_gradient_norm, error_and_jacobian_norm, state_error
from risp_torch.risp.training.ranks import Ranks

TITLE = "Training of RISP"

SIZE, BATCH_SIZE = 64, 16
STEP_RATIO_TARGET, WAITING_FRACTION_TARGET = 3.5, 0.10  # of a step with Eq. 12 over a plain one; share of the time without data
TO_MILLIONS = 1e-6

Loss = Callable[[RispNetwork, Batch], torch.Tensor]


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer widths, pictures and repeats.
    """
    scene = training_scene("cube", SIZE)
    task = load_task("cube", scene)
    settings = DatasetSettings(images=128 if quick else 512, size=SIZE)
    batch = RendererSource(scene, task, settings).batch(range(BATCH_SIZE))
    yield _steps_table(batch, task.head.size, widths=(16,) if quick else (16, 32, 64), repeats=3 if quick else 8)
    with tempfile.TemporaryDirectory() as folder:
        generate(scene, task, settings, Path(folder) / "data", progress=False)
        yield _epoch_table(ShardSource(Path(folder) / "data", scene, task), task.head.size)


def _steps_table(batch: Batch, outputs: int, *, widths: tuple[int, ...], repeats: int) -> Table:
    """Time of one step of Adam with each loss."""
    psi_size = batch.jacobian.shape[1]
    table = Table(
        f"One step, batch {BATCH_SIZE}, {SIZE} px, {outputs} outputs, {psi_size} entries of psi",
        ["width", "plain [ms]", "Eq. 12 [ms]", "over plain", "Eq. 10 [ms]", "over plain", "Eq. 12 [images/s]"],
    )
    for width in widths:
        network = RispNetwork(NetworkSettings(outputs=outputs, size=SIZE, width=width))
        best_seconds = best_times({name: adam_step(network, batch, loss) for name, loss in LOSSES.items()}, repeats=repeats)
        plain, error, jacobian = (best_seconds[name] for name in LOSSES)
        table.add(
            width, format_number(1e3 * plain), format_number(1e3 * error), format_ratio(error / plain),
            format_number(1e3 * jacobian), format_ratio(jacobian / plain),
            format_number(BATCH_SIZE / error),
        )  # fmt: skip
    table.remarks.append(f"Target: Eq. 12 at most {STEP_RATIO_TARGET} times a plain step. Every step includes Adam's update.")
    return table


def adam_step(network: RispNetwork, batch: Batch, loss: Loss) -> Callable[[], None]:
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(network, batch).backward()
        optimizer.step()

    return step


def _plain_loss(network: RispNetwork, batch: Batch) -> torch.Tensor:
    return state_error(network(batch.images.permute(0, 3, 1, 2)), batch.outputs).mean()


def error_loss(network: RispNetwork, batch: Batch) -> torch.Tensor:
    return sum(error_and_gradient_norm(network, batch.images.permute(0, 3, 1, 2), batch.outputs, batch.jacobian)).mean()


def _jacobian_loss(network: RispNetwork, batch: Batch) -> torch.Tensor:
    return sum(error_and_jacobian_norm(network, batch.images.permute(0, 3, 1, 2), batch.outputs, batch.jacobian)).mean()


LOSSES: dict[str, Loss] = {"plain": _plain_loss, "error": error_loss, "jacobian": _jacobian_loss}


def _epoch_table(source: ShardSource, outputs: int) -> Table:
    """Waiting for shards and memory, over epochs of steps with Eq. 12."""
    network = RispNetwork(NetworkSettings(outputs=outputs, size=SIZE, width=16))
    feed = Feed(source, len(source), BATCH_SIZE, seed=0, ranks=Ranks(), jacobian=True)
    table = Table(
        f"Epochs over {len(source)} pictures from shards, width 16, Eq. 12",
        ["epoch", "images/s", "waiting for data", "resident memory [MB]"],
    )
    for epoch in range(3):
        start_time, waited_before = time.perf_counter(), feed.waiting_time
        for batch in feed.epoch(epoch):
            adam_step(network, batch, error_loss)()
        seconds = time.perf_counter() - start_time
        waiting_fraction = (feed.waiting_time - waited_before) / seconds
        images = feed.steps * BATCH_SIZE
        table.add(
            epoch + 1,
            format_number(images / seconds),
            f"{100 * waiting_fraction:.1f} %",
            format_number(TO_MILLIONS * resident_bytes()),
        )
    table.remarks.append(
        f"Target: waiting at most {100 * WAITING_FRACTION_TARGET:.0f} % of the time, and memory that does not grow."
    )
    return table
