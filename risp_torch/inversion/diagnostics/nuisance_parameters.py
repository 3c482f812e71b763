"""Numbers of a scene that an inversion assumes known and that may be wrong.

Families of nuisance parameters: camera and lens, time of the film, look, start of the bodies, gravity's direction, air drag, mass
distribution, time step of the physics, centre of mass and size of bodies, and every other physical number by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.inversion.problem.unknowns import PSI, Unknowns
from risp_torch.scene.adding.camera import add_lens
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.parts.cameras import prefix_of
from risp_torch.scene.parts.clock import RATE, START
from risp_torch.scene.parts.lights import ARRAYS
from risp_torch.scene.rotations import rotation_matrix
from risp_torch.scene.scene import Scene
from ti_sim.shapes.contact_points import KIND, PATCH, POSITION, RADIUS, VECTOR

# Standard deviations of errors that users may overlook: of a camera in rad and in parts of its distance from the world's origin
# and of its focal length; of a film in frame intervals and in parts of its rate; of lights in parts of their intensity and in
# rad, of colours in parts of white; of a start in rad and in parts of the camera's distance; of a lens the coefficients k1 and
# k2; of gravity in rad; of drag in 1/s of a body's mass; of inertia and of physical numbers in parts of them, or of their
# ranges; of the time step in errors by the scene's own; of a body its centre of mass and its size in parts of its size.
CAMERA_TURN, CAMERA_SHIFT, CAMERA_ZOOM = np.radians(2.0), 0.07, 0.1
FILM_START, FILM_RATE = 0.3, 0.03
BRIGHTNESS, LIGHT_TURN, COLOR = 0.3, 0.2, 0.1
BODY_TURN, BODY_SHIFT = 0.05, 0.02
LENS_COEFFICIENT, GRAVITY_TILT, DRAG, INERTIA = 0.2, np.radians(2.0), 0.2, 0.1
NUMBER_FRACTION, RANGE_FRACTION, POISSON, TIME_STEP_ERROR = 0.2, 0.1, 0.05, 3.0
MAX_SEPARATE_ENTRIES = 4  # of a vector whose entries are varied one by one; a larger array is scaled
START_NAMES = ("position", "velocity", "rotation", "angle", "angular_velocity", "rate", "velocity_gradient")
CENTER_SHIFT, SIZE_CHANGE = 0.05, 0.03
VARIANT_SIZE_CHANGE = 0.01  # change of a body's size in its variant
MAX_TESTED_BODIES = 3  # whose centre of mass and size are tested
CENTER_OF_MASS, BODY_SIZE = "center_of_mass", "size"  # names of nuisances that are no parameters
TIME_STEP = "substeps"  # name of the nuisance that stands for the time step of the physics


@dataclass(frozen=True)
class Nuisance:
    """A direction in which a known number may be wrong.

    Attributes:
        name: of the parameter.
        move: change of its value by one standard deviation, of its shape.
        logarithmic: whether it is the natural logarithm of the value that changes.
    """

    name: str
    move: np.ndarray
    logarithmic: bool = False


@dataclass(frozen=True)
class Family:
    """Nuisance parameters that are wrong together.

    Attributes:
        title: their name in sentences.
        nuisances: M directions.
        scene: the scene, with all parameters that these name.
        variants: if the nuisances are no parameters, M scenes, each changed by a part of one nuisance's standard deviation;
            empty for other families.
        variant_scale: standard deviation of a nuisance, divided by its change in a variant.
        assumed: whether an unknown can compensate its error, so that it is an assumption if the film does not determine it.
        is_complete: False for one of several parameters of a family.
    """

    title: str
    nuisances: tuple[Nuisance, ...]
    scene: Scene
    variants: tuple[Scene, ...] = ()
    variant_scale: float = 1.0
    assumed: bool = False
    is_complete: bool = True

    def subfamilies(self) -> Iterator[tuple[Family, list[int]]]:
        """The family, and the numbers of each of its parameters where it has several; with their indices among the nuisances."""
        yield self, list(range(len(self.nuisances)))
        for name in self.names if len(self.names) > 1 else []:
            member_indices = [m for m, nuisance in enumerate(self.nuisances) if nuisance.name == name]
            yield replace(self, nuisances=tuple(self.nuisances[m] for m in member_indices), is_complete=False), member_indices

    @property
    def names(self) -> list[str]:
        """The parameters."""
        return list(dict.fromkeys(nuisance.name for nuisance in self.nuisances))

    def values(self, amplitudes: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [B, ...] of amplitudes [B, M] in standard deviations."""
        values: dict[str, torch.Tensor] = {}
        for amplitude, nuisance in zip(amplitudes.T, self.nuisances, strict=True):
            scene_value = torch.as_tensor(np.asarray(self.scene.parameters[nuisance.name].value), dtype=amplitude.dtype).to(
                amplitude.device
            )
            move = torch.as_tensor(nuisance.move, dtype=amplitude.dtype).to(amplitude.device)
            moved, current = amplitude.reshape(-1, *[1] * move.ndim) * move, values.get(nuisance.name, scene_value)
            values[nuisance.name] = current * moved.exp() if nuisance.logarithmic else current + moved
        return {name: self._clamped(name, value) for name, value in values.items()}

    def limits(self, farthest: float) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest amplitudes [M], ``farthest`` unless all numbers that a direction changes are on a limit."""
        low, high = np.full(len(self.nuisances), -farthest), np.full(len(self.nuisances), farthest)
        for m, nuisance in enumerate(self.nuisances):
            sign = self.scene.table.signs.get(nuisance.name)
            if nuisance.logarithmic or sign not in ("positive", "not negative", "color"):
                continue
            value, move = np.broadcast_arrays(self.scene.parameters[nuisance.name].value, nuisance.move)
            value, move = value[move != 0], move[move != 0]
            if np.all((value <= 0) & (move > 0)) or (sign == "color" and np.all((value >= 1) & (move < 0))):
                low[m] = 0.0
            elif np.all((value <= 0) & (move < 0)) or (sign == "color" and np.all((value >= 1) & (move > 0))):
                high[m] = 0.0
        return low, high

    def _clamped(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The values, clamped to those that the scene accepts."""
        sign = self.scene.table.signs.get(name)
        if sign == "color":
            return value.clamp(0.0, 1.0)
        return value.clamp(min=0.0) if sign in ("positive", "not negative") else value


