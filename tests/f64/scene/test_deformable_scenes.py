"""Deformable bodies in scenes: their numbers, their pictures, their gradients, and what is refused."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from risp_torch import (
    Actuation,
    Air,
    AmbientLight,
    Bending,
    Box,
    Camera,
    Checkpoint,
    Contact,
    DirectionalLight,
    Elastic,
    PictureStyle,
    Prescribed,
    Scene,
    Shell,
    Springs,
    Start,
    StateLoss,
    Surface,
    UserError,
    load_scene,
)
from risp_torch.__main__ import main
from risp_torch.risp import SensorHead, load_task
from risp_torch.risp.dataset.plan import Plan
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.rendering_parameters import default_psi, image_jacobian
from risp_torch.scene.simulation.deformable import deformable_inputs
from risp_torch.scene.state import State
from ti_sim.meshes import SheetMesh, box_hexes, box_tets, sheet_grid

FRAMES = 2
STICKY = Contact(stiffness=400.0, damping=0.2, friction_stiffness=0.3, friction=0.4)
SOFT = Elastic(E=2e4, nu=0.3, damping=4.0)
TIGHT = Shell(mu=40.0, lam=30.0, damping=0.05)
STRIP = sheet_grid((0.2, 0.1), (2, 1))
UPRIGHT = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))


def empty_scene(*, ground: bool = True, **options: Any) -> Scene:
    scene = Scene(frame_dt=0.01, frames=FRAMES, substeps=12, gravity=(0.1, 0.0, -9.81), **options)
    if ground:
        scene.add_ground(contact=STICKY, color=(0.3, 0.4, 0.3))
    return scene


def filmed(scene: Scene) -> Scene:
    """The scene with a camera and lights."""
    scene.add_camera(
        Camera.look_at(eye=(0.3, -1.6, 0.6), target=(0.15, 0.0, 0.15), vertical_fov=35.0, width=24, height=24, far=4.0)
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.3))
    return scene


def zoo() -> Scene:
    """A solid, a cloth, a flat body and a net, each with all its numbers, the solid in contact from the start.

    The families of elements are those of ``test_deformable_plans.block_and_sheet``, so that both compile the same kernels.
    """
    scene = empty_scene(sigma=1e-3, gamma=1e-2)
    random = np.random.default_rng(3)
    block = box_tets((0.2, 0.1, 0.1), (2, 1, 1))
    scene.add_solid(
        "block", mesh=block, material=SOFT, density=300.0,
        start=Start(
            position=(0.0, 0.0, 0.045), rotation=(0.0, 0.03, 0.1), velocity=(0.3, 0.0, -0.4), angular_velocity=(0.0, 0.5, 1.0),
        ),
        actuation=Actuation(values=0.02 * random.standard_normal((FRAMES, 10))),
        contact=STICKY, surface=Surface(vertex_colors=random.uniform(size=(len(block.vertices), 3))),
    )  # fmt: skip
    scene.add_cloth(
        "cloth", mesh=STRIP,
        material=replace(
            TIGHT, air=Air(drag=0.8, lift=0.5),
            bending=Bending(rigidity=2e-3, damping=1e-5, actuation=Actuation(values=np.full((FRAMES, 3), 0.1))),
        ),
        density=0.3, start=Start(position=(0.3, 0.0, 0.3), rotation=(0.2, 0.1, 0.0)), fixed=lambda x: x[:, 0] < -0.09,
        actuation=Actuation(values=np.array([[0.02, -0.03]] * FRAMES), groups=[0, 1, 1, 0]),
        surface=Surface(color=(0.8, 0.2, 0.1), smooth=True),
    )  # fmt: skip
    scene.add_flat_body(
        "slice", mesh=STRIP, material=Elastic(mu=8e3, lam=6e3, damping=2.0), density=300.0, depth=0.05,
        start=Start(orientation=UPRIGHT, position=(0.35, 0.15, 0.09)),
        prescribed=Prescribed(particles=[0], velocity=(0.0, 0.0, 0.2)), surface=Surface(color=(0.1, 0.3, 0.8)),
    )  # fmt: skip
    scene.add_springs(
        "net", points=[(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0.02)],
        springs=Springs(indices=[(0, 1), (1, 2), (0, 2)], stiffness=40.0, damping=0.05, rest_length=0.09), mass=0.02,
        start=Start(position=(-0.1, 0.0, 0.3), velocity=random.standard_normal((3, 3)) * 0.2), radius=0.02,
    )  # fmt: skip
    scene.add_load("push", body="block", where=lambda x: x[:, 0] > 0.09, force=[(0.2, 0.1, -0.3)] * FRAMES)
    scene.add_load("pull", body="block", where=[0, 11], force=0.4, direction=(0, 0, 2), limit=5.0)
    scene.set_wind((0.5, 1.0, 0.2))
    return filmed(scene)


@cache
def shared_zoo() -> Scene:
    return zoo()


def test_states_and_pictures_have_a_place_for_everything() -> None:
    scene = shared_zoo()
    states = scene.rollout(worlds=2)
    count = scene.particle_count
    assert count == 12 + 6 + 6 + 3
    assert states.body_q.shape == (2, FRAMES + 1, 0, 7) and states.particle_q.shape == (2, FRAMES + 1, count, 3)
    assert states.finite.tolist() == [True, True]
    assert scene.part_names == ["block", "cloth", "slice", "net"]
    torch.testing.assert_close(scene.view.poses(states), states.particle_q)
    torch.testing.assert_close(scene.start_poses(scene.table.values()), states.particle_q[:1, 0])
    held = states.particle_q[:, :, 12:18][:, :, scene.deformables[1].fixed]
    torch.testing.assert_close(held, held[:, :1].expand_as(held))
    driven = states.particle_q[0, :, 18]
    assert (driven - driven[0])[:, 2].tolist() == pytest.approx([0.0, 0.002, 0.004])
    flat = states.particle_q[0, :, 18:24, 1]
    assert float((flat - 0.15).abs().max()) < 1e-9, "a flat body stays in its plane"
    images = scene.render(states, frames=[0, FRAMES])
    assert images.shape == (2, 2, 24, 24, 3)
    torch.testing.assert_close(scene.render(states.particle_q[:1], frames=[0, FRAMES])[0], images[0])
    assert json.loads(json.dumps(scene.description()))["placement"] == [count, 3]


CHECKED = [
    "block.E", "block.nu", "block.damping", "block.density", "block.position", "block.rotation", "block.velocity",
    "block.angular_velocity", "block.actuation", "block.contact.stiffness", "block.contact.damping",
    "block.contact.friction_stiffness", "push.force", "pull.force", "cloth.mu", "cloth.lam", "cloth.damping", "cloth.density",
    "cloth.actuation", "cloth.air.drag", "cloth.air.lift", "cloth.bending.rigidity", "cloth.bending.damping",
    "cloth.bending.rest_angle", "cloth.bending.actuation", "wind", "slice.mu", "slice.lam", "slice.damping", "slice.density",
    "slice.prescribed_velocity", "net.stiffness", "net.damping", "net.rest_length", "net.mass", "net.velocity", "gravity",
]  # fmt: skip


def test_gradients_of_a_film_by_every_number() -> None:
    scene, random = shared_zoo(), np.random.default_rng(5)
    values = {name: np.asarray(scene.table[name].value) for name in CHECKED}
    # Along one direction each: all numbers of a parameter move together, by parts of its size.
    ways = {k: max(float(np.abs(v).max()), 0.1) * random.uniform(0.5, 1.0, v.shape) for k, v in values.items()}
    weights = torch.as_tensor(random.standard_normal((scene.particle_count, 3))).to(bridge_device())

    def losses(moves: dict[str, torch.Tensor]) -> torch.Tensor:
        """Of worlds [W] with moves [W] along the directions."""
        given = {
            name: torch.as_tensor(values[name]) + move.reshape(-1, *[1] * values[name].ndim) * torch.as_tensor(ways[name])
            for name, move in moves.items()
        }
        states = scene.rollout(given, adjoint=Checkpoint(every=5))
        picture = scene.render(states, given, frames=[FRAMES]).flatten(1)
        place, speed = (weights * states.particle_q[:, -1]).flatten(1), states.particle_qd[:, -1].flatten(1)
        return (picture**2).mean(1) + place.mean(1) + 0.01 * (speed**2).mean(1)

    moves = {name: torch.zeros(1, dtype=torch.float64, requires_grad=True) for name in CHECKED}
    gradients = torch.autograd.grad(losses(moves).sum(), list(moves.values()))
    step, worlds = 1e-6, 2 * len(CHECKED)
    with torch.no_grad():
        there = step * torch.eye(len(CHECKED), dtype=torch.float64)
        both = torch.cat([there, -there])  # [W, parameters]
        ends = losses({name: both[:, k] for k, name in enumerate(CHECKED)})
    differences = (ends[: worlds // 2] - ends[worlds // 2 :]) / (2 * step)
    for name, gradient, difference in zip(CHECKED, gradients, differences.tolist(), strict=True):
        assert abs(difference) > 1e-8, f"{name} moves nothing"
        assert float(gradient) == pytest.approx(difference, rel=2e-4, abs=2e-9), name


def test_loads_are_shared_out_whole() -> None:
    """The parts of a load add up to its force, whoever else pulls at the same particles; one for each particle stays whole."""
    scene, each = empty_scene(), 0.1 * np.arange(FRAMES * 6.0).reshape(FRAMES, 2, 3)
    scene.add_cloth("cloth", mesh=STRIP, material=TIGHT, density=0.3)
    scene.add_load("push", body="cloth", where=[1, 2, 4], force=(0.3, -0.6, 0.9))
    scene.add_load("pull", body="cloth", where=[4, 2], force=0.5, direction=(0, 0, 2))
    scene.add_load("each", body="cloth", where=[0, 4], force=each)
    load = deformable_inputs(scene.deformables, scene.loads, scene.table.values(), frames=FRAMES).load[0].cpu().numpy()
    np.testing.assert_allclose(load[:, 1], np.tile([0.1, -0.2, 0.3], (FRAMES, 1)), rtol=1e-14)
    np.testing.assert_allclose(load[:, 2], np.tile([0.1, -0.2, 0.55], (FRAMES, 1)), rtol=1e-14)
    np.testing.assert_allclose(load[:, [0, 3]], each + [[0.0, 0.0, 0.0], [0.1, -0.2, 0.55]], rtol=1e-14)


def test_an_elastic_box_looks_like_a_rigid_one() -> None:
    images = []
    for soft in (False, True):
        scene = filmed(empty_scene(style=PictureStyle(shading="phong")))
        look = {"start": Start(position=(0.1, 0.0, 0.2), rotation=(0.1, 0.2, 0.3))}
        surface = Surface(texture=np.random.default_rng(0).uniform(size=(8, 12, 3)), specular=0.3, smooth=True, crease_angle=0.5)
        if soft:
            mesh = box_hexes((0.3, 0.2, 0.1), (1, 1, 1))
            scene.add_solid("box", mesh=mesh, material=SOFT, density=1e3, surface=surface, **look)
        else:
            scene.add_rigid("box", shape=Box(0.3, 0.2, 0.1), density=1e3, surface=surface, **look)
        scene.set_shadows(center=(0.0, 0.0, 0.1), radius=0.6, resolution=32)
        side = Camera.look_at(eye=(1.0, -0.8, 0.9), target=(0.1, 0, 0.2), vertical_fov=35, width=24, height=24, far=4.0, name="b")
        scene.add_camera(side)
        poses = scene.start_poses(scene.table.values())[:, None]
        images.append(scene.render(poses, camera="all"))
    assert float(images[0].std()) > 0.05
    # The diagonals of the sides may be cut the other way, which moves flat shading by roundoff only.
    torch.testing.assert_close(images[0], images[1], atol=1e-9, rtol=0)


def test_bodies_and_deformable_bodies_move_side_by_side() -> None:
    scene = filmed(empty_scene())
    scene.add_rigid("die", shape=Box(0.1, 0.1, 0.1), density=500.0, start=Start(position=(-0.2, 0.0, 0.4)))
    scene.add_solid(
        "block", mesh=box_hexes((0.2, 0.1, 0.1), (2, 1, 1)), material=SOFT, density=300.0, start=Start(position=(0.2, 0.0, 0.3))
    )
    states = scene.rollout(worlds=2)
    assert states.placement.shape == (2, FRAMES + 1, 1 + 12, 7) and states.diverged_step.shape == (2, 2)
    torch.testing.assert_close(states.placement[:, :, 1:, :3], states.particle_q)
    images = scene.render(states)
    torch.testing.assert_close(scene.render(states.placement), images)
    again = scene.rollout(
        worlds=2, frames=1,
        state=State(**{name: array[:, 1] for name, array in states.arrays().items()}),
    )  # fmt: skip
    torch.testing.assert_close(again.placement[:, 1], states.placement[:, 2])
    psi = default_psi(scene)
    assert any(name.startswith("block.") for name in psi.distributions)
    image, columns = image_jacobian(scene, states.placement[0, -1], torch.zeros(psi.size), psi)
    assert image.shape == (24, 24, 3) and columns.shape == (psi.size, 24, 24, 3)
    assert float(columns.abs().amax(dim=(1, 2, 3)).min()) > 0.0
    with pytest.raises(UserError, match=r"poses and positions have shape \(1, 1, 1, 7\), and this scene needs .*13, 7"):
        scene.render(states.body_q[:1, :1])


def test_sensors_read_a_deformable_body() -> None:
    scene = load_scene("rod", cells=(10, 2, 2), substeps=10, frames=3)
    scene.resize_camera(16, 16)
    task = load_task("rod", scene)
    head: SensorHead = task.head
    assert head.labels[0] == "z 1" and head.size == 10
    draws = {"rod.E": (1e4, 1e5), "press.force": (-1, 1)}
    small = SensorHead("rod", head.particles, axis=2, low=-0.5, high=0.2, draws=draws, worlds=2)
    drawn = torch.stack([small.sample(scene, np.random.default_rng(k)) for k in range(4)])
    assert drawn.shape == (4, scene.particle_count, 3)
    plan = Plan.of(scene, replace(task, head=small), DatasetSettings(images=4, size=16))
    assert plan.shapes(0)["states"] == ("F32", (4, scene.particle_count, 3))
    outputs = small.outputs(scene, drawn)
    torch.testing.assert_close(small.physical(outputs)["position"], drawn[:, list(head.particles), 2])
    many = SensorHead("rod", head.particles, axis=2, low=-0.5, high=0.2, draws=draws, worlds=400)._sampled_parameters(scene)
    stiffness, force = many["rod.E"].log10().cpu().numpy(), many["press.force"].cpu().numpy()
    # Evenly over the decades of a log10 Param, and between the ends of a factor of what the scene has.
    np.testing.assert_allclose(np.quantile(stiffness, [0.0, 0.25, 0.5, 0.75, 1.0]), [4.0, 4.25, 4.5, 4.75, 5.0], atol=0.06)
    own = np.asarray(scene.table["press.force"].value)
    factors = (force * own).reshape(400, -1).sum(axis=1) / (own**2).sum()
    np.testing.assert_allclose(force, factors.reshape(-1, *[1] * own.ndim) * own, atol=1e-12)
    np.testing.assert_allclose(np.quantile(factors, [0.0, 0.25, 0.5, 0.75, 1.0]), [-1.0, -0.5, 0.0, 0.5, 1.0], atol=0.12)
    loss = StateLoss(head, scene.rollout())
    loss.check(scene)
    assert loss.of_target(scene, None, [0, 3]).shape == (2, 10)
    with pytest.raises(UserError, match="sensor at particle 9999 of rod"):
        SensorHead("rod", (9999,), axis=2, low=0.0, high=1.0).check(scene)
    with pytest.raises(UserError, match="deformable body 'rode'"):
        SensorHead("rode", (0,), axis=2, low=0.0, high=1.0).check(scene)
    with pytest.raises(UserError, match="axis is 3"):
        SensorHead("rod", (0,), axis=3, low=0.0, high=1.0)
    with pytest.raises(UserError, match="range goes from 1"):
        SensorHead("rod", (0,), axis=2, low=1.0, high=0.0)


def test_the_command_line_simulates(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--set", "net.stiffness=80", "--size", "16", "--frames", "3", "--precision", "f64"]
    assert main(["simulate", "springs", "--out", str(out), *options]) == 0
    with np.load(out / "states.npz") as file:
        assert file["particle_q"].shape == (4, 25, 3) and file["deformable_names"].tolist() == ["net"]
    scene = load_scene("springs", size=16)
    scene.frames = 3
    head = SensorHead("net", (6, 12), axis=2, low=-0.3, high=0.0)
    loss = StateLoss(head, out / "states.npz")
    loss.check(scene)


def test_the_fingerprint_tells_deformable_scenes_apart() -> None:
    def described(**changes: Any) -> dict[str, Any]:
        scene = empty_scene()
        options = {"material": SOFT, "density": 300.0, "mesh": box_hexes((0.2, 0.1, 0.1), (2, 1, 1))} | changes
        scene.add_solid("block", **options)
        return scene.description()

    plain = described()
    assert "loads" not in plain and described() == plain
    for changes in (
        {"mesh": box_tets((0.2, 0.1, 0.1), (2, 1, 1))}, {"fixed": [0]}, {"start": Start(orientation=UPRIGHT)},
        {"material": Elastic(E=2e4, nu=0.3, damping=4.0, energy="stvk")}, {"surface": Surface(smooth=True)},
    ):  # fmt: skip
        assert described(**changes) != plain, changes


def test_warns_of_a_step_that_is_too_long() -> None:
    scene = empty_scene(ground=False)
    scene.add_solid("block", mesh=box_hexes((0.2, 0.1, 0.1), (2, 1, 1)), material=Elastic(E=1e9, nu=0.3), density=300.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solver = scene.simulator.solver
    (sentence,) = scene.simulator.adapter.step_warnings(solver)
    assert "the step of 0.000833 s is too long for 'block'" in sentence and "take at least" in sentence
    with pytest.warns(UserWarning, match="too long for 'block'"):
        scene.add_load("push", body="block", where=[0], force=(0.0, 0.0, 1.0))
        _ = scene.simulator.solver


def solid(scene: Scene, **changes: Any) -> None:
    options = {"mesh": box_tets((0.2, 0.1, 0.1), (1, 1, 1)), "material": SOFT, "density": 300.0}
    scene.add_solid("a", **(options | changes))


def cloth(scene: Scene, **changes: Any) -> None:
    scene.add_cloth("a", **({"mesh": STRIP, "material": TIGHT, "density": 0.3} | changes))


def flat(scene: Scene, **changes: Any) -> None:
    scene.add_flat_body("a", **({"mesh": STRIP, "material": SOFT, "density": 300.0} | changes))


def springs(scene: Scene, **changes: Any) -> None:
    options = {"points": [(0, 0, 0), (1, 0, 0)], "springs": Springs(indices=[(0, 1)], stiffness=1.0), "mass": 1.0}
    scene.add_springs("a", **(options | changes))


def loaded(scene: Scene, **changes: Any) -> None:
    solid(scene)
    scene.add_load("push", **({"body": "a", "where": [0], "force": (0.0, 0.0, 1.0)} | changes))


def bent(bending: Bending) -> Shell:
    return replace(TIGHT, bending=bending)


ONE_COLUMN = Actuation(values=np.zeros((2, 1)))
SHORT_VELOCITY = r"a.prescribed_velocity has shape \(2,\): give \(3,\)"
LONG_ACTUATION = r"a.actuation has shape \(3, 5\), and \(2, [56]\) is needed .*elements"
BENT = SheetMesh(np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0.5), (0, 1, 0.0)]), np.array([(0, 1, 2), (0, 2, 3)]))
TURNED = SheetMesh(np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0.0)]), np.array([(0, 1, 2), (0, 3, 2)]))


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (solid, {"material": Elastic(E=1e4, nu=0.5)}, "a.nu is 0.5: give a number between -1 and 0.5"),
        (solid, {"material": Elastic(E=1e4, nu=-1.0)}, "a.nu is -1.0: give a number between -1 and 0.5"),
        (solid, {"material": Elastic(E=0.0, nu=0.3)}, "a.E is 0.0 Pa: give a number above zero"),
        (solid, {"material": Elastic(mu=-1.0, lam=1.0)}, "a.mu is -1.0 Pa: give a number above zero"),
        (solid, {"material": Elastic(mu=1.0, lam=-0.7)}, "a.lam is -0.7 Pa and its mu 1: such a material expands without load"),
        (solid, {"material": Elastic(mu=1.0, lam=0.1, convention="energy")}, "give lam above 0.125 mu"),
        (solid, {"material": Elastic(E=1e4)}, "the material of a needs E and nu, or mu and lam"),
        (solid, {"material": Elastic(E=1e4, nu=0.3, mu=1e3, lam=1e3)}, "give exactly one of the two pairs"),
        (solid, {"material": Elastic(E=1e4, nu=0.3, energy="hooke")}, "energy 'hooke': choose one of neo_hookean, corotated"),
        (solid, {"material": Elastic(E=[1e4, 2e4], nu=0.3)}, r"a.E has shape \(2,\): give one number, or"),
        (solid, {"material": Elastic(E=1e4, nu=0.3, damping=-1.0)}, "a.damping is -1.0 Pa s: give a number that is not negative"),
        (solid, {"density": -5.0}, "a.density is -5.0 kg/m3: give a number above zero"),
        (solid, {"mass": 1.0}, "a needs its density or the mass of its particles: give exactly one"),
        (solid, {"density": None}, "a needs its density or the mass of its particles: give exactly one"),
        (solid, {"mesh": STRIP}, "a.mesh is of type SheetMesh: give a SolidMesh"),
        (solid, {"material": TIGHT}, "a.material is of type Shell: give an Elastic"),
        (solid, {"start": Start(velocity=np.zeros((3, 3)))}, r"a.velocity has shape \(3, 3\): give \(3,\), or \(8, 3\)"),
        (solid, {"start": Start(orientation=(0, 0, 0, 0))}, "a.orientation is .*: give a quaternion"),
        (solid, {"fixed": [99]}, "a.fixed contains particle 99, but the particles are 0 to 7"),
        (solid, {"fixed": lambda x: x[:, 0] > 9}, "a.fixed selects no particle"),
        (solid, {"fixed": np.zeros(3, bool)}, r"a.fixed is a mask of shape \(3,\): give \(8,\)"),
        (solid, {"fixed": [0.5]}, "a.fixed has shape .* of float64: give indices"),
        (solid, {"fixed": [0], "prescribed": Prescribed(particles=[0], velocity=(0, 0, 1))}, "particle 0 of a is fixed and has"),
        (solid, {"prescribed": [0]}, r"a.prescribed is \[0\]: give a Prescribed"),
        (solid, {"prescribed": Prescribed(particles=[0], velocity=(0, 1))}, SHORT_VELOCITY),
        (solid, {"prescribed": Prescribed(particles=None, velocity=(0, 0, 1))}, "a.prescribed selects no particle: give its"),
        (solid, {"actuation": Actuation(values=np.zeros((3, 5)))}, LONG_ACTUATION),
        (solid, {"actuation": Actuation(values=np.zeros((2, 1)), groups=[0])}, r"groups of a.actuation have shape \(1,\)"),
        (solid, {"actuation": np.zeros((2, 5))}, r"a.actuation is \[\[0.0, .*: give an Actuation"),
        (cloth, {"mesh": box_tets((1, 1, 1), (1, 1, 1))}, "a.mesh is of type SolidMesh: give a SheetMesh"),
        (cloth, {"material": SOFT}, "a.material is of type Elastic: give a Shell"),
        (cloth, {"material": Shell(E=1e6, nu=0.3)}, "a has E=1000000.0 and thickness=None: give both"),
        (cloth, {"material": bent(Bending())}, "the bending of a needs its stiffness or its rigidity"),
        (cloth, {"material": bent(Bending(stiffness=1.0, rest_angle="flat"))}, "a has rest_angle='flat'"),
        (cloth, {"material": bent(Bending(stiffness=1.0, actuation=ONE_COLUMN))}, r"a.bending.actuation has shape \(2, 1\)"),
        (cloth, {"material": replace(TIGHT, air=Air(drag=-1.0))}, "a.air.drag is -1.0 kg/m3: give a number that is not negative"),
        (flat, {"mesh": BENT}, "vertex 2 is outside the plane of triangle 0|vertex 3 is outside the plane of triangle 0"),
        (flat, {"mesh": TURNED}, "its triangle 1 has the opposite winding of triangle 0"),
        (flat, {"depth": 0.0}, "a.depth is 0.0: give a finite number above zero"),
        (flat, {"material": Elastic(E=1.0, nu=0.3, energy="stvk")}, "a is flat and its material has the energy 'stvk'"),
        (springs, {"springs": Springs(indices=[(0, 2)], stiffness=1.0)}, r"spring 0 of a joins the points \[0, 2\]"),
        (springs, {"springs": Springs(indices=[0, 1], stiffness=1.0)}, "the springs of a have shape"),
        (springs, {"points": [(0, 0)]}, "the points of a have shape"),
        (springs, {"springs": Springs(indices=[(0, 1)], stiffness=0.0)}, "a.stiffness is 0.0 N/m: give a number above zero"),
        (springs, {"radius": -0.1}, "a.radius is -0.1: give a finite number above zero"),
        (loaded, {"body": "b"}, "deformable body 'b'"),
        (loaded, {"where": None}, "push acts on no particle: say where"),
        (loaded, {"force": 1.0}, r"push.force has shape \(\): give \(3,\), or \(2, 3\) .*give the direction too"),
        (loaded, {"force": 1.0, "direction": (0, 0, 0)}, "push has the direction"),
        (loaded, {"limit": 0.0}, "push.limit is 0.0: give a number above zero"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[..., None], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(empty_scene(ground=False), **changes)


def test_what_is_refused_when_it_runs() -> None:
    scene = shared_zoo()
    with pytest.raises(UserError, match=r"block.nu is 0.5: give a number between -1 and 0.5"):
        scene.rollout({"block.nu": torch.tensor(0.5)})
    with pytest.raises(UserError, match="block.actuation is given for 2 frame intervals, and 3 are simulated"):
        scene.rollout(frames=3)
    with pytest.raises(UserError, match="the scene has a wind already: give its velocity once"):
        scene.set_wind((1.0, 0.0, 0.0))
    with pytest.raises(UserError, match="there are actions, but the scene has no rotors and no motors"):
        scene.rollout(actions=torch.zeros(1, 2, 1))
    with pytest.raises(UserError, match="the state has no particle_q, which this scene reads"):
        scene.rollout(state=State(body_q=torch.zeros(1, 1, 7)))
    with pytest.raises(UserError, match="the positions have shape"):
        scene.render(torch.zeros(1, 1, 5, 3))
    with pytest.raises(UserError, match="the ground comes before the bodies"):
        scene.add_ground(contact=STICKY)
    stiff = empty_scene(integrator="rk4")
    solid(stiff)
    with pytest.raises(UserError, match="deformable bodies have .semi_implicit. and implicit integrators"):
        stiff.rollout()
    alone = empty_scene(ground=False)
    solid(alone, contact=STICKY)
    with pytest.raises(UserError, match="a has a Contact and collides with nothing: the scene has no ground"):
        alone.rollout()


def test_both_conventions_make_the_same_solid() -> None:
    mu, lam = 5e3, 7e3
    young, poisson = mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu))
    materials = [
        Elastic(E=young, nu=poisson), Elastic(mu=mu, lam=lam), Elastic(mu=4 / 3 * mu, lam=lam + 5 / 6 * mu, convention="energy"),
        Elastic(E=np.full(5, young), nu=np.full(5, poisson)),
    ]  # fmt: skip
    rows = []
    for material in materials:
        scene = empty_scene()
        solid(scene, material=material, mesh=box_tets((0.2, 0.1, 0.1), (1, 1, 1)))
        rows.append(scene.deformables[0].elements.stiffness.rows(scene.table.values())[0])
    for row in rows[1:]:
        torch.testing.assert_close(row, rows[0])
