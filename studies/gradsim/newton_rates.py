"""Rates of Newton's semi-implicit solver on the bodies of table 4 (right), measured in the same run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ti_sim.meshes import SolidMesh

PYTHON = "NEWTON_PYTHON"  # environment variable: the interpreter that has Newton, where it is not this one
PROGRAM = Path(__file__).parents[2] / "benchmarks" / "newton_side.py"
STEPS = 64
LONGEST = 1800  # s


def newton_seconds(mesh: SolidMesh, *, density: float, mu: float, lam: float, dt: float, repeats: int) -> dict[str, Any]:
    """Seconds of a step of Newton's solver, in its own interpreter: a body that falls, without contact and damping.

    Args:
        mesh: of tetrahedra.
        density: kg/m3.
        mu, lam: of the stable neo-Hookean energy [Pa].
        dt: s.
        repeats: timed calls.

    Returns:
        "version" and "seconds" (a step, by "taped" and "backward", and of each replayed as a graph, with ", graph" in its name);
        or "missing": why it was not measured.
    """
    installed = all(importlib.util.find_spec(name) for name in ("newton", "warp"))
    python = os.environ.get(PYTHON) or (sys.executable if installed else None)
    if python is None or not PROGRAM.is_file():
        return {"missing": f"not measured: install the extra `peers` or set {PYTHON}, in a clone of the repository"}
    case = description(mesh, density=density, mu=mu, lam=lam, dt=dt) | {"repeats": repeats}
    try:
        done = subprocess.run(
            [python, str(PROGRAM)], input=json.dumps({"body": case}), capture_output=True, text=True, timeout=LONGEST, check=True
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        version, seconds = f"Newton {answer['newton']}, Warp {answer['warp']}", answer["results"]["body"]["seconds"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return {"missing": f"not measured: {python} failed ({told[-1] if told else type(error).__name__})"}
    return {"version": version, "seconds": seconds}


def description(mesh: SolidMesh, *, density: float, mu: float, lam: float, dt: float) -> dict[str, Any]:
    """A body as ``benchmarks/newton_side.py`` reads it (arguments: ``newton_seconds``); masses of particles are lumped [kg]."""
    places, tets = np.asarray(mesh.vertices, dtype=float), np.asarray(mesh.indices)
    volumes = np.linalg.det(np.diff(places[tets], axis=1)) / 6
    mass = density * np.bincount(tets.ravel(), np.repeat(volumes / 4, 4), minlength=len(places))
    return {
        "dt": dt, "steps": STEPS, "gravity": [0.0, 0.0, -9.81], "rest": places.tolist(), "mass": mass.tolist(),
        "q0": places.tolist(), "qd0": np.zeros_like(places).tolist(), "tets": tets.tolist(),
        "tet_materials": [[mu, lam, 0.0]] * len(tets), "triangles": [], "tri_materials": [], "edges": [], "edge_materials": [],
    }  # fmt: skip
