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
from ti_sim.articulated.single_state import forward_dynamics
from ti_sim.contact.collision import mesh_shape

BOX = Box(2 * HALF, 2 * HALF, 2 * HALF)
INERTIA = box_inertia(1.0, (HALF,) * 3)


@pytest.mark.parametrize("kind", ["ground", "box", "mesh"])
def test_rates_of_a_cube_are_those_of_its_face(kind: str) -> None:
    """On the ground tilting moves four springs at the lever of half a side, twisting four dampers at that of half a diagonal.

    On another body they are the derivatives of the force and of the torque at equal depths d far above the length r of edges
    (``surface_contact``). At smaller ones the two edges that tilt add d / (r + d) of their ke half^2 / 4 to the torque. Elastic
    forces also turn with the cube, by d / half of the torque.
    """
    rows, ke, kf, depth = contact_points(BOX, per_area=False), 1e4, 30.0, 1e-5
    shape = {"ground": None, "box": CUBE, "mesh": mesh_shape(as_mesh(BOX))}[kind]
    rates = contact_rates(1.0, INERTIA, np.array([ke, 0.0, kf, 0.5]), rows, shape, 1)
    if kind == "ground":
        both = contact_rates(1.0, INERTIA, np.array([ke, 0.0, kf, 0.5]), rows, shape, 2)
        np.testing.assert_allclose(both, 2 * rates, rtol=1e-8)
        np.testing.assert_allclose(rates, [6 * ke, 12 * kf], rtol=1e-8)
        return
    model = bodies(FLOOR, shape, kinds=("fixed", "free"))

    def accelerations(moved: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        q = [*moved[:3] + [0, 0, HALF - depth], *moved[3:] / 2, 1.0]
        inputs = inputs_of(model, q, velocity, material=(ke, 0.0, kf, 1e9))
        inputs.link_inertia[0, 1] = INERTIA
        return forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)[0]

    still = np.zeros(6)
    springs, dampers = np.zeros((6, 6)), np.zeros((6, 6))
    for k, step in enumerate(1e-7 * np.eye(6)):
        springs[:, k] = (accelerations(-step, still) - accelerations(step, still)) / 2e-7
        dampers[:, k] = -accelerations(still, 1e3 * step) / 1e-4
    wanted = [np.linalg.eigvals(matrix).real.max() for matrix in (springs, dampers)]
    wanted[0] += (1 - depth / (0.01 * HALF + depth)) * ke * HALF**2 / 4 / INERTIA[0, 0]
    np.testing.assert_allclose(rates[0], wanted[0], rtol=depth / HALF)
    np.testing.assert_allclose(rates[1], wanted[1], rtol=1e-8)


def test_cylinders_and_patches_stand_on_their_faces() -> None:
    material, inertia = np.array([1.0, 0.0, 1.0, 0.5]), 1e9 * np.eye(3)  # which does not turn
    round_ = contact_rates(1.0, inertia, material, contact_points(Cylinder(radius=0.1, height=0.05), per_area=False), None, 1)
    np.testing.assert_allclose(round_, [4.0, 4.0], rtol=1e-6)
    area = contact_rates(1.0, inertia, material, contact_points(BOX, per_area=True), None, 1)
    np.testing.assert_allclose(area, (2 * HALF) ** 2, rtol=1e-6)


@pytest.mark.parametrize(("part", "grows"), [(0.9, False), (1.2, True)])
def test_friction_stops_a_cube_below_the_limit_and_speeds_it_up_above(part: float, grows: bool) -> None:
    """The fastest mode of a cube on a face slides and tilts."""
    material = np.array([1e3, 0.0, 300.0, 1e9])
    rates = contact_rates(1.0, INERTIA, material, contact_points(BOX, per_area=False), CUBE, 1)
    model = bodies(FLOOR, CUBE, kinds=("fixed", "free"))
    sink = 9.81 / (4 * material[0])
    inputs = inputs_of(model, at(0, 0, HALF - sink), [1e-6, 0, 0, 0, 0, 0], material=tuple(material), gravity=9.81)
    inputs.link_inertia[0, 1] = INERTIA
    speed = simulate(model, inputs, part * longest_step(*rates), 40).joint_qd[0, -1, 0]
    assert abs(speed) > 1e-5 if grows else abs(speed) < 1e-7


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
