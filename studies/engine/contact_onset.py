"""Bounces, and how their gradients depend on the phase of the onset: tables of contact-onset.md, implicit.md, contact-points.md.

A ball falls without gravity, touches for 30 steps and leaves with e times its speed, so that d z / d z0 = -e after the bounce,
whenever it touches. The gradients of the contact law of ``ti_sim.contact.law`` are those of a scene; beside them are the exact
derivatives of steps with the law that it averages, max(0, ke c - kd u). With implicit steps, the ball is a sheet of one triangle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch

from risp_torch import Contact, Scene, Shell, Sphere, Start, start
from risp_torch.programs import run_with_exit_status
from studies.markdown import markdown, write_into_page
from ti_sim import contact_time, damping_for_restitution, restitution
from ti_sim.meshes import SheetMesh

PAGE, IMPLICIT_PAGE, RESTITUTION_PAGE = "docs/contact-onset.md", "docs/implicit.md", "docs/contact-points.md"
MASS, STIFFNESS, SPEED, PHASES = 1.0, 1e4, 1.0, 80
DAMPING_RATIOS = (0.0, 0.09)
DT = float(contact_time(STIFFNESS, 0.0, MASS)) / 30
GAP, STEPS, IMPLICIT_STEPS = 3.5 * DT * SPEED, 45, 54  # implicit steps prolong the contact
HEIGHTS = GAP + np.arange(PHASES) / PHASES * DT * SPEED  # all phases of a step
IMPLICIT = ("backward_euler", "bdf2", "sdirk2")
RESTITUTIONS, STEPS_OF_A_BOUNCE = (0.9, 0.7, 0.5, 0.3, 0.1), (20, 50, 200, 1000)
NAMES = {"semi_implicit": "semi-implicit Euler", "rk4": "Runge-Kutta"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into the pages if asked.

    Args:
        arguments: of the command line; None for those of the process.

    Returns:
        0; 2 for wrong input.
    """
    parser = argparse.ArgumentParser(prog="python -m studies.engine.contact_onset", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the tables into these pages of docs, too")
    options = parser.parse_args(arguments)

    def work() -> int:
        start(precision="f64")
        for page, made in ((PAGE, table), (IMPLICIT_PAGE, implicit_table), (RESTITUTION_PAGE, restitution_table)):
            text = made() + "\n"
            if options.page:
                write_into_page(page, "studies.engine.contact_onset", text)
            print(text)
        return 0

    return run_with_exit_status(parser.prog, work)


def table() -> str:
    """Ranges of d z / (-e d z0) over the phases, in Markdown."""
    rows = []
    for integrator, name in NAMES.items():
        for ratio in DAMPING_RATIOS:
            kd = 2 * ratio * float(np.sqrt(STIFFNESS * MASS))
            e = float(restitution(STIFFNESS, kd, MASS))
            slopes = (usual_slopes(kd, integrator), scene_slopes(kd, integrator))
            rows.append([name, f"{ratio:g}", *(f"{(-s / e).min():.4f} to {(-s / e).max():.4f}" for s in slopes)])
    return markdown(["steps of", "damping ratio", "usual law", "mean over the path"], rows)


def implicit_table() -> str:
    """Speeds after the bounce, and ranges of d z / d z0 over minus that speed, over the phases with implicit steps, in Markdown.

    Integrators damp the bounce themselves, so that the slope is compared with the speed that their steps return.
    """
    rows = []
    for integrator, gap in (*((name, GAP) for name in IMPLICIT), ("bdf2", 0.0)):
        for ratio in DAMPING_RATIOS:
            slopes, speeds = implicit_slopes(2 * ratio * float(np.sqrt(STIFFNESS * MASS)), integrator, gap)
            ratios = -slopes / (speeds / SPEED)
            name = f"`{integrator}`" if gap else f"`{integrator}`, from the first step on"
            rows.append([name, f"{ratio:g}", f"{speeds.mean():.3f}", f"{ratios.min():.4f} to {ratios.max():.4f}"])
    return markdown(["steps of", "damping ratio", "speed after / before", "slope / expected slope"], rows)


def restitution_table() -> str:
    """Speed after an impact over the speed before it, by the closed form and by steps of fractions of an undamped impact."""
    stiffness, mass, rows = 1e5, 0.4, []
    duration = float(contact_time(stiffness, 0.0, mass))
    for e in RESTITUTIONS:
        kd = float(damping_for_restitution(stiffness, e, mass))
        ratio, time = kd / (2 * np.sqrt(stiffness * mass)), 1e3 * float(contact_time(stiffness, kd, mass))
        speeds = [speed_after_impact(stiffness, kd, mass, duration / steps) for steps in STEPS_OF_A_BOUNCE]
        rows.append([f"{e:g}", f"{ratio:.3f}", f"{kd:.1f}", f"{time:.2f}", *(f"{speed:.3f}" for speed in speeds)])
    return markdown(["e", "z", "kd [N s/m]", "contact [ms]", *(f"1/{steps}" for steps in STEPS_OF_A_BOUNCE)], rows)


def speed_after_impact(stiffness: float, kd: float, mass: float, dt: float) -> float:
    """Speed [m/s] of a ball after it met the ground at 1 m/s without gravity, in steps of ``dt`` [s]."""
    steps = round(1.2 * float(contact_time(stiffness, 0.0, mass)) / dt) + 5
    scene = Scene(frame_dt=steps * dt, frames=1, substeps=steps, gravity=(0, 0, 0))
    scene.add_ground(contact=Contact(stiffness=stiffness, damping=kd, friction=0.0, friction_stiffness=0.0))
    falling = Start(position=(0, 0, 0.05 + 2.5 * dt), velocity=(0, 0, -1.0))
    scene.add_rigid("ball", shape=Sphere(0.05), mass=mass, start=falling)
    with torch.no_grad():
        return float(scene.rollout().body_qd[0, -1, 0, 2])


def implicit_slopes(kd: float, integrator: str, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """d z / d z0 and speed after the bounce of a flat sheet of one triangle, at every second phase [PHASES / 2].

    Args:
        kd: contact damping [N s/m].
        integrator: of the scene.
        gap: least height of the sheet at the start [m].
    """
    scene = Scene(frame_dt=IMPLICIT_STEPS * DT, frames=1, substeps=IMPLICIT_STEPS, gravity=(0, 0, 0), integrator=integrator)
    scene.add_ground(contact=Contact(stiffness=STIFFNESS, damping=kd, friction=0.0, friction_stiffness=0.0))
    mesh = SheetMesh(np.array([(0.0, 0, 0), (1, 0, 0), (0, 1, 0)]), np.array([(0, 1, 2)]))
    velocity = (0, 0, -SPEED)
    scene.add_cloth("sheet", mesh=mesh, material=Shell(mu=1.0, lam=1.0), mass=MASS, start=Start(velocity=velocity))
    heights = torch.from_numpy(HEIGHTS[::2] - GAP + gap)
    position = torch.stack((torch.zeros_like(heights), torch.zeros_like(heights), heights), dim=1)
    position.requires_grad_()
    states = scene.rollout({"sheet.position": position})
    states.particle_q[:, -1, :, 2].mean(1).sum().backward()
    return position.grad[:, 2].numpy(), states.particle_qd[:, -1, :, 2].mean(1).detach().numpy()


def scene_slopes(kd: float, integrator: str) -> np.ndarray:
    """d z / d z0 [PHASES] of a ball of a scene, whose contact has the damping kd [N s/m]."""
    radius = 0.05
    scene = Scene(frame_dt=STEPS * DT, frames=1, substeps=STEPS, gravity=(0, 0, 0), integrator=integrator)
    scene.add_ground(contact=Contact(stiffness=STIFFNESS, damping=kd, friction=0.0, friction_stiffness=0.0))
    scene.add_rigid("ball", shape=Sphere(radius), mass=MASS, start=Start(velocity=(0, 0, -SPEED)))
    position = torch.zeros(PHASES, 3, dtype=torch.float64)
    position[:, 2] = torch.from_numpy(HEIGHTS + radius)
    position.requires_grad_()
    scene.rollout({"ball.position": position}).body_q[:, -1, 0, 2].sum().backward()
    return position.grad[:, 2].numpy()


def usual_slopes(kd: float, integrator: str) -> np.ndarray:
    """d z / d z0 [PHASES] with the force max(0, ke c - kd u), where c > 0, evaluated once in a step (four times by "rk4")."""

    def rates(state: np.ndarray) -> np.ndarray:
        """Of height and velocity, and of their derivatives by the first height [4, PHASES]."""
        z, u, z_slope, u_slope = state
        force = -STIFFNESS * z - kd * u
        pushes = (z < 0) & (force > 0)
        slope = -STIFFNESS * z_slope - kd * u_slope
        return np.stack([u, np.where(pushes, force, 0.0) / MASS, u_slope, np.where(pushes, slope, 0.0) / MASS])

    state = np.stack([HEIGHTS, np.full(PHASES, -SPEED), np.ones(PHASES), np.zeros(PHASES)])
    for _ in range(STEPS):
        if integrator == "rk4":
            k1 = rates(state)
            k2 = rates(state + 0.5 * DT * k1)
            k3 = rates(state + 0.5 * DT * k2)
            state = state + DT / 6 * (k1 + 2 * k2 + 2 * k3 + rates(state + DT * k3))
        else:
            state[1::2] += DT * rates(state)[1::2]
            state[::2] += DT * state[1::2]
    return state[2]


if __name__ == "__main__":
    sys.exit(main())
