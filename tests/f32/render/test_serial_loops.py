"""With one thread, kernels run their loops in the calling thread: motion, pictures and gradients are those of several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.reference.devices import needs_cpu
from tests.reference.short_film import short_film

ROOT = Path(__file__).parents[3]


@pytest.mark.threads
@needs_cpu("threads of the CPU")
def test_one_thread_computes_the_numbers_of_several(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from ti_sim.base.runtime import start; start(device='cpu', precision='f32'); "
        "from tests.reference.short_film import short_film; np.savez(sys.argv[1], **short_film())"
    )
    environment = {**os.environ, "TI_CPU_MAX_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "serial.npz")], env=environment, cwd=ROOT, check=True)
    threaded = short_film()
    with np.load(tmp_path / "serial.npz") as serial:
        assert set(serial) == set(threaded)
        for name, array in threaded.items():
            assert np.isfinite(array).all() and np.abs(array).max() > 0
            if name == "gravity_bar":  # sums of tiles are in another order
                np.testing.assert_allclose(serial[name], array, rtol=1e-4)
            else:
                np.testing.assert_array_equal(serial[name], array, err_msg=name)
