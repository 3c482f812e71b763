"""Tracking: every frame is fitted by all cameras at once, from where the frames before it lead, and again from those after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.solvers.registration.tangent import Tangent
from risp_torch.least_squares.damping import MeanDiagonalDamping, limited
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import Equations, PointwiseProblem
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Termination
from risp_torch.motions.recording import rotation_vector
from risp_torch.scene.scene import Scene
from risp_torch.tracking.coverage import Outlines, check_bodies
from risp_torch.tracking.picture_fit import FilmedView, PictureNormal
from risp_torch.tracking.poses import TrackedPoses
from risp_torch.tracking.settings import TrackSettings
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

STEP = 0.35  # pixels, of the differences
UNIT = 1e-3  # largest deviation of a quaternion's length from 1
FEWEST = 5  # frames whose median may be a plate
REFITS = 3  # of a single frame
LIMIT = 0.3  # of a step, in sizes of each body
POLICY = Policy(
    MeanDiagonalDamping(), FixedSteps((1e-6,), (1.0, 0.4)), rounds=1, termination=Termination(decrease=0.0)
)  # fmt: skip

Colors = Sequence[np.ndarray] | None  # [N, 3] of each camera, in a frame beside it


@checked
def track_poses(
    scene: Scene,
    films: Mapping[str, np.ndarray],
    start: np.ndarray,
    *,
    plates: Mapping[str, np.ndarray] | None = None,
    settings: TrackSettings | None = None,
    progress: bool = False,
) -> TrackedPoses:
    """Poses of free rigid bodies in every frame, from pictures alone: no physics, lights or materials are used.

    Known are the shapes of the bodies, the cameras, and about where the bodies are at first. Two cameras from different sides
    observe every direction of a pose well. One camera observes distance by size alone, and hardly the rotation of a body that
    shows it one side: the body is lost in some films, and costs do not reveal it.

    Args:
        scene: free rigid bodies, and cameras that stand.
        films: by the name of the camera: [T, H, W, 3] linear rgb, of pictures taken at the same times.
        start: [N, 7] poses in the first frame (m, quaternion x, y, z, w), right to a tenth of the bodies' size or so.
        plates: by the name of the camera: [H, W, 3] linear rgb without the bodies, NaN where it is not known; by default each
            pixel's median over the film, which shows bodies that rest for half of it.
        settings: ``TrackSettings()`` by default.
        progress: whether to show a progress bar.

    Raises:
        UserError: the scene has other bodies, a film or plate does not fit its camera or the other films, or a body is not seen.
    """
    settings = settings or TrackSettings()
    check_bodies(scene)
    start = _checked_start(scene, start)
    views = _views(scene, films, plates or {}, settings)
    tracker = _Tracker(views, Tangent.of(scene, torch.zeros((), dtype=torch.float64)), settings)
    fits: list[_Fitted] = []
    frames = tqdm(total=2 * len(next(iter(films.values()))) - 1, desc="tracking", disable=not progress)
    for frame in range(len(next(iter(films.values())))):
        starts = tracker.tilted(start) if frame == 0 else _extrapolated([fit.placement for fit in fits[-2:]])
        fits.append(tracker.fitted(frame, starts, fits[-1].colors if fits else None))
        frames.update()
    for frame in range(len(fits) - 2, -1, -1):
        # The first frames, and those at an impact, may have ended in a second minimum: later ones lead to the right one.
        starts = [fits[frame].placement, _extrapolated([fit.placement for fit in fits[frame + 2 : frame : -1]])[0]]
        fits[frame] = tracker.fitted(frame, starts, fits[frame + 1].colors)
        frames.update()
    for _ in range(REFITS if len(fits) == 1 else 0):
        # No neighbouring frame gives colours: its own take the place of grey, which pulls at sides that few pixels show.
        fits = [tracker.fitted(0, [fits[0].placement], fits[0].colors)]
    frames.close()
    return TrackedPoses(np.array([fit.placement for fit in fits]), np.array([fit.cost for fit in fits]))


def _checked_start(scene: Scene, start: np.ndarray) -> np.ndarray:
    """Poses [N, 7] with unit quaternions, float64."""
    start, shape = np.array(start, dtype=np.float64), (len(scene.bodies), 7)
    if start.shape != shape:
        raise UserError(f"start has the shape {list(start.shape)}: give a pose of each body, {list(shape)}")
    length = np.linalg.norm(start[:, 3:], axis=1, keepdims=True)
    if not np.isfinite(start).all() or (np.abs(length - 1) > UNIT).any():
        raise UserError("start has poses that are not finite, or quaternions that are not of length 1")
    start[:, 3:] /= length
    return start


def _views(
    scene: Scene, films: Mapping[str, np.ndarray], plates: Mapping[str, np.ndarray], settings: TrackSettings
) -> list[FilmedView]:
    """The films with their cameras, checked."""
    if not films:
        raise UserError("there is no film to track in: give at least one, by the name of its camera")
    unknown = set(plates) - set(films)
    if unknown:
        raise UserError(f"there is a plate, but no film, of {', '.join(sorted(unknown))}")
    lengths, views = {name: len(film) for name, film in films.items()}, []
    if len(set(lengths.values())) > 1:
        raise UserError(f"the films have different numbers of frames, {lengths}: cut them to the same times")
    for name, pictures in films.items():
        if name not in {camera.name for camera in scene.cameras}:
            raise UserError(f"{scene.name} has no camera {name}: it has {', '.join(camera.name for camera in scene.cameras)}")
        film, outlines = np.asarray(pictures, dtype=np.float64), Outlines(scene, name, samples=settings.samples)
        size = (outlines.height, outlines.width, 3)
        if film.shape[1:] != size or not len(film):
            raise UserError(f"the film of {name} has the shape {list(film.shape)}: its camera makes pictures {list(size)}")
        if not np.isfinite(film).all():
            raise UserError(f"the film of {name} has pixels that are not finite")
        if name not in plates and len(film) < FEWEST:
            raise UserError(f"the film of {name} has {len(film)} frames, whose median is no plate: give its plate")
        plate = np.asarray(plates[name], dtype=np.float64) if name in plates else np.median(film, axis=0)
        if plate.shape != size:
            raise UserError(f"the plate of {name} has the shape {list(plate.shape)}: its camera makes pictures {list(size)}")
        views.append(FilmedView(outlines, film, plate, settings))
    return views


def _extrapolated(placements: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Where one or two frames lead: on with their velocity, and with half of it."""
    last = placements[-1]
    if len(placements) == 1:
        return [last]
    move, turn = last[:, :3] - placements[-2][:, :3], rotation_vector(placements[-2][:, 3:], last[:, 3:])
    return [_moved(last, fraction * move, fraction * turn) for fraction in (1.0, 0.5)]


