"""Table 4, right: steps a second of physics and rendering, forward and backward, by the number of tetrahedra.

What is timed is what users call: ``Scene.rollout``, ``Scene.render`` and torch's ``backward``. The parts alone are in
``benchmarks`` (``fem``, ``raster``).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from risp_torch import AmbientLight, Camera, Contact, DirectionalLight, Elastic, Param, Scene, Start, film, invert, start
from studies.gradsim.cells import Cell, run_cells
from studies.gradsim.newton_rates import newton_seconds
from studies.gradsim.pages import Page, digits
from studies.gradsim.presets import Preset
from studies.gradsim.tosses import MASS, draw_toss, toss_scene
from studies.markdown import markdown
from ti_sim.meshes import box_tets

CELLS = {
    100: (5, 2, 2), 200: (5, 4, 2), 400: (5, 4, 4), 1000: (8, 5, 5), 2000: (10, 8, 5), 5000: (10, 10, 10), 10_000: (20, 10, 10),
}  # fmt: skip
CELL = 0.25  # side of a cell of five tetrahedra [m]
STEP = 1 / 60 / 32  # s, gradSim's
EVERY = 32  # steps between two pictures of a film of 60 Hz
WORK = 5e5  # tetrahedra times steps of one timed rollout, about
PICTURES = 8  # where every step has one
KINDS = ("forward DP", "forward DR", "backward DP", "backward DP + DR")
# The paper's, on a GPU [Hz], in the order of KINDS.
PAPER = {
    100: (9057, 3504, 3721, 3057), 200: (9057, 3478, 3780, 2963), 400: (8751, 3357, 3750, 1360), 1000: (4174, 1690, 1644, 1041),
    2000: (3967, 1584, 1655, 698), 5000: (3871, 1529, 1553, 424), 10_000: (3721, 1500, 1429, 248),
}  # fmt: skip
# gradSim's public code, physics forward (taped) and backward, two CPU cores of the same kind, one thread: measured earlier.
PUBLIC = {
    100: (13_600, 8200), 200: (10_500, 5300), 400: (7300, 3200), 1000: (4000, 1500), 2000: (2300, 790), 5000: (940, 310),
    10_000: (480, 160),
}  # fmt: skip
ASKED = {"forward DP": 3000.0, "backward DP + DR": 250.0}  # of 10,000 tetrahedra [Hz]


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make the table's page; what is timed runs alone, whatever ``jobs`` says.

    Args:
        name: "table-4-right".
        preset: sizes.
        folder: of all results.
        jobs: ignored.

    Returns:
        The page.
    """
    counts = [count for count in CELLS if count <= preset.tetrahedra]
    cells = [
        Cell(f"rates/{count}", body_rates, {"count": count, "size": preset.size, "repeats": preset.repeats}) for count in counts
    ]
    toss = {"index": 0, "seed": preset.seed, "size": preset.size, "repeats": preset.repeats}
    cells.append(Cell("rates/toss", identification, toss))
    *rates, timed = run_cells(cells, folder, jobs=1, title=name)
    by_count = dict(zip(counts, rates, strict=True))
    heads = ["tetrahedra", "triangles", *(cell for kind in KINDS for cell in (kind, "paper"))]
    dense = ["tetrahedra", "forward DR", "forward DP + DR", "backward DP + DR", "paper, backward DP + DR"]
    public = ["tetrahedra", "forward DP", "gradSim's public code", "times as fast", "backward DP", "public code", "times as fast"]
    text = f"""# Table 4, right: simulation rates

Steps a second (Hz) of a box of tetrahedra that falls on the ground, stable neo-Hookean with mu = lambda = 1000 Pa, steps of
1/1920 s, pictures of {preset.size} pixels. DP is physics, DR is rendering. Least time of {preset.repeats} calls after one to
warm up, single precision, on {rates[0]["machine"]}; {_load(rates)} The paper's numbers are of a GPU that it does not name for
this table, and it does not say how often a picture is rendered. Here one is rendered every {EVERY} steps, which makes a film of
60 Hz, as in gradSim's code; the second table renders every step.

Forward passes keep what the gradient needs. Backward DP goes from every position at every frame to the elements' constants, the
density and the start; backward DP + DR from every pixel of every picture to the same.

## A picture every {EVERY} steps

{markdown(heads, [_row(count, one) for count, one in by_count.items()])}

{_asked(by_count)}

## A picture every step

{markdown(dense, [_dense_row(count, one) for count, one in by_count.items()])}

## Against gradSim's public code on a CPU

Physics alone: its renderers need CUDA. Its rates are those of one thread on two cores of the same kind, MEASURED EARLIER and
not in this run.

{markdown(public, [_public_row(count, one) for count, one in by_count.items()])}

## Against Newton on the CPU, in this run

{_newton(by_count)}

## A whole identification

The density of toss 0 of seed {preset.seed} (table 1: {timed["frames"]} frame intervals, {timed["substeps"]} steps in each,
{preset.size} pixels, a start {digits(timed["factor"])} times too heavy), from its film to the estimate with error bar:
{digits(timed["least"])} s, and {digits(timed["first"])} s for the first in a process, which compiles or loads kernels. The
error is {digits(100 * timed["error"])} %.
"""
    return Page(name, text)


