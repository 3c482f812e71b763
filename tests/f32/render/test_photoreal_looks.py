"""Drawn looks of path-traced pictures: drawn again, read again, within their ranges, and seen in the picture."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from tests.reference.photoreal_inputs import QUAD, QUAD_FACES, camera_row, made, needs_mitsuba, topology, two_boxes
from ti_render import RasterSettings
from ti_render.photoreal import Appearance, MitsubaRenderer, MitsubaSettings, draw_appearance
from ti_render.photoreal.appearance import BODY_RANGES, PATTERNS, SCENE_RANGES, SKIES, tint
from ti_render.photoreal.ground import Ground
from ti_render.photoreal.lamps import LAMPS, lamps_of
from ti_render.photoreal.lights import environment_directions
from ti_render.photoreal.patterns import PATTERN_CELLS, ground_texels
from ti_render.photoreal.renderer import clamp_fireflies
from ti_render.photoreal.sky import sky_radiance
from ti_render.photoreal.variant import Variant, load_mitsuba
from ti_sim.base.errors import UserError


def test_a_look_is_drawn_again_and_read_again() -> None:
    look = draw_appearance(["a", "b"], seed=7)
    assert look == draw_appearance(["a", "b"], seed=7) and look != draw_appearance(["a", "b"], seed=8)
    assert Appearance.from_json(look.to_json()) == look
    assert json.loads(look.to_json())["numbers"]["a.roughness"] == look.numbers["a.roughness"]
    assert set(look.numbers) == {*SCENE_RANGES, *(f"{body}.{name}" for body in "ab" for name in BODY_RANGES)}
    assert {"roughness", "metallic", "specular"} <= set(look.body("b"))


def test_another_body_changes_no_other_number() -> None:
    few, many = draw_appearance(["a"], seed=3), draw_appearance(["z", "a"], seed=3)
    assert {name: many.numbers[name] for name in few.numbers} == few.numbers and few.choices == many.choices


def test_draws_fill_their_ranges() -> None:
    looks = [draw_appearance(["a"], seed=seed) for seed in range(200)]
    for name, (low, high) in {**SCENE_RANGES, **{f"a.{entry}": span for entry, span in BODY_RANGES.items()}}.items():
        drawn = np.array([look.numbers[name] for look in looks])
        assert low <= drawn.min() < low + 0.05 * (high - low) and high - 0.05 * (high - low) < drawn.max() <= high, name
    assert {look.choices["sky.kind"] for look in looks} == set(SKIES)
    assert {look.choices["ground.pattern"] for look in looks} == set(PATTERNS)
    fixed = draw_appearance(["a", "b"], seed=0, ranges={"roughness": (0.2, 0.2), "b.roughness": (0.9, 0.9)})
    assert (fixed.numbers["a.roughness"], fixed.numbers["b.roughness"]) == (0.2, 0.9)


@pytest.mark.parametrize(
    ("ranges", "seed", "culprit"),
    [
        ({"a.roughnes": (0, 1)}, 0, "'a.roughnes': did you mean 'a.roughness'"),
        ({"a.roughness": (1, 0)}, 0, "'a.roughness' is 1 to 0"),
        ({"key.size": (0, np.inf)}, 0, "'key.size'\\] is \\(0, inf\\): give finite numbers"),
        ({}, -1, "seed is -1"),
    ],
)
def test_wrong_ranges_are_refused(ranges: dict[str, tuple[float, float]], seed: int, culprit: str) -> None:
    with pytest.raises(UserError, match=culprit):
        draw_appearance(["a"], seed=seed, ranges=ranges)


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (lambda content: content.pop("numbers"), "is no drawn appearance"),
        (lambda content: content["numbers"].pop("key.size"), "has no number 'key.size'"),
        (lambda content: content["numbers"].pop("a.roughness"), "has no number 'a.roughness'"),
        (lambda content: content["choices"].update({"sky.kind": "night"}), "has sky.kind 'night': choose one of day"),
        (lambda content: content.update(schema=9), "has schema 9"),
        (lambda content: content.update(colors="none"), "has colors 'none'"),
    ],
)
def test_a_wrong_look_is_refused(change: Callable[[dict], object], culprit: str) -> None:
    content = json.loads(draw_appearance(["a"], seed=0).to_json())
    change(content)
    with pytest.raises(UserError, match=culprit):
        Appearance.from_json(json.dumps(content))


def test_warm_light_is_reddish_and_cold_light_bluish() -> None:
    """The end colours of lights and greys, the same distance either way of white; a sky has the colour of its warmth."""
    np.testing.assert_allclose([tint(-1.0), tint(0.0), tint(1.0)], [(0.8, 1.0, 1.25), (1.0, 1.0, 1.0), (1.2, 1.0, 0.75)])
    look = draw_appearance(["a"], seed=1)
    shown = []
    for warmth in (-0.5, 0.5):
        changed = {**look.numbers, "sky.warmth": warmth}
        shown.append(sky_radiance(Appearance(look.seed, changed, look.choices)).mean(axis=(0, 1)))
    cold, warm = shown
    assert (warm / cold)[0] > (warm / cold)[1] > (warm / cold)[2]


@pytest.mark.parametrize("kind", SKIES)
def test_the_sky_gives_the_light_that_is_asked_for(kind: str) -> None:
    look = draw_appearance(["a"], seed=1)
    look = Appearance(look.seed, look.numbers, {**look.choices, "sky.kind": kind})
    sky = sky_radiance(look)
    direction = environment_directions(*sky.shape[:2])
    weight = np.sin(np.pi * np.arange(len(sky)) / (len(sky) - 1)) * (np.pi / (len(sky) - 1)) * (2 * np.pi / sky.shape[1])
    upwards = (sky.mean(axis=-1) * np.maximum(direction[..., 2], 0) * weight[:, None]).sum() / np.pi
    assert upwards == pytest.approx(look.numbers["sky.intensity"], rel=1e-6) and sky.min() >= 0 and sky.std() > 0


@needs_mitsuba
@pytest.mark.parametrize("lamp", LAMPS)
def test_a_lamp_gives_the_light_that_is_asked_for(lamp: str) -> None:
    """A white Lambert surface in the middle of the scene, turned to a small lamp, shows the lamp's intensity in its tint."""
    mitsuba = load_mitsuba(Variant("scalar_rgb", None, "for a test"))
    look = draw_appearance(["a"], seed=4, ranges={f"{lamp}.size": (0.05, 0.05), f"{lamp}.warmth": (0.4, 0.4)})
    center, distance = np.array([0.3, -0.2, 0.1]), 3.0
    azimuth, elevation = look.numbers[f"{lamp}.azimuth"], look.numbers[f"{lamp}.elevation"]
    away = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
    place, up = mitsuba.ScalarTransform4f(), [0.1, 0.2, 0.97]
    film = {"type": "hdrfilm", "width": 1, "height": 1, "pixel_format": "rgb", "rfilter": {"type": "box"}}
    scene = mitsuba.load_dict({
        "type": "scene",
        "integrator": {"type": "direct"},
        "card": {
            "type": "rectangle", "to_world": place.look_at(center.tolist(), (center + away).tolist(), up),
            "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": [1.0, 1.0, 1.0]}},
        },
        "lamp": lamps_of(mitsuba, look, center=center, distance=distance)[lamp],
        "eye": {
            "type": "perspective", "fov": 1.0, "film": film,
            # Beside the lamp's direction, so that the lamp does not stand in the view.
            "to_world": place.look_at((center + away + 0.3 * np.cross(away, up)).tolist(), center.tolist(), up),
        },
    })  # fmt: skip
    shown = np.array(mitsuba.render(scene, spp=64, seed=1))[0, 0]
    np.testing.assert_allclose(shown, look.numbers[f"{lamp}.intensity"] * tint(0.4), rtol=0.01)


