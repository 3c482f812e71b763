"""Plate, residual and weights of a look in one pass over the film, for films of even exposure and any plate.

Each pixel of the picture is independent of the others.
"""

from dataclasses import dataclass

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from ti_sim.base.bundles import kernel
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_in_double, ti

BLOCK = 64  # pixels that a thread visits together


@ti.func
def _subtract_bodies(
    film: ti.template(), bodies: ti.template(), row_of_pixel: ti.template(), first, stop, frames, pixels, behind: ti.template()
):  # fmt: skip
    """Write the film without the colours of the bodies, of the pixels ``first`` to ``stop``."""
    for t in range(frames):
        for at in range(t * pixels + first, t * pixels + stop):
            row = row_of_pixel[at]
            for k in ti.static(range(3)):
                behind[3 * at + k] = film[3 * at + k]
            if row >= 0:
                for k in ti.static(range(3)):
                    behind[3 * at + k] = behind[3 * at + k] - bodies[3 * row + k]


@ti.func
def _solve_block(
    behind: ti.template(), plate_share: ti.template(), pixel_weight: ti.template(), weight: ti.template(), first, stop, frames,
    pixels, reweights, inverse_squared_scale, regularisation, grey, plate: ti.template(), total: ti.template(),
    weight_sum: ti.template(),
):  # fmt: skip
    """Solve the plate of the pixels ``first`` to ``stop``, with ``weight`` or with weights at the plate before."""
    for p in range(first, stop):
        weight_sum[p] = regularisation
        for k in ti.static(range(3)):
            total[3 * p + k] = regularisation * grey
    for t in range(frames):
        for p in range(first, stop):
            at = t * pixels + p
            share, step_weight = plate_share[at], 0.0
            colour = ti.Vector([behind[3 * at + k] for k in range(3)])
            if reweights:
                square = 0.0
                for k in ti.static(range(3)):
                    difference = colour[k] - share * plate[3 * p + k]
                    square += difference * difference
                factor = 1.0 / (1.0 + square * inverse_squared_scale)
                step_weight = pixel_weight[at] * factor * factor
            else:
                step_weight = weight[at]
            step_weight *= share
            weight_sum[p] = weight_sum[p] + step_weight * share
            for k in ti.static(range(3)):
                total[3 * p + k] = total[3 * p + k] + step_weight * colour[k]
    for p in range(first, stop):
        for k in ti.static(range(3)):
            plate[3 * p + k] = total[3 * p + k] / weight_sum[p]


