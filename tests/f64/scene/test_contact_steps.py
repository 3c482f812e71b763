"""Stable steps of the contact of rigid bodies: against closed forms, the motion at either side of the limit, and scenes."""

import numpy as np
import pytest

from risp_torch import Start
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.scene import Scene
from risp_torch.scene.simulation.contact_steps import contact_rates, longest_step
from risp_torch.scene.simulation.step_warnings import step_warnings
from tests.reference.contact_cases import CUBE, FLOOR, HALF, as_mesh, at, bodies, inputs_of, simulate
from tests.reference.rigid_cases import box_inertia
from ti_sim import Box, Cylinder, contact_points
from ti_sim.articulated.collision import mesh_shape

BOX = Box(2 * HALF, 2 * HALF, 2 * HALF)
INERTIA = box_inertia(1.0, (HALF,) * 3)


@pytest.mark.parametrize(("kind", "sides"), [("ground", 1), ("box", 1), ("box", 2), ("mesh", 2)])
def test_rates_of_a_cube_are_those_of_its_face(kind: str, sides: int) -> None:
    """Tilting moves four springs at the lever of half a side, twisting four dampers at that of half a diagonal."""
    rows = contact_points(BOX, per_area=False)
    shape = {"ground": None, "box": CUBE, "mesh": mesh_shape(as_mesh(BOX))}[kind]
    ke, kf = 1e4, 30.0
    squared, damping = contact_rates(1.0, INERTIA, np.array([ke, 0.0, kf, 0.5]), rows, shape, sides)
    wanted = np.array([6 * ke, 12 * kf]) * sides
    if kind == "mesh":  # whose points fill the face: their mean lever is shorter
        assert 0.4 * wanted[0] < squared <= wanted[0] and 0.4 * wanted[1] < damping <= wanted[1]
    else:
        np.testing.assert_allclose([squared, damping], wanted, rtol=1e-8)


def test_cylinders_and_patches_stand_on_their_faces() -> None:
    material, inertia = np.array([1.0, 0.0, 1.0, 0.5]), 1e9 * np.eye(3)  # which does not turn
    round_ = contact_rates(1.0, inertia, material, contact_points(Cylinder(radius=0.1, height=0.05), per_area=False), None, 1)
    np.testing.assert_allclose(round_, [4.0, 4.0], rtol=1e-6)
    area = contact_rates(1.0, inertia, material, contact_points(BOX, per_area=True), None, 1)
    np.testing.assert_allclose(area, (2 * HALF) ** 2, rtol=1e-6)


@pytest.mark.parametrize(("part", "grows"), [(0.9, False), (1.2, True)])
def test_friction_turns_a_cube_to_rest_below_the_limit_and_ever_faster_above(part: float, grows: bool) -> None:
    material = np.array([1e3, 0.0, 300.0, 1e9])
    rates = contact_rates(1.0, INERTIA, material, contact_points(BOX, per_area=False), CUBE, 1)
    model = bodies(FLOOR, CUBE, kinds=("fixed", "free"))
    sink = 9.81 / (4 * material[0])
    inputs = inputs_of(model, at(0, 0, HALF - sink), [0, 0, 0, 0, 0, 1e-6], material=tuple(material), gravity=9.81)
    inputs.link_inertia[0, 1] = INERTIA
    spin = simulate(model, inputs, part * longest_step(*rates), 40).joint_qd[0, -1, 5]
    assert abs(spin) > 1e-5 if grows else abs(spin) < 1e-7


def stack(substeps: int, *, mesh: bool = False, count: int = 5) -> Scene:
    """Cubes of wood on one another, at frames of 10 ms."""
    scene = Scene(frame_dt=0.01, frames=1, substeps=substeps)
    scene.add_ground(contact=Contact(stiffness=1e4, damping=10.0, friction_stiffness=20.0, friction=0.5))
    for k in range(count):
        shape = as_mesh(BOX) if mesh else BOX
        scene.add_rigid(
            f"cube{k}", shape=shape, density=1000.0, start=Start(position=(0, 0, HALF * (1 + 2 * k))), collision=count > 1
        )
    return scene


def test_a_stack_whose_faces_twist_too_fast_for_the_step_is_told() -> None:
    (sentence,) = step_warnings(stack(20))
    assert "the contact of 'cube0', 'cube1', 'cube2', 'cube3', 'cube4': the points of a face" in sentence
    assert step_warnings(stack(80)) == []
    assert len(step_warnings(stack(10, mesh=True))) == 1
    assert len(step_warnings(stack(5, count=1))) == 1 and step_warnings(stack(20, count=1)) == []
