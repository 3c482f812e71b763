"""Small scenes of the tests of rendering, and the first picture of a scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from risp_torch import AmbientLight, Box, DirectionalLight, Scene, Start
from tests.reference.full_scene import CONTACT, camera, make_full_scene


def poses_of(scene: Scene, worlds: int = 1, frames: int = 1) -> torch.Tensor:
    """Poses [worlds, frames + 1, N, 7] of a short film."""
    with torch.no_grad():
        return scene.rollout(worlds=worlds, frames=frames).body_q


def plain_scene(*, size: int = 12, ground: bool = True, **options: object) -> Scene:
    """Ground, a camera and a light; the caller adds bodies."""
    scene = Scene(**({"frame_dt": 5e-3, "frames": 2, "substeps": 4, "sigma": 1e-3, "gamma": 2e-3, "name": "plain"} | options))
    if ground:
        scene.add_ground(contact=CONTACT)
    scene.add_camera(replace(camera(size), distortion=None))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.2))
    return scene


def add(scene: Scene, **options: object) -> None:
    usual = {"shape": Box(0.05, 0.04, 0.03), "density": 800.0, "start": Start(position=(0, 0, 0.03))}
    scene.add_rigid("thing", **(usual | options))


def shot(scene: Scene, **options: object) -> torch.Tensor:
    """The first frame of the first world."""
    with torch.no_grad():
        return scene.render(poses_of(scene), **options)[0, 0]


def two_cameras(size: int = 10) -> Scene:
    scene = make_full_scene(size=size, cameras=False)
    scene.add_camera(camera(size, "left", (-0.1, -0.25, 0.09)))
    scene.add_camera(replace(camera(size, "right", (0.1, -0.22, 0.1)), distortion=None))
    return scene


def textured_box(folder: Path, *, image: str = "tex.png", write: bool = True) -> Path:
    """An OBJ file of a box with uv and a material whose texture is a random PNG."""
    surface = Box(0.05, 0.04, 0.03).surface()
    lines = ["mtllib box.mtl", "usemtl skin"]
    lines += [f"v {x} {y} {z}" for x, y, z in surface.vertices]
    lines += [f"vt {u} {v}" for u, v in surface.uv.reshape(-1, 2)]
    lines += [
        "f " + " ".join(f"{vertex + 1}/{3 * f + k + 1}" for k, vertex in enumerate(face)) for f, face in enumerate(surface.faces)
    ]
    (folder / "box.obj").write_text("\n".join(lines) + "\n")
    (folder / "box.mtl").write_text(f"newmtl skin\nKd 1 1 1\nmap_Kd {image}\n")
    if write:
        pixels = np.random.default_rng(0).integers(20, 240, (6, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / image)
    return folder / "box.obj"
