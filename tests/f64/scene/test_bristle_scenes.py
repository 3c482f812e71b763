"""Bristles and contact radii in scenes: names, gradients to them, warnings, and what cannot have them."""

import warnings

import numpy as np
import pytest
import torch

from risp_torch import Box, Checkpoint, Contact, Elastic, Fixed, LinkFrame, Param, Prismatic, Scene, Sphere, Start
from risp_torch.scene.simulation.contact_steps import contact_rates
from risp_torch.scene.simulation.step_warnings import step_warnings
from risp_torch.scene.state import State
from tests.reference.contact_cases import CUBE, HALF
from tests.reference.rigid_cases import GRAVITY, box_inertia
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


SQUEEZE, MASS, KT = 5.0, 0.2, 2000.0
FIRM = {"stiffness": 5000.0, "damping": 20.0, "friction_stiffness": 20.0, "friction": 0.5}


def pinched(substeps: int = 100, frames: int = 20, *, integrator: str = "semi_implicit", **contact: object) -> Scene:
    """A box between two fingers on rails, pressed by springs."""
    scene = Scene(frame_dt=0.02, frames=frames, substeps=substeps, name="pinched", integrator=integrator)
    firm, press = Contact(**FIRM, **contact), {"stiffness": 500.0, "rest": SQUEEZE / 500.0, "damping": 20.0}
    place = 0.03 - SQUEEZE / (4 * FIRM["stiffness"])
    for name, side in (("left", 1.0), ("right", -1.0)):
        scene.add_link(
            name, joint=Prismatic(axis=(side, 0.0, 0.0), **press), shape=Box(0.02, 0.02, 0.02), mass=0.1,
            frame=LinkFrame(position=(-side * place, 0.0, 0.3)), contact=firm, collision=True,
        )  # fmt: skip
    scene.add_rigid(
        "box", shape=Box(0.04, 0.04, 0.04), mass=MASS, start=Start(position=(0.0, 0.0, 0.3)), contact=firm, collision=True
    )
    return scene


def test_a_box_that_two_fingers_press_does_not_sink() -> None:
    height = pinched(frames=100, bristle_stiffness=KT).rollout().body_q[0, :, 2, 2].cpu().numpy()
    np.testing.assert_allclose(0.3 - height[-1], MASS * GRAVITY / (2 * KT), rtol=1e-3)
    assert np.abs(height[50:] - height[-1]).max() < 1e-9  # 5,000 steps
    viscous = pinched(frames=20).rollout().body_q[0, :, 2, 2].cpu().numpy()
    np.testing.assert_allclose(np.diff(viscous)[10:15] / 0.02, -MASS * GRAVITY / (8 * 20.0), rtol=2e-2)


@pytest.mark.parametrize("adjoint", [None, Checkpoint(every=70)], ids=str)
def test_gradients_of_the_stiffness_of_a_grip(adjoint: Checkpoint | None) -> None:
    scene = pinched(frames=5, bristle_stiffness=Param(KT, low=100.0, high=1e4, scale="log10"))
    name = "box.contact.bristle_stiffness"
    assert name in scene.unknowns
    weight = torch.as_tensor(np.random.default_rng(3).standard_normal((1, 6, 3, 7)))

    def loss(value: float | torch.Tensor) -> torch.Tensor:
        given = {name: torch.as_tensor(value, dtype=torch.float64)}
        return (scene.rollout(given, adjoint=adjoint).body_q * weight).sum()

    at = torch.tensor(KT, dtype=torch.float64, requires_grad=True)
    loss(at).backward()
    difference = (loss(KT + 0.1) - loss(KT - 0.1)) / 0.2
    assert abs(float(at.grad)) > 1e-9
    np.testing.assert_allclose(float(at.grad), float(difference), rtol=1e-6)


def test_links_on_the_ground_have_the_bristles_of_the_ground() -> None:
    """A foot on a rail, on a slope made by gravity, which stops where its bristles hold it."""
    scene = Scene(frame_dt=0.02, frames=50, substeps=100, name="foot", gravity=(3.0, 0.0, -9.0))
    material = {"stiffness": 2000.0, "damping": 10.0, "friction_stiffness": 25.0, "friction": 0.5}
    scene.add_ground(contact=Contact(**material, bristle_stiffness=1000.0))
    scene.add_link(
        "rail", joint=Prismatic(axis=(0.0, 0.0, 1.0)), shape=Sphere(radius=0.01), mass=0.01,
        frame=LinkFrame(position=(0.0, 0.0, 0.5)),
    )  # fmt: skip
    scene.add_link(
        "foot", joint=Prismatic(axis=(1.0, 0.0, 0.0)), shape=Box(0.1, 0.1, 0.06), mass=0.5,
        frame=LinkFrame(parent="rail", position=(0.0, 0.0, -0.47)),
    )  # fmt: skip
    x = scene.rollout().body_q[0, :, 1, 0].cpu().numpy()
    np.testing.assert_allclose(x[-1], 0.5 * 3.0 / (4 * 1000.0), rtol=1e-2)
    assert np.abs(x[25:] - x[-1]).max() < 1e-9


