"""A GPU beside the CPU of the same machine: simulation, pictures, training, and whole commands.

A process has one device. ``tables`` therefore starts a process for each job and device, ``python -m benchmarks.gpu JOB``, which
prints a line of JSON for each finished row: a job that fails or takes too long keeps the rows before, and costs no other job.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

import torch

from benchmarks.articulated import make_case
from benchmarks.deformable import solid_case
from benchmarks.fem import CELLS, tetrahedra_case
from benchmarks.risp_train import BATCH_SIZE, adam_step, error_loss
from benchmarks.rollouts import Case, unit_frame_adjoints
from benchmarks.smoke import STEPS, forward_and_backward, vortices
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_time, best_times, wall_seconds
from risp_torch import Scene, load_scene
from risp_torch.risp import DatasetSettings, NetworkSettings, RendererSource, RispNetwork, load_task
from risp_torch.risp.task import training_scene
from risp_torch.scene.bridge import bridge_device
from ti_sim.base.runtime import require, start
from ti_sim.meshes.generators import box_tets
from ti_sim.rollout.adjoint import StoreAll
from ti_sim.smoke import SmokeInputs, SmokeModel, SmokeSettings, SmokeSolver

TITLE = "A GPU beside the CPU"

PROGRAM = (sys.executable, "-m", "benchmarks.gpu")
DEVICES = {"cuda": "GPU", "cpu": "CPU"}
TOTAL_SECONDS = 235.0
LEAST_SECONDS = 5.0  # of a job: with less time left, it is not started
COMMAND_SECONDS = 60.0  # limit of a command
FILM_SECONDS = 25.0  # more for its job, which makes the film that the command reads
STOPPING_SECONDS = 2.0  # of a job whose command is stopped
NO_GPU = "No CUDA device answers (or `--device cpu` leaves it out): the CPU is measured alone."

FRAMES = 9  # frame intervals of films of 10 pictures
LONG_FRAMES = 35  # of one world that is only simulated
RIGID_WORLDS = (1, 64, 8192)
HAND_WORLDS = (1, 64)
PICTURES = (10, 160, 1280)
WIDTHS = (16, 64)
IMAGES, DATASET_SIZE = 512, 64  # of the data set, and side of its pictures [pixels]
SMOKE_SIDE = 128

Values = Iterator[float]


@dataclass(frozen=True)
class Job:
    """Rows that one process measures on one device.

    Attributes:
        rows: label and unit of each row; "s" and "ms" are times, other units are rates.
        measure: yields the values of the rows in their order; its arguments are ``quick`` and the time left [s].
        seconds: limit of the process, its start included.
        side_by_side: whether both devices run at the same time, for long commands that leave most cores idle.
    """

    rows: tuple[tuple[str, str], ...]
    measure: Callable[[bool, float], Values]
    seconds: float
    side_by_side: bool = False


def _worlds(count: int) -> str:
    return f"{count:,} world{'s' * (count > 1)}"


def _both(labels: Sequence[str], unit: str) -> tuple[tuple[str, str], ...]:
    """Rows of a forward and a backward pass for each label."""
    return tuple((f"{label}, {kind}", unit) for label in labels for kind in ("forward", "backward"))


# -- jobs -----------------------------------------------------------------------------------------------------------------


def _toss(quick: bool, left: float) -> Values:
    for worlds in RIGID_WORLDS[:2] if quick else RIGID_WORLDS:
        scene = load_scene("toss")
        yield from _scene_rates(scene, worlds, frames=LONG_FRAMES if worlds == 1 else FRAMES)


def _scene_rates(scene: Scene, worlds: int, *, frames: int) -> Values:
    """Steps/s of all worlds, forward and backward, through ``Scene.rollout`` and torch autograd."""
    values = _gradient_values(scene, worlds)
    states = scene.rollout(values, worlds=worlds, frames=frames)
    bars = torch.ones_like(states.body_q), torch.ones_like(states.body_qd)
    wanted = [value for value in values.values() if value.requires_grad]
    seconds = best_times(
        {
            "forward": lambda: scene.rollout(values, worlds=worlds, frames=frames),
            "backward": lambda: torch.autograd.grad(
                (states.body_q, states.body_qd), wanted, bars, retain_graph=True, allow_unused=True
            ),
        },
        repeats=3,
    )
    steps = worlds * frames * scene.stepping.substeps
    yield from (steps / seconds[name] for name in ("forward", "backward"))


def _gradient_values(scene: Scene, worlds: int = 1) -> dict[str, torch.Tensor]:
    """The scene's parameters for each world, all with gradients."""
    values = scene.table.values().items()
    return {name: value.detach().repeat(worlds, *(1,) * (value.ndim - 1)).requires_grad_() for name, value in values}


