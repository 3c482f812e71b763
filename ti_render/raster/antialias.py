"""Anti-aliasing: the mean of s x s samples in every pixel, its adjoint and its tangent."""

from ti_sim.base.arrays import Array, flat_view
from ti_sim.base.runtime import ti

# One thread averages all channels of a pixel, and the number of samples is a compile-time constant: with a thread for each
# channel and loops of run-time length, these kernels were as slow as the rasteriser. Arrays are flat: an index into several
# dimensions is computed from the shape of the array, which is loaded again after each store.


@ti.func
def _first_sample(pixel, width, side: ti.template()):
    """First entry of the first sample of a pixel, whose number counts the pixels of all images."""
    return 4 * side * (pixel // width * side * width + pixel % width)


@ti.kernel
def _average(samples: ti.types.ndarray(), side: ti.template(), width: int, pictures: ti.types.ndarray()):
    """Average side x side samples: reads samples [... s H s W 4], writes pictures [... H W 4], both flat.

    Adjoint: ``_average_adjoint``. It is its own tangent, as it is linear.
    """
    for pixel in range(pictures.shape[0] // 4):
        first = _first_sample(pixel, width, side)
        for k in ti.static(range(4)):
            total = 0.0
            for j, i in ti.static(ti.ndrange(side, side)):
                total += samples[first + 4 * (j * side * width + i) + k]
            pictures[4 * pixel + k] = total * (1.0 / (side * side))


@ti.kernel
def _average_adjoint(pictures_bar: ti.types.ndarray(), side: ti.template(), width: int, samples_bar: ti.types.ndarray()):
    """Adjoint of ``_average``: writes samples_bar [... s H s W 4] from pictures_bar [... H W 4], both flat."""
    for pixel in range(pictures_bar.shape[0] // 4):
        first = _first_sample(pixel, width, side)
        for k in ti.static(range(4)):
            bar = pictures_bar[4 * pixel + k] * (1.0 / (side * side))
            for j, i in ti.static(ti.ndrange(side, side)):
                samples_bar[first + 4 * (j * side * width + i) + k] = bar


def average_samples(samples: Array, side: int, pictures: Array) -> None:
    """Average side x side samples, of pictures or of their tangents.

    Args:
        samples: [..., side H, side W, 4].
        side: samples along each side of a pixel.
        pictures: [..., H, W, 4], written.
    """
    with flat_view(samples) as flat_samples, flat_view(pictures) as flat_pictures:
        _average(flat_samples, side, pictures.shape[-2], flat_pictures)


def average_samples_adjoint(pictures_bar: Array, side: int, samples_bar: Array) -> None:
    """Adjoint of ``average_samples``: writes samples_bar [..., side H, side W, 4] from pictures_bar [..., H, W, 4]."""
    with flat_view(pictures_bar) as flat_pictures_bar, flat_view(samples_bar) as flat_samples_bar:
        _average_adjoint(flat_pictures_bar, side, pictures_bar.shape[-2], flat_samples_bar)
