"""Scenes with links: what their motion is in closed form, gradients of every number, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import (
    Box,
    Camera,
    Checkpoint,
    Contact,
    Cylinder,
    DirectionalLight,
    Fixed,
    LinkFrame,
    Param,
    Prismatic,
    Revolute,
    Scene,
    SinePulse,
    Sphere,
    Spherical,
    Start,
    UserError,
    check_film_gradient,
    load_scene,
)
from risp_torch.risp import load_task
from risp_torch.scene.adding.body_options import BodyGeometry, collision_shape
from risp_torch.scene.parts.motors import Motors
from tests.reference.gradients_in_worlds import check_torch_in_worlds

SWING = {"axis": (0.0, -1.0, 0.0)}
ROD = LinkFrame(length=0.4)


def rod(scene: Scene, name: str, *, frame: LinkFrame = ROD, **options: object) -> None:
    """A ball of 0.5 kg on a rod, of 0.4 m by default."""
    frame = replace(frame, length=ROD.length) if frame.length is None else frame
    scene.add_link(name, frame=frame, **({"joint": Revolute(**SWING), "shape": Sphere(radius=0.05), "mass": 0.5} | options))


def driven(scene: Scene) -> Scene:
    """A rod with a motor."""
    rod(scene, "a")
    scene.add_motors("m", joints=["a"])
    return scene


def mixed() -> Scene:
    """Every joint, springs, limits, motors, and a free block that meets the ground."""
    scene = Scene(frame_dt=0.02, frames=3, substeps=8, name="mixed")
    scene.add_ground(contact=Contact(stiffness=800.0, damping=0.5, friction_stiffness=1.0, friction=0.3), height=-0.62)
    scene.add_number("shared.stiffness", 0.4, unit="N m/rad")
    rod(scene, "upper", joint=Revolute(**SWING, angle=0.7, rate=0.5, stiffness="shared.stiffness", damping=0.02, armature=0.01))
    rod(
        scene, "lower",
        frame=LinkFrame(parent="upper", at_tip=True, length=0.3, position=(0.01, 0.02, 0.0), center=(0.0, 0.01, 0.0)),
        joint=Revolute(
            axis=(0.3, 1.0, 0.1), angle=-0.5, stiffness="shared.stiffness", rest=0.1, limit_low=-0.3, limit_high=0.4,
            limit_stiffness=3.0,
        ),
    )  # fmt: skip
    rod(
        scene,
        "ball",
        frame=LinkFrame(parent="upper", position=(0.0, 0.1, 0.0)),
        joint=Spherical(turn=(0.2, -0.1, 0.3), rate=(0.5, 1.0, -0.4), stiffness=0.3),
    )
    slide = Prismatic(
        axis=(1.0, 0.0, 0.2), slide=0.05, rate=-0.2, stiffness=20.0, damping=0.1, dry_friction=0.3, dry_stiffness=400.0,
        dry_damping=0.2,
    )  # fmt: skip
    rod(scene, "slider", frame=LinkFrame(parent="ball"), joint=slide)
    scene.add_link(
        "plate", frame=LinkFrame(parent="slider", position=(0.0, 0.0, -0.05)), joint=Fixed(), shape=Box(0.1, 0.08, 0.02),
        density=400.0,
    )  # fmt: skip
    scene.add_rigid(
        "block", shape=Box(0.1, 0.1, 0.1), density=300.0,
        start=Start(position=(0.5, 0.0, -0.575), velocity=(0.3, 0.1, -0.2), angular_velocity=(0.4, -0.8, 0.3)),
    )  # fmt: skip
    actions = np.random.default_rng(0).normal(size=(3, 4))
    scene.add_motors("hip", joints=["upper", "ball"], actions=actions, gain=0.3)
    scene.add_motors(
        "knee", joints=["lower"], actions=SinePulse(amplitude=0.8, delay=0.4, period=5.0), gain=0.5, shared=True, targets=0.2,
        servo_stiffness=0.6, servo_damping=0.05,
    )  # fmt: skip
    return scene


@pytest.mark.parametrize("adjoint", [None, Checkpoint(every=7)], ids=["store", "checkpoint"])
def test_gradient_of_every_number(adjoint):
    scene = mixed()
    names = [name for name in scene.parameters if "color" not in name and "softness" not in name]
    # What must not be negative has differences on both sides only if it is not zero.
    names = [name for name in names if name not in scene.table.signs or np.min(scene.parameters[name].value) > 0]
    units = {name: np.maximum(np.abs(scene.parameters[name].value), 1e-2) for name in names}
    with torch.no_grad():
        still = scene.rollout()
    random = torch.Generator().manual_seed(1)
    weights = [torch.randn(x.shape, generator=random, dtype=x.dtype).to(x) for x in (still.body_q, still.body_qd, still.joint_q)]

    def losses(at):
        given = {n: torch.as_tensor(scene.parameters[n].value) + torch.as_tensor(units[n]) * at[n] for n in names}
        states = scene.rollout(given, adjoint=adjoint)
        frames = (states.body_q, states.body_qd, states.joint_q)
        return sum((w * x).flatten(1).sum(dim=1) for w, x in zip(weights, frames, strict=True))

    point = {name: np.zeros(np.shape(scene.parameters[name].value)) for name in names}
    report = check_torch_in_worlds(losses, point, step=1e-5, rtol=1e-5, floor=1e-3)
    report.raise_if_wrong()
    moving = {entry.name for entry in report.entries if abs(entry.adjoint) > 1e-6}
    assert moving >= {
        "upper.length", "lower.center", "ball.turn", "slider.slide", "plate.density", "block.velocity", "shared.stiffness",
        "slider.dry_friction", "slider.dry_stiffness", "slider.dry_damping",
        "hip.actions", "knee.delay", "knee.amplitude", "knee.servo_stiffness", "gravity", "ground.contact.stiffness",
    }  # fmt: skip


def rubbing(**options):
    scene = Scene(frame_dt=0.02, frames=40, substeps=20)
    joint = Revolute(**SWING, angle=0.4, **({"dry_friction": 2.0, "dry_stiffness": 500.0, "dry_damping": 8.0} | options))
    rod(scene, "rod", joint=joint)
    return scene


def test_a_joint_of_dry_friction_holds_its_link():
    scene = rubbing()
    assert [scene.parameters[f"rod.dry_{name}"].unit for name in ("friction", "stiffness", "damping")] == [
        "N m", "N m/rad", "N m s/rad",
    ]  # fmt: skip
    values = torch.tensor([0.05, 2.0], dtype=torch.float64)
    angle = scene.rollout({"rod.dry_friction": values}).joint_q[:, :, 0]
    assert abs(angle[1, -1] - 0.4) < 2e-3 and angle[0].min() < -0.1
    assert abs(angle[1, -1] - angle[1, -2]) < 1e-9


def test_dry_friction_that_is_refused_and_steps_that_are_too_long():
    for options, words in (
        ({"dry_stiffness": None}, "rod has a part of its dry friction: give dry_friction and dry_stiffness"),
        ({"dry_friction": None}, "rod has a part of its dry friction"),
        ({"dry_stiffness": 0.0}, "rod.dry_stiffness is 0.0"),
        ({"dry_friction": -1.0}, "rod.dry_friction is -1.0"),
    ):
        with pytest.raises(UserError, match=words):
            rubbing(**options)
    with pytest.warns(UserWarning, match="too long for the dry friction of the joints of 'rod': take at least"):
        _ = rubbing(dry_stiffness=5e5).simulator.solver


def test_a_pulse_has_a_derivative_at_every_delay():
    """Also where it begins or ends with a frame, where the formula has kinks; there it gives the formula's own actions."""
    frames, period, weights = 16, 8.0, torch.linspace(1.0, 2.0, 16, dtype=torch.float64)
    group = Motors("m", (0,), math.inf, 1, period)

    def actions(delay):
        return group.actions({"m.amplitude": torch.full((1,), 0.8, dtype=torch.float64), "m.delay": delay[None]}, frames)[0, :, 0]

    for value in (-3.0, 0.0, 2.0, 8.0, 1.5, 2.9999, 3.0001, 10.25):
        delay = torch.tensor(value, dtype=torch.float64)
        exact = 0.8 * np.sin(2 * np.pi * np.clip((np.arange(frames) - value) / period, 0, 1))
        whole = value == round(value)
        np.testing.assert_allclose(actions(delay), exact, atol=1e-15 if whole else 4 / 27 * 0.8 * 2 * np.pi / period)
        slope = torch.autograd.functional.jacobian(lambda d: (weights * actions(d)).sum(), delay)
        for h in (1e-4, -1e-4):  # differences of both sides
            one_sided = ((weights * actions(delay + h)).sum() - (weights * actions(delay)).sum()) / h
            assert float(one_sided) == pytest.approx(float(slope), abs=1e-3)


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum", "hand", "hand_cube"])
def test_film_gradient_of_the_scenes(name):
    scene = load_scene(name, size=24)
    ends = ("length", "angle", "stiffness", "damping", "mass")
    unknowns = [u for u in scene.unknowns if u.endswith(ends) or u == "gravity"]
    entries, loss = check_film_gradient(scene, unknowns, frames=12)
    assert loss > 0
    for entry in entries:
        assert entry.gradient == pytest.approx(entry.difference, rel=2e-4, abs=1e-4 * max(abs(e.gradient) for e in entries)), (
            entry
        )


