"""Robots from files in scenes: MuJoCo's poses and accelerations of the same files, gradients, pictures, and what is refused."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from risp_torch import Camera, Contact, DirectionalLight, Scene, UserError
from risp_torch.__main__ import main
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from risp_torch.scene.adding.robot import friction_numbers, limit_stiffness
from risp_torch.scene.robot_files.check import inertias_of_free_joints, subtree_inertias
from risp_torch.scene.robot_files.description import RobotMimic
from risp_torch.scene.robot_files.read import read_robot
from tests.reference.folders import ROBOTS

pytest.importorskip("yourdfpy")
mujoco = pytest.importorskip("mujoco")

ARM_JOINTS = ("column", "upper", "forearm", "wrist", "left_finger", "right_finger")  # links, in MuJoCo's order of their joints
STAND = {"position": (0.3, -0.2, 0.1), "orientation": (0.1, -0.3, 0.2, 0.9)}
GROUND = Contact(stiffness=3000.0, damping=20.0, friction_stiffness=20.0, friction=0.6)


def scene_with(file: str, *, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81), **options: object) -> Scene:
    scene = Scene(frame_dt=1e-6, frames=1, substeps=1, gravity=gravity, gamma=2e-3)
    with pytest.warns(UserWarning, match=f"{file} is not imported completely: "):
        scene.add_robot(ROBOTS / file, free_mimic=True, **options)
    return scene


def arm_of_mujoco() -> tuple[object, object]:
    """The arm, moved as the scene's is, without MuJoCo's limits."""
    spec = mujoco.MjSpec.from_file(str(ROBOTS / "arm.urdf"))
    spec.compiler.fusestatic = False
    spec.meshdir = "meshes"
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model, mujoco.MjData(model)


def posed(data: object, seed: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """Random coordinates and rates of the arm's joints, given to MuJoCo, and as parameters of the scene."""
    random = np.random.default_rng(seed)
    data.qpos[:] = random.uniform(0.005, 0.035, 6)  # within all limits
    data.qvel[:] = random.normal(size=6)
    given = {}
    for k, link in enumerate(ARM_JOINTS):
        given[f"arm_{link}.{'slide' if 'finger' in link else 'angle'}"] = torch.tensor(data.qpos[k])
        given[f"arm_{link}.rate"] = torch.tensor(data.qvel[k])
    return given, data.qvel.copy()


def accelerations(scene: Scene, given: dict[str, torch.Tensor]) -> np.ndarray:
    with torch.no_grad():
        states = scene.rollout(given)
    return ((states.joint_qd[0, 1] - states.joint_qd[0, 0]) / scene.stepping.dt).cpu().numpy()


