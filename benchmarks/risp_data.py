"""Training data of RISP: pictures with derivatives a second, their bytes, and how fast they are read."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from risp_torch import Scene
from risp_torch.risp import DatasetSettings, Generated, RendererSource, RispTask, ShardSource, generate, load_task
from risp_torch.risp.task import training_scene

TITLE = "Training data of RISP"

SIZE, BATCH_SIZE, SHARD_IMAGES = 64, 16, 128
RATE_TARGET = 100  # images/s with derivatives, written
TRAINING_STEP, READS_PER_STEP_TARGET = 0.040, 5.0  # s of a training step; least number of batches read in that time


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer pictures and repeats.
    """
    scene = training_scene("cube", SIZE)
    task = load_task("cube", scene)
    settings = DatasetSettings(images=(2 if quick else 8) * SHARD_IMAGES, size=SIZE, shard_images=SHARD_IMAGES)
    RendererSource(scene, task, settings).batch(range(BATCH_SIZE))  # compiles the kernels
    with tempfile.TemporaryDirectory() as folder:
        generated = generate(scene, task, settings, Path(folder) / "data")
        yield _generation_table(scene, task, generated, repeats=2 if quick else 5)
        yield _reading_table(ShardSource(generated.folder, scene, task), batches=20 if quick else 200)


def _generation_table(scene: Scene, task: RispTask, generated: Generated, *, repeats: int) -> Table:
    """Rates of rendering alone, with derivatives, and with writing."""
    source, psi_size = RendererSource(scene, task, generated.plan.settings), len(generated.plan.labels)
    indices = range(2 * BATCH_SIZE)
    best_seconds = best_times(
        {jacobian: lambda jacobian=jacobian: source.batch(indices, jacobian=jacobian) for jacobian in (False, True)},
        repeats=repeats,
    )
    rates = {
        "pictures alone": len(indices) / best_seconds[False],
        f"with {psi_size} derivatives": len(indices) / best_seconds[True],
        f"with {psi_size} derivatives, written": generated.images / generated.seconds,
    }
    table = Table(f"Making pictures of the cube, {SIZE} px", ["what", "images/s", "ms an image", "over pictures alone"])
    for what, rate in rates.items():
        table.add(what, format_number(rate), format_number(1e3 / rate), format_ratio(rates["pictures alone"] / rate))
    table.remarks.append(
        f"Sampling of states included. Written: {generated.images:,} pictures in {format_number(generated.seconds)} s, with "
        f"checksums "
        f"and sheets, {format_number(generated.bytes / generated.images / 1e3)} kB each; aim: at least {RATE_TARGET} images/s."
    )
    return table


def _reading_table(source: ShardSource, *, batches: int) -> Table:
    """Times of random batches from files in the page cache."""
    rng = np.random.default_rng(0)
    table = Table(f"Reading random batches of {BATCH_SIZE}", ["what", "ms a batch", "images/s", "MB/s", "batches in a step"])
    for what, jacobian in (("pictures", False), ("pictures and derivatives", True)):
        seconds, batch_bytes = [], 0
        for indices in rng.integers(len(source), size=(batches, BATCH_SIZE)).tolist():
            start_time = time.perf_counter()
            batch = source.batch(indices, jacobian=jacobian)
            seconds.append(time.perf_counter() - start_time)
            batch_bytes = sum(t.nbytes for t in vars(batch).values() if t is not None)
        median = float(np.median(seconds))
        table.add(
            what,
            format_number(1e3 * median),
            format_number(BATCH_SIZE / median),
            format_number(batch_bytes / median / 1e6),
            format_number(TRAINING_STEP / median),
        )
    table.remarks.append(
        f"Median of {batches} batches; the files are in the page cache. A step: {1e3 * TRAINING_STEP:.0f} ms; aim: at least "
        f"{READS_PER_STEP_TARGET:g} batches in a step."
    )
    return table
