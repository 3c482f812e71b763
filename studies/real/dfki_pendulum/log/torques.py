"""The torques that made the film: actions from its angles, by known numbers (RISP, ICLR 2022, C.2), against those measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from risp_torch import load_scene
from risp_torch.motions import JointNoise, JointRecording, MotionFitSettings, Window, estimate_actions
from studies.real.dfki_pendulum.log.log import SWING_UP, Clock, Log, rest_zeros

MODEL = "2.0"  # whose numbers are known: the identified ones
FRAMES, STRIDE = 10, 3  # of a window; frames to the next, whose middle intervals count
SUBSTEPS = 24
FILM = JointNoise(coordinate=(0.01, 0.02), start_coordinate=(0.02, 0.04), start_rate=1.0, action=(3.0, 0.3))
ENCODERS = JointNoise(coordinate=(3e-3, 6e-3), start_coordinate=(0.02, 0.04), start_rate=1.0, action=(3.0, 0.3))


def estimated(
    dt: float, angles: np.ndarray, first: int, last: int, noise: JointNoise
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Torques of intervals between frames, from the middles of overlapping windows.

    Args:
        dt: time between frames [s].
        angles: [T, 2] rad.
        first, last: frames between which windows lie.
        noise: how well angles are known, and what torques may be.

    Returns:
        (numbers of the intervals [N]; torques [N, 2] N m; their standard deviations [N, 2]).
    """
    scene = load_scene("real/double_pendulum", frames=FRAMES, substeps=SUBSTEPS, rate=1 / dt, model=MODEL)
    recording = JointRecording("angles", ("upper", "lower"), angles, dt)
    parts = [Window(recording, k, FRAMES) for k in range(first, last - FRAMES + 2, STRIDE)]
    settings = MotionFitSettings(noise=noise, robust=float("inf"), iterations=15, tolerance=1e-3, start_step=0.05)
    found = estimate_actions(scene, parts, settings)
    middle = np.arange((FRAMES - 1 - STRIDE) // 2, (FRAMES - 1 - STRIDE) // 2 + STRIDE)
    places = np.array([part.first + middle for part in parts]).ravel()
    return places, found.actions[:, middle].reshape(-1, 2), found.sd[:, middle].reshape(-1, 2)


def torques(times: np.ndarray, angles: np.ndarray, log: Log, clock: Clock, say: Callable[[str], None]) -> dict[str, object]:
    """Torques from the film's angles, and from those of the encoders at the film's times, against the measured means.

    Returns:
        Their rms errors in per cent of the measured torques' range, in the swing-up and over all; the torques themselves.
    """
    at = clock.log_times(times)
    inside = np.flatnonzero((at > 0) & (at < log.times[-1]))
    first, last = int(inside[0]), int(inside[-1])
    known, span = log.mean_torque(at), np.ptp(log.torque, axis=0)
    dt = float((at[-1] - at[0]) / (len(at) - 1))
    result: dict[str, object] = {}
    encoders = np.nan_to_num(log.angles_at(at))
    for kind, given, noise in (("film", angles - rest_zeros(angles), FILM), ("encoders", encoders, ENCODERS)):
        places, found, sd = estimated(dt, given, first, last, noise)
        error = 100 * (found - known[places]) / span
        early = at[places] < SWING_UP
        result[kind] = {
            "intervals": len(places), "rms, swing-up [%]": _rms(error[early]), "rms, upright [%]": _rms(error[~early]),
            "rms, all [%]": _rms(error), "of no torque, swing-up [%]": _rms(100 * known[places][early] / span),
            "of no torque, all [%]": _rms(100 * known[places] / span),
            "distance in bars, swing-up": _rms((found - known[places])[early] / sd[early]),
        }  # fmt: skip
        say(f"torques from the {kind}: {result[kind]}")
        result[f"{kind}, torques"] = np.column_stack([at[places], found, known[places], sd]).tolist()
    return result


def _rms(errors: np.ndarray) -> list[float]:
    return np.sqrt(np.mean(np.square(errors), axis=0)).round(2).tolist()
