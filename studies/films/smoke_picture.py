"""Smoke that forms a picture: the flow at the start is optimised until smoke shows it after some steps (gradSim, appendix C.4).

At the start smoke fills the lower third of the box, and nothing moves it but the flow. The picture is a ring, or a PNG whose
white becomes smoke; it has as much smoke as there is. Repeat a killed command to resume it from its last iteration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from tqdm import tqdm

from risp_torch import Camera, Scene, UserError, start, write_video
from risp_torch.files.report import plot_losses, write_strip
from risp_torch.programs import number_parser, run_with_exit_status
from ti_sim import Count, Positive

MIN_CELLS = 8  # cells
SCALES = (1, 2, 4, 8)  # pixels along each side of the blocks that are compared: coarse ones attract from afar
FIELDS = ("smoke.velocity_x", "smoke.velocity_y")


def main(arguments: Sequence[str] | None = None) -> int:
    """Optimise the flow: 0 where the last loss is below a fifth of the first one, 1 if not, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m studies.films.smoke_picture", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="white becomes smoke (default: a ring)")
    parser.add_argument("--cells", type=number_parser(Count), default=64, help="along each side (default 64)")
    parser.add_argument("--steps", type=number_parser(Count), default=40, help="until the smoke shows the picture (default 40)")
    parser.add_argument("--iterations", type=number_parser(Count), default=150, help="of Adam (default 150)")
    parser.add_argument("--rate", type=number_parser(Positive), default=0.05, help="of Adam [m/s] (default 0.05)")
    parser.add_argument("--out", type=Path, default=Path("runs/smoke_picture"), help="folder (default runs/smoke_picture)")
    options = parser.parse_args(arguments)
    return run_with_exit_status(parser.prog, lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Optimise, and write a strip, a video, the losses and the flow."""
    if options.cells < MIN_CELLS:
        raise UserError(f"--cells is {options.cells}: give {MIN_CELLS} or more, so that blocks of {max(SCALES)} pixels fit")
    start(precision="f32")
    scene = smoke_scene(options.cells, options.steps)
    target_density = wanted_density(options.picture, options.cells, float(scene.parameters["smoke.density"].value.sum()))
    with torch.no_grad():
        target = scene.render(torch.as_tensor(target_density, dtype=torch.float32)[None, None])[0, 0]
    options.out.mkdir(parents=True, exist_ok=True)
    losses, flow = optimised(scene, target, options.out / "state.npz", iterations=options.iterations, rate=options.rate)
    with torch.no_grad():
        frames = scene.render(scene.rollout(flow, worlds=1))[0]
    write_strip(options.out / "strip.png", target.expand_as(frames), frames, fps=scene.fps)
    write_video(options.out / "video.mp4", torch.cat([frames, target.expand_as(frames)], dim=2), fps=scene.fps)
    plot_losses(options.out / "loss.png", torch.tensor(losses)[:, None], ["flow"])
    error = float((frames[-1] - target).square().mean().sqrt())
    print(f"loss {losses[0]:.4g} -> {losses[-1]:.4g}; rms of the last picture's pixels {error:.3f}; written: {options.out}")
    return 0 if losses[-1] < 0.2 * losses[0] else 1


def smoke_scene(cells: int, steps: int) -> Scene:
    """A box of one metre whose lower third is smoke, at rest, for so many steps of 1/30 s."""
    scene = Scene(frame_dt=1 / 30, frames=steps, substeps=1, name="smoke_picture")
    density = np.zeros((cells, cells))
    density[:, : max(1, cells // 3)] = 1.0
    scene.add_smoke("smoke", cells=(cells, cells), cell=1 / cells, density=density)
    scene.set_background(color=(0.05, 0.06, 0.08))
    scene.add_camera(
        Camera.look_at(
            eye=(0.5, 0.5, 2.0), target=(0.5, 0.5, 0.0), up=(0.0, 1.0, 0.0), vertical_fov=28.0, width=2 * cells,
            height=2 * cells, near=0.1, far=5.0,
        )
    )  # fmt: skip
    return scene


def wanted_density(picture: Path | None, cells: int, total: float) -> np.ndarray:
    """Density [X, Y] of a picture, in [0, 1] before it is scaled to a sum of ``total``; a ring without a picture.

    Raises:
        UserError: the picture is missing, unreadable or black.
    """
    if picture is None:
        middles = (np.arange(cells) + 0.5) / cells - 0.5
        away = np.hypot(middles[:, None], middles[None])
        density = ((away > 0.2) & (away < 0.38)).astype(float)
    else:
        from PIL import Image

        try:
            with Image.open(picture) as image:
                rows = np.asarray(image.convert("L").resize((cells, cells)), dtype=float) / 255
        except OSError as error:
            raise UserError(f"{picture} is no picture that can be read ({error}): give a PNG") from None
        density = rows[::-1].T.copy()
    if density.sum() <= 0:
        raise UserError(f"{picture} is black: what is white becomes smoke, so draw something in white")
    return density * total / density.sum()


def picture_loss(pictures: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared difference of pictures [H, W, 3], and of their means over blocks of ``SCALES`` pixels."""
    difference = (pictures - target).movedim(-1, 0)[None]
    return sum(torch.nn.functional.avg_pool2d(difference, scale).square().mean() for scale in SCALES) / len(SCALES)


def optimised(
    scene: Scene, target: torch.Tensor, state: Path, *, iterations: int, rate: float
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of every iteration, and the flow of the lowest one, by Adam; what ``state`` holds of an earlier call is kept."""
    flow = {name: torch.as_tensor(scene.parameters[name].value, dtype=torch.float32)[None].clone() for name in FIELDS}
    adam = torch.optim.Adam([field.requires_grad_() for field in flow.values()], lr=rate)
    task = np.array([scene.frames, rate, *target.double().mean(dim=(1, 2)).tolist()])  # what an earlier call has to agree with
    losses, best = [], {name: field.detach().clone() for name, field in flow.items()}
    if state.is_file():
        losses, best = resumed(state, task, flow, adam)
    for _ in tqdm(range(len(losses), iterations), initial=len(losses), total=iterations, desc="smoke"):
        adam.zero_grad()
        states = scene.rollout(flow, worlds=1)
        loss = picture_loss(scene.render(states, frames=[scene.frames])[0, 0], target)
        loss.backward()
        if not losses or float(loss.detach()) < min(losses):
            best = {name: field.detach().clone() for name, field in flow.items()}
        losses.append(float(loss.detach()))
        adam.step()
        kept(state, task, flow, best, adam, losses)
    return losses, best


def kept(
    state: Path, task: np.ndarray, flow: dict[str, torch.Tensor], best: dict[str, torch.Tensor], adam: Any, losses: list[float]
) -> None:
    """Write all of a search to a file, which is there as a whole or not at all."""
    arrays = {"losses": np.array(losses), "task": task}
    for name, field in flow.items():
        own = adam.state[field]
        arrays |= {
            f"{name} now": field.detach().numpy(), f"{name} best": best[name].numpy(), f"{name} mean": own["exp_avg"].numpy(),
            f"{name} square": own["exp_avg_sq"].numpy(), f"{name} step": own["step"].numpy(),
        }  # fmt: skip
    part = state.with_name("part.npz")
    np.savez(part, **arrays)
    part.replace(state)


def resumed(
    state: Path, task: np.ndarray, flow: dict[str, torch.Tensor], adam: Any
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and the best flow of an earlier call, whose flow and averages are put back.

    Raises:
        UserError: the file is damaged, or of another task.
    """
    try:
        with np.load(state, allow_pickle=False) as file:
            arrays = {key: torch.as_tensor(file[key]) for key in file.files}
        if arrays["task"].shape != task.shape or not np.allclose(arrays["task"].numpy(), task, atol=1e-6):
            raise UserError(f"{state} is of another picture, grid, number of steps or rate: give another --out")
        for name, field in flow.items():
            with torch.no_grad():
                field.copy_(arrays[f"{name} now"])
            adam.state[field] = {
                "step": arrays[f"{name} step"], "exp_avg": arrays[f"{name} mean"], "exp_avg_sq": arrays[f"{name} square"]
            }
        return arrays["losses"].tolist(), {name: arrays[f"{name} best"] for name in flow}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(f"{state} is damaged ({error}): remove it to begin again") from None


if __name__ == "__main__":
    sys.exit(main())
