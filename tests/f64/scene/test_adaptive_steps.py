"""Rollouts that take as many steps as their numbers need."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import DivergenceError, Elastic, Param, Scene, SolverOptions, load_scene
from risp_torch.scene.simulation.adaptive import steps_of_worlds
from risp_torch.scene.simulation.deformable import deformable_inputs
from ti_sim.meshes import box_hexes

MAX_SUBSTEPS = 64


def block(substeps: int = MAX_SUBSTEPS, *, adaptive: bool = True, controls: int = 1) -> Scene:
    """A block of two cells that hangs at one end."""
    scene = Scene(
        frame_dt=0.02, frames=3, substeps=substeps, solver=SolverOptions(adaptive=adaptive), controls=controls, name="block",
    )  # fmt: skip
    material = Elastic(E=Param(1e5, low=1e3, high=1e8, scale="log10"), nu=0.3, energy="corotated", damping=20.0)
    scene.add_solid("block", mesh=box_hexes((0.2, 0.1, 0.1), (2, 1, 1)), material=material, density=1000.0,
                    fixed=lambda x: x[:, 0] < -0.09)  # fmt: skip
    return scene


def steps_of(scene: Scene, *moduli: float) -> list[int]:
    values = scene.table.values({"block.E": torch.tensor(moduli, dtype=torch.float64)}, worlds=len(moduli))
    inputs = deformable_inputs(scene.deformables, scene.loads, values, frames=1, controls=scene.stepping.controls)
    return steps_of_worlds(scene.simulator.solver, inputs, controls=scene.stepping.controls)


def moved(scene: Scene, *moduli: float) -> np.ndarray:
    """Positions [B, T, P, 3] of blocks with these moduli."""
    with torch.no_grad():
        return scene.rollout({"block.E": torch.tensor(moduli, dtype=torch.float64)}).particle_q.cpu().numpy()


def test_soft_bodies_take_fewer_steps_and_stiff_ones_all():
    # Twice the steps for four times the stiffness, until the scene's own number.
    steps = steps_of(block(), 1e3, 2e6, 8e6, 1e8)
    assert steps[0] == MAX_SUBSTEPS // 8 and steps[-1] == MAX_SUBSTEPS and steps[0] < steps[1] < steps[2] < MAX_SUBSTEPS
    assert steps[2] / steps[1] == pytest.approx(2.0, rel=0.2)


def test_steps_are_shared_among_the_rows_of_actuation():
    scene = block(60, controls=5)
    assert {steps % 5 for steps in steps_of(scene, *np.logspace(3, 7, 9))} == {0}


def test_the_motion_is_that_of_a_scene_with_so_many_steps():
    scene = block()
    fixed = block(*steps_of(scene, 1e5), adaptive=False)
    np.testing.assert_array_equal(moved(scene, 1e5), moved(fixed, 1e5))
    assert scene.description()["adaptive"] and "adaptive" not in fixed.description()


def test_other_worlds_of_the_batch_change_nothing():
    """Steps, motion and gradient of a world are those that it has alone."""
    scene, moduli = block(), (8e6, 1e5, 3e7, 2e6, 1e5)
    assert steps_of(scene, *moduli) == [steps_of(scene, E)[0] for E in moduli]
    E = torch.tensor(moduli, dtype=torch.float64, requires_grad=True)
    together = scene.rollout({"block.E": E}).particle_q
    together[:, -1, :, 2].sum().backward()
    for world, modulus in enumerate(moduli):
        one = torch.tensor([modulus], dtype=torch.float64, requires_grad=True)
        alone = scene.rollout({"block.E": one}).particle_q
        alone[:, -1, :, 2].sum().backward()
        assert torch.equal(alone[0], together[world]) and one.grad[0] == E.grad[world]


def test_a_world_that_diverges_is_marked_among_others():
    scene = block()  # whose steps are too long for 1e8 Pa
    with torch.no_grad():
        states = scene.rollout({"block.E": torch.tensor([1e8, 1e3, 1e8], dtype=torch.float64)})
        assert states.finite.tolist() == [False, True, False]
        assert torch.isfinite(states.particle_q[1]).all() and states.particle_q[::2, -1].isnan().any(dim=2).all()
        with pytest.raises(DivergenceError, match="stopped being finite"):
            scene.rollout({"block.E": torch.tensor([1e8, 9e7], dtype=torch.float64)})


def test_fewer_steps_put_the_motion_off_by_half_a_step():
    """A step of dt acts as if the motion were dt / 2 later: what the documentation states."""
    scene, moduli = block(), np.logspace(3.3, 7.0, 8)
    few, plain = moved(scene, *moduli), block(adaptive=False)
    with torch.no_grad():
        states = plain.rollout({"block.E": torch.as_tensor(moduli)})
    speed = states.particle_qd.norm(dim=-1).amax(dim=(1, 2)).cpu().numpy()
    off = np.abs(few - states.particle_q.cpu().numpy()).max(axis=(1, 2, 3))
    later = scene.frame_dt * (1 / np.array(steps_of(scene, *moduli)) - 1 / MAX_SUBSTEPS)
    assert (off < 0.65 * later * speed).all() and (off > 0.45 * later * speed).any()


def test_the_rods_deflection_is_off_by_less_than_a_hundredth():
    """The scene with coarser cells, at the modulus of its films."""
    rods = [load_scene("rod", cells=(10, 2, 2)) for _ in range(2)]
    rods[1].stepping = replace(rods[1].stepping, solver=SolverOptions(adaptive=False))
    with torch.no_grad():
        few, every = (rod.rollout().particle_q[0] for rod in rods)
    assert (few - every).abs().max() < 0.01 * (every - every[0]).abs().max()


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
