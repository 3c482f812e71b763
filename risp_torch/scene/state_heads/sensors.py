"""The state head of a deformable body: positions of selected points (the rod of RISP, ICLR 2022, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.state_heads.head import StateHead
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Real, Rule, checked

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

_SEED = 7  # random stream of the simulated motions
_BATCH_SIZE = 8  # motions that are simulated together


@checked
@dataclass(frozen=True)
class SensorHead(StateHead, kind="sensors"):
    """One output for each sensor, a particle of the body: its coordinate along an axis, mapped from [low, high] to [-1, 1].

    States for training are frames of simulated motions: ``worlds`` of them are simulated once for a scene, with different
    parameters, and every state is a frame of one of them, both sampled uniformly. The motions of the last scene are cached until
    its parameters change.

    Attributes:
        body: name of the deformable body.
        particles: particles of the sensors, as indices within the body.
        axis: 0, 1 or 2 for x, y or z.
        low, high: ends of the coordinate's range [m].
        draws: parameter name -> ends of a range. A number is sampled between them, uniformly on its Param's scale; an array of
            the scene, such as a force over time, is multiplied by a number sampled between them.
        worlds: simulated motions.
    """

    body: str
    particles: Annotated[tuple[int, ...], Rule(shape=(None,), exact=True, integer=True, minimum=0)]
    axis: Annotated[int, Rule(integer=True, minimum=0, maximum=2)]
    low: Real
    high: Real
    draws: Annotated[Mapping[str, tuple[float, float]], Rule(named=True, shape=(2,), exact=True)] = field(default_factory=dict)
    worlds: Count = 32

    def __post_init__(self) -> None:
        object.__setattr__(self, "particles", tuple(int(k) for k in self.particles))
        object.__setattr__(self, "draws", {name: (float(a), float(b)) for name, (a, b) in self.draws.items()})
        for name, (low, high) in {"range": (self.low, self.high), **self.draws}.items():
            if not low < high:
                raise UserError(f"the state head's {name} goes from {low} to {high}: give the low end first")

    @property
    def labels(self) -> list[str]:
        """One label per sensor (``StateHead.labels``)."""
        return [f"{'xyz'[self.axis]} {k}" for k in range(1, len(self.particles) + 1)]

    def check(self, scene: Scene) -> None:
        """The body, its particles and the sampled parameters must exist (``StateHead.check``)."""
        body = self._deformable(scene)
        invalid = [k for k in self.particles if not 0 <= k < body.count]
        if invalid:
            raise UserError(
                f"the state head has a sensor at particle {invalid[0]} of {self.body}, which has 0 to {body.count - 1}"
            )
        for name in self.draws:
            scene.table[name]  # raises an error with similar names

    def sample(self, scene: Scene, random: np.random.Generator) -> torch.Tensor:
        """A frame of a simulated motion (``StateHead.sample``)."""
        from risp_torch.scene.numbers import constant

        motions = self._simulated_placements(scene)
        world, frame = (int(random.integers(count)) for count in motions.shape[:2])
        return constant(motions[world, frame])

    def outputs(self, scene: Scene, body_q: torch.Tensor) -> torch.Tensor:
        """The sensors' coordinates (``StateHead.outputs``)."""
        first = len(scene.bodies) + self._deformable(scene).first_particle
        position = body_q[..., [first + k for k in self.particles], self.axis]
        return (2.0 * position - (self.low + self.high)) / (self.high - self.low)

    def physical(self, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Coordinates of the sensors [..., S], m (``StateHead.physical``)."""
        return {"position": 0.5 * (self.low + self.high + outputs * (self.high - self.low))}

    def to_json(self) -> dict[str, Any]:
        """The head's entries (``StateHead.to_json``)."""
        entries = asdict(self) | {"particles": list(self.particles), "draws": {k: list(v) for k, v in self.draws.items()}}
        return {"kind": self.kind, **entries}

    def _deformable(self, scene: Scene) -> Any:
        names = [deformable.name for deformable in scene.deformables]
        if self.body not in names:
            raise unknown_name_error("deformable body", self.body, names)
        return scene.deformables[names.index(self.body)]

    @cached_property
    def _cache(self) -> dict[str, Any]:
        """Cache: parameters of the last simulated scene, and its motions; not a field of the head."""
        return {}

    def _simulated_placements(self, scene: Scene) -> np.ndarray:
        """[W, T, rows, columns] placement (``Scene.poses``) in the motions that did not diverge."""
        params = list(scene.table.params.values())
        cached = self._cache.get("params")
        if cached is None or len(cached) != len(params) or any(a is not b for a, b in zip(cached, params, strict=True)):
            sampled_values, chunks = self._sampled_parameters(scene), []
            batch_starts = tqdm(range(0, self.worlds, _BATCH_SIZE), desc="simulating", unit_scale=_BATCH_SIZE, delay=2.0)
            with torch.no_grad():
                for first in batch_starts:
                    chunk = {name: value[first : first + _BATCH_SIZE] for name, value in sampled_values.items()}
                    states = scene.rollout(chunk, worlds=min(_BATCH_SIZE, self.worlds - first))
                    chunks.append(states.placement[states.finite].cpu().numpy())
            self._cache.update(params=params, motions=np.concatenate(chunks))
        return self._cache["motions"]

    def _sampled_parameters(self, scene: Scene) -> dict[str, torch.Tensor]:
        from risp_torch.scene.numbers import constant

        random, values = np.random.default_rng(_SEED), {}
        for name, (low, high) in self.draws.items():
            param = scene.table[name]
            if np.ndim(param.value):
                factor = random.uniform(low, high, self.worlds).reshape(-1, *[1] * np.ndim(param.value))
                values[name] = constant(factor * param.value)
            else:
                limits = (float(param.to_scaled(limit)) for limit in (low, high))
                values[name] = constant(param.from_scaled(random.uniform(*limits, self.worlds)))
        return values
