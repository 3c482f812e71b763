"""Tracking: a forward pass fits each frame to all pictures of its time, from extrapolated poses; a backward pass repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.solvers.registration.tangent import Tangent
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import Equations, PointwiseProblem
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Acceptance, Termination
from risp_torch.motions.recording import rotation_vector
from risp_torch.scene.scene import Scene
from risp_torch.tracking.coverage import CoverageRenderer, check_bodies
from risp_torch.tracking.picture_fit import FilmedView, PoseNormalEquations
from risp_torch.tracking.poses import TrackedPoses
from risp_torch.tracking.settings import TrackSettings
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

DIFFERENCE_PIXELS = 0.35  # pixels: half the width of the central differences
QUATERNION_TOLERANCE = 1e-3  # largest deviation of a quaternion's length from 1
MIN_MEDIAN_FRAMES = 5  # frames of a film whose median is used as its plate
SINGLE_FRAME_REFITS = 3
MAX_RELATIVE_STEP = 0.3  # largest step, relative to the size of each body
POLICY = Policy(
    MeanDiagonalDamping(), FixedSteps((1e-6,), (1.0, 0.4)), rounds=1, termination=Termination(decrease=0.0)
)  # fmt: skip
# With blurred pictures every step is accepted: costs are not compared.
FIRST_POLICY = replace(
    POLICY, search=FixedSteps((1e-6,)), acceptance=Acceptance(every=True), termination=Termination(decrease=None)
)  # fmt: skip

NeighbourColors = Sequence[np.ndarray] | None  # [N, 3] colours in the neighbouring frame, for each camera


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

    The shapes of the bodies, the cameras, and approximate initial poses are known. Two cameras from different sides
    observe every direction of a pose well. One camera observes distance by size alone, and hardly the rotation of a body that
    shows it one side: tracking loses the body in some films, and the cost does not reveal it.

    Args:
        scene: free rigid bodies, and static cameras.
        films: by the name of the camera: [T, H, W, 3] linear rgb, of pictures taken at the same times.
        start: [N, 7] poses in the first frame (m, quaternion x, y, z, w), accurate to about a tenth of the bodies' size.
        plates: by the name of the camera: [H, W, 3] linear rgb without the bodies, NaN where it is unknown; by default each
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
    fits: list[_FrameFit] = []
    progress_bar = tqdm(total=2 * len(next(iter(films.values()))) - 1, desc="tracking", disable=not progress)
    for frame in range(len(next(iter(films.values())))):
        starts = tracker.tilted_starts(start) if frame == 0 else _extrapolated([fit.placement for fit in fits[-2:]])
        fits.append(tracker.fit_frame(frame, starts, fits[-1].colors if fits else None))
        progress_bar.update()
    for frame in range(len(fits) - 2, -1, -1):
        # Fits of the first frames, and of frames at an impact, may be in a wrong minimum: later frames lead to the right one.
        starts = [fits[frame].placement, _extrapolated([fit.placement for fit in fits[frame + 2 : frame : -1]])[0]]
        fits[frame] = tracker.fit_frame(frame, starts, fits[frame + 1].colors)
        progress_bar.update()
    for _ in range(SINGLE_FRAME_REFITS if len(fits) == 1 else 0):
        # Without a neighbouring frame the prior of colours is grey, which biases sides that few pixels show: use fitted colours.
        fits = [tracker.fit_frame(0, [fits[0].placement], fits[0].colors)]
    progress_bar.close()
    return TrackedPoses(np.array([fit.placement for fit in fits]), np.array([fit.cost for fit in fits]))


def _checked_start(scene: Scene, start: np.ndarray) -> np.ndarray:
    """Poses [N, 7] with unit quaternions, float64."""
    start, shape = np.array(start, dtype=np.float64), (len(scene.bodies), 7)
    if start.shape != shape:
        raise UserError(f"start has the shape {list(start.shape)}: give a pose of each body, {list(shape)}")
    lengths = np.linalg.norm(start[:, 3:], axis=1, keepdims=True)
    if not np.isfinite(start).all() or (np.abs(lengths - 1) > QUATERNION_TOLERANCE).any():
        raise UserError("start has poses that are not finite, or quaternions that are not of length 1")
    start[:, 3:] /= lengths
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
    frame_counts, views = {name: len(film) for name, film in films.items()}, []
    if len(set(frame_counts.values())) > 1:
        raise UserError(f"the films have different numbers of frames, {frame_counts}: cut them to the same times")
    for name, pictures in films.items():
        if name not in {camera.name for camera in scene.cameras}:
            raise UserError(f"{scene.name} has no camera {name}: it has {', '.join(camera.name for camera in scene.cameras)}")
        film, renderer = np.asarray(pictures, dtype=np.float64), CoverageRenderer(scene, name, samples=settings.samples)
        size = (renderer.height, renderer.width, 3)
        if film.shape[1:] != size or not len(film):
            raise UserError(f"the film of {name} has the shape {list(film.shape)}: its camera makes pictures {list(size)}")
        if not np.isfinite(film).all():
            raise UserError(f"the film of {name} has pixels that are not finite")
        if name not in plates and len(film) < MIN_MEDIAN_FRAMES:
            raise UserError(f"the film of {name} has {len(film)} frames, whose median is no plate: give its plate")
        plate = np.asarray(plates[name], dtype=np.float64) if name in plates else np.median(film, axis=0)
        if plate.shape != size:
            raise UserError(f"the plate of {name} has the shape {list(plate.shape)}: its camera makes pictures {list(size)}")
        views.append(FilmedView(renderer, film, plate, settings))
    return views


def _extrapolated(placements: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Placements extrapolated from the last one or two frames, with their velocity and with half of it."""
    last = placements[-1]
    if len(placements) == 1:
        return [last]
    translation, rotation = last[:, :3] - placements[-2][:, :3], rotation_vector(placements[-2][:, 3:], last[:, 3:])
    return [_displaced(last, fraction * translation, fraction * rotation) for fraction in (1.0, 0.5)]


