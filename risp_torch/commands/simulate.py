"""Simulate and film a scene: a video, the states, a strip."""

from __future__ import annotations

import argparse
import time

from risp_torch.commands.options import add_scene_arguments, make_scene, quality

CHUNK = 64  # frames rendered at once: a long film needs no more memory than a short one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --set, --out, --crf."""
    add_scene_arguments(parser)
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/simulate-SCENE-TIME)")
    parser.add_argument("--crf", type=quality, default=18, help="quality of the H.264 video, 0 best (default 18)")


def run(options: argparse.Namespace) -> int:
    """Write video.mp4, states.npz, strip.png, settings.json and result.json."""
    import numpy as np
    import torch
    from tqdm import tqdm

    from risp_torch import report
    from risp_torch.atomic import replacing
    from risp_torch.run_folder import RunFolder, default_run_path
    from risp_torch.video import write_video

    scene = make_scene(options)
    check_video_size(scene)
    folder = RunFolder.create(options.out or default_run_path("simulate", scene.name), simulation_settings(scene, options))
    began = time.perf_counter()
    print(f"simulating {scene.name}: {scene.frames} frames of {scene.frame_dt:g} s, {scene.settings.substeps} steps each")
    with torch.no_grad():
        states = scene.rollout()
        chunks = range(0, scene.frames + 1, CHUNK)
        bar = tqdm(chunks, desc="filming", unit_scale=CHUNK, disable=len(chunks) == 1)
        pictures = np.concatenate([scene.render(states, frames=slice(k, k + CHUNK))[0].cpu().numpy() for k in bar])
    write_video(folder.path / "video.mp4", pictures, fps=1 / scene.frame_dt, crf=options.crf)
    with replacing(folder.path / "states.npz") as temporary, open(temporary, "wb") as file:
        np.savez(
            file, time=np.arange(scene.frames + 1) * scene.frame_dt, body_q=states.body_q[0].cpu().numpy(),
            body_qd=states.body_qd[0].cpu().numpy(), body_names=np.array([b.name for b in scene.bodies]),
        )  # fmt: skip
    report.write_film_strip(folder.path / "strip.png", pictures, fps=1 / scene.frame_dt)
    seconds = time.perf_counter() - began
    folder.write_result({"schema": 1, "scene": scene.name, "frames": scene.frames + 1, "seconds": seconds})
    print(f"written: {folder.path}/video.mp4, states.npz, strip.png ({seconds:.1f} s)")
    return 0


def check_video_size(scene: object) -> None:
    """Raise a UserError before any work where H.264 (4:2:0) could not hold the scene's pictures."""
    from ti_sim.base.errors import UserError

    camera = scene.camera
    if camera is not None and (camera.width % 2 or camera.height % 2):
        raise UserError(
            f"the camera's pictures are {camera.width} x {camera.height} pixels, and H.264 video needs even sides: change --size"
        )


def simulation_settings(scene: object, options: argparse.Namespace) -> dict[str, object]:
    """What decides a simulation's outcome, for settings.json."""
    import numpy as np

    return {
        "scene": scene.name,
        "frames": scene.frames,
        "frame_dt": scene.frame_dt,
        "substeps": scene.settings.substeps,
        "integrator": scene.settings.integrator,
        "size": [scene.camera.height, scene.camera.width] if scene.camera else None,
        "precision": options.precision,
        "parameters": {name: np.asarray(param.value).tolist() for name, param in scene.parameters.items()},
    }
