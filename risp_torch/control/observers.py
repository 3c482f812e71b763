"""What a policy in a closed loop sees: the state itself, or what a RISP network reads from a picture of it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from risp_torch.control.task import ControlTask
from risp_torch.risp.network.resnet import RispNetwork
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError

_WATCHED = 16  # particles, where the task names none


class Observer(ABC):
    """Numbers of order one for a policy, from the last frame of a motion; differentiable."""

    @property
    @abstractmethod
    def size(self) -> int:
        """O, how many numbers."""

    @abstractmethod
    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Look at a scene.

        Args:
            states: of one world.
            memory: what the observation before returned, None at the first.

        Returns:
            The observation [1, O], and what the next one needs of it.
        """


class StateObserver(Observer):
    """Places and velocities of some particles about their mean, and where the goal's lies, in parts of the task's size."""

    def __init__(self, scene: Scene, task: ControlTask, places: torch.Tensor) -> None:
        """An observer.

        Args:
            scene: what moves.
            task: of the scene, with ``feedback``.
            places: [P, 3] where the particles should be at the end [m].

        Raises:
            UserError: a particle is not there.
        """
        chosen = np.asarray(task.feedback.particles, dtype=np.int64)
        if not len(chosen):
            chosen = np.unique(np.linspace(0, scene.particle_count - 1, _WATCHED).round().astype(np.int64))
        if chosen.min() < 0 or chosen.max() >= scene.particle_count:
            raise UserError(f"feedback watches particle {chosen.max()}, and there are 0 to {scene.particle_count - 1}")
        self.chosen, self.scale = torch.as_tensor(chosen, device=places.device), task.size
        self.goal = places[self.chosen].mean(dim=0)

    @property
    def size(self) -> int:
        """Three numbers for each place and velocity, and three for the goal."""
        return 6 * len(self.chosen) + 3

    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As of ``Observer.observe``; nothing is remembered."""
        places, velocities = states.particle_q[:, -1, self.chosen], states.particle_qd[:, -1, self.chosen]
        center = places.mean(dim=1, keepdim=True)
        parts = [(places - center).flatten(1), self.goal - center[:, 0], velocities.flatten(1)]
        return torch.cat(parts, dim=1) / self.scale, None


class RispObserver(Observer):
    """What a network reads from the rendered picture: how far the goal's reading is, and the change since the last one."""

    def __init__(self, scene: Scene, network: RispNetwork, picture: torch.Tensor) -> None:
        """An observer.

        Args:
            scene: whose pictures have the network's size.
            network: frozen.
            picture: [H, W, 3] of the goal (linear rgb).
        """
        self.scene, self.network = scene, network
        with torch.no_grad():
            self.goal = network.read(picture)

    @property
    def size(self) -> int:
        """Two numbers for each output of the network."""
        return 2 * self.network.settings.outputs

    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As of ``Observer.observe``; the reading is remembered."""
        reading = self.network.read(self.scene.render(states, {}, frames=[-1])[:, 0])
        change = torch.zeros_like(reading) if memory is None else reading - memory
        return torch.cat([self.goal - reading, change], dim=1), reading