def test_arm_is_mujocos():
    scene = scene_with("arm.urdf", dry_friction=False)
    model, data = arm_of_mujoco()
    for seed in (1, 2):
        given, _ = posed(data, seed)
        mujoco.mj_forward(model, data)
        start = scene.start_poses(scene.table.values(given))[0].cpu().numpy()
        for body, pose in zip(scene.bodies[1:], start[1:], strict=True):  # MuJoCo makes the root link the world
            number = model.body(body.name.removeprefix("arm_")).id
            wanted = data.xipos if model.body_mass[number] else data.xpos
            np.testing.assert_allclose(pose[:3], wanted[number], rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(accelerations(scene, given), data.qacc, rtol=1e-6, atol=1e-6)


def test_gripper_is_mujocos():
    scene = scene_with("gripper.xml", gravity=(0.0, 0.0, -3.7), dry_friction=False)
    model = mujoco.MjModel.from_xml_path(str(ROBOTS / "gripper.xml"))
    flags = mujoco.mjtDisableBit
    model.opt.disableflags |= int(flags.mjDSBL_CONSTRAINT | flags.mjDSBL_ACTUATION)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    names = [body.name for body in scene.bodies]
    assert names[1:4] == ["gripper_cart_rail", "gripper_cart_yaw", "gripper_cart"]
    assert [scene.parameters[f"{name}.mass"].value for name in names[:4]] == [0.0, 0.0, 0.0, 1.5]
    start = scene.start_poses(scene.table.values())[0].cpu().numpy()
    for link in ("cart", "left", "right", "ball"):
        pose = start[names.index(f"gripper_{link}"), :3]
        np.testing.assert_allclose(pose, data.xipos[model.body(link).id], rtol=0.0, atol=1e-10)
    # At rest, the servos hold what the file shows, and the ball falls.
    np.testing.assert_allclose(accelerations(scene, {}), data.qacc, rtol=1e-6, atol=1e-6)


def test_a_robot_is_moved_as_a_whole():
    scene, moved = scene_with("arm.urdf"), scene_with("arm.urdf", name="it", **STAND)
    here, there = (one.start_poses(one.table.values())[0].cpu().numpy() for one in (scene, moved))
    x, y, z, w = np.array(STAND["orientation"]) / np.linalg.norm(STAND["orientation"])
    axis, angle = np.array([x, y, z]) / math.hypot(x, y, z), 2.0 * math.acos(w)
    p = here[:, :3]
    turned = p * math.cos(angle) + np.cross(axis, p) * math.sin(angle) + np.outer(p @ axis, axis) * (1 - math.cos(angle))
    np.testing.assert_allclose(there[:, :3], turned + STAND["position"], atol=1e-12)
    assert "it_wrist.motor.gain" in moved.parameters and moved.parameters["it_wrist.limit_high"].value == 3.0


def test_a_free_base_is_mujocos():
    path = ROBOTS / "quadruped.urdf"
    spec = mujoco.MjSpec.from_file(str(path))
    spec.body("trunk").add_freejoint()
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(model)
    scene = Scene(frame_dt=1e-6, frames=1, substeps=1)
    with pytest.warns(UserWarning):
        scene.add_robot(path, free_base=True, **STAND)
    data.qpos[:3], data.qpos[3:7] = STAND["position"], np.roll(STAND["orientation"], 1) / np.linalg.norm(STAND["orientation"])
    random, given = np.random.default_rng(4), {}
    for link in read_robot(path).links:
        joint = link.joint
        if joint.type == "revolute":
            place, k = model.joint(joint.name).qposadr[0], model.joint(joint.name).dofadr[0]
            low, high = joint.limit_low, joint.limit_high
            data.qpos[place], data.qvel[k] = low + (high - low) * random.uniform(0.2, 0.8), random.normal()
            given[f"quadruped_{link.name}.angle"] = torch.tensor(data.qpos[place])
            given[f"quadruped_{link.name}.rate"] = torch.tensor(data.qvel[k])
    mujoco.mj_forward(model, data)
    start = scene.start_poses(scene.table.values(given))[0].cpu().numpy()
    for body, pose in zip(scene.bodies, start, strict=True):
        number = model.body(body.name.removeprefix("quadruped_")).id
        np.testing.assert_allclose(pose[:3], data.xipos[number], rtol=0.0, atol=1e-10)
    trunk = model.body("trunk").id
    wanted = data.qacc.copy()
    arm = data.xipos[trunk] - data.xpos[trunk]
    wanted[:3] += np.cross(data.xmat[trunk].reshape(3, 3) @ wanted[3:6], arm)  # the scene's coordinates are the centre of mass's
    np.testing.assert_allclose(accelerations(scene, given), wanted, rtol=1e-6, atol=1e-6)


def test_feet_carry_a_robot():
    scene = Scene(frame_dt=0.01, frames=20, substeps=20)
    scene.add_ground(contact=GROUND)
    with pytest.warns(UserWarning, match="velocity limits"):
        scene.add_robot(ROBOTS / "quadruped.urdf", free_base=True, contact=GROUND)
    assert [body.points[:, 3].tolist() for body in scene.bodies if body.points[:, 3].any()] == [[0.02]] * 4  # balls
    poses = scene.start_poses(scene.table.values())[0].cpu().numpy()
    centers = [Rotation.from_quat(p[3:]).apply(body.points[:, :3]) + p[:3] for p, body in zip(poses, scene.bodies, strict=True)]
    lowest = (np.concatenate(centers)[:, 2] - np.concatenate([body.points[:, 3] for body in scene.bodies])).min()
    lifted = poses[0, 2] - lowest + 1e-3  # m: it stands a millimetre above the ground
    with torch.no_grad():
        position = torch.tensor([*poses[0, :2], lifted])
        stiffness = torch.tensor([3000.0, 1e-6], dtype=torch.float64)
        given = {"quadruped_trunk.position": position, "quadruped.contact.stiffness": stiffness}
        given |= {f"quadruped.contact.{kind}": torch.tensor([20.0, 0.0]) for kind in ("damping", "friction_stiffness")}
        for body in scene.bodies[1:]:  # which hold their legs
            given |= {f"{body.name}.stiffness": torch.tensor(40.0), f"{body.name}.damping": torch.tensor(0.8)}
        fallen = lifted - scene.rollout(given).body_q[:, -1, 0, 2]
    assert fallen[1] == pytest.approx(0.5 * 9.81 * 0.2**2, rel=0.05) and fallen[0] < 0.3 * fallen[1]


def test_gradient_of_the_last_pose_by_a_damping():
    scene = Scene(frame_dt=0.01, frames=5, substeps=10)
    with pytest.warns(UserWarning):
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True)
    weights = torch.randn((8, 7), generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def loss(at):
        states = scene.rollout({"arm_upper.damping": at["damping"], "arm_column.rate": torch.tensor(1.0)})
        return (weights * states.body_q[0, -1]).sum()

    report = check_torch(loss, {"damping": np.array(0.4)}, step=1e-4, rtol=1e-6)
    report.raise_if_wrong()
    assert abs(report.entries[0].adjoint) > 1e-4


def test_joint_friction_of_files():
    scene = Scene(frame_dt=0.1, frames=5, substeps=100)
    with pytest.warns(UserWarning) as told:
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True)
        scene.add_robot(ROBOTS / "gripper.xml")
    assert not any("joint friction" in str(warning.message) for warning in told)
    with warnings.catch_warnings():  # the step is not too long for it
        warnings.simplefilter("error")
        assert scene.simulator.solver is not None
    robot = read_robot(ROBOTS / "arm.urdf")
    column = next(k for k, link in enumerate(robot.links) if link.name == "column")
    inertia = inertias_of_free_joints(robot.links)[column]
    numbers = friction_numbers(robot.links[column].joint, inertia, step=1e-3)
    assert numbers == {
        "dry_friction": 0.1, "dry_stiffness": pytest.approx(1e4 * inertia), "dry_damping": pytest.approx(100 * inertia)
    }  # fmt: skip
    for key, value in numbers.items():
        assert float(scene.parameters[f"arm_column.{key}"].value) == value
    assert float(scene.parameters["gripper_right.dry_friction"].value) == 0.1
    assert "arm_upper.dry_friction" not in scene.parameters