def test_period_of_small_swings():
    length, gravity = 0.5, 9.81
    scene = Scene(frame_dt=0.01, frames=300, substeps=10, gravity=gravity, integrator="rk4")
    rod(scene, "rod", joint=Revolute(**SWING, angle=1e-3), frame=LinkFrame(length=length), inertia=np.diag([1e-9] * 3))
    angle = scene.rollout().joint_q[0, :, 0].cpu().numpy()
    down = [k for k in range(300) if angle[k] > 0 >= angle[k + 1]]  # a quarter, and one and a quarter turns
    times = [0.01 * (k + angle[k] / (angle[k] - angle[k + 1])) for k in down]
    assert np.diff(times)[0] == pytest.approx(2 * math.pi * math.sqrt(length / gravity), rel=1e-4)


def test_poses_are_those_of_the_centres_of_mass():
    scene = mixed()
    states = scene.rollout(frames=1)
    start = scene.start_poses(scene.table.values())
    torch.testing.assert_close(states.body_q[:, 0], start)
    down = torch.tensor([math.sin(0.7), 0.0, -math.cos(0.7)], dtype=torch.float64)
    torch.testing.assert_close(start[0, 0, :3], 0.4 * down)
    torch.testing.assert_close(
        states.body_qd[0, 0, 0, :3], 0.5 * 0.4 * torch.tensor([math.cos(0.7), 0.0, math.sin(0.7)], dtype=torch.float64)
    )
    torch.testing.assert_close(states.body_qd[0, 0, 5], torch.tensor([0.3, 0.1, -0.2, 0.4, -0.8, 0.3], dtype=torch.float64))


