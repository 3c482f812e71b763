"""A gear that is heavier than its model: plans that are made again on the way, beside one plan to the end.

The network that drives the gear is trained on a model; the real gear has 1.2 times its density. Left to the plan it misses the
goal that the model reaches. Where the gear is looked at every half second and the rest of the plan is trained on from there, with
the wrong model still, it makes up for most of that (model-predictive control).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from risp_torch import Scene, UserError, load_scene, start
from risp_torch.control import GoalLoss, control, film_of, load_control, load_policy, replan
from risp_torch.files.report import comparison_video, format_table, write_strip
from risp_torch.programs import number_parser, run_with_exit_status, write_text
from ti_sim import Count, FromZero, Positive, Seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, drive, plan again: 0 where plans that are made again end nearer to the goal, 1 if not, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m studies.control.gear_replan", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--factor", type=number_parser(Positive), default=1.2, help="density of the real gear, times the model's (default 1.2)"
    )
    parser.add_argument("--goal", type=number_parser(FromZero), default=0, help="number of the goal (default 0)")
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of the policy (default 0)")
    parser.add_argument("--every", type=number_parser(Count), default=30, help="frames from one plan to the next (default 30)")
    parser.add_argument("--iterations", type=number_parser(Count), default=5, help="gradient steps for each new plan (default 5)")
    parser.add_argument("--first", type=number_parser(Count), help="gradient steps for the first plan (default: the scene's)")
    parser.add_argument("--objective", choices=("image", "state"), default="image", help="default image")
    parser.add_argument("--plan", choices=("auto", "world", "element"), default="auto", help="of the solver (default auto)")
    parser.add_argument("--out", type=Path, default=Path("runs/gear_replan"), help="folder (default runs/gear_replan)")
    options = parser.parse_args(arguments)
    return run_with_exit_status(parser.prog, lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """The first plan (of an earlier call where it is there), then both ways to use it."""
    start(precision="f32")
    model, world = gear(options.plan), gear(options.plan)
    if not 0 < options.factor < 10:
        raise UserError(f"--factor is {options.factor}: give a number above 0 and below 10")
    world.set("gear.density", options.factor * model.table["gear.density"].value)
    task = load_control("gear", model)
    folder = options.out / f"plan-{options.objective}-goal{options.goal}-seed{options.seed}"
    if not (folder / "result.json").is_file():
        control(
            model, task, objective=options.objective, seed=options.seed, goal=options.goal, iterations=options.first, out=folder
        )
    goal_loss = GoalLoss(model, task, task.goal(model, options.goal))
    rows, films = [], {}
    for name, every, iterations in (
        ("one plan", model.frames, 0), (f"again every {options.every} frames", options.every, options.iterations),
    ):  # fmt: skip
        policy = task.policy(model, options.seed)
        load_policy(folder / "policy.safetensors", policy)
        result = replan(model, world, task, goal_loss, policy, every=every, iterations=iterations, objective=options.objective)
        films[name], rate, _ = film_of(world, result.rollout.states)
        rows.append(
            [
                name,
                f"{100 * result.predicted_errors[0]:.1f}",
                f"{100 * result.predicted_errors[-1]:.1f}",
                f"{100 * result.error:.1f}",
            ]
        )
    picture = np.broadcast_to(goal_loss.pictures.cpu().numpy()[-1:], films["one plan"].shape)
    write_strip(options.out / "one_plan.png", picture, films["one plan"], fps=rate)
    replanned = list(films)[1]
    write_strip(options.out / "replanned.png", picture, films[replanned], fps=rate)
    comparison_video(options.out / "one_plan-replanned.mp4", films["one plan"], films[replanned], rate)
    table = format_table(rows, ["plans", "first promised %", "last promised %", "error %"])
    write_text(
        options.out / "gear_replan.md",
        f"# A gear of {options.factor:g} times its model's density\n\nDistance of the centres of mass at the end, in percent of "
        f'the diameter; "promised" is what the model expected of the first and the last plan.\n\n```\n{table}\n```\n',
    )
    print(f"\n{table}\nwritten: {options.out}")
    return 0 if float(rows[1][3]) < float(rows[0][3]) else 1


def gear(plan: str) -> Scene:
    """The scene with one plan of the solver or another."""
    scene = load_scene("gear")
    scene.stepping = replace(scene.stepping, solver=replace(scene.stepping.solver, plan=plan))
    return scene


if __name__ == "__main__":
    sys.exit(main())
