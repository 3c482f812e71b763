"""Robot files: values of hand-written URDF and MJCF files, MuJoCo's reading of the same files, and every error."""

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from risp_torch.files.film.curves import srgb_to_linear
from risp_torch.scene.robot_files.check import start_poses
from risp_torch.scene.robot_files.description import RobotDescription, RobotLink
from risp_torch.scene.robot_files.read import read_robot
from tests.reference.folders import ROBOTS
from ti_sim.base.errors import UserError

pytest.importorskip("yourdfpy")
mujoco = pytest.importorskip("mujoco")

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def by_name(robot: RobotDescription) -> dict[str, RobotLink]:
    return {link.name: link for link in robot.links}


def moved(robot: RobotDescription, starts: dict[str, tuple[float, ...]]) -> list[tuple[np.ndarray, Rotation]]:
    """Poses of the link frames with the coordinates of some joints, by name."""
    links = [
        dataclasses.replace(link, joint=dataclasses.replace(link.joint, start=starts.get(link.joint.name, link.joint.start)))
        for link in robot.links
    ]
    return start_poses(links)


@pytest.fixture(scope="module")
def arm() -> RobotDescription:
    return read_robot(ROBOTS / "arm.urdf")


@pytest.fixture(scope="module")
def gripper() -> RobotDescription:
    return read_robot(ROBOTS / "gripper.xml")


