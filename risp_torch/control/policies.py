"""Policies: networks whose output is a parameter of a scene."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import torch
from torch import nn

from risp_torch.control.task import Widths
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, FiniteArray, NotNegative, Positive, Rule, Seed, checked


class SinePolicy(nn.Module):
    """Open loop: sinusoids of one frequency and shifted phases, a linear layer without bias, tanh (gradSim, appendix E).

    a(t) = limit tanh(W s(t)), s_k(t) = sin(frequency t + 2 pi k / signals).
    """

    @checked
    def __init__(
        self,
        outputs: Count,
        *,
        signals: Count = 8,
        frequency: Positive,
        limit: Positive,
        times: Annotated[Any, Rule(shape=(None,), exact=True)],
        fade: NotNegative = 0.0,
        seed: Seed = 0,
    ) -> None:
        """Make a policy with random weights.

        Args:
            outputs: E, number of outputs at each time.
            signals: K, number of sinusoids.
            frequency: angular frequency of all sinusoids [rad/s].
            limit: largest magnitude of an output, in the unit of the controlled parameter.
            times: [R] times of the parameter's rows [s] (``control_times``).
            fade: duration before the last time in which the outputs decrease linearly to zero [s]; a body is then near its rest
                shape when it is evaluated.
            seed: seed of the weights.

        Raises:
            UserError: a count, the frequency or the limit is not positive, or the fade is negative.
        """
        super().__init__()
        row_times = np.asarray(times, dtype=np.float64)
        taper = np.minimum((row_times[-1] - row_times) / fade, 1.0) if fade > 0 else np.ones(len(row_times))
        self.register_buffer("amplitude", _to_runtime(torch.as_tensor(limit * taper)[:, None]), persistent=False)
        phases = 2 * math.pi * torch.arange(signals, dtype=torch.float64) / signals
        angles = frequency * torch.as_tensor(row_times)[:, None] + phases
        self.register_buffer("signals", _to_runtime(torch.sin(angles)), persistent=False)
        self.weight = nn.Parameter(_to_runtime(_uniform((outputs, signals), 1 / math.sqrt(signals), _generator(seed))))

    def forward(self) -> torch.Tensor:
        """[R, E] outputs at all times."""
        return self.amplitude * torch.tanh(self.signals @ self.weight.T)


class FeedbackPolicy(nn.Module):
    """Closed loop: a perceptron with tanh after every layer, from an observation to the outputs until the next one."""

    @checked
    def __init__(self, observations: Count, outputs: Count, *, hidden: Widths = (64,), limit: Positive, seed: Seed = 0) -> None:
        """Make a policy with random weights.

        Args:
            observations: O, number of observations.
            outputs: E, number of outputs.
            hidden: widths of the layers between.
            limit: largest magnitude of an output, in the unit of the controlled parameter.
            seed: seed of the weights.

        Raises:
            UserError: a count or the limit is not positive.
        """
        super().__init__()
        widths = (observations, *hidden, outputs)
        self.limit, self.observations = limit, observations
        generator = _generator(seed)
        layers: list[nn.Module] = []
        for num_inputs, num_outputs in zip(widths[:-1], widths[1:], strict=True):
            layers += [_linear(num_inputs, num_outputs, generator), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Outputs [B, E] for observations [B, O]."""
        return self.limit * self.layers(observation)


class DirectPolicy(nn.Module):
    """Direct parameters without a network, such as an initial velocity or a sequence of forces."""

    @checked
    def __init__(self, start: FiniteArray, *, scale: Positive = 1.0) -> None:
        """Make a policy with these initial values.

        Args:
            start: initial values, of any shape, in the unit of the controlled parameter.
            scale: physical size of a unit step of the optimiser, same unit.

        Raises:
            UserError: the scale is not positive, or a number is not finite.
        """
        super().__init__()
        numbers = np.asarray(start, dtype=np.float64)
        self.scale = scale
        self.numbers = nn.Parameter(_to_runtime(torch.as_tensor(numbers / scale)))

    def forward(self) -> torch.Tensor:
        """The numbers, of the shape of ``start``."""
        return self.scale * self.numbers


@checked
def control_times(scene: Scene) -> np.ndarray:
    """[frames * controls] start times [s] of the rows of an actuation of a scene."""
    return np.arange(scene.frames * scene.stepping.controls) * (scene.frame_dt / scene.stepping.controls)


def _linear(num_inputs: int, num_outputs: int, generator: torch.Generator) -> nn.Linear:
    """A layer with torch's usual distribution of weights, sampled from a separate generator."""
    layer = nn.Linear(num_inputs, num_outputs, dtype=bridge_dtype(), device=bridge_device())
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.copy_(_uniform(tuple(parameter.shape), 1 / math.sqrt(num_inputs), generator))
    return layer


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> torch.Tensor:
    """Float64 numbers in [-bound, bound], on the CPU: equal for a seed in every precision and on every device."""
    return bound * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)


def _to_runtime(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(dtype=bridge_dtype(), device=bridge_device())


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
