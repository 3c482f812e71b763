"""Path-traced films of scenes: the pictures of a motion, written one by one, so that a killed run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.atomic import replacing, write_text
from risp_torch.files.video import DESCRIPTION, LINEAR, linear_to_srgb
from ti_render import RenderInputs
from ti_render.photoreal import Appearance, MitsubaFilm, MitsubaSettings, Picture, Variant

if TYPE_CHECKING:
    import torch

    from risp_torch.scene.scene import Scene
    from risp_torch.scene.states import States

__all__ = ["photoreal_film", "write_photoreal_frames"]

FRAMES, MASKS = "frames", "masks"


def photoreal_film(
    scene: Scene,
    states: States | torch.Tensor,
    parameters: Mapping[str, torch.Tensor] | None = None,
    *,
    camera: str | None = None,
    options: MitsubaSettings | None = None,
    look: Appearance | None = None,
    variant: Variant | None = None,
) -> MitsubaFilm:
    """The path-traced film of a motion: ``film.picture(k)`` is frame k of the first world, ``len(film)`` their number.

    Args:
        scene: with a camera.
        states: from ``scene.rollout``, or where everything is (``Scene.poses``).
        parameters: values that replace the scene's own.
        camera: name of the camera, the first one by default.
        options: samples, path length, variant; ``MitsubaSettings()`` by default.
        look: of "photoreal" pictures, drawn with the seed of the options by default.
        variant: from ``choose_variant``; chosen as the options say by default.

    Raises:
        UserError: the scene has no such camera or no light, or as ``MitsubaFilm``.
    """
    import torch

    with torch.no_grad():
        placement = scene.view.poses(states)[:1]
        inputs = scene.view.render_inputs(scene.table.values(parameters, worlds=1), placement, camera=camera)
    settings = scene.view.raster_settings(camera=camera)
    return MitsubaFilm(_numpy(inputs), settings, options=options, bodies=scene.part_names, look=look, variant=variant)


def write_photoreal_frames(folder: Path | str, film: MitsubaFilm, *, fps: float, masks: bool = True) -> int:
    """Render the pictures that are not there yet, each into files that are whole or absent.

    Writes ``frames/00012.png`` (8-bit sRGB) and, with masks, for every body ``masks/<body>/00012.png`` (the share of the pixel
    that shows the body, 255 for all of it), each folder with a ``video.json`` with which ``read_video`` gives back colours and
    shares. A picture whose files are all there and can be read is not rendered again: the caller sees to it that they belong to
    this film.

    Args:
        folder: of the run.
        film: what is rendered.
        fps: pictures per second.
        masks: whether masks are written, too.

    Returns:
        How many pictures were rendered.

    Raises:
        UserError: the place cannot be written, or as ``MitsubaFilm.picture``.
    """
    from tqdm import tqdm

    folder = Path(folder)
    height, width = film.settings.height, film.settings.width
    description = {"fps": float(fps), "width": width, "height": height, "frames": len(film)}
    shown = film.bodies if masks else ()
    _write_json(folder / FRAMES / DESCRIPTION, description)
    for body in shown:
        _write_json(folder / MASKS / body / DESCRIPTION, description | {"curve": LINEAR})
    files = [_files(folder, shown, k) for k in range(len(film))]
    missing = [k for k, paths in enumerate(files) if not all(_whole(path, width, height) for path in paths.values())]
    bar = tqdm(missing, desc="path tracing", unit="frame", initial=len(film) - len(missing), total=len(film))
    for k in bar:
        _write_picture(files[k], film.picture(k, masks=masks))
    return len(missing)


def _write_picture(files: Mapping[str, Path], picture: Picture) -> None:
    """Write the masks and, last, the picture itself."""
    for name, mask in picture.masks.items():
        _write_png(files[name], np.round(255 * np.clip(mask, 0, 1)))
    _write_png(files[""], np.round(255 * linear_to_srgb(np.clip(picture.color, 0, 1))))


def _files(folder: Path, bodies: Iterable[str], frame: int) -> dict[str, Path]:
    """Files of one frame: by the bodies' names their masks, by "" the picture."""
    name = f"{frame:05d}.png"
    return {**{body: folder / MASKS / body / name for body in bodies}, "": folder / FRAMES / name}


def _write_json(path: Path, description: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(description, indent=2) + "\n")


def _write_png(path: Path, levels: np.ndarray) -> None:
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(levels.astype(np.uint8)).save(temporary, format="PNG")


def _whole(path: Path, width: int, height: int) -> bool:
    """Whether a picture is there, can be read to its end and has the right size."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.load()
            return image.size == (width, height)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _numpy(inputs: RenderInputs) -> RenderInputs:
    """The same inputs with numpy arrays in the place of tensors."""

    def plain(value: Any) -> Any:
        return value.detach().cpu().numpy() if hasattr(value, "detach") else value

    return replace(inputs, **{field.name: plain(getattr(inputs, field.name)) for field in fields(inputs)})
