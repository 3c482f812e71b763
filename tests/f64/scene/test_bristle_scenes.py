"""Bristles and contact radii in scenes: names, gradients to them, warnings, and what cannot have them."""

import warnings

import numpy as np
import pytest
import torch

from risp_torch import Box, Contact, Elastic, Param, Scene, Start
from ti_sim.base.errors import UserError
from ti_sim.meshes import box_tets

OPTIONS = {"bristle_stiffness": Param(1000.0, low=100.0, high=1e4, scale="log10"), "radius": Param(2e-3, low=0.0, high=5e-3)}


def box_on_ground(substeps: int = 100, **contact: object) -> Scene:
    """A box that is thrown flat onto the ground, and tilts as it slides."""
    scene = Scene(frame_dt=0.02, frames=6, substeps=substeps, name="slope")
    scene.add_ground(contact=Contact(stiffness=2000.0, damping=10.0, friction_stiffness=10.0, friction=0.5, **contact))
    start = Start(position=(0.0, 0.0, 0.031), velocity=(0.2, 0.0, 0.0))
    scene.add_rigid("box", shape=Box(0.1, 0.1, 0.06), mass=0.5, start=start)
    return scene


def test_gradients_of_the_optional_numbers() -> None:
    scene = box_on_ground(**OPTIONS)
    names = ("ground.contact.bristle_stiffness", "ground.contact.radius")
    assert set(names) <= set(scene.unknowns) and scene.parameters[names[0]].unit == "N/m"
    weight = torch.as_tensor(np.random.default_rng(3).standard_normal((1, 7, 1, 7)))

    def loss(values: list[float]) -> torch.Tensor:
        given = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in zip(names, values, strict=True)}
        return (scene.rollout(given).body_q * weight).sum()

    at = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (1000.0, 2e-3)]
    (scene.rollout(dict(zip(names, at, strict=True))).body_q * weight).sum().backward()
    for k, h in enumerate((1e-2, 1e-8)):
        moved = [[1000.0 + (k == 0) * sign * h, 2e-3 + (k == 1) * sign * h] for sign in (1, -1)]
        difference = (loss(moved[0]) - loss(moved[1])) / (2 * h)
        assert abs(float(at[k].grad)) > 1e-7
        np.testing.assert_allclose(float(at[k].grad), float(difference), rtol=1e-5)


def test_a_body_without_the_numbers_beside_one_with_them() -> None:
    """Its contact stays viscous and its corners sharp."""
    usual = Contact(stiffness=2000.0, damping=10.0, friction_stiffness=10.0, friction=0.5)
    together, alone = box_on_ground(**OPTIONS), box_on_ground()
    start = Start(position=(1.0, 0.0, 0.031), velocity=(0.2, 0.0, 0.0))
    for scene in (together, alone):
        scene.add_rigid("other", shape=Box(0.1, 0.1, 0.06), mass=0.5, start=start, contact=usual)
    np.testing.assert_allclose(together.rollout().body_q[0, :, 1], alone.rollout().body_q[0, :, 1], rtol=0, atol=1e-13)


def test_steps_too_long_for_bristles_are_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        box_on_ground(substeps=20).rollout(worlds=1)
    with pytest.warns(UserWarning, match="too long for the contact"):
        try:
            box_on_ground(substeps=20, bristle_stiffness=5e6).rollout(worlds=1)
        except Exception as error:  # noqa: BLE001  (it may diverge as the warning says)
            assert "diverged" in str(error)


def test_other_bodies_cannot_have_them() -> None:
    scene = box_on_ground(**OPTIONS)
    scene.add_rigid("other", shape=Box(0.1, 0.1, 0.06), mass=0.5, start=Start(position=(1.0, 0.0, 0.1)), collision=True)
    with pytest.raises(UserError, match="slope has a contact with bristle_stiffness, which rigid bodies that touch"):
        scene.rollout()
    with pytest.raises(UserError, match=r"ground\.contact\.radius is -1"):
        box_on_ground(radius=-1.0)
    soft = Scene(frame_dt=0.02, frames=2, substeps=50, name="soft")
    soft.add_ground(contact=Contact(stiffness=2000.0, damping=10.0, friction_stiffness=10.0, friction=0.5, radius=1e-3))
    soft.add_solid("cube", mesh=box_tets((0.1, 0.1, 0.1), (1, 1, 1)), density=1000.0, material=Elastic(E=1e5, nu=0.3))
    with pytest.raises(UserError, match="soft has a contact with radius"):
        soft.rollout()
