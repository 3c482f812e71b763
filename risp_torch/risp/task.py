"""RISP tasks of scenes: state head and rendering domains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from risp_torch.risp.domains.domains import Domains
from risp_torch.scene.load import find_function, load_scene, scene_errors_as_user_errors
from risp_torch.scene.scene import Scene
from risp_torch.scene.state_heads.head import StateHead
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, NotNegative, checked

EDGE_WIDTH = 0.06  # pixels: softness of edges in pictures for networks
ANTIALIAS = 2


@checked
@dataclass(frozen=True)
class RispTask:
    """RISP task of a scene; its file defines ``make_task(scene) -> RispTask`` beside ``make_scene``.

    Attributes:
        head: state head of the network.
        domains: the three rendering domains.
        gamma: weight of the gradient loss (RISP, B.2) in the paper preset.
    """

    head: StateHead
    domains: Domains
    gamma: NotNegative

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values."""
        return {"head": self.head.to_json(), "domains": self.domains.to_json(), "gamma": self.gamma}


@checked
def load_task(name: str, scene: Scene) -> RispTask:
    """The task of a scene, by the scene's name or the path of its file.

    Args:
        name: see ``load_scene``.
        scene: result of ``load_scene``.

    Raises:
        UserError: the file has no make_task, or it fails.
    """
    make_task = find_function(name, "make_task")
    with scene_errors_as_user_errors(name, "make_task(scene)"):
        task = make_task(scene)
    if not isinstance(task, RispTask):
        raise UserError(f"make_task of {name} returned {type(task).__name__}: return a RispTask")
    task.head.check(scene)
    return task


@checked
def training_scene(name: str, size: Count, **overrides: Any) -> Scene:
    """A scene with square pictures of this size for a network (``resize_pictures``).

    Args:
        name: see ``load_scene``.
        size: side of the pictures [pixels].
        overrides: options of make_scene.

    Raises:
        UserError: as ``load_scene``, or the scene has no camera.
    """
    scene = load_scene(name, **overrides)
    scene.name = scene.name or name
    resize_pictures(scene, size)
    return scene


@checked
def resize_pictures(scene: Scene, size: Count) -> None:
    """Resize the pictures of a scene to squares for a network, with edges as sharp as those of a film.

    Sigma becomes (``EDGE_WIDTH`` pixels)^2, and every pixel is the mean of ``ANTIALIAS`` x ``ANTIALIAS`` samples.
    Training differentiates images with respect to appearance, not edges.

    Args:
        scene: scene that is changed.
        size: side of the pictures [pixels].

    Raises:
        UserError: the scene has no camera, or the size is less than a pixel.
    """
    scene.resize_camera(size, size)
    scene.sigma = (EDGE_WIDTH * 2.0 / size) ** 2
    scene.style = replace(scene.style, antialias=ANTIALIAS)
