"""Measured motions: the gradient of a state loss over a batch of tosses, and a Gauss-Newton step of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.table import Table, format_number
from benchmarks.timing import best_times
from risp_torch import Scene, load_scene
from risp_torch.motions import MotionFitSettings, PoseNoise, Recording, Window, fit_motions, whole_recordings
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device

TITLE = "Measured motions"

FRAMES = 100
CONTACT_PARAMETERS = ("stiffness", "damping", "friction_stiffness", "friction", "radius")
GRADIENT_TARGET = 1.0  # s, a gradient of 64 tosses
SUBSTEPS = 40


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer tosses and repeats.
    """
    yield gradient_table((64,) if quick else (64, 512), repeats=2 if quick else 7)
    yield fit_table((8,) if quick else (64,))


def gradient_table(counts: tuple[int, ...], *, repeats: int) -> Table:
    """Gradients of the mean squared difference from given poses with respect to all contact parameters."""
    table = Table(
        f"State loss of the tossed cube over {FRAMES} frames at 148 Hz, {SUBSTEPS} steps a frame, all contact parameters",
        (
            "tosses",
            "friction",
            "steps",
            "forward [s]",
            "with gradient [s]",
            "gradient / forward",
            f"{GRADIENT_TARGET:g} s / gradient",
        ),
    )
    for count in counts:
        for kind, bristle_stiffness in (("viscous", 0.0), ("bristles", 3000.0)):
            scene = load_scene("real/contactnets_cube", frames=FRAMES, substeps=SUBSTEPS, bristle_stiffness=bristle_stiffness)
            starts, names = random_starts(scene, count), [f"ground.contact.{name}" for name in CONTACT_PARAMETERS]
            names += ["ground.contact.bristle_stiffness"] if bristle_stiffness else []
            with torch.no_grad():
                measured_poses = scene.rollout(starts).body_q + 1e-3

            def forward(scene: Scene = scene, starts: dict = starts) -> None:
                with torch.no_grad():
                    scene.rollout(starts)

            def gradient(
                scene: Scene = scene, starts: dict = starts, names: list = names, measured_poses: torch.Tensor = measured_poses
            ) -> None:
                values = {name: leaf_tensor(scene.table[name].value) for name in names}
                ((scene.rollout(starts | values).body_q - measured_poses) ** 2).mean().backward()
                assert all(float(value.grad.abs()) > 0 for value in values.values())

            best_seconds = best_times({"forward": forward, "gradient": gradient}, repeats=repeats)
            table.add(
                count, kind, f"{count * FRAMES * SUBSTEPS:,}", format_number(best_seconds["forward"]),
                format_number(best_seconds["gradient"]),
                format_number(best_seconds["gradient"] / best_seconds["forward"]),
                format_number(GRADIENT_TARGET / best_seconds["gradient"]),
            )  # fmt: skip
    return table


def fit_table(counts: tuple[int, ...]) -> Table:
    """Gauss-Newton steps of a fit that also estimates the start of every toss."""
    table = Table(
        "One Gauss-Newton step of a fit: five contact parameters and twelve numbers of each start",
        ("tosses", "simulations", "step [s]"),
    )
    for count in counts:
        scene = load_scene("real/contactnets_cube", frames=FRAMES, substeps=SUBSTEPS)
        with torch.no_grad():
            poses = scene.rollout(random_starts(scene, count)).body_q.double().cpu().numpy()
        poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
        windows = whole_recordings([Recording(f"toss_{k}", rows, scene.frame_dt) for k, rows in enumerate(poses)])
        scene.table.set("ground.contact.friction", 0.25)
        best_seconds = best_times({steps: partial(fit_steps, scene, windows, steps) for steps in (1, 3)}, repeats=2)
        table.add(
            count, f"{count * 2 * (len(CONTACT_PARAMETERS) + 12):,}", format_number((best_seconds[3] - best_seconds[1]) / 2)
        )
    return table


def fit_steps(scene: Scene, windows: list[Window], steps: int) -> None:
    """Take ``steps`` Gauss-Newton steps from the scene's values."""
    settings = MotionFitSettings(
        noise=PoseNoise(coordinate=1e-3, start_position=5e-4, start_rotation=5e-3, start_velocity=0.1, start_spin=1.0),
        robust_scale=float("inf"),
        iterations=steps,
        tolerance=1e-12,
        first_guesses=1,
        shortest_window=None,
    )  # fmt: skip
    fit_motions(scene, windows, [f"ground.contact.{name}" for name in CONTACT_PARAMETERS], settings)


def random_starts(scene: Scene, count: int) -> dict[str, torch.Tensor]:
    """Random initial states of tosses, distributed like those of the data set."""
    rng = np.random.default_rng(0)
    starts = {
        "cube.position": np.array([0.0, 0.0, 0.16]) + 0.02 * rng.standard_normal((count, 3)),
        "cube.rotation": rng.standard_normal((count, 3)), "cube.velocity": rng.uniform(-1, 1, (count, 3)) * (1, 1, 0.4),
        "cube.angular_velocity": 4.0 * rng.standard_normal((count, 3)),
    }  # fmt: skip
    return {name: torch.as_tensor(rows, dtype=bridge_dtype(), device=bridge_device()) for name, rows in starts.items()}


def leaf_tensor(value: float) -> torch.Tensor:
    """A number to differentiate with respect to."""
    return torch.tensor(value, dtype=bridge_dtype(), device=bridge_device(), requires_grad=True)