def _hand(quick: bool, left: float) -> Values:
    for worlds in HAND_WORLDS:
        yield from _case_rates(make_case("hand", frames=40 if worlds == 1 else 8, worlds=worlds))


def _tetrahedra(quick: bool, left: float) -> Values:
    yield from _case_rates(tetrahedra_case(10_000)(frames=4))
    yield from _case_rates(tetrahedra_case(1000)(frames=2, worlds=128))


def _case_rates(case: Case) -> Values:
    """Steps/s of all worlds, forward (states kept) and backward."""
    seconds = _case_seconds(case)
    worlds = len(case.inputs.arrays()[0])
    steps = case.frames * case.solver.settings.substeps * worlds
    yield from (steps / one for one in seconds)


def _case_seconds(case: Case, *, repeats: int = 3) -> tuple[float, float]:
    """Times of a rollout that keeps its states, and of its adjoint [s]."""
    rollout = case.solver.rollout(case.inputs, case.frames, adjoint=StoreAll())
    bars = unit_frame_adjoints(rollout)
    seconds = best_times(
        {
            "forward": lambda: case.solver.rollout(case.inputs, case.frames, adjoint=StoreAll()),
            "backward": lambda: case.solver.rollout_adjoint(rollout, *bars),
        },
        repeats=repeats,
    )
    return seconds["forward"], seconds["backward"]


def _pictures(quick: bool, left: float) -> Values:
    for pictures in PICTURES[:2] if quick else PICTURES:
        scene, worlds = load_scene("toss"), pictures // (FRAMES + 1)
        values = _gradient_values(scene, worlds)
        states = scene.rollout(values, worlds=worlds, frames=FRAMES)
        with torch.no_grad():
            yield pictures / best_time(lambda scene=scene, states=states, values=values: scene.render(states, values), repeats=3)
        poses = states.body_q.detach().requires_grad_()
        repeats = 1 if pictures == PICTURES[-1] else 2
        with_adjoint = best_time(lambda scene=scene, poses=poses: scene.render(poses).square().mean().backward(), repeats=repeats)
        yield pictures / with_adjoint


def _chain(quick: bool, left: float) -> Values:
    scene = load_scene("toss")

    def run() -> None:
        values = _gradient_values(scene)
        scene.render(scene.rollout(values, worlds=1, frames=FRAMES), values).square().mean().backward()

    yield 1e3 * best_time(run, repeats=5)


def _training(quick: bool, left: float) -> Values:
    scene = training_scene("cube", DATASET_SIZE)
    task = load_task("cube", scene)
    batch = RendererSource(scene, task, DatasetSettings(images=BATCH_SIZE, size=DATASET_SIZE)).batch(range(BATCH_SIZE))
    batch = type(batch)(**{name: tensor.to(bridge_device()) for name, tensor in vars(batch).items()})
    for width in WIDTHS:
        settings = NetworkSettings(outputs=task.head.size, size=DATASET_SIZE, width=width)
        network = RispNetwork(settings).to(bridge_device())
        yield BATCH_SIZE / best_time(adam_step(network, batch, error_loss), repeats=3)


def _smoke(quick: bool, left: float) -> Values:
    solver = SmokeSolver(SmokeModel((SMOKE_SIDE, SMOKE_SIDE), 1 / SMOKE_SIDE), SmokeSettings(1 / 30, 1, "semi_lagrangian"))
    inputs = SmokeInputs(*(array.to(bridge_device()) for array in vortices(SMOKE_SIDE).arrays()))
    yield 1e3 * best_time(lambda: solver.rollout(inputs, STEPS), repeats=2)
    yield 1e3 * best_time(lambda: forward_and_backward(solver, inputs), repeats=2)


def _implicit(quick: bool, left: float) -> Values:
    mesh = box_tets(tuple(0.05 * cells for cells in CELLS[10_000]), CELLS[10_000])
    case = solid_case(mesh, frames=3, young=1e6, dt=0.01, substeps=1, integrator="bdf2")
    yield from (1e3 * seconds / case.steps for seconds in _case_seconds(case, repeats=1))


