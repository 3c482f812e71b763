"""Waiting time of a user: a simulation from the command line, and the first step of a Python program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import Table

SIMULATE_TARGET = 10.0  # s
FIRST_STEP_TARGET = 3.0  # s
COLD_TARGET = 20.0  # s, the compilation of any scene

# Prints the clock after each stage; the parent process knows the start time.
FIRST_STEP = """
import time
import torch
torch_imported = time.time()
from risp_torch import load_scene
engine_imported = time.time()
from ti_sim.base.runtime import start
start(device="auto", precision="f32")
runtime_started = time.time()
scene = load_scene("cube")
scene.frames = 1
with torch.no_grad():
    scene.rollout()
print(torch_imported, engine_imported, runtime_started, time.time())
"""

# Prints seconds: until the engine runs, for the first frame interval of a scene, and for its adjoint.
FIRST_GRADIENT = """
import time
start_time = time.time()
import torch
from risp_torch import load_scene
from ti_sim.base.runtime import start
start(device="auto", precision="f32")
runtime_started = time.time()
scene = load_scene({name!r})
values = {{name: value.requires_grad_() for name, value in scene.table.values().items()}}
states = scene.rollout(values, frames=1)
frame_done = time.time()
states.{array}.sum().backward()
print(runtime_started - start_time, frame_done - runtime_started, time.time() - frame_done)
"""


def table(*, quick: bool) -> Table:
    """Seconds of ``risp simulate cube`` and until the first step, kernels cached; and once with an empty cache."""
    repeats = 1 if quick else 5
    simulate = min(_simulate() for _ in range(repeats))
    stages = min((_first_step() for _ in range(repeats)), key=lambda stage: stage[-1])
    result = Table("Start", ("what (kernels cached)", "s", "target, s"))
    result.add("`risp simulate cube` (41 pictures, 1,000 steps, video)", f"{simulate:.1f}", f"{SIMULATE_TARGET:g}")
    result.add("Python program until its first steps are done", f"{stages[3]:.2f}", f"{FIRST_STEP_TARGET:g}")
    names = ("import torch", "import the engine", "start the runtime", "make the scene, load the kernels, first frame")
    for name, before, after in zip(names, (0.0, *stages), stages, strict=False):
        result.add(f"... of it: {name}", f"{after - before:.2f}", "")
    if not quick:
        with tempfile.TemporaryDirectory() as cache:
            result.add("`risp simulate cube`, nothing cached: all kernels compiled", f"{_simulate(cache):.1f}", "")
    result.remarks.append("Each in a separate process, from its launch to its end, or to the end of its first steps.")
    return result


def compilation_table(scenes: Sequence[tuple[str, str]], *, quick: bool) -> Table:
    """Seconds of the first frame interval of scenes and of its adjoint, with an empty cache of kernels and with a full one.

    Args:
        scenes: (name, array of its states that the loss takes).
        quick: measure the full cache once.
    """
    result = Table(
        "Compilation: first frame of a scene, with its gradient, in a separate process (s)",
        ("scene", "cache of kernels", "first frame", "its adjoint", "both", "target", "import and start before"),
    )
    for name, array in scenes:
        with tempfile.TemporaryDirectory() as cache:
            runs = [_first_gradient(name, array, cache) for _ in range(2 if quick else 4)]
        for label, target, selected_runs in (("empty", COLD_TARGET, runs[:1]), ("full", FIRST_STEP_TARGET, runs[1:])):
            startup, frame, adjoint = min(selected_runs, key=lambda run: run[1] + run[2])
            cells = [f"{seconds:.2f}" for seconds in (frame, adjoint, frame + adjoint)]
            result.add(name, label, *cells, f"{target:g}", f"{startup:.2f}")
    result.remarks.append("The time to make the scene is part of the first frame.")
    return result


def _first_gradient(name: str, array: str, cache: str) -> tuple[float, ...]:
    """The times that ``FIRST_GRADIENT`` prints."""
    code = FIRST_GRADIENT.format(name=name, array=array)
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=_environment(cache))
    return tuple(float(seconds) for seconds in process.stdout.split()[-3:])


def _simulate(cache: str | None = None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "risp_torch", "simulate", "cube", "--out", str(Path(folder) / "run")]
        start_time = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment(cache))
        return time.perf_counter() - start_time


def _first_step() -> tuple[float, ...]:
    """Seconds since the launch at the ends of: import torch, import the engine, start, first frame."""
    start_time = time.time()
    process = subprocess.run(
        [sys.executable, "-c", FIRST_STEP], check=True, capture_output=True, text=True, env=_environment(None)
    )
    return tuple(float(clock) - start_time for clock in process.stdout.split())


def _environment(cache: str | None) -> dict[str, str]:
    return os.environ | ({"XDG_CACHE_HOME": cache} if cache else {})