def _displaced(placement: np.ndarray, translations: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """A placement [N, 7] after translations [N, 3] m and rotations [N, 3] rad."""
    unit_radii = Tangent(len(placement), 0, torch.ones(len(placement), dtype=torch.float64))
    return unit_radii.moved(
        torch.as_tensor(placement), torch.as_tensor(np.concatenate([translations, rotations], axis=1)).flatten()
    ).numpy()


@dataclass(frozen=True, eq=False)
class _FrameFit:
    """Fit of a frame: placement [N, 7], cost, and colours [N, 3] of the bodies for each camera, from before the last step."""

    placement: np.ndarray
    cost: float
    colors: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class _Tracker:
    """Fits of single frames."""

    views: Sequence[FilmedView]
    tangent: Tangent
    settings: TrackSettings

    def tilted_starts(self, start: np.ndarray) -> list[np.ndarray]:
        """The initial placement [N, 7], and the same rotated about the world's axes."""
        rotations = [sign * self.settings.tilt * axis for axis in np.eye(3) for sign in (1.0, -1.0)]
        no_translation = np.zeros((len(start), 3))
        return [start, *(_displaced(start, no_translation, np.tile(rotation, (len(start), 1))) for rotation in rotations)]

    def fit_frame(self, frame: int, starts: Sequence[np.ndarray], neighbour_colors: NeighbourColors) -> _FrameFit:
        """The best fit to a frame from several initial placements [N, 7], with the colours of the neighbouring frame."""
        metres_per_pixel = min(view.renderer.metres_per_pixel(starts[0]) for view in self.views)
        fits = []
        for placement in starts:
            policy = replace(FIRST_POLICY, rounds=self.settings.first_steps, limit=self.step_limit)
            problem = _BlurredFrameProblem(self, frame, metres_per_pixel, neighbour_colors)
            (blurred_fit,) = minimise(problem, Starts.begin([placement], policy), policy).points
            fits.append(self._refine(frame, blurred_fit, metres_per_pixel, neighbour_colors, steps=2))
        best = min(fits, key=lambda fit: fit.cost)
        return self._refine(frame, best.placement, metres_per_pixel, neighbour_colors, steps=self.settings.steps)

    def _refine(
        self, frame: int, placement: np.ndarray, metres_per_pixel: float, neighbour_colors: NeighbourColors, *, steps: int
    ) -> _FrameFit:
        """Refine a fit with sharp pictures; each step is the best of several lengths, with a fixed background."""
        termination = replace(POLICY.termination, step=self.settings.tolerance * metres_per_pixel)
        policy = replace(POLICY, rounds=steps, limit=self.step_limit, termination=termination)
        problem = _FrameProblem(self, frame, metres_per_pixel, neighbour_colors)
        solution = minimise(problem, Starts.begin([placement], policy), policy)
        return _FrameFit(solution.points[0], float(solution.objectives[0]), problem.colors)

    @property
    def step_limit(self) -> np.ndarray:
        """[D] largest change of each coordinate in a step, m."""
        return MAX_RELATIVE_STEP * np.repeat(self.tangent.radius.numpy(), 6)

    def equations(
        self, frame: int, placement: np.ndarray, metres_per_pixel: float, neighbour_colors: NeighbourColors, *, blurred: bool
    ) -> NormalEquations:
        """Normal equations of all cameras at a placement [N, 7]; ``context`` holds the equations of each camera."""
        difference_step, num_coordinates = DIFFERENCE_PIXELS * metres_per_pixel, self.tangent.count
        changes = np.concatenate(
            [
                np.zeros((1, num_coordinates)),
                difference_step * np.eye(num_coordinates),
                -difference_step * np.eye(num_coordinates),
            ]
        )
        perturbed_placements = self.displaced(placement, changes)
        camera_equations = [
            view.normal(
                frame,
                perturbed_placements,
                difference_step,
                None if neighbour_colors is None else neighbour_colors[k],
                blurred=blurred,
            )
            for k, view in enumerate(self.views)
        ]
        matrix = sum(view_equations.matrix for view_equations in camera_equations)
        gradient = sum(view_equations.gradient for view_equations in camera_equations)
        for n, body in enumerate(self.views[0].renderer.scene.bodies):
            if not np.trace(matrix[6 * n : 6 * n + 6, 6 * n : 6 * n + 6]) > 0:
                raise UserError(
                    f"frame {frame} does not show {body.name} where it is looked for: give a nearer start, or cut the film where "
                    "the body leaves the pictures"
                )
        return NormalEquations(matrix, gradient, context=camera_equations)

    def displaced(self, placement: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """[B, N, 7] a placement after changes [B, D]."""
        return self.tangent.moved(torch.as_tensor(placement)[None], torch.as_tensor(changes)).numpy()


class _FrameProblem(PointwiseProblem):
    """The pictures of a frame; a point is a placement [N, 7].

    Attributes:
        blurred: whether the normal equations are those of blurred pictures.
        colors: [N, 3] of the bodies for each camera, at the last linearisation.
    """

    blurred, reevaluates = False, True

    def __init__(self, tracker: _Tracker, frame: int, metres_per_pixel: float, neighbour_colors: NeighbourColors) -> None:
        self.tracker, self.frame, self.metres_per_pixel, self.neighbour_colors = (
            tracker,
            frame,
            metres_per_pixel,
            neighbour_colors,
        )
        self.colors: list[np.ndarray] = []

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations]:
        """Normal equations of all cameras (``LeastSquaresProblem.linearise``)."""
        (placement,) = points
        equations = self.tracker.equations(
            self.frame, placement, self.metres_per_pixel, self.neighbour_colors, blurred=self.blurred
        )
        self.colors = [view_equations.colors for view_equations in equations.context]
        return [equations]

    def moved(self, point: np.ndarray, equations: NormalEquations, steps: np.ndarray) -> np.ndarray:
        """The placement after changes (``PointwiseProblem.moved``)."""
        return self.tracker.displaced(point, steps)

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Equations) -> np.ndarray:
        """Costs in front of the background of the linearisation (``PointwiseProblem.objectives``)."""
        camera_equations: list[PoseNormalEquations] = equations[0].context
        costs = [
            view.costs(
                np.array(candidates[0]),
                None if self.neighbour_colors is None else self.neighbour_colors[k],
                camera_equations[k].background,
            )
            for k, view in enumerate(self.tracker.views)
        ]
        return np.sum(costs, axis=0)[None]


class _BlurredFrameProblem(_FrameProblem):
    """The same with blurred pictures, without costs."""

    blurred, reevaluates = True, False

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Equations) -> np.ndarray:
        """Zeros: a policy that compares no steps needs no costs (``PointwiseProblem.objectives``)."""
        return np.zeros((1, len(candidates[0])))
