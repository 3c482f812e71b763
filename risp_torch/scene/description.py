"""The fingerprint of a film: all data that determine it, to check whether a run belongs to a scene."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import numpy as np

from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.described import DescribedPart
from risp_torch.scene.parts.elements import ActuationRows, Sheet, SpringNetwork
from risp_torch.scene.parts.lights import ARRAYS, lights_of_array
from risp_torch.scene.parts.links import Link
from risp_torch.scene.parts.surface import SurfaceMesh
from risp_torch.scene.simulation.deformable import deformable_model
from risp_torch.scene.spec import ALL_PARTS, SceneSpec
from risp_torch.scene.states import placement_shape
from ti_sim.deformable.model import TABLES
from ti_sim.shapes.contact_points import RADIUS

ROUNDING_EXPONENT = -30  # checksums of geometry round to this power of two of an array's size: 1e-9
MAX_LISTED = 4096  # entries of one parameter that are listed; larger arrays, such as textures, have a checksum


def describe(scene: SceneSpec) -> dict[str, Any]:
    """All data that determine a film of a scene, as JSON values (geometry and pictures as checksums)."""
    ground = scene.ground
    film = {} if scene.clock is None else {"film": scene.clock.to_json()}
    return {
        "name": scene.name,
        "frame_dt": scene.frame_dt,
        "frames": scene.frames,
        "substeps": scene.stepping.substeps,
        "integrator": scene.stepping.integrator,
        "style": dict(vars(scene.style)),
        "shadows": None if scene.shadows is None else asdict(scene.shadows) | {"center": list(scene.shadows.center)},
        "ground": None if ground is None else [ground.height, ground.pattern, ground.wrap],
        "bodies": [body.name for body in scene.bodies],
        "textures": [[*body.surface.textures, body.surface.wrap] if body.surface else [] for body in scene.bodies],
        "lights": [[light.name for light in lights_of_array(scene.lights, array)] for array in ARRAYS],
        "geometry_sha256": _geometry_checksum(scene.bodies),
        "forces": [[f.name, f.body, f.first_step, f.end_step, f.kind] for f in scene.applied_forces],
        "cameras": [[c.name, c.width, c.height, c.near, c.far, np.asarray(c.rotation).tolist()] for c in scene.cameras],
        "parameters": {name: _listed_values(param.value) for name, param in scene.parameters.items()},
    } | _optional_entries(scene) | _self_described(scene) | _implicit(scene) | film


def _implicit(scene: SceneSpec) -> dict[str, Any]:
    """Convergence of implicit steps, if the scene has any."""
    return {"implicit": asdict(scene.stepping.solver.implicit)} if scene.stepping.is_implicit else {}


def _self_described(scene: SceneSpec) -> dict[str, Any]:
    """Entries of the parts that describe themselves."""
    fields = (getattr(scene, name) for name in ALL_PARTS)
    return {key: entry for field in fields if isinstance(field, DescribedPart) for key, entry in field.description().items()}


def _optional_entries(scene: SceneSpec) -> dict[str, Any]:
    """Entries of rotors, the maximum distance, links, motors, collisions and deformable bodies, if the scene has them."""
    links = [_link(body) for body in scene.bodies if isinstance(body, Link)]
    motors = [[m.name, list(m.velocities), str(m.limit), m.command_count, m.pulse_period] for m in scene.motors]
    colliding = [b.name for b in scene.bodies if b.collision is not None]
    entries = {key: value for key, value in (("links", links), ("motors", motors), ("collision", colliding)) if value}
    rotors = [[r.name, r.body, list(r.axis), r.limit, r.count] for r in scene.rotors]
    max_distance = scene.stepping.solver.max_distance
    entries |= _deformable_entries(scene) | ({"adaptive": True} if scene.stepping.solver.adaptive else {})
    entries |= {"contact_per_area": sorted(scene.table.per_area)} if scene.table.per_area else {}
    return (
        entries | ({"rotors": rotors} if rotors else {}) | ({"max_distance": max_distance} if math.isfinite(max_distance) else {})
    )


def _deformable_entries(scene: SceneSpec) -> dict[str, Any]:
    """Deformable bodies and their loads, if the scene has any."""
    if not scene.deformables:
        return {}
    model, loads = deformable_model(scene.deformables, scene.loads, ground_height=scene.ground_height), []
    for load in scene.loads:
        direction = None if load.direction is None else load.direction.tolist()
        loads.append([load.name, load.particles.tolist(), direction, str(load.limit)])
    checksum = sha256(repr((model.solid_energy, model.parts, model.ground_height)).encode())
    for name in ("fixed", "prescribed", "contact", "particle_rest", "tri_normal", *TABLES.values()):
        checksum.update(rounded(getattr(model, name)).tobytes())
    for deformable in scene.deformables:
        for array in _surface_arrays(deformable.surface):
            checksum.update(rounded(array).tobytes())
    textures = [[*deformable.surface.textures, deformable.surface.wrap] for deformable in scene.deformables]
    entries = {"deformables": [_deformable(deformable) for deformable in scene.deformables], "deformable_textures": textures}
    placement = placement_shape(bodies=len(scene.bodies), particles=scene.particle_count)
    entries |= {"deformable_sha256": checksum.hexdigest(), "placement": list(placement)}
    contact = scene.self_contact
    self_contact = {} if contact is None else {"self_contact": [list(contact.bodies), contact.thickness]}
    return entries | ({"loads": loads} if loads else {}) | self_contact


def _deformable(deformable: Deformable) -> list[Any]:
    """Data of a deformable body, besides its parameters and its mesh, that determine its motion."""
    elements = deformable.elements
    if isinstance(elements, SpringNetwork):
        return [deformable.name, deformable.contact_name]
    entries = [
        deformable.name,
        deformable.contact_name,
        elements.stiffness.uses_young_modulus,
        elements.stiffness.convention,
        _groups(elements.actuation),
    ]
    if isinstance(elements, Sheet):
        entries += [elements.depth, elements.stiffness.thickness, deformable.thickness]
        entries += [_groups(elements.bending_actuation)] if _groups(elements.bending_actuation) is not None else []
    return entries


def _groups(actuation: ActuationRows | None) -> list[int] | None:
    """Column of the actuation for each element; None for one column per element, or without actuation."""
    return None if actuation is None or actuation.groups is None else actuation.groups.tolist()


def _link(link: Link) -> list[Any]:
    """Data of a link, besides its parameters, that determine its motion."""
    direction = None if link.direction is None else link.direction.tolist()
    entries = [link.name, link.parent, link.joint.kind, link.axis.tolist(), direction, link.share, link.at_tip]
    return entries + ([] if link.coupling is None else [asdict(link.coupling)])


def _geometry_checksum(bodies: Iterable[Body]) -> str:
    checksum = sha256()
    for body in bodies:
        surface, arrays = body.surface, [_contact_rows(body.points), body.orientation]
        if surface is not None:
            surface_arrays = _surface_arrays(surface)
            arrays = [*surface_arrays[:2], *arrays, *surface_arrays[2:]]
        if body.collision is not None and body.collision.kind == "mesh":
            arrays += [body.collision.corners, body.collision.distance.coefficients]
        for array in arrays:
            checksum.update(rounded(array).tobytes())
    return checksum.hexdigest()


def rounded(array: np.ndarray) -> np.ndarray:
    """An array whose checksum is the same on all processors: the last bits of rotations and products differ between them.

    Args:
        array: numbers of any shape, dtype and unit; integers and booleans are not changed.

    Returns:
        A contiguous array of the same shape: real numbers in f64, rounded to 2^-30 of the power of two above the largest
        finite magnitude, zeros without a sign.
    """
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return np.ascontiguousarray(array)
    values = array.astype(np.float64)
    finite = np.abs(values[np.isfinite(values)])
    step = 2.0 ** (math.frexp(finite.max(initial=0.0))[1] + ROUNDING_EXPONENT)
    return np.ascontiguousarray(np.round(values / step) * step + 0.0)


def _contact_rows(points: np.ndarray) -> np.ndarray:
    """Contact points: positions of vertices, or the full rows of round bodies."""
    return points if points[:, RADIUS:].any() else points[:, :RADIUS]


def _surface_arrays(surface: SurfaceMesh) -> list[np.ndarray]:
    """The arrays of a surface mesh."""
    uv = np.zeros(0) if surface.uv is None else surface.uv
    return [surface.mesh.vertices, surface.mesh.faces, surface.corner_normal, surface.face_texture, uv]


def _listed_values(value: Any) -> Any:
    """A parameter's values as lists; shape and checksum if there are many."""
    array = np.asarray(value)
    if array.size <= MAX_LISTED:
        return array.tolist()
    return {"shape": list(array.shape), "sha256": sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}