def written(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def urdf(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


def link(name: str, inside: str = "", *, mass: float = 1.0, inertia: float = 0.1) -> str:
    return (
        f'<link name="{name}"><inertial><mass value="{mass}"/><inertia ixx="{inertia}" ixy="0" ixz="0" iyy="{inertia}" iyz="0" '
        f'izz="{inertia}"/></inertial>{inside}</link>'
    )


def joint(name: str, parent: str, child: str, inside: str = "", kind: str = "continuous") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


# --- URDF: values -----------------------------------------------------------------------------------------------------------


def test_arm_is_a_tree_with_parents_first(arm):
    assert arm.name == "arm" and arm.gravity is None
    names = ["base", "column", "upper", "forearm", "wrist", "mount", "left_finger", "right_finger"]
    assert [one.name for one in arm.links] == names
    assert [one.parent for one in arm.links] == [-1, 0, 1, 2, 3, 4, 5, 5]
    kinds = ["fixed", "revolute", "revolute", "revolute", "revolute", "fixed", "prismatic", "prismatic"]
    assert [one.joint.type for one in arm.links] == kinds


def test_arm_joints_by_hand(arm):
    links = by_name(arm)
    turn, shoulder, slide = (links[name].joint for name in ("column", "upper", "left_finger"))
    assert (turn.limit_low, turn.limit_high, turn.motor_limit, turn.damping) == (-math.inf, math.inf, 50.0, 0.5)
    assert (turn.dry_friction, slide.dry_friction) == (0.1, 0.0)
    np.testing.assert_allclose(turn.quaternion, (0, 0, math.sin(0.1), math.cos(0.1)), **TIGHT)
    assert (shoulder.limit_low, shoulder.limit_high, shoulder.motor_gain, shoulder.motor_limit) == (-1.5, 2.0, 1.0, 40.0)
    np.testing.assert_allclose(shoulder.axis, (0, 1, 0), **TIGHT)
    np.testing.assert_allclose(shoulder.position, (0.05, 0.02, 0.2), **TIGHT)
    # Roll about x, then pitch about y, then yaw about z, all fixed axes.
    about = Rotation.from_rotvec
    expected = about((0, 0, -0.4)) * about((0, 0.1, 0)) * about((math.pi / 2, 0, 0))
    assert (Rotation.from_quat(shoulder.quaternion) * expected.inv()).magnitude() < 1e-14
    np.testing.assert_allclose(links["forearm"].joint.axis, np.array((0, 1, 0.5)) / math.sqrt(1.25), **TIGHT)
    assert (slide.limit_low, slide.limit_high, slide.damping, slide.start) == (0.0, 0.04, 2.0, (0.0,))


def test_arm_inertia_in_turned_axes_by_hand(arm):
    forearm = by_name(arm)["forearm"]
    assert forearm.mass == 1.1
    np.testing.assert_allclose(forearm.com, (0.1, 0.01, 0), **TIGHT)
    c, s = math.cos(0.4), math.sin(0.4)
    turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    own = np.array([[0.001, 0, 0.0001], [0, 0.006, 0], [0.0001, 0, 0.0062]])
    np.testing.assert_allclose(forearm.inertia, turn @ own @ turn.T, **TIGHT)
    mount = by_name(arm)["mount"]
    assert mount.mass == 0.0 and not mount.inertia.any()


def test_arm_shapes_by_hand(arm):
    links = by_name(arm)
    (cylinder,), (post,) = links["base"].visuals, links["column"].visuals
    assert (cylinder.kind, cylinder.size) == ("cylinder", (0.1, 0.08))
    np.testing.assert_allclose(cylinder.color, srgb_to_linear(np.array((0.9, 0.5, 0.1))), **TIGHT)
    assert (post.name, post.kind, post.size) == ("post", "box", (0.06, 0.08, 0.2))
    np.testing.assert_allclose(post.position, (0, 0, 0.1), **TIGHT)
    assert links["upper"].visuals[0].size == (0.05,) and links["upper"].visuals[0].color is None
    (wedge,) = links["forearm"].visuals
    assert wedge.kind == "mesh" and wedge.color == cylinder.color  # a material of the robot, by its name
    np.testing.assert_allclose(np.ptp(wedge.mesh.vertices, axis=0), (0.2, 0.1, 0.1), **TIGHT)
    a, b, c = (wedge.mesh.vertices[wedge.mesh.faces[:, k]] for k in range(3))
    # Mirrored by the scale, and still looking outwards: half of a box's volume.
    np.testing.assert_allclose(np.einsum("fi,fi->", a, np.cross(b, c)) / 6, 0.5 * 0.2 * 0.1 * 0.1, **TIGHT)


def test_arm_tells_what_it_leaves_out(arm):
    told = "\n".join(arm.unsupported)
    for sentence in (
        "<transmission> is not used (transmission 'turn_drive')",
        "transparency is not used (link 'column')",
        "velocity limits of joints are not used (joint 'turn', joint 'shoulder'",
    ):
        assert sentence in told
    assert len(arm.unsupported) == 3


@pytest.mark.parametrize("name", ["arm", "quadruped"])
def test_urdf_agrees_with_mujoco(name):
    robot = read_robot(ROBOTS / f"{name}.urdf")
    spec = mujoco.MjSpec.from_file(str(ROBOTS / f"{name}.urdf"))
    spec.compiler.fusestatic = False
    spec.meshdir = "meshes"
    model = spec.compile()
    data = mujoco.MjData(model)
    random = np.random.default_rng(3)
    data.qpos[:] = random.uniform(-1.0, 1.0, model.nq)
    mujoco.mj_kinematics(model, data)
    starts = {model.joint(k).name: (data.qpos[model.jnt_qposadr[k]],) for k in range(model.njnt)}
    poses = moved(robot, starts)
    assert model.njnt == sum(one.joint.moves for one in robot.links) and len(starts) == model.njnt
    for one, (position, turn) in zip(robot.links[1:], poses[1:], strict=True):  # MuJoCo makes the root link the world
        body = model.body(one.name).id
        assert one.mass == model.body_mass[body]
        if one.mass:
            np.testing.assert_allclose(one.com, model.body_ipos[body], **TIGHT)
        axes = Rotation.from_quat(np.roll(model.body_iquat[body], -1)).as_matrix()
        np.testing.assert_allclose(one.inertia, axes @ np.diag(model.body_inertia[body]) @ axes.T, **TIGHT)
        np.testing.assert_allclose(one.joint.position, model.body_pos[body], **TIGHT)
        difference = Rotation.from_quat(one.joint.quaternion).inv() * Rotation.from_quat(np.roll(model.body_quat[body], -1))
        assert difference.magnitude() < 1e-12
        np.testing.assert_allclose(position, data.xpos[body], **TIGHT)
        np.testing.assert_allclose(turn.as_matrix().ravel(), data.xmat[body], **TIGHT)
        if one.joint.moves:
            number = model.joint(one.joint.name).id
            np.testing.assert_allclose(one.joint.axis, model.jnt_axis[number], **TIGHT)
            assert one.joint.damping == model.dof_damping[model.jnt_dofadr[number]]
            if model.jnt_limited[number]:
                np.testing.assert_allclose((one.joint.limit_low, one.joint.limit_high), model.jnt_range[number], **TIGHT)


def test_free_base_hangs_the_root_on_a_free_joint():
    robot = read_robot(ROBOTS / "quadruped.urdf", free_base=True)
    assert (robot.links[0].joint.type, robot.links[0].joint.start) == ("free", (0, 0, 0, 0, 0, 0, 1))
    assert [one.parent for one in robot.links].count(0) == 4
    with pytest.raises(UserError, match="free_base needs one root link that is fixed to the world, but the roots are 'world'"):
        read_robot(ROBOTS / "gripper.xml", free_base=True)


def test_floating_joint_hangs_on_the_world_in_its_place(tmp_path):
    quarter = f"0 0 {math.pi / 2}"
    text = urdf(
        '<link name="world"/>', link("stand"), link("drone"),
        joint("weld", "world", "stand", f'<origin xyz="1 2 3" rpy="{quarter}"/>', "fixed"),
        joint("fly", "stand", "drone", f'<origin xyz="0.5 0 0" rpy="{quarter}"/>', "floating"),
    )  # fmt: skip
    drone = by_name(read_robot(written(tmp_path, text)))["drone"]
    assert drone.parent == -1 and drone.joint.type == "free" and not drone.joint.position.any()
    np.testing.assert_allclose(drone.joint.start, (1, 2.5, 3, 0, 0, 1, 0), **TIGHT)


def test_planar_joint_is_held_and_told(tmp_path):
    robot = read_robot(written(tmp_path, urdf(link("a"), link("b"), joint("p", "a", "b", kind="planar"))))
    assert robot.links[1].joint.type == "fixed"
    assert robot.unsupported == ("planar joints are not supported: the link is held fixed (joint 'p')",)


def test_urdf_tells_every_unknown_thing(tmp_path):
    shape = "<visual><geometry><capsule radius='1' length='1'/></geometry></visual>"
    text = urdf(
        link("a", shape + "<sensor/>"), link("b", "<inertial/>".replace("inertial", "verbose") + "<collision_checking/>"),
        joint("j", "a", "b", '<axis xyz="0 0 1" frame="b"/><calibration rising="0"/><safety_controller k_velocity="1"/>'),
        "<gazebo/>", '<ros2_control name="c"/>',
        '<material name="wood"><texture filename="wood.png"/></material>',
    )  # fmt: skip
    told = read_robot(written(tmp_path, text)).unsupported
    for sentence in (
        "<capsule> geometry is not used (link 'a')",
        "<sensor> is not used (link 'a')",
        "<verbose> is not used (link 'b')",
        "<collision_checking> is not used (link 'b')",
        "frame of <axis> is not used (joint 'j')",
        "<calibration> is not used (joint 'j')",
        "<safety_controller> is not used (joint 'j')",
        "<gazebo> is not used (robot 'r')",
        "<ros2_control> is not used (ros2_control 'c')",
        "textures of materials are not used (material 'wood')",
    ):
        assert sentence in told
    assert len(told) == 10


def test_rod_is_a_body_and_a_wrong_inertia_is_told(tmp_path):
    rod = link("b").replace('izz="0.1"', 'izz="0"')
    text = urdf(link("a").replace('izz="0.1"', 'izz="0.3"'), rod, joint("j", "a", "b"))
    robot = read_robot(written(tmp_path, text))
    np.testing.assert_array_equal(robot.links[1].inertia, np.diag((0.1, 0.1, 0.0)))
    told = "an inertia that is not physical, with one principal moment above the sum of the others, is used as it is (link 'a')"
    assert robot.unsupported == (told,)


def test_massless_link_may_carry_others(tmp_path):
    text = urdf(
        link("a"), '<link name="b"/>', link("c"), joint("j", "a", "b"), joint("k", "b", "c", '<axis xyz="0 1 0"/>')
    )  # fmt: skip
    assert [one.mass for one in read_robot(written(tmp_path, text)).links] == [1.0, 0.0, 1.0]


# --- MJCF: values -----------------------------------------------------------------------------------------------------------


def test_gripper_links(gripper):
    assert gripper.name == "gripper" and gripper.gravity == (0.0, 0.0, -3.7)
    names = ["world", "cart/rail", "cart/yaw", "cart", "left", "right", "ball"]
    assert [one.name for one in gripper.links] == names
    assert [one.parent for one in gripper.links] == [-1, -1, 1, 2, 3, 3, -1]
    kinds = ["fixed", "prismatic", "revolute", "revolute", "spherical", "revolute", "free"]
    assert [one.joint.type for one in gripper.links] == kinds
    assert [one.mass for one in gripper.links[1:4]] == [0.0, 0.0, 1.5]


def test_gripper_joints_by_hand(gripper):
    links = by_name(gripper)
    rail, yaw, right = (links[name].joint for name in ("cart/rail", "cart/yaw", "right"))
    assert (rail.limit_low, rail.limit_high, rail.start, rail.armature, rail.damping) == (-0.5, 0.5, (0.05,), 0.01, 0.2)
    np.testing.assert_allclose((yaw.limit_low, yaw.limit_high), (-math.pi / 2, math.pi / 2), **TIGHT)
    np.testing.assert_allclose((yaw.stiffness, yaw.rest, *yaw.start), (3, math.radians(15), math.radians(20)), **TIGHT)
    assert (rail.motor_gain, rail.motor_limit) == (5.0, 5.0)
    assert (yaw.motor_gain, yaw.motor_limit, yaw.servo_stiffness, yaw.servo_damping) == (0.0, 8.0, 20.0, 1.5)
    assert (right.dry_friction, rail.dry_friction) == (0.1, 0.0)
    assert (right.motor_gain, right.motor_limit) == (1.0, 4.0)  # the joint's own limit is the narrower one
    pitch = links["cart"].joint
    assert (pitch.motor_gain, pitch.servo_stiffness, pitch.servo_damping) == (6.0, 0.0, 18.0)
    assert (links["left"].joint.stiffness, links["left"].joint.start) == (0.4, (0, 0, 0, 1))
    np.testing.assert_allclose(links["ball"].joint.start, (0.3, 0.1, 0.2, 0, 0.8, 0, 0.6), **TIGHT)


def test_gripper_shapes(gripper):
    links = by_name(gripper)
    (pedestal,) = links["world"].visuals
    assert (pedestal.kind, pedestal.size, links["world"].collisions) == ("box", (0.2, 0.4, 0.6), ())
    (pad,) = links["left"].visuals
    assert (pad.kind, pad.size) == ("capsule", (0.01, 0.06)) and links["left"].collisions == links["left"].visuals
    assert links["right"].visuals == () and links["right"].collisions[0].name == "right_pad"
    np.testing.assert_allclose(pad.color, srgb_to_linear(np.array((0.2, 0.4, 0.6))), atol=1e-7)
    (wedge,) = links["cart"].visuals
    np.testing.assert_allclose(wedge.color, srgb_to_linear(np.array((0.8, 0.1, 0.1))), atol=1e-7)
    # The file's corner (0, 0, 0) of the mesh is the body's origin, which is not the link's.
    corners = wedge.position + Rotation.from_quat(wedge.quaternion).apply(wedge.mesh.vertices)
    np.testing.assert_allclose(corners.min(axis=0), (0, -0.03, -0.01), atol=1e-7)
    np.testing.assert_allclose(corners.max(axis=0), (0.05, 0.02, 0.04), atol=1e-7)


def test_gripper_tells_what_it_leaves_out(gripper):
    assert set(gripper.unsupported) == {
        "timestep of <option> is not used (<mujoco>)",
        "friction of <geom> is not used (default 'finger')",
        "<light> is not used (<worldbody>)",
        "<site> is not used (site 'tip')",
        "equality constraints are not used, loops stay open: <connect> (connect 'loop')",
        "lengthrange of <general> is not used (general 'odd')",
        "only motors and position and velocity servos of one hinge or slider are supported (actuator 'odd')",
        "geoms of type plane are not supported (geom 'floor' of body 'world')",
        "limits of spherical joints are not used (joint 'left_ball')",
    }


def test_mjcf_tells_what_it_changes(tmp_path):
    text = """<mujoco><compiler angle="radian"/><worldbody>
    <body name="a"><freejoint name="f"/><geom name="g" size="1" contype="2" rgba="1 0 0 0.5"/>
      <body name="b" gravcomp="1"><joint name="j" stiffness="1 2" actuatorfrcrange="-1 2" margin="0.1"/><geom size="1"/></body>
      <body name="c"><joint name="k" type="ball"/><geom size="1"/></body></body>
    <body name="m" mocap="true" pos="1 2 3"><geom size="1"/></body></worldbody>
    <actuator><position name="p" joint="j" kp="3" gear="2" ctrlrange="-1 1" damping="1" armature="2"/>
    <motor name="q" joint="j"/><motor name="r" joint="k"/><motor name="s" joint="f" gear="1 0 0 0 0 0"/></actuator></mujoco>"""
    robot = read_robot(written(tmp_path, text, "robot.xml"))
    links = by_name(robot)
    assert links["m"].joint.type == "fixed" and links["m"].parent == -1
    np.testing.assert_allclose(links["m"].joint.position, (1, 2, 3), **TIGHT)
    hinge = links["b"].joint
    assert (hinge.stiffness, hinge.motor_limit, hinge.servo_stiffness, hinge.armature, hinge.damping) == (1, 2, 12, 0, 0)
    assert set(robot.unsupported) == {
        "gravcomp of <body> is not used (body 'b')",
        "margin of <joint> is not used (joint 'j')",
        "damping of <general> is not used (general 'p')",
        "armature of <general> is not used (general 'p')",
        "mocap bodies are not supported: they are held fixed (body 'm')",
        "contact masks other than all or nothing are not used (geom 'g' of body 'a')",
        "transparency is not used (geom 'g' of body 'a')",
        "stiffness and damping are linear, their higher coefficients are not used (joint 'j')",
        "force limits are symmetric: the wider one is used (joint 'j')",
        "a servo with a gear takes its target in the joint's own unit, the control divided by the gear (actuator 'p')",
        "control ranges of servos are not used (actuator 'p')",
        "a second actuator of the same joint is not used (actuator 'q')",
        "only motors and position and velocity servos of one hinge or slider are supported (actuator 'r', actuator 's')",
    }


def test_gripper_moves_as_in_mujoco(gripper):
    model = mujoco.MjModel.from_xml_path(str(ROBOTS / "gripper.xml"))
    data = mujoco.MjData(model)
    random = np.random.default_rng(5)
    for _ in range(5):
        data.qpos[:] = random.normal(size=model.nq)
        starts = {}
        for k in range(model.njnt):
            at, kind = model.jnt_qposadr[k], model.jnt_type[k]
            if kind in (0, 1):  # a quaternion stands at the end, w first, in need of a unit length
                end = at + (7 if kind == 0 else 4)
                data.qpos[end - 4 : end] /= np.linalg.norm(data.qpos[end - 4 : end])
                starts[model.joint(k).name] = (*data.qpos[at : end - 4], *np.roll(data.qpos[end - 4 : end], -1))
            else:
                starts[model.joint(k).name] = (data.qpos[at],)
        mujoco.mj_kinematics(model, data)
        poses = dict(zip((one.name for one in gripper.links), moved(gripper, starts), strict=True))
        for name in ("cart", "left", "right", "ball"):
            (position, turn), one, body = poses[name], by_name(gripper)[name], model.body(name).id
            np.testing.assert_allclose(position + turn.apply(one.com), data.xipos[body], **TIGHT)
            np.testing.assert_allclose(turn.as_matrix().ravel(), data.xmat[body], **TIGHT)
            axes = data.ximat[body].reshape(3, 3)
            inertia = turn.as_matrix() @ one.inertia @ turn.as_matrix().T
            np.testing.assert_allclose(inertia, axes @ np.diag(model.body_inertia[body]) @ axes.T, **TIGHT)
            (shape,) = one.visuals or one.collisions
            geom = model.body_geomadr[body]
            np.testing.assert_allclose(position + turn.apply(shape.position), data.geom_xpos[geom], **TIGHT)
            axes = (turn * Rotation.from_quat(shape.quaternion)).as_matrix()
            np.testing.assert_allclose(axes.ravel(), data.geom_xmat[geom], **TIGHT)


def test_gripper_forces_are_mujocos(gripper):
    spec = mujoco.MjSpec.from_file(str(ROBOTS / "gripper.xml"))
    spec.delete(spec.actuator("odd"))
    model = spec.compile()
    data = mujoco.MjData(model)
    random = np.random.default_rng(7)
    joints = {one.joint.name: one.joint for one in gripper.links}
    for scale in (0.1, 3.0):  # below the motors' limits, and beyond some
        data.qpos[:4] = random.normal(size=4) * scale
        data.qvel[:] = random.normal(size=model.nv) * scale
        data.ctrl[:] = random.normal(size=model.nu) * scale
        mujoco.mj_forward(model, data)
        for number, name in enumerate(("rail", "yaw", "pitch", "right_hinge")):
            k, one = model.joint(name).id, joints[name]
            at, v = model.jnt_qposadr[k], model.jnt_dofadr[k]
            x, rate = data.qpos[at], data.qvel[v]
            passive = -one.stiffness * (x - one.rest) - one.damping * rate
            np.testing.assert_allclose(passive, data.qfrc_passive[v], **TIGHT)
            force = one.motor_gain * data.ctrl[number] + one.servo_stiffness * (data.ctrl[number] - x) - one.servo_damping * rate
            force = np.clip(force, -one.motor_limit, one.motor_limit)
            np.testing.assert_allclose(force, data.qfrc_actuator[v], **TIGHT)


# --- errors -----------------------------------------------------------------------------------------------------------------

LIMITS = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot", "is not XML"),
        ("not xml", "is not XML"),
        ("<sdf/>", "begins with <sdf>: URDF begins with <robot>, MJCF with <mujoco>"),
        ('<!DOCTYPE robot [<!ENTITY x SYSTEM "/etc/hostname">]><robot name="&x;"/>', "is not XML (Attribute references external"),
        ('<!DOCTYPE robot [<!ENTITY x "r">]><robot name="&x;"/>', "declares a document type"),
        (
            '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="m"/></robot>',
            "is a xacro file, from which URDF is made",
        ),
        ("<robot/>", "<robot> of <robot> has no name: it needs one"),
        (urdf(), "the robot has no links"),
        (urdf(link("a"), link("b"), joint("j", "a", "b", kind="revolut")), "unknown joint type 'revolut': did you mean 'rev"),
        (urdf(link("a"), link("b"), joint("j", "a", "c")), "joint 'j': unknown link 'c'"),
        (urdf(link("a"), link("a")), "several links have the name 'a'"),
        (urdf(link("a"), link("b"), joint("j", "a", "b"), joint("j", "b", "a")), "several joints have the name 'j'"),
        (urdf(link("a"), link("b")), "links 'a', 'b' have no parent: there can be only one root link"),
        (
            urdf(link("a"), link("b"), link("c"), joint("j", "a", "c"), joint("k", "b", "c")),
            "link 'c' is the child of joints 'j' and 'k': a link has one joint",
        ),
        (
            urdf(link("a"), link("b"), link("c"), joint("j", "b", "c"), joint("k", "c", "b")),
            "the joints of links 'b', 'c' form a loop",
        ),
        (
            urdf(link("a"), link("b"), joint("j", "a", "b", LIMITS.replace('"1"', '"-2"', 1), "revolute")),
            "joint 'j' has the limits -1 and -2: the lower one must be below the upper one",
        ),
        (urdf(link("a"), link("b"), joint("j", "a", "b", kind="prismatic")), "is prismatic and has no lower and upper limit"),
        (
            urdf(link("a"), '<link name="b"/>', joint("j", "a", "b")),
            "link 'b' is attached to the moving joint 'j' and neither it nor a link below it has mass",
        ),
        (
            urdf(link("a"), link("b", mass=1.0, inertia=0.0), joint("j", "a", "b")),
            "link 'b' is attached to the moving joint 'j', but the links there have no inertia about the joint",
        ),
        (urdf(link("a", mass=-1.0)), "the mass of link 'a' is -1 kg"),
        (urdf(link("a", mass=0.0)), "the mass of link 'a' is 0 kg"),
        (urdf(link("a").replace('ixy="0"', 'ixy="5"')), "the inertia of link 'a' has the principal moments -4.9,"),
        (urdf('<link name="a"><inertial><mass value="1"/></inertial></link>'), "<inertial> of link 'a' has no inertia"),
        (urdf(link("a").replace("1.0", "one")), "value of <mass> of link 'a' is 'one': give 1 numbers"),
        (
            urdf(link("a"), link("b"), joint("j", "a", "b", '<origin xyz="0 0 nan"/>')),
            "xyz of <origin> of joint 'j' is '0 0 nan': give 3 finite numbers",
        ),
        (urdf(link("a"), link("b"), joint("j", "a", "b", '<axis xyz="0 0 0"/>')), "the axis of joint 'j' is (0, 0, 0)"),
        (
            urdf(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "b", "c", kind="floating")),
            "the floating joint 'k' is attached to link 'b', which moves",
        ),
        (urdf(link("a", "<visual><geometry/></visual>")), "<geometry> of link 'a' is empty"),
        (urdf(link("a", '<visual><geometry><sphere radius="0"/></geometry></visual>')), "the size of a sphere of link 'a' is 0"),
        (
            urdf(link("a", '<visual><geometry><mesh filename="package://own/no.stl"/></geometry></visual>')),
            "mesh file 'package://own/no.stl' of link 'a' does not exist",
        ),
        (
            urdf(link("a", '<visual><geometry><mesh filename="https://x.org/a.stl"/></geometry></visual>')),
            "mesh 'https://x.org/a.stl' of link 'a' is not a file",
        ),
    ],
)  # fmt: skip
def test_bad_urdf(tmp_path, text, message):
    with pytest.raises(UserError) as caught:
        read_robot(written(tmp_path, text))
    assert message in str(caught.value) and "robot.urdf" in str(caught.value)


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ('<joint type="planar"/><geom size="1"/>', "invalid keyword: 'planar'"),
        ('<joint name="j"/>', "mass and inertia of moving bodies"),
        ('<joint name="j"/><geom type="mesh" mesh="m"/>', "mesh 'm'"),
        ("<bolt/>", "unrecognized element"),
    ],
)
def test_bad_mjcf(tmp_path, inside, message):
    text = f'<mujoco><worldbody><body name="b">{inside}</body></worldbody></mujoco>'
    with pytest.raises(UserError, match="cannot be read as MJCF: MuJoCo reports") as caught:
        read_robot(written(tmp_path, text, "robot.xml"))
    assert message in str(caught.value)