def test_joint_friction_holds_a_robot():
    """The column of the arm stays under a motor force below its friction, and turns under a larger one, without gravity."""
    scene = Scene(frame_dt=0.1, frames=6, substeps=100, gravity=0.0)
    with pytest.warns(UserWarning):
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True)
    force = torch.full((6, 1), 0.03 / float(scene.parameters["arm_column.motor.gain"].value))
    with torch.no_grad():
        turned = {f: scene.rollout({"arm_column.motor.actions": f * force}).joint_q[0, :, 0] for f in (1.0, 10.0)}
    assert abs(turned[1.0][-1]) < 1e-3 and turned[10.0][-1] > 0.03


def test_inertias_of_free_joints_are_mujocos():
    robot = read_robot(ROBOTS / "arm.urdf")
    model, data = arm_of_mujoco()
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    found = {link.name: inertia for link, inertia in zip(robot.links, inertias_of_free_joints(robot.links), strict=True)}
    np.testing.assert_allclose([found[name] for name in ARM_JOINTS], 1 / np.diag(np.linalg.inv(mass)), rtol=1e-9)
    assert found["base"] == 0.0


@pytest.mark.parametrize(
    ("options", "integrator", "words"),
    [
        ({"dry_friction": False}, "semi_implicit", "joint friction is not used [(]"),
        ({}, "rk4", "joint friction is not used with the integrator 'rk4'"),
    ],
)
def test_joint_friction_may_be_left_out(options, integrator, words):
    scene = Scene(frame_dt=0.1, frames=1, substeps=100, integrator=integrator)
    with pytest.warns(UserWarning, match=words):
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True, **options)
    assert "arm_column.dry_friction" not in scene.parameters


