"""Parts of a deformable simulation: the immutable model of elements, and the settings of the solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, NotNegative, Positive, Real, checked
from ti_sim.deformable.families import ENERGIES, FAMILIES, TABLES
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.self_contact_layout import contact_table
from ti_sim.deformable.solids import rest_table
from ti_sim.deformable.triangles import triangle_rest_table
from ti_sim.rollout.time_steps import DeformableIntegrator, Plan, check_integrator, check_plan

SOLIDS = ("tet", "hex", "tet10")
_UNIT_TOLERANCE = 1e-6  # tolerance of the length of a unit normal

# Columns of ``DeformableModel.particle_table``.
HELD, PRESCRIBED, LOADED, GROUND_CONTACT = range(4)


def _no_rows(width: int, dtype: type) -> np.ndarray:
    return field(default_factory=lambda: np.zeros((0, width) if width else (0,), dtype=dtype))


@checked
@dataclass(frozen=True, kw_only=True)
class DeformableModel:
    """Particles, elements and boundary conditions, equal in every world.

    Solids have consecutive numbers: tetrahedra, then hexahedra, then ten-node tetrahedra, E in total.

    Attributes:
        particle_rest: [P, 3] positions at which every element has its rest shape [m].
        tet_indices: [E4, 4] particles of linear tetrahedra, (1 - 0) x (2 - 0) . (3 - 0) > 0.
        hex_indices: [E8, 8] of trilinear hexahedra: bottom quadrilateral counter-clockwise seen from +z, then the top one.
        tet10_indices: [E10, 10] of quadratic tetrahedra: 4 corners, then the middles of edges 01, 12, 02, 03, 13, 23.
        solid_energy: E names of ``ENERGIES``; () for "neo_hookean" everywhere.
        tri_indices: [T, 3] of triangles.
        tri_normal: [T, 3] zero for a membrane; for an element of a plane body, the unit normal of the plane.
        edge_indices: [M, 4] of bending edges between two triangles: opposite vertex of the first one, opposite vertex of the
            second one, start and end of the edge; (start, end, first opposite) is counter-clockwise, as (end, start, second).
        spring_indices: [S, 2] of springs.
        fixed: particles that never move.
        prescribed: K particles with prescribed velocity.
        loaded: L particles with an external force.
        contact: particles that collide with the ground.
        ground_height: z of the ground plane [m].
        contact_triangles: [S, 3] particles of the triangles with self-contact. Each collides with the vertices of all of them,
            except its own corners and vertices connected to these by an edge.
        self_thickness: distance of self-contact [m].
        parts: (name, first particle, last particle + 1) of each body, for messages.
    """

    particle_rest: np.ndarray
    tet_indices: np.ndarray = _no_rows(4, np.int32)
    hex_indices: np.ndarray = _no_rows(8, np.int32)
    tet10_indices: np.ndarray = _no_rows(10, np.int32)
    solid_energy: tuple[str, ...] = ()
    tri_indices: np.ndarray = _no_rows(3, np.int32)
    tri_normal: np.ndarray = _no_rows(3, np.float64)
    edge_indices: np.ndarray = _no_rows(4, np.int32)
    spring_indices: np.ndarray = _no_rows(2, np.int32)
    fixed: np.ndarray = _no_rows(0, np.int32)
    prescribed: np.ndarray = _no_rows(0, np.int32)
    loaded: np.ndarray = _no_rows(0, np.int32)
    contact: np.ndarray = _no_rows(0, np.int32)
    ground_height: Real = 0.0
    contact_triangles: np.ndarray = _no_rows(3, np.int32)
    self_thickness: NotNegative = 0.0
    parts: tuple[tuple[str, int, int], ...] = ()

    def __post_init__(self) -> None:
        shape = np.shape(self.particle_rest)
        if len(shape) != 2 or shape[1] != 3 or shape[0] == 0:
            raise UserError(f"particle_rest has shape {shape}, and a deformable model needs [P, 3] with a particle at least")
        if not np.isfinite(self.particle_rest).all():
            bad = int(np.argwhere(~np.isfinite(self.particle_rest))[0, 0])
            raise UserError(f"the rest position of {self.particle_name(bad)} is not finite: give finite numbers")
        for family, table in TABLES.items():
            self._check_indices(getattr(self, table), table, FAMILIES[family])
        self._check_indices(self.contact_triangles, "contact_triangles", 3)
        if self.with_self_contact and not 0 < self.self_thickness < np.inf:
            raise UserError(f"self_thickness is {self.self_thickness} m: give a finite length above zero")
        for name in ("fixed", "prescribed", "loaded", "contact"):
            self._check_particles(getattr(self, name), name)
        fixed_and_prescribed = np.intersect1d(self.fixed, self.prescribed)
        if len(fixed_and_prescribed):
            raise UserError(
                f"{self.particle_name(int(fixed_and_prescribed[0]))} is fixed and has a prescribed velocity: choose one of both"
            )
        if self.solid_energy and len(self.solid_energy) != self.solid_count:
            raise UserError(
                f"solid_energy holds {len(self.solid_energy)} names for {self.solid_count} solids: give one per solid"
            )
        for name in set(self.solid_energy) - set(ENERGIES):
            raise UserError(f"solid energy {name!r} is unknown: choose one of {', '.join(ENERGIES)}")
        self._check_normals()
        _ = self.tables  # raises for elements with an invalid rest shape

    def _check_indices(self, indices: np.ndarray, table: str, corners: int) -> None:
        """Raise a UserError unless ``indices`` are [rows, corners] different particles of the model."""
        indices = np.asarray(indices)
        if indices.ndim != 2 or indices.shape[1] != corners or indices.dtype.kind not in "iu":
            raise UserError(
                f"{table} has shape {indices.shape} of {indices.dtype}, and whole numbers of shape (rows, {corners}) are needed"
            )
        bad = np.argwhere((indices < 0) | (indices >= self.particle_count))
        if len(bad):
            e, corner = (int(k) for k in bad[0])
            raise UserError(
                f"{table}[{e}] names particle {int(indices[e, corner])}, and there are particles 0 to {self.particle_count - 1}"
            )
        if len(indices):
            ordered = np.sort(indices, axis=1)
            repeated = np.argwhere((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if len(repeated):
                e = int(repeated[0, 0])
                raise UserError(f"{table}[{e}] names a particle twice, {indices[e].tolist()}: its corners must differ")

    def _check_particles(self, indices: np.ndarray, name: str) -> None:
        """Raise a UserError unless ``indices`` are different particles of the model."""
        indices = np.asarray(indices)
        if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
            raise UserError(f"{name} has shape {indices.shape} of {indices.dtype}, and a row of whole numbers is needed")
        for index in indices[(indices < 0) | (indices >= self.particle_count)]:
            raise UserError(f"{name} names particle {int(index)}, and there are particles 0 to {self.particle_count - 1}")
        values, counts = np.unique(indices, return_counts=True)
        for index in values[counts > 1]:
            raise UserError(f"{name} names {self.particle_name(int(index))} twice: name it once")

    def _check_normals(self) -> None:
        """Raise a UserError if normals do not fit the triangles."""
        if np.shape(self.tri_normal) != (self.triangle_count, 3):
            raise UserError(
                f"tri_normal has shape {np.shape(self.tri_normal)}, and {(self.triangle_count, 3)} is needed: a row of zeros for "
                "each membrane, a unit normal for each triangle of a flat body"
            )
        length = np.linalg.norm(self.tri_normal, axis=1)
        bad = np.flatnonzero(~((length == 0) | (np.abs(length - 1) < _UNIT_TOLERANCE)))
        if len(bad):
            raise UserError(
                f"tri_normal[{int(bad[0])}] has length {length[bad[0]]:g}: give zeros for a membrane, a unit one in a flat body"
            )

    @property
    def particle_count(self) -> int:
        """Number of particles P."""
        return len(self.particle_rest)

    @property
    def solid_count(self) -> int:
        """Number of solids E."""
        return len(self.tet_indices) + len(self.hex_indices) + len(self.tet10_indices)

    @property
    def triangle_count(self) -> int:
        """Number of triangles T."""
        return len(self.tri_indices)

    @property
    def edge_count(self) -> int:
        """Number of bending edges M."""
        return len(self.edge_indices)

    @property
    def spring_count(self) -> int:
        """Number of springs S."""
        return len(self.spring_indices)

    @property
    def with_self_contact(self) -> bool:
        """Whether any triangles have self-contact."""
        return len(self.contact_triangles) > 0

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families of elements in the model."""
        return tuple(family for family, table in TABLES.items() if len(getattr(self, table)))

    @property
    def solid_energy_numbers(self) -> np.ndarray:
        """Index of the energy of each solid in ``ENERGIES``, [E] int32."""
        return np.array([ENERGIES.index(name) for name in self.solid_energy] or [0] * self.solid_count, dtype=np.int32)

    @cached_property
    def particle_table(self) -> np.ndarray:
        """Rows (fixed or prescribed, index in ``prescribed`` or -1, index in ``loaded`` or -1, collides with the ground), [P, 4].
        """
        rows = np.tile(np.array([0, -1, -1, 0], dtype=np.int32), (self.particle_count, 1))
        fixed, prescribed_row, load_row, contact = (
            np.asarray(indices, dtype=np.int64) for indices in (self.fixed, self.prescribed, self.loaded, self.contact)
        )
        rows[fixed, HELD] = 1
        rows[prescribed_row, HELD] = 1
        rows[prescribed_row, PRESCRIBED] = np.arange(len(prescribed_row))
        rows[load_row, LOADED] = np.arange(len(load_row))
        rows[contact, GROUND_CONTACT] = 1
        return rows

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """Tables of the model for kernels, by the names of ``DeformableArrays``."""
        tables = {table: np.asarray(getattr(self, table), dtype=np.int32) for table in TABLES.values()}
        tables |= {"particle_table": self.particle_table, "solid_energy": self.solid_energy_numbers}
        for kind in SOLIDS:
            tables[f"{kind}_rest"] = rest_table(
                kind, self.particle_rest, tables[TABLES[kind]], element_name=partial(self.element_name, kind)
            )
        tables["tri_rest"] = triangle_rest_table(self.particle_rest, tables["tri_indices"], self.tri_normal)
        if self.with_self_contact:
            tables["self_contact"] = contact_table(np.asarray(self.contact_triangles, dtype=np.int32), self.particle_count)
        return tables

    def part_of(self, particle: int) -> str:
        """Name of the part to which a particle belongs, "particles" if the model has no parts."""
        return next((name for name, first, stop in self.parts if first <= particle < stop), "particles")

    def particle_name(self, particle: int) -> str:
        """Name of a particle for messages."""
        for name, first, stop in self.parts:
            if first <= particle < stop:
                return f"particle {particle - first} of {name!r}"
        return f"particle {particle}"

    def element_name(self, family: str, element: int) -> str:
        """Name of an element of a family for messages: its index among those of its part."""
        element_words = {"hex": "hexahedron", "tet": "tetrahedron", "tet10": "ten-node tetrahedron", "edge": "bending edge"}
        table = np.asarray(getattr(self, TABLES[family]))
        for name, first, stop in self.parts:
            in_part = (table[:, 0] >= first) & (table[:, 0] < stop)
            if in_part[element]:
                return f"{element_words.get(family, family)} {int(in_part[:element].sum())} of {name!r}"
        return f"{element_words.get(family, family)} {element}"

    def element_of(self, particle: int) -> str | None:
        """Name of an element with this particle, None if there is none."""
        for family, table in TABLES.items():
            elements = np.flatnonzero((np.asarray(getattr(self, table)) == particle).any(axis=1))
            if len(elements):
                return self.element_name(family, int(elements[0]))
        return None


@checked
@dataclass(frozen=True)
class DeformableSettings:
    """Time stepping of a deformable simulation.

    Attributes:
        dt: physics step [s].
        substeps: steps per frame.
        plan: "world" (one thread per world, for many worlds or few elements), "element" (one thread per element, for few worlds
            with many elements), or "auto" (selected by device and size); implicit steps have "auto" only.
        integrator: "semi_implicit" (Euler; explicit, so that stiff materials need short steps), or an implicit one:
            "backward_euler", "bdf2" or "sdirk2" (``implicit.stages``).
        implicit: convergence of implicit steps; not used by explicit steps.
    """

    dt: Positive
    substeps: Count
    plan: Plan = "auto"
    integrator: DeformableIntegrator = "semi_implicit"
    implicit: ImplicitSettings = ImplicitSettings()

    def __post_init__(self) -> None:
        check_integrator(self.integrator, DeformableIntegrator)
        check_plan(self.plan, self.integrator)
