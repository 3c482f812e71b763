"""MJCF files, parsed and compiled by MuJoCo; read from the compiled model with resolved defaults and includes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from risp_torch.files.film.curves import srgb_to_linear
from risp_torch.scene.robot_files.description import (
    JointType,
    RobotDescription,
    RobotJoint,
    RobotLink,
    RobotMimic,
    RobotShape,
    ShapeKind,
)
from risp_torch.scene.robot_files.mimics import mimics_of_free_joints
from risp_torch.scene.robot_files.packages import required
from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.robot_files.xml_elements import ElementRule, check_element, parse_xml
from ti_sim.base.errors import UserError
from ti_sim.shapes.surface import TriangleMesh, ungrouped_mesh

_FREE, _BALL, _SLIDE, _HINGE = range(4)  # mjtJoint
_JOINT_TYPES: dict[int, JointType] = {_FREE: "free", _BALL: "spherical", _SLIDE: "prismatic", _HINGE: "revolute"}
_COORDINATES = {_FREE: 7, _BALL: 4, _SLIDE: 1, _HINGE: 1}
_UNSET_RGBA = (0.5, 0.5, 0.5, 1.0)  # of a geom without a colour
_HIDDEN_GROUP = 3  # geoms of this group and above are hidden by MuJoCo's convention: collision shapes
_IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])

# Elements and attributes that are imported, or resolved by the compiler. MuJoCo rewrites the file and keeps defaults.
_PLACE = ("pos", "quat", "axisangle", "xyaxes", "zaxis", "euler")
_GEOM = ElementRule(
    text=(
        *_PLACE, "name", "class", "type", "size", "fromto", "mesh", "fitscale", "mass", "density", "shellinertia", "rgba",
        "material", "group", "contype", "conaffinity",
    )
)  # fmt: skip
_JOINT = ElementRule(
    text=(
        "name", "class", "type", "pos", "axis", "springdamper", "limited", "range", "stiffness", "springref", "ref", "damping",
        "armature", "frictionloss", "actuatorfrclimited", "actuatorfrcrange", "group", "align",
    )
)  # fmt: skip
_DRIVE = ("name", "class", "group", "joint", "jointinparent", "gear", "ctrllimited", "forcelimited", "forcerange", "ctrlrange")
_DRIVES = {
    "general": ElementRule(text=(*_DRIVE, "input", "gaintype", "biastype", "gainprm", "biasprm", "dyntype", "dynprm")),
    "motor": ElementRule(text=_DRIVE),
    "position": ElementRule(text=(*_DRIVE, "kp", "kv", "dampratio", "inheritrange")),
    "velocity": ElementRule(text=(*_DRIVE, "kv")),
}
_TABLE = {
    "mujoco": ElementRule(
        text=("model",),
        repeated=(
            "compiler", "option", "size", "default", "asset", "worldbody", "actuator", "tendon", "sensor", "contact",
            "keyframe", "deformable", "custom", "extension",
        ),
    ),
    "compiler": ElementRule(
        text=(
            "angle", "autolimits", "boundmass", "boundinertia", "settotalmass", "balanceinertia", "fitaabb", "eulerseq",
            "meshdir", "texturedir", "assetdir", "strippath", "discardvisual", "usethread", "fusestatic", "inertiafromgeom",
            "inertiagrouprange", "saveinertial", "alignfree", "coordinate", "conflict",
        )
    ),
    "option": ElementRule(text=("gravity",)),
    "size": ElementRule(text=("memory", "njmax", "nconmax", "nstack", "nkey")),
    "default": ElementRule(text=("class",), repeated=("default", "joint", "geom", "material", "mesh", *_DRIVES)),
    "asset": ElementRule(repeated=("mesh", "material")),
    "mesh": ElementRule(
        text=(
            "name", "class", "file", "content_type", "scale", "refpos", "refquat", "vertex", "normal", "face", "inertia",
            "smoothnormal", "maxhullvert", "builtin", "params",
        )
    ),
    "material": ElementRule(text=("name", "class", "rgba")),
    "worldbody": ElementRule(repeated=("body", "geom", "frame")),
    "body": ElementRule(
        text=(*_PLACE, "name", "childclass", "mocap"), single=("inertial",),
        repeated=("body", "geom", "joint", "freejoint", "frame"),
    ),
    "frame": ElementRule(text=(*_PLACE, "name", "childclass"), repeated=("body", "geom", "joint", "freejoint", "frame")),
    "inertial": ElementRule(text=("pos", "quat", "mass", "diaginertia", "fullinertia", *_PLACE)),
    "freejoint": ElementRule(text=("name", "group", "align")),
    "joint": _JOINT,
    "geom": _GEOM,
    "actuator": ElementRule(repeated=tuple(_DRIVES)),
    **_DRIVES,
    **{
        section: ElementRule()
        for section in ("tendon", "sensor", "contact", "keyframe", "deformable", "custom", "extension")
    },
}  # fmt: skip
_EQUALITIES = {
    "equality": ElementRule(repeated=("joint",)),
    "joint": ElementRule(text=("name", "class", "joint1", "joint2", "polycoef", "active")),
}
_EXPLAIN = {
    "joint.solref": "couplings of joints are exact: solref is not used",
    "joint.solimp": "couplings of joints are exact: solimp is not used",
    "connect": "equality constraints are not used, loops stay open: <connect>",
    "weld": "equality constraints are not used, loops stay open: <weld>",
}


def read_mjcf(path: Path) -> RobotDescription:
    """Read an MJCF file.

    Each joint of a body with several joints becomes a separate link, massless except the last, which is the body; a link frame
    is at its joint's anchor with the body's axes, so joint coordinates equal MuJoCo's (with another quaternion order).
    Shapes of the world belong to a fixed massless link "world".

    Args:
        path: path of the file.

    Returns:
        The description, links depth first as MuJoCo's bodies.

    Raises:
        UserError: see ``read_robot``.
    """
    mujoco = required("mujoco")
    left_out = Unsupported()
    spec, model = _compiled(mujoco, path, left_out)
    # The rewritten file contains everything that it includes.
    root = parse_xml(spec.to_xml().encode())
    for section in root.findall("equality"):  # its <joint> is not that of a body
        check_element(section, _EQUALITIES, left_out, path, explain=_EXPLAIN)
        root.remove(section)
    check_element(root, _TABLE, left_out, path, explain=_EXPLAIN)
    drives = _drives(mujoco, model, left_out)
    shapes = _Shapes(mujoco, model, left_out)
    links: list[RobotLink] = []
    last_link = {0: -1}  # of each body: the link to which its children are attached
    offset = {0: np.zeros(3)}  # origin of that link's frame in the body frame, m
    if shapes.of(0):
        visuals, collisions = shapes.placed(0, np.zeros(3))
        links.append(
            RobotLink("world", -1, _fixed(np.zeros(3), _IDENTITY), 0.0, np.zeros(3), np.zeros((3, 3)), visuals, collisions)
        )
    for body in range(1, model.nbody):
        name = _name(mujoco, model, "body", body)
        if model.body_mocapid[body] >= 0:
            left_out.add("mocap bodies are not supported: they are held fixed", f"body {name!r}")
        above = int(model.body_parentid[body])
        parent = last_link[above]
        joints, shift = _joints(mujoco, model, body, model.body_pos[body] - offset[above], drives, left_out)
        for joint in joints[:-1]:
            links.append(RobotLink(f"{name}/{joint.name}", parent, joint, 0.0, np.zeros(3), np.zeros((3, 3))))
            parent = len(links) - 1
        visuals, collisions = shapes.placed(body, shift)
        links.append(
            RobotLink(
                name=name,
                parent=parent,
                joint=joints[-1],
                mass=float(model.body_mass[body]),
                com=model.body_ipos[body] - shift,
                inertia=_inertia(model, body),
                visuals=visuals,
                collisions=collisions,
            )
        )
        last_link[body], offset[body] = len(links) - 1, shift
    gravity = tuple(float(component) for component in model.opt.gravity)
    mimics = mimics_of_free_joints(_mimics(mujoco, model, drives, left_out), path, "<equality>")
    return RobotDescription(spec.modelname, _distinct(links, path), gravity, left_out.sentences(), mimics)


def _mimics(mujoco: Any, model: Any, drives: dict[int, dict[str, float]], left_out: Unsupported) -> list[RobotMimic]:
    """Couplings of two hinges or sliders by ``<equality><joint>``: q1 - r1 = c0 + c1 (q2 - r2), with the references r."""
    mimics = []
    for number in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        location = f"equality {_name(mujoco, model, 'equality', int(number))!r}"
        pair = [int(model.eq_obj1id[number]), int(model.eq_obj2id[number])]
        shift, multiplier, *higher = model.eq_data[number, :5]
        if not model.eq_active0[number]:
            left_out.add("couplings that are not active at the start are not used", location)
        elif min(pair) < 0 or any(model.jnt_type[joint] not in (_SLIDE, _HINGE) for joint in pair) or any(higher):
            left_out.add("only linear couplings of two hinges or sliders are used: the joints move freely", location)
        else:
            joint, leader = (_name(mujoco, model, "joint", joint_id) for joint_id in pair)
            if pair[0] in drives:
                left_out.add("motors of coupled joints are not used: drive the joint that they follow", f"joint {joint!r}")
            reference = model.qpos0[model.jnt_qposadr[pair]]
            mimics.append(RobotMimic(joint, leader, float(multiplier), float(reference[0] + shift - multiplier * reference[1])))
    return mimics


def _compiled(mujoco: Any, path: Path, left_out: Unsupported) -> tuple[Any, Any]:
    """MuJoCo's description of the file and the model that it compiles to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            _refuse_reversed(mujoco, spec, path)
            model = spec.compile()
        except UserError:
            raise
        except Exception as error:  # MuJoCo raises ValueError, or FatalError for unexpected errors
            reason = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            raise UserError(f"{path} cannot be read as MJCF: MuJoCo reports {reason!r}") from error
    for warning in caught:
        left_out.add("MuJoCo warns", str(warning.message))
    return spec, model