def test_springs_of_limits():
    arm = read_robot(ROBOTS / "arm.urdf")
    for link, moved in zip(arm.links, subtree_inertias(arm.links), strict=True):
        joint = link.joint
        if not math.isfinite(joint.limit_high):
            continue
        stiffness = limit_stiffness(joint, moved, step=1e-4)
        assert stiffness * 0.05 * (joint.limit_high - joint.limit_low) >= joint.motor_limit * (1 - 1e-12)
        assert limit_stiffness(joint, moved, step=1e-2) < stiffness
    scene = Scene(frame_dt=0.01, frames=30, substeps=20, gravity=(0.0, 0.0, 0.0))
    with pytest.warns(UserWarning):
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True)
    with torch.no_grad():
        given = {f"arm_{link}.motor.actions": torch.full((30, 1), 99.0) for link in ("wrist", "left_finger")}
        end = scene.rollout(given | {"arm_wrist.damping": torch.tensor(0.5)}).joint_q[0, -1]
    # With the spring's soft beginning, 1 % of the range, a little more than 5 %.
    assert 0.05 * 6.0 < end[3] - 3.0 < 0.06 * 6.0 and 0.05 * 0.04 < end[4] - 0.04 < 0.06 * 0.04


def test_robots_are_filmed():
    pictures = {}
    for file in ("arm.urdf", "gripper.xml"):
        scene = scene_with(file)
        scene.add_camera(
            Camera.look_at(
                eye=(1.5, -1.5, 1.2), target=(0.2, 0.0, 0.3), vertical_fov=45.0, width=48, height=48, near=0.5, far=5.0
            )
        )
        scene.add_light(DirectionalLight(direction=(-1.0, 1.0, -1.5), intensity=1.0))
        with torch.no_grad():
            pictures[file] = scene.render(scene.rollout(), alpha=True)[0, 0].cpu().numpy()
        unseen = [body.name for body in scene.bodies if body.surface is None]
        assert f"{unseen[0]}.color" not in scene.parameters and unseen[0] in scene.description()["bodies"]
        mesh = scene.view.render_inputs(scene.table.values(), scene.start_poses(scene.table.values())[:, None]).mesh
        assert set(np.unique(mesh.vertex_body)) == {k for k, body in enumerate(scene.bodies) if body.name not in unseen}
    cover = pictures["arm.urdf"][..., 3]
    assert 0.02 < cover.mean() < 0.6 and pictures["gripper.xml"][..., 3].mean() > 0.02
    red, _green, blue = pictures["arm.urdf"][cover > 0.9][:, :3].T
    assert (red > 2.0 * blue).any()  # orange


def test_several_shapes_make_one_surface(tmp_path):
    box = '<visual><origin xyz="{x} 0 0"/><geometry><box size="0.1 0.1 0.1"/></geometry>{color}</visual>'
    color = '<material name="m"><color rgba="1 0 0 1"/></material>'
    inertial = '<inertial><origin xyz="0 0 0.2"/><mass value="1"/>' + (
        '<inertia ixx="1e-2" ixy="0" ixz="0" iyy="1e-2" iyz="0" izz="0"/></inertial>'
    )
    visuals = box.format(x=0.5, color=color) + box.format(x=-0.5, color="")
    flat = '<link name="b 1"/><link name="b/1"/>' + "".join(
        f'<joint name="{n}" type="fixed"><parent link="a"/><child link="{n}"/></joint>' for n in ("b 1", "b/1")
    )
    (tmp_path / "r.urdf").write_text(f'<robot name="2 boxes"><link name="a">{inertial}{visuals}</link>{flat}</robot>')
    scene = Scene(frame_dt=0.01, frames=1, substeps=1)
    robot = scene.add_robot(tmp_path / "r.urdf")
    assert robot.unsupported == () and [body.name for body in scene.bodies] == ["_2_boxes_a", "_2_boxes_b_1", "_2_boxes_b_1_2"]
    mesh = scene.bodies[0].mesh
    assert mesh.vertices[:, 2].max() == pytest.approx(0.05 - 0.2) and np.abs(mesh.vertices[:, 0]).max() == pytest.approx(0.55)
    colors = scene.bodies[0].surface.albedo(scene.table.values())[0, :, 0].cpu().numpy()
    assert colors.shape == (24, 3) and colors[0].tolist() == [1.0, 0.0, 0.0] and colors[-1].tolist() == [0.6, 0.6, 0.6]
    scene.set("_2_boxes_a.inertia", np.diag([2e-2, 2e-2, 0.0]))  # a thin rod
    with pytest.raises(UserError, match="none may be below zero"):
        scene.set("_2_boxes_a.inertia", np.diag([2e-2, 2e-2, -1e-2]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "a.b"}, "a body is called 'a.b'"),
        ({"contact": GROUND}, "call add_ground first"),
        ({"position": (0.0, math.nan, 0.0)}, "position is .*: give finite numbers"),
        ({"orientation": (0.0, 0.0, 0.0, 0.0)}, "a quaternion"),
    ],
    ids=str,
)
def test_wrong_robots(options, words):
    with pytest.raises(UserError, match=words):
        Scene(frame_dt=0.01, frames=1, substeps=1).add_robot(ROBOTS / "arm.urdf", free_mimic=True, **options)


