"""Numbers of deformable bodies from films: stiffness of a beam and a rod, density of a soft ball, stiffness of springs.

All scales start a factor of two or more away from the truth.
"""

import sys
from collections.abc import Sequence

from scenes.film_jobs import Asked, Job, main

BOTH = ((2.0,), (0.5,))
ROD = ((10**-0.7,), (10**1.7,))  # 10^4.3 and 10^6.7 Pa for a truth of 10^5
BEAM = {"beam.E": Asked(5e-3), "beam.nu": Asked(0.02, relative=False)}
BEAM_STARTS = ((2.0, 0.5), (0.5, 1.2))
JOBS = (
    Job("beam, frames", "beam", BEAM, BEAM_STARTS, source="png"),
    Job("beam, film", "beam", BEAM, BEAM_STARTS),
    Job("density", "ball_soft", {"ball.density": Asked(0.03)}, BOTH),
    Job("springs", "springs", {"net.stiffness": Asked(0.01)}, BOTH),
    Job("rod", "rod", {"rod.E": Asked(0.01)}, ROD),
    Job("rod, states", "rod", {"rod.E": Asked(1e-4)}, ROD, source="states"),
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs: 0 if every error is within what was asked, 1 if not, 2 for wrong input."""
    return main(
        JOBS, arguments, title="Deformable bodies from films", name="deformable", about=(__doc__ or "").splitlines()[0]
    )


if __name__ == "__main__":
    sys.exit(run())