def _refuse_reversed(mujoco: Any, spec: Any, path: Path) -> None:
    """Raise a UserError for reversed ranges: MuJoCo ignores such a range unless the file enables it."""
    ranges = [
        (f"{kind} {one.name!r}", field, getattr(one, flag), getattr(one, field))
        for kind, ones, fields in (
            ("joint", spec.joints, (("limited", "range"), ("actfrclimited", "actfrcrange"))),
            ("actuator", spec.actuators, (("ctrllimited", "ctrlrange"), ("forcelimited", "forcerange"))),
        )
        for one in ones
        for flag, field in fields
    ]
    for owner, field, limited, limits in ranges:
        low, high = np.ravel(limits)[:2]
        if low > high and limited != mujoco.mjtLimited.mjLIMITED_FALSE:
            raise UserError(f"{path}: the {field} of {owner} is {low:g} to {high:g}: the lower end must be below the upper one")


def _distinct(links: Sequence[RobotLink], path: Path) -> tuple[RobotLink, ...]:
    names = [link.name for link in links]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise UserError(f"{path}: several links would have the name {doubled[0]!r}: rename bodies or joints")
    return tuple(links)


def _name(mujoco: Any, model: Any, kind: str, number: int) -> str:
    """Name of an object, or one made of its kind and number if it has none."""
    name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), number)
    return name or f"{kind}{number}"


