"""Pictures a second of the surfaces of tetrahedral meshes, as in gradSim's Table 4 (right)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.raster.passes import make_passes
from benchmarks.raster.published import GRADSIM_RATES
from benchmarks.raster.scenes import make_inputs, surface_of, tetrahedra_box
from benchmarks.raster.speed import AGGREGATIONS
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from ti_render import render

PIXELS = 128
CUBE_SIDE = 1.3  # m, of the cube
CELLS = {
    100: (5, 2, 2), 200: (5, 4, 2), 400: (5, 4, 4), 1000: (8, 5, 5), 2000: (10, 8, 5), 5000: (10, 10, 10), 10000: (20, 10, 10),
}  # fmt: skip


def rates_table(counts: Sequence[int], *, repeats: int) -> Table:
    """Rates of cubes of ``counts`` tetrahedra each (keys of ``CELLS``)."""
    result = Table(
        f"Surfaces of tetrahedral meshes at {PIXELS} x {PIXELS} pixels, Phong (pictures/s)",
        ("tetrahedra", "faces", "covered", "SoftRas forward", "SoftRas backward", "DIB-R forward", "DIB-R backward",
         "gradSim forward", "gradSim backward, DP + DR", "DR alone", "SoftRas / gradSim, forward", "backward"),
    )  # fmt: skip
    for count in counts:
        vertices, tetrahedra = tetrahedra_box(*CELLS[count])
        if len(tetrahedra) != count:
            raise RuntimeError(f"the cube has {len(tetrahedra)} tetrahedra instead of {count}: the table would have another size")
        mesh = surface_of(CUBE_SIDE * vertices @ _view_rotation().T, tetrahedra)
        functions, covered_fraction = {}, 0.0
        for name in AGGREGATIONS:
            inputs, settings = make_inputs(mesh, PIXELS, aggregation=name)
            covered_fraction = float((render(inputs, settings).images[..., 3] > 0.5).float().mean())
            functions |= {(name, kind): run for kind, run in make_passes(inputs, settings, columns=False).items()}
        rates = {key: 1 / seconds for key, seconds in best_times(functions, repeats=repeats).items()}
        forward, physics, physics_and_rendering = GRADSIM_RATES[count]
        backward = 1 / (1 / physics_and_rendering - 1 / physics)
        result.add(
            f"{count:,}", f"{len(mesh[1]):,}", f"{100 * covered_fraction:.0f} %",
            *(format_number(rates[name, kind]) for name in AGGREGATIONS for kind in ("forward", "backward")),
            f"{forward:,.0f}", f"{physics_and_rendering:,.0f}", format_number(backward),
            format_ratio(rates["softras", "forward"] / forward),
            format_ratio(rates["softras", "backward"] / backward),
        )  # fmt: skip
    result.remarks.append(
        "Cubes of 5 tetrahedra a cell, whose surfaces are drawn. gradSim: Table 4 (right) of the paper (Jatavallabhula et al., "
        "ICLR "
        "2021), in Hz, not of this run. Its rasterisers run on CUDA only, so these are rates of a GPU; the paper names neither "
        "the "
        "GPU nor the size of the pictures for this table (elsewhere a laptop with an Intel i7 and a GeForce GTX 1060, and a "
        "V100). "
        "DR alone: rate of the rendering, computed from the rates of physics and rendering together (DP + DR) and of physics "
        "alone. "
        "The last two columns are ratios to gradSim's forward pass and to DR alone."
    )
    return result


def _view_rotation() -> np.ndarray:
    """Rotation [3, 3] after which three sides of a cube are visible from the x axis."""
    a, b = 0.6, 0.5
    about_z = np.array([(np.cos(a), -np.sin(a), 0.0), (np.sin(a), np.cos(a), 0.0), (0.0, 0.0, 1.0)])
    about_y = np.array([(np.cos(b), 0.0, np.sin(b)), (0.0, 1.0, 0.0), (-np.sin(b), 0.0, np.cos(b))])
    return about_y @ about_z