@needs_mitsuba
def test_the_renderings_of_a_picture_have_their_own_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal ones would average nothing: single bright paths would be in all of them, and their noise would stay."""
    seen: list[np.ndarray] = []
    module = "ti_render.photoreal.renderer"
    monkeypatch.setattr(f"{module}.clamp_fireflies", lambda passes: seen.append(passes) or passes.mean(axis=0))
    settings = RasterSettings(width=16, height=12, near=0.1, far=10.0, ground="plain")
    film = MitsubaRenderer(two_boxes(), settings, options=MitsubaSettings(samples=8, variant="scalar_rgb"))
    film.picture(0, masks=False)
    (passes,) = seen
    noise = passes - passes.mean(axis=0)
    for a in range(4):
        for b in range(a):
            assert np.corrcoef(noise[a].ravel(), noise[b].ravel())[0, 1] < 0.5 and np.abs(passes[a] - passes[b]).max() > 0.01


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ground_textures_have_no_seam(pattern: str) -> None:
    look = draw_appearance(["a"], seed=2)
    texels = ground_texels(Appearance(look.seed, look.numbers, {**look.choices, "ground.pattern": pattern}))
    assert texels.min() >= 0.02 and texels.max() <= 0.9 and texels.std() > 0.01
    for axis in (0, 1):
        steps = np.abs(np.diff(texels, axis=axis, append=texels.take([0], axis=axis))).mean(axis=(1 - axis, 2))
        assert steps[-1] <= 1.2 * steps.max() and steps[-1] <= max(steps[:-1])


def test_single_bright_renderings_are_cut() -> None:
    passes = np.full((4, 2), 0.3)
    passes[2, 1] = 80.0
    np.testing.assert_allclose(clamp_fireflies(passes), [0.3, (3 * 0.3 + 0.7) / 4])


@needs_mitsuba
def test_photoreal_pictures_differ_in_look_and_agree_in_geometry() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0, ground="plain")
    options = [MitsubaSettings(samples=8, seed=seed, variant="scalar_rgb") for seed in (0, 0, 1)]
    first, again, other = (MitsubaRenderer(two_boxes(), settings, options=option).picture(0) for option in options)
    np.testing.assert_array_equal(first.color, again.color)
    assert np.isfinite(other.color).all() and np.abs(first.color - other.color).mean() > 0.05
    assert 0.05 < first.color.mean() < 1.2 and 0.05 < other.color.mean() < 1.2
    for name in first.masks:
        np.testing.assert_array_equal(first.masks[name], again.masks[name])
        assert np.abs(first.masks[name] - other.masks[name]).max() < 0.6  # only the places of the samples differ


@needs_mitsuba
def test_drawn_colours_replace_or_tint_those_of_the_scene() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0)
    ranges = {"body0.red": (0.9, 0.9), "body0.green": (0.05, 0.05), "body0.blue": (0.05, 0.05), "metallic": (0, 0)}
    seen = []
    for colors in ("keep", "tint", "draw"):
        look = draw_appearance(["body0", "body1", "static"], seed=0, ranges=ranges, colors=colors)
        options = MitsubaSettings(samples=8, variant="scalar_rgb")
        picture = MitsubaRenderer(two_boxes(), settings, options=options, appearance=look).picture(0)
        seen.append(picture.color[picture.masks["body0"] == 1].mean(axis=0))
    own, tinted, drawn = seen
    assert drawn[0] > 3 * drawn[1] and own[0] < 2 * own[1]
    # What the surface mirrors keeps the light's colour.
    assert tinted[0] > 3 * tinted[1] and tinted[0] < 1.02 * own[0]


@pytest.mark.parametrize("ground", [None, "plain"])
def test_the_ground_has_cells_of_the_size_and_turn_that_are_asked_for(
    ground: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells are so many radii of the scene wide; a scene without a ground stands so many radii above its floor."""
    laid: list[Ground] = []
    monkeypatch.setattr("ti_render.photoreal.renderer.ground_object", lambda mitsuba, ground, material: laid.append(ground))
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0, ground=ground)
    look, scalar = draw_appearance(["body0", "body1", "static"], seed=3), Variant("scalar_rgb", None, "for a test")
    film = MitsubaRenderer(two_boxes(), settings, options=MitsubaSettings(floor=ground is None), appearance=look, variant=scalar)
    film._floor = object()
    film._drawn_ground(None, 0)
    (center, radius), (floor,) = film._ball, laid
    wanted = 0.0 if ground else center[2] - look.numbers["ground.depth"] * radius
    np.testing.assert_allclose(floor.corners[:, 2], wanted, atol=1e-6)
    assert (np.abs(floor.corners[:, :2] - center[:2]) > 50 * radius).all()
    cells = PATTERN_CELLS * np.diff(floor.uv, axis=0) * look.numbers["ground.cell"] * radius  # back to metres
    sides = np.diff(floor.corners[:, :2], axis=0)
    turn = np.angle((cells @ [1, 1j]) / (sides @ [1, 1j]))
    np.testing.assert_allclose(np.linalg.norm(cells, axis=1), np.linalg.norm(sides, axis=1), rtol=1e-9)
    np.testing.assert_allclose(turn, -look.numbers["ground.turn"], atol=1e-9)  # the cells turn one way, their numbers the other


