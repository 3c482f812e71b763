"""The loss of masks: where bodies are in the pictures, whatever they look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.film.cut_to_film import cut_to_film
from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.film import film_facts
from risp_torch.files.levels import check_frames
from risp_torch.files.mask_pictures import covered_rim, mask_of, read_masks
from risp_torch.files.suggest import unknown_name_error
from risp_torch.inversion.losses.loss import Loss, pixel_blocks
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.masks import EDGE, SAMPLES, render_masks, visible_bodies
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, checked
from ti_sim.base.warn import warn

MIN_OVERLAP = 0.05  # smallest overlap of mask and body, in parts of the smaller one, that is not doubted
ALL = "all"  # name of a mask that shows all bodies together
MAX_RIM_FRACTION, MAX_LISTED = 0.5, 8  # share of the picture's rim from which a mask is doubted; frames that a sentence lists
Masks = Mapping[str, Any] | np.ndarray | torch.Tensor | str | Path


class MaskLoss(Loss):
    """Mean squared difference of soft masks: target and simulation may have different lights, colours and backgrounds.

    A mask holds the share of each pixel that shows a body. The sum of squares is divided by the length of the silhouettes in
    pixels, since only pixels on an edge can disagree by an error of the masks: loss and noise are those of a pixel on an edge.
    """

    kind = "mask"
    needs_film = False
    of_pictures = True
    usual_noise = 0.2

    @checked
    def __init__(
        self, masks: Any, *, objects: FromZero | Mapping[str, int] | None = None, weights: PixelWeights | None = None,
        noise: Positive | None = None, edge: Positive = EDGE, samples: Count = SAMPLES, film: str | Path | None = None,
    ) -> None:  # fmt: skip
        """A loss of masks.

        Args:
            masks: one mask of all bodies together, or name of a body -> its mask, each an array [T, H, W] (``mask_of``) or files
                as of ``read_masks``. A folder may also hold a folder for each body, as ``risp simulate --renderer mitsuba``
                writes them. Bodies without a mask hide what is behind them, and are not compared.
            objects: of masks that hold object numbers: the number that is compared, or name of a body -> its number.
            weights: weight of each pixel, 1 by default.
            noise: standard deviation of the share of a pixel on an edge; estimated from the residual by default.
            edge, samples: of the simulated masks (``render_masks``): steeper edges with more samples are more exact and slower.
            film: the film that the masks belong to. Masks of the whole pictures and all frames that it was cut from
                (``risp film``) are cut and averaged in the same way.

        Raises:
            UserError: see ``read_masks``; there is no mask; or the masks have neither the film's size nor that of the whole one.
        """
        self.weights, self.noise = weights, noise
        self._sharpness = {"edge": float(edge), "samples": int(samples)}
        self.path = str(masks) if isinstance(masks, str | Path) else ""
        facts = None if film is None else film_facts(film)
        masks_by_body = {
            name: _mask(mask, name, number, facts) for name, (mask, number) in _masks_by_body(masks, objects).items()
        }
        if not masks_by_body or (ALL in masks_by_body and len(masks_by_body) > 1):
            raise UserError("masks are of all bodies together, or of single bodies by their names: give one or the other")
        shapes = {tuple(mask.shape) for mask in masks_by_body.values()}
        if len(shapes) > 1:
            listed = ", ".join(f"{name} {tuple(mask.shape)}" for name, mask in masks_by_body.items())
            raise UserError(f"the masks have different shapes ({listed}): give as many pictures of one size for each body")
        self.names = tuple(masks_by_body)
        self.masks = torch.stack(list(masks_by_body.values()), dim=-1)  # [T, H, W, N]
        self._cached_lengths: tuple[PixelWeights | None, torch.Tensor] | None = None  # weights, and the weighted lengths [T]

    def with_edges(self, *, edge: Positive, samples: Count) -> MaskLoss:
        """The same loss with other edges and samples of the simulated masks."""
        loss = copy(self)
        loss._sharpness = {"edge": float(edge), "samples": int(samples)}
        return loss

    def check(self, scene: Scene) -> None:
        """Compare the masks with bodies and film of the scene (``Loss.check``)."""
        camera = scene.camera
        if camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        bodies = visible_bodies(scene)
        for name in self.names:
            if name != ALL and name not in bodies:
                raise unknown_name_error("body of a mask", name, [*bodies, ALL])
        check_frames(self.masks[..., 0], "the masks", frames=scene.frames + 1, size=(camera.height, camera.width))
        if self.weights is not None:
            self.weights.check(scene)
        if not self.count(range(scene.frames + 1), ()) > 0:
            raise UserError("the masks have no edge that counts: they are black or white throughout, or all weights are zero")
        for sentence in self.target_doubts(scene):
            warn(sentence)

    def target_doubts(self, scene: Scene) -> list[str]:
        """Masks that cover most of the picture's rim, or nothing in some frames (``Loss.target_doubts``)."""
        sentences = []
        for name, mask in zip(self.names, self.masks[: scene.frames + 1].unbind(-1), strict=True):
            title, rim_fraction = _title(name), covered_rim(mask.cpu().numpy())
            if rim_fraction > MAX_RIM_FRACTION:
                sentences.append(
                    f"{title} cover {100 * rim_fraction:.0f} % of the picture's rim: look whether they are inverted, or "
                    "show the background"
                )
            empty_frames = (mask.flatten(1).amax(1) == 0).nonzero()[:, 0].tolist()
            if empty_frames:
                listed = ", ".join(map(str, empty_frames[:MAX_LISTED])) + (
                    " and others" if len(empty_frames) > MAX_LISTED else ""
                )
                count = f"{len(empty_frames)} of {len(mask)} frames ({listed})"
                sentences.append(f"{title} cover nothing in {count}: look whether the body is out of the picture there")
        return sentences

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Masks [B, n, H, W, N] of the motion, times the roots of their weights (``Loss.observe``)."""
        frames = range(states.placement.shape[1]) if frames is None else frames
        masks = self._render(scene, states, values, frames)
        return masks if self.weights is None else masks * self.weights.roots(frames)

    def rounding(self) -> float | None:
        """A twelfth for masks of 0 and 1, which leave shares of pixels out (``Loss.rounding``); shares have no known error."""
        return 1 / 12 if bool(((self.masks == 0) | (self.masks == 1)).all()) else None

    def systematic(self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int]) -> torch.Tensor:
        """Bias of soft edges, in the order of their width: the difference to masks with edges twice as soft
        (``Loss.systematic``)."""
        sharp, softer = (self._render(scene, states, values, frames, edge=n * self._sharpness["edge"]) for n in (1, 2))
        error = softer - sharp
        return error if self.weights is None else error * self.weights.roots(frames)

    def doubts(self, residual: torch.Tensor, frames: Sequence[int]) -> list[str]:
        """Bodies whose simulated masks hardly overlap the target masks (``Loss.doubts``)."""
        target = self.of_target(None, None, frames)
        simulated, sentences = target - residual.reshape(target.shape), []
        overlaps, target_area, simulated_area = (
            masks.sum((0, 1, 2)) for masks in (torch.minimum(target, simulated), target, simulated)
        )
        for name, overlap, target_size, simulated_size in zip(self.names, overlaps, target_area, simulated_area, strict=True):
            smaller = min(float(target_size), float(simulated_size))
            if float(target_size) > 0 and float(overlap) < MIN_OVERLAP * smaller or not float(simulated_size) > 0:
                subject = "the bodies" if name == ALL else name
                sentences.append(
                    f"{subject} never meets the mask: less than {100 * MIN_OVERLAP:.0f} % of one covers the other; the camera, "
                    "the start or the mask is another one"
                )
        return sentences

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The given masks (``Loss.of_target``)."""
        masks = self.masks[list(frames)]
        return masks if self.weights is None else masks * self.weights.roots(frames)

    def pictures(self, scene: Scene) -> torch.Tensor | None:
        """The given masks, each body in a colour (``Loss.pictures``)."""
        return self.masks[: scene.frames + 1] @ _colors(self.masks)

    def shown(self, scene: Scene, states: States, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The masks of a motion, in the same colours (``Loss.shown``)."""
        return self._render(scene, states, values, range(states.placement.shape[1])) @ _colors(self.masks)

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """Length of the silhouettes in pixels, times the weights (``Loss.count``)."""
        if self._cached_lengths is None or self._cached_lengths[0] is not self.weights:
            length = edge_lengths(self.masks)
            if self.weights is not None:  # weights may be of fewer frames than the masks
                rows = self.weights.values if len(self.weights.values) > 1 else self.weights.values.expand(len(length), -1, -1)
                length = length[: len(rows)] * rows[: len(length), ..., None]
            self._cached_lengths = self.weights, length.sum((1, 2, 3))
        return float(self._cached_lengths[1][list(frames)].sum())

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels, separate for each body (``Loss.blocks``)."""
        height, width, count = self.masks.shape[1:]
        blocks = pixel_blocks(height, width)[..., None]
        return (blocks + np.arange(count) * (int(blocks.max()) + 1)).ravel()

    def to_json(self) -> dict[str, Any]:
        """Bodies, a checksum of the masks, weights and noise (``Loss.to_json``)."""
        digest = sha256(self.masks.float().cpu().numpy().tobytes()).hexdigest()
        weights = {} if self.weights is None else {"weights": self.weights.to_json()}
        return {
            "kind": self.kind, "masks": self.path or None, "bodies": list(self.names), "masks_sha256": digest, "noise": self.noise
        } | weights | self._sharpness  # fmt: skip

    def _render(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int], **sharpness: Any
    ) -> torch.Tensor:
        """Masks [B, n, H, W, N] of the motion, of another sharpness if that is given."""
        bodies = {"bodies": None, "union": True} if self.names == (ALL,) else {"bodies": self.names}
        return render_masks(scene, states, values, frames=list(frames), **bodies, **(self._sharpness | sharpness))


