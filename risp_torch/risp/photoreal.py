"""Path-traced films of scenes: the pictures of a motion, written one by one, so that a killed run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.atomic import atomic_replacement, write_text
from risp_torch.files.film.curves import linear_to_srgb
from risp_torch.files.film.picture_folder import DESCRIPTION, LINEAR
from ti_render import RenderInputs
from ti_render.photoreal import Appearance, MitsubaRenderer, MitsubaSettings, Picture, Variant
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    import torch

    from risp_torch.scene.scene import Scene
    from risp_torch.scene.states import States

__all__ = ["photoreal_film", "write_photoreal_frames"]

FRAMES_FOLDER, MASKS_FOLDER = "frames", "masks"


@checked
def photoreal_film(
    scene: Scene,
    states: States | torch.Tensor,
    parameters: Mapping[str, torch.Tensor] | None = None,
    *,
    camera: str | None = None,
    options: MitsubaSettings | None = None,
    look: Appearance | None = None,
    variant: Variant | None = None,
) -> MitsubaRenderer:
    """The path-traced film of a motion: ``film.picture(k)`` is frame k of the first world; ``len(film)`` is the number of frames.

    Args:
        scene: scene with a camera.
        states: from ``scene.rollout``, or the placement (``Scene.poses``).
        parameters: values that replace the scene's own.
        camera: name of the camera, the first one by default.
        options: samples, path length, variant; ``MitsubaSettings()`` by default.
        look: appearance of "photoreal" pictures, sampled with the seed of the options by default.
        variant: from ``choose_variant``; by default according to the options.

    Raises:
        UserError: the film has an exposure, the camera does not exist or the scene has no light, or see ``MitsubaRenderer``.
    """
    import torch

    from risp_torch.scene.states import instant_placement

    with torch.no_grad():
        placement = scene.view.poses(instant_placement(states, "path-traced films"))[:1]
        inputs = scene.view.render_inputs(scene.table.values(parameters, worlds=1), placement, camera=camera)
    settings = scene.view.raster_settings(camera=camera)
    return MitsubaRenderer(_numpy(inputs), settings, options=options, bodies=scene.part_names, appearance=look, variant=variant)


def write_photoreal_frames(folder: Path | str, film: MitsubaRenderer, *, fps: float, masks: bool = True) -> int:
    """Render the missing pictures and write each atomically.

    Writes ``frames/00012.png`` (8-bit sRGB) and, with masks, for every body ``masks/<body>/00012.png`` (the coverage of the pixel
    by the body, 255 for full coverage), each folder with a ``video.json`` with which ``read_video`` decodes colours and
    coverage. A picture with complete readable files is not rendered again: the caller must ensure that the files belong to this
    film.

    Args:
        folder: folder of the run.
        film: the film.
        fps: pictures per second.
        masks: whether to write masks.

    Returns:
        Number of rendered pictures.

    Raises:
        UserError: the folder cannot be written, or see ``MitsubaRenderer.picture``.
    """
    from tqdm import tqdm

    folder = Path(folder)
    height, width = film.settings.height, film.settings.width
    description = {"fps": float(fps), "width": width, "height": height, "frames": len(film)}
    masked_bodies = film.bodies if masks else ()
    _write_json(folder / FRAMES_FOLDER / DESCRIPTION, description)
    for body in masked_bodies:
        _write_json(folder / MASKS_FOLDER / body / DESCRIPTION, description | {"curve": LINEAR})
    files = [_files(folder, masked_bodies, k) for k in range(len(film))]
    missing = [k for k, paths in enumerate(files) if not all(_is_complete(path, width, height) for path in paths.values())]
    progress_bar = tqdm(missing, desc="path tracing", unit="frame", initial=len(film) - len(missing), total=len(film))
    for k in progress_bar:
        _write_picture(files[k], film.picture(k, masks=masks))
    return len(missing)


def _write_picture(files: Mapping[str, Path], picture: Picture) -> None:
    """Write the masks and, last, the picture itself."""
    for name, mask in picture.masks.items():
        _write_png(files[name], np.round(255 * np.clip(mask, 0, 1)))
    _write_png(files[""], np.round(255 * linear_to_srgb(np.clip(picture.color, 0, 1))))


def _files(folder: Path, bodies: Iterable[str], frame: int) -> dict[str, Path]:
    """Files of one frame: masks by the bodies' names, the picture by ""."""
    name = f"{frame:05d}.png"
    return {**{body: folder / MASKS_FOLDER / body / name for body in bodies}, "": folder / FRAMES_FOLDER / name}


def _write_json(path: Path, description: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(description, indent=2) + "\n")


def _write_png(path: Path, levels: np.ndarray) -> None:
    from PIL import Image

    with atomic_replacement(path) as temporary:
        Image.fromarray(levels.astype(np.uint8)).save(temporary, format="PNG")


def _is_complete(path: Path, width: int, height: int) -> bool:
    """Whether a picture exists, is complete and has the right size."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.load()
            return image.size == (width, height)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _numpy(inputs: RenderInputs) -> RenderInputs:
    """The same inputs with numpy arrays instead of tensors."""

    def to_numpy(value: Any) -> Any:
        return value.detach().cpu().numpy() if hasattr(value, "detach") else value

    return replace(inputs, **{field.name: to_numpy(getattr(inputs, field.name)) for field in fields(inputs)})
