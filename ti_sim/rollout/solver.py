"""Base class of all solvers: checks before a rollout and its adjoint, and marks of diverged worlds after them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ti_sim.base.arrays import Array, check_array
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, checked
from ti_sim.base.runtime import require
from ti_sim.base.tape import refuse_on_tape
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.rollout.divergence import mark_diverged_worlds


class Solver(ABC):
    """Rollouts of a batch of worlds and their adjoints, for any container of arrays.

    Subclasses implement the rollout. This class checks the arguments and marks the adjoints of diverged worlds.

    Attributes:
        model: the bodies, equal in every world.
        settings: time stepping, with ``dt`` [s] and ``substeps``.
        frame_names: names of the arrays that a rollout writes at its frames, in the order of ``frame_arrays``.
        force_names: names of the arrays of ``forces``; none by default.
        per_interval_inputs: names of the inputs that are constant over a frame interval, for messages.

    A rollout can be continued: the arrays at its last frame, and its ``last_arrays``, are the initial state of the next one. The
    input that holds array NAME of an initial state is NAME0.
    """

    frame_names: tuple[str, ...]
    force_names: tuple[str, ...] = ()
    per_interval_inputs: str

    def __init__(self, model: Any, settings: Any) -> None:
        """Bind a model to its time stepping.

        Args:
            model: the bodies.
            settings: time stepping.
        """
        self.model = model
        self.settings = settings

    def last_names(self, inputs: Any) -> tuple[str, ...]:
        """Names of ``last_arrays``: parts of the last state that the next step reads besides the arrays at the last frame."""
        return ()

    @checked
    def rollout(self, inputs: Any, frames: Count, *, adjoint: Adjoint | None = None, first_frame: FromZero = 0) -> Any:
        """Simulate ``frames`` frame intervals.

        Args:
            inputs: numbers of every world.
            frames: number of frame intervals; the result has one frame more, the initial one.
            adjoint: ``StoreAll()`` or ``Checkpoint(every=k)`` to store the states for ``rollout_adjoint``; None stores none.
            first_frame: frame at which the simulation begins. Above zero, the initial state is the last one of a rollout, and is
                not changed: the start of a simulation normalises quaternions, and projects velocities of smoke.

        Returns:
            Frames and stored states. A world that diverges is marked; its later frames are NaN.

        Raises:
            UserError: shapes, precision or numbers do not fit, there are inputs for fewer frame intervals, or a tape records
                (``RigidTape`` and ``DeformableTape`` record rollouts).
        """
        require()
        refuse_on_tape(f"{type(self).__name__}.rollout", recorded_by="RigidTape or DeformableTape")
        self._check(inputs)
        if inputs.frame_count is not None and inputs.frame_count < frames:
            raise UserError(
                f"frames={frames}, and there are {self.per_interval_inputs} for {inputs.frame_count} frame intervals: "
                "simulate fewer frames, or give more"
            )
        return self._compiled(self._simulate)(inputs, frames, adjoint, first_frame)

    def rollout_adjoint(self, rollout: Any, *bars: Array, last_bars: Sequence[Array] = ()) -> Any:
        """Adjoint of ``rollout``: from the adjoints of the frames to those of every input.

        Args:
            rollout: result of ``rollout`` with an adjoint.
            bars: derivatives of the loss with respect to the arrays of ``frame_names``, in their shapes.
            last_bars: those with respect to ``last_arrays``; zeros by default.

        Returns:
            Derivatives with respect to every array of the inputs; NaN for worlds that diverged. At kinks (of contacts and of
            clamped motors) they are one-sided: those of the active side.

        Raises:
            UserError: the rollout stored no states, or shapes or precision do not fit.
        """
        if rollout.adjoint is None:
            raise UserError(
                "this rollout kept no states: run it with adjoint=StoreAll() or Checkpoint(every=k) to differentiate it"
            )
        for name, bar, frame_array in zip(self.frame_names, bars, rollout.frame_arrays, strict=True):
            check_array(bar, f"{name}_bar", tuple(frame_array.shape))
        for name, bar, last_array in zip(self.last_names(rollout.inputs), last_bars, rollout.last_arrays, strict=bool(last_bars)):
            check_array(bar, f"{name}_bar", tuple(last_array.shape), double=str(last_array.dtype).endswith(("64", "f64")))
        result = self._compiled(self._differentiate)(rollout, bars, tuple(last_bars))
        mark_diverged_worlds(result.arrays(), rollout.diverged)
        return result

    @checked
    def forces(self, inputs: Any) -> tuple[Array, ...]:
        """Contact and joint forces at the initial state of the inputs, with which the step from this state begins.

        Args:
            inputs: numbers of every world; rows over time are those of the first frame interval.

        Returns:
            The arrays of ``force_names``.

        Raises:
            UserError: shapes, precision or numbers do not fit, or the solver does not compute these forces.
        """
        require()
        self._check(inputs)
        return self._compiled(self._forces)(inputs)

    def forces_adjoint(self, inputs: Any, *bars: Array) -> Any:
        """Adjoint of ``forces``: from the adjoints of its arrays to those of every input; one-sided at kinks.

        Args:
            inputs: of ``forces``, which checked them.
            bars: derivatives of the loss with respect to the arrays of ``force_names``.
        """
        return self._compiled(self._forces_adjoint)(inputs, bars)

    def _forces(self, inputs: Any) -> tuple[Array, ...]:
        """``forces`` of checked inputs."""
        raise self._no_forces_error()

    def _forces_adjoint(self, inputs: Any, bars: tuple[Array, ...]) -> Any:
        """``forces_adjoint`` of checked inputs."""
        raise self._no_forces_error()

    def _no_forces_error(self) -> UserError:
        return UserError(f"{type(self).__name__} has no contact and no joint forces: ask solvers of bodies or particles for them")

    def _check(self, inputs: Any) -> None:
        """Raise a UserError for inputs that do not fit the model."""
        inputs.check(self.model)

    def _compiled(self, function: Callable) -> Callable:
        """The function, with the compiler passes for its kernels selected."""
        return function

    @abstractmethod
    def _simulate(self, inputs: Any, frames: int, adjoint: Adjoint | None, first_frame: int) -> Any:
        """``rollout`` of checked arguments."""

    @abstractmethod
    def _differentiate(self, rollout: Any, bars: tuple[Array, ...], last_bars: tuple[Array, ...]) -> Any:
        """``rollout_adjoint`` of checked arguments, without the NaN of diverged worlds."""

    @abstractmethod
    def check_divergence(self, rollout: Any) -> None:
        """Raise a DivergenceError that names body and step when every world of the rollout diverged."""

    @abstractmethod
    def failed_steps(self, rollout: Any) -> np.ndarray:
        """[B, bodies] int32, first step after which the state of a body was not finite, -1 if it stayed finite."""
