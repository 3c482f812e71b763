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
from risp_torch.scene.robot_files.packages import import_robot_package
from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.robot_files.xml_elements import ElementRule, check_element, parse_xml
from ti_sim.base.errors import UserError
from ti_sim.shapes.surface import TriangleMesh, single_group_mesh

_FREE, _BALL, _SLIDE, _HINGE = range(4)  # mjtJoint
_JOINT_TYPES: dict[int, JointType] = {_FREE: "free", _BALL: "spherical", _SLIDE: "prismatic", _HINGE: "revolute"}
_COORDINATES = {_FREE: 7, _BALL: 4, _SLIDE: 1, _HINGE: 1}
_UNSET_RGBA = (0.5, 0.5, 0.5, 1.0)  # of a geom without a colour
_HIDDEN_GROUP = 3  # geoms of this group and above are hidden by MuJoCo's convention: collision shapes
_IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])

# Elements and attributes that are imported, or resolved by the compiler. MuJoCo rewrites the file and keeps defaults.
_POSE_ATTRIBUTES = ("pos", "quat", "axisangle", "xyaxes", "zaxis", "euler")
_GEOM_RULE = ElementRule(
    text=(
        *_POSE_ATTRIBUTES, "name", "class", "type", "size", "fromto", "mesh", "fitscale", "mass", "density", "shellinertia",
        "rgba", "material", "group", "contype", "conaffinity",
    )
)  # fmt: skip
_JOINT_RULE = ElementRule(
    text=(
        "name", "class", "type", "pos", "axis", "springdamper", "limited", "range", "stiffness", "springref", "ref", "damping",
        "armature", "frictionloss", "actuatorfrclimited", "actuatorfrcrange", "group", "align",
    )
)  # fmt: skip
_ACTUATOR_ATTRIBUTES = (
    "name", "class", "group", "joint", "jointinparent", "gear", "ctrllimited", "forcelimited", "forcerange", "ctrlrange",
)  # fmt: skip
_ACTUATOR_RULES = {
    "general": ElementRule(
        text=(*_ACTUATOR_ATTRIBUTES, "input", "gaintype", "biastype", "gainprm", "biasprm", "dyntype", "dynprm")
    ),
    "motor": ElementRule(text=_ACTUATOR_ATTRIBUTES),
    "position": ElementRule(text=(*_ACTUATOR_ATTRIBUTES, "kp", "kv", "dampratio", "inheritrange")),
    "velocity": ElementRule(text=(*_ACTUATOR_ATTRIBUTES, "kv")),
}
_ELEMENT_RULES = {
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
    "default": ElementRule(text=("class",), repeated=("default", "joint", "geom", "material", "mesh", *_ACTUATOR_RULES)),
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
        text=(*_POSE_ATTRIBUTES, "name", "childclass", "mocap"), single=("inertial",),
        repeated=("body", "geom", "joint", "freejoint", "frame"),
    ),
    "frame": ElementRule(
        text=(*_POSE_ATTRIBUTES, "name", "childclass"), repeated=("body", "geom", "joint", "freejoint", "frame")
    ),
    "inertial": ElementRule(text=("pos", "quat", "mass", "diaginertia", "fullinertia", *_POSE_ATTRIBUTES)),
    "freejoint": ElementRule(text=("name", "group", "align")),
    "joint": _JOINT_RULE,
    "geom": _GEOM_RULE,
    "actuator": ElementRule(repeated=tuple(_ACTUATOR_RULES)),
    **_ACTUATOR_RULES,
    **{
        section: ElementRule()
        for section in ("tendon", "sensor", "contact", "keyframe", "deformable", "custom", "extension")
    },
}  # fmt: skip
_EQUALITY_RULES = {
    "equality": ElementRule(repeated=("joint",)),
    "joint": ElementRule(text=("name", "class", "joint1", "joint2", "polycoef", "active")),
}
_TREATMENTS = {
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
    mujoco = import_robot_package("mujoco")
    unsupported = Unsupported()
    spec, model = _compiled(mujoco, path, unsupported)
    # The rewritten file contains everything that it includes.
    root = parse_xml(spec.to_xml().encode())
    for section in root.findall("equality"):  # its <joint> is not that of a body
        check_element(section, _EQUALITY_RULES, unsupported, path, treatments=_TREATMENTS)
        root.remove(section)
    check_element(root, _ELEMENT_RULES, unsupported, path, treatments=_TREATMENTS)
    actuators = _actuators(mujoco, model, unsupported)
    shapes = _Shapes(mujoco, model, unsupported)
    links: list[RobotLink] = []
    last_link = {0: -1}  # of each body: the link to which its children are attached
    link_origins = {0: np.zeros(3)}  # origin of that link's frame in the body frame, m
    if shapes.geoms_of_body(0):
        visuals, collisions = shapes.shapes_of_body(0, np.zeros(3))
        links.append(
            RobotLink("world", -1, _fixed(np.zeros(3), _IDENTITY), 0.0, np.zeros(3), np.zeros((3, 3)), visuals, collisions)
        )
    for body in range(1, model.nbody):
        name = _name(mujoco, model, "body", body)
        if model.body_mocapid[body] >= 0:
            unsupported.add("mocap bodies are not supported: they are held fixed", f"body {name!r}")
        parent_body = int(model.body_parentid[body])
        parent = last_link[parent_body]
        joints, link_origin = _joints(
            mujoco, model, body, model.body_pos[body] - link_origins[parent_body], actuators, unsupported
        )
        for joint in joints[:-1]:
            links.append(RobotLink(f"{name}/{joint.name}", parent, joint, 0.0, np.zeros(3), np.zeros((3, 3))))
            parent = len(links) - 1
        visuals, collisions = shapes.shapes_of_body(body, link_origin)
        links.append(
            RobotLink(
                name=name,
                parent=parent,
                joint=joints[-1],
                mass=float(model.body_mass[body]),
                com=model.body_ipos[body] - link_origin,
                inertia=_inertia(model, body),
                visuals=visuals,
                collisions=collisions,
            )
        )
        last_link[body], link_origins[body] = len(links) - 1, link_origin
    gravity = tuple(float(component) for component in model.opt.gravity)
    mimics = mimics_of_free_joints(_mimics(mujoco, model, actuators, unsupported), path, "<equality>")
    return RobotDescription(spec.modelname, _checked_unique(links, path), gravity, unsupported.sentences(), mimics)


def _mimics(mujoco: Any, model: Any, actuators: dict[int, dict[str, float]], unsupported: Unsupported) -> list[RobotMimic]:
    """Couplings of two hinges or sliders by ``<equality><joint>``: q1 - r1 = c0 + c1 (q2 - r2), with the references r."""
    mimics = []
    for equality_id in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        location = f"equality {_name(mujoco, model, 'equality', int(equality_id))!r}"
        pair = [int(model.eq_obj1id[equality_id]), int(model.eq_obj2id[equality_id])]
        constant, multiplier, *higher = model.eq_data[equality_id, :5]
        if not model.eq_active0[equality_id]:
            unsupported.add("couplings that are not active at the start are not used", location)
        elif min(pair) < 0 or any(model.jnt_type[joint] not in (_SLIDE, _HINGE) for joint in pair) or any(higher):
            unsupported.add("only linear couplings of two hinges or sliders are used: the joints move freely", location)
        else:
            joint, leader = (_name(mujoco, model, "joint", joint_id) for joint_id in pair)
            if pair[0] in actuators:
                unsupported.add("motors of coupled joints are not used: drive the joint that they follow", f"joint {joint!r}")
            reference = model.qpos0[model.jnt_qposadr[pair]]
            mimics.append(
                RobotMimic(joint, leader, float(multiplier), float(reference[0] + constant - multiplier * reference[1]))
            )
    return mimics


def _compiled(mujoco: Any, path: Path, unsupported: Unsupported) -> tuple[Any, Any]:
    """MuJoCo's description of the file and the model that it compiles to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            _check_ranges(mujoco, spec, path)
            model = spec.compile()
        except UserError:
            raise
        except Exception as error:  # MuJoCo raises ValueError, or FatalError for unexpected errors
            reason = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            raise UserError(f"{path} cannot be read as MJCF: MuJoCo reports {reason!r}") from error
    for warning in caught:
        unsupported.add("MuJoCo warns", str(warning.message))
    return spec, model


def _check_ranges(mujoco: Any, spec: Any, path: Path) -> None:
    """Raise a UserError for reversed ranges: MuJoCo ignores such a range unless the file enables it."""
    ranges = [
        (f"{kind} {element.name!r}", field, getattr(element, flag), getattr(element, field))
        for kind, elements, fields in (
            ("joint", spec.joints, (("limited", "range"), ("actfrclimited", "actfrcrange"))),
            ("actuator", spec.actuators, (("ctrllimited", "ctrlrange"), ("forcelimited", "forcerange"))),
        )
        for element in elements
        for flag, field in fields
    ]
    for owner, field, limited, limits in ranges:
        low, high = np.ravel(limits)[:2]
        if low > high and limited != mujoco.mjtLimited.mjLIMITED_FALSE:
            raise UserError(f"{path}: the {field} of {owner} is {low:g} to {high:g}: the lower end must be below the upper one")


def _checked_unique(links: Sequence[RobotLink], path: Path) -> tuple[RobotLink, ...]:
    names = [link.name for link in links]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise UserError(f"{path}: several links would have the name {duplicates[0]!r}: rename bodies or joints")
    return tuple(links)


def _name(mujoco: Any, model: Any, kind: str, object_id: int) -> str:
    """Name of an object, or one made of its kind and id if it has none."""
    name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), object_id)
    return name or f"{kind}{object_id}"


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
    mujoco: Any,
    model: Any,
    body: int,
    anchor_position: np.ndarray,
    actuators: dict[int, dict[str, float]],
    unsupported: Unsupported,
) -> tuple[list[RobotJoint], np.ndarray]:
    """The joints of a body in series (a fixed one if it has none), each for a separate link.

    Args:
        body: id of the body.
        anchor_position: [3] of the body frame in the link frame of the body above, m.

    Returns:
        The joints, and the position of the last link frame in the body frame [3], m.
    """
    quaternion = _xyzw(model.body_quat[body])
    link_origin = np.zeros(3)
    joints: list[RobotJoint] = []
    first = int(model.body_jntadr[body])
    for joint_id in range(first, first + int(model.body_jntnum[body])):
        # A slider and a free joint need no anchor: the link frame does not change.
        anchor = model.jnt_pos[joint_id].copy() if model.jnt_type[joint_id] in (_HINGE, _BALL) else link_origin
        frame = anchor_position + Rotation.from_quat(quaternion).apply(anchor - link_origin)
        joints.append(_joint_in_body_frame(_joint(mujoco, model, joint_id, actuators, unsupported), frame, quaternion))
        anchor_position, quaternion, link_origin = np.zeros(3), _IDENTITY, anchor
    return joints or [_fixed(anchor_position, quaternion)], link_origin


def _joint(
    mujoco: Any, model: Any, joint_id: int, actuators: dict[int, dict[str, float]], unsupported: Unsupported
) -> dict[str, Any]:
    """All properties of a joint except its frame, as arguments of RobotJoint."""
    kind = int(model.jnt_type[joint_id])
    name = _name(mujoco, model, "joint", joint_id)
    location = f"joint {name!r}"
    q_index, v_index = model.jnt_qposadr[joint_id], model.jnt_dofadr[joint_id]
    values: dict[str, Any] = {
        "name": name,
        "type": _JOINT_TYPES[kind],
        "axis": model.jnt_axis[joint_id].copy(),
        "damping": float(model.dof_damping[v_index]),
        "armature": float(model.dof_armature[v_index]),
        "dry_friction": float(model.dof_frictionloss[v_index]),
        "start": tuple(_start(kind, model.qpos0[q_index : q_index + _COORDINATES[kind]])),
    }
    stiffness = float(model.jnt_stiffness[joint_id])
    if kind != _FREE:
        values["stiffness"] = stiffness
    elif stiffness:
        unsupported.add("stiffness of free joints is not used", location)
    if kind in (_SLIDE, _HINGE):
        values["rest"] = float(model.qpos_spring[q_index])
        values |= actuators.get(joint_id, {})
    if model.jnt_limited[joint_id]:
        if kind in (_SLIDE, _HINGE):
            low, high = model.jnt_range[joint_id]
            values |= {"limit_low": float(low), "limit_high": float(high)}
        else:
            unsupported.add(f"limits of {_JOINT_TYPES[kind]} joints are not used", location)
    if model.jnt_stiffnesspoly[joint_id].any() or model.dof_dampingpoly[v_index].any():
        unsupported.add("stiffness and damping are linear, their higher coefficients are not used", location)
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
    rotation = Rotation.from_quat(quaternion)
    if values["type"] == "prismatic":
        position = position - rotation.apply(values["start"][0] * values["axis"])
    elif values["type"] == "revolute" and values["start"][0] != 0.0:
        rotation = rotation * Rotation.from_rotvec(-values["start"][0] * values["axis"])
        quaternion = rotation.as_quat(canonical=True)
    return RobotJoint(position=position, quaternion=np.array(quaternion), **values)


def _actuators(mujoco: Any, model: Any, unsupported: Unsupported) -> dict[int, dict[str, float]]:
    """Motor and servo of each joint that has one, by the joint's id, as arguments of RobotJoint."""
    actuators: dict[int, dict[str, float]] = {}
    for actuator_id in range(model.nactuator):
        location = f"actuator {_name(mujoco, model, 'actuator', actuator_id)!r}"
        joint = _actuated_joint(mujoco, model, actuator_id)
        actuator = None if joint is None else _actuator(mujoco, model, actuator_id, unsupported, location)
        if joint is None or actuator is None:
            unsupported.add("only motors and position and velocity servos of one hinge or slider are supported", location)
        elif joint in actuators:
            unsupported.add("a second actuator of the same joint is not used", location)
        else:
            actuators[joint] = actuator
    for joint in np.flatnonzero(model.jnt_actfrclimited):  # hinges and sliders only: MuJoCo limits no others
        limit = _symmetric_limit(
            model.jnt_actfrcrange[joint], unsupported, f"joint {_name(mujoco, model, 'joint', int(joint))!r}"
        )
        actuator = actuators.setdefault(int(joint), {"motor_limit": math.inf})
        actuator["motor_limit"] = min(actuator["motor_limit"], limit)
    return actuators


def _actuated_joint(mujoco: Any, model: Any, actuator_id: int) -> int | None:
    """Id of the hinge or slider that an actuator drives, or None."""
    kinds = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    if model.actuator_trntype[actuator_id] not in map(int, kinds):
        return None
    joint = int(model.actuator_trnid[actuator_id, 0])
    return joint if model.jnt_type[joint] in (_SLIDE, _HINGE) else None


def _actuator(mujoco: Any, model: Any, actuator_id: int, unsupported: Unsupported, location: str) -> dict[str, float] | None:
    """Gain, limit and servo of an actuator, at the joint; None if its force law differs.

    The actuator's force is gain * control + bias, with the bias -kp length - kv velocity; length and velocity are the joint's
    times the gear, and the joint's force is the actuator's times the gear.
    """
    no_bias, affine_bias = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)
    is_stateless = (
        model.actuator_dyntype[actuator_id] == int(mujoco.mjtDyn.mjDYN_NONE) and model.actuator_ctrlnum[actuator_id] == 1
    )
    has_constant_gain = model.actuator_gaintype[actuator_id] == int(mujoco.mjtGain.mjGAIN_FIXED)
    if not (is_stateless and has_constant_gain and model.actuator_biastype[actuator_id] in (no_bias, affine_bias)):
        return None
    gear = float(model.actuator_gear[model.actuator_outadr[actuator_id], 0])
    gain = float(model.actuator_gainprm[actuator_id, 0])
    offset, kp, kv = 0.0, 0.0, 0.0
    if model.actuator_biastype[actuator_id] == affine_bias:
        offset, kp, kv = (float(coefficient) for coefficient in model.actuator_biasprm[actuator_id, :3] * (1.0, -1.0, -1.0))
    is_servo = kp != 0.0
    if offset != 0.0 or kp < 0.0 or kv < 0.0 or (is_servo and gain != kp):
        return None
    limit = math.inf
    if model.actuator_forcelimited[actuator_id]:
        limit = abs(gear) * _symmetric_limit(model.actuator_forcerange[actuator_id], unsupported, location)
    control = int(model.actuator_ctrladr[actuator_id])
    if model.actuator_ctrllimited[control]:
        if kp == kv == 0.0:  # the control is the force up to a factor
            limit = min(limit, abs(gear * gain) * _symmetric_limit(model.actuator_ctrlrange[control], unsupported, location))
        else:
            unsupported.add("control ranges of servos are not used", location)
    if is_servo and gear != 1.0:
        unsupported.add("a servo with a gear takes its target in the joint's own unit, the control divided by the gear", location)
    return {
        "motor_gain": 0.0 if is_servo else gear * gain,
        "motor_limit": limit,
        "servo_stiffness": gear**2 * kp,
        "servo_damping": gear**2 * kv,
    }


