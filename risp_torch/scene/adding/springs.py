"""Point masses connected by springs."""

from __future__ import annotations

from typing import Any

import numpy as np

from risp_torch.scene.adding.particles import ParticleOptions, Particles, Prescribed, add_deformable, start_axes
from risp_torch.scene.arguments import Array, Where
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.elements import SpringNetwork
from risp_torch.scene.parts.materials import Springs, add_element_parameter
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import AT_REST, Start
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.shapes.surface import single_group_mesh


@checked
def add_springs(
    scene: SceneSpec,
    name: str,
    *,
    points: Array,
    springs: Springs,
    mass: Array,
    start: Start = AT_REST,
    fixed: Where = None,
    prescribed: Prescribed | None = None,
    contact: Contact | None = None,
    radius: Positive | None = None,
    faces: Array | None = None,
    surface: Surface | None = None,
) -> None:
    """Add point masses connected by springs.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        points: [V, 3] m.
        springs: pairs of points, stiffness, damping and rest lengths.
        mass: of the points [kg], a number for each of them, or [V].
        start, fixed, prescribed: see ``add_solid``.
        contact: contact parameters of its points, with the ground and bodies with collision; those of the ground by default.
        radius: radius of the balls as which the points are rendered [m]; a twentieth of the extent by default. Springs are
            invisible.
        faces: [F, 3] triangles of points that are rendered instead of balls.
        surface: colours, texture, highlights of these.

    Raises:
        UserError: a number is invalid; the message names it.
    """
    axes = start_axes(name, start)
    vertices = check_points(name, points)
    elements = make_spring_network(scene.table, name, vertices, springs)
    if radius is not None and faces is not None:
        raise UserError(f"{name} has the radius {radius} m and faces: give one of the two")
    ball_radius = 0.05 * float(np.ptp(vertices, axis=0).max()) if radius is None else radius
    triangles = np.zeros((0, 3), dtype=np.int32)
    if faces is not None:
        triangles = SheetMesh(vertices, np.asarray(faces), name=f"the faces of {name}").triangles
    options = ParticleOptions(
        start=start, mass=mass, fixed=fixed, prescribed=prescribed, contact=contact, surface=surface,
    )  # fmt: skip
    particles = Particles(
        vertices=vertices, axes=axes, elements=elements, mesh=single_group_mesh(vertices, triangles),
        surface_particles=np.arange(len(vertices)), radius=ball_radius if faces is None else None,
    )  # fmt: skip
    add_deformable(scene, name, particles, options)


def make_spring_network(table: ParameterTable, name: str, points: np.ndarray, springs: Springs) -> SpringNetwork:
    """Add the parameters of the springs to the table and return them (arguments: ``add_springs``)."""
    pairs = np.asarray(springs.indices)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or pairs.dtype.kind not in "iu":
        raise UserError(f"the springs of {name} have shape {pairs.shape} of {pairs.dtype}: give pairs of points, [S, 2] integers")
    invalid = np.flatnonzero(((pairs < 0) | (pairs >= len(points))).any(axis=1) | (pairs[:, 0] == pairs[:, 1]))
    if len(invalid):
        raise UserError(
            f"spring {invalid[0]} of {name} joins the points {pairs[invalid[0]].tolist()}: give two different points of 0 to "
            f"{len(points) - 1}"
        )
    lengths = np.linalg.norm(points[pairs[:, 1]] - points[pairs[:, 0]], axis=1)
    rest_lengths = lengths if springs.rest_length is None else springs.rest_length
    for key, value, unit in (
        ("stiffness", springs.stiffness, "N/m"), ("damping", springs.damping, "N s/m"), ("rest_length", rest_lengths, "m"),
    ):  # fmt: skip
        sign = "positive" if key == "stiffness" else "not negative"
        add_element_parameter(table, f"{name}.{key}", value, len(pairs), unit=unit, sign=sign)
    return SpringNetwork(name, pairs.astype(np.int32))


def check_points(name: str, points: Any) -> np.ndarray:
    """Points [V, 3] float64 of a net.

    Raises:
        UserError: they have another shape, or are not finite.
    """
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array) or not np.isfinite(array).all():
        raise UserError(f"the points of {name} have shape {array.shape}: give finite positions [V, 3]")
    return array
