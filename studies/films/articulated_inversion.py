"""Numbers of articulated bodies from compressed films: lengths, gravity, damping, angles, and the stiffness of five fingers.

All starts are a factor of 1.5 above or below the truth.
"""

import math
import sys
from collections.abc import Sequence

from studies.films.film_jobs import Asked, Job, main

UP, DOWN = 1.5, 1 / 1.5
BOTH = ((UP,), (DOWN,))
FOUR = ((UP, UP), (DOWN, DOWN), (UP, DOWN), (DOWN, UP))
ANGLE = Asked(math.radians(0.1), relative=False)
FINGERS = dict.fromkeys((f"{f}.stiffness" for f in ("thumb", "index", "middle", "ring", "little")), Asked(0.02, relative=False))
ALL = ((UP,) * 5, (DOWN,) * 5)
JOBS = (
    Job("length", "pendulum", {"pendulum.length": Asked(1e-3)}, BOTH),
    Job("damping", "pendulum", {"pendulum.damping": Asked(2e-2)}, BOTH),
    Job("gravity", "pendulum", {"gravity": Asked(1e-3)}, BOTH),
    Job("angle", "pendulum", {"pendulum.angle": ANGLE}, BOTH),
    Job("lengths", "double_pendulum", dict.fromkeys(("upper.length", "lower.length"), Asked(5e-3)), FOUR),
    Job("angles", "double_pendulum", dict.fromkeys(("upper.angle", "lower.angle"), ANGLE), FOUR),
    Job("fingers, states", "hand", FINGERS, ALL, source="states", truths=7),
    Job("fingers, pixels", "hand", FINGERS, ALL, truths=7),
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs: 0 if every error is within what was asked, 1 if not, 2 for wrong input."""
    return main(
        JOBS, arguments, title="Articulated bodies from films", name="articulated", about=(__doc__ or "").splitlines()[0]
    )


if __name__ == "__main__":
    sys.exit(run())
