"""Families of elements, and what kernels are compiled for."""

from dataclasses import dataclass

# Position of a solid energy in this row is its number in kernels.
ENERGIES = ("neo_hookean", "corotated", "stvk")

# Families of elements in their order, with the names of their tables, and their corners.
TABLES = {
    "tet": "tet_indices", "hex": "hex_indices", "tet10": "tet10_indices", "triangle": "tri_indices", "edge": "edge_indices",
    "spring": "spring_indices",
}  # fmt: skip
FAMILIES = {"tet": 4, "hex": 8, "tet10": 10, "triangle": 3, "edge": 4, "spring": 2}


@dataclass(frozen=True)
class Features:
    """What the elements of a simulation are: kernels are compiled for these only.

    Attributes:
        families: names of the families of elements that there are, of "tet", "hex", "tet10", "triangle", "edge", "spring".
        energies: numbers of the solid energies that occur, rising (see ``ENERGIES``).
        with_damping: whether any element may be damped.
        with_air: whether any triangle may feel the air.
        controls: rows of actuation in a frame.
        with_self_contact: whether there are triangles that touch vertices.
    """

    families: tuple[str, ...]
    energies: tuple[int, ...]
    with_damping: bool
    with_air: bool
    controls: int = 1
    with_self_contact: bool = False