def _xyzw(wxyz: np.ndarray) -> np.ndarray:
    return np.roll(wxyz, -1)


def _fixed(position: np.ndarray, quaternion: np.ndarray) -> RobotJoint:
    return RobotJoint("", "fixed", position, quaternion)


def _inertia(model: Any, body: int) -> np.ndarray:
    """Inertia [3, 3] of a body about its centre of mass, along the body's axes."""
    axes = Rotation.from_quat(_xyzw(model.body_iquat[body])).as_matrix()
    inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
    return 0.5 * (inertia + inertia.T)


def _joints(
    mujoco: Any, model: Any, body: int, anchor_position: np.ndarray, drives: dict[int, dict[str, float]], left_out: Unsupported
) -> tuple[list[RobotJoint], np.ndarray]:
    """The joints of a body in series (a fixed one if it has none), each for a separate link.

    Args:
        body: number.
        anchor_position: [3] of the body frame in the link frame of the body above, m.

    Returns:
        The joints, and the position of the last link frame in the body frame [3], m.
    """
    quaternion = _xyzw(model.body_quat[body])
    shift = np.zeros(3)
    joints: list[RobotJoint] = []
    first = int(model.body_jntadr[body])
    for number in range(first, first + int(model.body_jntnum[body])):
        # A slider and a free joint need no anchor: the link frame does not change.
        anchor = model.jnt_pos[number].copy() if model.jnt_type[number] in (_HINGE, _BALL) else shift
        frame = anchor_position + Rotation.from_quat(quaternion).apply(anchor - shift)
        joints.append(_joint_in_body_frame(_joint(mujoco, model, number, drives, left_out), frame, quaternion))
        anchor_position, quaternion, shift = np.zeros(3), _IDENTITY, anchor
    return joints or [_fixed(anchor_position, quaternion)], shift