def why_untested(scene: Scene, loss: Loss) -> str | None:
    """Why no number of a scene is tested with a loss, as a part of a sentence; None where they are tested."""
    if isinstance(scene, Films):
        return "several films have no such tests (those of a single one have)"
    if isinstance(loss, MatchedLoss):
        return "a solved look has no such tests (--loss mask alone has)"
    if loss.non_smooth:
        bias = ", and no error bar holds a bias of the network in the film's look" if loss.kind == "risp" else ""
        return f"the {loss.kind} loss is not smooth and has no such tests (--loss mask has){bias}"
    return "a scene without a camera has no such tests" if scene.camera is None else None


def families_of(scene: Scene, loss: Loss, unknowns: Unknowns) -> list[Family]:
    """Nuisance parameters of a scene besides its unknowns; none for several films, and where a film takes a solve of its look.

    Args:
        scene: the scene.
        loss: the loss: masks and depths do not show the look, states and tracks in space not the camera.
        unknowns: the unknowns; parameters of which a part is unknown are not among the nuisances.
    """
    if why_untested(scene, loss) is not None:
        return []
    excluded = {split_entry(name)[0] for name in unknowns.params} | set(loss.appearance())
    if unknowns.appearance is not None:
        excluded |= set(unknowns.appearance.distributions)
    candidates = []
    with_camera = loss.of_pictures and scene.view.has_projection
    if with_camera:
        candidates.append(Family("the camera", tuple(_camera(scene)), scene))
    if isinstance(loss, PixelLoss) and PSI not in unknowns.params:
        candidates.append(Family("the look", tuple(_look(scene)), scene))
    candidates.append(Family("the start of the bodies", tuple(_starts(scene)), scene))
    candidates += [Family(name, tuple(_varied(scene, name)), scene, assumed=True) for name in _number_names(scene)]
    candidates += _changed_scenes(scene)
    if with_camera:
        lens_scene = _changed(scene, _give_lens)
        candidates.append(Family("the camera's lens", tuple(_lens(lens_scene)), lens_scene))
    if (timed_scene := _with_clock(scene)) is not None:
        candidates.append(Family("the film's time", tuple(_time(timed_scene)), timed_scene))
    families = [
        replace(candidate, nuisances=tuple(n for n in candidate.nuisances if n.name not in excluded)) for candidate in candidates
    ]
    return [family for family in families if family.nuisances]