def test_reversed_ranges_of_mjcf(tmp_path):
    body = '<worldbody><body><joint name="j" {}/><geom size="1"/></body></worldbody>'
    motor = '<actuator><motor name="m" joint="j" ctrlrange="1 -1"/></actuator>'
    for inside, message in (
        (body.format('range="1 -1"'), "the range of joint 'j' is 1 to -1: the lower end must be below the upper one"),
        (body.format('range="2 1" limited="true"'), "the range of joint 'j' is 2 to 1"),
        (body.format('range="1 1" limited="true"'), "cannot be read as MJCF: MuJoCo reports"),
        (body.format('actuatorfrcrange="3 -3"'), "the actfrcrange of joint 'j' is 3 to -3"),
        (body.format("") + motor, "the ctrlrange of actuator 'm' is 1 to -1"),
    ):
        with pytest.raises(UserError) as caught:
            read_robot(written(tmp_path, f'<mujoco><compiler angle="radian"/>{inside}</mujoco>', "robot.xml"))
        assert message in str(caught.value)


COLLADA = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="{unit}"/><up_axis>{up}</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="12">0 0 0 1 0 0 0 1 0 0 0 1</float_array><technique_common>
<accessor source="#a" count="4" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/><p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def test_collada_units(tmp_path):
    text = urdf(link("a", '<visual><geometry><mesh filename="t.dae" scale="2"/></geometry></visual>'))
    written(tmp_path, COLLADA.format(unit="0.01", up="Y_UP"), "t.dae")
    robot = read_robot(written(tmp_path, text))
    np.testing.assert_allclose(np.ptp(robot.links[0].visuals[0].mesh.vertices, axis=0), 0.02, rtol=1e-7)
    assert robot.unsupported == ("the upward axis Y_UP of a Collada file is not used (mesh file t.dae)",)
    written(tmp_path, COLLADA.format(unit="none", up="Z_UP"), "t.dae")
    with pytest.raises(UserError, match="mesh file .*t.dae cannot be read"):
        read_robot(tmp_path / "robot.urdf")


def test_missing_mesh_of_mjcf_is_named(tmp_path):
    text = '<mujoco><asset><mesh name="m" file="nowhere.stl"/></asset></mujoco>'
    with pytest.raises(UserError, match="robot.xml cannot be read as MJCF.*nowhere.stl"):
        read_robot(written(tmp_path, text, "robot.xml"))


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="robot file .*none.urdf does not exist"):
        read_robot(tmp_path / "none.urdf")


@pytest.mark.parametrize(("package", "file"), [("yourdfpy", "arm.urdf"), ("mujoco", "gripper.xml"), ("lxml.etree", "arm.urdf")])
def test_missing_package(monkeypatch, package, file):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"pip install 'risp-taichi\[robots\]'"):
        read_robot(ROBOTS / file)