def _joint(mujoco: Any, model: Any, number: int, drives: dict[int, dict[str, float]], left_out: Unsupported) -> dict[str, Any]:
    """All properties of a joint except its frame, as arguments of RobotJoint."""
    kind = int(model.jnt_type[number])
    name = _name(mujoco, model, "joint", number)
    location = f"joint {name!r}"
    q, v = model.jnt_qposadr[number], model.jnt_dofadr[number]
    values: dict[str, Any] = {
        "name": name,
        "type": _JOINT_TYPES[kind],
        "axis": model.jnt_axis[number].copy(),
        "damping": float(model.dof_damping[v]),
        "armature": float(model.dof_armature[v]),
        "dry_friction": float(model.dof_frictionloss[v]),
        "start": tuple(_start(kind, model.qpos0[q : q + _COORDINATES[kind]])),
    }
    stiffness = float(model.jnt_stiffness[number])
    if kind != _FREE:
        values["stiffness"] = stiffness
    elif stiffness:
        left_out.add("stiffness of free joints is not used", location)
    if kind in (_SLIDE, _HINGE):
        values["rest"] = float(model.qpos_spring[q])
        values |= drives.get(number, {})
    if model.jnt_limited[number]:
        if kind in (_SLIDE, _HINGE):
            low, high = model.jnt_range[number]
            values |= {"limit_low": float(low), "limit_high": float(high)}
        else:
            left_out.add(f"limits of {_JOINT_TYPES[kind]} joints are not used", location)
    if model.jnt_stiffnesspoly[number].any() or model.dof_dampingpoly[v].any():
        left_out.add("stiffness and damping are linear, their higher coefficients are not used", location)
    return values


def _start(kind: int, qpos: np.ndarray) -> list[float]:
    if kind in (_SLIDE, _HINGE):
        return qpos.tolist()
    return [*qpos[:-4].tolist(), *_xyzw(qpos[-4:]).tolist()]


def _joint_in_body_frame(values: dict[str, Any], position: np.ndarray, quaternion: np.ndarray) -> RobotJoint:
    """A joint in its frame.

    A hinge or slider moves by the difference of its coordinate and its reference: the frame includes the reference, so
    the coordinate is unchanged.
    """
    if values["type"] == "free":
        return RobotJoint(position=np.zeros(3), quaternion=_IDENTITY.copy(), **values)
    turn = Rotation.from_quat(quaternion)
    if values["type"] == "prismatic":
        position = position - turn.apply(values["start"][0] * values["axis"])
    elif values["type"] == "revolute" and values["start"][0] != 0.0:
        turn = turn * Rotation.from_rotvec(-values["start"][0] * values["axis"])
        quaternion = turn.as_quat(canonical=True)
    return RobotJoint(position=position, quaternion=np.array(quaternion), **values)