def _changed_scenes(scene: Scene) -> Iterator[Family]:
    """Gravity's direction, drag and inertia of bodies for which the scene gives none, and the time step."""
    gravity = np.asarray(scene.parameters["gravity"].value) if "gravity" in scene.parameters else np.zeros(0)
    if gravity.shape == (3,) and gravity.any():
        tilts = tuple(Nuisance("gravity", GRAVITY_TILT * tangent) for tangent in _tangents(gravity))
        yield Family("the direction of gravity", tilts, scene)
    for title, change, nuisances_of in (("air drag", _give_drag, _drag), ("the mass distribution", _give_inertia, _inertia)):
        extended_scene = _changed(scene, change)
        yield Family(title, tuple(nuisances_of(scene, extended_scene)), extended_scene)
    if scene.simulator.adapter.refinable:
        refined_scene = _changed(scene, _halve_steps)
        time_step = (Nuisance(TIME_STEP, np.asarray(TIME_STEP_ERROR)),)
        yield Family("the time step of the physics", time_step, scene, (refined_scene,), TIME_STEP_ERROR)
    if not scene.articulated and 0 < len(scene.bodies) <= MAX_TESTED_BODIES:
        visible = [k for k, body in enumerate(scene.bodies) if body.mesh is not None]
        sides = {k: float(np.ptp(scene.bodies[k].mesh.vertices, axis=0).max()) for k in visible}
        shifts = [(k, CENTER_SHIFT * sides[k] * axis) for k in visible for axis in np.eye(3)]
        moved = tuple(_changed(scene, partial(_move_center, body=k, shift=shift)) for k, shift in shifts)
        center = tuple(Nuisance(f"{scene.bodies[k].name}.{CENTER_OF_MASS}", shift) for k, shift in shifts)
        yield Family("the centre of mass", center, scene, moved)
        resizable = [k for k in visible if scene.bodies[k].collision is None or scene.bodies[k].collision.kind != "mesh"]
        resized = tuple(_changed(scene, partial(_resize, body=k, factor=1.0 + VARIANT_SIZE_CHANGE)) for k in resizable)
        sizes = tuple(Nuisance(f"{scene.bodies[k].name}.{BODY_SIZE}", np.asarray(SIZE_CHANGE)) for k in resizable)
        yield Family("the size of the bodies", sizes, scene, resized, SIZE_CHANGE / VARIANT_SIZE_CHANGE)


def _changed(scene: Scene, change: Callable[[Scene], None]) -> Scene:
    """A copy of the scene with a change."""
    changed = copy.deepcopy(scene)
    change(changed)
    return changed


def _give_lens(scene: Scene) -> None:
    add_lens(scene, f"{prefix_of(scene.camera)}.distortion")


