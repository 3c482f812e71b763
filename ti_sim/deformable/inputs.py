"""Inputs of a deformable rollout."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ti_sim.base.arrays import to_numpy
from ti_sim.base.bundles import Array, bundle
from ti_sim.base.errors import UserError
from ti_sim.deformable.families import TABLES
from ti_sim.deformable.model import DeformableModel
from ti_sim.rollout.arrays import Arrays, array


@bundle
class DeformableInputs(Arrays):
    """Inputs of B worlds and F frame intervals, differentiable in all of them; also the container of their adjoints.

    Axes of elements that the model does not have are of size 0. The arrays are contiguous and of the working precision, all in
    one kind of container; an empty array may always be a numpy array.
    """

    particle_q0: Array = array("B P 3", "initial positions [m]")
    particle_qd0: Array = array(
        "B P 3", "initial velocities [m/s]; for a prescribed particle, the velocity in the damping of the first step"
    )
    particle_mass: Array = array("B P", "kg; not read for fixed and prescribed particles")
    particle_contact: Array = array(
        "B P 4",
        "contact with the ground: stiffness ke [N/m], damping kd [N s/m], tangential damping kf [N s/m], friction "
        "coefficient mu [1], per particle",
    )
    solid_material: Array = array(
        "B E 3", "parameters mu and lambda of the energy [Pa] (not always those of linear elasticity), and viscous damping [Pa s]"
    )
    solid_actuation: Array = array("B R E", "change of the rest volume [1]; the C control rows divide a frame interval equally")
    tri_material: Array = array("B T 5", "parameters mu and lambda of the energy [N/m], damping [N s/m], drag and lift [kg/m3]")
    tri_actuation: Array = array("B R T", "change of the rest area [1]")
    edge_material: Array = array("B M 3", "bending stiffness [N m] and damping [N m s], rest angle [rad]")
    edge_actuation: Array = array("B R M", "added to half the deviation of the angle from rest [rad]")
    spring_material: Array = array("B S 3", "stiffness [N/m], damping [N s/m], rest length [m]")
    gravity: Array = array("B 3", "m/s2")
    wind: Array = array("B 3", "velocity of the air [m/s]")
    load: Array = array("B F L 3", "external force [N], constant over a frame interval")
    prescribed_qd: Array = array("B F K 3", "prescribed velocity [m/s], constant over a frame interval")
    self_contact: Array = array("B 4", "ke, kd, kf, mu of self-contact, as in ``particle_contact``")

    @property
    def world_count(self) -> int:
        """Number of worlds B."""
        return int(self.particle_mass.shape[0])

    @property
    def frame_count(self) -> int:
        """Number of frame intervals F of the loads, actuations and prescribed velocities."""
        return int(self.load.shape[1]) if len(self.load.shape) == 4 else 1

    @property
    def controls(self) -> int:
        """Number C of control rows (rows of actuation) in a frame interval."""
        shape = self.solid_actuation.shape
        return max(int(shape[1]) // max(self.frame_count, 1), 1) if len(shape) == 3 else 1

    def check(self, model: DeformableModel) -> None:
        """Raise a UserError for an array whose shape or precision does not fit the model, or that is not contiguous."""
        self.check_shapes(self._sizes(model))

    def _sizes(self, model: DeformableModel) -> dict[str, int]:
        """Sizes of the axes by letter."""
        return {
            "B": self.world_count, "F": self.frame_count, "R": self.frame_count * self.controls, "P": model.particle_count,
            "E": model.solid_count, "T": model.triangle_count, "M": model.edge_count, "S": model.spring_count,
            "L": len(model.loaded), "K": len(model.prescribed),
        }  # fmt: skip

    def check_values(self, model: DeformableModel) -> None:
        """Raise a UserError for values that make a simulation impossible."""
        self._check_finite(model)
        mass = to_numpy(self.particle_mass)
        is_free = model.particle_table[:, 0] == 0
        bad = np.argwhere(~(mass > 0) & is_free)
        if len(bad):
            b, p = (int(k) for k in bad[0])
            raise UserError(
                f"{model.particle_name(p)} has a mass of {float(mass[b, p]):g} kg in world {b}: give it a positive one, or fix it"
            )
        non_negative_columns = (
            ("particle_contact", ("contact stiffness", "contact damping", "tangential damping", "friction"), None),
            ("solid_material", (None, None, "damping"), "solid"),
            ("tri_material", (None, None, "damping", "drag", "lift"), "triangle"),
            ("edge_material", (None, "damping", None), "edge"),
            ("spring_material", ("stiffness", "damping", "rest length"), "spring"),
        )
        contact_names = ("stiffness", "damping", "tangential damping", "friction")
        for b, column in np.argwhere(to_numpy(self.self_contact) < 0)[:1]:
            value = float(to_numpy(self.self_contact)[b, column])
            raise UserError(f"the {contact_names[column]} of self-contact is {value:g} in world {b}: it must not be negative")
        for name, columns, family in non_negative_columns:
            values = to_numpy(getattr(self, name))
            for column, quantity in enumerate(columns):
                if quantity is not None and (values[..., column] < 0).any():
                    b, i = (int(k) for k in np.argwhere(values[..., column] < 0)[0])
                    raise UserError(
                        f"the {quantity} of {_owner_name(model, family, i)} is {float(values[b, i, column]):g} in world {b}: "
                        "it must not be negative"
                    )

    def _check_finite(self, model: DeformableModel) -> None:
        """Raise a UserError if a number is not finite."""
        families = {
            "solid_material": "solid", "solid_actuation": "solid", "tri_material": "triangle", "tri_actuation": "triangle",
            "edge_material": "edge", "edge_actuation": "edge", "spring_material": "spring",
        }  # fmt: skip
        time_dependent = ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
        particles = {"load": model.loaded, "prescribed_qd": model.prescribed}
        for name, values in self.named_arrays().items():
            values = to_numpy(values)
            if np.isfinite(values).all():
                continue
            index = [int(k) for k in np.argwhere(~np.isfinite(values))[0]]
            row_name = "row" if name.endswith("actuation") and self.controls > 1 else "frame"
            location = f" in {row_name} {index.pop(1)}" if name in time_dependent else ""
            if name in particles:
                location = f" of {model.particle_name(int(particles[name][index[1]]))}{location}"
            elif len(index) > 1 and name not in (
                "gravity", "wind", "self_contact", "particle_history0", "particle_driving0", "particle_factor0",
            ):  # fmt: skip
                location = f" of {_owner_name(model, families.get(name), index[1])}{location}"
            raise UserError(f"{name}{location} of world {index[0]} is not finite: give finite numbers")


@dataclass(frozen=True, eq=False, repr=False)
class ContinuedInputs(DeformableInputs):
    """Inputs of implicit steps that continue those of another rollout (see ``implicit.rollout``)."""

    particle_history0: Array = array(
        "B H P 6",
        "the last H results of stages, positions [m] and velocities [m/s]: 2, or 3 after the first step of BDF2; the last one is "
        "the initial state, and particle_q0 and particle_qd0 are not read",
        double=True,
    )
    particle_driving0: Array | None = array(
        "B G", "loads [N] and actuations of the step before the first one, for BDF2", default=None, double=True
    )
    particle_factor0: Array | None = array(
        "B W", "matrices whose factors precondition linear solves, for large bodies (``LinearSolver.memory``)", default=None,
        double=True,
    )

    def check(self, model: DeformableModel) -> None:
        """As ``DeformableInputs.check``."""
        self.check_shapes(self._sizes(model) | {
            "H": int(self.particle_history0.shape[1]),
            "G": 3 * len(model.loaded) + model.solid_count + model.triangle_count + model.edge_count,
            "W": 0 if self.particle_factor0 is None else int(self.particle_factor0.shape[1]),
        })  # fmt: skip

    def without_history(self) -> DeformableInputs:
        """The inputs that kernels read."""
        return DeformableInputs(**{field.name: getattr(self, field.name) for field in fields(DeformableInputs)})


def _owner_name(model: DeformableModel, family: str | None, index: int) -> str:
    """Name, for messages, of a particle (family None), of a solid by its index among all solids, or of an element of a family."""
    if family is None:
        return model.particle_name(index)
    if family == "solid":
        for solid_family in ("tet", "hex", "tet10"):
            count = len(getattr(model, TABLES[solid_family]))
            if index < count:
                return model.element_name(solid_family, index)
            index -= count
    return model.element_name(family, index)
