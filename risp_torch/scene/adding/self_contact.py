"""Contact of the surfaces of deformable bodies with themselves and with one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.parts.contact import Contact, add_contact
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.elements import Sheet, Solid, SpringNetwork
from risp_torch.scene.parts.self_contact import PREFIX, SelfContact, near_pairs
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked
from ti_sim.meshes.boundary import boundary_faces


@checked
def add_self_contact(
    scene: SceneSpec, *, contact: Contact, thickness: Positive, bodies: str | Sequence[str] | None = None
) -> None:
    """Add self-contact of deformable bodies, also between different bodies: a vertex collides with triangles to which no edge
    connects it, on both sides.

    Args:
        scene: the scene.
        contact: contact parameters of a vertex with a triangle ("self_contact.stiffness" and so on).
        thickness: distance between the midsurfaces of two sheets at contact [m]; it must be smaller than the distance of a vertex
            from unconnected triangles of its body at rest, and larger than the motion of a vertex in one or two steps.
        bodies: names of the solids and cloths that take part; all deformable bodies by default.

    Raises:
        UserError: a body does not exist or has no surface, the thickness does not fit the meshes, or vertices start on
            triangles.
    """
    if f"{PREFIX}.stiffness" in scene.table.params:
        raise UserError("the scene has self-contact already: call add_self_contact once, with all bodies that take part")
    if not scene.deformables:
        raise UserError("self-contact needs deformable bodies, and the scene has none yet: add them first")
    if contact.per != "point":
        raise UserError("self-contact is between vertices and triangles: give its contact parameters per point")
    if contact.bristle_stiffness is not None or contact.radius is not None:
        raise UserError("self-contact has no bristles and no contact radius: leave bristle_stiffness and radius out")
    names = [deformable.name for deformable in scene.deformables]
    body_names = (bodies,) if isinstance(bodies, str) else bodies
    contact_bodies = tuple(dict.fromkeys(names if body_names is None else body_names))
    for name in contact_bodies:
        if name not in names:
            raise unknown_name_error("deformable body", name, names)
    if not contact_bodies:
        raise UserError("self-contact names no body: name some, or leave bodies out for all")
    deformables = [scene.deformables[names.index(name)] for name in contact_bodies]
    surfaces = [surface_triangles(deformable) for deformable in deformables]
    for deformable, faces in zip(deformables, surfaces, strict=True):
        _check_rest(deformable, faces, thickness)
    triangles = np.concatenate(
        [faces + deformable.first_particle for deformable, faces in zip(deformables, surfaces, strict=True)]
    )
    add_contact(scene.table, PREFIX, contact)
    scene.self_contact = SelfContact(contact_bodies, triangles.astype(np.int32), float(thickness))


def surface_triangles(body: Deformable) -> np.ndarray:
    """Triangles [S, 3] of a body's surface, as indices within the body.

    Raises:
        UserError: it has no surface.
    """
    if isinstance(body.elements, Solid):
        return boundary_faces(body.elements.indices, body.name)[0]
    if isinstance(body.elements, Sheet) and not np.any(body.elements.normal):
        return body.elements.indices
    kind = (
        "springs, which have no surface"
        if isinstance(body.elements, SpringNetwork)
        else "a flat body, whose triangles lie in one plane"
    )
    raise UserError(f"{body.name} cannot take part in self-contact: it is made of {kind}; name the solids and cloths in bodies")


def _check_rest(body: Deformable, faces: np.ndarray, thickness: float) -> None:
    """Raise a UserError if a body touches itself at rest."""
    for distance, vertex, triangle in near_pairs(body.rest, faces, thickness)[:1]:
        raise UserError(
            f"self-contact has the thickness {thickness:g} m, and in the rest shape of {body.name!r} vertex {vertex} is "
            f"{distance:.3g} m from triangle {faces[triangle].tolist()}, to which no edge connects it: give a smaller thickness"
        )
