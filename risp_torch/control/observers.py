"""Observations of a policy in a closed loop: the state, or the prediction of a RISP network from a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from risp_torch.control.task import ControlTask
from risp_torch.risp.network.resnet import RispNetwork
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_WATCHED = 16  # default number of observed particles


class Observer(ABC):
    """Numbers of order one for a policy, from the last frame of a motion; differentiable."""

    @property
    @abstractmethod
    def size(self) -> int:
        """O, the number of observations."""

    @abstractmethod
    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Observe a scene.

        Args:
            states: of one world.
            memory: memory from the previous observation, None at the first.

        Returns:
            The observation [1, O], and the memory for the next one.
        """


class StateObserver(Observer):
    """Positions and velocities of some particles about their mean, and the mean of the goal, relative to the task's size."""

    @checked
    def __init__(self, scene: Scene, task: ControlTask, places: torch.Tensor) -> None:
        """An observer.

        Args:
            scene: the scene.
            task: of the scene, with ``feedback``.
            places: [P, 3] target positions of the particles at the end [m].

        Raises:
            UserError: a particle does not exist.
        """
        particles = np.asarray(task.feedback.particles, dtype=np.int64)
        if not len(particles):
            particles = np.unique(np.linspace(0, scene.particle_count - 1, _WATCHED).round().astype(np.int64))
        if particles.min() < 0 or particles.max() >= scene.particle_count:
            raise UserError(f"feedback watches particle {particles.max()}, and there are 0 to {scene.particle_count - 1}")
        self.chosen, self.scale = torch.as_tensor(particles, device=places.device), task.size
        self.goal = places[self.chosen].mean(dim=0)

    @property
    def size(self) -> int:
        """Three numbers for each place and velocity, and three for the goal."""
        return 6 * len(self.chosen) + 3

    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``Observer.observe``; without memory."""
        positions, velocities = states.particle_q[:, -1, self.chosen], states.particle_qd[:, -1, self.chosen]
        center = positions.mean(dim=1, keepdim=True)
        features = [(positions - center).flatten(1), self.goal - center[:, 0], velocities.flatten(1)]
        return torch.cat(features, dim=1) / self.scale, None


class RispObserver(Observer):
    """Predictions of a network for the rendered picture: difference to that of the goal, and change since the last one."""

    @checked
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
        """See ``Observer.observe``; the prediction is the memory."""
        reading = self.network.read(self.scene.render(states, {}, frames=[-1])[:, 0])
        change = torch.zeros_like(reading) if memory is None else reading - memory
        return torch.cat([self.goal - reading, change], dim=1), reading
