"""Provenance of results: machine, program, libraries."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from risp_torch.programs import program_version, write_text

_FILE = "provenance.json"
_LIBRARIES = ("taichi", "torch", "numpy", "mitsuba")


def note_provenance(out: Path) -> None:
    """Add this machine and program to the provenance of a folder of results."""
    recorded, current = provenance(out), _here()
    if current not in recorded:
        write_text(out / _FILE, json.dumps([*recorded, current], indent=2) + "\n")


def provenance(out: Path) -> list[dict[str, Any]]:
    """Every machine and program in the provenance of a folder of results."""
    try:
        return json.loads((out / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


def _here() -> dict[str, Any]:
    return {
        "processor": _processor(), "cores": len(os.sched_getaffinity(0)), "gpu": _gpu(), "commit": _commit(),
        "python": platform.python_version(), "risp-taichi": program_version(),
        **{name: version for name in _LIBRARIES if (version := _version(name)) is not None},
    }  # fmt: skip


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _commit() -> str:
    """The commit of the program's folder, marked if files differ from it; "unknown" without git."""
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + (" with changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
