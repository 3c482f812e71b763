"""The looks of several worlds, solved from one film, and the pictures in them: composed of weights, or rendered for gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.frozen_appearance import FrozenAppearance
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.look_equations import LookInverse
from risp_torch.inversion.appearance.fit.objective import PLATE_REGULARISATION
from risp_torch.inversion.appearance.fit.observation_kernel import observations
from risp_torch.inversion.appearance.fit.solve import solve_look
from risp_torch.inversion.appearance.model.background_plate import SmoothPictures
from risp_torch.inversion.appearance.model.palette import GREY, Palette
from risp_torch.inversion.appearance.model.shading import shading_basis
from risp_torch.inversion.appearance.model.shadow import shadows_of
from risp_torch.inversion.appearance.rendering import picture_of_bodies, shadows_in
from risp_torch.inversion.appearance.settings import LIGHTS, LookSettings
from risp_torch.inversion.appearance.system_cache import CoveredSystem, LookCache, SystemCache, keys_of_worlds
from risp_torch.scene.view.unlit import UnlitRenderInputs
from ti_render import FragmentWeights

SMOOTH = 8  # cosines along each side of a smooth plate
BENDING = 2.5e-4  # stiffness of its half waves, of the pixels
RENDERED_AT_ONCE = 2  # worlds: the weights of more take memory, and no less time
MAX_FRAME_RATIO = 2.0  # frames that a look serves to start from, relative to those that it was solved for


@dataclass(frozen=True, eq=False)
class SolvedLook:
    """The look of one motion, and the plate of the whole picture.

    Attributes:
        look: solved for the pixels that show a body.
        system: these pixels.
        plate: [H W, 3] background plate, also in the pixels that never show a body.
        inverse: of the look's normal matrix, with which a look of a near motion begins.
        plate_share: [n, H W] visible share of the plate.
    """

    look: Look
    system: AppearanceSystem
    plate: np.ndarray
    inverse: LookInverse | None
    plate_share: np.ndarray

    def seen_in(self, system: AppearanceSystem) -> Look | None:
        """The look for another motion's pixels, or None if it has other colours or other frames.

        A look of even exposure serves for more frames, up to ``MAX_FRAME_RATIO`` times its own.
        """
        frames, look = len(self.look.gain), replace(self.look, plate=self.plate[system.active])
        if len(look.colors) != system.palette.count:
            return None
        if frames == system.frames:
            return look
        if not (frames < system.frames <= MAX_FRAME_RATIO * frames and look.is_evenly_exposed):
            return None
        return replace(look, gain=np.ones((system.frames, 3)), offset=np.zeros((system.frames, 3)))

    def distance(self, plate_share: np.ndarray) -> float:
        """Mean absolute difference of the plate's visible share [n, H W] from this one's, over the frames of both."""
        frames = min(len(plate_share), len(self.plate_share))
        return float(np.abs(self.plate_share[:frames] - plate_share[:frames]).mean())

    @property
    def before_black(self) -> SolvedLook:
        """Its bodies alone."""
        colors = self.look.colors.copy()
        colors[self.system.palette.bodies :] = 0.0
        return replace(self, look=replace(self.look, colors=colors), plate=np.zeros_like(self.plate))

    @property
    def penalty(self) -> float:
        """Regularisation of the look, that of the plate's other pixels included."""
        inactive_pixels = np.delete(self.plate, self.system.active, axis=0)
        return self.look.penalty + PLATE_REGULARISATION * float(((inactive_pixels - GREY) ** 2).sum())

    @property
    def pictures(self) -> np.ndarray:
        """[n, H W, 3] the film in this look."""
        look = self.look
        film = look.gain[:, None] * self.plate + look.offset[:, None]
        film[:, self.system.active] = look.picture(self.system)
        return film