def _dataset(quick: bool, left: float) -> Values:
    options = ("--images", str(IMAGES), "--size", str(DATASET_SIZE))
    yield from _command(("dataset", "cube", *options), left=left)


def _invert_toss(quick: bool, left: float) -> Values:
    options = ("--unknown", "body.density", "ground.contact.friction", "--starts", "4")
    yield from _command(("invert", "toss", *options), film_of="toss", left=left)


def _invert_matched(quick: bool, left: float) -> Values:
    options = ("--unknown", "ground.contact.stiffness", "--loss", "matched", "--starts", "4")
    yield from _command(("invert", "cube", *options), film_of="cube", left=left)


def _command(arguments: Sequence[str], *, left: float, film_of: str | None = None) -> Values:
    """Wall time [s] of ``risp`` with these arguments, from its launch to its end.

    Args:
        arguments: of the command.
        left: for the job [s]; the command is stopped before.
        film_of: scene whose film the command reads; simulated before, and not timed.
    """
    deadline = time.monotonic() + left - STOPPING_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        if film_of is not None:
            _risp(("simulate", film_of, "--out", f"{folder}/film"), deadline - time.monotonic())
            arguments = (*arguments, "--video", f"{folder}/film/video.mp4")
        seconds = min(COMMAND_SECONDS, deadline - time.monotonic())
        yield wall_seconds(lambda: _risp((*arguments, "--out", f"{folder}/run"), seconds))


def _risp(arguments: Sequence[str], limit: float) -> None:
    """Run a command of ``risp`` on this process's device.

    Raises:
        TimeoutError: it took longer than ``limit`` [s].
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "risp_torch", *arguments, "--device", require().device]
    try:
        process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"> {limit:.0f} s") from None
    if process.returncode:
        raise RuntimeError(_last_line(process.stderr))


JOBS: dict[str, Job] = {
    "toss": Job(_both([f"toss, {_worlds(worlds)}" for worlds in RIGID_WORLDS], "steps/s"), _toss, 40),
    "hand": Job(_both([f"hand, {_worlds(worlds)}" for worlds in HAND_WORLDS], "steps/s"), _hand, 30),
    "tetrahedra": Job(
        _both(["10,000 tetrahedra, 1 world", "1,000 tetrahedra, 128 worlds"], "steps/s"), _tetrahedra, 30
    ),
    "pictures": Job(
        tuple(
            (f"toss, {count:,} pictures of 128 px at once, {kind}", "pictures/s")
            for count in PICTURES
            for kind in ("forward", "with adjoint")
        ),
        _pictures, 40,
    ),
    "chain": Job((("toss: rollout, 10 pictures, backward", "ms"),), _chain, 25),
    "dataset": Job(((f"`risp dataset cube --images {IMAGES}`", "s"),), _dataset, 42),
    "training": Job(tuple((f"training of RISP, 64 px, width {width}", "images/s") for width in WIDTHS), _training, 25),
    "smoke": Job(
        tuple((f"smoke, {SMOKE_SIDE} x {SMOKE_SIDE}, {STEPS} steps, {kind}", "ms") for kind in ("forward", "with backward")),
        _smoke, 25,
    ),
    "implicit": Job(_both(["implicit step of 10,000 tetrahedra"], "ms"), _implicit, 25),
    "invert-toss": Job(
        (("`risp invert toss` from mp4, 2 unknowns, 4 starts", "s"),),
        _invert_toss, COMMAND_SECONDS + FILM_SECONDS, side_by_side=True,
    ),
    "invert-matched": Job(
        (("`risp invert cube --loss matched` from mp4, 1 unknown", "s"),),
        _invert_matched, COMMAND_SECONDS + FILM_SECONDS, side_by_side=True,
    ),
}  # fmt: skip


# -- the table ------------------------------------------------------------------------------------------------------------


def tables(*, quick: bool, jobs: Sequence[str] = tuple(JOBS), seconds: float = TOTAL_SECONDS) -> Iterator[Table]:
    """The table of all jobs; each value is printed when it is measured, too.

    Args:
        quick: leave out the largest batches.
        jobs: of ``JOBS``.
        seconds: limit of all jobs together.
    """
    devices = ("cuda", "cpu") if require().device == "cuda" else ("cpu",)
    if devices == ("cpu",):
        print(NO_GPU, flush=True)
    deadline = time.monotonic() + seconds
    cells: dict[tuple[str, str], float | str] = {}
    side_by_side = [(name, device) for name in jobs if JOBS[name].side_by_side for device in devices]
    with ThreadPoolExecutor(max(len(side_by_side), 1)) as pool:
        for values in pool.map(lambda run: _run(*run, deadline, quick), side_by_side):
            cells |= values
    for name in jobs:
        for device in () if JOBS[name].side_by_side else devices:
            cells |= _run(name, device, deadline, quick)
    table = Table(
        "Jobs on the GPU and on the CPU", ("job", "unit", *DEVICES.values(), "speed of the GPU / of the CPU")
    )
    for name in jobs:
        for label, unit in JOBS[name].rows:
            values = [cells.get((label, device), "") for device in DEVICES]
            table.add(label, unit, *(map(_cell_text, values)), _ratio_text(*values, unit))
    if devices == ("cpu",):
        table.remarks.append(NO_GPU)
    table.remarks.append(
        f"Each job has a share of {seconds:.0f} s, and is stopped after it. Rates count the steps and pictures of all worlds. "
        "The inversions run at the same time, on all devices; every other job runs alone."
    )
    yield table


def _run(name: str, device: str, deadline: float, quick: bool) -> dict[tuple[str, str], float | str]:
    """Measure a job in a separate process.

    Args:
        name: of ``JOBS``.
        device: "cuda" or "cpu".
        deadline: of all jobs, of the monotonic clock [s].
        quick: as of ``tables``.

    Returns:
        Values of the finished rows by label and device, and for the others the reason as text.
    """
    left = deadline - time.monotonic()
    values: dict[str, float | str] = {}
    reason = "no time left" if left < LEAST_SECONDS else _measure(name, device, min(JOBS[name].seconds, left), quick, values)
    for label, _ in JOBS[name].rows:
        if label not in values:
            values[label] = reason
            _print_value(label, device, reason)
    return {(label, device): value for label, value in values.items()}


def _measure(name: str, device: str, limit: float, quick: bool, values: dict[str, float | str]) -> str:
    """Run a job's process and add its rows to ``values`` as they come; return why there are no more."""
    options = [name, "--device", device, "--end", str(time.time() + limit), *(["--quick"] if quick else [])]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*PROGRAM, *options], stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        reader = threading.Thread(target=_read_rows, args=(process.stdout, device, values))
        reader.start()
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"> {limit:.0f} s"
        finally:
            _stop(process)
            reader.join()
        errors.seek(0)
        return "left out" if status == 0 else _last_line(errors.read()) or f"exit status {status}"