def body_rates(*, count: int, size: int, repeats: int) -> dict[str, Any]:
    """Seconds of a step of all passes.

    Args:
        count: tetrahedra, of ``CELLS``.
        size: of the pictures [pixels].
        repeats: timed calls.

    Returns:
        "sparse" and "dense" (a picture every ``EVERY`` steps, every step): seconds of a step by kind of ``KINDS`` and of
        "forward DP + DR"; "triangles" that are rendered; "newton": see ``newton_seconds``; "machine" in words; "load" of it
        afterwards (processes that ran or waited, mean of a minute; None if the system does not tell).
    """
    frames = max(4, round(WORK / count / EVERY))
    sparse, dense = (body_scene(count, size=size, every=every, frames=n) for every, n in ((EVERY, frames), (1, PICTURES)))
    triangles = len(box_tets(*_box(count)).surface().faces)
    return {
        "sparse": pass_seconds(sparse, repeats), "dense": pass_seconds(dense, repeats), "triangles": triangles,
        "newton": newton_seconds(box_tets(*_box(count)), density=10.0, mu=1000.0, lam=1000.0, dt=STEP, repeats=repeats),
        "machine": machine(), "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }  # fmt: skip


def body_scene(count: int, *, size: int, every: int, frames: int) -> Scene:
    """A box of tetrahedra that falls on the ground.

    Args:
        count: tetrahedra, of ``CELLS``.
        size: of the pictures [pixels].
        every: steps between two pictures.
        frames: frame intervals.
    """
    sides, cells = _box(count)
    scene = Scene(frame_dt=every * STEP, frames=frames, substeps=every, gamma=1e-2, name=f"{count} tetrahedra")
    scene.add_ground(
        contact=Contact(stiffness=300.0, damping=1.0, friction_stiffness=10.0, friction=0.5), color=(0.35, 0.36, 0.33)
    )
    scene.add_solid(
        "body", mesh=box_tets(sides, cells), density=Param(10.0, low=1.0, high=100.0, scale="log10"),
        material=Elastic(
            mu=Param(1000.0, low=100.0, high=1e4, scale="log10"), lam=Param(1000.0, low=100.0, high=1e4, scale="log10"),
            convention="energy", damping=1.0,
        ),
        start=Start(position=(0.0, 0.0, sides[2] / 2 + 0.01), velocity=(1.0, 0.0, -1.0)),
    )  # fmt: skip
    far = 3 * sides[0]
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -far, far / 2), target=(0.0, 0.0, sides[2] / 2), vertical_fov=40.0, width=size, height=size, near=far / 20,
            far=4 * far,
        )
    )  # fmt: skip
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.75))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def pass_seconds(scene: Scene, repeats: int) -> dict[str, float]:
    """Seconds of a step, by kind of pass; the least of several calls after one to warm up.

    Args:
        scene: of a body named "body".
        repeats: timed calls.
    """
    names = ("body.mu", "body.lam", "body.density", "body.position", "body.velocity")
    least: dict[str, float] = {}
    for number in range(repeats + 1):
        values = {
            name: torch.as_tensor(scene.parameters[name].value, dtype=torch.float32)[None].requires_grad_() for name in names
        }
        seconds, states = _timed(lambda values=values: scene.rollout(values, worlds=1))
        seconds_of_pass = {"forward DP": seconds}
        seconds_of_pass["forward DR"], pictures = _timed(lambda values=values, states=states: scene.render(states, values))
        seconds_of_pass["backward DP + DR"], _ = _timed((pictures**2).mean().backward)
        states = scene.rollout(values, worlds=1)
        seconds_of_pass["backward DP"], _ = _timed((states.particle_q**2).mean().backward)
        seconds_of_pass["forward DP + DR"] = seconds_of_pass["forward DP"] + seconds_of_pass["forward DR"]
        if number:
            least = {kind: min(time_, least.get(kind, time_)) for kind, time_ in seconds_of_pass.items()}
    steps = scene.frames * scene.stepping.substeps
    return {kind: seconds / steps for kind, seconds in least.items()}


def identification(*, index: int, seed: int, size: int, repeats: int) -> dict[str, Any]:
    """Wall time of the identification of a toss's density.

    Args:
        index, seed: of the toss.
        size: of the pictures [pixels].
        repeats: times that it is found.

    Returns:
        "first" and "least" time [s]; "error" relative; "factor" of the start; "frames" and "substeps" of the film.
    """
    scene, factor = toss_scene(draw_toss(index, seed=seed), size=size), 3.0
    truth = float(scene.parameters[MASS].value)
    with torch.no_grad():
        frames, _ = film(scene, {}, worlds=1, frames=scene.frames)
    times = []
    for _ in range(repeats):
        seconds, result = _timed(
            lambda: invert(scene, frames[0], [MASS], starts=[{MASS: factor * truth}], progress=False)
        )
        times.append(seconds)
    return {
        "first": times[0], "least": min(times), "error": result.values[MASS] / truth - 1, "factor": factor,
        "frames": scene.frames, "substeps": scene.stepping.substeps,
    }  # fmt: skip


