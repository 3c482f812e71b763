"""The scene: its description, and two torch functions, ``rollout`` and ``render``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from risp_torch.scene.adding.background import set_background
from risp_torch.scene.adding.camera import add_camera, film_with, place_camera, resize_camera, use_cameras
from risp_torch.scene.adding.cloth import add_cloth
from risp_torch.scene.adding.film import change_film, set_film
from risp_torch.scene.adding.flat_body import add_flat_body
from risp_torch.scene.adding.force import add_force
from risp_torch.scene.adding.ground import add_ground
from risp_torch.scene.adding.light import add_light
from risp_torch.scene.adding.link import add_link
from risp_torch.scene.adding.load import add_load
from risp_torch.scene.adding.motors import add_motors
from risp_torch.scene.adding.number import add_number
from risp_torch.scene.adding.rigid import add_rigid
from risp_torch.scene.adding.robot import add_robot
from risp_torch.scene.adding.rotors import add_rotors
from risp_torch.scene.adding.self_contact import add_self_contact
from risp_torch.scene.adding.shadows import set_shadows
from risp_torch.scene.adding.smoke import add_smoke
from risp_torch.scene.adding.solid import add_solid
from risp_torch.scene.adding.springs import add_springs
from risp_torch.scene.adding.wind import set_wind
from risp_torch.scene.arguments import Number, Vector
from risp_torch.scene.description import describe
from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable, split_entry
from risp_torch.scene.simulation.filming import filmed
from risp_torch.scene.simulation.simulator import Simulator, current_simulator
from risp_torch.scene.spec import ALL_PARTS, PictureStyle, SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from risp_torch.scene.time_stepping import MAX_STEPS, Integrator, SolverOptions, TimeStepping
from risp_torch.scene.view.current import current_view
from risp_torch.scene.view.view import PictureOptions, Quantity, View
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, FromZero, Positive, checked
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.shapes.mass import check_inertia


class Scene(SceneSpec):
    """Bodies, contact, forces, cameras and lights with their parameters, and functions to simulate and render them.

    The ``add_`` methods describe the scene; ``simulator`` and ``view``, frozen plans made from it at first use, simulate and
    render. A changed scene makes new ones.
    """

    __slots__ = ("_simulator", "_view")

    @checked
    def __init__(
        self,
        *,
        frame_dt: Positive,
        frames: Count,
        substeps: Count,
        gravity: Vector = (0.0, 0.0, -9.81),
        integrator: Integrator = "semi_implicit",
        controls: Count = 1,
        solver: SolverOptions = SolverOptions(),  # noqa: B008 (it is frozen)
        sigma: Number = 1e-4,
        gamma: Number = 1e-3,
        style: PictureStyle = PictureStyle(),  # noqa: B008 (it is frozen)
        name: str = "",
    ) -> None:
        """An empty scene.

        Args:
            frame_dt: time between two frames [s].
            frames: number of frame intervals; a film has one image more, the initial state.
            substeps: physics steps per frame.
            gravity: [3] m/s2, or one number, its magnitude downwards.
            integrator: "semi_implicit"; "rk4" of bodies; "backward_euler", "bdf2" or "sdirk2" of deformable bodies that collide
                with the ground at most: implicit steps, for stiff materials and long steps.
            controls: rows of actuation of deformable bodies per frame, each held for an equal number of steps; 1 or a divisor of
                ``substeps``.
            solver: execution plan, largest distance of bodies, adaptive and implicit steps.
            sigma: softness of edges in pictures, squared NDC of the shorter side ("softness.sigma").
            gamma: softness of depth order in pictures ("softness.gamma").
            style: shading and rasterisation of pictures.
            name: name of the scene in reports.

        Raises:
            UserError: a time, count or softness is not positive, or a choice is unknown.
        """
        if frames * substeps > MAX_STEPS:
            raise UserError(f"Scene: frames {frames} of {substeps} substeps are more steps than are counted: at most {MAX_STEPS}")
        stepping = TimeStepping(
            frame_dt=frame_dt, substeps=substeps, integrator=integrator, controls=controls, solver=solver
        )
        super().__init__(name=name, frames=frames, stepping=stepping, style=style, table=ParameterTable({}))
        is_magnitude = np.ndim(gravity.value if isinstance(gravity, Param) else gravity) == 0
        self.table.add("gravity", gravity, unit="m/s2", shape=() if is_magnitude else (3,))
        self.table.add("softness.sigma", sigma, unit="", sign="positive")
        self.table.add("softness.gamma", gamma, unit="", sign="positive")
        self.table.add("background.color", (0.9, 0.9, 0.92), unit="", shape=(3,), sign="color")
        self._simulator: Simulator | None = None
        self._view: View | None = None

    def share(self, scene: Scene) -> None:
        """Take over the current parts of another scene; both share the parameter table."""
        for name in ALL_PARTS:
            setattr(self, name, getattr(scene, name))
        self._simulator, self._view = scene._simulator, scene._view

    # -- parts of a scene: one file of ``adding`` for each kind of part -------------------------------------------------------

    add_ground = add_ground
    add_rigid = add_rigid
    add_link = add_link
    add_robot = add_robot
    add_motors = add_motors
    add_force = add_force
    add_rotors = add_rotors
    add_number = add_number
    add_smoke = add_smoke
    add_solid = add_solid
    add_cloth = add_cloth
    add_flat_body = add_flat_body
    add_springs = add_springs
    add_load = add_load
    add_self_contact = add_self_contact
    set_wind = set_wind
    add_camera = add_camera
    use_cameras = use_cameras
    place_camera = place_camera
    film_with = film_with
    resize_camera = resize_camera
    add_light = add_light
    set_background = set_background
    set_shadows = set_shadows
    set_film = set_film
    change_film = change_film

    # -- parameters-----------------------------------------------------------------------------------------------------

    @checked
    def set(self, name: str, value: Any) -> None:
        """Set the value of a parameter, or of one entry ("body.velocity[0]"), within its bounds (UserError otherwise)."""
        base, _ = split_entry(name)
        if base.endswith((".inertia", ".inertia_per_mass")) and base in self.table.params:
            solid = self.table.signs.get(f"{base.rpartition('.')[0]}.mass") != "not negative"
            check_inertia(self.table.filled(name, value), base, solid=solid)
        self.table.set(name, value)

    @property
    def sigma(self) -> float:
        """Softness of edges in pictures, squared NDC of the shorter side."""
        return self.table["softness.sigma"].value

    @sigma.setter
    def sigma(self, value: float) -> None:
        self.table.set("softness.sigma", value)

    @property
    def gamma(self) -> float:
        """Softness of depth order in pictures."""
        return self.table["softness.gamma"].value

    @gamma.setter
    def gamma(self, value: float) -> None:
        self.table.set("softness.gamma", value)

    # -- running --------------------------------------------------------------------------------------------------------

    @property
    def simulator(self) -> Simulator:
        """The simulator of the current scene (UserError: the scene has no bodies)."""
        self._simulator = current_simulator(self._simulator, self)
        return self._simulator

    @property
    def view(self) -> View:
        """The renderer of the current scene."""
        self._view = current_view(self._view, self)
        return self._view

    @checked
    def rollout(
        self,
        parameters: Mapping[str, torch.Tensor] | None = None,
        *,
        worlds: Count | None = None,
        frames: FromZero | None = None,
        actions: torch.Tensor | None = None,
        state: State | None = None,
        adjoint: Adjoint | None = None,
    ) -> States:
        """Simulate a batch of worlds.

        Args:
            parameters: values that replace the scene's own (``ParameterTable.values``); gradients flow through them.
            worlds: B, if not given by the parameters.
            frames: frame intervals, the scene's by default; with a clock (``set_film``) those of the film, and the result is at
                the time stamps of its pictures.
            actions: [B, F, A] thrusts [N] in place of the scene's own, for F >= frames frame intervals, rotors of all groups
                concatenated in the order in which they were added; gradients flow through them. [1, F, A] applies to all worlds.
            state: state to start from instead of the initial values of the parameters. Parameters over time begin at the scene's
                start, and the rows of its frame intervals are used; actions begin at the state.
            adjoint: StoreAll() (default) or Checkpoint(every=k).

        Returns:
            The motion, with the state at its last frame (``States.last``); worlds that diverged, or in which a body left the
            scene (``without_escapes``), are marked.

        Raises:
            UserError: names or shapes do not fit, the scene has no bodies, their solver does not support an argument, the state
                is of another scene or of other worlds, or a film with a clock begins in another state or too early
                (``set_film``).
            DivergenceError: every world diverged.

        Warns:
            UserWarning: at the first call, if the physics step is too long for the scene's own parameters.
        """
        count = self.frames if frames is None else frames
        if self.clock is None:
            return self.simulator.rollout(
                self.table, parameters, frames=count, worlds=worlds, actions=actions, state=state, adjoint=adjoint
            )
        if state is not None:
            raise UserError("the scene's film has a clock, which counts from the scene's start: leave state or set_film out")
        return filmed(self, self.simulator, parameters, frames=count, worlds=worlds, actions=actions, adjoint=adjoint)

    @checked
    def state(self, parameters: Mapping[str, torch.Tensor] | None = None, *, worlds: Count | None = None) -> State:
        """The state at the start of the scene, from which ``step`` continues.

        Args:
            parameters: values that replace the scene's own; gradients flow through them, but not through ``body_q`` and
                ``body_qd`` of scenes with links, whose derivative raises RuntimeError.
            worlds: B, if not given by the parameters.

        Raises:
            UserError: names or shapes do not fit, or the scene has no bodies.
        """
        return self.simulator.state(self.table, parameters, worlds=worlds)

    @checked
    def step(
        self,
        state: State,
        parameters: Mapping[str, torch.Tensor] | None = None,
        actions: torch.Tensor | None = None,
        *,
        adjoint: Adjoint | None = None,
    ) -> State:
        """Simulate one frame interval: n calls equal a rollout of n frames to the last bit, their gradients to rounding.

        Args:
            state: from ``state``, an earlier ``step`` or ``States.last``; gradients flow through it.
            parameters: as of ``rollout``. Of parameters over time the row of the state's frame interval is used.
            actions: [B, A] of the frame interval, or [1, A] for all worlds; as of ``rollout``.
            adjoint: as of ``rollout``.

        Returns:
            The state at the next frame; worlds that diverged are NaN. The clock of a film (``set_film``) has no effect.

        Raises:
            UserError, DivergenceError: as by ``rollout``.
        """
        if actions is not None:
            actions = torch.as_tensor(actions)
            if actions.ndim != 2:
                raise UserError(f"the actions of a step have shape {tuple(actions.shape)}, and [worlds, actuators] is needed")
            actions = actions[:, None]
        states = self.simulator.rollout(self.table, parameters, frames=1, actions=actions, state=state, adjoint=adjoint)
        return states.last

    @checked
    def forces(
        self,
        states: State | States | Sequence[State],
        parameters: Mapping[str, torch.Tensor] | None = None,
        actions: torch.Tensor | None = None,
    ) -> Forces:
        """Contact and joint forces at states: those with which the physics step from each state begins.

        Contact forces are the mean over a physics step of the path on which the velocities of the state lead, as in the step.
        With "rk4" they are those of its first stage. Those of implicit steps are at the end of the step that ends in the state.

        Args:
            states: a state, states of T successive frames, or a motion of ``rollout`` at its frames. A motion does not hold
                bristles and stages: for friction that sticks, dry friction of joints, "bdf2" and "sdirk2", give states of
                ``step``. Gradients flow through them.
            parameters: as of ``rollout``. Of parameters over time the row of the frame interval that a state begins is used; the
                last one of several states has that of the interval before it.
            actions: of a state [B, A], of states [B, F, A] from the first one on; as of ``step`` and ``rollout``.

        Returns:
            The forces: [B, ...] at a state, [B, T, ...] at several; NaN at states that are not finite. At kinks (where contacts
            begin, and between sticking and sliding) derivatives are one-sided.

        Raises:
            UserError: names or shapes do not fit, the states are not of successive frames or of another scene, or the scene has
                no contact forces (smoke), adaptive steps, or bristles or stages that the states do not hold.
            DivergenceError: no state is finite.
        """
        if actions is not None and isinstance(states, State):
            actions = torch.as_tensor(actions)
            if actions.ndim != 2:
                raise UserError(f"the actions at a state have shape {tuple(actions.shape)}, and [worlds, actuators] is needed")
            actions = actions[:, None]
        return self.simulator.forces(self.table, parameters, states, actions=actions)

    def start_poses(self, values: Values) -> torch.Tensor:
        """The initial placement for parameter values [B, ...]: one frame of ``States.placement``.

        Poses [B, N, 7] of the centres of mass of rigid bodies and links (m, unit quaternions), positions of the
        particles of deformable bodies, or both.
        """
        return self.simulator.start(values)

    @checked
    def render(
        self,
        states: States | torch.Tensor,
        parameters: Mapping[str, torch.Tensor] | None = None,
        *,
        frames: Any = None,
        camera: str | None = None,
        quantity: Quantity = "color",
        alpha: bool = False,
        memory_limit: Positive | None = None,
    ) -> torch.Tensor:
        """Render a motion.

        Args:
            states: from ``rollout``, or poses [B, T, N, 7] (m, unit quaternions); in a scene with deformable bodies their
                placement (``View.poses``).
            parameters: values that replace the scene's own; gradients flow through them and through the states.
            frames: slice or list of frame numbers, all by default.
            camera: name of the camera, the first one by default; "all" for all cameras (of one size) in one call.
            quantity: "color"; "depth", camera depth [m], one channel; or "normal", world normals. Soft edges
                blend the values of all three.
            alpha: whether to add a channel with the coverage of the objects.
            memory_limit: bytes of working memory for rendering (estimate: ``bridge.render``): long films are rendered in chunks,
                and rendered again per chunk for the gradient. The states and the images are not included.

        Returns:
            [B, T, H, W, C], for "all" [B, T, cameras, H, W, C], linear rgb in [0, 1] (C = 3, with alpha 4; of depth 1 and 2); NaN
            for worlds that diverged.

        Raises:
            UserError: the scene has no camera or no light, names and shapes do not fit, or one image needs more memory.
        """
        return self.view.render(states, parameters, frames, PictureOptions(camera, quantity, alpha, memory_limit))

    def description(self) -> dict[str, Any]:
        """All data that determine a film of this scene, as JSON values (geometry and pictures as checksums)."""
        return describe(self)
