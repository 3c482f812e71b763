"""Description of the machine of a benchmark."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

from ti_sim.base.runtime import require


def describe() -> str:
    """The machine, the versions and the load as a Markdown list."""
    runtime = require()
    rows = {
        "date": datetime.date.today().isoformat(),
        "processor": f"{_processor()}, {_core_count()} cores for this process",
        "load before the start": load_text(),
        "system": platform.platform(),
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in ("taichi", "torch", "numpy"))]
        ),
        "kernels": f"{runtime.device}{_gpu_text(runtime.device)}, {runtime.precision}, every core",
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items()) + "\n"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    cpu_info = {name.strip(): value.strip() for name, value in fields.items()}
    name = cpu_info.get("model name", platform.machine())
    return f"{name} (family {cpu_info['cpu family']}, model {cpu_info['model']})" if "cpu family" in cpu_info else name


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_text() -> str:
    """The system's load averages as text."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    return ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " (processes that ran or waited, over 1, 5 and 15 minutes)"


def _gpu_text(device: str) -> str:
    if device != "cuda":
        return ""
    import torch

    return f" ({torch.cuda.get_device_name()})"