def _drives(mujoco: Any, model: Any, left_out: Unsupported) -> dict[int, dict[str, float]]:
    """Motor and servo of each joint that has one, by the joint's number, as arguments of RobotJoint."""
    drives: dict[int, dict[str, float]] = {}
    for number in range(model.nactuator):
        location = f"actuator {_name(mujoco, model, 'actuator', number)!r}"
        joint = _driven_joint(mujoco, model, number)
        drive = None if joint is None else _drive(mujoco, model, number, left_out, location)
        if joint is None or drive is None:
            left_out.add("only motors and position and velocity servos of one hinge or slider are supported", location)
        elif joint in drives:
            left_out.add("a second actuator of the same joint is not used", location)
        else:
            drives[joint] = drive
    for joint in np.flatnonzero(model.jnt_actfrclimited):  # hinges and sliders only: MuJoCo limits no others
        limit = _symmetric(model.jnt_actfrcrange[joint], left_out, f"joint {_name(mujoco, model, 'joint', int(joint))!r}")
        drive = drives.setdefault(int(joint), {"motor_limit": math.inf})
        drive["motor_limit"] = min(drive["motor_limit"], limit)
    return drives


def _driven_joint(mujoco: Any, model: Any, number: int) -> int | None:
    """Number of the hinge or slider that an actuator drives, or None."""
    kinds = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    if model.actuator_trntype[number] not in map(int, kinds):
        return None
    joint = int(model.actuator_trnid[number, 0])
    return joint if model.jnt_type[joint] in (_SLIDE, _HINGE) else None


def _drive(mujoco: Any, model: Any, number: int, left_out: Unsupported, location: str) -> dict[str, float] | None:
    """Gain, limit and servo of an actuator, at the joint; None if its law differs.

    The actuator's force is gain * control + bias, with the bias -kp length - kv velocity; length and velocity are the joint's
    times the gear, and the joint's force is the actuator's times the gear.
    """
    no_bias, affine_bias = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)
    stateless = model.actuator_dyntype[number] == int(mujoco.mjtDyn.mjDYN_NONE) and model.actuator_ctrlnum[number] == 1
    constant = model.actuator_gaintype[number] == int(mujoco.mjtGain.mjGAIN_FIXED)
    if not (stateless and constant and model.actuator_biastype[number] in (no_bias, affine_bias)):
        return None
    gear = float(model.actuator_gear[model.actuator_outadr[number], 0])
    gain = float(model.actuator_gainprm[number, 0])
    offset, kp, kv = 0.0, 0.0, 0.0
    if model.actuator_biastype[number] == affine_bias:
        offset, kp, kv = (float(coefficient) for coefficient in model.actuator_biasprm[number, :3] * (1.0, -1.0, -1.0))
    is_servo = kp != 0.0
    if offset != 0.0 or kp < 0.0 or kv < 0.0 or (is_servo and gain != kp):
        return None
    limit = math.inf
    if model.actuator_forcelimited[number]:
        limit = abs(gear) * _symmetric(model.actuator_forcerange[number], left_out, location)
    control = int(model.actuator_ctrladr[number])
    if model.actuator_ctrllimited[control]:
        if kp == kv == 0.0:  # the control is the force up to a factor
            limit = min(limit, abs(gear * gain) * _symmetric(model.actuator_ctrlrange[control], left_out, location))
        else:
            left_out.add("control ranges of servos are not used", location)
    if is_servo and gear != 1.0:
        left_out.add("a servo with a gear takes its target in the joint's own unit, the control divided by the gear", location)
    return {
        "motor_gain": 0.0 if is_servo else gear * gain,
        "motor_limit": limit,
        "servo_stiffness": gear**2 * kp,
        "servo_damping": gear**2 * kv,
    }


def _symmetric(limits: np.ndarray, left_out: Unsupported, location: str) -> float:
    low, high = (float(limit) for limit in limits)
    if low != -high:
        left_out.add("force limits are symmetric: the wider one is used", location)
    return max(abs(low), abs(high))


