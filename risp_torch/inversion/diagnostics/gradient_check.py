"""Gradients of torch functions and of whole scenes against central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.problem.films.rendered_film import film, pixel_loss
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.gradcheck import GradcheckReport, gradcheck
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, Rule, checked
from ti_sim.rollout.adjoint import Adjoint

TARGET_SHIFT = 0.05  # of the range: distance of the target's unknowns from the point of the check
OBSERVABILITY_THRESHOLD = 1e-6  # of the loss, per allowed range: below it an unknown is not observable
TOLERANCE = 1e-3  # relative, between gradient and difference
ROUNDOFF = 4 * float(np.finfo(np.float64).eps)  # of a pixel


@dataclass(frozen=True)
class FilmGradient:
    """Derivative of the film loss with respect to one unknown, per allowed range.

    Attributes:
        label: name of the number.
        gradient, difference: adjoint gradient, and central difference.
        relative: their distance relative to the difference or the observability threshold.
        status: see ``GradcheckEntry``; at a kink the gradient may be any slope between the one-sided slopes.
        left, right: one-sided differences, if gradient and difference disagree.
    """

    label: str
    gradient: float
    difference: float
    relative: float = 0.0
    status: str = "ok"
    left: float | None = None
    right: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the gradient is right or cannot be checked."""
        return self.status in ("ok", "kink, inside", "not observable")

    @property
    def verdict(self) -> str:
        """Result of the check in words."""
        slopes = "" if self.left is None else f" (slopes {self.left:+.4e} from below, {self.right:+.4e} from above)"
        words = {
            "ok": "right", "kink, inside": f"right, at a kink{slopes}", "kink": f"WRONG, at a kink{slopes}",
            "jump": f"the loss jumps here{slopes}",
        }  # fmt: skip
        return words.get(self.status, self.status)


