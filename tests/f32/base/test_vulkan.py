"""GPU kernels on a machine without a GPU: tests of barriers and plans on Taichi's Vulkan backend, in a separate process."""

import os
import re
import subprocess
import sys

import pytest

from tests.reference.folders import ROOT
from ti_sim.base.runtime import ti

TESTS = ("tests/f32/base/test_teams.py", "tests/f32/base/test_small_plans.py")


@pytest.mark.processes
@pytest.mark.skipif(
    not ti.lang.misc.is_arch_supported(ti.vulkan),
    reason="no Vulkan driver: apt-get install mesa-vulkan-drivers libvulkan1 installs one that runs on the CPU",
)
def test_barriers_and_plans_on_vulkan() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]
    process = subprocess.run(command, cwd=ROOT, env=os.environ | {"RISP_DEVICE": "vulkan"}, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-4000:]
    assert int(re.search(r"(\d+) passed", process.stdout)[1]) >= 7
