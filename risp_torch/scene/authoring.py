"""How deformable bodies are put into a scene: solids, cloth, flat bodies, springs, forces on them, and wind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.deformable import (
    Deformable,
    Where,
    check_points,
    chosen_particles,
    make_deformable,
    quaternion_axes,
    surface_particles,
)
from risp_torch.scene.deformation import Load, make_load
from risp_torch.scene.elements import make_cloth, make_flat_body, make_net, make_solid
from risp_torch.scene.items import Array, Contact, Direction, Quaternion, Surface, Vector
from risp_torch.scene.materials import Air, Bending, Elastic, Membrane
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.self_contact import SelfContact, make_self_contact
from risp_torch.scene.stage import Stage
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import NotNegative, Positive, PositiveOrInfinite, Rule, checked
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh
from ti_sim.shapes.surface import ungrouped_mesh

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class DeformableScene(Stage):
    """The part of a scene that makes deformable bodies."""

    def __init__(
        self, table: ParameterTable, style: Mapping[str, Any], *, sigma: float | Param, gamma: float | Param, frames: int,
        controls: int,
    ) -> None:
        """A scene with nothing in it.

        Args:
            table, style, sigma, gamma: as for ``Stage``.
            frames: frame intervals, for which there are loads and actuations.
            controls: rows of actuation in a frame interval.

        Raises:
            UserError: as ``Stage``.
        """
        super().__init__(table, style, sigma=sigma, gamma=gamma)
        self.frames = frames
        self.controls = controls
        self.loads: list[Load] = []
        self.self_contact: SelfContact | None = None
        self._deformable_solver: DeformableSolver | None = None

    @checked
    def add_solid(
        self,
        name: str,
        *,
        mesh: SolidMesh,
        material: Elastic,
        density: Array | None = None,
        mass: Array | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = UPRIGHT,
        rotation: Vector = (0.0, 0.0, 0.0),
        velocity: Array = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        velocity_gradient: Annotated[Any, Rule(shape=(3, 3), param=True)] = 0.0,
        fixed: Where = None,
        prescribed: Where = None,
        prescribed_velocity: Array | None = None,
        actuation: Array | None = None,
        actuation_groups: Array | None = None,
        contact: Contact | None = None,
        surface: Surface | None = None,
    ) -> None:
        """An elastic solid.

        Args:
            name: first part of its parameter names ("<name>.E", "<name>.density" and so on).
            mesh: V vertices, which become its particles, and E elements in their rest shape.
            material: elastic constants and damping.
            density: kg/m3, a number or one for each element [E], or
            mass: of its particles [kg], a number for each of them, or [V].
            position: of the mesh's origin [m].
            orientation: quaternion (x, y, z, w) of the mesh's axes.
            rotation: rotation vector [rad], world frame, applied after ``orientation``; the unknown part of the orientation.
            velocity: m/s, of all particles, or one for each [V, 3].
            angular_velocity: about the position [rad/s], world frame; what it gives every particle is added.
            velocity_gradient: G [1/s], (3, 3), world frame: a particle at r from the position moves by G r more, so that with the
                velocity it has an affine field of 12 numbers.
            fixed: particles that never move: indices, a mask, or a function of the mesh's vertices [V, 3] that returns a mask.
            prescribed: particles with a prescribed velocity, chosen in the same way.
            prescribed_velocity: of these [m/s]: (3,), (frames, 3), each held over a frame interval, or (frames, K, 3).
            actuation: change of the elements' rest volume [1], (rows, E), with a row for each frame interval or, in a scene with
                ``controls``, so many for each; or (rows, G) for
            actuation_groups: [E] the column of ``actuation`` that each element has.
            contact: material of the particles on its surface, against the ground and bodies with collision; the
                ground's own by default.
            surface: colours, texture, material of the surface.

        Raises:
            UserError: a number or mesh is not usable; the message says which.
        """
        axes = quaternion_axes(name, orientation)
        elements = make_solid(
            self.table, name, mesh, material, actuation=actuation, groups=actuation_groups, frames=self.frames,
            controls=self.controls,
        )
        self._add(
            name, elements=elements, vertices=mesh.vertices, axes=axes, density=density, density_unit="kg/m3", mass=mass,
            position=position, rotation=rotation, velocity=velocity, angular_velocity=angular_velocity,
            velocity_gradient=velocity_gradient, fixed=fixed, prescribed=prescribed,
            prescribed_velocity=prescribed_velocity, contact=contact, touching=surface_particles(mesh.faces),
            mesh=mesh.surface(), surface=surface,
        )  # fmt: skip

    @checked
    def add_cloth(
        self,
        name: str,
        *,
        mesh: SheetMesh,
        material: Membrane,
        bending: Bending | None = None,
        air: Air | None = None,
        density: Array | None = None,
        mass: Array | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = UPRIGHT,
        rotation: Vector = (0.0, 0.0, 0.0),
        velocity: Array = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        velocity_gradient: Annotated[Any, Rule(shape=(3, 3), param=True)] = 0.0,
        fixed: Where = None,
        prescribed: Where = None,
        prescribed_velocity: Array | None = None,
        actuation: Array | None = None,
        actuation_groups: Array | None = None,
        contact: Contact | None = None,
        thickness: NotNegative = 0.0,
        surface: Surface | None = None,
    ) -> None:
        """A cloth or thin shell in space. It is lit on both sides in a scene with ``two_sided=True``.

        Args:
            name: first part of its parameter names.
            mesh: V vertices and T triangles in their rest shape.
            material: how it resists stretching.
            bending: how it resists folding, not at all by default.
            air: drag and lift, none by default.
            density: kg/m2, a number or one for each triangle [T], or
            mass: of its particles [kg], a number for each of them, or [V].
            position, orientation, rotation, velocity, angular_velocity, velocity_gradient, fixed, prescribed,
                prescribed_velocity: as for ``add_solid``.
            actuation: change of the triangles' rest area [1], (rows, T), or (rows, G) for
            actuation_groups: [T] the column of ``actuation`` that each triangle has.
            contact: material of its particles, against the ground and bodies with collision; the ground's own by
                default.
            thickness: twice the distance at which its particles touch bodies with collision [m]; a little of it keeps the
                triangles between them from cutting through round bodies.
            surface: colours, texture, material.

        Raises:
            UserError: a number or mesh is not usable; the message says which.
        """
        axes = quaternion_axes(name, orientation)
        elements = make_cloth(
            self.table, name, mesh, material, bending=bending, air=air, actuation=actuation, groups=actuation_groups,
            frames=self.frames, controls=self.controls,
        )  # fmt: skip
        self._add(
            name, elements=elements, vertices=mesh.vertices, axes=axes, density=density, density_unit="kg/m2", mass=mass,
            position=position, rotation=rotation, velocity=velocity, angular_velocity=angular_velocity,
            velocity_gradient=velocity_gradient, fixed=fixed, prescribed=prescribed,
            prescribed_velocity=prescribed_velocity, contact=contact, touching=np.arange(len(mesh.vertices)),
            mesh=mesh.surface(), surface=surface, thickness=thickness,
        )  # fmt: skip

    @checked
    def add_flat_body(
        self,
        name: str,
        *,
        mesh: SheetMesh,
        material: Elastic,
        density: Array | None = None,
        mass: Array | None = None,
        depth: Positive = 1.0,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = UPRIGHT,
        velocity: Array = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        velocity_gradient: Annotated[Any, Rule(shape=(3, 3), param=True)] = 0.0,
        fixed: Where = None,
        prescribed: Where = None,
        prescribed_velocity: Array | None = None,
        actuation: Array | None = None,
        actuation_groups: Array | None = None,
        contact: Contact | None = None,
        surface: Surface | None = None,
    ) -> None:
        """A body of two dimensions: a slice of a solid that cannot expand along its normal (plane strain).

        It lives in the plane in which ``orientation`` puts its flat mesh, and feels when it is turned inside out. Velocities and
        forces along the normal move it out of that plane: give it none.

        Args:
            name: first part of its parameter names.
            mesh: V vertices in one plane, and T triangles wound alike.
            material: of the solid; its energy is "neo_hookean".
            density: kg/m3, a number or one for each triangle [T], or
            mass: of its particles [kg], a number for each of them, or [V].
            depth: of the slice along the normal [m]; masses and forces grow with it alike.
            position, orientation, velocity, angular_velocity, velocity_gradient, fixed, prescribed, prescribed_velocity: as for
                ``add_solid``.
            actuation: change of the triangles' rest area [1], (rows, T), or (rows, G) for
            actuation_groups: [T] the column of ``actuation`` that each triangle has.
            contact: material of its particles, against the ground and bodies with collision; the ground's own by
                default.
            surface: colours, texture, material.

        Raises:
            UserError: a number or mesh is not usable; the message says which.
        """
        axes = quaternion_axes(name, orientation)
        elements = make_flat_body(
            self.table, name, mesh, material, depth=depth, turn=axes, actuation=actuation, groups=actuation_groups,
            frames=self.frames, controls=self.controls,
        )  # fmt: skip
        self._add(
            name, elements=elements, vertices=mesh.vertices, axes=axes, density=density, density_unit="kg/m3", mass=mass,
            position=position, rotation=(0.0, 0.0, 0.0), velocity=velocity, angular_velocity=angular_velocity,
            velocity_gradient=velocity_gradient, fixed=fixed, prescribed=prescribed,
            prescribed_velocity=prescribed_velocity, contact=contact, touching=np.arange(len(mesh.vertices)),
            mesh=mesh.surface(), surface=surface,
        )  # fmt: skip

    @checked
    def add_springs(
        self,
        name: str,
        *,
        points: Array,
        springs: Array,
        stiffness: Array,
        mass: Array,
        damping: Array = 0.0,
        rest_length: Array | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = UPRIGHT,
        rotation: Vector = (0.0, 0.0, 0.0),
        velocity: Array = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        velocity_gradient: Annotated[Any, Rule(shape=(3, 3), param=True)] = 0.0,
        fixed: Where = None,
        prescribed: Where = None,
        prescribed_velocity: Array | None = None,
        contact: Contact | None = None,
        radius: Positive | None = None,
        faces: Array | None = None,
        surface: Surface | None = None,
    ) -> None:
        """Point masses joined by springs.

        Args:
            name: first part of its parameter names.
            points: [V, 3] m.
            springs: [S, 2] pairs of points.
            stiffness: N/m, a number or one for each spring [S].
            mass: of the points [kg], a number for each of them, or [V].
            damping: against the change of a spring's length [N s/m], a number or [S].
            rest_length: m, a number or [S]; the distances of the points by default.
            position, orientation, rotation, velocity, angular_velocity, velocity_gradient, fixed, prescribed,
                prescribed_velocity: as for ``add_solid``.
            contact: material of its points, against the ground and bodies with collision; the ground's own by default.
            radius: of the balls that the points are drawn as [m]; a twentieth of the extent by default. Springs are not drawn.
            faces: [F, 3] triangles of points that are drawn in place of balls.
            surface: colours, texture, material of what is drawn.

        Raises:
            UserError: a number is not usable; the message says which.
        """
        axes = quaternion_axes(name, orientation)
        vertices = check_points(name, points)
        elements = make_net(
            self.table, name, vertices, springs, stiffness=stiffness, damping=damping, rest_length=rest_length
        )
        if radius is not None and faces is not None:
            raise UserError(f"{name} has the radius {radius} m and faces: give one of the two")
        drawn = 0.05 * float(np.ptp(vertices, axis=0).max()) if radius is None else radius
        triangles = np.zeros((0, 3), dtype=np.int32)
        if faces is not None:
            triangles = SheetMesh(vertices, np.asarray(faces), name=f"the faces of {name}").triangles
        self._add(
            name, elements=elements, vertices=vertices, axes=axes, density=None, density_unit="", mass=mass, position=position,
            rotation=rotation, velocity=velocity, angular_velocity=angular_velocity, velocity_gradient=velocity_gradient,
            fixed=fixed, prescribed=prescribed, prescribed_velocity=prescribed_velocity, contact=contact,
            touching=np.arange(len(vertices)), mesh=ungrouped_mesh(vertices, triangles), surface=surface,
            radius=drawn if faces is None else None,
        )  # fmt: skip

    @checked
    def add_load(
        self,
        name: str,
        *,
        body: str,
        where: Where,
        force: Array,
        direction: Direction | None = None,
        limit: PositiveOrInfinite = math.inf,
    ) -> None:
        """An external force on some particles of a deformable body, in equal parts or on each of them another.

        Args:
            name: first part of its parameter name, "<name>.force".
            body: name of the deformable body.
            where: its particles: indices, a mask, or a function of the mesh's vertices [V, 3] that returns a mask.
            force: on all of them together [N], (3,) or (frames, 3), each held over a frame interval; along a direction one
                number, or (frames,). Or on each of the K particles, in the order of their numbers, (frames, K, 3).
            direction: [3] of any length, along which the force is a number; None for a vector.
            limit: largest number (of a vector: component) either way [N]; what lies beyond is clipped, and its gradient is zero,
                which is the true derivative: an optimiser that starts there does not get away.

        Raises:
            UserError: there is no such body or no such particle, or a number is not usable.
        """
        names = [part.name for part in self.deformables]
        if body not in names:
            raise unknown_name_error("deformable body", body, names)
        part = self.deformables[names.index(body)]
        chosen = chosen_particles(f"{name}.where", where, part.vertices)
        if not len(chosen):
            raise UserError(f"{name} acts on no particle: say where")
        load = make_load(
            self.table, name, particles=part.first + chosen, force=force, direction=direction, limit=limit, frames=self.frames
        )
        self.loads.append(load)
        self._deformable_solver = None

    @checked
    def add_self_contact(self, *, contact: Contact, thickness: Positive, bodies: Sequence[str] | None = None) -> None:
        """Let the surfaces of deformable bodies touch themselves and one another: each vertex touches the triangles that no edge
        joins to it, from both sides.

        Args:
            contact: "self_contact.stiffness" and so on, of a vertex with a triangle.
            thickness: distance between the middles of two sheets at which they touch [m]; it must be less than that of any vertex
                at rest from the triangles of its body that no edge joins to it, and above what a vertex moves in a step or two.
            bodies: names of the solids and cloths that take part; all deformable bodies that there are by default.

        Raises:
            UserError: there is no such body, one has no surface, the thickness does not fit the meshes, or vertices start on
                triangles.
        """
        self.self_contact = make_self_contact(
            self.table, self.deformables, contact=contact, thickness=thickness, bodies=bodies
        )
        self._deformable_solver = None

    @checked
    def set_wind(self, velocity: Vector) -> None:
        """Let the air move, which cloths with ``Air`` feel.

        Args:
            velocity: "wind" [m/s].

        Raises:
            UserError: there is a wind already.
        """
        if "wind" in self.table.params:
            raise UserError("the scene has a wind already: give its velocity once, or replace the parameter 'wind'")
        self.table.add("wind", velocity, unit="m/s", shape=(3,))

    def _add(self, name: str, **options: Any) -> None:
        surface = options.pop("surface") or Surface()
        part: Deformable = make_deformable(
            self.table, name, first=self.particle_count, surface=surface, ground=self.backdrop.ground is not None,
            phong=self.style["shading"] == "phong", frames=self.frames, **options,
        )  # fmt: skip
        self.deformables.append(part)
        self._geometry = self._deformable_solver = None