def solve_worlds(
    unlit_inputs: UnlitRenderInputs, film: torch.Tensor, settings: LookSettings, *, still: np.ndarray,
    weights: torch.Tensor | None = None, first_look: SolvedLook | None = None, frozen: FrozenAppearance | None = None,
    cache: SystemCache | None = None, looks: LookCache | None = None, frames: Sequence[int] = (),
) -> list[SolvedLook]:  # fmt: skip
    """The look of every world that fits a film best.

    Args:
        unlit_inputs: render inputs of B worlds and n frames.
        film: [n, H, W, 3] linear colour.
        settings: what is solved.
        still: [H W, 3] plate of the pixels that never show a body (``still_plate``).
        weights: [n or 1, H, W] of the pixels.
        first_look: a look of the same scene to start from, where it fits. A world starts from this one or one of the worlds
            before it, whichever covers the plate most similarly.
        frozen: a look from which those of all worlds are one step away, in place of solving them.
        cache: of the systems of motions that come again.
        looks: of the same film and weights, for motions that come again; None keeps none.
        frames: numbers of the film's frames; a look is kept for each set of frames.
    """
    pixels, weight = pixels_of(film, weights)
    solved: list[SolvedLook] = []
    keys, looks, cache = keys_of_worlds(unlit_inputs, settings), looks or LookCache(), cache or SystemCache()
    for key, (system, plate_share) in zip(keys, _systems(unlit_inputs, settings, pixels, weight, cache, keys), strict=True):
        look_key = key, settings, tuple(frames)
        if frozen is not None:
            look, inverse = frozen.followed(system), frozen.inverse
        elif (kept := looks.get(look_key)) is not None:
            look, inverse = kept
        else:
            known = solved if first_look is None else [first_look, *solved]
            nearest = min(known, key=lambda other: other.distance(plate_share), default=None)
            first, inverse = (None, None) if nearest is None else (nearest.seen_in(system), nearest.inverse)
            look, inverse = solve_look(system, settings, first_look=first, inverse=inverse)
            looks.put(look_key, look, inverse)
        plate = still.copy()
        plate[system.active] = look.plate
        solved.append(SolvedLook(look, system, plate, inverse, plate_share))
    return solved


def _systems(
    unlit_inputs: UnlitRenderInputs, settings: LookSettings, pixels: np.ndarray, weight: np.ndarray, cache: SystemCache,
    keys: Sequence[bytes],
) -> Iterator[CoveredSystem]:
    """The system of every world, and the visible share [n, H W] of the plate; motions that the cache lacks are rendered.

    Args:
        unlit_inputs: of the worlds.
        settings: of the look.
        pixels, weight: the film [n, H W, 3] and weights [n, H W] of its pixels.
        cache: is written, too.
        keys: of the worlds (``keys_of_worlds``).
    """
    known = [cache.get(key) for key in keys]
    missing = [world for world, system in enumerate(known) if system is None]
    parts = [missing[first : first + RENDERED_AT_ONCE] for first in range(0, len(missing), RENDERED_AT_ONCE)]
    made = (system for part in parts for system in _rendered_systems(unlit_inputs.of_worlds(part), settings, pixels, weight))
    for key, kept in zip(keys, known, strict=True):
        if kept is None:
            system, plate_share = next(made)
            cache.put(key, system, plate_share)
        else:
            system, plate_share = kept[0].with_film(pixels, weight), kept[1]
        yield system, plate_share


