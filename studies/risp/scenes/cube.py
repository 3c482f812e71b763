"""Trials of the die: the stiffness of its contact with the ground (RISP, ICLR 2022, B.1.2)."""

import numpy as np

from risp_torch import WIDE_SEARCH, Scene
from scenes.cube import make_scene
from studies.risp.trials.trial import Trial


def make_trials() -> dict[str, Trial]:
    """RISP's inversion of the die: the stiffness of the contact, from 10^5.5 to 10^6.5 in the units of its simulator.

    Unseen are the tenth of a second after the film, and another throw: faster, and turning the other way.
    """
    name = "ground.contact.stiffness"

    def draw(random: np.random.Generator) -> dict[str, float]:
        return {name: float(10 ** random.uniform(2.55, 3.45))}  # a twentieth of a decade off the bounds

    return {
        "identify": Trial(
            unknowns=(name,), truth={name: 1e3}, truths=lambda r: {name: float(10 ** r.uniform(2.6, 3.4))}, guess=draw,
            random=draw, average={name: 1e3}, measure="parameter", unit="log10", log=True,
            search=WIDE_SEARCH, starts=4, refine=6, unseen=_unseen_throws,
        )
    }  # fmt: skip


def _unseen_throws() -> dict[str, Scene]:
    later, other_throw = make_scene(), make_scene()
    later.frames += later.frames // 2
    other_throw.set("die.velocity", (0.2, 0.1, -0.3))
    other_throw.set("die.angular_velocity", (-4.0, 3.0, 0.0))
    return {"later frames": later, "other throw": other_throw}