def _moved(placement: np.ndarray, move: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """A placement [N, 7] after moves [N, 3] m and turns [N, 3] rad."""
    unit = Tangent(len(placement), 0, torch.ones(len(placement), dtype=torch.float64))
    return unit.moved(torch.as_tensor(placement), torch.as_tensor(np.concatenate([move, turn], axis=1)).flatten()).numpy()


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A frame: placement [N, 7], cost, and the colours [N, 3] of the bodies for each camera, solved before the last step."""

    placement: np.ndarray
    cost: float
    colors: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class _Tracker:
    """Fits of single frames."""

    views: Sequence[FilmedView]
    tangent: Tangent
    settings: TrackSettings

    def tilted(self, start: np.ndarray) -> list[np.ndarray]:
        """The start [N, 7], and turned about the axes of the world."""
        turns = [side * self.settings.tilt * axis for axis in np.eye(3) for side in (1.0, -1.0)]
        still = np.zeros((len(start), 3))
        return [start, *(_moved(start, still, np.tile(turn, (len(start), 1))) for turn in turns)]

    def fitted(self, frame: int, starts: Sequence[np.ndarray], before: Colors) -> _Fitted:
        """The best fit to a frame from several starts [N, 7], with the colours of a frame beside it."""
        metres = min(view.outlines.metres_per_pixel(starts[0]) for view in self.views)
        tries = []
        for placement in starts:
            for _ in range(self.settings.first_steps):
                equations = self.equations(frame, placement, metres, before, blurred=True)
                (damping,) = POLICY.search.dampings
                change = limited(POLICY.damping.step(equations, damping), limit=self.limit)
                placement = self.after(placement, change[None])[0]
            tries.append(self._sharper(frame, placement, metres, before, steps=2))
        best = min(tries, key=lambda fit: fit.cost)
        return self._sharper(frame, best.placement, metres, before, steps=self.settings.steps)

    def _sharper(self, frame: int, placement: np.ndarray, metres: float, before: Colors, *, steps: int) -> _Fitted:
        """Steps with sharp pictures, each the best of some lengths, before a background that is held during it."""
        termination = replace(POLICY.termination, step=self.settings.tolerance * metres)
        policy = replace(POLICY, rounds=steps, limit=self.limit, termination=termination)
        problem = _FrameProblem(self, frame, metres, before)
        starts = minimise(problem, Starts.begin([placement], policy), policy)
        return _Fitted(starts.points[0], float(starts.objectives[0]), problem.colors)

    @property
    def limit(self) -> np.ndarray:
        """[D] largest change of each coordinate in a step, m."""
        return LIMIT * np.repeat(self.tangent.radius.numpy(), 6)

    def equations(self, frame: int, placement: np.ndarray, metres: float, before: Colors, *, blurred: bool) -> NormalEquations:
        """Normal equations of all cameras at a placement [N, 7]; their context are those of each camera."""
        width, count = STEP * metres, self.tangent.count
        changes = np.concatenate([np.zeros((1, count)), width * np.eye(count), -width * np.eye(count)])
        perturbed = self.after(placement, changes)
        normals = [
            view.normal(frame, perturbed, width, None if before is None else before[k], blurred=blurred)
            for k, view in enumerate(self.views)
        ]
        matrix = sum(normal.matrix for normal in normals)
        gradient = sum(normal.gradient for normal in normals)
        for n, body in enumerate(self.views[0].outlines.scene.bodies):
            if not np.trace(matrix[6 * n : 6 * n + 6, 6 * n : 6 * n + 6]) > 0:
                raise UserError(
                    f"frame {frame} does not show {body.name} where it is looked for: give a nearer start, or cut the film where "
                    "the body leaves the pictures"
                )
        return NormalEquations(matrix, gradient, context=normals)

    def after(self, placement: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """[B, N, 7] a placement after changes [B, D]."""
        return self.tangent.moved(torch.as_tensor(placement)[None], torch.as_tensor(changes)).numpy()


class _FrameProblem(PointwiseProblem):
    """The pictures of a frame; a point is a placement [N, 7].

    Attributes:
        colors: [N, 3] of the bodies for each camera, at the last linearisation.
    """

    reevaluates = True

    def __init__(self, tracker: _Tracker, frame: int, metres: float, before: Colors) -> None:
        self.tracker, self.frame, self.metres, self.before = tracker, frame, metres, before
        self.colors: list[np.ndarray] = []

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations]:
        """Normal equations of all cameras (``LeastSquaresProblem.linearise``)."""
        (placement,) = points
        equations = self.tracker.equations(self.frame, placement, self.metres, self.before, blurred=False)
        self.colors = [normal.colors for normal in equations.context]
        return [equations]

    def moved(self, point: np.ndarray, equations: NormalEquations, steps: np.ndarray) -> np.ndarray:
        """The placement after changes (``PointwiseProblem.moved``)."""
        return self.tracker.after(point, steps)

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Equations) -> np.ndarray:
        """Costs before the background of the linearisation (``PointwiseProblem.objectives``)."""
        normals: list[PictureNormal] = equations[0].context
        costs = [
            view.costs(np.array(candidates[0]), None if self.before is None else self.before[k], normals[k].behind)
            for k, view in enumerate(self.tracker.views)
        ]
        return np.sum(costs, axis=0)[None]
