"""Render one frame of a scene: a picture, or a contact sheet of its random appearances."""

from __future__ import annotations

import argparse
import re
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_scene, number_parser
from ti_sim.base.rules import Count, FromZero, Seed

QUANTITIES = ("color", "depth", "normal", "alpha")
_PIXEL_PICTURE_BYTES = 3 * 16  # bytes per pixel: colour and alpha as they are rendered, on the CPU, and as they are shown
_APPEARANCE_COPIES = 4  # copies of an appearance's numbers: as sampled, as values, as the renderer's arrays, and as text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --frame, --psi, --seed, --quantity, --out."""
    add_scene_arguments(parser, cameras="one or all")
    parser.add_argument(
        "--frame", type=number_parser(FromZero), default=0, metavar="K", help="frame to render (default 0, the start)"
    )
    parser.add_argument(
        "--psi", type=_appearances, default=0, metavar="default|random:N",
        help="the scene's own appearance (default), or N random ones: lights, colours, highlights",
    )  # fmt: skip
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of the random appearances (default 0)")
    parser.add_argument("--quantity", choices=QUANTITIES, default="color", help="what the picture shows (default color)")
    parser.add_argument("--out", metavar="FILE", help="PNG file to write (default: runs/render-SCENE-TIME.png)")


def run(options: argparse.Namespace) -> int:
    """Write the sheet, and, for random appearances, a JSON file with their parameters."""
    import torch

    from risp_torch.files.atomic import write_text
    from risp_torch.files.run_folder import default_run_path
    from risp_torch.scene.rendering_parameters import contact_sheet, default_psi

    scene = make_scene(options)
    out = options.out or f"{default_run_path('render', scene.name)}.png"
    _check(scene, options, out)
    parameters = default_psi(scene) if options.psi else None
    with torch.no_grad():
        psi = parameters.sample(options.psi, seed=options.seed) if parameters else None
        pictures = _pictures(scene, options, parameters.values(psi) if parameters else {})
        images, remarks = _display_images(pictures, options.quantity)
    contact_sheet(out, images, _captions(scene, options, remarks))
    print(f"written: {out}")
    if parameters:
        json_path = re.sub(r"\.png$", ".json", out, flags=re.IGNORECASE)
        write_text(json_path, _appearances_json(scene, options, parameters, psi))
        print(f"written: {json_path} ({parameters.size} numbers of each appearance)")
    print_next_steps(out, next_command=("risp", "simulate", options.scene))
    return 0


def _check(scene: Any, options: argparse.Namespace, out: str) -> None:
    """Check the options before any work."""
    from ti_sim.base.errors import UserError

    if options.frame > scene.frames:
        raise UserError(f"frame {options.frame} was requested, but {scene.name} has frames 0 to {scene.frames}: change --frame")
    if not out.lower().endswith(".png"):
        raise UserError(f"--out {out} is not a .png file: give the picture a name that ends in .png")
    settings = scene.view.raster_settings(camera=options.camera)
    _check_memory(scene, options, settings)