def _halve_steps(scene: Scene) -> None:
    scene.stepping = replace(scene.stepping, substeps=2 * scene.stepping.substeps)
    scene.applied_forces = tuple(replace(f, first_step=2 * f.first_step, end_step=2 * f.end_step) for f in scene.applied_forces)


def _move_center(scene: Scene, *, body: int, shift: np.ndarray) -> None:
    """Move the centre of mass of a body by ``shift`` [3] (body frame, m), while the body and its motion at the start stay."""
    old_body = scene.bodies[body]
    points = old_body.points.copy()
    points[:, POSITION : POSITION + 3] -= shift
    mesh = replace(old_body.mesh, vertices=old_body.mesh.vertices - shift)
    collision = old_body.collision
    if collision is not None:
        collision = replace(collision, position=tuple(np.asarray(collision.position) - shift))
    moved_body = replace(old_body, surface=replace(old_body.surface, mesh=mesh), points=points, collision=collision)
    scene.bodies = tuple(moved_body if k == body else scene_body for k, scene_body in enumerate(scene.bodies))
    pose = old_body.pose(scene.table.values(worlds=1))[0].double()
    world_shift = (rotation_matrix(pose[3:]) @ torch.as_tensor(shift, dtype=pose.dtype, device=pose.device)).cpu().numpy()
    angular_velocity = np.asarray(scene.parameters[f"{old_body.name}.angular_velocity"].value)
    for name, change in (("position", world_shift), ("velocity", np.cross(angular_velocity, world_shift))):
        param = scene.table.params[f"{old_body.name}.{name}"]
        scene.table.params[f"{old_body.name}.{name}"] = replace(param, value=param.value + change, low=None, high=None)
    for force in scene.applied_forces:
        if force.body == body:
            param = scene.table.params[f"{force.name}.point"]
            scene.table.params[f"{force.name}.point"] = replace(param, value=param.value - shift, low=None, high=None)


def _resize(scene: Scene, *, body: int, factor: float) -> None:
    """Enlarge a body about its centre of mass. A mass or inertia that is a parameter stays."""
    old_body = scene.bodies[body]
    points = old_body.points.copy()
    points[:, POSITION : RADIUS + 1] *= factor
    points[points[:, KIND] == PATCH, VECTOR:] *= factor**2
    mesh, collision = replace(old_body.mesh, vertices=factor * old_body.mesh.vertices), old_body.collision
    properties = old_body.mass_properties
    if properties is not None:
        volume, inertia = factor**3 * properties.volume, factor**5 * properties.inertia_per_density
        properties = replace(properties, volume=volume, inertia_per_density=inertia)
    if collision is not None:
        size, position = (tuple(factor * np.asarray(lengths)) for lengths in (collision.size, collision.position))
        collision = replace(collision, size=size, position=position)
    surface = replace(old_body.surface, mesh=mesh)
    resized_body = replace(old_body, surface=surface, points=points, mass_properties=properties, collision=collision)
    scene.bodies = tuple(resized_body if k == body else scene_body for k, scene_body in enumerate(scene.bodies))


def _lens(scene: Scene) -> Iterator[Nuisance]:
    """Focal length, and the first two coefficients of radial distortion."""
    prefix = prefix_of(scene.camera)
    yield Nuisance(f"{prefix}.focal", CAMERA_ZOOM * np.asarray(scene.parameters[f"{prefix}.focal"].value))
    coefficients = np.asarray(scene.parameters[f"{prefix}.distortion"].value)
    yield from (
        Nuisance(f"{prefix}.distortion", LENS_COEFFICIENT * np.eye(coefficients.size)[k])
        for k in range(min(2, coefficients.size))
    )


def _give_drag(scene: Scene) -> None:
    for body in [] if scene.articulated else scene.bodies:
        for name, unit in zip(body.drag_names, ("N s/m", "N m s"), strict=True):
            if name not in scene.table.params:
                scene.table.add(name, 0.0, unit=unit, sign="not negative")


