"""Arrays of a deformable simulation under one name, as the functions of kernels take them."""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class DeformableArrays:
    """Tables of the model and inputs of a kernel under one name.

    Attributes:
        features: ``Features``, known while kernels are compiled.
        gather: True where the corners of elements have slots of their own (see ``corners``), known while kernels are compiled.
        particle_table: [P, 4] int32, see ``DeformableModel.particle_table``.
        solid_energy: [E] int32, number of each solid's energy.
        others: tables and inputs of the names in ``DeformableModel`` and ``DeformableInputs``.
    """

    features: Any
    gather: Any
    particle_table: Any
    tet_indices: Any
    hex_indices: Any
    tet10_indices: Any
    tri_indices: Any
    edge_indices: Any
    spring_indices: Any
    solid_energy: Any
    tet_rest: Any
    hex_rest: Any
    tet10_rest: Any
    tri_rest: Any
    particle_mass: Any
    particle_material: Any
    solid_material: Any
    solid_actuation: Any
    tri_material: Any
    tri_actuation: Any
    edge_material: Any
    edge_actuation: Any
    spring_material: Any
    gravity: Any
    wind: Any
    load: Any
    prescribed_qd: Any
    _data_oriented = True  # lets a kernel keep it in a variable

    @property
    def energies(self) -> tuple[int, ...]:
        """Numbers of the solid energies that occur."""
        return self.features.energies

    @property
    def with_damping(self) -> bool:
        """Whether any element may be damped."""
        return self.features.with_damping

    @property
    def with_air(self) -> bool:
        """Whether any triangle may feel the air."""
        return self.features.with_air

    def indices_of(self, family: str) -> Any:
        """Particles of the elements of a family."""
        return getattr(self, TABLES[family])


def deformable_arrays(*arguments: Any) -> DeformableArrays:
    """``DeformableArrays`` of a kernel's arguments, made while the kernel is compiled."""
    return DeformableArrays(*arguments)


@dataclass(frozen=True)
class DeformableBars:
    """Adjoints of a kernel under one name: of the inputs' shapes, but gravity by particle and wind by triangle.

    Attributes:
        gravity: [B, P, 3], what each particle gives.
        wind: [B, T, 3], what each triangle gives.
        others: adjoints of the inputs of the same names.
    """

    particle_mass: Any
    particle_material: Any
    solid_material: Any
    solid_actuation: Any
    tri_material: Any
    tri_actuation: Any
    edge_material: Any
    edge_actuation: Any
    spring_material: Any
    gravity: Any
    wind: Any
    load: Any
    prescribed_qd: Any
    _data_oriented = True


def deformable_bars(*arguments: Any) -> DeformableBars:
    """``DeformableBars`` of a kernel's arguments, made while the kernel is compiled."""
    return DeformableBars(*arguments)


DeformableArrays.indices_of._is_wrapped_kernel = True
deformable_arrays._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels
deformable_bars._is_wrapped_kernel = True