def _rendered_systems(
    unlit_inputs: UnlitRenderInputs, settings: LookSettings, pixels: np.ndarray, weight: np.ndarray
) -> Iterator[CoveredSystem]:
    """``_systems`` of worlds that are rendered."""
    with torch.no_grad():
        entries, plate_share = unlit_inputs.weights()
        basis = shading_basis(unlit_inputs.normals(), LIGHTS[settings.light]).cpu().numpy()
        shadows = (
            unlit_inputs.film_of((shadows_of(unlit_inputs) * plate_share[:, None]).movedim(1, -1)) if settings.shadow else None
        )
        plate_share = (
            unlit_inputs.film_of(plate_share[..., None]).reshape(unlit_inputs.worlds, unlit_inputs.frames, -1).cpu().numpy()
        )
    images, size = unlit_inputs.frames * unlit_inputs.moments, (unlit_inputs.settings.height, unlit_inputs.settings.width)
    basis_of_plate = None if settings.plate == "any" else SmoothPictures.of(*size, count=SMOOTH, bending=BENDING)
    palette = Palette.of(unlit_inputs.faces, unlit_inputs.rest, unlit_inputs.vertex_body, settings.colors, texels=settings.texels)
    bounds = np.searchsorted(entries.image, np.arange(unlit_inputs.worlds + 1) * images)
    for world in range(unlit_inputs.worlds):
        chosen = slice(bounds[world], bounds[world + 1])
        world_weights = FragmentWeights(
            entries.image[chosen] - world * images, entries.pixel[chosen], entries.face[chosen], entries.weight[chosen]
        )
        cast = None if shadows is None else shadows[world].flatten(1, 2).transpose(1, 2).cpu().numpy()
        system = AppearanceSystem.of(
            world_weights, basis[world * images : (world + 1) * images], plate_share[world], pixels, palette,
            shadows=cast, weight=weight, all_pixels=settings.exposure or basis_of_plate is not None, plate_basis=basis_of_plate,
        )  # fmt: skip
        yield system, plate_share[world].copy()


def pixels_of(film: torch.Tensor, weights: torch.Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Colours [n, H W, 3] of a film [n, H, W, 3], and weights [n, H W] of its pixels, in double precision."""
    pixels = film.flatten(1, 2).double().cpu().numpy()
    if weights is None:
        return pixels, np.ones(pixels.shape[:2])
    return pixels, weights.expand(len(film), -1, -1).flatten(1).double().cpu().numpy()


def composed(solved: Sequence[SolvedLook], film: torch.Tensor) -> torch.Tensor:
    """[B, n, H, W, 3] the films in the solved looks, without gradient."""
    pictures = np.stack([solved_look.pictures for solved_look in solved])
    return torch.as_tensor(pictures).to(film).reshape(len(solved), *film.shape)


def observed_in(solved: Sequence[SolvedLook], film: torch.Tensor, robust_scale: float) -> torch.Tensor:
    """[B, n, 3 H W + 1] observations of a film [n, H, W, 3] in the solved looks, without gradient; the last is 0.

    Pixels are moved towards the film where the residual is large (``MatchedLoss``).
    """
    target = np.ascontiguousarray(film.detach().flatten(1, 2).cpu().numpy())
    observed = [observations(each.system, each.look, each.plate, target, robust_scale) for each in solved]
    return torch.as_tensor(np.stack(observed) if len(observed) > 1 else observed[0][None]).to(film)


def rendered(unlit_inputs: UnlitRenderInputs, solved: Sequence[SolvedLook]) -> torch.Tensor:
    """[B, n, H, W, 3] the same pictures by the renderer, with the gradient in the motion and the camera at these looks."""
    like, size = unlit_inputs.arrays.body_q, (unlit_inputs.settings.height, unlit_inputs.settings.width)

    def tensor(arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.as_tensor(np.stack(arrays)).to(like)

    looks, palette = [solved_look.look for solved_look in solved], solved[0].system.palette
    colors, cast = tensor([look.colors for look in looks]).split([palette.bodies, palette.shadows], dim=1)
    light = tensor([look.light for look in looks])
    basis = shading_basis(unlit_inputs.normals(), light.shape[1]).unflatten(0, (unlit_inputs.worlds, -1))
    shade = torch.einsum("bmfl,blc->bmfc", basis, light)
    images = picture_of_bodies(unlit_inputs, palette, colors, shade)
    plate = tensor([solved_look.plate.reshape(*size, 3) for solved_look in solved]).repeat_interleave(
        unlit_inputs.frames * unlit_inputs.moments, dim=0
    )
    if palette.shadows:
        plate = plate + shadows_in(unlit_inputs, cast)
    gain, offset = (tensor([getattr(look, name) for look in looks])[:, :, None, None] for name in ("gain", "offset"))
    return gain * unlit_inputs.film_of(images[..., :3] + (1.0 - images[..., 3:]) * plate) + offset
