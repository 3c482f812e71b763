"""Simulate and render a scene: video, states and strip, optionally path traced with Mitsuba."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from risp_torch.commands.mitsuba_options import add_mitsuba_arguments, check_mitsuba_options, chosen_appearance, mitsuba_settings
from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_scene, number_parser
from risp_torch.files.video import Quality

if TYPE_CHECKING:
    import numpy as np

FILM_PIXEL_BYTES = 3 * (4 + 4 + 1)  # per pixel: rendered colours, colours joined to a film, and bytes of the video
CHUNK_FRAMES = 64  # frames rendered at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --out, --crf, --renderer and the options of Mitsuba."""
    add_scene_arguments(parser)
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/simulate-SCENE-TIME)")
    parser.add_argument("--crf", type=number_parser(Quality), default=18, help="quality of the H.264 video, 0 best (default 18)")
    add_mitsuba_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Write video.mp4, states.npz, strip.png, settings.json and result.json; with Mitsuba frames and masks too."""
    import torch

    check_mitsuba_options(options)
    scene = make_scene(options)
    check_film(scene)
    start_time = time.perf_counter()
    with torch.no_grad():
        return (
            film_with_mitsuba(scene, options, start_time) if options.renderer == "mitsuba" else film(scene, options, start_time)
        )


def film(scene: Any, options: argparse.Namespace, start_time: float) -> int:
    """Simulate, and render with the rasteriser."""
    import numpy as np
    from tqdm import tqdm

    from risp_torch.files.run_folder import RunFolder, default_run_path

    settings = simulation_settings(scene, options)
    folder = RunFolder.create(options.out or default_run_path("simulate", scene.name), settings)
    announce(scene)
    states = scene.rollout()
    chunks = range(0, scene.frames + 1, CHUNK_FRAMES)
    progress_bar = tqdm(chunks, desc="filming", unit_scale=CHUNK_FRAMES, disable=len(chunks) == 1)
    rendered_chunks = (scene.render(states, frames=slice(k, k + CHUNK_FRAMES))[0] for k in progress_bar)
    pictures = np.concatenate([chunk.cpu().numpy() for chunk in rendered_chunks])
    write_outcome(folder.path, scene, states, pictures, options)
    seconds = time.perf_counter() - start_time
    folder.write_result({"schema": 1, "scene": scene.name, "frames": scene.frames + 1, "seconds": seconds})
    print(f"written: {folder.path}/video.mp4, states.npz, strip.png ({seconds:.1f} s)")
    next_command = ("risp", "invert", options.scene, "--video", folder.path / "video.mp4", "--unknown", "NAME")
    print_next_steps(folder.path / "strip.png", folder.path / "video.mp4", next_command=next_command)
    return 0


def film_with_mitsuba(scene: Any, options: argparse.Namespace, start_time: float) -> int:
    """Simulate, and render with Mitsuba frame by frame; a killed run with the same settings is resumed."""
    from risp_torch.files.atomic import write_text
    from risp_torch.files.run_folder import RunFolder, default_run_path
    from risp_torch.files.video import read_video
    from risp_torch.risp.photoreal import FRAMES_FOLDER, photoreal_film, write_photoreal_frames
    from ti_render.photoreal import choose_variant

    mitsuba = mitsuba_settings(options)
    appearance = chosen_appearance(scene, options, mitsuba)
    variant = choose_variant(mitsuba.variant)
    settings = simulation_settings(scene, options) | {"description": scene.description()}
    settings["renderer"] = {"name": "mitsuba", **vars(mitsuba), "variant": variant.name, "appearance": appearance}
    folder = RunFolder.open_or_create(options.out or default_run_path("simulate", scene.name), settings)
    announce(scene)
    states = scene.rollout()
    path_traced = photoreal_film(scene, states, options=mitsuba, look=appearance, variant=variant)
    if appearance is not None:
        write_text(folder.path / "appearance.json", appearance.to_json())
    print(f"path tracing with Mitsuba's variant {variant}, {mitsuba.samples} samples a pixel, into {folder.path}")
    rendered = write_photoreal_frames(folder.path, path_traced, fps=scene.fps)
    pictures = read_video(folder.path / FRAMES_FOLDER, frames=scene.frames + 1)
    write_outcome(folder.path, scene, states, pictures, options)
    seconds = time.perf_counter() - start_time
    result = {"schema": 1, "scene": scene.name, "frames": scene.frames + 1, "seconds": seconds}
    folder.write_result(result | {"rendered": rendered, "variant": variant.name, "llvm": variant.llvm})
    print(f"written: {folder.path}/video.mp4, frames, masks, states.npz, strip.png ({rendered} frames in {seconds:.1f} s)")
    next_command = (
        "risp",
        "invert",
        options.scene,
        "--video",
        folder.path / FRAMES_FOLDER,
        "--loss",
        "matched",
        "--unknown",
        "NAME",
    )
    print_next_steps(folder.path / "strip.png", folder.path / "video.mp4", next_command=next_command)
    return 0


def announce(scene: Any) -> None:
    """Print what will be simulated."""
    steps = f"{scene.stepping.substeps} steps"
    if scene.clock is None or scene.clock.times is None:
        print(f"simulating {scene.name}: {scene.frames} frames of {scene.frame_dt:g} s, {steps} each")
        return
    first, last = scene.film_times[0], scene.film_times[-1]
    print(f"simulating {scene.name}: {scene.frames + 1} pictures from {first:g} to {last:g} s, {steps} in {scene.frame_dt:g} s")


def write_outcome(path: Path, scene: Any, states: Any, pictures: np.ndarray, options: argparse.Namespace) -> None:
    """Write video.mp4, states.npz and strip.png."""
    import numpy as np

    from risp_torch.files import report
    from risp_torch.files.atomic import atomic_replacement
    from risp_torch.files.video import write_video
    from risp_torch.scene.parts.links import joint_labels

    write_video(path / "video.mp4", pictures, fps=scene.fps, crf=options.crf)
    with atomic_replacement(path / "states.npz") as temporary, open(temporary, "wb") as file:
        label_arrays = {"body_names": [b.name for b in scene.bodies]}
        if states.joint_q is not None:
            label_arrays["joint_q_names"], label_arrays["joint_qd_names"] = joint_labels(scene.bodies)
        if scene.deformables:
            label_arrays["deformable_names"] = [deformable.name for deformable in scene.deformables]
        np.savez(
            file, time=scene.film_times, **{key: np.array(value) for key, value in label_arrays.items()},
            **{key: array[0].cpu().numpy() for key, array in states.arrays().items()},
        )  # fmt: skip
    report.write_film_strip(path / "strip.png", pictures, fps=scene.fps)


def check_film(scene: Any) -> None:
    """Raise a UserError before any work if H.264 (4:2:0) cannot encode the camera's pictures, or the film does not fit into
    memory.
    """
    from risp_torch.files.memory import check_memory
    from ti_sim.base.errors import UserError

    camera = scene.camera
    if camera is None:
        return
    if camera.width % 2 or camera.height % 2:
        raise UserError(
            f"the camera's pictures are {camera.width} x {camera.height} pixels, and H.264 video needs even sides: change --size"
        )
    subject = f"a film of {scene.frames + 1} pictures of {camera.width} x {camera.height} pixels"
    remedy = "take fewer frames (--frames) or smaller pictures (--size)"
    check_memory((scene.frames + 1) * camera.width * camera.height * FILM_PIXEL_BYTES, subject, remedy)


def simulation_settings(scene: Any, options: argparse.Namespace) -> dict[str, object]:
    """Settings that determine a simulation, for settings.json."""
    camera = scene.camera
    return {
        "scene": scene.name,
        "frames": scene.frames,
        "frame_dt": scene.frame_dt,
        "substeps": scene.stepping.substeps,
        "integrator": scene.stepping.integrator,
        "camera": options.camera,
        "size": [camera.height, camera.width] if camera else None,
        "precision": options.precision,
        "parameters": scene.description()["parameters"],
    } | ({} if scene.clock is None else {"film": scene.clock.to_json()})