def test_a_rollout_from_a_state_without_bristles_begins_with_bristles_at_rest() -> None:
    scene = pinched(frames=10, bristle_stiffness=KT)
    whole = scene.rollout()
    state = State(joint_q=whole.joint_q[:, 5], joint_qd=whole.joint_qd[:, 5])
    again = scene.rollout(frames=5, state=state)
    drop = (again.body_q[0, 0, 2, 2] - again.body_q[0, -1, 2, 2]).item()
    np.testing.assert_allclose(drop, MASS * GRAVITY / (2 * KT), rtol=2e-2)


def test_one_stiffness_for_a_face_counts_in_the_longest_step() -> None:
    """A cube slides and tilts on its face: kt / m, and kt times the squared half side over its moment of inertia: 2.5 kt / m.

    It twists more slowly. Of 16 parts of the load, 4 are at corners, 8 at 2/3 of the diagonals, and 4 at middles of edges, whose
    mean square radius is 1.194 squared half sides: 1.79 kt / m.
    """
    inertia, none = box_inertia(1.0, (HALF,) * 3), np.zeros((0, 8))
    soft, material = np.array([1e-3, 0.0, 1.0, 0.5]), np.array([1e3, 0.0, 1.0, 0.5])
    free = contact_rates(1.0, inertia, material, none, CUBE, 1)[0]
    np.testing.assert_allclose(contact_rates(1.0, inertia, soft, none, CUBE, 1, bristle=1e5)[0], 2.5e5, rtol=1e-6)
    assert contact_rates(1.0, inertia, material, none, CUBE, 1, bristle=100.0)[0] < 1.2 * free
    cubes = []
    for kt in (None, 1e7):
        scene = Scene(frame_dt=0.01, frames=1, substeps=80, name="two")
        for k in range(2):
            scene.add_rigid(
                f"cube{k}", shape=Box(0.04, 0.04, 0.04), density=1000.0, start=Start(position=(0.0, 0.0, 0.04 * k)),
                contact=Contact(**FIRM, bristle_stiffness=kt), collision=True,
            )  # fmt: skip
        cubes.append(step_warnings(scene))
    assert cubes[0] == [] and "too long for the contact of 'cube0', 'cube1'" in cubes[1][0]


def test_other_bodies_cannot_have_them() -> None:
    scene = box_on_ground(**OPTIONS)
    scene.add_rigid("other", shape=Box(0.1, 0.1, 0.06), mass=0.5, start=Start(position=(1.0, 0.0, 0.1)), collision=True)
    with pytest.raises(UserError, match="slope has a contact with radius, which rigid bodies that touch"):
        scene.rollout()
    with pytest.raises(UserError, match="the contact has bristles, and the integrator is 'rk4': bristles need"):
        pinched(integrator="rk4", bristle_stiffness=KT).rollout()
    with pytest.raises(UserError, match=r"ground\.contact\.radius is -1"):
        box_on_ground(radius=-1.0)
    soft = Scene(frame_dt=0.02, frames=2, substeps=50, name="soft")
    soft.add_ground(contact=Contact(stiffness=2000.0, damping=10.0, friction_stiffness=10.0, friction=0.5, radius=1e-3))
    soft.add_solid("cube", mesh=box_tets((0.1, 0.1, 0.1), (1, 1, 1)), density=1000.0, material=Elastic(E=1e5, nu=0.3))
    with pytest.raises(UserError, match="soft has a contact with radius"):
        soft.rollout()


def with_cube(contact: Contact | None, *, collision: bool = False) -> Scene:
    """The box that is thrown onto sticking ground, and a deformable cube far away."""
    scene = box_on_ground(bristle_stiffness=1000.0)
    scene.add_solid(
        "cube", mesh=box_tets((0.1, 0.1, 0.1), (1, 1, 1)), density=1000.0, material=Elastic(E=1e5, nu=0.3), contact=contact,
        start=Start(position=(2.0, 0.0, 0.2)),
    )  # fmt: skip
    if collision:
        scene.add_link("post", joint=Fixed(), shape=Box(0.1, 0.1, 0.1), mass=1.0, collision=True)
    return scene


def test_particles_have_no_bristles() -> None:
    """Beside bodies whose contact sticks they need a contact of their own, and must not collide with bodies."""
    own = Contact(stiffness=100.0, damping=0.1, friction_stiffness=0.1, friction=0.3)
    for scene in (with_cube(None), with_cube(own, collision=True)):
        with pytest.raises(UserError, match="bristle_stiffness that deformable bodies have, too, or a deformable body that"):
            scene.rollout()
    moved = with_cube(own).rollout().body_q[0, :, 0]
    np.testing.assert_allclose(moved, box_on_ground(bristle_stiffness=1000.0).rollout().body_q[0, :, 0], rtol=0, atol=1e-14)