def test_hand_stays_within_its_limits_and_its_head_reads_the_angles():
    scene = load_scene("hand")
    states = scene.rollout({"index.stiffness": torch.tensor([0.0, 1.0], dtype=torch.float64)})
    assert states.joint_q.shape == (2, scene.frames + 1, 13) and states.joint_q.abs().max() < math.pi / 4
    assert states.joint_q[1].abs().max() > math.pi / 9
    head = load_task("hand", scene).head
    read = head.physical(head.outputs(scene, states.body_q))["angles [rad]"]
    torch.testing.assert_close(read, states.joint_q, atol=1e-9, rtol=0.0)
    drawn = head.sample(scene, np.random.default_rng(2))
    angles = head.outputs(scene, drawn)
    assert drawn.shape == (14, 7) and angles.abs().max() <= 1.0 and angles.std() > 0.3


def test_the_thumb_moves_the_cube():
    scene = load_scene("hand_cube")
    place = scene.rollout({"cube.mass": torch.tensor([0.05, 0.2], dtype=torch.float64)}).body_q[:, :, -1, :3]
    assert (place[:, -1, 0] - place[:, 0, 0] > 0.01).all() and place[0, -1, 0] > place[1, -1, 0] + 1e-4
    assert (place[..., 2] - place[:, :1, 2]).abs().max() < 0.01  # it stays on the ground


def balls() -> Scene:
    """Two equal balls on one line, far from any ground, that lose nothing when they meet."""
    scene = Scene(frame_dt=0.02, frames=10, substeps=400, gravity=(0.0, 0.0, 0.0))
    elastic = Contact(stiffness=2e4, damping=0.0, friction_stiffness=0.0, friction=0.0)
    for name, x, velocity in (("left", -0.0505, 1.0), ("right", 0.0505, -0.4)):
        scene.add_rigid(
            name, shape=Sphere(radius=0.05), mass=0.2,
            start=Start(position=(x, 0.0, 0.0), velocity=(velocity, 0.0, 0.0)),
            contact=elastic,
            collision=True,
        )  # fmt: skip
    return scene


def test_balls_exchange_their_velocities_and_the_gradient_says_so():
    scene = balls()
    given = {
        name: torch.tensor([v, 0.0, 0.0], dtype=torch.float64, requires_grad=True) for name, v in (("left", 1.0), ("right", -0.4))
    }
    states = scene.rollout({f"{name}.velocity": value for name, value in given.items()})
    final = states.body_qd[0, -1, :, 0]
    torch.testing.assert_close(final.detach(), torch.tensor([-0.4, 1.0], dtype=torch.float64), atol=2e-3, rtol=0.0)
    for k, row in enumerate(((0.0, 1.0), (1.0, 0.0))):
        gradients = torch.autograd.grad(final[k], list(given.values()), retain_graph=True)
        for gradient, wanted in zip(gradients, row, strict=True):
            assert float(gradient[0]) == pytest.approx(wanted, abs=5e-3)


