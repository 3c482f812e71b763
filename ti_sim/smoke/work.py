"""Work arrays of the kernels that run all steps of a rollout in one launch, and views of parts of arrays inside kernels."""

from collections.abc import Callable
from typing import Any

from ti_sim.base.arrays import zeros_in_same_library
from ti_sim.base.bundles import Array, Static, bundle, views
from ti_sim.base.runtime import ti
from ti_sim.smoke.advection import Fields, Flow
from ti_sim.smoke.rows import read_entry, write_entry

# Entries of ``Work`` in the forward and in the backward pass. ``ACCELERATED`` and ``FLOW_BAR`` have the vorticity in their cells.
STATE, FILLED, FORWARD, FORWARD_FILLED, ADVECTED, ACCELERATED = range(6)
BAR, STATE_BAR, FLOW_BAR, FILLED_BAR, FORWARD_BAR, BACKWARD_BAR, FORWARD_FILLED_BAR, SUMS, BUOYANCY_SUMS = range(6, 15)
FORWARD_ENTRIES, ENTRIES = 6, 15


def _callable_in_kernels(function: Callable) -> Callable:
    """``function``, which kernels call at compile time without a warning of Taichi."""
    function._is_wrapped_kernel = True
    return function


class Slice:
    """Part of an array inside kernels, with one index fixed: ``Slice(a, 1, k)[b, i, j]`` is ``a[b, k, i, j]``."""

    _data_oriented = _is_wrapped_kernel = True

    def __init__(self, array: Any, axis: int, index: Any) -> None:
        """Fix an index of an argument of a kernel.

        Args:
            array: the argument.
            axis: axis of the index.
            index: its value.
        """
        self._array, self._axis, self._index = array, axis, index

    def __getitem__(self, indices: tuple) -> Any:
        """Element at the other indices, to read and to write."""
        builder = ti.lang.impl.get_runtime().compiling_callable.ast_builder()
        return ti.lang.impl.subscript(builder, self._array, *indices[: self._axis], self._index, *indices[self._axis :])

    @property
    def shape(self) -> tuple:
        """Lengths of the other axes."""
        lengths = list(self._array.shape)
        del lengths[self._axis]
        return tuple(lengths)


@bundle
class Scheme:
    """The parts of a step that a kernel is compiled for.

    Attributes:
        advection: as in ``SmokeSettings``.
        has_obstacles: whether there are obstacles.
    """

    advection: Static
    has_obstacles: Static

    @property
    def filled(self) -> int:
        """Entry of the state with values inside obstacles."""
        return FILLED if self.has_obstacles else STATE

    @property
    def forward(self) -> int:
        """Entry of the advected fields, before MacCormack's correction."""
        return FORWARD if self.advection == "maccormack" else ADVECTED

    @property
    def forward_filled(self) -> int:
        """Entry of the advected fields with values inside obstacles."""
        return FORWARD_FILLED if self.has_obstacles else FORWARD

    @property
    def filled_bar(self) -> int:
        """Entry of the adjoint of ``filled``."""
        return FILLED_BAR if self.has_obstacles else STATE_BAR

    @property
    def forward_filled_bar(self) -> int:
        """Entry of the adjoint of ``forward_filled``."""
        return FORWARD_FILLED_BAR if self.has_obstacles else FORWARD_BAR


@bundle
class Work:
    """Fields of all worlds by their entries.

    Attributes:
        cells: [entries, B, X, Y] densities, vorticities, and their adjoints.
        faces_x: [entries, B, X + 1, Y] velocities along x.
        faces_y: [entries, B, X, Y + 1] velocities along y.
    """

    cells: Array
    faces_x: Array
    faces_y: Array

    @_callable_in_kernels
    def fields(self, entry: int) -> Fields:
        """Density and velocities of an entry."""
        return Fields(Slice(self.cells, 0, entry), self.flow(entry))

    @_callable_in_kernels
    def flow(self, entry: int) -> Flow:
        """Velocities of an entry."""
        return Flow(Slice(self.faces_x, 0, entry), Slice(self.faces_y, 0, entry))

    @_callable_in_kernels
    def at_cells(self, entry: int) -> Slice:
        """Numbers of the cells of an entry."""
        return Slice(self.cells, 0, entry)


@_callable_in_kernels
def row_of(rows: Fields, row: Any) -> Fields:
    """Row of arrays [B, rows, ...] inside kernels."""
    x, y = rows.flow.x, rows.flow.y
    return Fields(Slice(rows.density, 1, row), Flow(Slice(x, 1, row), Slice(y, 1, row)))


def work_arrays(state: Fields, entries: int) -> Work:
    """Zeros for a number of entries, in the container of ``state``."""
    return Work(*(zeros_in_same_library(field, (entries, *field.shape)) for field in state.arrays()))


def set_entry(work: Work, entry: int, fields: Fields) -> None:
    """Write fields to an entry."""
    for field, entries in zip(fields.arrays(), (work.cells, work.faces_x, work.faces_y), strict=True):
        write_entry(*views(field, entries), entry)


def get_entry(work: Work, entry: int, fields: Fields) -> None:
    """Read an entry into fields."""
    for field, entries in zip(fields.arrays(), (work.cells, work.faces_x, work.faces_y), strict=True):
        read_entry(*views(entries), entry, *views(field))
