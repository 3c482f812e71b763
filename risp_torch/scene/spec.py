"""Description of a scene: a record that the functions of ``adding`` write, and from which simulators and views are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

import numpy as np

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.backdrop import Ground
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.parts.clock import FilmClock
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.forces import AppliedForce
from risp_torch.scene.parts.lights import Light
from risp_torch.scene.parts.links import Link
from risp_torch.scene.parts.loads import Load
from risp_torch.scene.parts.motors import Motors
from risp_torch.scene.parts.rotors import Rotors
from risp_torch.scene.parts.self_contact import SelfContact
from risp_torch.scene.parts.smoke import Smoke
from risp_torch.scene.time_stepping import TimeStepping
from ti_render import RasterSettings, ShadowSettings
from ti_sim.base.param import Param
from ti_sim.base.rules import Rule, checked


@checked
@dataclass(frozen=True, kw_only=True)
class PictureStyle:
    """Shading and rasterisation of images (``RasterSettings``).

    Attributes:
        shading: "none" (colours as they are), "lambert" (diffuse) or "phong" (with highlights: ``Surface``).
        aggregation: how faces are aggregated to an image, "softras" or "dibr".
        composite: how coverage is composited into the colour, "alpha" or "softmax".
        antialias: samples along each side of a pixel.
        two_sided: whether back faces are also lit.

    Raises:
        UserError: a choice is unknown.
    """

    shading: Literal["none", "lambert", "phong"] = "lambert"
    aggregation: Literal["softras", "dibr"] = "softras"
    composite: Literal["alpha", "softmax"] = "alpha"
    antialias: Annotated[int, Rule(integer=True, minimum=1, maximum=16)] = 1
    two_sided: bool = False

    def __post_init__(self) -> None:
        RasterSettings(width=1, height=1, **vars(self))  # raises for unknown choices early


@dataclass(eq=False, slots=True, kw_only=True)
class SceneSpec:
    """Description of a scene. Every field is an immutable value, and a change of the scene assigns another one; only the table
    is changed in place; it holds all parameters.

    Attributes:
        name: name of the scene in reports.
        frames: frame intervals; with a clock those of the film.
        stepping: time stepping.
        style: shading and rasterisation.
        table: every parameter by its dotted name.
        bodies: rigid bodies and links.
        deformables: deformable bodies.
        applied_forces, rotors, motors, loads: forces and actuators.
        self_contact: self-contact of the deformable bodies, or None.
        cameras: in the order in which they were added; the first one is the default.
        lights: lights.
        ground: the ground plane, or None.
        shadows: shadows of directional lights, or None.
        clock: times of the film's pictures; None for one at every frame.
        smoke: smoke, in a scene without bodies, or None.
    """

    name: str
    frames: int
    stepping: TimeStepping
    style: PictureStyle
    table: ParameterTable
    bodies: tuple[Body, ...] = ()
    deformables: tuple[Deformable, ...] = ()
    applied_forces: tuple[AppliedForce, ...] = ()
    rotors: tuple[Rotors, ...] = ()
    motors: tuple[Motors, ...] = ()
    loads: tuple[Load, ...] = ()
    self_contact: SelfContact | None = None
    cameras: tuple[Camera, ...] = ()
    lights: tuple[Light, ...] = ()
    ground: Ground | None = None
    shadows: ShadowSettings | None = None
    clock: FilmClock | None = None
    smoke: Smoke | None = None

    def same_parts(self, other: SceneSpec, *names: str) -> bool:
        """Whether these fields hold identical objects."""
        return all(getattr(self, name) is getattr(other, name) for name in names)

    def snapshot(self) -> SceneSpec:
        """A copy that later changes of the scene do not affect; the table is shared."""
        return SceneSpec(**{name: getattr(self, name) for name in ALL_PARTS})

    @property
    def frame_dt(self) -> float:
        """Time between two frames [s]."""
        return self.stepping.frame_dt

    @property
    def film_times(self) -> np.ndarray:
        """[frames + 1] time stamps of the film's pictures [s]."""
        return (self.clock or FilmClock()).stamps(self.frames, self.frame_dt)

    @property
    def fps(self) -> float:
        """Pictures per second of the film; the mean where its time stamps have gaps."""
        if self.clock is None or self.clock.times is None:
            return 1 / self.frame_dt
        times = self.film_times
        return (len(times) - 1) / float(times[-1] - times[0])

    @property
    def particle_count(self) -> int:
        """P, the number of particles of all deformable bodies."""
        return sum(deformable.count for deformable in self.deformables)

    @property
    def part_names(self) -> list[str]:
        """Names of all rigid bodies and links, then of the deformable bodies."""
        return [body.name for body in (*self.bodies, *self.deformables)]

    @property
    def ground_height(self) -> float | None:
        """z of the ground plane [m], None without a ground."""
        return None if self.ground is None else self.ground.height

    @property
    def articulated(self) -> bool:
        """Whether any body is a link or collides with others; the articulated solver then simulates all bodies."""
        return any(isinstance(body, Link) or body.collision is not None for body in self.bodies)

    @property
    def has_rotors_or_drag(self) -> bool:
        """Whether any body has rotors or drag."""
        return bool(self.rotors) or any(name in self.table.params for body in self.bodies for name in body.drag_names)

    def contacts_have(self, field: str) -> bool:
        """Whether the contact of any body has this optional number ("bristle_stiffness" or "radius")."""
        bodies = (*self.bodies, *self.deformables)
        return any(f"{body.contact_name}.{field}" in self.table.params for body in bodies)

    @property
    def has_bristles(self) -> bool:
        """Whether contacts or joints have bristles, whose displacements are a part of the state."""
        has_dry_friction = any("dry_friction" in getattr(body, "parameter_names", ()) for body in self.bodies)
        return has_dry_friction or self.contacts_have("bristle_stiffness")

    @property
    def camera(self) -> Camera | None:
        """The first camera, which is the default, or None."""
        return self.cameras[0] if self.cameras else None

    @property
    def parameters(self) -> dict[str, Param]:
        """Every parameter of the scene by its dotted name."""
        return dict(self.table.params)

    @property
    def unknowns(self) -> list[str]:
        """Names of the Params that are not frozen."""
        return self.table.unknowns()


ALL_PARTS = tuple(field.name for field in fields(SceneSpec))
