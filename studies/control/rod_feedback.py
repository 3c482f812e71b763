"""A rod that a network holds at a height by what it sees: pictures in, a force out, forty times in a film.

RISP's network reads the heights of ten sensors from the rendered picture; a small policy turns them into the force on the rod's
middle until the next look. The policy learns from the picture of the rod at rest at the wanted height, through physics, pictures
and the reading network. Then rods that are softer and stiffer than the one it learnt on show what the looks are good for: a
sequence of forces that was learnt without looking holds the one rod only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from risp_torch import Scene, State, load_scene, start
from risp_torch.control import (
    ControlledRollout,
    ControlTask,
    DirectPolicy,
    Feedback,
    FeedbackPolicy,
    Goal,
    GoalLoss,
    RispObserver,
    Windows,
    closed_loop,
    control,
    film_of,
    load_policy,
    open_loop,
)
from risp_torch.files.report import comparison_video, format_table, plot_curves, write_strip
from risp_torch.programs import number_parser, run_with_exit_status, write_text
from risp_torch.risp import RispNetwork, load_network, resize_pictures
from ti_sim import Count, Seed

LENGTH = 1.0  # m, what errors are parts of
LIMIT = 500.0  # N
HOLDING = 300.0  # N, the force that holds the rod at rest at the wanted height
FACTORS = (0.7, 1.0, 1.4)  # of Young's modulus, of the rods that are tried in the end


def make_control(scene: Scene) -> ControlTask:
    """Hold the rod in the shape that it has at rest under a constant force."""
    return ControlTask(
        controlled_parameter="press.force",
        policy=lambda scene, seed: DirectPolicy(np.zeros(scene.frames), scale=LIMIT),
        goal=lambda scene, number: Goal(at_rest(scene, HOLDING)[None], f"the rod at rest under {HOLDING:g} N"),
        size=LENGTH,
        measure="vertices",
        objectives=("image", "state"),
        frames="every:4",
        blur=(0.0, 3.0),
        learning_rate={"image": 0.05, "state": 0.05},
        iterations=40,
        checkpoint=80,
        feedback=Feedback(limit=LIMIT, hidden=(32,), every=1),
    )


def at_rest(scene: Scene, force: float, *, frames: int = 60) -> torch.Tensor:
    """[P, 3] m: where the rod comes to rest under a force on its middle.

    Its motion is stopped whenever it has been at its fastest, where the forces vanish (dynamic relaxation, A. S. Day, The
    Engineer, 1965).
    """
    windows, pressed = Windows(scene), torch.full((1,), force)
    with torch.no_grad():
        states = windows.rollout(0, 1, {"press.force": pressed})
        energy = 0.0
        for _ in range(frames):
            places, velocities = states.last.particle_q, states.last.particle_qd
            before, energy = energy, float(velocities.square().sum())
            if energy < before:
                velocities, energy = torch.zeros_like(velocities), 0.0
            states = windows.rollout(0, 1, {"press.force": pressed}, state=State(particle_q=places, particle_qd=velocities))
    return places[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn and compare: 0 where looking holds the other rods better, 1 if not, 2 for wrong input, 3 for a divergence."""
    parser = argparse.ArgumentParser(prog="python -m studies.control.rod_feedback", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", required=True, metavar="FILE", help="network.safetensors of 'risp train rod'")
    parser.add_argument("--iterations", type=number_parser(Count), default=40, help="gradient steps (default 40)")
    parser.add_argument("--every", type=number_parser(Count), default=1, help="frames from one look to the next (default 1)")
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of the policy (default 0)")
    parser.add_argument(
        "--cells", type=number_parser(Count), nargs=3, default=(20, 4, 4), help="hexahedra along the sides (default 20 4 4)"
    )
    parser.add_argument("--plan", choices=("auto", "world", "element"), default="auto", help="of the solver (default auto)")
    parser.add_argument("--out", type=Path, default=Path("runs/rod_feedback"), help="folder (default runs/rod_feedback)")
    options = parser.parse_args(arguments)
    return run_with_exit_status(parser.prog, lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Both policies (of an earlier call where they are there), then all rods."""
    start(precision="f32")
    network, _ = load_network(options.network)
    rods = {factor: rod(factor, options, network.settings.size) for factor in FACTORS}
    scene = rods[1.0]
    task = make_control(scene)
    kinds = {"looking": {"feedback": "risp", "network": options.network, "every": options.every}, "not looking": {}}
    policies = {}
    for name, policy_options in kinds.items():
        folder = options.out / name.replace(" ", "_")
        if (folder / "result.json").is_file():
            policies[name] = task.policy(scene, 0) if not policy_options else feedback_policy(task, network)
            load_policy(folder / "policy.safetensors", policies[name])
        else:
            done = control(scene, task, seed=options.seed, iterations=options.iterations, out=folder, **policy_options)
            policies[name] = done.search.policy
    goal_loss = GoalLoss(scene, task, task.goal(scene, 0))
    motions = {
        (name, factor): driven(rods[factor], task, goal_loss, policies[name], network, options.every if kinds[name] else None)
        for name in kinds
        for factor in FACTORS
    }
    middle = int(np.argmin(np.linalg.norm(scene.deformables[0].vertices, axis=1)))
    goal_z = float(goal_loss.target_positions[-1, middle, 2])
    errors = {key: height_error(motion, middle, goal_z) for key, motion in motions.items()}
    write_pictures(scene, goal_loss, motions, middle, goal_z, options.out)
    rows = [[f"{factor:g}", *(f"{1e3 * errors[name, factor]:.1f}" for name in kinds)] for factor in FACTORS]
    table = format_table(rows, ["E, times the known one", *(f"{name} [mm]" for name in kinds)])
    write_text(
        options.out / "rod_feedback.md",
        "# A rod that is held at a height\n\nRoot mean square distance of the rod's middle from the wanted height of "
        f"{1e3 * goal_z:.0f} mm over the second half of the film, of rods of several Young's moduli; both policies have learnt "
        f"on the one of 1.\n\n```\n{table}\n```\n",
    )
    print(f"\n{table}\nwritten: {options.out}")
    held_out_factors = [factor for factor in FACTORS if factor != 1.0]
    return 0 if all(errors["looking", factor] < errors["not looking", factor] for factor in held_out_factors) else 1


def rod(factor: float, options: argparse.Namespace, size: int) -> Scene:
    """A rod of some times the usual Young's modulus, filmed for the network."""
    scene = load_scene("rod", cells=tuple(options.cells))
    scene.set("rod.E", factor * scene.table["rod.E"].value)
    scene.stepping = replace(scene.stepping, solver=replace(scene.stepping.solver, plan=options.plan))
    resize_pictures(scene, size)
    return scene


def driven(
    scene: Scene, task: ControlTask, goal_loss: GoalLoss, policy: torch.nn.Module, network: RispNetwork, every: int | None
) -> ControlledRollout:
    """The motion of a rod under a policy that looks every so many frames, or never."""
    with torch.no_grad():
        if every is None:
            return open_loop(scene, task)(policy)
        return closed_loop(scene, task, RispObserver(scene, network, goal_loss.pictures[-1]), every=every)(policy)


def height_error(motion: ControlledRollout, middle: int, goal_height: float) -> float:
    """Root mean square distance [m] of the middle from the wanted height over the second half of a motion."""
    heights = motion.states.particle_q[0, :, middle, 2]
    return float((heights[len(heights) // 2 :] - goal_height).square().mean().sqrt())


def feedback_policy(task: ControlTask, network: RispNetwork) -> FeedbackPolicy:
    """A policy of the kind that looks, to be given the weights of a file."""
    return FeedbackPolicy(2 * network.settings.outputs, 1, hidden=task.feedback.hidden, limit=task.feedback.limit)


def write_pictures(
    scene: Scene,
    goal_loss: GoalLoss,
    motions: dict[tuple[str, float], ControlledRollout],
    middle: int,
    goal_height: float,
    out: Path,
) -> None:
    """Heights and forces over time of both policies, and the softest rod as a strip and a video."""
    soft = min(FACTORS)
    films = {}
    for name in dict.fromkeys(name for name, _ in motions):
        films[name], rate, _ = film_of(scene, motions[name, soft].states)
    picture = np.broadcast_to(goal_loss.pictures.cpu().numpy()[-1:], films["looking"].shape)
    write_strip(out / "looking.png", picture, films["looking"], fps=rate)
    write_strip(out / "not_looking.png", picture, films["not looking"], fps=rate)
    comparison_video(out / "looking-not_looking.mp4", films["looking"], films["not looking"], rate)
    panels: dict[str, dict[str, np.ndarray]] = {}
    for (name, factor), motion in motions.items():
        heights = motion.states.particle_q[0, :, middle, 2].cpu().numpy()
        panels.setdefault(f"height of the middle, E times {factor:g} [m]", {})[name] = heights[None]
    plot_curves(out / "heights.png", panels, levels=dict.fromkeys(panels, ("wanted", goal_height)), x_label="frame")


if __name__ == "__main__":
    sys.exit(main())
