"""MuJoCo and Newton on the models of cases: both are optional, and run on one core of the CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rollouts import PASS_LABELS, Case
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_time

NEWTON_PYTHON = "NEWTON_PYTHON"  # environment variable: path of an interpreter with Newton
_NEWTON_SIDE = Path(__file__).with_name("newton_side.py")
_NEWTON_SECONDS = 1800.0  # its kernels are compiled at the first run


@dataclass(frozen=True)
class Measurement:
    """Measurement of another simulator.

    Attributes:
        version: of the simulator, as text.
        seconds: of a step, by kind of pass.
        final_positions: positions after the steps that are compared: [Q] of joints [rad], or [P, 3] of particles [m].
    """

    version: str
    seconds: dict[str, float]
    final_positions: np.ndarray


def largest_difference(other: Measurement, final_positions: np.ndarray) -> str:
    """Largest difference of the final positions as text."""
    difference = np.abs(other.final_positions - final_positions).max()
    return f"{difference:.0e}" if difference > 0 else "0"


def links_description(case: Case) -> dict[str, Any]:
    """The first world of a case of fixed and revolute joints in plain numbers and lists, SI units, quaternions x, y, z, w.

    Motors are driven without servos, so that their forces are numbers known before the rollout. Absent limits
    are None.
    """
    model, settings = case.solver.model, case.solver.settings
    arrays = {
        name: np.asarray(array[0].cpu(), dtype=np.float64) for name, array in vars(case.inputs).items() if array is not None
    }
    links = []
    for i, (parent, kind) in enumerate(zip(model.link_parent, model.joint_type, strict=True)):
        link = {"parent": parent, "joint": kind, "axis": model.axis[i].tolist(), "frame": arrays["joint_frame"][i].tolist()}
        link |= {name: arrays[f"link_{name}"][i].tolist() for name in ("mass", "com", "inertia")}
        if kind == "revolute":
            d = int(model.qd_start[i])
            names = ("stiffness", "rest", "damping", "armature", "limit_low", "limit_high", "limit_stiffness")
            link |= {name: float(arrays[f"joint_{name}"][d]) for name in names}
            if not np.isfinite((link["limit_low"], link["limit_high"])).all():
                link |= {"limit_low": None, "limit_high": None}
        links.append(link)
    motor_limit = arrays["motor_limit"]
    return {
        "dt": settings.dt,
        "substeps": settings.substeps,
        "gravity": arrays["gravity"].tolist(),
        "links": links,
        "q0": arrays["joint_q0"].tolist(),
        "qd0": arrays["joint_qd0"].tolist(),
        "force": np.clip(arrays["motor_gain"] * arrays["action"], -motor_limit, motor_limit).tolist(),
    }


def mjcf(description: dict[str, Any]) -> str:
    """Links as MJCF text: explicit inertials, no shapes, and the flags that make MuJoCo's step the same and fastest."""
    motors = "".join(f'<motor joint="joint{i}"/>' for i, link in enumerate(description["links"]) if link["joint"] == "revolute")
    return (
        '<mujoco><compiler angle="radian" inertiafromgeom="false"/>'
        f'<option timestep="{description["dt"]!r}" gravity="{_text(description["gravity"])}" integrator="Euler">'
        '<flag contact="disable" eulerdamp="disable" sensor="disable" island="disable"/></option>'
        f"<worldbody>{_bodies(description['links'], -1)}</worldbody>"
        f"<actuator>{motors}</actuator></mujoco>"
    )


def _bodies(links: Sequence[dict[str, Any]], parent: int) -> str:
    text = ""
    for i, link in enumerate(links):
        if link["parent"] != parent:
            continue
        x, y, z, w = link["frame"][3:]
        text += f'<body pos="{_text(link["frame"][:3])}" quat="{_text((w, x, y, z))}">'
        if link["joint"] == "revolute":
            limits = ""
            if link["limit_low"] is not None:
                limits = f'limited="true" range="{_text((link["limit_low"], link["limit_high"]))}"'
            text += (
                f'<joint name="joint{i}" type="hinge" axis="{_text(link["axis"])}" stiffness="{link["stiffness"]!r}" '
                f'springref="{link["rest"]!r}" damping="{link["damping"]!r}" armature="{link["armature"]!r}" {limits}/>'
            )
        m = link["inertia"]
        moments = (m[0][0], m[1][1], m[2][2], m[0][1], m[0][2], m[1][2])
        text += f'<inertial pos="{_text(link["com"])}" mass="{link["mass"]!r}" fullinertia="{_text(moments)}"/>'
        text += _bodies(links, i) + "</body>"
    return text


