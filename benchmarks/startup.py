"""How long a user waits: a simulation from the command line, and the first step of a Python program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import Table

SIMULATE_TARGET = 10.0  # s
FIRST_STEP_TARGET = 3.0  # s

# Prints the clock after each stage; its parent knows when it was started.
FIRST_STEP = """
import time
import torch
torched = time.time()
from risp_torch.scene import load_scene
imported = time.time()
from ti_sim.base.runtime import start
start(device="auto", precision="f32")
started = time.time()
scene = load_scene("cube")
scene.frames = 1
with torch.no_grad():
    scene.rollout()
print(torched, imported, started, time.time())
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
    result.remarks.append("Each in a process of its own, from its launch to its end or to that of its first steps.")
    return result


def _simulate(cache: str | None = None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "risp_torch", "simulate", "cube", "--out", str(Path(folder) / "run")]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment(cache))
        return time.perf_counter() - began


def _first_step() -> tuple[float, ...]:
    """Seconds since the launch at the ends of: import torch, import the engine, start, first frame."""
    began = time.time()
    done = subprocess.run([sys.executable, "-c", FIRST_STEP], check=True, capture_output=True, text=True, env=_environment(None))
    return tuple(float(clock) - began for clock in done.stdout.split())


def _environment(cache: str | None) -> dict[str, str]:
    return os.environ | ({"XDG_CACHE_HOME": cache} if cache else {})
