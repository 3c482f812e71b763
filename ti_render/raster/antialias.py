"""Anti-aliasing: the mean of s x s samples in every pixel, and its adjoint; it is linear, so that it is its own tangent."""

from ti_sim.base.runtime import ti


@ti.kernel
def average_samples(samples: ti.types.ndarray(), side: int, pictures: ti.types.ndarray()):
    """Average side x side samples: reads samples [M, s H, s W, 4], writes pictures [M, H, W, 4]. Adjoint: ``spread_samples``."""
    share = 1.0 / (side * side)
    for m, y, x, k in ti.ndrange(pictures.shape[0], pictures.shape[1], pictures.shape[2], pictures.shape[3]):
        total = 0.0
        for j in range(side):
            for i in range(side):
                total += samples[m, y * side + j, x * side + i, k]
        pictures[m, y, x, k] = total * share


@ti.kernel
def spread_samples(pictures_bar: ti.types.ndarray(), side: int, samples_bar: ti.types.ndarray()):
    """Adjoint of ``average_samples``: writes samples_bar [M, s H, s W, 4] from pictures_bar [M, H, W, 4]."""
    share = 1.0 / (side * side)
    for m, y, x, k in ti.ndrange(samples_bar.shape[0], samples_bar.shape[1], samples_bar.shape[2], samples_bar.shape[3]):
        samples_bar[m, y, x, k] = pictures_bar[m, y // side, x // side, k] * share


@ti.kernel
def average_columns(samples_dot: ti.types.ndarray(), side: int, pictures_dot: ti.types.ndarray()):
    """``average_samples`` of every column of tangents: reads [M, K, s H, s W, 4], writes [M, K, H, W, 4]."""
    share = 1.0 / (side * side)
    for m, c, y, x in ti.ndrange(
        pictures_dot.shape[0], pictures_dot.shape[1], pictures_dot.shape[2], pictures_dot.shape[3]
    ):
        for k in ti.static(range(4)):
            total = 0.0
            for j in range(side):
                for i in range(side):
                    total += samples_dot[m, c, y * side + j, x * side + i, k]
            pictures_dot[m, c, y, x, k] = total * share