def _check_memory(scene: Any, options: argparse.Namespace, settings: Any) -> None:
    """Raise a UserError if pictures and appearances do not fit into memory."""
    from risp_torch.files.memory import check_memory
    from risp_torch.scene.bridge.chunks import PIXEL_BYTES
    from risp_torch.scene.rendering_parameters.sheet import MIN_SIDE

    count = max(options.psi, 1) * (len(scene.cameras) if options.camera == "all" else 1)
    pixels = settings.width * settings.height
    zoom = max(-(-MIN_SIDE // min(settings.width, settings.height)), 1)
    picture_bytes = pixels * (_PIXEL_PICTURE_BYTES + 3 * zoom**2) + (
        _APPEARANCE_COPIES * _appearance_size(scene) * 8 if options.psi else 0
    )
    subject = f"{count} pictures of {settings.width} x {settings.height} pixels" if count > 1 else "a picture"
    check_memory(count * picture_bytes + pixels * settings.antialias**2 * PIXEL_BYTES, subject, "take fewer or smaller ones")


def _appearance_size(scene: Any) -> int:
    """How many numbers an appearance has, with the colours of all faces' corners."""
    import numpy as np

    surfaces = [body.surface for body in (*scene.bodies, *scene.deformables) if body.surface is not None]
    colours = sum(9 * len(surface.mesh.faces) for surface in surfaces)
    return colours + sum(np.size(scene.parameters[name].value) for name in scene.view.picture_parameters)


def _pictures(scene: Any, options: argparse.Namespace, values: dict[str, Any]) -> Any:
    """[n, H, W, C + 1] of the frame: n appearances, each by all selected cameras in turn."""
    poses = _poses(scene, options.frame)
    poses = poses.expand(max(options.psi, 1), -1, -1, -1)
    quantity = "color" if options.quantity == "alpha" else options.quantity
    pictures = scene.render(poses, values, camera=options.camera, quantity=quantity, alpha=True)
    return pictures.flatten(0, -4).cpu().numpy()


def _poses(scene: Any, frame: int) -> Any:
    """Placement of a frame [1, 1, ...] (``Scene.poses``)."""
    if frame == 0:
        return scene.start_poses(scene.table.values())[:, None]
    return scene.view.poses(scene.rollout(frames=frame))[:, -1:]


def _display_images(pictures: Any, quantity: str) -> tuple[Any, list[str]]:
    """Linear rgb [n, H, W, 3] for display, and a remark on each."""
    import numpy as np

    from risp_torch.files.film.curves import srgb_to_linear

    colors, alpha = pictures[..., :-1], pictures[..., -1:]
    remarks = [""] * len(pictures)
    if quantity == "color":
        return colors, remarks
    if quantity == "normal":
        displayed = 0.5 + 0.5 * colors
    elif quantity == "alpha":
        displayed = alpha.repeat(3, axis=-1)
    else:
        depth_ranges = [_depth_range(depth[..., 0], mask[..., 0]) for depth, mask in zip(colors, alpha, strict=True)]
        nearest, farthest = (np.array(limit).reshape(-1, 1, 1, 1) for limit in zip(*depth_ranges, strict=True))
        displayed = ((farthest - colors) / (farthest - nearest)).clip(0.0, 1.0).repeat(3, axis=-1)
        remarks = [f"\n{near:.3g} m white, {far:.3g} m black" for near, far in depth_ranges]
    return srgb_to_linear(displayed), remarks  # in the file, equal steps of the quantity are equal steps of grey


def _depth_range(depth: Any, alpha: Any) -> tuple[float, float]:
    """Depths [m] that are shown white and black: nearly all of those of the objects, or of everything without objects.

    At soft edges the depth is a mixture with that of the background, which is left out.
    """
    import numpy as np

    covered_depth = depth[alpha > 0.9] if (alpha > 0.9).any() else depth
    low, high = (float(value) for value in np.percentile(covered_depth, (2, 98)))
    return low, high if high > low else low + 1.0


def _captions(scene: Any, options: argparse.Namespace, remarks: list[str]) -> list[str]:
    names = [camera.name for camera in scene.cameras] if options.camera == "all" else [options.camera or ""]
    captions = []
    for index, remark in enumerate(remarks):
        appearance_number, name = index // len(names) + 1, names[index % len(names)]
        appearance = f"appearance {appearance_number}" if options.psi else scene.name
        captions.append(", ".join(filter(None, [appearance, name, f"frame {options.frame}"])) + remark)
    return captions


def _appearances_json(scene: Any, options: argparse.Namespace, parameters: Any, psi: Any) -> str:
    """The appearances as JSON: the rendering parameters, and values of psi."""
    import json

    values = parameters.values(psi.double())
    record = {
        "schema": 1,
        "scene": scene.name,
        "frame": options.frame,
        "seed": options.seed,
        "parameters": parameters.to_json(),
        "labels": parameters.labels,
        "psi": psi.double().tolist(),
        "values": [{name: value[i].tolist() for name, value in values.items()} for i in range(options.psi)],
    }
    return json.dumps(record, indent=1) + "\n"


def _appearances(text: str) -> int:
    """ "default" as 0, "random:N" as N, for argparse."""
    if text == "default":
        return 0
    kind, colon, count = text.partition(":")
    if kind != "random" or not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is neither default nor random:N (for example random:8)")
    return number_parser(Count)(count)
