"""Gradients of every shipped scene at random values of all of its parameters: states and pixels, along random directions.

All worlds of a scene run in one batch: three draws for the adjoint, and each of them moved along its direction for the five-point
difference. The direction moves every number of the scene at once, by units of a twentieth of its size or of its range. An error
counts against the sum of what the single parameters contribute, so that no cancellation hides it or makes it up. Where a
contact switches, or a pixel's kink lies, within the difference, it is taken again over a tenth of the step; at a kink itself, the
adjoint has to lie between the slopes of both sides, and few draws may have one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from risp_torch import ImplicitSettings, Scene, load_scene, scene_names
from risp_torch.scene.bridge import pictures
from risp_torch.scene.parts.links import Link
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rigid.solver import RigidSolver

SEEDS, FRAMES, SIZE = 3, 2, 16
STEPS = (1e-6, 1e-7)  # in the units of the directions
RTOL = 1e-5
ROUNDOFF = 1e-14  # of the sum of all terms
KINKS = 3  # of all draws of all scenes, at most
# Draws in which bodies touch the ground at once; the shipped starts are in the air.
TOUCHING = {
    "cube": {"die.position": (0.0, 0.0, 0.022), "die.velocity": (0.3, 0.1, -0.8)},
    "toss": {"body.position": (-0.02, 0.0, 0.03), "body.velocity": (0.2, 0.1, -0.3)},
}

Values = dict[str, torch.Tensor]


# Of 4,096 cells and the limiter of second-order advection, some switch between any two points of a difference.
OPTIONS = {"smoke": {"cells": 12, "advection": "semi_lagrangian"}, "strip": {"cells": (6, 2, 1)}}
TIGHT = ImplicitSettings(tolerance=1e-12, adjoint_tolerance=1e-12)  # a difference shows what Newton's method leaves


def drawn(scene: Scene, seed: int) -> tuple[Values, Values]:
    """A random value and a random direction of every number of a scene."""
    random = np.random.default_rng((seed, len(scene.parameters)))
    values, directions = {}, {}
    for name, param in scene.parameters.items():
        value, sign = np.asarray(param.value, dtype=np.float64), scene.table.signs.get(name)
        noise, along = random.normal(size=(2, *value.shape))
        if name.endswith((".inertia", ".inertia_per_mass")):  # a thin body's moments leave little room
            noise, along = noise[0, 0] * value / np.abs(value).max(), 0.5 * (along + along.T)
        if param.range is not None and name not in TOUCHING.get(scene.name, ()):
            low = np.asarray(param.to_scaled(param.low)) if param.low is not None else np.asarray(param.to_scaled(value))
            scaled = torch.as_tensor(low + np.asarray(param.range) * random.uniform(0.2, 0.8, size=value.shape))
            point = param.from_scaled(scaled).cpu().numpy()
            unit = np.abs(param.from_scaled(scaled + 0.02 * torch.as_tensor(param.range)).cpu().numpy() - point)
        else:
            size = np.abs(value) if sign in ("positive", "not negative", "poisson") else np.abs(value).max(initial=0.0)
            unit = np.broadcast_to(np.where(size > 0, 0.05 * size, 0.01), value.shape)
            point = value + np.clip(noise, -2, 2) * unit
            if sign in ("not negative", "color"):
                point = np.abs(point) + 1e-3 * unit
            point = np.clip(point, 0.02, 0.98) if sign == "color" else point
        values[name] = torch.as_tensor(point)
        directions[name] = torch.as_tensor(along * unit / np.sqrt(max(value.size, 1)))
    return values, directions


@dataclass(frozen=True)
class Sums:
    """Random sums of states and pixels [B], and those of their terms' sizes."""

    sums: tuple[torch.Tensor, torch.Tensor]
    sizes: tuple[torch.Tensor, torch.Tensor]


def sums_of(scene: Scene, values: Values) -> Sums:
    """Random sums of everything that a rollout and its film hold, of each world."""
    states = scene.rollout(values, frames=FRAMES)
    assert states.finite.all(), scene.name
    sums, sizes = [], []
    for arrays in ([a for a in states.arrays().values() if a.numel()], [scene.render(states, values, frames=[1, FRAMES])]):
        generator = torch.Generator().manual_seed(5)
        terms = [a * torch.randn(a.shape[1:], generator=generator, dtype=a.dtype) / a[0].numel() ** 0.5 for a in arrays]
        sums.append(sum(term.flatten(1).sum(dim=1) for term in terms))
        sizes.append(sum(term.detach().abs().flatten(1).sum(dim=1) for term in terms))
    return Sums(tuple(sums), tuple(sizes))


@dataclass(frozen=True)
class Slope:
    """A derivative along a direction by the adjoint, and how wrong it is."""

    what: str
    status: str
    adjoint: float
    central: float


