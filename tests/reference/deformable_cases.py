"""Deformable models and inputs that several tests use."""

from __future__ import annotations

import numpy as np

from ti_sim.deformable.bending import bending_edges, edge_stiffness
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import ENERGIES, DeformableModel
from ti_sim.deformable.solids import corner_volumes, energy_constants, lame_from_young, rest_table
from ti_sim.deformable.triangles import triangle_areas
from ti_sim.meshes import SheetMesh, SolidMesh, box_hexes, box_tet10s

GRAVITY = 9.81


def inputs_for(model: DeformableModel, *, worlds: int = 1, frames: int = 1, **arrays: object) -> DeformableInputs:
    """Inputs at rest in the rest shape with unit masses, without gravity, and with zeros for all else that is not given.

    Args:
        model: what the inputs are for.
        worlds: B.
        frames: F.
        arrays: attributes of the inputs, each broadcast to its shape; shapes without B, or B and F, will do.
    """
    p, solids, triangles, edges = model.particle_count, model.solid_count, model.triangle_count, model.edge_count
    shapes = {
        "particle_q0": (p, 3), "particle_qd0": (p, 3), "particle_mass": (p,), "particle_contact": (p, 4),
        "solid_material": (solids, 3), "solid_actuation": (frames, solids), "tri_material": (triangles, 5),
        "tri_actuation": (frames, triangles), "edge_material": (edges, 3), "edge_actuation": (frames, edges),
        "spring_material": (model.spring_count, 3), "gravity": (3,), "wind": (3,), "load": (frames, len(model.loaded), 3),
        "prescribed_qd": (frames, len(model.prescribed), 3), "self_contact": (4,),
    }  # fmt: skip
    given = {"particle_q0": model.particle_rest, "particle_mass": 1.0} | arrays
    assert set(given) <= set(shapes)
    filled = {name: np.broadcast_to(given.get(name, 0.0), (worlds, *shape)) for name, shape in shapes.items()}
    return DeformableInputs(**{name: np.array(array, dtype=np.float64, order="C") for name, array in filled.items()})


def everything(
    *, worlds: int = 2, frames: int = 2, seed: int = 0, energies: tuple[str, ...] = ENERGIES
) -> tuple[DeformableModel, DeformableInputs]:
    """A small model with every kind of solid and sheet, hinges, springs, held, driven, loaded and touching particles.

    Elements share particles; all numbers are drawn, and the shapes are moderately deformed, some of them near the ground.

    Args:
        worlds: B.
        frames: F.
        seed: of the numbers.
        energies: of the solids, in turns.
    """
    draw = np.random.default_rng(seed)
    cube, quadratic = box_hexes((1.0, 1.0, 1.0), (1, 1, 1)), box_tet10s((1.0, 1.0, 1.0), (1, 1, 1))
    cubes = [cube.vertices[cube.indices[0]] + offset for offset in ((0.5, 0.5, 0.5), (0.5, 0.5, 2.5), (2.5, 0.5, 0.5))]
    quadratics = [quadratic.vertices[quadratic.indices[0]] + (4.0, k * 1.5, 0.5) for k in range(3)]
    flat = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 2, 0)], dtype=float) + (0, 4.0, 0.5)
    rest = np.vstack([*cubes, *quadratics, flat])
    rest[:54] += draw.uniform(-0.08, 0.08, (54, 3))
    rest[54:, :2] += draw.uniform(-0.08, 0.08, (5, 2))
    hexes = np.arange(24).reshape(3, 8)
    tet10s = 24 + np.arange(30).reshape(3, 10)
    tets = np.concatenate([hexes[:, [0, 1, 3, 4]], hexes[:, [6, 5, 7, 2]]])
    triangles = 54 + np.array([(0, 1, 2), (0, 2, 3), (3, 2, 4), (0, 1, 2)])
    normals = np.array([(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 1)], dtype=float)
    edges = np.array([(57, 55, 54, 56), (58, 54, 56, 57), (2, 8, 1, 9)])
    model = DeformableModel(
        particle_rest=rest,
        tet_indices=tets,
        hex_indices=hexes,
        tet10_indices=tet10s,
        solid_energy=tuple(energies[k % len(energies)] for k in range(12)),
        tri_indices=triangles,
        tri_normal=normals,
        edge_indices=edges,
        spring_indices=np.array([(0, 24), (5, 57), (57, 30)]),
        fixed=np.array([3, 40]),
        prescribed=np.array([17, 56]),
        loaded=np.array([50, 6, 2]),
        contact=np.array([0, 1, 2, 8, 25, 54, 58, 11]),
        ground_height=0.25,
    )
    b, solids, t, m, s = worlds, 12, 4, 3, 3
    uniform = draw.uniform
    inputs = inputs_for(
        model,
        worlds=worlds,
        frames=frames,
        particle_q0=rest + uniform(-0.15, 0.15, (b, 59, 3)),
        particle_qd0=draw.normal(size=(b, 59, 3)),
        particle_mass=uniform(0.5, 2.0, (b, 59)),
        particle_contact=uniform((100, 1, 1, 0.1), (300, 20, 10, 0.9), (b, 59, 4)),
        solid_material=uniform((50, 50, 0.5), (200, 200, 5), (b, solids, 3)),
        solid_actuation=uniform(-0.2, 0.2, (b, frames, solids)),
        tri_material=uniform((50, 50, 0.5, 0.5, 0.5), (200, 200, 5, 2, 2), (b, t, 5)),
        tri_actuation=uniform(-0.2, 0.2, (b, frames, t)),
        edge_material=uniform((5, 0.1, -0.5), (20, 1, 0.5), (b, m, 3)),
        edge_actuation=uniform(-0.5, 0.5, (b, frames, m)),
        spring_material=uniform((50, 1, 0.5), (100, 5, 2), (b, s, 3)),
        gravity=draw.normal(size=(b, 3)) + (0, 0, -GRAVITY),
        wind=draw.normal(size=(b, 3)),
        load=10 * draw.normal(size=(b, frames, 3, 3)),
        prescribed_qd=draw.normal(size=(b, frames, 2, 3)),
        self_contact=(100.0, 1.0, 1.0, 0.3),
    )
    return model, inputs


