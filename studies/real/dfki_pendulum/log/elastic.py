"""Elastic joints: what the balanced part shows beside rigid ones.

Between the encoder, at the motor, and the link there is a spring: each joint is two, of a light link that the motor drives, with
the rotor's inertia at the joint, and of the arm that a spring holds to it. The spring's deflection is not measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from risp_torch import LinkFrame, Param, Revolute, Scene, Sphere
from risp_torch.motions import (
    JointNoise,
    JointRecording,
    MotionFit,
    MotionFitSettings,
    Window,
    at_bounds,
    fit_motions,
    predict_joints,
    split_windows,
    whole_recordings,
)  # fmt: skip
from scenes.real import double_pendulum as pendulum
from studies.real.dfki_pendulum.log.driven import logged
from studies.real.dfki_pendulum.log.log import RATE, Log
from studies.real.dfki_pendulum.log.numbers import GIVEN

PART = (5.0, 10.0)  # s of the log
FRAMES = 40  # of a window: 0.1 s, some one and a half periods of the torque
LINKS = ("upper_rotor", "upper", "lower_rotor", "lower")
SUBSTEPS = 16
NOISE = 2e-3  # rad
DEFLECTION = 0.02  # rad, standard deviation at the start of a window
NOTHING = 10.0  # rad: the noise of what is not measured
SETTINGS = MotionFitSettings(
    noise=JointNoise(
        coordinate=(NOISE, NOTHING, NOISE, NOTHING), start_coordinate=(NOISE, DEFLECTION, NOISE, DEFLECTION), start_rate=0.5
    ),
    robust_scale=5.0,
    iterations=30,
    first_guesses=1,
    shortest_window=None,
)
RIGID = 1e4  # N m/rad
ROTORS = tuple(f"{link}_rotor.{key}" for link in ("upper", "lower") for key in ("armature", "damping", "dry_friction"))
UNKNOWN = (
    *ROTORS,
    *(f"{link}.{key}" for link in ("upper", "lower") for key in ("mass", "inertia[1][1]", "stiffness", "damping")),
)


def elastic_scene(stiffness: float) -> Scene:
    """The double pendulum with a spring [N m/rad] between motor and link in both joints, and nothing to look at."""
    scene = Scene(frame_dt=1 / RATE, frames=FRAMES, substeps=SUBSTEPS, name="elastic_double_pendulum")
    published = pendulum.MODELS[GIVEN]
    for k, (name, length) in enumerate((("upper", pendulum.UPPER_LENGTH), ("lower", pendulum.LOWER_LENGTH))):
        mass, offset = published["m"][k], published["r"][k]
        scene.add_link(
            f"{name}_rotor", frame=LinkFrame(parent="upper" if k else None, at_tip=k > 0, center=(0.0, 0.0, 0.0)),
            shape=Sphere(radius=0.004, subdivisions=1), mass=pendulum.SHAPE_MASS, inertia=1e-7 * np.eye(3),
            joint=Revolute(
                axis=pendulum.AXIS, angle=Param(0.0, low=-10.0, high=10.0), rate=Param(0.0, low=-25.0, high=25.0),
                damping=Param(0.01, low=0.0, high=0.15),
                armature=Param(pendulum.GEAR_RATIO**2 * published["Ir"], low=1e-4, high=0.02),
                dry_friction=Param(0.1, low=0.0, high=0.4), dry_stiffness=pendulum.DRY_STIFFNESS,
                dry_damping=pendulum.DRY_DAMPING,
            ),
        )  # fmt: skip
        scene.add_link(
            name, frame=LinkFrame(parent=f"{name}_rotor", center=(0.0, 0.0, -offset), length=length, share=0.0),
            shape=Sphere(radius=0.004, subdivisions=1), mass=Param(mass, low=0.3, high=0.9),
            inertia=Param((published["I"][k] - mass * offset**2) * np.eye(3), low=0.0, high=0.05),
            joint=Revolute(
                axis=pendulum.AXIS, stiffness=Param(stiffness, low=50.0, high=2 * RIGID, scale="log10"),
                damping=Param(0.3, low=0.0, high=20.0),
            ),
        )  # fmt: skip
    scene.add_motors("motors", joints=["upper_rotor", "lower_rotor"], actions=np.zeros((FRAMES, 2)), limit=10.0)
    return scene


def elastic_windows(log: Log) -> list[Window]:
    """Windows of the balanced part; what stands for the deflections, which are not measured, is zero."""
    result = []
    motion = logged(log, *PART)
    for k, window in enumerate(split_windows(whole_recordings([motion], first=0), (len(motion) - 1) // FRAMES)):
        encoders = motion.joint_q[window.first : window.first + window.frames]
        joint_q = np.zeros((window.frames, len(LINKS)))
        joint_q[:, [0, 2]] = encoders
        actions = motion.actions[window.first : window.first + window.frames - 1]
        result.append(Window(JointRecording(f"{motion.name}, {k + 1}", LINKS, joint_q, motion.dt, actions), 0, window.frames))
    return result


def elastic(log: Log, say: Callable[[str], None]) -> dict[str, object]:
    """Stiffness of the joints and inertia of the rotors, and what is left of the balanced part with elastic and rigid joints."""
    log_windows, result = elastic_windows(log), {}
    rigid = [name for name in UNKNOWN if not name.endswith("stiffness")]
    for kind, stiffness, unknown in (("elastic", 700.0, list(UNKNOWN)), ("rigid", RIGID, rigid)):
        scene = elastic_scene(stiffness)
        fit = fit_motions(scene, log_windows, unknown, SETTINGS)
        say(f"{kind} joints, upright: " + "; ".join(fit.lines()))
        result[kind] = {"rms [deg]": left_of_encoders(scene, log_windows, fit), "cost": fit.cost, "converged": fit.converged}
        if kind == "elastic":
            for name in ("upper.stiffness", "lower.stiffness", "upper_rotor.armature", "lower_rotor.armature"):
                value = fit.derived(lambda values, name=name: values[name])
                result[name] = [value.value, value.sd]
            result["at bounds"] = at_bounds(fit)
    return result


def left_of_encoders(scene: Scene, log_windows: list[Window], fit: MotionFit) -> list[float]:
    """Median over the windows of the root mean square [degrees] that a fit leaves of both encoders."""
    prediction = predict_joints(scene, log_windows, fit.values, starts=fit.starts)
    measured = np.array([window.recording.joint_q for window in log_windows])
    errors = np.degrees(prediction - measured)[:, :, [0, 2]]
    return np.median(np.sqrt(np.mean(errors**2, axis=1)), axis=0).tolist()
