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

_DEFAULT_PARTICLES = 16  # default number of observed particles


class Observer(ABC):
    """Observations for a policy, from the last frame of a motion; of order one, and differentiable."""

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
    def __init__(self, scene: Scene, task: ControlTask, target_positions: torch.Tensor) -> None:
        """An observer.

        Args:
            scene: the scene.
            task: control task of the scene, with ``feedback``.
            target_positions: [P, 3] target positions of the particles at the end [m].

        Raises:
            UserError: a particle does not exist.
        """
        particles = np.asarray(task.feedback.particles, dtype=np.int64)
        if not len(particles):
            particles = np.unique(np.linspace(0, scene.particle_count - 1, _DEFAULT_PARTICLES).round().astype(np.int64))
        if particles.min() < 0 or particles.max() >= scene.particle_count:
            raise UserError(f"feedback watches particle {particles.max()}, and there are 0 to {scene.particle_count - 1}")
        self.particles, self.length_scale = torch.as_tensor(particles, device=target_positions.device), task.size
        self.goal_mean = target_positions[self.particles].mean(dim=0)

    @property
    def size(self) -> int:
        """Three numbers for each position and velocity, and three for the goal."""
        return 6 * len(self.particles) + 3

    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``Observer.observe``; without memory."""
        positions, velocities = states.particle_q[:, -1, self.particles], states.particle_qd[:, -1, self.particles]
        mean_position = positions.mean(dim=1, keepdim=True)
        features = [(positions - mean_position).flatten(1), self.goal_mean - mean_position[:, 0], velocities.flatten(1)]
        return torch.cat(features, dim=1) / self.length_scale, None


class RispObserver(Observer):
    """Predictions of a network for the rendered picture: difference from the goal's prediction, and change since the last one."""

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
            self.goal_prediction = network.read(picture)

    @property
    def size(self) -> int:
        """Two numbers for each output of the network."""
        return 2 * self.network.settings.outputs

    def observe(self, states: States, memory: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``Observer.observe``; the prediction is the memory."""
        prediction = self.network.read(self.scene.render(states, {}, frames=[-1])[:, 0])
        change = torch.zeros_like(prediction) if memory is None else prediction - memory
        return torch.cat([self.goal_prediction - prediction, change], dim=1), prediction
