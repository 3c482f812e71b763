"""Path-traced pictures of the inputs of the soft rasteriser: the same vertices, camera and motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ti_render.photoreal.appearance import Appearance, draw_appearance
from ti_render.photoreal.camera import Film, eye_of, film_of, resample_film, stratified_sample_count
from ti_render.photoreal.geometry import Submesh, body_name, bounding_ball, present_bodies, row, submeshes_of, texture_image
from ti_render.photoreal.ground import Ground, ground_of
from ti_render.photoreal.lamps import lamps_of
from ti_render.photoreal.lights import emitters_of, environment_map
from ti_render.photoreal.movable_scene import MovableScene, scene_key
from ti_render.photoreal.patterns import PATTERN_CELLS, ground_texels
from ti_render.photoreal.settings import MitsubaSettings
from ti_render.photoreal.sky import sky_radiance
from ti_render.photoreal.surfaces import color_source, diffuse, ground_object, principled, submesh_object
from ti_render.photoreal.variant import Variant, choose_variant, load_mitsuba
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from ti_render.inputs import RenderInputs
    from ti_render.settings import RasterSettings

_GROUND_RADII = 60.0  # half side of a drawn ground, in radii of the scene
_FIREFLY_PASSES = 4
_FIREFLY_RATIO = 2.0  # a pass is clamped to this multiple of the median of all passes
_LAMP_DISTANCE = 2.0  # of the lamps, in distances of the camera: no lamp is between the camera and the scene


@dataclass(frozen=True, eq=False)
class Picture:
    """One path-traced picture.

    Attributes:
        color: [H, W, 3] float32 linear rgb, row 0 at the top; highlights exceed 1.
        masks: body name -> [H, W] float32 fraction of each pixel in which the body is visible; empty without
            masks.
    """

    color: np.ndarray
    masks: Mapping[str, np.ndarray]


class MitsubaRenderer:
    """Renders the pictures of one set of inputs on demand."""

    @checked
    def __init__(
        self,
        inputs: RenderInputs,
        settings: RasterSettings,
        *,
        options: MitsubaSettings | None = None,
        bodies: Sequence[str] = (),
        appearance: Appearance | None = None,
        variant: Variant | None = None,
    ) -> None:
        """Choose a variant and prepare the data that all pictures share.

        Args:
            inputs, settings: as for the soft rasteriser; the arrays may be numpy, torch or ti.ndarray.
            options: samples, path length, variant; ``MitsubaSettings()`` by default.
            bodies: names of the bodies, for masks and materials; "body0", "body1" ... by default.
            appearance: for "photoreal" pictures; drawn with the seed of the options by default.
            variant: from ``choose_variant``; chosen as the options say by default.

        Raises:
            UserError: Mitsuba is not installed or the requested variant does not run, the settings ask for depth or normals, the
                appearance lacks a number, or one is passed with ``options.look`` "match".
        """
        if settings.quantity != "color":
            raise UserError(f"quantity {settings.quantity!r} was asked for: Mitsuba makes pictures of colour only")
        self.inputs, self.settings, self._names = inputs, settings, tuple(bodies)
        self.options = options or MitsubaSettings()
        self.bodies = [body_name(number, bodies) for number in present_bodies(inputs)]
        self.appearance: Appearance | None = None
        if appearance is not None and self.options.look != "photoreal":
            raise UserError("an appearance was given for pictures that match the scene: leave it out, or take look='photoreal'")
        if self.options.look == "photoreal":
            self.appearance = appearance or draw_appearance(self.bodies, seed=self.options.seed)
            self.appearance.check(self.bodies)
        self.variant = variant or choose_variant(self.options.variant)
        self._ball = bounding_ball(inputs)
        self._scene: MovableScene | None = None
        self._sky: Any = None
        self._floor: Any = None

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.inputs.body_q)

    def picture(self, image: int, *, masks: bool = True) -> Picture:
        """Render one picture. The result does not depend on earlier pictures.

        Args:
            image: number of the picture.
            masks: whether the bodies' masks are rendered too.

        Raises:
            UserError: a vertex is not finite, or the textures cannot be converted to Mitsuba's.
        """
        mitsuba = load_mitsuba(self.variant)
        camera = row(self.inputs.camera, image, len(self))
        distortion = None if self.inputs.distortion is None else row(self.inputs.distortion, image, len(self))
        film = film_of(camera, distortion, self.settings.width, self.settings.height)
        submeshes = submeshes_of(self.inputs, image)
        key = scene_key(self.inputs, image, submeshes)
        if self._scene is None or not self._scene.is_open or self._scene.key != key:

            def describe() -> dict[str, Any]:
                return self._bodies(mitsuba, submeshes, image) | self._surroundings(mitsuba, image, camera, film)

            near, far = self.settings.near, 100 * self.settings.far
            self._scene = MovableScene(mitsuba, describe, key=key, camera=camera, film=film, near=near, far=far)
        else:
            self._scene.move(submeshes)
        names = {f"part{number}": body_name(submesh.body, self._names) for number, submesh in enumerate(submeshes)}
        return Picture(self._color(image, film), self._masks(image, film, names) if masks else {})

    def _bodies(self, mitsuba: Any, submeshes: Sequence[Submesh], image: int) -> dict[str, Any]:
        """A scene with the bodies of one picture: "part0", "part1" ..."""
        content: dict[str, Any] = {"type": "scene"}
        for number, submesh in enumerate(submeshes):
            name = body_name(submesh.body, self._names)
            if self.appearance is not None and self.appearance.colors == "tint":
                submesh = replace(submesh, colors=submesh.colors * self._drawn_color(name))
            material = mitsuba.load_dict(self._material(mitsuba, submesh, image))
            content[f"part{number}"] = submesh_object(mitsuba, name, submesh, material)
        return content

    def _material(self, mitsuba: Any, submesh: Submesh, image: int) -> dict[str, Any]:
        """The material of a submesh."""
        tint, texels, repeat = None, None, True
        if submesh.texture >= 0:
            texels, repeat = texture_image(self.inputs, image, submesh.texture)
            texels = texels * submesh.colors[0, 0]
        if self.appearance is None:
            source = color_source(mitsuba, texels=texels, repeat=repeat)
            return diffuse(source, two_sided=self.settings.two_sided)
        numbers = self.appearance.body(body_name(submesh.body, self._names))
        if self.appearance.colors == "draw":
            tint, texels = self._drawn_color(body_name(submesh.body, self._names)), None
        return principled(color_source(mitsuba, color=tint, texels=texels, repeat=repeat), numbers, two_sided=True)

    def _drawn_color(self, body: str) -> np.ndarray:
        """Linear rgb [3] that was drawn for a body."""
        numbers = self.appearance.body(body)
        return np.array([numbers["red"], numbers["green"], numbers["blue"]])

    def _surroundings(self, mitsuba: Any, image: int, camera: np.ndarray, film: Film) -> dict[str, Any]:
        """Ground and lights of one picture."""
        if self.appearance is None:
            content = emitters_of(mitsuba, self.inputs, image)
            ground = ground_of(self.inputs, self.settings, image, camera=camera, film=film)
            if ground is not None:
                source = color_source(mitsuba, color=ground.color, texels=ground.texels, repeat=ground.repeat)
                content["ground"] = ground_object(mitsuba, ground, mitsuba.load_dict(diffuse(source)))
            return content
        center, radius = self._ball
        distance = _LAMP_DISTANCE * max(float(np.linalg.norm(eye_of(camera) - center)), 2 * radius)
        content = lamps_of(mitsuba, self.appearance, center=center, distance=distance)
        if self._sky is None:
            self._sky = mitsuba.load_dict(environment_map(mitsuba, sky_radiance(self.appearance)))
        content["sky"] = self._sky
        if self.settings.ground is not None or self.options.floor:
            content["ground"] = self._drawn_ground(mitsuba, image)
        return content

    def _drawn_ground(self, mitsuba: Any, image: int) -> Any:
        """A large ground with the drawn pattern, at the height of the scene's ground, or below a scene without one."""
        appearance, (center, radius) = self.appearance, self._ball
        if self._floor is None:
            source = color_source(mitsuba, texels=ground_texels(appearance))
            self._floor = mitsuba.load_dict(principled(source, {"roughness": appearance.numbers["ground.roughness"]}))
        if self.settings.ground is not None:
            height = row(self.inputs.ground, image, len(self))[3]
        else:
            height = center[2] - appearance.numbers["ground.depth"] * radius
        ground_corners = _GROUND_RADII * radius * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
        angle, cell = appearance.numbers["ground.turn"], appearance.numbers["ground.cell"] * radius
        turned = ground_corners @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = np.column_stack([ground_corners + center[:2], np.full(4, height)])
        return ground_object(mitsuba, Ground(corners, turned / (cell * PATTERN_CELLS), np.ones(3), None, True), self._floor)

    def _color(self, image: int, film: Film) -> np.ndarray:
        """Colour [H, W, 3] of one picture."""
        is_match = self.appearance is None
        path = {"type": "path", "max_depth": 2 if is_match else self.options.depth, "hide_emitters": is_match}
        samples = self._film_samples(film)
        if is_match or samples < _FIREFLY_PASSES:
            film_pixels = self._render_film(image, path, samples)
        else:
            samples_per_pass = -(-samples // _FIREFLY_PASSES)
            film_pixels = clamp_fireflies(
                np.stack([self._render_film(image, path, samples_per_pass, pass_index=k) for k in range(_FIREFLY_PASSES)])
            )
        picture = resample_film(film, film_pixels)
        if is_match:
            picture[..., :3] += (1 - picture[..., 3:4]) * self._background(image)
        return np.ascontiguousarray(picture[..., :3], dtype=np.float32)

    def _masks(self, image: int, film: Film, bodies: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Visible fraction [H, W] of every body, from a picture of shape numbers on a supersampled film."""
        supersampling = -(-self.options.mask_side * self.settings.width // film.width)
        film_pixels = self._render_film(image, {"type": "aov", "aovs": "number:shape_index"}, 1, supersampling=supersampling)
        shape_numbers, shapes = np.rint(film_pixels[..., 0]).astype(int), self._scene.shapes()
        masks = {}
        for name in self.bodies:
            mask = np.isin(shape_numbers, [k for k, shape in shapes.items() if bodies.get(shape) == name]).astype(np.float32)
            mask = mask.reshape(film.height, supersampling, film.width, supersampling).mean(axis=(1, 3))
            masks[name] = resample_film(film, mask[..., None])[..., 0].astype(np.float32)
        return masks

    def _render_film(
        self, image: int, integrator: Mapping[str, Any], samples: int, *, supersampling: int = 1, pass_index: int = 0
    ) -> np.ndarray:
        """Film [rows, columns, channels] float64 of one of several renderings (passes) of a picture."""
        seed = int(np.random.SeedSequence([self.options.seed, image, supersampling, pass_index]).generate_state(1)[0])
        return self._scene.render_film(
            integrator, samples=stratified_sample_count(samples), seed=seed, supersampling=supersampling
        )

    def _film_samples(self, film: Film) -> int:
        """Samples for each film pixel, such that a pixel of the picture has ``options.samples``."""
        if film.taps is None:
            return self.options.samples
        area_fraction = self.settings.width * self.settings.height / (film.width * film.height)
        return max(1, round(self.options.samples * area_fraction))

    def _background(self, image: int) -> np.ndarray:
        """The scene's own background [H, W, 3] behind one picture."""
        height, width = self.settings.height, self.settings.width
        if self.inputs.background_image is not None:
            return _resize_bilinear(row(self.inputs.background_image, image, len(self)), height, width)
        top, bottom = row(self.inputs.background, image, len(self))
        height_fraction = ((np.arange(height) + 0.5) / height)[:, None, None]
        return np.broadcast_to(top + (bottom - top) * height_fraction, (height, width, 3))


def clamp_fireflies(passes: np.ndarray) -> np.ndarray:
    """Mean [...] of renderings [K, ...] of one picture without fireflies, rare paths of very high radiance.

    A rendering that is much brighter in a pixel than the median of all is clamped there. This darkens caustics slightly and
    removes single bright pixels, which would need many more samples to average out.

    Args:
        passes: the renderings, which differ in their random numbers only.
    """
    return np.minimum(passes, _FIREFLY_RATIO * np.median(passes, axis=0) + 0.1).mean(axis=0)


def _resize_bilinear(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resizes an image [h, w, 3] by bilinear interpolation between pixel centres, constant beyond them."""
    for axis, length in ((0, height), (1, width)):
        count = picture.shape[axis]
        sample_position = np.clip((np.arange(length) + 0.5) * count / length - 0.5, 0, count - 1)
        lower = np.minimum(np.floor(sample_position).astype(int), max(count - 2, 0))
        upper = np.minimum(lower + 1, count - 1)
        fraction = (sample_position - lower).reshape((-1, 1) if axis == 1 else (-1, 1, 1))
        picture = picture.take(lower, axis=axis) * (1 - fraction) + picture.take(upper, axis=axis) * fraction
    return picture
