"""Training data of RISP: pictures with derivatives a second, their bytes, and how fast they are read."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.table import Table, number, times
from benchmarks.timing import best_times
from risp_torch import Scene
from risp_torch.risp import DatasetSettings, Generated, RendererSource, RispTask, ShardSource, generate, load_task
from risp_torch.risp.task import training_scene

TITLE = "Training data of RISP"

SIZE, BATCH, SHARD = 64, 16, 128
RATE_TARGET = 100  # images/s with derivatives, written
STEP, READ_TARGET = 0.040, 5.0  # a training step of this batch [s], over which a batch is read this many times


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer pictures and repeats.
    """
    scene = training_scene("cube", SIZE)
    task = load_task("cube", scene)
    settings = DatasetSettings(images=(2 if quick else 8) * SHARD, size=SIZE, shard_images=SHARD)
    RendererSource(scene, task, settings).batch(range(BATCH))  # compiles the kernels
    with tempfile.TemporaryDirectory() as folder:
        generated = generate(scene, task, settings, Path(folder) / "data")
        yield _generation_table(scene, task, generated, repeats=2 if quick else 5)
        yield _reading_table(ShardSource(generated.folder, scene, task), batches=20 if quick else 200)


def _generation_table(scene: Scene, task: RispTask, generated: Generated, *, repeats: int) -> Table:
    """Rates of rendering alone, with derivatives, and with writing."""
    source, columns = RendererSource(scene, task, generated.plan.settings), len(generated.plan.labels)
    indices = range(2 * BATCH)
    best_seconds = best_times(
        {jacobian: lambda jacobian=jacobian: source.batch(indices, jacobian=jacobian) for jacobian in (False, True)},
        repeats=repeats,
    )
    rates = {
        "pictures alone": len(indices) / best_seconds[False],
        f"with {columns} derivatives": len(indices) / best_seconds[True],
        f"with {columns} derivatives, written": generated.images / generated.seconds,
    }
    table = Table(f"Making pictures of the cube, {SIZE} px", ["what", "images/s", "ms an image", "over pictures alone"])
    for what, rate in rates.items():
        table.add(what, number(rate), number(1e3 / rate), times(rates["pictures alone"] / rate))
    table.remarks.append(
        f"Drawing of states included. Written: {generated.images:,} pictures in {number(generated.seconds)} s, with checksums "
        f"and sheets, {number(generated.bytes / generated.images / 1e3)} kB each; aim: at least {RATE_TARGET} images/s."
    )
    return table


def _reading_table(source: ShardSource, *, batches: int) -> Table:
    """Times of random batches from files in the page cache."""
    rng = np.random.default_rng(0)
    table = Table(f"Reading random batches of {BATCH}", ["what", "ms a batch", "images/s", "MB/s", "batches in a step"])
    for what, jacobian in (("pictures", False), ("pictures and derivatives", True)):
        seconds, batch_bytes = [], 0
        for indices in rng.integers(len(source), size=(batches, BATCH)).tolist():
            start_time = time.perf_counter()
            batch = source.batch(indices, jacobian=jacobian)
            seconds.append(time.perf_counter() - start_time)
            batch_bytes = sum(t.nbytes for t in vars(batch).values() if t is not None)
        median = float(np.median(seconds))
        table.add(what, number(1e3 * median), number(BATCH / median), number(batch_bytes / median / 1e6), number(STEP / median))
    table.remarks.append(
        f"Median of {batches} batches; the files are in the system's memory. A step: {1e3 * STEP:.0f} ms; aim: at least "
        f"{READ_TARGET:g} batches in a step."
    )
    return table