def test_what_meets_others_keeps_its_shape_in_place():
    scene = Scene(frame_dt=0.01, frames=2, substeps=2)
    contact = Contact(stiffness=100.0, damping=0.0, friction_stiffness=0.0, friction=0.0)
    rod(scene, "a", collision=True, contact=contact)
    with pytest.raises(UserError, match="a has a collision shape placed by"):
        scene.rollout({"a.length": torch.tensor([0.5], dtype=torch.float64)})
    with pytest.raises(UserError, match="b collides with other bodies and has no contact parameters"):
        rod(scene, "b", collision=True)
    rod(scene, "c", shape=Cylinder(radius=0.1, height=0.1), collision=True, contact=contact)
    assert scene.bodies[-1].collision.kind == "mesh"
    with pytest.raises(UserError, match="d is made of several shapes and collides with no other bodies"):
        collision_shape("d", BodyGeometry(None, np.zeros((0, 3)), None))


def test_actions_in_place_of_the_scenes_own():
    scene = mixed()
    own = scene.rollout()
    given = torch.cat([torch.as_tensor(scene.parameters["hip.actions"].value), 0.0 * torch.ones(3, 1)], dim=1)[None]
    time = torch.arange(3) - 0.4  # after the delay; the corner at 0 is rounded over one frame (``SinePulse``)
    time = torch.where(time < 0, 0.0, torch.where(time < 1, time**2 * (2 - time), time))
    pulse = 0.8 * torch.sin(2 * math.pi * time / 5.0)
    given[0, :, 4] = pulse
    torch.testing.assert_close(scene.rollout(actions=given).joint_q, own.joint_q)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda s: rod(s, "a", frame=LinkFrame(parent="b")), "a is attached to 'b', which is not a link added before it"),
        (lambda s: rod(s, "a", frame=LinkFrame(parent="a")), "links form trees without loops"),
        (lambda s: rod(s, "a", joint=Revolute(axis=(0, 0, 0))), "the joint of a has the axis"),
        (lambda s: rod(s, "a", joint=Revolute(**SWING, limit_low=1.0, limit_high=-1.0)), "limits reversed"),
        (lambda s: rod(s, "a", joint=Revolute(**SWING, stiffness="k")), "unknown parameter 'k'"),
        (lambda s: rod(s, "a", frame=LinkFrame(at_tip=True)), "is attached to the tip of the world, which has no length"),
        (lambda s: rod(s, "a", density=3.0), "exactly one of the two"),
        (lambda s: rod(s, "a", mass=0.0), "a.mass"),
        (lambda s: (rod(s, "a"), s.add_motors("m", joints=["b"])), "unknown body 'b'"),
        (lambda s: (rod(s, "a"), s.add_motors("m", joints=["a"], limit=0.0)), "m.limit is 0.0: give a number above zero"),
        (lambda s: (rod(s, "a"), s.add_motors("m", joints=["a"]), s.add_motors("n", joints=["a"])), "has motors already"),
        (lambda s: (rod(s, "a"), s.add_motors("m", joints=["a"], actions=np.zeros((2, 3)))), "m.actions has shape"),
        (lambda s: driven(s).rollout(actions=torch.zeros(1, 5, 2)), "the actions have shape"),
        (lambda s: driven(s).rollout(actions=torch.full((1, 5, 1), torch.nan)), "values that are not finite"),
        (lambda s: driven(s).rollout(actions=torch.zeros(1, 2, 1)), "2 frame intervals, and 5"),
    ],
)  # fmt: skip
def test_wrong_links(write, words):
    scene = Scene(frame_dt=0.01, frames=5, substeps=2)
    with pytest.raises(UserError, match=words.replace("(", r"\(")) as error:
        write(scene)
    assert len(str(error.value).splitlines()) == 1


def test_links_are_filmed():
    scene = Scene(frame_dt=0.01, frames=1, substeps=2)
    rod(scene, "rod", joint=Revolute(**SWING, angle=math.pi / 2), frame=LinkFrame(length=Param(0.4, low=0.1, high=1.0)))
    scene.add_camera(
        Camera.look_at(eye=(0.0, -2.0, 0.0), target=(0.0, 0.0, 0.0), vertical_fov=40.0, width=96, height=96, near=0.5, far=4.0)
    )
    scene.add_light(DirectionalLight(direction=(0.0, 1.0, 0.0), intensity=1.0))
    with torch.no_grad():
        lengths = {"rod.length": torch.tensor([0.2, 0.4], dtype=torch.float64)}
        cover = scene.render(scene.rollout(lengths), alpha=True)[:, 0, ..., 3]
    middle = (cover.sum(1) * (torch.arange(96) + 0.5)).sum(-1) / cover.sum((1, 2)) - 48.0  # px right of the middle
    pixels = 48.0 / math.tan(math.radians(20.0)) / 2.0  # a metre at the ball's distance
    np.testing.assert_allclose(middle.cpu().numpy(), [0.2 * pixels, 0.4 * pixels], rtol=0.02)
