"""Meshes of deformable bodies (SI units, float64, numpy only)."""

from ti_sim.meshes.files import read_sheet_mesh, read_solid_mesh, write_solid_mesh
from ti_sim.meshes.generators import box_hexes, box_tet10s, box_tets, gear_tets, sheet_disk, sheet_grid, sphere_tets
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh, quadratic
from ti_sim.meshes.tetrahedra import tetrahedralise

__all__ = [
    "SheetMesh", "SolidMesh", "box_hexes", "box_tet10s", "box_tets", "gear_tets", "quadratic", "read_sheet_mesh",
    "read_solid_mesh", "sheet_disk", "sheet_grid", "sphere_tets", "tetrahedralise", "write_solid_mesh",
]  # fmt: skip
