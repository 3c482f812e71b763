"""Model and inputs as kernel arguments, and the sums of their adjoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import ParamSpec, TypeVar

import numpy as np

from ti_sim.base.arrays import ints_in_same_library, reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import Array, Static, bundle, views
from ti_sim.base.runtime import ti, without_cfg_optimisation, without_subexpression_elimination
from ti_sim.deformable.families import TABLES, Features
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.self_contact_layout import BAR_ROWS
from ti_sim.deformable.states import add_and_clear, sum_rows

P = ParamSpec("P")
R = TypeVar("R")

SUM_STEPS = 1024  # whose parameter adjoints are summed before they are added to the sum over the rollout

# Adjoints to which every step adds: of all inputs but the initial state and those that have one row per control row or frame.
_SUMMED_INPUTS = tuple(
    field.name
    for field in fields(DeformableInputs)
    if field.name not in ("particle_q0", "particle_qd0") and not {"F", "R"} & set(field.metadata["shape"])
)


@bundle
class DeformableArrays(DeformableInputs):
    """Arguments of the kernels: the inputs and the tables of the model.

    Attributes:
        features: features that the kernels are compiled for.
        particle_table: [P, 4] int32, see ``DeformableModel.particle_table``.
        solid_energy: [E] int32, index of the energy of each solid.
        others: tables of ``DeformableModel`` of the same names.
        gather: target of the element forces: False for the particles, True for a slot per corner, or a ``ThreadCopy`` of the
            particles (see ``corners``).
    """

    features: Static
    particle_table: Array
    tet_indices: Array
    hex_indices: Array
    tet10_indices: Array
    tri_indices: Array
    edge_indices: Array
    spring_indices: Array
    solid_energy: Array
    tet_rest: Array
    hex_rest: Array
    tet10_rest: Array
    tri_rest: Array
    gather: Static = False

    def indices_of(self, family: str) -> Array:
        """Particles of the elements of a family."""
        return getattr(self, TABLES[family])


DeformableArrays.indices_of._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


_TABLES = {field.name for field in fields(DeformableArrays)} - {field.name for field in fields(DeformableInputs)}


def zeros(like: Array, shape: tuple[int, ...]) -> Array:
    """Real zeros in the container of ``like``; an empty array is a numpy array if the container does not support empty ones."""
    if 0 in shape and isinstance(like, ti.Ndarray):
        like = np.zeros(0)
    return zeros_in_same_library(like, shape)


def compiled_for(model: DeformableModel, function: Callable[P, R]) -> Callable[P, R]:
    """``function`` with compiler passes selected for the kernels of this model.

    Kernels of many families or energies would compile for half a minute. They are compiled without common-subexpression
    elimination and run about a seventh slower.
    """
    is_large = len(model.families) > 2 or len(np.unique(model.solid_energy_numbers)) > 1
    return (without_subexpression_elimination if is_large else without_cfg_optimisation)(function)


def features_of(model: DeformableModel, inputs: DeformableInputs, *, differentiable: bool = False) -> Features:
    """Features that kernels must be compiled for.

    Args:
        model: the particles, elements and boundary conditions.
        inputs: numbers of every world.
        differentiable: True includes damping and air forces that are zero, because their derivatives may not be zero.
    """
    solid, triangle, edge, spring = (
        to_numpy(array) for array in (inputs.solid_material, inputs.tri_material, inputs.edge_material, inputs.spring_material)
    )
    has_damping = solid[..., 2].any() or triangle[..., 2].any() or edge[..., 1].any() or spring[..., 1].any()
    has_membranes = not np.any(model.tri_normal, axis=1).all()
    return Features(
        families=model.families,
        energies=tuple(int(number) for number in np.unique(model.solid_energy_numbers)),
        with_damping=bool(has_damping or differentiable),
        with_air=bool(has_membranes and (differentiable or triangle[..., 3:].any())),
        controls=inputs.controls,
        with_self_contact=model.with_self_contact,
    )


def prepare(model: DeformableModel, inputs: DeformableInputs, *, differentiable: bool = False) -> DeformableArrays:
    """Combine the tables of a model and the inputs into kernel arguments.

    Args:
        model: the particles, elements and boundary conditions.
        inputs: inputs of all worlds, of the shapes that the model needs.
        differentiable: whether the arguments are for adjoint kernels.
    """
    tables = {name: _table(inputs.particle_mass, values) for name, values in model.tables.items() if name in _TABLES}
    return DeformableArrays(*inputs.arrays(), features=features_of(model, inputs, differentiable=differentiable), **tables)


def _table(like: Array, values: np.ndarray) -> Array:
    """A table in the container of ``like``; an empty one is a numpy array if the container does not support empty ones."""
    container = np.zeros(0) if values.size == 0 and isinstance(like, ti.Ndarray) else like
    return (ints_in_same_library if values.dtype.kind == "i" else reals_in_same_library)(container, values)


class AdjointSums:
    """Adjoints of the inputs of a rollout while its steps add to them. They are sums of partial sums (one sum over 1e4 steps
    would lose two digits in f32), kept per particle, triangle or chunk where many of these add to one number.
    """

    def __init__(self, model: DeformableModel, inputs: DeformableInputs) -> None:
        """Set all adjoints to zero.

        Args:
            model: the particles, elements and boundary conditions.
            inputs: inputs of the rollout.
        """
        like, b = inputs.particle_mass, inputs.world_count
        self.bars = inputs.zeros()
        rows = {
            "gravity": (b, model.particle_count, 3), "wind": (b, model.triangle_count, 3),
            "self_contact": (b, BAR_ROWS * model.with_self_contact, 4),
        }  # fmt: skip
        self._rows = {name: zeros(like, shape) for name, shape in rows.items()}
        self._partial_sums = {name: zeros(like, tuple(self._total(name).shape)) for name in _SUMMED_INPUTS}

    def partial_sums(self) -> DeformableInputs:
        """Adjoints to which steps add; chunks of triangles add to different rows [B, rows, 4] of ``self_contact``."""
        return replace(self.bars, **self._partial_sums)

    def add_partial_sums(self) -> None:
        """Add the partial sums since the last call to the sums over the rollout."""
        for name, addend in self._partial_sums.items():
            if 0 not in addend.shape:
                add_and_clear(*views(addend, self._total(name)))

    def finish(self) -> None:
        """Write the adjoints of gravity, wind and self-contact."""
        for name, rows in self._rows.items():
            if 0 not in rows.shape:
                sum_rows(*views(rows, getattr(self.bars, name)))

    def _total(self, name: str) -> Array:
        return self._rows.get(name, getattr(self.bars, name))
