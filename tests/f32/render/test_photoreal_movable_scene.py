"""Scenes of path-traced films that are kept from picture to picture: every picture is what it is in a film of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from tests.reference.photoreal_inputs import camera_row, made, needs_mitsuba, topology
from ti_render import RasterSettings, RenderInputs
from ti_render.photoreal import MitsubaRenderer, MitsubaSettings, choose_variant
from ti_render.photoreal.geometry import submeshes_of
from ti_render.photoreal.movable_scene import MovableScene, scene_key
from ti_render.photoreal.variant import load_mitsuba

MOVED = np.array([
    [(0, 0, 0.3, 0, 0, 0, 1), (-0.1, 0.6, 0.45, 0, 0, 0.2, 0.98)],
    [(0.2, 0.1, 0.4, 0, 0.6, 0, 0.8), (-0.3, 0.5, 0.8, 0, 0, 0.28, 0.96)],
    [(-0.3, 0, 1.6, 0.6, 0, 0, 0.8), (4.0, 3.0, 0.45, 0, 0, 0.2, 0.98)],
])  # fmt: skip


def moving_bodies(*, smooth: bool = False, **arrays: object) -> RenderInputs:
    """Three pictures of a box or a smooth ball before another box, above a ground."""
    box = trimesh.creation.box((0.4, 0.4, 0.4))
    first = trimesh.creation.icosphere(subdivisions=1, radius=0.25) if smooth else box
    faces = np.concatenate([np.asarray(first.faces), np.asarray(box.faces) + len(first.vertices)])
    around = np.where(faces < len(first.vertices), faces, -1).astype(np.int32)  # the ball's vertices are its smooth groups
    given = {
        "vertices_rest": np.concatenate([first.vertices, box.vertices]), "body_q": MOVED,
        "camera": [camera_row((0, -3, 0.8), (0, 0, 0.3), (25, 25, 10, 8))], "albedo": np.full((1, len(faces), 3, 3), 0.6),
        "ambient": [[0.4, 0.4, 0.4]], "directional": [[(-0.3, 0.5, -1.0, 0.5, 0.5, 0.5)]],
        "ground": [(0.5, 0.5, 0.5, 0, 0, 0, 0, 1, 0, 0)],
    }  # fmt: skip
    bodies = np.repeat([0, 1], [len(first.vertices), len(box.vertices)])
    mesh = topology(faces, bodies, corner_normal=around if smooth else None)
    return made(mesh=mesh, **(given | arrays))


def settings_of(**options: object) -> RasterSettings:
    return RasterSettings(**({"width": 20, "height": 16, "near": 0.1, "far": 10.0, "ground": "plain"} | options))


def assert_as_alone(inputs: RenderInputs, settings: RasterSettings, options: MitsubaSettings) -> list[MovableScene]:
    """Compares every picture of a film with that of a film that makes no other one; the scenes of the film."""
    film, scenes, pictures = MitsubaRenderer(inputs, settings, options=options), [], []
    for image in range(len(film)):
        pictures.append(film.picture(image))
        scenes.append(film._scene)
    for image, picture in enumerate(pictures):
        alone = MitsubaRenderer(inputs, settings, options=options).picture(image)
        np.testing.assert_array_equal(picture.color, alone.color)
        for name in film.bodies:
            np.testing.assert_array_equal(picture.masks[name], alone.masks[name])
    return scenes


@needs_mitsuba
@pytest.mark.parametrize(
    ("case", "variant"),
    [*((case, "scalar_rgb") for case in ("drawn", "smooth", "floor", "no floor", "match")),
     ("drawn", "llvm_ad_rgb"), ("smooth", "llvm_ad_rgb"), ("match", "llvm_ad_rgb")],
)  # fmt: skip
def test_pictures_of_a_kept_scene_are_those_of_new_ones(variant: str, case: str) -> None:
    if choose_variant("auto").name == "scalar_rgb" and variant != "scalar_rgb":
        pytest.skip("no LLVM library that Mitsuba's vectorised variant could use")
    look = {"look": "match"} if case == "match" else {"floor": case == "floor"}
    settings = settings_of(ground=None) if case in ("floor", "no floor") else settings_of()
    options = MitsubaSettings(samples=8, variant=variant, seed=3, **look)
    scenes = assert_as_alone(moving_bodies(smooth=case == "smooth"), settings, options)
    assert scenes[0] is scenes[1] is scenes[2] and not scenes[0].is_open


@needs_mitsuba
def test_pictures_of_a_kept_scene_are_soon_not_traced_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = choose_variant("auto")
    if variant.name == "scalar_rgb":
        pytest.skip("no LLVM library that Mitsuba's vectorised variant could use")
    mitsuba, traced = load_mitsuba(variant), []
    render = mitsuba.render
    monkeypatch.setattr(mitsuba, "render", lambda *given, **options: traced.append(1) or render(*given, **options))
    options = MitsubaSettings(samples=8, seed=3, look="match", variant=variant.name)
    inputs = moving_bodies(body_q=np.concatenate([MOVED, MOVED]))
    film, calls = MitsubaRenderer(inputs, settings_of(), options=options), []
    for image in range(len(film)):
        traced.clear()
        film.picture(image)
        calls.append(len(traced))
    assert calls[0] == 2 and calls[-1] == 0  # colours and masks; Dr.Jit finds out what changes from call to call in three of them


@needs_mitsuba
def test_films_take_turns() -> None:
    """Only the newest stage is open, and a film whose stage was closed makes another, with the same pictures."""
    options = MitsubaSettings(samples=4, variant="scalar_rgb", look="match")
    one, other = (MitsubaRenderer(moving_bodies(), settings_of(), options=options) for _ in range(2))
    pictures, scenes = [], []
    for image in (0, 1):
        for film in (one, other):
            pictures.append(film.picture(image).color)
            scenes.append(film._scene)
    assert len({id(stage) for stage in scenes}) == 4 and [stage.is_open for stage in scenes] == [False, False, False, True]
    np.testing.assert_array_equal(pictures[0], pictures[1])
    np.testing.assert_array_equal(pictures[2], pictures[3])
    assert not np.array_equal(pictures[0], pictures[2])


@needs_mitsuba
def test_what_changes_beside_the_places_makes_a_new_scene() -> None:
    camera = [camera_row((0, -3, 0.8 + 0.1 * k), (0, 0, 0.3), (25, 25, 10, 8)) for k in range(3)]
    albedo = np.full((3, 24, 3, 3), 0.6)
    albedo[1] = 0.3
    options = MitsubaSettings(samples=4, variant="scalar_rgb", look="match")
    for changed in ({"camera": camera}, {"albedo": albedo}):
        inputs = moving_bodies(**changed)
        assert_as_alone(inputs, settings_of(), options)
        keys = [scene_key(inputs, image, submeshes_of(inputs, image)) for image in range(3)]
        assert keys[0] != keys[1] and keys[1] != keys[2]
    same = moving_bodies()
    other = replace(same, ambient=np.float32([[0.4, 0.4, 0.3]]))
    keys = [scene_key(inputs, image, submeshes_of(inputs, image)) for inputs in (same, other) for image in range(3)]
    assert len(set(keys)) == 2