def _drag(scene: Scene, extended_scene: Scene) -> Iterator[Nuisance]:
    values = extended_scene.table.values(worlds=1)
    for body in [] if scene.articulated else scene.bodies:
        inertia = float(body.inertia(values)[0].diagonal().mean())
        for name, size in zip(body.drag_names, (float(body.mass(values)[0]), inertia), strict=True):
            if name not in scene.parameters:
                yield Nuisance(name, np.asarray(DRAG * size))


def _give_inertia(scene: Scene) -> None:
    for body in scene.bodies:
        name = f"{body.name}.inertia_per_mass"
        if body.mass_properties is not None and not {name, f"{body.name}.inertia"} & set(scene.table.params):
            inertia_per_mass = np.asarray(body.mass_properties.inertia_per_density) / body.mass_properties.volume
            scene.table.add(name, inertia_per_mass, unit="m2", shape=(3, 3))


def _inertia(scene: Scene, extended_scene: Scene) -> Iterator[Nuisance]:
    """Rows and columns of the inertia tensors, scaled together: second moments of the mass along one axis."""
    for body in scene.bodies:
        name = f"{body.name}.inertia_per_mass"
        if name in extended_scene.parameters:
            inertia_per_mass = np.asarray(extended_scene.parameters[name].value)
            yield from (Nuisance(name, 0.5 * INERTIA * (axis[:, None] + axis[None]) * inertia_per_mass) for axis in np.eye(3))


def _number_names(scene: Scene) -> Iterator[str]:
    """Names of the physical numbers that are not zero or have bounds, without starts, cameras, clock and look."""
    picture_parameters = set(scene.view.picture_parameters)
    for name, param in scene.parameters.items():
        owner, _, suffix = name.rpartition(".")
        if name in picture_parameters or owner in ("softness", "film") or name.startswith("camera") or suffix in START_NAMES:
            continue
        if np.any(param.value) and not (name == "gravity" and np.ndim(param.value)):
            yield name


def _varied(scene: Scene, name: str) -> Iterator[Nuisance]:
    """Directions of a physical number: a part of its range or of itself, each entry of a vector, a large array as a whole."""
    param = scene.parameters[name]
    value = np.asarray(param.value, dtype=np.float64)
    is_bounded = value.ndim == 0 and param.low is not None and param.high is not None
    if scene.table.signs.get(name) == "poisson":
        yield Nuisance(name, np.full(value.shape, POISSON))
    elif is_bounded and param.scale == "log10":
        yield Nuisance(name, np.asarray(RANGE_FRACTION * np.log(param.high / param.low)), logarithmic=True)
    elif is_bounded:
        yield Nuisance(name, np.asarray(RANGE_FRACTION * (param.high - param.low)))
    elif 0 < value.size <= MAX_SEPARATE_ENTRIES and value.ndim == 1:
        amplitude = NUMBER_FRACTION * np.linalg.norm(value)
        yield from (Nuisance(name, amplitude * row) for row in np.eye(value.size))
    else:
        yield Nuisance(name, np.full(value.shape, NUMBER_FRACTION), logarithmic=True)


def _with_clock(scene: Scene) -> Scene | None:
    """The scene with a film that has times as parameters; None if it cannot have one."""
    if scene.clock is not None:
        return scene
    if not scene.simulator.adapter.refinable:
        return None
    timed_scene = copy.deepcopy(scene)
    timed_scene.set_film()
    return timed_scene


def _camera(scene: Scene) -> Iterator[Nuisance]:
    prefix, shift = prefix_of(scene.camera), CAMERA_SHIFT * _distance(scene)
    yield from _entry_nuisances(f"{prefix}.turn", CAMERA_TURN, 3)
    yield from _entry_nuisances(f"{prefix}.position", shift, 3)
    yield Nuisance(f"{prefix}.focal", CAMERA_ZOOM * np.asarray(scene.parameters[f"{prefix}.focal"].value))


