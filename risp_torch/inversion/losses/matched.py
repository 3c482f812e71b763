"""The matched loss: the look is solved from the film, for every value of the unknowns; what is left is compared.

For given physics, geometry and camera, the film is nearly linear in colours, light and what stands behind the bodies. The loss is
the residual after these are solved (variable projection, Golub and Pereyra 1973): no lights, materials, ground or background of
the scene are used. Its gradient is that at the solved look (envelope theorem), and differences of its observations are those of
the projected residual, so that error bars do not count as seen what the look can absorb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from risp_torch.inversion.look.fit import LEAST_LEFT
from risp_torch.inversion.look.footage import Footage
from risp_torch.inversion.look.held import HeldLook
from risp_torch.inversion.look.look import Look
from risp_torch.inversion.look.palette import GREY, Palette
from risp_torch.inversion.look.pictures import picture_of_bodies, shadows_in
from risp_torch.inversion.look.plate import smooth_pictures
from risp_torch.inversion.look.settings import LIGHTS, LookSettings
from risp_torch.inversion.look.shading import shading_basis
from risp_torch.inversion.look.shadow import check_ground, shadows_of
from risp_torch.inversion.look.sheet import write_look_sheet
from risp_torch.inversion.look.solve import solve_look
from risp_torch.inversion.look.steps import Inverse
from risp_torch.inversion.look.still import still_plate
from risp_torch.inversion.losses.loss import PictureLoss, pixel_blocks
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from risp_torch.scene.view.unlit import Unlit
from ti_render import FragmentWeights
from ti_sim.base.errors import UserError

SMOOTH = 5  # cosines along each side of a smooth plate
SEARCH_SCALE, SEARCH_TOLERANCE = 8.0, 100.0  # robust scale and tolerance of the search, relative to those of the loss


class MatchedLoss(PictureLoss):
    """Mean robust squared difference of linear colours between the film and the motion in the look that fits it best.

    The camera must stand. Observations of a frame are the pixels' colours, moved towards the film where the residual is large
    (the square of what remains is Geman and McClure's function of it), and one number for the regularisation of the look.
    """

    kind = "matched"
    usual_noise = 0.02
    colors_of_pixels = True

    def __init__(self, settings: LookSettings | None = None, *, weights: PixelWeights | None = None) -> None:
        """A loss by the solved look.

        Args:
            settings: what is solved of the look.
            weights: how much each pixel counts, all alike by default.
        """
        self.settings, self.weights = settings or LookSettings(), weights
        self._film: torch.Tensor | None = None
        self._begin: SolvedLook | None = None
        self._held: tuple[tuple[int, ...], HeldLook] | None = None  # frames, and the look that is held in them
        self._still: dict[tuple[Any, ...], np.ndarray] = {}  # plates of the film without bodies, by frames and robust scale

    def of_film(self, video: torch.Tensor | None) -> MatchedLoss:
        """The loss for a film [T, H, W, 3] (``Loss.of_film``)."""
        own = copy(self)
        own._film, own._begin, own._held, own._still = video, None, None, {}
        return own

    def for_search(self) -> MatchedLoss:
        """The loss with a wider robust scale: beyond a few scales the residual hardly changes with the motion."""
        own = copy(self)
        robust, tolerance = SEARCH_SCALE * self.settings.robust, SEARCH_TOLERANCE * self.settings.tolerance
        own.settings = replace(self.settings, robust=robust, tolerance=tolerance)
        return own

    def near(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> MatchedLoss:
        """The loss whose looks are one linear step from the one solved for a motion (``Loss.near``)."""
        with torch.no_grad():
            _, solved, numbers, film = self._solved(scene, states, values, frames)
        own, first = copy(self), solved[0]
        left = _pixels(film, None)[0] - first.pictures
        own._held = tuple(numbers), HeldLook.of(first.footage, self.settings, first.look, first.plate, left)
        return own

    def check(self, scene: Scene) -> None:
        """Raise a UserError without a camera, or without the ground that a shadow falls on (``Loss.check``)."""
        super().check(scene)
        if self.settings.shadow:
            check_ground(scene.ground_height)

    def known_frames(self, scene: Scene, frames: tuple[int, ...]) -> tuple[int, ...]:
        """The frames (``Loss.known_frames``; UserError: a single one, before any plate)."""
        if len(frames) == 1 and self.settings.plate == "any":
            raise UserError(
                "the matched loss compares one picture, which fits every motion where anything may stand behind the bodies: "
                "compare more frames, or let a smooth picture stand there (--look plate=smooth)"
            )
        return frames

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """The pixels, and 0 for the regularisation (``PictureLoss.read``)."""
        return torch.nn.functional.pad(pictures.flatten(-3), (0, 1))

    def weigh(self, pictures: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """The pictures times the roots of their weights (``PictureLoss.weigh``)."""
        return pictures * self.weights.roots(frames)

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Observations of the motion in the solved look (``Loss.observe``)."""
        unlit, solved, numbers, film = self._solved(scene, states, values, frames)
        given = [array for array in (*vars(unlit.inputs).values(), unlit.share) if isinstance(array, torch.Tensor)]
        pictures = _rendered(unlit, solved) if any(map(_has_derivative, given)) else _composed(solved, film)
        residual = pictures - film
        factor = torch.rsqrt(1.0 + (residual * residual).sum(dim=-1, keepdim=True) / self.settings.robust**2)
        observed = self.compared(film + factor * residual, numbers).clone()
        penalties = [max(each.penalty, 0.0) / len(numbers) for each in solved]
        observed[..., -1] = torch.tensor(penalties, dtype=torch.float64).sqrt().to(observed)[:, None]
        return observed

    def render(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None = None
    ) -> torch.Tensor:
        """The film in the solved look (``PictureLoss.render``)."""
        with torch.no_grad():
            _, solved, _, film = self._solved(scene, states, values, frames)
            return _composed(solved, film)

    def write_pictures(
        self, folder: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]
    ) -> None:
        """Write look.png, what was solved of the film (``Loss.write_pictures``)."""
        self.write_sheet(folder / "look.png", scene, states, values)

    def write_sheet(self, path: Path, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> None:
        """Write what was solved of the film as a picture (arguments: ``Loss.write_pictures``)."""
        with torch.no_grad():
            unlit, solved, _, film = self._solved(scene, states, values, None)
            bodies = _rendered(unlit, [solved[0].before_black])[0]
            shown = _composed(solved, film)[0]
            plate = torch.as_tensor(solved[0].plate).to(film).reshape(film.shape[1:]).expand(film.shape)
            if shadows := solved[0].footage.palette.shadows:
                cast = torch.as_tensor(solved[0].look.colors[-shadows:]).to(film)[None]
                plate = plate + unlit.film_of(shadows_in(unlit, cast))[0]
        write_look_sheet(path, film, shown, bodies, plate)

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels, and one for the regularisation (``Loss.blocks``)."""
        pixels = np.repeat(pixel_blocks(*size), 3)
        return np.append(pixels, pixels.max() + 1)

    def floor(self, pictures: torch.Tensor) -> float:
        """Variance of eight-bit pictures (``Loss.floor``)."""
        return (1 / 255) ** 2 / 12

    def to_json(self) -> dict[str, Any]:
        """Its kind, the settings of the look, and the weights (``Loss.to_json``)."""
        weights = {} if self.weights is None else {"weights": self.weights.to_json()}
        return {"kind": self.kind, "look": asdict(self.settings)} | weights

    def _solved(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> tuple[Unlit, list[SolvedLook], Sequence[int], torch.Tensor]:
        """Unlit pictures, the look of every world, frame numbers, and the film [n, H, W, 3] at them.

        Worlds begin with the look that was solved last: looks of near motions are alike.
        """
        if self._film is None:
            raise UserError("the matched loss needs the film that it solves the look from: use it in invert or a Comparison")
        unlit = Unlit.of(scene, states, values, frames)
        numbers = range(unlit.frames) if frames is None else frames
        film = self._film[list(numbers)]
        weights = None if self.weights is None else self.weights.of(numbers)
        key = (tuple(numbers), self.settings.robust)
        if key not in self._still:
            self._still[key] = still_plate(*_pixels(film, weights), self.settings)
        held = self._held[1] if self._held is not None and self._held[0] == tuple(numbers) else None
        solved = solve_worlds(
            unlit, film, self.settings, still=self._still[key], weights=weights, begin=self._begin, held=held
        )
        self._begin = solved[0] if len(numbers) == len(self._film) else self._begin
        return unlit, solved, numbers, film


@dataclass(frozen=True, eq=False)
class SolvedLook:
    """The look of one motion, and the plate of the whole picture.

    Attributes:
        look: solved for the pixels that show a body.
        footage: these pixels.
        plate: [H W, 3] what stands behind, also in the pixels that never show a body.
        inverse: factors of the look's normal matrix, with which a look of a near motion begins.
    """

    look: Look
    footage: Footage
    plate: np.ndarray
    inverse: Inverse | None

    def seen_in(self, footage: Footage) -> Look | None:
        """The look for another motion's pixels, or None if it has other colours or frames."""
        alike = self.look.colors.shape[0] == footage.palette.count and self.look.gain.shape[0] == footage.frames
        return replace(self.look, plate=self.plate[footage.active]) if alike else None

    @property
    def before_black(self) -> SolvedLook:
        """Its bodies alone."""
        colors = self.look.colors.copy()
        colors[self.footage.palette.bodies :] = 0.0
        return replace(self, look=replace(self.look, colors=colors), plate=np.zeros_like(self.plate))

    @property
    def penalty(self) -> float:
        """Regularisation of the look, that of the plate's other pixels included."""
        others = np.delete(self.plate, self.footage.active, axis=0)
        return self.look.penalty + LEAST_LEFT * float(((others - GREY) ** 2).sum())

    @property
    def pictures(self) -> np.ndarray:
        """[n, H W, 3] the film in this look."""
        look = self.look
        whole = look.gain[:, None] * self.plate + look.offset[:, None]
        whole[:, self.footage.active] = look.picture(self.footage)
        return whole


def solve_worlds(
    unlit: Unlit, film: torch.Tensor, settings: LookSettings, *, still: np.ndarray, weights: torch.Tensor | None = None,
    begin: SolvedLook | None = None, held: HeldLook | None = None,
) -> list[SolvedLook]:  # fmt: skip
    """The look of every world that fits a film best.

    Args:
        unlit: of B worlds and n frames.
        film: [n, H, W, 3] linear colour.
        settings: what is solved.
        still: [H W, 3] plate of the pixels that never show a body (``still_plate``).
        weights: [n or 1, H, W] of the pixels.
        begin: a look of the same scene to start from, where it fits.
        held: a look from which those of all worlds are one step away, in place of solving them.
    """
    with torch.no_grad():
        entries, left = unlit.weights()
        basis = shading_basis(unlit.normals(), LIGHTS[settings.light]).cpu().numpy()
        shadows = unlit.film_of((shadows_of(unlit) * left[:, None]).movedim(1, -1)) if settings.shadow else None
        left = unlit.film_of(left[..., None]).reshape(unlit.worlds, unlit.frames, -1).cpu().numpy()
    images = unlit.frames * unlit.moments
    pixels, weight = _pixels(film, weights)
    basis_of_plate = None if settings.plate == "any" else smooth_pictures(*film.shape[1:3], SMOOTH)
    palette = Palette.of(unlit.faces, unlit.rest, unlit.vertex_body, settings.colors, texels=settings.texels)
    solved: list[SolvedLook] = []
    for world in range(unlit.worlds):
        chosen = entries.image // images == world
        part = FragmentWeights(
            entries.image[chosen] - world * images, entries.pixel[chosen], entries.face[chosen], entries.weight[chosen]
        )
        cast = None if shadows is None else shadows[world].flatten(1, 2).transpose(1, 2).cpu().numpy()
        footage = Footage.of(
            part, basis[world * images : (world + 1) * images], left[world], pixels, palette, shadows=cast, weight=weight,
            whole=settings.exposure or basis_of_plate is not None, plate_basis=basis_of_plate,
        )  # fmt: skip
        if held is None:
            first, inverse = (None, None) if begin is None else (begin.seen_in(footage), begin.inverse)
            look, inverse = solve_look(footage, settings, begin=first, inverse=inverse)
        else:
            look, inverse = held.followed(footage), held.inverse
        plate = still.copy()
        plate[footage.active] = look.plate
        begin = SolvedLook(look, footage, plate, inverse)
        solved.append(begin)
    return solved


def _has_derivative(tensor: torch.Tensor) -> bool:
    """Whether a result of the tensor has a gradient, or a tangent in forward mode."""
    return (torch.is_grad_enabled() and tensor.requires_grad) or forward_ad.unpack_dual(tensor).tangent is not None


def _pixels(film: torch.Tensor, weights: torch.Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Colours [n, H W, 3] of a film [n, H, W, 3], and weights [n, H W] of its pixels, in double precision."""
    pixels = film.flatten(1, 2).double().cpu().numpy()
    if weights is None:
        return pixels, np.ones(pixels.shape[:2])
    return pixels, weights.expand(len(film), -1, -1).flatten(1).double().cpu().numpy()


def _composed(solved: Sequence[SolvedLook], film: torch.Tensor) -> torch.Tensor:
    """[B, n, H, W, 3] the films in the solved looks, without gradient."""
    pictures = np.stack([each.pictures for each in solved])
    return torch.as_tensor(pictures).to(film).reshape(len(solved), *film.shape)


def _rendered(unlit: Unlit, solved: Sequence[SolvedLook]) -> torch.Tensor:
    """[B, n, H, W, 3] the same pictures by the renderer, with the gradient in the motion and the camera at these looks."""
    like, size = unlit.inputs.body_q, (unlit.settings.height, unlit.settings.width)

    def tensor(arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.as_tensor(np.stack(arrays)).to(like)

    looks, palette = [each.look for each in solved], solved[0].footage.palette
    colors, cast = tensor([look.colors for look in looks]).split([palette.bodies, palette.shadows], dim=1)
    light = tensor([look.light for look in looks])
    basis = shading_basis(unlit.normals(), light.shape[1]).unflatten(0, (unlit.worlds, -1))
    shade = torch.einsum("bmfl,blc->bmfc", basis, light)
    images = picture_of_bodies(unlit, palette, colors, shade)
    plate = tensor([each.plate.reshape(*size, 3) for each in solved]).repeat_interleave(unlit.frames * unlit.moments, dim=0)
    if palette.shadows:
        plate = plate + shadows_in(unlit, cast)
    gain, offset = (tensor([getattr(look, name) for look in looks])[:, :, None, None] for name in ("gain", "offset"))
    return gain * unlit.film_of(images[..., :3] + (1.0 - images[..., 3:]) * plate) + offset