def _text(values: Sequence[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def run_mujoco(description: dict[str, Any], *, compared_step: int, repeats: int) -> Measurement | None:
    """Forward rollouts in MuJoCo, by its own loop over steps (``mujoco.rollout``) on one thread; None where it is missing.

    Args:
        description: a description of links; all its steps are timed.
        compared_step: steps after which its joint positions are compared.
        repeats: timed calls.
    """
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        return None
    model = mujoco.MjModel.from_xml_string(mjcf(description))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = description["q0"], description["qd0"]
    full_state = mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.zeros((1, mujoco.mj_stateSize(model, full_state)))
    mujoco.mj_getState(model, data, start[0], full_state)
    control = np.repeat(np.array(description["force"]), description["substeps"], axis=0)[None]
    steps = control.shape[1]
    states = np.zeros((1, steps, start.shape[1]))
    seconds = best_time(lambda: rollout.rollout(model, data, start, control, nstep=steps, state=states), repeats=repeats)
    return Measurement(
        f"MuJoCo {mujoco.__version__}", {"no_gradient": seconds / steps}, states[0, compared_step - 1, 1 : 1 + model.nq]
    )


def run_newton(descriptions: dict[str, dict[str, Any]], *, repeats: int) -> dict[str, Measurement] | str:
    """Forward and backward rollouts with Newton's solvers, in the interpreter that NEWTON_PYTHON names or in this one.

    Args:
        descriptions: what ``newton_side.py`` reads, by name, without the repeats.
        repeats: timed calls.

    Returns:
        Results by case; a sentence where Newton was not measured.
    """
    python = os.environ.get(NEWTON_PYTHON)
    if not python and all(importlib.util.find_spec(name) for name in ("newton", "warp")):
        python = sys.executable
    if not python:
        return f"not measured: install the extra `peers`, or set {NEWTON_PYTHON} to a Python interpreter that has its packages"
    requests = {name: description | {"repeats": repeats} for name, description in descriptions.items()}
    try:
        process = subprocess.run(
            [python, str(_NEWTON_SIDE)], input=json.dumps(requests), capture_output=True, text=True, timeout=_NEWTON_SECONDS,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        error_lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return f"not measured: {python} failed ({error_lines[-1] if error_lines else type(error).__name__})"
    output = json.loads(process.stdout.splitlines()[-1])
    version = f"Newton {output['newton']}, Warp {output['warp']}"
    return {
        name: Measurement(version, result["seconds"], np.array(result["final_positions"]))
        for name, result in output["results"].items()
    }


def newton_table(
    title: str,
    case_header: str,
    our_seconds: Mapping[str, Mapping[str, float]],
    newton: Mapping[str, Measurement] | str,
    remark: str,
) -> Table:
    """Steps forward and backward beside Newton's.

    Args:
        title: of the table; times are in us a step.
        case_header: header of the column of cases.
        our_seconds: seconds of a step by case and kind.
        newton: the same of Newton, or the reason why it was not measured.
        remark: on similarities and differences, shown if Newton was measured.
    """
    result = Table(title, (case_header, "pass", "here", "Newton", "times as fast", "Newton, replayed graph", "times as fast"))
    for name, seconds in our_seconds.items():
        for kind, label in PASS_LABELS.items():
            cells = ["not measured", "", "not measured", ""]
            if not isinstance(newton, str):
                newton_seconds = [newton[name].seconds[key] for key in (kind, f"{kind}, graph")]
                cells = [cell for t in newton_seconds for cell in (format_number(t * 1e6), format_ratio(t / seconds[kind]))]
            result.add(name, label, format_number(seconds[kind] * 1e6), *cells)
    if isinstance(newton, str):
        result.remarks.append(f"Newton was {newton}.")
    else:
        versions = ", ".join(sorted({other.version for other in newton.values()}))
        result.remarks.append(
            f'{remark} {versions}, f32, one thread. "Newton" launches its kernels from Python, as its examples do; "replayed '
            "graph\" records them once (`wp.ScopedCapture`) and replays them, without the time to record. Backward is Warp's "
            "tape, from the positions at the end; here it is from every number of every frame."
        )
    return result
