"""Observations of a film in a solved look: pixels moved towards the target where the residual is large, in one pass."""

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from ti_sim.base.bundles import kernel
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_in_double, ti

TASKS = 64  # tasks of a film


@kernel
def write_observations(
    iterations_per_block: int, tasks: int, film: ti.types.ndarray(), plate: ti.types.ndarray(), position: ti.types.ndarray(),
    plate_share: ti.types.ndarray(), bodies: ti.types.ndarray(), row_of_pixel: ti.types.ndarray(), gain: ti.types.ndarray(),
    offset: ti.types.ndarray(), inverse_squared_scale: float, observed: ti.types.ndarray(),
):  # fmt: skip
    """Write the observations of the pixels of n frames.

    Reads film [n, Q, 3], plate [Q, 3], position [Q] int32 of each pixel among the P active ones (-1 for others, which show the
    plate alone), plate_share [n, P], bodies [R, 3], row_of_pixel [n, P] int32 (-1 without body), gain and offset [n, 3]. Writes
    observed [n, 3 Q + 1], but for the last column. film and observed have the working precision, other real arrays are f64. No
    adjoint.
    """
    for index in range(tasks * iterations_per_block):
        if index % iterations_per_block > 0:
            continue
        task, pixels = index // iterations_per_block, film.shape[1]
        for t in range(film.shape[0]):
            for p in range(pixels * task // tasks, pixels * (task + 1) // tasks):
                colour, active = ti.Vector([plate[p, k] for k in range(3)]), position[p]
                if active >= 0:
                    colour *= plate_share[t, active]
                    row = row_of_pixel[t, active]
                    if row >= 0:
                        for k in ti.static(range(3)):
                            colour[k] += bodies[row, k]
                square = 0.0
                for k in ti.static(range(3)):
                    colour[k] = gain[t, k] * colour[k] + offset[t, k] - film[t, p, k]
                    square += colour[k] * colour[k]
                factor = 1.0 / ti.sqrt(1.0 + square * inverse_squared_scale)
                for k in ti.static(range(3)):
                    observed[t, 3 * p + k] = film[t, p, k] + factor * colour[k]


@compiled_in_double
def observations(system: AppearanceSystem, look: Look, plate: np.ndarray, film: np.ndarray, robust_scale: float) -> np.ndarray:
    """Observations [n, 3 H W + 1] of a film [n, H W, 3] in a look; the last is 0.

    Args:
        system: one motion's pixels.
        look: its look.
        plate: [H W, 3] background plate of every pixel.
        film: the target, in the working precision.
        robust_scale: as in ``LookSettings``.
    """
    frames, pixels = film.shape[:2]
    position = np.full(pixels, -1, dtype=np.int32)
    position[system.active] = np.arange(len(system.active), dtype=np.int32)
    observed = np.empty((frames, 3 * pixels + 1), dtype=film.dtype)
    observed[:, -1] = 0
    bodies = look.bodies(system) if len(system.row) else np.zeros((1, 3))  # kernels take no empty array
    share = system.plate_share, system.row_of_pixel
    if not len(system.active):
        share = np.ones((frames, 1)), np.full((frames, 1), -1, dtype=np.int32)
    write_observations(
        iterations_per_task(TASKS), TASKS, film, plate, position, share[0], bodies, share[1],
        np.ascontiguousarray(look.gain), np.ascontiguousarray(look.offset), 1.0 / robust_scale**2, observed,
    )  # fmt: skip
    return observed
