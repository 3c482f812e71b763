"""Poses of bodies tracked in films: coverage, normal equations, background, and whole films against known motions."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    Contact,
    DirectionalLight,
    PictureStyle,
    Scene,
    Start,
    Surface,
    UserError,
    load_scene,
)
from risp_torch.inversion.appearance.model.shadow import shadows_of
from risp_torch.inversion.appearance.settings import CAMERA_EDGES
from risp_torch.tracking import TrackedPoses, TrackSettings, track_poses
from risp_torch.tracking import track as tracking
from risp_torch.tracking.background import shadowed_plate
from risp_torch.tracking.coverage import CoverageRenderer
from risp_torch.tracking.picture_fit import INITIAL_GREY, FilmedView

SIZE, SIDE = 48, 0.1
COLORS = [(0.6, 0.05, 0.05), (0.75, 0.45, 0.1), (0.8, 0.75, 0.2), (0.2, 0.45, 0.2), (0.2, 0.3, 0.6), (0.8, 0.8, 0.78)]
POSE = np.array([[0.01, -0.02, 0.12, *Rotation.from_rotvec([0.5, -0.3, 0.8]).as_quat()]])
EYES = {"front": (0.15, -0.6, 0.4), "side": (0.6, 0.15, 0.4)}


def scene_of(frames: int = 6, *, ground: bool = True, colors: Sequence[tuple[float, float, float]] = COLORS) -> Scene:
    """A box of six colours that flies over the ground, and two cameras."""
    scene = Scene(frame_dt=1 / 60, frames=frames, substeps=4, name="flight", style=PictureStyle(antialias=4))
    if ground:
        contact = Contact(stiffness=1e3, damping=1.0, friction=0.3, friction_stiffness=1.0)
        scene.add_ground(contact=contact, color=(0.4, 0.4, 0.38))
    scene.add_rigid(
        "box", shape=Box(SIDE, 0.9 * SIDE, 1.1 * SIDE), mass=0.3, surface=Surface(face_colors=colors),
        start=Start(
            position=tuple(POSE[0, :3]), orientation=tuple(POSE[0, 3:]), velocity=(0.4, 0.1, 0.6),
            angular_velocity=(2.0, 5.0, 1.0),
        ),
    )  # fmt: skip
    scene.table.set("softness.sigma", 1e-6)
    for name, eye in EYES.items():
        lens = {"vertical_fov": 28.0, "width": SIZE, "height": SIZE, "near": 0.1, "far": 3.0}
        scene.add_camera(Camera.look_at(eye=eye, target=(0.02, 0.0, 0.1), name=name, **lens))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    return scene


def moved(pose: np.ndarray, move: np.ndarray, turn: np.ndarray) -> np.ndarray:
    return np.concatenate([pose[0, :3] + move, (Rotation.from_rotvec(turn) * Rotation.from_quat(pose[0, 3:])).as_quat()])[None]


def exact_coverage(scene: Scene, pose: np.ndarray, fine: int = 24) -> np.ndarray:
    """[SIZE, SIZE] part of each pixel inside the convex hull of the projected corners."""
    camera = scene.cameras[0]
    corners = 0.5 * SIDE * np.array([(x, 0.9 * y, 1.1 * z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    world = pose[0, :3] + Rotation.from_quat(pose[0, 3:]).apply(corners)
    seen = (world - np.asarray(camera.position)) @ np.asarray(camera.rotation).T
    points = np.asarray(camera.focal) * seen[:, :2] / seen[:, 2:] + np.asarray(camera.center)
    normals = ConvexHull(points).equations
    v, u = (np.mgrid[: SIZE * fine, : SIZE * fine] + 0.5) / fine
    inside = (normals[:, 0, None, None] * u + normals[:, 1, None, None] * v + normals[:, 2, None, None] <= 0).all(axis=0)
    return inside.reshape(SIZE, fine, SIZE, fine).mean(axis=(1, 3))


def test_outlines_are_those_of_the_projected_corners() -> None:
    scene = scene_of()
    outlines = CoverageRenderer(scene, "front", samples=4)
    for turn in (np.zeros(3), np.array([0.3, 0.2, -0.5]), np.array([-0.8, 0.1, 0.4])):
        pose = moved(POSE, 0.01 * turn, turn)
        coverage, exact = outlines.of(pose[None]), exact_coverage(scene, pose)
        found = coverage.by_color[0].sum(axis=0).reshape(SIZE, SIZE)
        assert abs(found.sum() / exact.sum() - 1) < 3e-3  # the rasteriser's own outlines are larger
        assert np.sqrt(((found - exact) ** 2).sum() / (np.abs(exact - 0.5) < 0.5).sum()) < 0.05
        np.testing.assert_allclose(coverage.uncovered[0], 1.0 - found.ravel(), atol=1e-9)


def test_no_side_shines_through_at_an_edge() -> None:
    """Sides that are turned away have no part in any pixel."""
    scene = scene_of()
    outlines = CoverageRenderer(scene, "front", samples=4)
    unlit_inputs = outlines.unlit_inputs(POSE[None])
    away = np.asarray(scene.cameras[0].position) - POSE[0, :3]
    facing = unlit_inputs.normals()[0].cpu().numpy() @ away
    shown = np.array([outlines.of(POSE[None]).by_color[0, outlines.palette.corner[face]].sum() for face in range(len(facing))])
    clear = np.abs(facing) > 0.15 * np.linalg.norm(away)  # a side seen at a sharp angle is not told from one turned away here
    assert (shown[clear & (facing < 0)] < 0.02 * shown.max()).all() and (shown[clear & (facing > 0)] > 0.1 * shown.max()).all()


def test_gradients_are_those_of_the_cost() -> None:
    """At the solved colours the cost changes as the gradient says (envelope theorem); the outliers' weight is held at 1."""
    scene = scene_of()
    pictures = scene.render(scene.rollout(), camera="front")[0].cpu().numpy()
    settings = TrackSettings(robust_scale=1e3)
    outlines = CoverageRenderer(scene, "front", samples=4)
    rng = np.random.default_rng(0)
    view = FilmedView(outlines, pictures, np.asarray(pictures).mean(axis=0), settings)
    near, width = moved(POSE, 2e-3 * rng.standard_normal(3), 0.02 * rng.standard_normal(3)), 1e-4
    changes = width * np.eye(6)
    ways = [sign * change for sign in (1.0, -1.0) for change in changes]
    around = np.stack([near, *(moved(near, way[:3], way[3:] / SIDE) for way in ways)])
    normal = view.normal(0, around, width, None, blurred=False)
    costs = view.costs(around, None, normal.background)
    slope = (costs[1:7] - costs[7:]) / (2 * width)
    np.testing.assert_allclose(-2 * normal.gradient, slope, atol=5e-3 * np.abs(slope).max())
    np.testing.assert_allclose(costs[0], normal.cost, rtol=1e-9)


