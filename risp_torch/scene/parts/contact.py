"""Numbers of a contact, and their names in the table of a scene."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from risp_torch.scene.arguments import Number
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

CONTACT_FIELDS = {"stiffness": "N/m", "damping": "N s/m", "friction_stiffness": "N s/m", "friction": ""}
_FIELDS_PER_AREA = {"stiffness": "N/m3", "damping": "N s/m3", "friction_stiffness": "N s/m3", "friction": ""}


@checked
@dataclass(frozen=True, kw_only=True)
class Contact:
    """Compliant contact with the ground (gradSim, appendix A).

    Attributes:
        stiffness: ke [N/m]; [N/m3] per area.
        damping: kd [N s/m]; [N s/m3] per area.
        friction_stiffness: kf [N s/m], slope of the relaxed Coulomb law at rest; [N s/m3] per area.
        friction: mu [1].
        per: what the first three numbers belong to. "point": every contact point, that is every vertex of the collision mesh, of
            a sphere its lowest point, of a capsule those of its ends, of a cylinder four of each rim. The same numbers on a finer
            mesh then are a stiffer body. "area": every square metre of surface, of which a vertex carries its share: of a rigid
            body the part that faces the ground, of a deformable one a third of the triangles about it. The motion then does not
            depend on how fine the mesh is; round shapes, too, touch with the vertices of their meshes.

    Raises:
        UserError: ``per`` is neither.
    """

    stiffness: Number
    damping: Number
    friction_stiffness: Number
    friction: Number
    per: Literal["point", "area"] = "point"

    def __post_init__(self) -> None:
        if self.per not in ("point", "area"):
            raise UserError(f"contact numbers per {self.per!r}: choose 'point' or 'area'")


def add_contact(table: ParameterTable, prefix: str, contact: Contact) -> None:
    """Name the four contact parameters under ``prefix``; negative values are errors, and zero stiffness is one."""
    if contact.per == "area":
        table.per_area.add(prefix)
    for field, unit in (_FIELDS_PER_AREA if contact.per == "area" else CONTACT_FIELDS).items():
        sign = "positive" if field == "stiffness" else "not negative"
        table.add(f"{prefix}.{field}", getattr(contact, field), unit=unit, sign=sign)


def meant_per_area(table: ParameterTable, contact: Contact | None, *, ground: bool) -> bool:
    """Whether the contact numbers of a body are per area: its own, or those of the ground."""
    return contact.per == "area" if contact is not None else ground and "ground.contact" in table.per_area