@needs_mitsuba
def test_a_floor_lies_below_a_scene_without_ground() -> None:
    """A small quad in the middle of the picture, and a camera that looks down a little: what is below the quad is the floor."""
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4), vertices_rest=0.5 * QUAD, albedo=np.full((1, 2, 3, 3), 0.5),
        camera=[camera_row((0, -4, 1.5), (0, 0, 0), (18, 18, 8, 8))],
    )  # fmt: skip
    settings = RasterSettings(width=16, height=16, near=0.1, far=10.0)
    look = draw_appearance(["body0"], seed=0, ranges={"ground.depth": (1.2, 1.2)})
    look = Appearance(look.seed, look.numbers, {**look.choices, "ground.pattern": "checker"})
    pictures = []
    for floor in (False, True):
        options = MitsubaSettings(samples=16, floor=floor, variant="scalar_rgb")
        pictures.append(MitsubaRenderer(inputs, settings, options=options, appearance=look).picture(0))
    without, with_floor = pictures
    below = np.s_[-4:]
    assert np.abs(with_floor.color[below] - without.color[below]).mean() > 0.05
    assert with_floor.color[below].std(axis=(0, 1)).mean() > 2 * without.color[below].std(axis=(0, 1)).mean()
    np.testing.assert_array_equal(with_floor.masks["body0"], without.masks["body0"])
    assert with_floor.masks["body0"].max() == 1 and with_floor.masks["body0"][below].max() == 0, "the floor hides nothing"