def edge_lengths(masks: torch.Tensor) -> torch.Tensor:
    """Length [pixels] of a silhouette's edge in each pixel: the magnitude of the gradient of masks [n, H, W, N]."""
    padded = torch.nn.functional.pad(masks.movedim(-1, 1).double(), (1, 1, 1, 1), mode="replicate")
    across, down = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2], padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
    return 0.5 * torch.hypot(across, down).movedim(1, -1)


def _colors(masks: torch.Tensor) -> torch.Tensor:
    """Linear rgb [N, 3] of N bodies in reports: white for one, else spread over the hues."""
    count = masks.shape[-1]
    colors = [(1.0, 1.0, 1.0)] if count == 1 else [hsv_to_rgb(k / count, 0.8, 1.0) for k in range(count)]
    return masks.new_tensor(colors)


def _masks_by_body(masks: Masks, objects: Mapping[str, int] | int | None) -> dict[str, tuple[Any, int | None]]:
    """Masks and the numbers of their objects by the names of their bodies.

    Raises:
        UserError: numbers are given for other bodies than masks.
    """
    folders = []
    if isinstance(masks, str | Path) and Path(masks).is_dir():
        folders = sorted(path for path in Path(masks).iterdir() if path.is_dir() and not path.name.startswith((".", "__")))
    if folders:
        masks = {path.name: path for path in folders}
    if isinstance(masks, Mapping):
        numbers = objects if isinstance(objects, Mapping) else dict.fromkeys(masks, objects)
        unknown = next((name for name in numbers if name not in masks), None)
        if unknown is not None:
            raise unknown_name_error("mask of an object's number", unknown, list(masks))
        return {name: (mask, numbers.get(name)) for name, mask in masks.items()}
    if isinstance(objects, Mapping):
        return {name: (masks, number) for name, number in objects.items()}
    return {ALL: (masks, objects)}


def _title(name: str) -> str:
    return "the masks" if name == ALL else f"the masks of {name}"


def _mask(mask: Any, name: str, number: int | None, film: FilmFacts | None) -> torch.Tensor:
    """[T, H, W] shares of a file or an array, cut as the film."""
    title = _title(name)
    if isinstance(mask, str | Path):
        values = read_masks(mask, title, number=number)
    else:
        array = mask.detach().cpu().numpy() if isinstance(mask, torch.Tensor) else np.asarray(mask)
        values = mask_of(array, title, number=number)
    values = values if film is None else cut_to_film(values, film, title)
    return torch.as_tensor(values).to(dtype=bridge_dtype(), device=bridge_device())
