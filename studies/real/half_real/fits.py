"""Numbers of the contact from the poses of several films, and from the measured poses of the same frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from risp_torch import load_scene
from risp_torch.motions import MotionFitSettings, PoseNoise, Recording, Window, fit_motions, windows
from scenes.real import contactnets_cube as cube
from studies.real.contactnets import DERIVED, MIN_MOTION, SCALE, UNKNOWN
from studies.real.contactnets import SETTINGS as OF_MEASURED

# A film's metre is that of its cameras, which is the scene's: there is no scale of the poses.
NUMBERS = tuple(name for name in UNKNOWN if name != SCALE)
TOLD = ("friction", "side", "inertia / (mass side²)", "corner radius", "stiffness / mass", "damping / mass")
FILM_NOISE = 2.5e-4  # m, of a tracked coordinate: what single frames scatter by (``TrackedPoses.scatter``), turns at 9 cm
OF_FILMS = MotionFitSettings(
    noise=PoseNoise(coordinate=FILM_NOISE, start_position=5e-4, start_rotation=5e-3, start_velocity=0.1, start_spin=1.0),
    robust_scale=OF_MEASURED.robust_scale,
    iterations=OF_MEASURED.iterations,
    first_guesses=OF_MEASURED.first_guesses,
    shortest_window=OF_MEASURED.shortest_window,
)


def fit(recordings: Sequence[Recording], frames: int, *, measured: bool) -> dict[str, Any]:
    """Estimates from windows of this length, with the derived numbers and their bars.

    Args:
        recordings: poses of the films' frames.
        frames: of a window.
        measured: whether they are the measured ones, which have no noise of films.
    """
    scene = load_scene("real/contactnets_cube")
    fit_windows = windows(recordings, frames=frames, stride=frames - 1, least_motion=MIN_MOTION)
    fit_windows = [with_noise(window, 0.0 if measured else FILM_NOISE) for window in fit_windows]
    motion_fit = fit_motions(scene, fit_windows, NUMBERS, OF_MEASURED if measured else OF_FILMS, progress=True)
    derived = {name: vars(motion_fit.derived(DERIVED[name][1])) for name in TOLD}
    return motion_fit.to_json() | {"derived": derived, "windows": len(fit_windows)}


def with_noise(window: Window, film: float) -> Window:
    """A window of poses in the scene's lengths with the noise of the study of all tosses, which knows when contact begins, and
    that of a film [m]."""
    recording = window.recording
    smaller = recording.body_q.copy()
    smaller[..., :3] *= cube.MEASURED_SIDE / cube.SIDE  # the rule of contact knows the cube in measured lengths
    noise = cube.with_contact_noise(replace(window, recording=replace(recording, body_q=smaller))).noise
    return replace(window, noise=np.hypot(noise, film))
