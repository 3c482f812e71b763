"""URDF files, parsed by yourdfpy; features that the parser ignores are checked and recorded first."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from risp_torch.files.film.curves import srgb_to_linear
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.robot_files.description import RobotDescription, RobotJoint, RobotLink, RobotMimic, RobotShape
from risp_torch.scene.robot_files.meshes import MeshFiles
from risp_torch.scene.robot_files.mimics import mimics_of_free_joints
from risp_torch.scene.robot_files.packages import import_robot_package
from risp_torch.scene.robot_files.unsupported import Unsupported
from risp_torch.scene.robot_files.xml_elements import ElementRule, check_element, element_location
from ti_sim.base.errors import UserError

_JOINT_TYPES = {
    "fixed": "fixed", "revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic", "floating": "free",
    "planar": "fixed",
}  # fmt: skip
_GEOMETRIES = ("box", "sphere", "cylinder", "mesh")

_ELEMENT_RULES = {
    "robot": ElementRule(text=("name", "version"), required=("name",), repeated=("link", "joint", "material")),
    "link": ElementRule(text=("name",), required=("name",), single=("inertial",), repeated=("visual", "collision")),
    "inertial": ElementRule(required=("mass", "inertia"), single=("origin", "mass", "inertia")),
    "mass": ElementRule(numbers={"value": (1,)}, required=("value",)),
    "inertia": ElementRule(
        numbers={entry: (1,) for entry in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}, required=("ixx", "iyy", "izz")
    ),
    "origin": ElementRule(numbers={"xyz": (3,), "rpy": (3,)}),
    "visual": ElementRule(text=("name",), required=("geometry",), single=("origin", "geometry", "material")),
    "collision": ElementRule(text=("name",), required=("geometry",), single=("origin", "geometry")),
    "geometry": ElementRule(single=_GEOMETRIES),
    "box": ElementRule(numbers={"size": (3,)}, required=("size",)),
    "sphere": ElementRule(numbers={"radius": (1,)}, required=("radius",)),
    "cylinder": ElementRule(numbers={"radius": (1,), "length": (1,)}, required=("radius", "length")),
    "mesh": ElementRule(text=("filename",), numbers={"scale": (1, 3)}, required=("filename",)),
    "material": ElementRule(text=("name",), single=("color",)),
    "color": ElementRule(numbers={"rgba": (4,)}, required=("rgba",)),
    "joint": ElementRule(
        text=("name", "type"), required=("name", "type", "parent", "child"),
        single=("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"),
    ),
    "parent": ElementRule(text=("link",), required=("link",)),
    "child": ElementRule(text=("link",), required=("link",)),
    "axis": ElementRule(numbers={"xyz": (3,)}, required=("xyz",)),
    "limit": ElementRule(numbers={"lower": (1,), "upper": (1,), "effort": (1,)}),
    "dynamics": ElementRule(numbers={"damping": (1,), "friction": (1,)}),
    "mimic": ElementRule(text=("joint",), numbers={"multiplier": (1,), "offset": (1,)}, required=("joint",)),
}  # fmt: skip
_TREATMENTS = {"limit.velocity": "velocity limits of joints are not used", "texture": "textures of materials are not used"}


def read_urdf(path: Path, root: Any) -> RobotDescription:
    """Read a URDF file.

    Args:
        path: path of the file.
        root: its root element.

    Returns:
        The description, links depth first in the order of the file's joints; the root link is fixed to the world, and a floating
        joint attaches its link to the world.

    Raises:
        UserError: see ``read_robot``.
    """
    unsupported = Unsupported()
    _check_not_xacro(root, path)
    _drop_unknown_geometries(root, unsupported, path)
    check_element(root, _ELEMENT_RULES, unsupported, path, treatments=_TREATMENTS)
    robot = _parse(root, path)
    meshes = MeshFiles(path, unsupported)
    order = _depth_first(robot, path)
    colors = _colors(robot)
    links: list[RobotLink] = []
    for link, parent, joint in order:
        no_joint = RobotJoint("", "fixed", np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))
        robot_joint = no_joint if joint is None else _joint(joint, path, unsupported)
        if robot_joint.type == "free":
            robot_joint = _attached_to_world(robot_joint, links, parent, path)
            parent = -1
        mass, com, inertia = _inertial(link)
        links.append(
            RobotLink(
                name=link.name,
                parent=parent,
                joint=robot_joint,
                mass=mass,
                com=com,
                inertia=inertia,
                visuals=tuple(_shape(shape, link, path, meshes, unsupported, colors) for shape in link.visuals),
                collisions=tuple(_shape(shape, link, path, meshes, unsupported, colors) for shape in link.collisions),
            )
        )
    return RobotDescription(robot.name, tuple(links), unsupported=unsupported.sentences(), mimics=_mimics(robot, path))


def _mimics(robot: Any, path: Path) -> tuple[RobotMimic, ...]:
    """The joints that ``<mimic>`` couples to others."""
    joints = {joint.name: joint for joint in robot.joints}
    mimics = []
    for joint in robot.joints:
        if joint.mimic is None:
            continue
        if joint.mimic.joint not in joints:
            raise UserError(f"{path}: <mimic> of joint {joint.name!r}: {unknown_name_error('joint', joint.mimic.joint, joints)}")
        leader = joints[joint.mimic.joint]
        for coupled in (joint, leader):
            if _JOINT_TYPES.get(coupled.type) not in ("revolute", "prismatic"):
                raise UserError(
                    f"{path}: <mimic> couples joint {joint.name!r} to {leader.name!r}, and {coupled.name!r} is {coupled.type}: "
                    "couple revolute, continuous and prismatic joints"
                )
        # 1 and 0 are the defaults of URDF.
        multiplier = 1.0 if joint.mimic.multiplier is None else float(joint.mimic.multiplier)
        offset = 0.0 if joint.mimic.offset is None else float(joint.mimic.offset)
        mimics.append(RobotMimic(joint.name, leader.name, multiplier, offset))
    return mimics_of_free_joints(mimics, path, "<mimic>")


def _check_not_xacro(root: Any, path: Path) -> None:
    if any("xacro" in str(element.tag) for element in root.iter()):
        raise UserError(f"{path} is a xacro file, from which URDF is made: run xacro {path} -o robot.urdf and read that")


def _drop_unknown_geometries(root: Any, unsupported: Unsupported, path: Path) -> None:
    """Remove shapes that are not one of the four of URDF, on which the parser fails."""
    for kind in ("visual", "collision"):
        for shape in list(root.iterfind(f"link/{kind}")):
            geometry = shape.find("geometry")
            if geometry is None or (len(geometry) and geometry[0].tag in _GEOMETRIES):
                continue
            if not len(geometry):
                raise UserError(
                    f"{path}: <geometry> of {element_location(shape)} is empty: it needs one of {', '.join(_GEOMETRIES)}"
                )
            unsupported.add(f"<{geometry[0].tag}> geometry is not used", element_location(shape))
            shape.getparent().remove(shape)


def _parse(root: Any, path: Path) -> Any:
    yourdfpy, etree = import_robot_package("yourdfpy"), import_robot_package("lxml.etree")
    try:
        # Without scene graph, which needs a tree, and without meshes, which are read here.
        parsed = yourdfpy.URDF.load(io.BytesIO(etree.tostring(root)), build_scene_graph=False, load_meshes=False)
    except Exception as error:  # the parser does not wrap errors of conversions and lookups
        raise UserError(f"{path} cannot be read as URDF ({type(error).__name__}: {error}): check it with check_urdf") from error
    return parsed.robot


def _depth_first(robot: Any, path: Path) -> list[tuple[Any, int, Any]]:
    """Every link with the index of its parent (-1 for the root) and its joint (None for the root)."""
    links = {link.name: link for link in robot.links}
    _check_unique([link.name for link in robot.links], "links", path)
    _check_unique([joint.name for joint in robot.joints], "joints", path)
    if not links:
        raise UserError(f"{path}: the robot has no links: describe one at least")
    parent_joint: dict[str, Any] = {}
    child_joints: dict[str, list[Any]] = {name: [] for name in links}
    for joint in robot.joints:
        for link_name in (joint.parent, joint.child):
            if link_name not in links:
                raise UserError(f"{path}: joint {joint.name!r}: {unknown_name_error('link', link_name, links)}")
        if joint.child in parent_joint:
            raise UserError(
                f"{path}: link {joint.child!r} is the child of joints {parent_joint[joint.child].name!r} and {joint.name!r}: "
                "a link has one joint, loops cannot be closed"
            )
        parent_joint[joint.child] = joint
        child_joints[joint.parent].append(joint)
    roots = [name for name in links if name not in parent_joint]
    if len(roots) > 1:
        raise UserError(f"{path}: links {', '.join(map(repr, roots))} have no parent: there can be only one root link")
    order: list[tuple[Any, int, Any]] = []
    stack = [(name, -1, None) for name in roots]
    while stack:
        name, parent, joint = stack.pop()
        order.append((links[name], parent, joint))
        stack += [(child.child, len(order) - 1, child) for child in reversed(child_joints[name])]
    if len(order) < len(links):
        reached = {link.name for link, _, _ in order}
        loop = [repr(name) for name in links if name not in reached]
        raise UserError(f"{path}: the joints of links {', '.join(loop)} form a loop: remove one of them")
    return order


def _check_unique(names: Sequence[str], kind: str, path: Path) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise UserError(f"{path}: several {kind} have the name {duplicates[0]!r}: names must be unique")


def _joint(joint: Any, path: Path, unsupported: Unsupported) -> RobotJoint:
    location = f"joint {joint.name!r}"
    if joint.type not in _JOINT_TYPES:
        raise UserError(f"{path}: {location}: {unknown_name_error('joint type', joint.type, _JOINT_TYPES)}")
    if joint.type == "planar":
        unsupported.add("planar joints are not supported: the link is held fixed", location)
    kind = _JOINT_TYPES[joint.type]
    position, quaternion = _pose(joint.origin)
    values: dict[str, Any] = {}
    if kind in ("revolute", "prismatic"):
        values = _axis_values(joint, path, unsupported)
    else:
        for tag in ("limit", "dynamics"):
            if getattr(joint, tag) is not None:
                unsupported.add(f"<{tag}> of a {joint.type} joint is not used", location)
    if kind == "free":
        values["start"] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    return RobotJoint(joint.name, kind, position, quaternion, **values)


def _axis_values(joint: Any, path: Path, unsupported: Unsupported) -> dict[str, Any]:
    """Axis, limits, damping, friction and motor of a revolute or prismatic joint."""
    location = f"joint {joint.name!r}"
    length = np.linalg.norm(joint.axis)
    if length == 0.0:
        raise UserError(f"{path}: the axis of {location} is (0, 0, 0): give it a direction")
    values: dict[str, Any] = {"axis": joint.axis / length, "start": (0.0,)}
    limit = joint.limit
    if joint.type != "continuous":
        if limit is None or limit.lower is None or limit.upper is None:
            raise UserError(
                f"{path}: {location} is {joint.type} and has no lower and upper limit: add "
                "<limit lower= upper= effort= velocity=>" + (", or make it continuous" if joint.type == "revolute" else "")
            )
        values |= {"limit_low": limit.lower, "limit_high": limit.upper}
    elif limit is not None and (limit.lower is not None or limit.upper is not None):
        unsupported.add("limits of continuous joints are not used", location)
    if limit is not None and limit.effort is not None:
        values |= {"motor_gain": 1.0, "motor_limit": limit.effort}
    if joint.dynamics is not None and joint.dynamics.damping is not None:
        values["damping"] = float(joint.dynamics.damping)
    if joint.dynamics is not None and joint.dynamics.friction is not None:
        values["dry_friction"] = float(joint.dynamics.friction)
    return values


def _attached_to_world(joint: RobotJoint, links: Sequence[RobotLink], parent: int, path: Path) -> RobotJoint:
    """The same free joint, attached to the world instead of a link that is fixed to it; its start includes the offset."""
    position, rotation = joint.position, Rotation.from_quat(joint.quaternion)
    while parent >= 0:
        parent_link = links[parent]
        if parent_link.joint.moves:
            raise UserError(
                f"{path}: the floating joint {joint.name!r} is attached to link {parent_link.name!r}, which moves: "
                "it can only be attached to the world"
            )
        mount_rotation = Rotation.from_quat(parent_link.joint.quaternion)
        position, rotation = parent_link.joint.position + mount_rotation.apply(position), mount_rotation * rotation
        parent = parent_link.parent
    pose = (*position.tolist(), *rotation.as_quat(canonical=True).tolist())
    return RobotJoint(joint.name, "free", np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), start=pose)


def _pose(origin: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Position [3] and quaternion [4] xyzw of a 4 x 4 matrix, or of none."""
    matrix = np.eye(4) if origin is None else origin
    return matrix[:3, 3].copy(), Rotation.from_matrix(matrix[:3, :3]).as_quat(canonical=True)


