"""Numbers of deformable bodies from films: stiffness of a beam and a rod, density of a ball, springs, a cloth's velocity.

All scales start a factor of two or more away from the truth, velocities with other sizes, some with other signs. The stiffness
of every element of a beam of two parts starts as that of a uniform beam.
"""

import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch

from risp_torch import Scene, SearchStages, SmoothnessPrior
from studies.films.film_jobs import Asked, Job, Measure, Numbers, main

BOTH = ((2.0,), (0.5,))
ROD = ((10**-0.7,), (10**1.7,))  # 10^4.3 and 10^6.7 Pa for a truth of 10^5
BEAM = {"beam.E": Asked(5e-3), "beam.nu": Asked(0.02, relative=False)}
BEAM_STARTS = ((2.0, 0.5), (0.5, 1.2))


def start_velocities(scene: Scene, values: Numbers) -> np.ndarray:
    """[V, 3] velocities of a scene's only deformable body at the start [m/s]."""
    parameters = {name: torch.as_tensor(value) for name, value in values.items()}
    return scene.deformables[0].start_velocity(scene.table.values(parameters))[0].double().cpu().numpy()


def mean_of_half(name: str, *, stiff: bool) -> Callable[[Scene, Numbers], np.ndarray]:
    """The mean of a parameter over the elements of the beam's stiff or soft half."""

    def mean(scene: Scene, values: Numbers) -> np.ndarray:
        true = np.asarray(scene.parameters[name].value)
        return values[name][(true > true.mean()) == stiff].mean()

    return mean


def uniform_beam(truth: np.ndarray) -> np.ndarray:
    """One and a half times the geometric mean everywhere."""
    return np.full_like(truth, 1.5 * np.exp(np.log(truth).mean()))


HALVES = tuple(
    Measure(f"{key}, {'stiff' if stiff else 'soft'} half", mean_of_half(f"beam.{key}", stiff=stiff), asked)
    for key, asked in (("mu", 0.05), ("lam", None))
    for stiff in (True, False)
)
JOBS = (
    Job("beam, frames", "beam", BEAM, BEAM_STARTS, source="png"),
    Job("beam, film", "beam", BEAM, BEAM_STARTS),
    Job(
        "two parts", "beam", {"beam.mu": None, "beam.lam": None}, ((uniform_beam, uniform_beam),),
        options={"parts": True, "size": 96}, measures=HALVES, modes=True, iterations=40,
        priors={"beam.mu": SmoothnessPrior(2e-5), "beam.lam": SmoothnessPrior(5e-5)},
        search=SearchStages(linearise_up_to=500, refine=8),
    ),  # fmt: skip
    Job(
        "uniform velocity", "cloth", {"cloth.velocity": None}, ((0.5,), (1.5,), ((-1.0, 0.5, -1.0),)),
        measures=(Measure("field", start_velocities, 0.01),),
    ),  # fmt: skip
    Job(
        "affine velocity", "cloth", {"cloth.velocity": None, "cloth.velocity_gradient": None},
        ((0.5, 1.5), ((-1.0, 0.5, -1.0), -0.5)), options={"field": "affine", "stiffness": 40.0},
        measures=(Measure("field", start_velocities, 0.03),),
    ),  # fmt: skip
    Job(
        "velocity of each particle", "cloth", {"cloth.velocity": None}, ((0.5,),), options={"field": "particles", "size": 64},
        measures=(Measure("field", start_velocities, None),), modes=True,
        search=SearchStages(linearise_up_to=500, refine=0),
    ),  # fmt: skip
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
