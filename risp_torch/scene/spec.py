"""What a scene consists of: a record that the functions of ``adding`` write, and that simulations and views are built from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.backdrop import Ground
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.forces import AppliedForce
from risp_torch.scene.parts.lights import Light
from risp_torch.scene.parts.links import Link
from risp_torch.scene.parts.loads import Load
from risp_torch.scene.parts.motors import Motors
from risp_torch.scene.parts.rotors import Rotors
from risp_torch.scene.parts.self_contact import SelfContact
from risp_torch.scene.time_stepping import TimeStepping
from ti_render import RasterSettings, ShadowSettings
from ti_sim.base.param import Param
from ti_sim.base.rules import Rule, checked


@checked
@dataclass(frozen=True, kw_only=True)
class PictureStyle:
    """How pictures are made of surfaces (``RasterSettings``).

    Attributes:
        shading: "none", "lambert" or "phong".
        aggregation: "softras" or "dibr".
        composite: "alpha" or "softmax".
        antialias: samples along each side of a pixel.
        two_sided: whether faces are lit on their inner side too.

    Raises:
        UserError: a choice is unknown.
    """

    shading: Literal["none", "lambert", "phong"] = "lambert"
    aggregation: Literal["softras", "dibr"] = "softras"
    composite: Literal["alpha", "softmax"] = "alpha"
    antialias: Annotated[int, Rule(whole=True, least=1, most=16)] = 1
    two_sided: bool = False

    def __post_init__(self) -> None:
        RasterSettings(width=1, height=1, **vars(self))  # refuses unknown choices here, where they are made


@dataclass(eq=False, slots=True, kw_only=True)
class SceneSpec:
    """What a scene consists of. Every field holds an immutable value, and a change of the scene assigns another one; the table
    alone is changed in place, and holds all numbers.

    Attributes:
        name: what reports call the scene.
        frames: frame intervals.
        stepping: time stepping.
        style: of its pictures.
        table: every number by its dotted name.
        bodies: rigid bodies and links.
        deformables: deformable bodies.
        forces, rotors, motors, loads: what drives them.
        self_contact: of the deformable bodies, None without.
        cameras: in the order in which they were added; the first one films where none is named.
        lights: lights.
        ground: the ground plane, None without.
        shadows: of directional lights, None without.
    """

    name: str
    frames: int
    stepping: TimeStepping
    style: PictureStyle
    table: ParameterTable
    bodies: tuple[Body, ...] = ()
    deformables: tuple[Deformable, ...] = ()
    forces: tuple[AppliedForce, ...] = ()
    rotors: tuple[Rotors, ...] = ()
    motors: tuple[Motors, ...] = ()
    loads: tuple[Load, ...] = ()
    self_contact: SelfContact | None = None
    cameras: tuple[Camera, ...] = ()
    lights: tuple[Light, ...] = ()
    ground: Ground | None = None
    shadows: ShadowSettings | None = None

    def same_parts(self, other: SceneSpec, *names: str) -> bool:
        """Whether the fields of these names hold the very same values."""
        return all(getattr(self, name) is getattr(other, name) for name in names)

    def snapshot(self) -> SceneSpec:
        """A copy that later changes of the scene leave as it is; its table is the scene's own."""
        return SceneSpec(**{name: getattr(self, name) for name in ALL_PARTS})

    @property
    def frame_dt(self) -> float:
        """Time between two frames [s]."""
        return self.stepping.frame_dt

    @property
    def particle_count(self) -> int:
        """P, the particles of all deformable bodies."""
        return sum(part.count for part in self.deformables)

    @property
    def part_names(self) -> list[str]:
        """Names of all bodies and, after them, of the deformable ones: each is a part of the picture."""
        return [part.name for part in (*self.bodies, *self.deformables)]

    @property
    def ground_height(self) -> float | None:
        """z of the ground plane [m], None without a ground."""
        return None if self.ground is None else self.ground.height

    @property
    def articulated(self) -> bool:
        """Whether any body is a link or collides with others; all of them then move by the articulated solver."""
        return any(isinstance(body, Link) or body.collision is not None for body in self.bodies)

    @property
    def driven(self) -> bool:
        """Whether any body has rotors or drag."""
        return bool(self.rotors) or any(name in self.table.params for body in self.bodies for name in body.drag_names)

    @property
    def camera(self) -> Camera | None:
        """The first camera, which films where none is named; None where there is none."""
        return self.cameras[0] if self.cameras else None

    @property
    def parameters(self) -> dict[str, Param]:
        """Every number of the scene by its dotted name."""
        return dict(self.table.params)

    @property
    def unknowns(self) -> list[str]:
        """Names of the Params that are not frozen."""
        return self.table.unknowns()


ALL_PARTS = tuple(field.name for field in fields(SceneSpec))