def solid_body(
    mesh: SolidMesh,
    *,
    young: float = 1e5,
    poisson: float = 0.3,
    density: float = 1000.0,
    damping: float = 0.0,
    energy: str = "neo_hookean",
    elements: dict[str, object] | None = None,
    **arrays: object,
) -> tuple[DeformableModel, DeformableInputs]:
    """One solid of one material.

    Args:
        mesh: its elements.
        young: E [Pa].
        poisson: nu [1].
        density: kg/m3.
        damping: Pa s.
        energy: one of ``ENERGIES``.
        elements: other attributes of the model (fixed, contact, ...).
        arrays: see ``inputs_for``.
    """
    model = DeformableModel(
        particle_rest=mesh.vertices,
        solid_energy=(energy,) * len(mesh.indices),
        **{f"{mesh.kind}_indices": mesh.indices},
        **(elements or {}),
    )
    mu, lam = energy_constants(energy, *lame_from_young(young, poisson))
    volumes = corner_volumes(mesh.kind, rest_table(mesh.kind, mesh.vertices, mesh.indices))
    mass = np.bincount(mesh.indices.ravel(), density * volumes.ravel(), len(mesh.vertices))
    return model, inputs_for(model, **{"particle_mass": mass, "solid_material": (mu, lam, damping)} | arrays)


def sheet_body(
    mesh: SheetMesh,
    *,
    density: float = 1.0,
    membrane: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0),
    rigidity: float = 0.0,
    elements: dict[str, object] | None = None,
    **arrays: object,
) -> tuple[DeformableModel, DeformableInputs]:
    """One sheet, its mass a third of each triangle's on each corner.

    Args:
        mesh: its triangles.
        density: kg/m2.
        membrane: constants mu and lambda of the energy [N/m], damping [N s/m], drag and lift [kg/m3].
        rigidity: flexural rigidity D [N m].
        elements: other attributes of the model (fixed, ...).
        arrays: see ``inputs_for``.
    """
    triangles = np.asarray(mesh.triangles)
    edges = bending_edges(triangles)
    model = DeformableModel(
        particle_rest=mesh.vertices,
        tri_indices=triangles,
        tri_normal=np.zeros((len(triangles), 3)),
        edge_indices=edges,
        **(elements or {}),
    )
    shares = np.repeat(density * triangle_areas(mesh.vertices, triangles) / 3, 3)
    hinges = np.zeros((len(edges), 3))
    hinges[:, 0] = edge_stiffness(rigidity, mesh.vertices, edges)
    given = {
        "particle_mass": np.bincount(triangles.ravel(), shares, len(mesh.vertices)),
        "tri_material": membrane,
        "edge_material": hinges,
    }
    return model, inputs_for(model, **given | arrays)