def _symmetric_limit(limits: np.ndarray, unsupported: Unsupported, location: str) -> float:
    low, high = (float(limit) for limit in limits)
    if low != -high:
        unsupported.add("force limits are symmetric: the wider one is used", location)
    return max(abs(low), abs(high))


class _Shapes:
    """The geoms of a compiled model as shapes."""

    def __init__(self, mujoco: Any, model: Any, unsupported: Unsupported) -> None:
        self._mujoco, self._model, self._unsupported = mujoco, model, unsupported
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
        for geom_id in range(model.ngeom):
            if int(model.geom_type[geom_id]) in self._kinds:
                self._geoms.setdefault(int(model.geom_bodyid[geom_id]), []).append(geom_id)
            else:
                kind = geom(int(model.geom_type[geom_id])).name.removeprefix("mjGEOM_").lower()
                unsupported.add(f"geoms of type {kind} are not supported", self._label(geom_id))

    def geoms_of_body(self, body: int) -> list[int]:
        """Indices of the geoms of a body that are imported."""
        return self._geoms.get(body, [])

    def shapes_of_body(self, body: int, origin: np.ndarray) -> tuple[tuple[RobotShape, ...], tuple[RobotShape, ...]]:
        """Visual and collision shapes of a body.

        A geom without contact is only visual, one of a hidden group only a collision shape.

        Args:
            body: id of the body.
            origin: [3] of the link frame in the body frame, m.
        """
        visuals, collisions = [], []
        for geom_id in self.geoms_of_body(body):
            masks = int(self._model.geom_contype[geom_id]), int(self._model.geom_conaffinity[geom_id])
            if masks not in ((0, 0), (1, 1)):
                self._unsupported.add("contact masks other than all or nothing are not used", self._label(geom_id))
            shape = self._shape(geom_id, origin)
            has_contact = any(masks)
            if has_contact:
                collisions.append(shape)
            if not has_contact or self._model.geom_group[geom_id] < _HIDDEN_GROUP:
                visuals.append(shape)
        return tuple(visuals), tuple(collisions)

    def _label(self, geom_id: int) -> str:
        body = _name(self._mujoco, self._model, "body", int(self._model.geom_bodyid[geom_id]))
        return f"geom {_name(self._mujoco, self._model, 'geom', geom_id)!r} of body {body!r}"

    def _shape(self, geom_id: int, origin: np.ndarray) -> RobotShape:
        model = self._model
        kind = self._kinds[int(model.geom_type[geom_id])]
        a, b, c = (float(half_size) for half_size in model.geom_size[geom_id])  # half sizes; a radius and a half length
        size = {"box": (2 * a, 2 * b, 2 * c), "sphere": (a,), "cylinder": (a, 2 * b), "capsule": (a, 2 * b), "mesh": ()}[kind]
        return RobotShape(
            name=self._mujoco.mj_id2name(model, self._mujoco.mjtObj.mjOBJ_GEOM, geom_id) or "",
            kind=kind,
            size=size,
            position=model.geom_pos[geom_id] - origin,
            quaternion=_xyzw(model.geom_quat[geom_id]),
            color=self._color(geom_id),
            mesh=self._mesh(int(model.geom_dataid[geom_id])) if kind == "mesh" else None,
        )

    def _color(self, geom_id: int) -> tuple[float, float, float]:
        """Linear colour of a geom: its own, or that of its material."""
        rgba = self._model.geom_rgba[geom_id]
        material = int(self._model.geom_matid[geom_id])
        if material >= 0 and np.array_equal(rgba, np.float32(_UNSET_RGBA)):
            rgba = self._model.mat_rgba[material]
        if rgba[3] < 1.0:
            self._unsupported.add("transparency is not used", self._label(geom_id))
        red, green, blue = srgb_to_linear(rgba[:3].astype(np.float64)).tolist()
        return red, green, blue

    def _mesh(self, mesh_id: int) -> TriangleMesh:
        """Triangles of a mesh in the frame of its inertia, by which MuJoCo places it."""
        if mesh_id not in self._meshes:
            model = self._model
            vertices = slice(model.mesh_vertadr[mesh_id], model.mesh_vertadr[mesh_id] + model.mesh_vertnum[mesh_id])
            faces = slice(model.mesh_faceadr[mesh_id], model.mesh_faceadr[mesh_id] + model.mesh_facenum[mesh_id])
            self._meshes[mesh_id] = single_group_mesh(model.mesh_vert[vertices].astype(np.float64), model.mesh_face[faces])
        return self._meshes[mesh_id]
