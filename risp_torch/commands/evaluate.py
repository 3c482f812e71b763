"""Compare networks on pictures that are held out from training, of the rasteriser and of Mitsuba."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_unsized_scene, number_parser
from ti_sim.base.rules import Count, Seed

APPEARANCES = 4
RENDERERS = ("soft", "mitsuba")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --network, --renderers, --images, --seed, --cache, --out."""
    add_scene_arguments(parser)
    parser.add_argument(
        "--network", nargs="+", action="extend", required=True, metavar="FILE", help="network.safetensors of a training; several"
    )
    parser.add_argument(
        "--renderers", nargs="+", choices=RENDERERS, default=list(RENDERERS),
        help="of the test pictures: the rasteriser of the training, Mitsuba's path tracer (extra 'photoreal'); default both",
    )  # fmt: skip
    parser.add_argument(
        "--images", type=_picture_count, default=800, metavar="N",
        help=f"pictures of each renderer, {APPEARANCES} appearances of N / {APPEARANCES} states each (default 800)",
    )  # fmt: skip
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="of states and appearances (default 0)")
    parser.add_argument("--cache", metavar="DIR", help="folder of cached test pictures")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/evaluate-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Print a table for each renderer; write result.json and a sheet of pictures with predictions."""
    from risp_torch.files.run_folder import RunFolder, default_run_path
    from risp_torch.risp.evaluation.evaluate import evaluate
    from risp_torch.risp.evaluation.report import error_table, output_table, write_prediction_sheet
    from risp_torch.risp.evaluation.test_set import TestSettings, make_test_set
    from risp_torch.risp.task import load_task

    scene, size = make_unsized_scene(options)
    task = load_task(options.scene, scene)
    networks = _networks(scene, task, options.network, size)
    paths = dict(zip(networks, dict.fromkeys(options.network), strict=True))
    settings = {
        "scene": scene.name, "networks": paths, "renderers": options.renderers, "images": options.images,
        "size": scene.camera.width, "seed": options.seed, "precision": options.precision,
    }  # fmt: skip
    folder = RunFolder.create(options.out or default_run_path("evaluate", scene.name), settings)
    results = {}
    for renderer in dict.fromkeys(options.renderers):
        test_settings = TestSettings(
            renderer=renderer, appearances=APPEARANCES, states=options.images // APPEARANCES, seed=options.seed
        )
        test_set = make_test_set(scene, task, test_settings, cache=options.cache)
        evaluation = evaluate(scene, task, networks, test_set, seed=options.seed)
        print(f"\n{scene.name}, {renderer}: {len(test_set)} pictures, {APPEARANCES} held-out appearances")
        print(error_table(evaluation.errors))
        print(output_table(evaluation.errors))
        for index, name in enumerate(networks):
            sheet = f"sheet-{renderer}-{index}.png"
            write_prediction_sheet(folder.path / sheet, test_set, evaluation.predicted[name], task.head)
        results[renderer] = evaluation.to_json()
    print('"random, normal": standard normal outputs, as in the paper; "random state": the outputs of another state')
    folder.write_result({"schema": 1, "scene": scene.name, "renderers": results})
    print(f"written: {folder.path}/result.json, sheet-RENDERER-NETWORK.png")
    sheets = [folder.path / f"sheet-{renderer}-0.png" for renderer in results]
    loss_arguments = ("--loss", "risp", "--network", options.network[0], "--video", "FILE")
    print_next_steps(*sheets, next_command=("risp", "invert", options.scene, *loss_arguments, "--unknown", "NAME"))
    return 0


def _networks(scene: Any, task: Any, paths: Sequence[str], size: int | None) -> dict[str, Any]:
    """The networks by short names; resizes the camera's pictures to ``size``, by default that of the first network."""
    from risp_torch.risp.network.file import check_network, load_network
    from risp_torch.risp.task import resize_pictures

    loaded = {path: load_network(path) for path in paths}
    resize_pictures(scene, size or next(iter(loaded.values()))[0].settings.size)
    for path, (network, record) in loaded.items():
        check_network(network, record, scene=scene.name, outputs=task.head.size, size=scene.camera.width, path=path)
    return {name: network for name, (network, _) in zip(short_names(list(loaded)), loaded.values(), strict=True)}


def short_names(paths: Sequence[str]) -> list[str]:
    """Names of networks in tables: file names, folder names for network.safetensors, or paths if these are equal."""
    files = [Path(path) for path in paths]
    names = [file.absolute().parent.name if file.stem == "network" else file.stem for file in files]
    return names if len(set(names)) == len(names) else list(paths)


def _picture_count(text: str) -> int:
    """A number of pictures divisible by the number of appearances, for argparse."""
    count = number_parser(Count)(text)
    if count % APPEARANCES:
        raise argparse.ArgumentTypeError(f"{count} pictures are not a multiple of {APPEARANCES} appearances: give 800")
    return count
