"""Every test below this folder runs with the kernels in f32; the other precision needs another process."""

import os

from ti_sim.base.runtime import start

# At import, so that the runtime runs before any test module is collected.
start(device=os.environ.get("RISP_DEVICE", "cpu"), precision="f32")