def _read_rows(lines: IO[str], device: str, values: dict[str, float | str]) -> None:
    """Add the rows among a process's lines to ``values``, and print them."""
    for line in lines:
        if line.startswith('{"row":'):
            row = json.loads(line)
            values[row["row"]] = row["value"]
            _print_value(row["row"], device, row["value"])


def _stop(process: subprocess.Popen[str]) -> None:
    """End a process, and the processes that it has started."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _print_value(label: str, device: str, value: float | str) -> None:
    unit = dict(row for job in JOBS.values() for row in job.rows)[label]
    print(f"{DEVICES[device]}: {label}: {_cell_text(value)}{'' if isinstance(value, str) else f' {unit}'}", flush=True)


def _cell_text(value: float | str) -> str:
    return value.replace("|", "/") if isinstance(value, str) else format_number(value)


def _ratio_text(gpu: float | str, cpu: float | str, unit: str) -> str:
    if isinstance(gpu, str) or isinstance(cpu, str):
        return ""
    return format_ratio(cpu / gpu if unit in ("s", "ms") else gpu / cpu)


def _last_line(text: str) -> str:
    """The last line of an error message, at most 80 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:80] if lines else ""


# -- the process of a job -------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one job, and print ``{"row": label, "value": number}`` for each row; or the reason as the value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Measure one job on one device.")
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--device", choices=tuple(DEVICES), required=True)
    parser.add_argument("--end", type=float, default=time.time() + TOTAL_SECONDS, help="time at which the process is stopped")
    parser.add_argument("--quick", action="store_true", help="leave out the largest batches")
    options = parser.parse_args(arguments)
    start(device=options.device, precision="f32")
    job = JOBS[options.job]
    rows = iter(job.rows)
    try:
        for value in job.measure(options.quick, options.end - time.time()):
            print(json.dumps({"row": next(rows)[0], "value": value}), flush=True)
    except TimeoutError as error:
        print(json.dumps({"row": next(rows)[0], "value": str(error)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
