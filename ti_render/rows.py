"""Which row of an input serves which image: an input of n rows (n divides the M images) serves image m with row m n // M."""

from ti_sim.base.runtime import ti


@ti.func
def row_of(m, n, images):
    """Row, out of ``n``, that serves image ``m`` of ``images``."""
    return m * n // images


@ti.func
def is_finite(x):
    """Whether ``x`` is neither nan nor infinite."""
    return not (ti.math.isnan(x) or ti.math.isinf(x))
