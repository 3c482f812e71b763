"""Render training data of RISP: pictures with their derivatives, states and appearances."""

from __future__ import annotations

import argparse
import os

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_unsized_scene, number_parser, side_of
from ti_sim.base.rules import Count, Seed

DEFAULT_SIZE = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --images, --configs, --out, --seed, --shard-images, --verify."""
    add_scene_arguments(parser, optional=True)
    parser.set_defaults(size=(DEFAULT_SIZE, DEFAULT_SIZE))
    parser.add_argument("--images", type=number_parser(Count), metavar="N", help="number of pictures")
    parser.add_argument(
        "--configs", default="each", metavar="1|10|each",
        help="number of appearances that the pictures share in turn, or each for separate ones (default each)",
    )  # fmt: skip
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of states and appearances (default 0)")
    parser.add_argument(
        "--shard-images", type=number_parser(Count), default=128, metavar="N", help="pictures in a file (default 128)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the dataset; an unfinished one there is resumed")
    parser.add_argument("--verify", metavar="DIR", help="only compare the files of this dataset with their checksums")


def run(options: argparse.Namespace) -> int:
    """Render missing shards and print the folder; with --verify, return 1 if a file has been changed."""
    from ti_sim.base.errors import UserError

    if options.verify:
        if options.scene or options.out:
            raise UserError(f"--verify {options.verify} only reads a folder: leave out SCENE and --out")
        return _verify(options.verify)
    missing = [name for name in ("scene", "images", "out") if not getattr(options, name)]
    if missing:
        missing_text = " and ".join("SCENE" if name == "scene" else f"--{name}" for name in missing)
        raise UserError(f"{missing_text} must be given: for example risp dataset cube --images 2000 --out data/cube")
    return _generate(options)


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: yes."""
    return True


def _verify(folder: str) -> int:
    from risp_torch.risp.dataset.manifest import shard_faults

    faults = shard_faults(folder, progress=True)
    for name, fault in faults.items():
        print(f"{name} {fault}")
    print(f"{folder}: {len(faults)} bad files" if faults else f"{folder}: every file is unchanged")
    print_next_steps(f"{folder}/pictures.png", next_command=() if faults else ("risp", "train", "SCENE", "--data", folder))
    return 1 if faults else 0


def _generate(options: argparse.Namespace) -> int:
    from risp_torch.risp.dataset.generate import generate, ranks_from_environment
    from risp_torch.risp.dataset.settings import DatasetSettings
    from risp_torch.risp.task import load_task, resize_pictures

    settings = DatasetSettings(options.images, options.configs, options.seed, side_of(options.size), options.shard_images)
    rank, ranks = ranks_from_environment()
    scene, _ = make_unsized_scene(options)
    resize_pictures(scene, settings.size)
    scene_name = os.path.normpath(options.scene) if options.scene.endswith(".py") else options.scene
    summary = generate(
        scene, load_task(options.scene, scene), settings, options.out, name=scene_name, rank=rank, ranks=ranks, progress=rank == 0
    )
    _print_summary(summary, settings)
    if summary.complete:
        pictures = [summary.folder / file_name for file_name in ("pictures.png", "derivatives.png")]
        print_next_steps(*pictures, next_command=("risp", "train", options.scene, "--data", summary.folder))
    return 0


def _print_summary(summary: object, settings: object) -> None:
    print(
        f"{summary.images} pictures rendered in {summary.seconds:.0f} s; {summary.folder} has {summary.bytes / 1e6:.1f} MB in "
        f"at most {settings.shards} files: pictures of {settings.size} x {settings.size} pixels, "
        f"{len(summary.plan.labels)} derivatives each"
    )
    if summary.complete:
        print(f"complete, {settings.images} pictures")
    else:
        print("other processes are still writing their shards; the last one writes the manifest")