def test_a_wrong_file_ends_a_command(tmp_path, capsys):
    (tmp_path / "robot.urdf").write_text("<robot name='r'><link name='a'/><link name='b'/></robot>")
    scene = tmp_path / "scene.py"
    scene.write_text(
        "from pathlib import Path\nfrom risp_torch import Scene\n\n\ndef make_scene() -> Scene:\n"
        "    scene = Scene(frame_dt=0.01, frames=1, substeps=1)\n"
        "    scene.add_robot(Path(__file__).with_name('robot.urdf'))\n    return scene\n"
    )
    assert main(["simulate", str(scene), "--precision", "f64", "--out", str(tmp_path / "run")]) == 2
    assert "have no parent" in capsys.readouterr().err


PENDULUM = (
    "<link name='{name}'><inertial><origin xyz='0 0 -{length}'/><mass value='{mass}'/>"
    "<inertia ixx='1e-3' ixy='0' ixz='0' iyy='1e-3' iyz='0' izz='1e-3'/></inertial></link>"
    "<joint name='{name}_hinge' type='continuous'><parent link='base'/><child link='{name}'/><axis xyz='0 1 0'/>{mimic}</joint>"
)


def coupled_pendulums(folder: Path, *, mimics: tuple[str, ...] = ("", "a_hinge' multiplier='-1.5' offset='0.4")) -> Path:
    """Pendulums on one base, coupled to each other; by default two, the second to the first."""
    tags = [f"<mimic joint='{mimic}'/>" if mimic else "" for mimic in mimics]
    numbers = (("a", 0.3, 2.0), ("b", 0.2, 1.5), ("c", 0.1, 1.0))
    pendulums = [
        PENDULUM.format(name=name, length=length, mass=mass, mimic=tag)
        for (name, length, mass), tag in zip(numbers, tags, strict=False)
    ]
    path = folder / "pair.urdf"
    path.write_text(f"<robot name='pair'><link name='base'/>{''.join(pendulums)}</robot>")
    return path