class _Shapes:
    """The geoms of a compiled model as shapes."""

    def __init__(self, mujoco: Any, model: Any, left_out: Unsupported) -> None:
        self._mujoco, self._model, self._left_out = mujoco, model, left_out
        geom = mujoco.mjtGeom
        self._kinds: dict[int, ShapeKind] = {
            int(geom.mjGEOM_BOX): "box",
            int(geom.mjGEOM_SPHERE): "sphere",
            int(geom.mjGEOM_CYLINDER): "cylinder",
            int(geom.mjGEOM_CAPSULE): "capsule",
            int(geom.mjGEOM_MESH): "mesh",
        }
        self._meshes: dict[int, TriangleMesh] = {}
        self._geoms: dict[int, list[int]] = {}
        for number in range(model.ngeom):
            if int(model.geom_type[number]) in self._kinds:
                self._geoms.setdefault(int(model.geom_bodyid[number]), []).append(number)
            else:
                kind = geom(int(model.geom_type[number])).name.removeprefix("mjGEOM_").lower()
                left_out.add(f"geoms of type {kind} are not supported", self._label(number))

    def of(self, body: int) -> list[int]:
        """Indices of the geoms of a body that are imported."""
        return self._geoms.get(body, [])

    def placed(self, body: int, origin: np.ndarray) -> tuple[tuple[RobotShape, ...], tuple[RobotShape, ...]]:
        """Visual and collision shapes of a body.

        A geom without contact is only visual, one of a hidden group only a collision shape.

        Args:
            body: number.
            origin: [3] of the link frame in the body frame, m.
        """
        visuals, collisions = [], []
        for number in self.of(body):
            masks = int(self._model.geom_contype[number]), int(self._model.geom_conaffinity[number])
            if masks not in ((0, 0), (1, 1)):
                self._left_out.add("contact masks other than all or nothing are not used", self._label(number))
            shape = self._shape(number, origin)
            touches = any(masks)
            if touches:
                collisions.append(shape)
            if not touches or self._model.geom_group[number] < _HIDDEN_GROUP:
                visuals.append(shape)
        return tuple(visuals), tuple(collisions)

    def _label(self, number: int) -> str:
        body = _name(self._mujoco, self._model, "body", int(self._model.geom_bodyid[number]))
        return f"geom {_name(self._mujoco, self._model, 'geom', number)!r} of body {body!r}"

    def _shape(self, number: int, origin: np.ndarray) -> RobotShape:
        model = self._model
        kind = self._kinds[int(model.geom_type[number])]
        a, b, c = (float(half_size) for half_size in model.geom_size[number])  # half sizes; a radius and a half length
        size = {"box": (2 * a, 2 * b, 2 * c), "sphere": (a,), "cylinder": (a, 2 * b), "capsule": (a, 2 * b), "mesh": ()}[kind]
        return RobotShape(
            name=self._mujoco.mj_id2name(model, self._mujoco.mjtObj.mjOBJ_GEOM, number) or "",
            kind=kind,
            size=size,
            position=model.geom_pos[number] - origin,
            quaternion=_xyzw(model.geom_quat[number]),
            color=self._color(number),
            mesh=self._mesh(int(model.geom_dataid[number])) if kind == "mesh" else None,
        )

    def _color(self, number: int) -> tuple[float, float, float]:
        """Linear colour of a geom: its own, or that of its material."""
        rgba = self._model.geom_rgba[number]
        material = int(self._model.geom_matid[number])
        if material >= 0 and np.array_equal(rgba, np.float32(_UNSET_RGBA)):
            rgba = self._model.mat_rgba[material]
        if rgba[3] < 1.0:
            self._left_out.add("transparency is not used", self._label(number))
        red, green, blue = srgb_to_linear(rgba[:3].astype(np.float64)).tolist()
        return red, green, blue

    def _mesh(self, number: int) -> TriangleMesh:
        """Triangles of a mesh in the frame of its inertia, by which MuJoCo places it."""
        if number not in self._meshes:
            model = self._model
            vertices = slice(model.mesh_vertadr[number], model.mesh_vertadr[number] + model.mesh_vertnum[number])
            faces = slice(model.mesh_faceadr[number], model.mesh_faceadr[number] + model.mesh_facenum[number])
            self._meshes[number] = ungrouped_mesh(model.mesh_vert[vertices].astype(np.float64), model.mesh_face[faces])
        return self._meshes[number]
