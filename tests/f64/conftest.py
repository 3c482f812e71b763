"""Every test below this folder runs with the kernels in f64; the other precision needs another process."""

import os

from ti_sim.base import runtime

# The library's kernels are compiled without the passes that ``without_subexpression_elimination`` leaves out: those of the
# rasteriser compile in a third of the time, and compute the same. The f32 tests run what is compiled for users.
_original = runtime.without_passes
runtime.without_passes = lambda passes: _original((*passes, "advanced_optimization"))

# At import, so that the runtime runs before any test module is collected.
runtime.start(device=os.environ.get("RISP_DEVICE", "cpu"), precision="f64")