def test_coupled_pendulums_move_as_their_reduced_equation(tmp_path: Path) -> None:
    scene = Scene(frame_dt=0.05, frames=20, substeps=50, integrator="rk4")
    scene.add_robot(coupled_pendulums(tmp_path))
    assert "pair_b.angle" not in scene.parameters and "pair_b.rate" not in scene.parameters
    angle, rate, multiplier, offset = 0.7, -1.2, -1.5, 0.4
    inertia = (1e-3 + 2.0 * 0.3**2) + multiplier**2 * (1e-3 + 1.5 * 0.2**2)

    def rates(_time: float, state: np.ndarray) -> list[float]:
        pulled = 2.0 * 0.3 * math.sin(state[0]) + multiplier * 1.5 * 0.2 * math.sin(multiplier * state[0] + offset)
        return [state[1], -9.81 * pulled / inertia]

    times = np.linspace(0.0, 1.0, 21)
    right = solve_ivp(rates, (0.0, 1.0), [angle, rate], t_eval=times, rtol=1e-11, atol=1e-11).y[0]
    with torch.no_grad():
        start = torch.tensor([angle, rate], dtype=torch.float64)
        states = scene.rollout({"pair_a.angle": start[0], "pair_a.rate": start[1]})
    q = states.joint_q[0].cpu().numpy()  # the base has no coordinate
    assert np.ptp(right) > 1.0
    np.testing.assert_allclose(q[:, 0], right, atol=1e-9)
    np.testing.assert_allclose(q[:, 1], multiplier * right + offset, atol=2e-9)
    with torch.no_grad():
        scene.rollout(state=states.last, frames=1)
        words = "state.joint_q has the joint of 'pair_b' at .*its coupling to that of 'pair_a' puts it at"
        with pytest.raises(UserError, match=words):
            scene.step(states.last.replace(joint_q=states.last.joint_q + 0.1))


def test_coupled_fingers_move_about_as_with_the_soft_equality_of_mujoco() -> None:
    spec = mujoco.MjSpec.from_file(str(ROBOTS / "arm.urdf"))
    spec.meshdir = "meshes"
    coupling = spec.add_equality()
    coupling.type, coupling.objtype = mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtObj.mjOBJ_JOINT
    coupling.name1, coupling.name2, coupling.data[:2] = "slide_too", "slide", (0.0, 1.0)
    coupling.solref[:], coupling.solimp[:3] = (4e-4, 1.0), (0.9999, 0.9999, 1e-3)
    model = spec.compile()
    model.opt.timestep, model.opt.integrator, model.dof_frictionloss[:] = 1e-4, mujoco.mjtIntegrator.mjINT_RK4, 0.0
    data = mujoco.MjData(model)
    data.qpos[:4], data.qpos[4:] = (0.2, 0.3, -0.4, 0.1), 0.02
    data.qvel[:] = (0.5, -1.0, 0.8, 0.4, 0.05, 0.05)
    given = {}
    for k, link in enumerate(ARM_JOINTS[:5]):
        given[f"arm_{link}.{'slide' if 'finger' in link else 'angle'}"] = torch.tensor(data.qpos[k])
        given[f"arm_{link}.rate"] = torch.tensor(data.qvel[k])
    scene = Scene(frame_dt=1e-3, frames=40, substeps=5, integrator="rk4")
    with pytest.warns(UserWarning, match="is not imported completely"):
        scene.add_robot(ROBOTS / "arm.urdf", dry_friction=False)
    with torch.no_grad():
        q = scene.rollout(given).joint_q[0].cpu().numpy()
    for _ in range(400):
        mujoco.mj_step(model, data)
    assert np.abs(q[-1] - q[0])[4:].min() > 1e-3
    np.testing.assert_allclose(q[:, 5], q[:, 4], atol=1e-12)
    np.testing.assert_allclose(q[-1], data.qpos, atol=1e-5)


def test_gradients_of_a_scene_with_coupled_joints(tmp_path: Path) -> None:
    scene = Scene(frame_dt=0.02, frames=4, substeps=5)
    scene.add_robot(coupled_pendulums(tmp_path))
    names = ("pair_a.angle", "pair_a.rate", "pair_b.mass", "pair_b.damping", "pair_a.center")
    weights = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    point = {name: np.asarray(scene.table[name].value, dtype=np.float64) + 0.3 for name in names}

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        states = scene.rollout(values)
        return (states.joint_q[0].cpu() * weights).sum() + (states.joint_qd[0].cpu() * weights).sum()

    report = check_torch(loss, point)
    report.raise_if_wrong()
    assert {entry.name for entry in report.entries if entry.status == "ok"} == set(names)