def test_a_residual_counts_for_a_quarter_at_the_robust_one() -> None:
    """Geman and McClure's cost r^2 / (1 + r^2 / s^2), whose weight is 1 / 4 at s; neighbours' colours and grey pull besides."""
    scene = scene_of()
    pictures = scene.render(scene.rollout(frames=1), camera="front")[0].cpu().numpy()
    settings, outlines = (
        TrackSettings(robust_scale=0.05, smoothness=0.7, temporal_smoothness=0.2),
        CoverageRenderer(scene, "front", samples=4),
    )
    view = FilmedView(outlines, pictures, np.full(pictures[0].shape, 0.3), settings)
    np.testing.assert_allclose(view._robust_weight(np.array([[0.05, 0.0, 0.0], [0.0, 0.0, 0.0]])), [0.25, 1.0])
    whole = outlines.of(moved(POSE, np.array([4e-3, 0.0, 0.0]), np.zeros(3))[None])
    pixels = view._near_pixels(whole.uncovered[0])
    behind = view.background(0, POSE, whole.uncovered[0]).select(pixels)
    solved = view._fit_colors(whole.select(pixels), 0, None, behind)
    square, (a, b) = (solved.residual**2).sum(axis=1), outlines.palette.neighbours.T
    data = (square / (1 + square / 0.05**2)).sum()
    pull = 0.7 * ((solved.colors[a] - solved.colors[b]) ** 2).sum() + 0.2 * ((solved.colors - INITIAL_GREY) ** 2).sum()
    assert solved.cost == pytest.approx(data + pull) and data > 0.1 * pull > 0


def test_shadows_darken_the_plate_and_not_its_hue() -> None:
    scene = scene_of()
    outlines = CoverageRenderer(scene, "front", samples=4)
    left = outlines.of(POSE[None]).uncovered[0]
    plate = np.random.default_rng(1).uniform(0.2, 0.8, (SIZE * SIZE, 3))
    np.testing.assert_allclose(shadowed_plate(outlines, POSE, left, plate, plate, 0.06), plate, atol=1e-12)
    shadow = shadows_of(outlines.unlit_inputs(POSE[None], edges=CAMERA_EDGES))[0, 3].reshape(-1, 1).cpu().numpy()
    darker = plate * (1 - 0.5 * shadow)
    found = shadowed_plate(outlines, POSE, left, darker, plate, 0.06)
    seen = (left > 0.999) & (shadow[:, 0] > 0.5)
    assert seen.sum() > 20
    np.testing.assert_allclose(found[seen] / plate[seen], darker[seen] / plate[seen], atol=0.02)
    unknown = np.where(np.arange(SIZE * SIZE)[:, None] % 7 == 0, np.nan, plate)
    assert np.array_equal(np.isfinite(shadowed_plate(outlines, POSE, left, darker, unknown, 0.06)), np.isfinite(unknown))