class ShiftedFilmLoss:
    """Pixel loss of a scene's film against the film whose unknowns are moved by 5 % of their ranges.

    Attributes:
        origin: by name, the change of each unknown at the scene's own values: zeros.
    """

    def __init__(self, scene: Scene, names: Sequence[str], *, frames: int | None = None, adjoint: Adjoint | None = None) -> None:
        """Simulate and render the other film.

        Args:
            scene: the scene.
            names: parameters, or entries of them.
            frames: frame intervals; all by default.
            adjoint: how states are kept for the gradient.
        """
        self._scene, self._frames, self._adjoint = scene, frames or scene.frames, adjoint
        self._params = {name: scene.table[name] for name in names}
        self._values = {
            name: np.asarray(param.to_scaled(param.value), dtype=np.float64) for name, param in self._params.items()
        }
        positive = {name: scene.table.signs.get(split_entry(name)[0]) == "positive" for name in names}
        self._ranges = {name: _range(self._values[name], self._params[name], positive[name]) for name in names}
        self.origin = {name: np.zeros(value.shape) for name, value in self._values.items()}
        with torch.no_grad():
            shift = torch.tensor(TARGET_SHIFT, dtype=torch.float64)
            self._target = self._film({name: shift.expand(1, *array.shape) for name, array in self.origin.items()})[0]

    def __call__(self, fractions: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Losses [B] of B worlds, from changes [B, *shape] of the unknowns relative to their ranges."""
        return pixel_loss(self._film(fractions), self._target)

    def _film(self, fractions: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Films [B, T, H, W, 3]."""
        physical = {
            name: self._params[name].from_scaled(
                torch.as_tensor(self._values[name]) + torch.as_tensor(self._ranges[name]) * fraction
            )
            for name, fraction in fractions.items()
        }
        worlds = len(next(iter(fractions.values())))
        return film(self._scene, physical, worlds=worlds, frames=self._frames, adjoint=self._adjoint)[0]


def loss_and_gradient(
    function: Callable[[dict[str, torch.Tensor]], torch.Tensor],
) -> Callable[[Mapping[str, np.ndarray]], tuple[float, dict[str, np.ndarray]]]:
    """The function that ``gradcheck`` needs, from a torch function of named tensors that returns a scalar."""

    def evaluate(point: Mapping[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        tensors = {name: torch.tensor(value, dtype=bridge_dtype(), requires_grad=True) for name, value in point.items()}
        loss = function(tensors)
        gradients = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
        pairs = zip(tensors.items(), gradients, strict=True)
        return float(loss.detach()), {
            name: (torch.zeros_like(t) if g is None else g).detach().cpu().numpy() for (name, t), g in pairs
        }

    return evaluate


@checked
def check_torch(
    function: Callable[[dict[str, torch.Tensor]], torch.Tensor], point: Mapping[str, np.ndarray], **options: object
) -> GradcheckReport:
    """``gradcheck`` of a torch function of named tensors that returns a scalar (options: those of ``gradcheck``).

    The gradient is computed once; the function's values for the differences are computed without one.
    """

    def loss(arrays: Mapping[str, np.ndarray]) -> float:
        return float(function({name: torch.tensor(value, dtype=bridge_dtype()) for name, value in arrays.items()}).detach())

    return gradcheck(loss_and_gradient(function), dict(point), loss=loss, **options)


@checked
def check_film_gradient(
    scene: Scene,
    names: Sequence[str],
    *,
    frames: Count | None = None,
    step: Annotated[float, Rule(above=0, maximum=0.5)] = 1e-8,
    adjoint: Adjoint | None = None,
    progress: bool = False,
) -> tuple[list[FilmGradient], float]:
    """Check d(film loss) / d(unknowns) at the scene's own values, over the whole film.

    The loss is the pixels' mean square difference from a film whose unknowns are moved by 5 % of their ranges. It is
    continuous, with kinks where a contact begins, ends, slips or sticks in another physics step than before. The step of the
    five-point differences is so small (1e-8 of a range, in f64) that few contacts switch between their points; where gradient
    and difference disagree, one-sided slopes distinguish a kink from a wrong gradient. Slopes below 1e-6 of the loss are not
    observable, nor are those that roundoff of the pixels, 4 units in the last place of white, puts into a difference.

    Args:
        scene: the scene.
        names: parameters, or entries of them; those without bounds are scaled by their own magnitude (at least 1,
            except for those that are always positive).
        frames: frame intervals; all by default.
        step: step of the differences, relative to the range.
        adjoint: how states are kept.
        progress: whether to show a progress bar.

    Returns:
        One entry for each number, and the loss.

    Raises:
        UserError: no names, or the runtime works in f32.
    """
    if not names:
        raise UserError(f"{scene.name} declares no unknowns: name a parameter with --unknown")
    if bridge_dtype() != torch.float64:
        raise UserError("gradients are checked in f64: start the runtime with precision 'f64'")
    film_loss = ShiftedFilmLoss(scene, names, frames=frames, adjoint=adjoint)
    progress_bar = tqdm(desc="films", disable=not progress, leave=False)

    def loss(fractions: dict[str, torch.Tensor]) -> torch.Tensor:
        progress_bar.update()
        return film_loss({name: fraction[None] for name, fraction in fractions.items()}).sum()

    with torch.no_grad():
        loss_value = float(loss({name: torch.as_tensor(zeros) for name, zeros in film_loss.origin.items()}))
    difference_noise = (2 * loss_value**0.5 + ROUNDOFF) * ROUNDOFF / step  # of differences of a mean of squares
    report = check_torch(
        loss, film_loss.origin, step=step, order=4, rtol=TOLERANCE, atol=difference_noise,
        floor=max(OBSERVABILITY_THRESHOLD * loss_value, difference_noise), allow_kinks=True, min_observable=0,
    )  # fmt: skip
    progress_bar.close()
    entries = [
        FilmGradient(
            entry.name + "".join(f"[{i}]" for i in entry.index), entry.adjoint, entry.difference, entry.relative, entry.status,
            entry.left, entry.right,
        )
        for entry in report.entries
    ]  # fmt: skip
    return entries, loss_value


def _range(value: np.ndarray, param: Param, positive: bool) -> np.ndarray:
    if param.range is not None:
        return np.broadcast_to(np.asarray(param.range, dtype=np.float64), value.shape).copy()
    return np.abs(value) if positive and param.scale == "linear" else np.maximum(np.abs(value), 1.0)