def slopes(scene: Scene, draws: list[tuple[Values, Values]]) -> list[Slope]:
    """Derivatives of both sums at every draw, each compared with central differences."""
    names = list(draws[0][0])
    at = {n: torch.stack([values[n] for values, _ in draws]).requires_grad_() for n in names}
    along = {n: torch.stack([direction[n] for _, direction in draws]) for n in names}
    result = sums_of(scene, at)
    parts = []
    for total in result.sums:
        bars = torch.autograd.grad(total.sum(), list(at.values()), retain_graph=True, allow_unused=True)
        rows = [(torch.zeros_like(along[n]) if bar is None else bar * along[n]) for n, bar in zip(names, bars, strict=True)]
        parts.append(torch.stack([row.flatten(1).sum(dim=1) if row.ndim > 1 else row for row in rows]))  # [names, B]
    found: list[Slope] = []
    pending = {(kind, world) for kind in range(2) for world in range(len(draws))}
    for step in STEPS:
        if not pending:
            break
        offsets = (-2, -1, 0, 1, 2)
        with torch.no_grad():
            moved = {n: torch.cat([at[n] + k * step * along[n] for k in offsets]) for n in names}
            values = [total.reshape(len(offsets), -1) for total in sums_of(scene, moved).sums]
        for kind, world in sorted(pending):
            m2, m1, zero, p1, p2 = (float(v) for v in values[kind][:, world])
            central = (8 * (p1 - m1) - (p2 - m2)) / (12 * step)
            left, right = (3 * zero - 4 * m1 + m2) / (2 * step), (4 * p1 - 3 * zero - p2) / (2 * step)
            adjoint = float(parts[kind][:, world].sum())
            tolerance = RTOL * float(parts[kind][:, world].abs().sum()) + ROUNDOFF * float(result.sizes[kind][world]) / step
            what = f"{scene.name}: {('states', 'pixels')[kind]}, draw {world}"
            if abs(adjoint - central) <= tolerance:
                status = "ok"
            elif step != STEPS[-1]:
                continue
            elif abs(left - right) > 4 * tolerance and min(left, right) - tolerance <= adjoint <= max(left, right) + tolerance:
                status = "kink"
            else:
                status = "WRONG"
            pending.discard((kind, world))
            found.append(Slope(what, status, adjoint, central))
    return found


def forward_and_reverse(scene: Scene, values: Values, directions: Values) -> tuple[float, float]:
    """<w, J v> and <J^T w, v> of a picture in all parameters and in where everything is."""
    with torch.no_grad():
        poses = scene.rollout(values, frames=1).placement[:, 1:]
    point = (poses, *values.values())
    generator = torch.Generator().manual_seed(7)
    along = (1e-3 * torch.randn(poses.shape, generator=generator, dtype=poses.dtype), *directions.values())

    def picture(placement: torch.Tensor, *numbers: torch.Tensor) -> torch.Tensor:
        return scene.render(placement, dict(zip(values, numbers, strict=True)))

    image, tangent = torch.func.jvp(picture, point, along)
    weights = torch.randn(image.shape, generator=generator, dtype=image.dtype)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in point]
    bars = torch.autograd.grad((weights * picture(*leaves)).sum(), leaves, allow_unused=True)
    reverse = sum(float((bar * v).sum()) for bar, v in zip(bars, along, strict=True) if bar is not None)
    return float((weights * tangent).sum()), reverse


def scene_with(name: str, *, touching: bool = True) -> Scene:
    scene = load_scene(name, **OPTIONS.get(name, {}))
    scene.resize_camera(SIZE, SIZE)
    scene.stepping = replace(scene.stepping, solver=replace(scene.stepping.solver, implicit=TIGHT))
    for parameter, value in TOUCHING.get(name, {}).items() if touching else ():
        scene.set(parameter, value)
    return scene


def draws_of(scene: Scene, seeds: range) -> list[tuple[Values, Values]]:
    """Draws of all parameters, without those that a scene whose links meet others refuses to have a gradient."""
    meeting = any(isinstance(body, Link) and body.collision is not None for body in scene.bodies)
    left_out = {n for n in scene.parameters if meeting and n.endswith((".center", ".length"))}
    pairs = [drawn(scene, seed) for seed in seeds]
    return [tuple({n: array for n, array in part.items() if n not in left_out} for part in pair) for pair in pairs]


def test_random_values_of_all_parameters_of_all_scenes() -> None:
    found: list[Slope] = []
    for name in scene_names():
        scene = scene_with(name)
        draws = draws_of(scene, range(SEEDS))
        some = slopes(scene, draws)
        assert all(slope.adjoint != 0 for slope in some), name
        found += some
        forward, reverse = forward_and_reverse(scene, *draws[0])
        assert forward == pytest.approx(reverse, rel=1e-9, abs=1e-12), name
    wrong = [slope for slope in found if slope.status == "WRONG"]
    assert not wrong, "\n".join(map(str, wrong))
    assert len(found) == 2 * SEEDS * len(scene_names())
    assert sum(slope.status == "kink" for slope in found) <= KINKS, [slope for slope in found if slope.status == "kink"]


def spoilt(original: Callable[..., Any], name: str, factor: float) -> Callable[..., Any]:
    """An adjoint whose result for one input is a little off."""

    def adjoint(*arguments: Any, **options: Any) -> Any:
        bars = original(*arguments, **options)
        return replace(bars, **{name: getattr(bars, name) * factor})

    return adjoint


@pytest.mark.parametrize(
    ("place", "method", "array", "factor", "scene", "what"),
    [
        (RigidSolver, "rollout_adjoint", "body_contact", 0.99, "toss", "states"),
        (ArticulatedSolver, "rollout_adjoint", "joint_qd0", 1.001, "double_pendulum", "states"),
        (DeformableSolver, "rollout_adjoint", "gravity", 0.0, "springs", "states"),
        (pictures, "render_adjoint", "camera", 1.001, "cube", "pixels"),
    ],
)
def test_an_error_in_an_adjoint_is_seen(
    monkeypatch: pytest.MonkeyPatch, place: Any, method: str, array: str, factor: float, scene: str, what: str
) -> None:
    some = scene_with(scene)
    draws = draws_of(some, range(1))
    assert [slope.status for slope in slopes(some, draws)] == ["ok", "ok"]
    monkeypatch.setattr(place, method, spoilt(getattr(place, method), array, factor))
    assert any(slope.status == "WRONG" and what in slope.what for slope in slopes(some, draws))
