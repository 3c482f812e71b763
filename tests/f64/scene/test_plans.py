"""A changed scene makes new plans, and an unchanged one keeps those that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    Contact,
    Elastic,
    Films,
    LinkFrame,
    Param,
    PointLight,
    Revolute,
    Scene,
    Start,
    Surface,
    UserError,
)
from ti_sim.meshes import box_hexes

SIDE, BLOCK = Box(0.1, 0.1, 0.1), box_hexes((0.1, 0.1, 0.1), (1, 1, 1))


def falling(**options: object) -> Scene:
    """A cube in free fall with a camera and a light."""
    scene = Scene(**({"frame_dt": 0.02, "frames": 2, "substeps": 4, "name": "falling"} | options))
    scene.add_rigid("cube", shape=SIDE, density=500.0, start=Start(position=(0.0, 0.0, 0.3)))
    scene.add_camera(Camera.look_at(eye=(0.0, -1.0, 0.3), target=(0.0, 0.0, 0.3), vertical_fov=40, width=12, height=12))
    scene.add_light(AmbientLight(intensity=0.8))
    return scene


def height(scene: Scene) -> float:
    """Of the cube's centre at the end [m]."""
    with torch.no_grad():
        return scene.rollout().body_q[0, -1, 0, 2].item()


def fallen(substeps: int) -> float:
    """Height after two frames of semi-implicit Euler steps, in closed form [m]."""
    steps = 2 * substeps
    return 0.3 - 9.81 * (0.02 / substeps) ** 2 * steps * (steps + 1) / 2


def test_other_steps_after_a_rollout_are_taken() -> None:
    scene = falling()
    assert height(scene) == pytest.approx(fallen(4), abs=1e-12)
    scene.stepping = replace(scene.stepping, substeps=8)
    assert scene.simulator.solver.settings.substeps == 8
    assert height(scene) == pytest.approx(fallen(8), abs=1e-12)


CHANGES: dict[str, Callable[[Scene], object]] = {
    "a body": lambda s: s.add_rigid("other", shape=SIDE, density=500.0, start=Start(position=(0.5, 0.0, 0.0))),
    "a force": lambda s: s.add_force("push", body="cube", start=0.0, duration=0.01, force=(1.0, 0.0, 0.0)),
    "rotors": lambda s: s.add_rotors("rotors", body="cube", positions=np.eye(3), actions=np.zeros(3)),
    "a solid": lambda s: s.add_solid("soft", mesh=BLOCK, material=Elastic(E=1e4, nu=0.3), density=1e3),
    "steps": lambda s: setattr(s, "stepping", replace(s.stepping, integrator="rk4")),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_moves_makes_another_simulator(change: str) -> None:
    scene = falling()
    before = scene.simulator
    before.solver  # noqa: B018  (made here, and not by the comparison)
    assert scene.simulator is before and before.adapter is scene.simulator.adapter
    CHANGES[change](scene)
    assert scene.simulator.adapter is not before.adapter
    states = scene.rollout(frames=1)
    assert states.finite.all()


def test_numbers_cameras_and_lights_leave_the_solver() -> None:
    scene = falling()
    solver = scene.simulator.solver
    scene.set("cube.position", (0.0, 0.0, 0.5))
    scene.set("gravity", (0.0, 0.0, 0.0))
    scene.add_light(PointLight(position=(0.0, 0.0, 1.0)))
    scene.resize_camera(8, 8)
    scene.frames = 1
    assert scene.simulator.solver is solver
    assert height(scene) == 0.5


def test_what_is_seen_makes_another_view() -> None:
    scene = falling()
    states = scene.rollout().placement[:, :1]
    before, view = scene.render(states), scene.view
    assert scene.view is view
    scene.add_light(PointLight(position=(0.0, -0.5, 0.6), intensity=0.1))
    assert scene.view is not view and (scene.render(states) != before).any()
    scene.style = replace(scene.style, shading="none")
    assert not torch.equal(scene.render(states), before)
    scene.resize_camera(10, 6)
    assert scene.render(states).shape == (1, 1, 6, 10, 3)
    meshes = scene.view.arrays
    scene.resize_camera(12, 12)
    assert scene.view.arrays is meshes  # made once for all sizes


def test_a_plan_keeps_what_the_scene_was() -> None:
    scene = falling()
    simulator, view = scene.simulator, scene.view
    scene.add_rigid("other", shape=SIDE, density=500.0, surface=Surface(color=(1.0, 0.0, 0.0)))
    assert [body.name for body in simulator.spec.bodies] == ["cube"] == [body.name for body in view.spec.bodies]
    assert scene.part_names == ["cube", "other"]


def test_a_moved_collision_shape_makes_another_solver() -> None:
    """Its place is in the solver's tables, and was once an error after the first rollout."""
    scene = Scene(frame_dt=0.01, frames=1, substeps=10)
    scene.add_ground(contact=Contact(stiffness=100.0, damping=0.1, friction_stiffness=0.1, friction=0.3))
    scene.add_link(
        "arm", joint=Revolute(axis=(0.0, 1.0, 0.0)), shape=Box(0.02, 0.02, 0.1), mass=0.1,
        frame=LinkFrame(position=(0.0, 0.0, 1.0), length=Param(0.2, low=0.1, high=0.4)), collision=True,
    )  # fmt: skip
    short = scene.simulator.solver
    scene.rollout()
    scene.set("arm.length", 0.3)
    scene.rollout()
    assert scene.simulator.solver is not short
    assert scene.simulator.solver.model.collision_shape[0].position[2] == pytest.approx(-0.3)


def test_a_name_that_a_scene_does_not_have_is_no_setting() -> None:
    with pytest.raises(AttributeError):
        falling().settings = None  # type: ignore[attr-defined]


def test_actions_for_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="there are actions, but the scene has no rotors: leave them out, or add some"):
        falling().rollout(actions=torch.zeros(1, 2, 1))


def test_films_share_the_solver_of_their_scene() -> None:
    scene = falling()
    scene.add_camera(replace(scene.camera, name="side", position=(0.1, -1.0, 0.3)))
    solver = scene.simulator.solver
    films = Films(scene, 2, cameras=["side", "side"], per_film=["cube.velocity"])
    assert all(film.simulator.solver is solver for film in films.films)
    assert [film.camera.name for film in films.films] == ["side", "side"] and scene.camera.name == ""
