"""Families of elements, and the features that kernels are compiled for."""

from dataclasses import dataclass, replace

# The index of a solid energy in this tuple is its number in kernels.
ENERGIES = ("neo_hookean", "corotated", "stvk")

# Families of elements in order, with the names of their index tables and their numbers of corners.
TABLES = {
    "tet": "tet_indices", "hex": "hex_indices", "tet10": "tet10_indices", "triangle": "tri_indices", "edge": "edge_indices",
    "spring": "spring_indices",
}  # fmt: skip
FAMILIES = {"tet": 4, "hex": 8, "tet10": 10, "triangle": 3, "edge": 4, "spring": 2}


@dataclass(frozen=True)
class Features:
    """Features of the elements of a simulation: kernels are compiled for these only.

    Attributes:
        families: names of the families in the model, of "tet", "hex", "tet10", "triangle", "edge", "spring".
        energies: numbers of the solid energies in the model, ascending (see ``ENERGIES``).
        with_damping: whether any element has damping.
        with_air: whether any triangle has air forces.
        controls: control rows (rows of actuation) per frame.
        with_self_contact: whether any triangles have self-contact.
    """

    families: tuple[str, ...]
    energies: tuple[int, ...]
    with_damping: bool
    with_air: bool
    controls: int = 1
    with_self_contact: bool = False

    @property
    def elastic(self) -> "Features":
        """Features of the same elements without damping, air and self-contact."""
        return replace(self, with_damping=False, with_air=False, with_self_contact=False)