def machine() -> str:
    """The processor and how many of its cores this process may use, after the GPU where kernels run on one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = Path("/proc/cpuinfo")
    facts = dict(
        (field.strip() for field in line.split(":", 1)) for line in told.read_text().splitlines() if ":" in line
    ) if told.is_file() else {}  # fmt: skip
    gpu = f"a GPU ({torch.cuda.get_device_name()}) and " if start(precision="f32").device == "cuda" else ""
    return f"{gpu}{cores} cores of {facts.get('model name') or platform.processor() or platform.machine()}"


def _box(count: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Sides [m] and cells of a box."""
    return tuple(CELL * cells for cells in CELLS[count]), CELLS[count]


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds from the call to the last written number, and what the function returns."""
    _wait()
    began = time.perf_counter()
    result = function()
    _wait()
    return time.perf_counter() - began, result


def _wait() -> None:
    """Wait for the kernels of a GPU; on the CPU they have returned."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _row(count: int, rates: Mapping[str, Any]) -> list[str]:
    cells = [f"{count:,}", f"{rates['triangles']:,}"]
    for kind, paper in zip(KINDS, PAPER[count], strict=True):
        cells += [_hertz(rates["sparse"][kind]), f"{paper:,}"]
    return cells


def _dense_row(count: int, rates: Mapping[str, Any]) -> list[str]:
    kinds = ("forward DR", "forward DP + DR", "backward DP + DR")
    return [f"{count:,}", *(_hertz(rates["dense"][kind]) for kind in kinds), f"{PAPER[count][3]:,}"]


def _public_row(count: int, rates: Mapping[str, Any]) -> list[str]:
    cells = [f"{count:,}"]
    for kind, public in zip(("forward DP", "backward DP"), PUBLIC[count], strict=True):
        seconds = rates["sparse"][kind]
        cells += [_hertz(seconds), f"{public:,}", digits(1 / seconds / public)]
    return cells


def _newton(by_count: Mapping[int, Mapping[str, Any]]) -> str:
    """The table of Newton's rates beside those of physics here, or why there is none."""
    lines, versions = [], set()
    for count, rates in by_count.items():
        if "missing" in rates["newton"]:
            return f"Newton was {rates['newton']['missing']}. (Remove the file of the rates to measure again.)"
        versions.add(rates["newton"]["version"])
        line = [f"{count:,}"]
        for ours, theirs in (("forward DP", "taped"), ("backward DP", "backward")):
            seconds = rates["sparse"][ours]
            line.append(_hertz(seconds))
            for key in (theirs, f"{theirs}, graph"):
                newton_seconds = rates["newton"]["seconds"][key]
                line += [_hertz(newton_seconds), digits(newton_seconds / seconds)]
        lines.append(line)
    head = ["tetrahedra"]
    for kind in ("forward DP", "backward DP"):
        head += [kind, "Newton", "times as fast", "Newton, replayed graph", "times as fast"]
    return "\n".join([
        f"{' and '.join(sorted(versions))}: its semi-implicit solver with the same mesh, energy and step, in single precision on "
        "one thread, without contact, damping and frames, which are in the rates here. \"Newton\" launches kernels from Python; "
        "\"replayed graph\" records them once, without the time to record.", "", markdown(head, lines),
    ])  # fmt: skip


def _asked(by_count: Mapping[int, Mapping[str, Any]]) -> str:
    """Whether the largest body is as fast as asked."""
    count = max(CELLS)
    if count not in by_count:
        return f"{count:,} tetrahedra, of which rates are asked, are not among the sizes of this preset."
    sentences = []
    for kind, least_rates in ASKED.items():
        rate = 1 / by_count[count]["sparse"][kind]
        sentences.append(f"{kind} {rate:,.0f} Hz of {least_rates:,.0f} ({'reached' if rate >= least_rates else 'MISSED'})")
    dense = 1 / by_count[count]["dense"]["backward DP + DR"]
    word = "reached" if dense >= ASKED["backward DP + DR"] else "MISSED"
    return (
        f"Asked at {count:,} tetrahedra: {'; '.join(sentences)}. With a picture every step, backward DP + DR is {dense:,.0f} Hz "
        f"({word})."
    )


def _load(rates: Sequence[Mapping[str, Any]]) -> str:
    """The load of the machine: this program alone makes a load of up to the number of cores."""
    loads = [one["load"] for one in rates if one["load"] is not None]
    return f"the machine's load was {min(loads):.1f} to {max(loads):.1f}." if loads else "the load is not known."


def _hertz(seconds: float) -> str:
    return f"{1 / seconds:,.0f}"