def _time(scene: Scene) -> Iterator[Nuisance]:
    yield Nuisance(START, np.asarray(FILM_START * scene.frame_dt))
    yield Nuisance(RATE, FILM_RATE * np.asarray(scene.parameters[RATE].value))


def _look(scene: Scene) -> Iterator[Nuisance]:
    """Lights and colours; large arrays of colours by the three channels."""
    yield from _shading(scene)
    for array, field in scene.view.picture_fields().items():
        for name in field.names:
            suffix = name.rpartition(".")[2]
            if name not in scene.parameters or suffix in ("cell", "origin"):
                continue
            value = np.asarray(scene.parameters[name].value, dtype=np.float64)
            if array in ARRAYS and suffix in ("intensity", "coefficients") and np.any(value):
                yield Nuisance(name, BRIGHTNESS * value)
            elif array == "directional" and suffix == "direction":
                yield from (Nuisance(name, LIGHT_TURN * tangent) for tangent in _tangents(value))
            elif array in ("albedo", "ground", "background") and value.shape[-1:] == (3,):
                yield from (Nuisance(name, COLOR * np.broadcast_to(np.eye(3)[c], value.shape)) for c in range(3))


def _shading(scene: Scene) -> Iterator[Nuisance]:
    """Numbers of the look that no array of the renderer holds."""
    for name in scene.view.shading_parameters:
        value = np.asarray(scene.parameters[name].value, dtype=np.float64)
        if value.shape == (3,):
            yield from _entry_nuisances(name, COLOR, 3)
        elif value.shape == ():
            yield Nuisance(name, BRIGHTNESS * value)


def _starts(scene: Scene) -> Iterator[Nuisance]:
    """Poses and velocities at the start; a velocity error moves a body by a position error over the length of the film."""
    shift, seconds = BODY_SHIFT * _distance(scene), scene.frames * scene.frame_dt
    sizes = {
        "position": shift, "velocity": shift / seconds, "rotation": BODY_TURN, "angle": BODY_TURN,
        "angular_velocity": BODY_TURN / seconds, "rate": BODY_TURN / seconds,
    }  # fmt: skip
    bodies = [name.rpartition(".")[0] for name in scene.parameters if name.rpartition(".")[2] in ("density", "mass")]
    for body in dict.fromkeys(bodies):
        for suffix, size in sizes.items():
            name = f"{body}.{suffix}"
            if name in scene.parameters and np.shape(scene.parameters[name].value) in ((), (3,)):
                yield from _entry_nuisances(name, size, 3 if np.shape(scene.parameters[name].value) else 0)


def _entry_nuisances(name: str, size: float, count: int) -> Iterator[Nuisance]:
    """One direction for each of the entries of a vector, or one for a number."""
    yield from (Nuisance(name, size * row) for row in np.eye(count)) if count else [Nuisance(name, np.asarray(size))]


def _tangents(direction: np.ndarray) -> np.ndarray:
    """Two directions [2, 3] at right angles to one, of its length."""
    return np.linalg.svd(direction[None])[2][1:] * np.linalg.norm(direction)


def _distance(scene: Scene) -> float:
    """Distance of the camera from the world's origin [m]."""
    return float(np.linalg.norm(scene.parameters[f"{prefix_of(scene.camera)}.position"].value))


def sizes_of(family: Family, amplitudes: np.ndarray) -> Mapping[str, np.ndarray]:
    """Parameter -> its change by amplitudes [M]."""
    if family.variants:
        pairs = list(zip(amplitudes, family.nuisances, strict=True))
        return {name: sum(a * nuisance.move for a, nuisance in pairs if nuisance.name == name) for name in family.names}
    values = family.values(torch.as_tensor(np.asarray(amplitudes)[None], dtype=torch.float64))
    return {name: values[name][0].numpy() - np.asarray(family.scene.parameters[name].value) for name in family.names}