@kernel
def solve_plates(
    iterations_per_block: int, frames: int, pixels: int, film: ti.types.ndarray(), plate_share: ti.types.ndarray(),
    bodies: ti.types.ndarray(), row_of_pixel: ti.types.ndarray(), pixel_weight: ti.types.ndarray(), weight: ti.types.ndarray(),
    begins_with_plate: int, reweights: int, inverse_squared_scale: float, regularisation: float, grey: float,
    plate: ti.types.ndarray(), total: ti.types.ndarray(), residual: ti.types.ndarray(), plate_weight: ti.types.ndarray(),
    objective: ti.types.ndarray(),
):  # fmt: skip
    """Solve the plate of every pixel; write the residual, the objective and the weights of the next step.

    Arrays are flat: the shape of another would be loaded again after each store. Reads film [n P 3], plate_share [n P],
    bodies [R 3], row_of_pixel [n P] int32 (-1 where there is no body) and pixel_weight [n P]; all real arrays are f64. The plate
    [P 3] is first solved with ``weight`` [n P] where ``begins_with_plate`` is 0, and then, where ``reweights`` is 1, with the
    weights of a step at the residual that it leaves. Writes the plate, residual [n P 3], objective [P] and plate_weight [P]: the
    sum over the frames of the squared share times the weight of a step from here. Where ``reweights`` is 1, it writes these
    weights to ``weight``. total [P 3] is workspace. A thread owns BLOCK neighbouring pixels, whose numbers in a frame are
    contiguous. No adjoint: the look is at its minimum.
    """
    for index in range((pixels + BLOCK - 1) // BLOCK * iterations_per_block):
        if index % iterations_per_block > 0:
            continue
        first = index // iterations_per_block * BLOCK
        stop = ti.min(first + BLOCK, pixels)
        _subtract_bodies(film, bodies, row_of_pixel, first, stop, frames, pixels, residual)
        if begins_with_plate == 0:
            _solve_block(
                residual, plate_share, pixel_weight, weight, first, stop, frames, pixels, False, inverse_squared_scale,
                regularisation, grey, plate, total, plate_weight,
            )  # fmt: skip
        if reweights == 1:
            _solve_block(
                residual, plate_share, pixel_weight, weight, first, stop, frames, pixels, True, inverse_squared_scale,
                regularisation, grey, plate, total, plate_weight,
            )  # fmt: skip
        for p in range(first, stop):
            plate_weight[p], objective[p] = regularisation, 0.0
        for t in range(frames):
            for p in range(first, stop):
                at = t * pixels + p
                share, square = plate_share[at], 0.0
                for k in ti.static(range(3)):
                    difference = residual[3 * at + k] - share * plate[3 * p + k]
                    residual[3 * at + k] = difference
                    square += difference * difference
                factor, step_weight = 1.0 / (1.0 + square * inverse_squared_scale), pixel_weight[at]
                objective[p] = objective[p] + step_weight * factor * square
                if reweights == 1:
                    step_weight *= factor * factor
                    weight[at] = step_weight
                else:
                    step_weight = weight[at]
                plate_weight[p] = plate_weight[p] + step_weight * share * share


@dataclass(frozen=True, eq=False)
class PlateFit:
    """A film with the plate that fits it best behind given bodies.

    Attributes:
        plate: [P, 3].
        residual: [n, P, 3] film minus picture.
        weight: [n, P] weights of the pixels in a step from here.
        plate_weight: [P] sum over the frames of weight times squared share of the plate, regularisation included.
        objective: weighted robust sum of squares, without regularisation.
    """

    plate: np.ndarray
    residual: np.ndarray
    weight: np.ndarray
    plate_weight: np.ndarray
    objective: float


@compiled_in_double
def fit_plate(
    system: AppearanceSystem, bodies: np.ndarray, plate: np.ndarray, weight: np.ndarray | None, *, reweights: bool,
    robust_scale: float, regularisation: float, grey: float,
) -> PlateFit:  # fmt: skip
    """Solve the plate of any picture behind bodies.

    Args:
        system: one motion's pixels.
        bodies: [R, 3] colours that the bodies add to their pixels.
        plate: [P, 3] where the weights of the first solution come from, without ``weight``.
        weight: [n, P] weights of the first solution, or None.
        reweights: whether a second solution has the weights at the residual of the first; they are kept otherwise.
        robust_scale: as in ``LookSettings``.
        regularisation: weight of the squared difference of the plate from ``grey``.
        grey: linear colour.
    """
    pixels = len(plate)
    plate, residual = np.array(plate, order="C"), np.empty(system.film.shape)
    used = np.empty(system.weight.shape) if weight is None else np.array(weight, order="C")
    plate_weight, objective = np.empty(pixels), np.empty(pixels)
    solve_plates(
        iterations_per_task(-(-pixels // BLOCK)), system.frames, pixels,
        system.film.reshape(-1), system.plate_share.reshape(-1), bodies.reshape(-1), system.row_of_pixel.reshape(-1),
        system.weight.reshape(-1), used.reshape(-1), int(weight is None), int(reweights), 1.0 / robust_scale**2, regularisation,
        grey, plate.reshape(-1), np.empty(3 * pixels), residual.reshape(-1), plate_weight, objective,
    )  # fmt: skip
    return PlateFit(plate, residual, used, plate_weight, float(objective.sum()))
