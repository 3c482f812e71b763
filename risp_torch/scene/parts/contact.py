"""Contact parameters, and their names in the table of a scene."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from risp_torch.scene.arguments import Number
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.rules import Positive, checked
from ti_sim.contact.restitution import damping_for_restitution

CONTACT_FIELDS = {"stiffness": "N/m", "damping": "N s/m", "friction_stiffness": "N s/m", "friction": ""}
OPTIONAL_FIELDS = {"bristle_stiffness": "N/m", "radius": "m"}
_PER_AREA = {"N/m": "N/m3", "N s/m": "N s/m3"}


@checked
@dataclass(frozen=True, kw_only=True)
class Contact:
    """Compliant contact with the ground (gradSim, appendix A).

    Attributes:
        stiffness: ke [N/m]; [N/m3] per area.
        damping: kd [N s/m]; [N s/m3] per area.
        friction_stiffness: kf [N s/m], slope of the relaxed Coulomb law at rest; [N s/m3] per area.
        friction: mu [1].
        bristle_stiffness: kt [N/m]; [N/m3] per area. Each contact point with the ground then has an elastic tangential spring
            with the slip limit mu f_n, which holds a body below the friction cone without creep (``ti_sim.contact.bristle``); kf
            is its damping. Two bodies that collide have one spring for their whole contact, with the means of kt, kf and mu
            (``ti_sim.articulated.pair_bristle``). For rigid bodies and links, with semi-implicit steps. None: friction is
            viscous at rest.
        radius: of balls about the contact points [m], as of rounded corners: a body then touches with its shape grown by this
            radius. For rigid bodies that touch the ground alone. None: the points themselves touch.
        per: reference of the first three parameters. "point": per contact point, that is per vertex of the collision mesh; for
            a sphere its lowest point, for a capsule those of its ends, for a cylinder four on each rim. On a finer mesh, the
            same parameters make a stiffer contact. "area": per square metre of surface, distributed over the vertices: for a
            rigid body its area facing the ground, for a deformable body a third of the adjacent triangles. The motion then does
            not depend on the resolution of the mesh; round shapes also use the vertices of their meshes.

    Raises:
        UserError: ``per`` is not one of these.
    """

    stiffness: Number
    damping: Number
    friction_stiffness: Number
    friction: Number
    bristle_stiffness: Number | None = None
    radius: Number | None = None
    per: Literal["point", "area"] = "point"

    @classmethod
    @checked
    def of_restitution(
        cls, *, stiffness: Positive, restitution: Positive, mass: Positive, friction_stiffness: Number, friction: Number
    ) -> Contact:
        """Contact per point whose damping gives a coefficient of restitution, for normal impacts on one contact point.

        The damping is a separate parameter afterwards: it does not follow a stiffness that changes.

        Args:
            stiffness: ke [N/m].
            restitution: speed after an impact relative to that before it, above 0 and at most 1.
            mass: impacting mass [kg]: the mass of a ball, or ``ti_sim.effective_mass`` of a corner; if several points hit
                simultaneously, such as the four of a face, the mass per point.
            friction_stiffness, friction: as of ``Contact``.

        Returns:
            The contact, per point; its damping is ``ti_sim.damping_for_restitution``.

        Raises:
            UserError: a number is out of its range.
        """
        damping = float(damping_for_restitution(stiffness, restitution, mass))
        return cls(stiffness=stiffness, damping=damping, friction_stiffness=friction_stiffness, friction=friction)


def add_contact(table: ParameterTable, prefix: str, contact: Contact) -> None:
    """Add the contact parameters under ``prefix``, except those that are None; negative values and zero stiffness are errors."""
    if contact.per == "area":
        table.per_area.add(prefix)
    for field, unit in (CONTACT_FIELDS | OPTIONAL_FIELDS).items():
        value = getattr(contact, field)
        if value is not None:
            sign = "positive" if field == "stiffness" else "not negative"
            table.add(f"{prefix}.{field}", value, unit=_PER_AREA.get(unit, unit) if contact.per == "area" else unit, sign=sign)


def is_per_area(table: ParameterTable, contact: Contact | None, *, has_ground: bool) -> bool:
    """Whether the contact parameters of a body, its own or those of the ground, are per area."""
    return contact.per == "area" if contact is not None else has_ground and "ground.contact" in table.per_area
