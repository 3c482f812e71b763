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
    action_windows = [Window(recording, k, FRAMES) for k in range(first, last - FRAMES + 2, STRIDE)]
    settings = MotionFitSettings(noise=noise, robust_scale=float("inf"), iterations=15, tolerance=1e-3, start_step=0.05)
    estimate = estimate_actions(scene, action_windows, settings)
    middle = np.arange((FRAMES - 1 - STRIDE) // 2, (FRAMES - 1 - STRIDE) // 2 + STRIDE)
    places = np.array([window.first + middle for window in action_windows]).ravel()
    return places, estimate.actions[:, middle].reshape(-1, 2), estimate.sd[:, middle].reshape(-1, 2)


def torques(times: np.ndarray, angles: np.ndarray, log: Log, clock: Clock, say: Callable[[str], None]) -> dict[str, object]:
    """Torques from the film's angles, and from those of the encoders at the film's times, against the measured means.

    Returns:
        Their rms errors in per cent of the measured torques' range, in the swing-up and over all; the torques themselves.
    """
    log_times = clock.log_times(times)
    inside = np.flatnonzero((log_times > 0) & (log_times < log.times[-1]))
    first, last = int(inside[0]), int(inside[-1])
    measured, span = log.mean_torque(log_times), np.ptp(log.torque, axis=0)
    dt = float((log_times[-1] - log_times[0]) / (len(log_times) - 1))
    result: dict[str, object] = {}
    encoders = np.nan_to_num(log.angles_at(log_times))
    for kind, joint_angles, noise in (("film", angles - rest_zeros(angles), FILM), ("encoders", encoders, ENCODERS)):
        places, estimate, sd = estimated(dt, joint_angles, first, last, noise)
        error = 100 * (estimate - measured[places]) / span
        early = log_times[places] < SWING_UP
        result[kind] = {
            "intervals": len(places), "rms, swing-up [%]": _rms(error[early]), "rms, upright [%]": _rms(error[~early]),
            "rms, all [%]": _rms(error), "of no torque, swing-up [%]": _rms(100 * measured[places][early] / span),
            "of no torque, all [%]": _rms(100 * measured[places] / span),
            "distance in bars, swing-up": _rms((estimate - measured[places])[early] / sd[early]),
        }  # fmt: skip
        say(f"torques from the {kind}: {result[kind]}")
        result[f"{kind}, torques"] = np.column_stack([log_times[places], estimate, measured[places], sd]).tolist()
    return result


def _rms(errors: np.ndarray) -> list[float]:
    return np.sqrt(np.mean(np.square(errors), axis=0)).round(2).tolist()
