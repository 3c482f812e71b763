"""Rendering parameters: parameters of a scene's appearance as one vector psi in [-1, 1]^K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.rendering_parameters.ranges import Distribution, distribution_from_json
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Seed, checked

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

_BOUND_TOLERANCE = 1e-9


class RenderingParameters:
    """The varying parameters of a scene's appearance, their ranges, and their vector psi.

    psi has one entry in [-1, 1] for each number (a ``Range`` or ``Factor`` may tie several to one). Uniform, independent
    samples are a distribution of appearances. The scene's other parameters are constant.

    Attributes:
        distributions: parameter name -> its variation.
        labels: K names of the entries of psi.
    """

    @checked
    def __init__(self, scene: Scene, distributions: Mapping[str, Distribution]) -> None:
        """Make rendering parameters.

        Args:
            scene: whose parameters they are; factors multiply its current values.
            distributions: parameter name -> Range, Factor or Direction.

        Raises:
            UserError: an unknown name (with similar ones), a parameter without effect on appearance, a reversed range, or values
                outside the parameter's own bounds.
        """
        if not distributions:
            raise UserError("there are no rendering parameters: name at least one, or take default_psi(scene)")
        names = scene.view.picture_parameters
        for name in distributions:
            if name not in names and name in scene.parameters:
                raise UserError(f"{name} affects the motion, not the appearance: psi may have {', '.join(names[:8])} ...")
            if name not in names:
                raise unknown_name_error("rendering parameter", name, names)
        self.distributions = dict(distributions)
        self._scene_values = {name: np.asarray(scene.parameters[name].value, dtype=np.float64) for name in distributions}
        self.labels: list[str] = []
        self._slices: dict[str, slice] = {}
        for name, distribution in self.distributions.items():
            distribution.check(name, self._scene_values[name].shape)
            first = len(self.labels)
            self.labels += distribution.labels(name, self._scene_values[name].shape)
            self._slices[name] = slice(first, len(self.labels))
            self._check_bounds(scene, name, distribution)

    @property
    def size(self) -> int:
        """K, the number of entries of psi."""
        return len(self.labels)

    @checked
    def sample(self, count: Count, *, seed: Seed | torch.Generator = 0) -> torch.Tensor:
        """Sample appearances, uniformly and independently.

        Args:
            count: number of samples.
            seed: seed, or a generator (on the CPU), which is advanced.

        Returns:
            [count, K] in [-1, 1], the runtime's precision on its device. The same seed gives the same numbers on every device.
        """
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        unit = torch.rand((count, self.size), generator=generator, dtype=torch.float64)
        return (2.0 * unit - 1.0).to(dtype=bridge_dtype(), device=bridge_device())

    def values(self, psi: torch.Tensor) -> dict[str, torch.Tensor]:
        """Physical values of the parameters, differentiable in psi.

        Args:
            psi: [K], or [n, K] for n worlds. Values outside [-1, 1] extrapolate the ranges.

        Returns:
            Name -> [*shape] or [n, *shape], for ``Scene.render``.

        Raises:
            UserError: psi has another length.
        """
        if psi.ndim not in (1, 2) or psi.shape[-1] != self.size:
            raise UserError(f"psi has shape {tuple(psi.shape)}: give [{self.size}] or [worlds, {self.size}]")
        scene_values = {
            name: torch.as_tensor(value, dtype=psi.dtype, device=psi.device) for name, value in self._scene_values.items()
        }
        return {
            name: distribution.physical(scene_values[name], psi[..., self._slices[name]])
            for name, distribution in self.distributions.items()
        }

    def indices(self, names: Sequence[str]) -> list[int]:
        """Entries of psi that belong to parameter names or labels.

        Raises:
            UserError: an unknown name.
        """
        entries: list[int] = []
        for name in names:
            if name in self._slices:
                entries += range(self.size)[self._slices[name]]
            elif name in self.labels:
                entries.append(self.labels.index(name))
            else:
                raise unknown_name_error("entry of psi", name, [*self.distributions, *self.labels])
        return entries

    def to_json(self) -> dict[str, Any]:
        """Names and ranges as JSON values."""
        return {name: distribution.to_json() for name, distribution in self.distributions.items()}

    @staticmethod
    def from_json(scene: Scene, data: Mapping[str, Any]) -> RenderingParameters:
        """Rendering parameters from the result of ``to_json``, for a scene with these parameters (errors:
        ``RenderingParameters``).
        """
        return RenderingParameters(scene, {name: distribution_from_json(name, entry) for name, entry in data.items()})

    def _check_bounds(self, scene: Scene, name: str, distribution: Distribution) -> None:
        """Raise a UserError for ranges outside the parameter's bounds."""
        columns = self._slices[name]
        points = torch.as_tensor(distribution.extremes(columns.stop - columns.start), dtype=torch.float64)
        values = distribution.physical(torch.as_tensor(self._scene_values[name]), points).numpy()
        param, sign = scene.parameters[name], scene.table.signs.get(name)
        lower_bound = {"color": 0.0, "positive": 0.0, "not negative": 0.0}.get(sign, -np.inf)
        low = np.maximum(-np.inf if param.low is None else param.low, lower_bound)
        high = np.minimum(np.inf if param.high is None else param.high, 1.0 if sign == "color" else np.inf)
        tolerance = _BOUND_TOLERANCE * np.maximum(1.0, np.abs(values))
        outside = (values < low - tolerance) | (values > high + tolerance) | ((sign == "positive") & (values <= 0))
        if outside.any():
            raise UserError(
                f"{name} would reach {values[outside].flat[0]:.6g} {param.unit}, outside its bounds "
                f"[{np.min(low):.6g}, {np.max(high):.6g}]: narrow its range"
            )