def filmed(scene: Scene) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Films and plates by camera, and the true poses."""
    states = scene.rollout()
    away = scene_of(frames=1)
    away.table.set("box.position", (0.0, 0.0, -5.0))
    return (
        {name: scene.render(states, camera=name)[0].cpu().numpy() for name in EYES},
        {name: away.render(away.rollout(), camera=name)[0, 0].cpu().numpy() for name in EYES}, states.body_q[0].cpu().numpy(),
    )  # fmt: skip


def errors(found: TrackedPoses, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    turn = Rotation.from_quat(found.body_q[:, 0, 3:]) * Rotation.from_quat(true[:, 0, 3:]).inv()
    return np.linalg.norm(found.body_q[:, 0, :3] - true[:, 0, :3], axis=1), np.degrees(turn.magnitude())


def test_two_cameras_track_a_flight() -> None:
    """Lights and colours of the scene are not used: the tracker has a scene of its own, in other ones."""
    films, plates, true = filmed(scene_of(frames=2))
    other = scene_of(colors=COLORS[::-1])
    other.table.set("box.position", (0.3, 0.3, 0.3))
    other.add_light(DirectionalLight(direction=(0.9, 0.1, -0.4), intensity=0.6, name="second"))
    start = moved(true[0], np.array([3e-3, -4e-3, 2e-3]), np.array([0.05, -0.04, 0.03]))
    found = track_poses(other, films, start, plates=plates)
    position, rotation = errors(found, true)
    assert position.max() < 6e-4 and rotation.max() < 0.7
    assert found.body_q.shape == true.shape and found.cost.shape == (len(true),)
    assert found.recording("flight", 1 / 60).dt == 1 / 60


def test_one_frame_without_a_ground_or_by_one_camera() -> None:
    scene = scene_of(frames=1, ground=False)
    states, true = scene.rollout(), scene.rollout().body_q[0].cpu().numpy()
    scene.set_background(color=(0.03, 0.12, 0.1))
    films = {name: scene.render(states, camera=name)[0].cpu().numpy() for name in EYES}
    plates = {name: np.broadcast_to((0.03, 0.12, 0.1), film.shape[1:]) for name, film in films.items()}
    start = moved(true[0], np.array([3e-3, -4e-3, 2e-3]), np.array([0.05, -0.04, 0.03]))
    one = {name: film[:1] for name, film in films.items()}
    position, rotation = errors(track_poses(scene_of(ground=False), one, start, plates=plates), true[:1])
    assert position.max() < 6e-4 and rotation.max() < 0.7
    alone = track_poses(scene_of(ground=False), {"side": one["side"]}, start, plates={"side": plates["side"]})
    across = alone.body_q[0, 0, :3] - true[0, 0, :3]
    view = true[0, 0, :3] - np.array(EYES["side"])
    across -= view * (across @ view) / (view @ view)
    assert np.linalg.norm(across) < 6e-4  # along the view it sees by size alone


def test_the_median_of_a_film_is_its_plate() -> None:
    """By default; frames are tracked before it where the box hardly leaves the pixels that it began in."""
    films, _, true = filmed(scene_of(frames=14))
    medians = {name: np.median(film, axis=0) for name, film in films.items()}
    for view, median in zip(tracking._views(scene_of(), films, {}, TrackSettings()), medians.values(), strict=True):
        np.testing.assert_array_equal(view.plate.reshape(median.shape), median)
    begun = {name: film[:3] for name, film in films.items()}
    found = track_poses(scene_of(), begun, true[0], plates=medians, settings=TrackSettings(samples=2))
    position, _ = errors(found, true[:3])
    assert np.median(position) < 2e-3


def test_what_is_not_known_of_a_plate_does_not_count() -> None:
    films, plates, true = filmed(scene_of(frames=1))
    plates["front"] = plates["front"].copy()
    plates["front"][SIZE // 2 :] = np.nan
    outlines = CoverageRenderer(scene_of(), "front", samples=4)
    empty = ndimage.binary_erosion((outlines.of(true).uncovered == 1.0).all(axis=0).reshape(SIZE, SIZE), iterations=4)
    unknown = empty & np.isnan(plates["front"][..., 0])
    painted = films["front"].copy()
    painted[:, unknown] = np.random.default_rng(0).uniform(size=(len(painted), unknown.sum(), 3))
    coarse = TrackSettings(samples=2, first_steps=1, steps=3)
    plain, wild = (
        track_poses(scene_of(), films | {"front": film}, true[0], plates=plates, settings=coarse)
        for film in (films["front"], painted)
    )
    assert unknown.sum() > 200 and errors(plain, true)[0].max() < 1e-3  # a pixel is 7 mm
    np.testing.assert_allclose(wild.body_q, plain.body_q, rtol=0, atol=1e-12)


def test_every_frame_is_begun_where_its_neighbours_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """On with the velocity and the spin of two frames: of those before it, then of those after it."""
    frames, move, turn = 5, np.array([0.01, -0.02, 0.005]), np.array([0.1, 0.05, -0.2])
    true = [moved(POSE, k * move, k * turn) for k in range(frames)]
    asked: list[tuple[int, list[np.ndarray]]] = []

    def fitted(self: object, frame: int, starts: list[np.ndarray], before: object) -> tracking._FrameFit:
        asked.append((frame, starts))
        return tracking._FrameFit(true[frame], 0.0, [])

    monkeypatch.setattr(tracking._Tracker, "fit_frame", fitted)
    picture = np.zeros((frames, SIZE, SIZE, 3))
    track_poses(scene_of(), {"front": picture}, POSE, plates={"front": picture[0]})
    assert [frame for frame, _ in asked] == [0, 1, 2, 3, 4, 3, 2, 1, 0]
    np.testing.assert_array_equal(asked[0][1][0], POSE)
    np.testing.assert_array_equal(asked[1][1], [POSE])
    for frame, starts in asked[2:frames]:
        wanted = [true[frame], moved(POSE, (frame - 0.5) * move, (frame - 0.5) * turn)]
        np.testing.assert_allclose(starts, wanted, atol=1e-12)
    for frame, (start, led) in asked[frames:]:
        np.testing.assert_array_equal(start, true[frame])
        np.testing.assert_allclose(led, true[frame if frame < frames - 2 else frame + 1], atol=1e-12)  # of one frame: no velocity


def test_scatter_is_that_of_single_frames() -> None:
    rng = np.random.default_rng(0)
    count = 4000
    t = np.arange(count)[:, None] / count
    smooth = np.concatenate([t, t**2, 2 * t - t**3], axis=1)
    turn = Rotation.from_rotvec(np.concatenate([3 * t, 0 * t, 0 * t], axis=1))
    still = np.concatenate([smooth, turn.as_quat()], axis=1)[:, None]
    position, rotation = TrackedPoses(still, np.zeros(count)).scatter()
    assert position[0] < 1e-9 and rotation[0] < 1e-6
    rough = (Rotation.from_rotvec(4e-3 * rng.standard_normal((count, 3))) * turn).as_quat()
    rough = np.concatenate([smooth + 2e-3 * rng.standard_normal((count, 3)), rough], axis=1)[:, None]
    position, rotation = TrackedPoses(rough, np.zeros(count)).scatter()
    np.testing.assert_allclose([position[0], rotation[0]], [2e-3, 4e-3], rtol=0.05)
    with pytest.raises(UserError, match="five frames"):
        TrackedPoses(rough[:4], np.zeros(4)).scatter()


def test_what_does_not_fit_is_named() -> None:
    scene = scene_of()
    picture = np.zeros((2, SIZE, SIZE, 3))
    for films, start, plates, words in (
        ({}, POSE, {}, "no film"), ({"front": picture}, POSE[0], {}, r"start has the shape \[7\]"),
        ({"front": picture[:, 1:]}, POSE, {}, "its camera makes pictures"),
        ({"front": picture}, POSE, {"side": picture[0]}, "no film, of side"),
        ({"front": picture, "side": picture[:1]}, POSE, {}, "different numbers of frames"),
        ({"front": picture}, POSE, {"front": picture}, "the plate of front"), ({"back": picture}, POSE, {}, "no camera back"),
        ({"front": picture}, moved(POSE, np.array([5.0, 0.0, 0.0]), np.zeros(3)), {"front": picture[0]}, "does not show box"),
        ({"front": picture}, 2 * POSE, {}, "not of length 1"), ({"front": picture}, np.nan * POSE, {}, "not finite"),
        ({"front": picture}, POSE, {}, "whose median is no plate"), ({"all": picture}, POSE, {}, "no camera all"),
        ({"front": np.nan * picture}, POSE, {"front": picture[0]}, "pixels that are not finite"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            track_poses(scene, films, start, plates=plates)


def test_bodies_are_free() -> None:
    with pytest.raises(UserError, match="tracked of free rigid bodies"):
        track_poses(load_scene("pendulum"), {"front": np.zeros((1, SIZE, SIZE, 3))}, POSE)
