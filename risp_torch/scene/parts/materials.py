"""Materials of deformable bodies: elastic constants in one of several conventions.

Any number may be a ``Param``. A number applies to all elements of a body; an array [E] has one value per element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from risp_torch.scene.arguments import Array, Number
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable, Sign
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, checked

Convention = Literal["lame", "energy"]
Constants = Callable[[Any, Any], tuple[Any, Any]]

# For each convention, the lam / mu at which the bulk (area) modulus is zero; above it, a material resists a change of volume.
MIN_RATIO_SOLID = {"lame": -2 / 3, "energy": 1 / 8}
MIN_RATIO_LINEAR = {"lame": -2 / 3, "energy": -2 / 3}
MIN_RATIO_PLANE = {"lame": -1.0, "energy": -2 / 9}


@checked
@dataclass(frozen=True, kw_only=True)
class Elastic:
    """Material of a solid or a flat body.

    Attributes:
        E, nu: Young's modulus [Pa] and Poisson's ratio of small strains, or
        mu, lam: two constants [Pa], which ``convention`` explains.
        convention: "lame": mu and lam are the Lamé constants of linear elasticity (mu is the shear modulus), which the energy
            has at small strains; "energy": they are the constants in the energy's own formula, as in gradSim. For "corotated" and
            "stvk" both are the same. For "neo_hookean" the energy's mu is 4/3 of Lamé's, and its lambda Lamé's plus 5/6 of Lamé's
            mu; for flat bodies 3/2, and plus 2/3.
        energy: "neo_hookean" (stable, Smith et al. 2018), "corotated" or "stvk"; flat bodies are "neo_hookean".
        damping: viscosity [Pa s], which damps deformation but not rotation.
    """

    E: Array | None = None
    nu: Array | None = None
    mu: Array | None = None
    lam: Array | None = None
    convention: Convention = "lame"
    energy: str = "neo_hookean"
    damping: Array = 0.0


@checked
@dataclass(frozen=True, kw_only=True)
class Actuation:
    """Change of the rest shape of elements over time.

    Attributes:
        values: [rows, E] with a row for each frame interval or, in a scene with ``controls``, that number per frame interval; or
            [rows, G] for G groups of elements.
        groups: [E] the column of ``values`` of each element; None if each has its own.
    """

    values: Array
    groups: Array | None = None


@checked
@dataclass(frozen=True, kw_only=True)
class Bending:
    """Bending of a cloth at its inner edges: moment k sin((phi - rest) / 2 + actuation) + c dphi/dt.

    Attributes:
        stiffness: k of every edge [N m], one number or one per edge, or
        rigidity: D of the sheet [N m], E thickness^3 / (12 (1 - nu^2)) of a plate, from which k of every edge is computed.
        damping: c of every edge [N m s].
        rest_angle: angle between the faces at an edge at zero moment, 0 for coplanar faces [rad]; a number, one per edge, or
            "mesh" for the angles of the mesh.
        actuation: angles added in the sine [rad], for M edges or groups of them; None for none.
    """

    stiffness: Array | None = None
    rigidity: Number | None = None
    damping: Array = 0.0
    rest_angle: Array | str = "mesh"
    actuation: Actuation | None = None


@checked
@dataclass(frozen=True, kw_only=True)
class Air:
    """Aerodynamic drag and lift of a cloth. The velocity of the air is the wind of the scene (``Scene.set_wind``).

    Attributes:
        drag: [kg/m3], coefficient of the force -drag area |n.u| u on a triangle with normal n and velocity u relative to the air.
        lift: [kg/m3], coefficient of the force -lift area (n.u) (|u| n - (n.u) u / |u|), perpendicular to u.
    """

    drag: Array = 0.0
    lift: Array = 0.0


@checked
@dataclass(frozen=True, kw_only=True)
class Shell:
    """Material of a cloth or thin shell: resistance to stretching and shearing, to bending, and by the air.

    Attributes:
        E, nu: Young's modulus [Pa] and Poisson's ratio of the sheet, in plane stress, with its
        thickness: [m], or
        mu, lam: two constants [N/m], which ``convention`` explains.
        convention: "lame": mu and lam are the plane Lamé constants of small strains, times the thickness; "energy": the
            constants in the energy's own formula (mu is 3/2 of Lamé's, lambda Lamé's plus 2/3 of Lamé's mu).
        damping: viscosity [N s/m], which damps deformation but not rotation.
        bending: bending stiffness and damping, none by default.
        air: drag and lift, none by default.
    """

    E: Array | None = None
    nu: Array | None = None
    thickness: Positive | None = None
    mu: Array | None = None
    lam: Array | None = None
    convention: Convention = "lame"
    damping: Array = 0.0
    bending: Bending | None = None
    air: Air | None = None


@checked
@dataclass(frozen=True, kw_only=True)
class Springs:
    """Springs between the points of a body.

    Attributes:
        indices: [S, 2] pairs of points.
        stiffness: N/m, a number or one for each spring [S].
        damping: damping of a spring's length rate [N s/m], a number or [S].
        rest_length: m, a number or [S]; None for the distances of the points.
    """

    indices: Array
    stiffness: Array
    damping: Array = 0.0
    rest_length: Array | None = None


@dataclass(frozen=True)
class Stiffness:
    """Conversion of a body's material parameters to the elastic constants of its elements.

    Attributes:
        name: the body's part of parameter names.
        convention: convention of mu and lam; "lame" for E and nu.
        uses_young_modulus: whether the parameters are "<name>.E" and "<name>.nu" instead of "<name>.mu" and "<name>.lam".
        constants: function from these two to the constants of the energy.
        count: number of elements.
        thickness: thickness of the sheet if E and nu are those of its material [m]; None otherwise.
    """

    name: str
    convention: Convention
    uses_young_modulus: bool
    constants: Constants
    count: int
    thickness: float | None

    def rows(self, values: Values) -> torch.Tensor:
        """[B, E, 3] mu, lambda of the energy, and damping."""
        first, second = ("E", "nu") if self.uses_young_modulus else ("mu", "lam")
        moduli = (element_rows(values[f"{self.name}.{key}"], self.count) for key in (first, second))
        mu, lam = self.constants(*moduli)
        return torch.stack([mu, lam, element_rows(values[f"{self.name}.damping"], self.count)], dim=-1)


def add_stiffness(
    table: ParameterTable, name: str, material: Elastic | Shell, *, count: int, units: tuple[str, str],
    from_young: Constants, from_lame: Constants, min_ratio: Mapping[Convention, float],
) -> Stiffness:  # fmt: skip
    """Add the constants of a material to the table.

    Args:
        table: table of the scene.
        name: name of the body.
        material: the material in the scene's description.
        count: number of elements.
        units: unit of mu and lam, and unit of the damping.
        from_young: function from E and nu to the constants of the energy.
        from_lame: function from the Lamé constants to those of the energy.
        min_ratio: for each convention, the lam / mu above which the material resists a change of volume.

    Raises:
        UserError: not exactly one pair of constants, or an invalid number.
    """
    pairs = {"E and nu": (material.E, material.nu), "mu and lam": (material.mu, material.lam)}
    complete_pairs = [pair for pair, (first, second) in pairs.items() if first is not None and second is not None]
    if len(complete_pairs) != 1 or any((a is None) != (b is None) for a, b in pairs.values()):
        raise UserError(f"the material of {name} needs E and nu, or mu and lam: give exactly one of the two pairs")
    uses_young_modulus = complete_pairs == ["E and nu"]
    if uses_young_modulus:
        add_element_parameter(table, f"{name}.E", material.E, count, unit="Pa", sign="positive")
        add_element_parameter(table, f"{name}.nu", material.nu, count, unit="", sign="poisson")
    else:
        add_element_parameter(table, f"{name}.mu", material.mu, count, unit=units[0], sign="positive")
        add_element_parameter(table, f"{name}.lam", material.lam, count, unit=units[0])
        bound = min_ratio[material.convention]
        mu, lam = (np.asarray(table[f"{name}.{key}"].value) for key in ("mu", "lam"))
        if not (lam > bound * mu).all():
            raise UserError(
                f"{name}.lam is {lam.min():g} {units[0]} and its mu {mu.max():g}: such a material expands without load: give lam "
                f"above {bound:.3g} mu"
            )
    add_element_parameter(table, f"{name}.damping", material.damping, count, unit=units[1], sign="not negative")
    constants = from_young if uses_young_modulus else from_lame if material.convention == "lame" else lambda mu, lam: (mu, lam)
    convention = "lame" if uses_young_modulus else material.convention
    return Stiffness(name, convention, uses_young_modulus, constants, count, getattr(material, "thickness", None))


def add_element_parameter(
    table: ParameterTable, name: str, value: Any, count: int, *, unit: str, sign: Sign | None = None
) -> None:
    """Add a parameter that all elements of a body share, or one for each of its ``count`` elements.

    Raises:
        UserError: there are fewer or more numbers than elements, or one has the wrong sign.
    """
    shape = np.shape(value.value if isinstance(value, Param) else value)
    if shape not in ((), (count,)):
        raise UserError(f"{name} has shape {shape}: give one number, or {(count,)}, one for each element")
    table.add(name, value, unit=unit, shape=shape, sign=sign)


def element_rows(value: torch.Tensor, count: int) -> torch.Tensor:
    """A parameter's values [B] or [B, E] as [B, E]."""
    return value if value.ndim == 2 else value[:, None].expand(-1, count)
