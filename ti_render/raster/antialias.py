"""Anti-aliasing: the mean of s x s samples in every pixel, its adjoint and its tangent."""

from ti_sim.base.runtime import ti

# One thread averages all channels of a pixel, and the number of samples is a compile-time constant: with a thread for each
# channel and loops of run-time length, these kernels were as slow as the rasteriser.


@ti.kernel
def average_samples(samples: ti.types.ndarray(), side: ti.template(), pictures: ti.types.ndarray()):
    """Average side x side samples: reads samples [M, s H, s W, 4], writes pictures [M, H, W, 4].

    Adjoint: ``average_samples_adjoint``; tangent: ``average_samples_jvp``.
    """
    height, width = pictures.shape[1], pictures.shape[2]
    for pixel in range(pictures.shape[0] * height * width):
        x, y, m = pixel % width, pixel // width % height, pixel // (width * height)
        for k in ti.static(range(4)):
            total = 0.0
            for j, i in ti.static(ti.ndrange(side, side)):
                total += samples[m, y * side + j, x * side + i, k]
            pictures[m, y, x, k] = total * (1.0 / (side * side))


@ti.kernel
def average_samples_adjoint(pictures_bar: ti.types.ndarray(), side: ti.template(), samples_bar: ti.types.ndarray()):
    """Adjoint of ``average_samples``: writes samples_bar [M, s H, s W, 4] from pictures_bar [M, H, W, 4]."""
    height, width = pictures_bar.shape[1], pictures_bar.shape[2]
    for pixel in range(pictures_bar.shape[0] * height * width):
        x, y, m = pixel % width, pixel // width % height, pixel // (width * height)
        for k in ti.static(range(4)):
            bar = pictures_bar[m, y, x, k] * (1.0 / (side * side))
            for j, i in ti.static(ti.ndrange(side, side)):
                samples_bar[m, y * side + j, x * side + i, k] = bar


@ti.kernel
def average_samples_jvp(samples_dot: ti.types.ndarray(), side: ti.template(), pictures_dot: ti.types.ndarray()):
    """Tangent of ``average_samples`` in every column: reads [M, K, s H, s W, 4], writes [M, K, H, W, 4]."""
    columns, height, width = pictures_dot.shape[1], pictures_dot.shape[2], pictures_dot.shape[3]
    for pixel in range(pictures_dot.shape[0] * columns * height * width):
        x, y, row = pixel % width, pixel // width % height, pixel // (width * height)
        m, c = row // columns, row % columns
        for k in ti.static(range(4)):
            total = 0.0
            for j, i in ti.static(ti.ndrange(side, side)):
                total += samples_dot[m, c, y * side + j, x * side + i, k]
            pictures_dot[m, c, y, x, k] = total * (1.0 / (side * side))
