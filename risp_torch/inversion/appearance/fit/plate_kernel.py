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
def _body_colour(bodies: ti.template(), row_of_pixel: ti.template(), t, p, k):
    """Colour that the bodies add to a pixel, in a channel."""
    colour, row = 0.0, row_of_pixel[t, p]
    if row >= 0:
        colour = bodies[row, k]
    return colour


@ti.func
def _solve_block(
    film: ti.template(), plate_share: ti.template(), bodies: ti.template(), row_of_pixel: ti.template(),
    pixel_weight: ti.template(), weight: ti.template(), first, stop, reweights, inverse_squared_scale, regularisation, grey,
    plate: ti.template(), total: ti.template(), weight_sum: ti.template(),
):  # fmt: skip
    """Solve the plate of the pixels ``first`` to ``stop``, with ``weight`` or with weights at the plate before."""
    for p in range(first, stop):
        weight_sum[p] = regularisation
        for k in ti.static(range(3)):
            total[p, k] = regularisation * grey
    for t in range(film.shape[0]):
        for p in range(first, stop):
            share, step_weight = plate_share[t, p], weight[t, p]
            behind = ti.Vector([film[t, p, k] - _body_colour(bodies, row_of_pixel, t, p, k) for k in range(3)])
            if reweights:
                square = 0.0
                for k in ti.static(range(3)):
                    square += (behind[k] - share * plate[p, k]) * (behind[k] - share * plate[p, k])
                factor = 1.0 / (1.0 + square * inverse_squared_scale)
                step_weight = pixel_weight[t, p] * factor * factor
            weight_sum[p] = weight_sum[p] + step_weight * share * share
            for k in ti.static(range(3)):
                total[p, k] = total[p, k] + step_weight * share * behind[k]
    for p in range(first, stop):
        for k in ti.static(range(3)):
            plate[p, k] = total[p, k] / weight_sum[p]


@kernel
def solve_plates(
    iterations_per_block: int, film: ti.types.ndarray(), plate_share: ti.types.ndarray(), bodies: ti.types.ndarray(),
    row_of_pixel: ti.types.ndarray(), pixel_weight: ti.types.ndarray(), weight: ti.types.ndarray(), begins_with_plate: int,
    reweights: int, inverse_squared_scale: float, regularisation: float, grey: float, plate: ti.types.ndarray(),
    total: ti.types.ndarray(), residual: ti.types.ndarray(), plate_weight: ti.types.ndarray(), objective: ti.types.ndarray(),
):  # fmt: skip
    """Solve the plate of every pixel; write the residual, the objective and the weights of the next step.

    Reads film [n, P, 3], plate_share [n, P], bodies [R, 3], row_of_pixel [n, P] int32 (-1 where there is no body) and
    pixel_weight [n, P]; all real arrays are f64. The plate [P, 3] is first solved with ``weight`` [n, P] where
    ``begins_with_plate`` is 0, and then, where ``reweights`` is 1, with the weights of a step at the residual that it leaves.
    Writes the plate, residual [n, P, 3], objective [P] and plate_weight [P]: the sum over the frames of the squared share times
    the weight of a step from here. Where ``reweights`` is 1, it writes these weights to ``weight``. total [P, 3] is workspace. A
    thread owns BLOCK neighbouring pixels, whose numbers in a frame are contiguous. No adjoint: the look is at its minimum.
    """
    for index in range((plate.shape[0] + BLOCK - 1) // BLOCK * iterations_per_block):
        if index % iterations_per_block > 0:
            continue
        first = index // iterations_per_block * BLOCK
        stop = ti.min(first + BLOCK, plate.shape[0])
        for stage in range(2):
            if (stage == 0 and begins_with_plate == 0) or (stage == 1 and reweights == 1):
                _solve_block(
                    film, plate_share, bodies, row_of_pixel, pixel_weight, weight, first, stop, stage == 1,
                    inverse_squared_scale, regularisation, grey, plate, total, plate_weight,
                )  # fmt: skip
        for p in range(first, stop):
            plate_weight[p], objective[p] = regularisation, 0.0
        for t in range(film.shape[0]):
            for p in range(first, stop):
                share, square = plate_share[t, p], 0.0
                for k in ti.static(range(3)):
                    difference = film[t, p, k] - _body_colour(bodies, row_of_pixel, t, p, k) - share * plate[p, k]
                    residual[t, p, k] = difference
                    square += difference * difference
                factor = 1.0 / (1.0 + square * inverse_squared_scale)
                objective[p] = objective[p] + pixel_weight[t, p] * factor * square
                if reweights == 1:
                    weight[t, p] = pixel_weight[t, p] * factor * factor
                plate_weight[p] = plate_weight[p] + weight[t, p] * share * share


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
    plate, residual = plate.copy(), np.empty_like(system.film)
    used = np.empty_like(system.weight) if weight is None else weight.copy()
    plate_weight, objective = np.empty(pixels), np.empty(pixels)
    solve_plates(
        iterations_per_task(-(-pixels // BLOCK)),
        system.film, system.plate_share, bodies, system.row_of_pixel, system.weight, used, int(weight is None), int(reweights),
        1.0 / robust_scale**2, regularisation, grey, plate, np.empty_like(plate), residual,
        plate_weight, objective,
    )  # fmt: skip
    return PlateFit(plate, residual, used, plate_weight, float(objective.sum()))