@pytest.mark.parametrize(
    ("mimics", "words"),
    [
        (("b_hinge", "a_hinge"), "joint 'a_hinge' follows itself by <mimic>"),
        (("", "c_hinge"), "unknown joint 'c_hinge'"),
        (("", "a_hinge' multiplier='nan"), "multiplier"),
        (("", "a_hinge' multiplier='x"), "multiplier"),
    ],
    ids=str,
)
def test_wrong_couplings(tmp_path: Path, mimics: tuple[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_robot(coupled_pendulums(tmp_path, mimics=mimics))


def test_couplings_are_those_to_the_joint_that_moves_freely(tmp_path: Path) -> None:
    assert read_robot(ROBOTS / "arm.urdf").mimics == (RobotMimic("slide_too", "slide", 1.0, 0.0),)
    mimics = ("", "a_hinge' multiplier='2' offset='0.125", "b_hinge' multiplier='3' offset='0.25")
    first, second = read_robot(coupled_pendulums(tmp_path, mimics=mimics)).mimics
    assert (first, second) == (RobotMimic("b_hinge", "a_hinge", 2.0, 0.125), RobotMimic("c_hinge", "a_hinge", 6.0, 0.625))


_GRIPPER = """<mujoco><compiler angle="radian"/><worldbody>
    <body name="palm"><joint name="drive" type="hinge" axis="0 1 0" ref="0.2"/><geom size="0.1"/>
    <body name="left" pos="0.3 0 0"><joint name="left" type="slide" axis="1 0 0" ref="0.1"/><geom size="0.1"/>
    <body name="tip" pos="0.3 0 0"><joint name="tip" type="hinge" axis="0 0 1"/><geom size="0.1"/></body></body></body>
    </worldbody><equality>{}</equality></mujoco>"""


def test_linear_equalities_of_mjcf_couple_joints(tmp_path: Path) -> None:
    """A coordinate less its reference is the polynomial of the other's; MuJoCo's constraint vanishes at our coordinates."""
    path = tmp_path / "gripper.xml"
    path.write_text(_GRIPPER.format(
        '<joint joint1="tip" joint2="left" polycoef="0.05 3 0 0 0"/>'
        '<joint joint1="left" joint2="drive" polycoef="0 -0.5 0 0 0"/>'
    ))  # fmt: skip
    robot = read_robot(path)
    assert not robot.unsupported
    tip, left = robot.mimics
    assert (left.joint, left.leader, left.multiplier) == ("left", "drive", -0.5) and (tip.joint, tip.leader) == ("tip", "drive")
    np.testing.assert_allclose((left.offset, tip.multiplier, tip.offset), (0.2, -1.5, 0.35), atol=1e-15)
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:] = 0.7, -0.5 * 0.7 + left.offset, tip.multiplier * 0.7 + tip.offset
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.efc_pos[:2], 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("equality", "words"),
    [
        ('<joint joint1="tip" joint2="left" polycoef="0 1 2 0 0"/>', "only linear couplings of two hinges or sliders"),
        ('<joint joint1="tip"/>', "only linear couplings of two hinges or sliders"),
        ('<joint joint1="tip" joint2="left" active="false"/>', "couplings that are not active at the start are not used"),
        ('<joint joint1="tip" joint2="left" solref="0.1 1"/>', "solref is not used"),
        ('<connect body1="tip" anchor="0 0 0"/>', "loops stay open: <connect>"),
        (
            '<joint joint1="tip" joint2="left"/></equality><actuator><motor joint="tip"/></actuator><equality>',
            "motors of coupled joints are not used: drive the joint that they follow (joint 'tip')",
        ),
    ],
)  # fmt: skip
def test_other_equalities_are_named(tmp_path: Path, equality: str, words: str) -> None:
    path = tmp_path / "gripper.xml"
    path.write_text(_GRIPPER.format(equality))
    (sentence,) = read_robot(path).unsupported
    assert words in sentence


def test_a_joint_that_is_coupled_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "gripper.xml"
    path.write_text(_GRIPPER.format('<joint joint1="tip" joint2="left"/><joint joint1="tip" joint2="drive"/>'))
    with pytest.raises(UserError, match="<equality> couples joint 'tip' twice"):
        read_robot(path)


def test_freed_joints_are_named() -> None:
    scene = Scene(frame_dt=0.01, frames=1, substeps=1)
    with pytest.warns(UserWarning, match="<mimic> is not used: the joint moves freely .joint 'slide_too'"):
        scene.add_robot(ROBOTS / "arm.urdf", free_mimic=True)
    assert "arm_right_finger.slide" in scene.parameters
