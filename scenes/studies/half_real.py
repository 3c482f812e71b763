"""Half-real films: measured tosses of ContactNets' cube, path-traced in drawn looks, and their numbers from pixels.

``python -m scenes.studies.half_real`` needs the data set ``contactnets_cube``, the extra ``photoreal``, and the fits of
``scenes.studies.contactnets`` (``--fits``), and writes films and inversions into runs/half_real, each of them once. The motion is
the measured one, with all that the contact law lacks; lights, materials and floor of a film are unknown to the inversion, which
compares colours in the look that it solves. Starts are unknown up to what a tracker would give.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from risp_torch import Camera, Inversion, MatchedLoss, Scene, UserError, invert, load_scene, start
from risp_torch.motions import Recording, Window, held_out
from risp_torch.risp import photoreal_film, write_photoreal_frames
from ti_render.photoreal import MitsubaSettings

from ..real import contactnets_cube as cube
from .contactnets import LENGTHS, SCALE, mean_values
from .exit_status import exit_status

FRAMES = 40  # frame intervals of a film
SIZE = 96  # pixels
SAMPLES = 64  # paths of a pixel
UNKNOWN = ("ground.contact.friction", "ground.contact.damping")
STARTS = {"cube.position": 5e-3, "cube.rotation": 0.05, "cube.velocity": 0.05, "cube.angular_velocity": 0.5}  # and their sd
ROOM = 1.5  # cube sides around the path that the picture shows


def window_of(toss: Recording) -> Window:
    """The frames of a film: from a little before the first contact."""
    near = np.flatnonzero(cube.lowest_corner(toss.body_q[:, 0]) < cube.NEAR)
    first = max(1, int(near[0]) - 8) if len(near) else 1
    return Window(toss, min(first, len(toss) - FRAMES - 1), FRAMES + 1)


def film_scene(window: Window, values: dict[str, float]) -> tuple[Scene, np.ndarray]:
    """The scene of a film, and the measured poses [frames, 1, 7] in its lengths.

    Args:
        window: measured frames.
        values: numbers of the fit (``mean_values``); ``poses.scale`` among them.
    """
    scene = load_scene("real/contactnets_cube", frames=FRAMES)
    for name, value in values.items():
        scene.table.set(name, value)
    poses = window.body_q.copy()
    poses[..., :3] /= values[SCALE]
    pose, velocity = window.recording.state(window.first)
    given = np.asarray(scene.bodies[0].orientation)
    turn = cube.Rotation.from_quat(pose[0, 3:]) * cube.Rotation.from_quat(given).inv()
    scene.table.set("cube.position", poses[0, 0, :3])
    scene.table.set("cube.rotation", turn.as_rotvec())
    scene.table.set("cube.velocity", velocity[0, :3] / values[SCALE])
    scene.table.set("cube.angular_velocity", velocity[0, 3:])
    scene.use_cameras([camera_of(poses[:, 0, :3])])
    return scene, poses


def camera_of(path: np.ndarray) -> Camera:
    """A camera that sees a path [frames, 3] m from one side and above."""
    low, high = path.min(axis=0) - ROOM / 2 * cube.SIDE, path.max(axis=0) + ROOM / 2 * cube.SIDE
    middle, radius = 0.5 * (low + high), 0.5 * float(np.linalg.norm(high - low))
    eye = middle + 1.2 * np.array([0.25, -0.85, 0.45])
    fov = 2 * np.degrees(np.arcsin(min(0.9, radius / 1.2)))
    return Camera.look_at(
        eye=tuple(eye), target=tuple(middle), vertical_fov=float(fov), width=SIZE, height=SIZE, near=0.2, far=4.0
    )  # fmt: skip


def film_of(scene: Scene, poses: np.ndarray, folder: Path, *, seed: int) -> Path:
    """Path-trace the measured motion in the look of this seed; the folder of its pictures."""
    settings = MitsubaSettings(samples=SAMPLES, seed=seed)
    write_photoreal_frames(folder, photoreal_film(scene, torch.as_tensor(poses)[None].float(), options=settings), fps=scene.fps)
    return folder / "frames"


def from_pixels(scene: Scene, video: Path, out: Path) -> Inversion:
    """Friction and damping of a film in the look that it is solved for, with an unknown start."""
    middle = {name: float(scene.table[name].value) for name in UNKNOWN}
    guesses = [{name: value * factor for name, value in middle.items()} for factor in (0.5, 2.0)]
    return invert(
        scene, video, [*UNKNOWN, *STARTS], loss=MatchedLoss(), priors=dict(STARTS), starts=guesses, out=out, progress=True
    )


def study(out: Path, tosses: Sequence[Recording], fits: Path) -> str:
    """Films and inversions of these tosses; a table."""
    records = [json.loads((fits / f"viscous-{frames}.json").read_text(encoding="utf-8")) for frames in LENGTHS]
    values = mean_values(records)
    lines = ["| toss | " + " | ".join(UNKNOWN) + " | converged | residual over what noise leaves |", "|---|---|---|---|---|"]
    for seed, toss in enumerate(tosses):
        folder = out / toss.name
        scene, poses = film_scene(window_of(toss), values)
        video = film_of(scene, poses, folder / "film", seed=seed)
        found = from_pixels(scene, video, folder / "matched")
        cells = [f"{found.values[name]:.4g} ± {100 * (10 ** found.sd[name] - 1):.0f} %" for name in UNKNOWN]
        lines.append(f"| {toss.name} | " + " | ".join(cells) + f" | {found.converged} | {found.misfit:.3g} |")
    lines.append("| poses | " + " | ".join(f"{values[name]:.4g}" for name in UNKNOWN) + " | | |")
    text = "\n".join(lines)
    (out / "results.md").write_text(text + "\n", encoding="utf-8")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 2 for what is not here."""
    parser = argparse.ArgumentParser(prog="python -m scenes.studies.half_real", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/half_real"), help="folder of films and inversions")
    parser.add_argument("--fits", type=Path, default=Path("runs/contactnets"), help="folder of scenes.studies.contactnets")
    parser.add_argument("--tosses", type=int, default=3, help="number of films")
    options = parser.parse_args(arguments)

    def work() -> int:
        tosses = cube.recordings()
        unseen = set(held_out([toss.name for toss in tosses]))
        if not (options.fits / f"viscous-{LENGTHS[-1]}.json").is_file():
            raise UserError(f"{options.fits} has no fits: run python -m scenes.studies.contactnets first")
        start()
        options.out.mkdir(parents=True, exist_ok=True)
        print(study(options.out, [toss for toss in tosses if toss.name not in unseen][: options.tosses], options.fits))
        return 0

    return exit_status(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
