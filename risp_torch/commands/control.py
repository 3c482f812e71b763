"""Train a network that drives a soft body to a goal: from a picture, from its state, or at random."""

from __future__ import annotations

import argparse

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_scene, make_scene_of_network, number_parser
from ti_sim.base.rules import Count, FromZero, Seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --objective, --seed, --goal, --target, --iterations, the feedback, --out."""
    add_scene_arguments(parser)
    parser.add_argument(
        "--objective", choices=("image", "state", "random"), default="image",
        help="objective: the difference to the goal's picture, the true distance to it, or random policies "
        "(default image)",
    )  # fmt: skip
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of the policy's weights (default 0)")
    parser.add_argument(
        "--goal", type=number_parser(FromZero), metavar="N", help="number of the goal (default 0; with --target none)"
    )
    parser.add_argument("--target", metavar="FILE", help="a picture, video or folder of PNG frames in place of the goal's own")
    parser.add_argument(
        "--iterations", type=number_parser(Count), help="gradient steps, or random policies (default: the scene's)"
    )
    parser.add_argument(
        "--feedback", choices=("none", "state", "risp"), default="none",
        help="observation of the policy: none, the state, or the prediction of a RISP network (default none)",
    )  # fmt: skip
    parser.add_argument("--network", metavar="FILE", help="of --feedback risp: network.safetensors of 'risp train'")
    parser.add_argument(
        "--every", type=number_parser(Count), metavar="K", help="frames between two observations (default: the scene's)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/control-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Run the search, print its errors, write the run's folder."""
    from risp_torch.control import control, load_control
    from risp_torch.files.run_folder import default_run_path

    has_network = options.feedback == "risp" and options.network is not None
    scene = make_scene_of_network(options, options.network) if has_network else make_scene(options)
    options.out = options.out or default_run_path("control", scene.name)
    result = control(
        scene, load_control(options.scene, scene), objective=options.objective, seed=options.seed, goal=options.goal,
        target=options.target, iterations=options.iterations, feedback=options.feedback, network=options.network,
        every=options.every, out=options.out,
    )  # fmt: skip
    history = result.search.history
    print(f"{scene.name}: {result.note}, objective {result.objective}")
    for title, index in (("start", 0), (f"iteration {result.search.best}", result.search.best)):
        error = history.errors[index]
        error_text = f"error {100 * error:.2f} % of the size" if error == error else "no error known"
        print(f"{title}: {error_text}, loss {history.losses[index]:.4e}")
    print(f"written: {result.folder} ({result.seconds:.1f} s, {min(history.seconds):.2f} s an iteration)")
    print_next_steps(result.folder / "curves.png", result.folder / "strip.png")
    return 0


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: yes."""
    return True
