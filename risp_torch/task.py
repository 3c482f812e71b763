"""What a scene says to RISP: what is read from its pictures, and how these look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from risp_torch.domains import Domains
from risp_torch.scene import Scene
from risp_torch.scene.load import find_function
from risp_torch.state_heads import StateHead
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class RispTask:
    """A scene's side of RISP; its file has ``make_task(scene) -> RispTask`` beside ``make_scene``.

    Attributes:
        head: what the network reads.
        domains: the three rendering domains.
        gamma: starting point for the weight of the gradient loss (RISP, B.2).
    """

    head: StateHead
    domains: Domains
    gamma: float

    def to_json(self) -> dict[str, Any]:
        """Everything in values that JSON can hold."""
        return {"head": self.head.to_json(), "domains": self.domains.to_json(), "gamma": self.gamma}


def load_task(name: str, scene: Scene) -> RispTask:
    """The task of a scene, by the scene's name or the path of its file.

    Args:
        name: as for ``load_scene``.
        scene: what ``load_scene`` made of it.

    Raises:
        UserError: the file has no make_task, or it fails.
    """
    task = find_function(name, "make_task")(scene)
    if not isinstance(task, RispTask):
        raise UserError(f"make_task of {name} returned {type(task).__name__}: return a RispTask")
    task.head.check(scene)
    return task