def _inertial(link: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia in the link's own axes."""
    if link.inertial is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    matrix = np.eye(4) if link.inertial.origin is None else link.inertial.origin
    axes = matrix[:3, :3]
    inertia = axes @ link.inertial.inertia @ axes.T
    return float(link.inertial.mass), matrix[:3, 3].copy(), 0.5 * (inertia + inertia.T)


def _colors(robot: Any) -> dict[str, np.ndarray]:
    """RGBA [4] of every named material; the robot's materials take precedence over the links', earlier links over later ones."""
    link_materials = [visual.material for link in robot.links for visual in link.visuals if visual.material is not None]
    named = [material for material in [*robot.materials, *link_materials] if material.name and material.color is not None]
    return {material.name: material.color.rgba for material in reversed(named)}


def _shape(
    shape: Any, link: Any, path: Path, meshes: MeshFiles, unsupported: Unsupported, colors: dict[str, np.ndarray]
) -> RobotShape:
    location = f"link {link.name!r}"
    geometry = shape.geometry
    kind = next(name for name in _GEOMETRIES if getattr(geometry, name) is not None)
    dimensions = getattr(geometry, kind)
    size: tuple[float, ...] = ()
    mesh = None
    if kind == "mesh":
        scale = np.ones(3) if dimensions.scale is None else np.broadcast_to(dimensions.scale, 3)
        if not scale.all():
            raise UserError(f"{path}: the scale of mesh {dimensions.filename!r} of {location} has a zero: give three factors")
        mesh = meshes.mesh(dimensions.filename, scale, location)
    else:
        size = {
            "box": lambda: tuple(dimensions.size.tolist()),
            "sphere": lambda: (dimensions.radius,),
            "cylinder": lambda: (dimensions.radius, dimensions.length),
        }[kind]()
    position, quaternion = _pose(shape.origin)
    color = _color(getattr(shape, "material", None), location, colors, unsupported)
    return RobotShape(shape.name or "", kind, size, position, quaternion, color, mesh)


def _color(
    material: Any, location: str, colors: dict[str, np.ndarray], unsupported: Unsupported
) -> tuple[float, float, float] | None:
    """Linear colour of a material: its own, or that of the named material."""
    if material is None:
        return None
    rgba = material.color.rgba if material.color is not None else colors.get(material.name)
    if rgba is None:
        if material.texture is None:
            unsupported.add("a material that the file does not describe is not used", f"material {material.name!r} of {location}")
        return None
    if rgba[3] < 1.0:
        unsupported.add("transparency is not used", location)
    red, green, blue = srgb_to_linear(rgba[:3]).tolist()
    return red, green, blue
