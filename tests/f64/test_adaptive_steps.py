"""Rollouts that take as many steps as their numbers need."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from risp_torch import Elastic, Param, Scene
from risp_torch.scene.simulation import adapted, deformable_inputs
from ti_sim.meshes import box_hexes

MOST = 64


def block(substeps: int = MOST, *, adaptive: bool = True, controls: int = 1) -> Scene:
    """A block of two cells that hangs at one end."""
    scene = Scene(frame_dt=0.02, frames=3, substeps=substeps, adaptive=adaptive, controls=controls, name="block")
    material = Elastic(E=Param(1e5, low=1e3, high=1e8, scale="log10"), nu=0.3, energy="corotated", damping=20.0)
    scene.add_solid("block", mesh=box_hexes((0.2, 0.1, 0.1), (2, 1, 1)), material=material, density=1000.0,
                    fixed=lambda x: x[:, 0] < -0.09)  # fmt: skip
    return scene


def steps_of(scene: Scene, *moduli: float) -> int:
    values = scene.table.values({"block.E": torch.tensor(moduli, dtype=torch.float64)}, worlds=len(moduli))
    inputs = deformable_inputs(scene.deformables, scene.loads, values, frames=1, controls=scene.controls)
    return adapted(scene.deformable_solver(), inputs, controls=scene.controls).substeps


def test_soft_bodies_take_fewer_steps_and_stiff_ones_all():
    scene = block()
    # Twice the steps for four times the stiffness, until the scene's own number.
    steps = [steps_of(scene, E) for E in (1e3, 2e6, 8e6, 1e8)]
    assert steps[0] == MOST // 8 and steps[-1] == MOST and steps[0] < steps[1] < steps[2] < MOST
    assert steps[2] / steps[1] == pytest.approx(2.0, rel=0.2)
    assert steps_of(scene, 1e3, 8e6) == pytest.approx(steps[2], rel=0.2)  # the stiffest world decides, to a rung


def test_steps_are_shared_among_the_rows_of_actuation():
    scene = block(60, controls=5)
    assert {steps_of(scene, E) % 5 for E in np.logspace(3, 7, 9)} == {0}


def test_the_motion_is_that_of_a_scene_with_so_many_steps():
    scene = block()
    fixed = block(steps_of(scene, 1e5), adaptive=False)
    with torch.no_grad():
        assert torch.equal(scene.rollout().particle_q, fixed.rollout().particle_q)
    assert scene.description()["adaptive"] and "adaptive" not in fixed.description()


def test_gradients_are_those_of_the_steps_that_are_taken():
    scene = block()
    E = torch.tensor([1e5], dtype=torch.float64, requires_grad=True)
    scene.rollout({"block.E": E}).particle_q[0, -1, :, 2].sum().backward()

    def sagged(modulus: float) -> float:
        with torch.no_grad():
            return float(scene.rollout({"block.E": torch.tensor([modulus], dtype=torch.float64)}).particle_q[0, -1, :, 2].sum())

    h = 1.0  # Pa: no rung lies so near
    assert float(E.grad[0]) == pytest.approx((sagged(1e5 + h) - sagged(1e5 - h)) / (2 * h), rel=1e-6)
    assert math.isfinite(float(E.grad[0])) and float(E.grad[0]) != 0.0
