"""Train a RISP network from a dataset, or directly from the renderer."""

from __future__ import annotations

import argparse
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_scene_arguments, make_unsized_scene, number_parser
from ti_sim.base.rules import Count, NotNegative, Positive, Seed, UnitInterval

DEFAULT_SIZE = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --data, --images, --gamma, --no-grad, --preset and its changes, --out."""
    add_scene_arguments(parser)
    data = parser.add_argument_group("pictures")
    data.add_argument("--data", metavar="DIR", help="dataset that 'risp dataset' has written")
    data.add_argument("--verify", action="store_true", help="compare every file of the dataset with its checksum first")
    data.add_argument("--images", type=number_parser(Count), metavar="N", help="without --data: render this many on demand")
    data.add_argument("--configs", metavar="1|10|each", help="without --data: appearances of the pictures (default each)")
    data.add_argument(
        "--data-seed", type=number_parser(Seed), metavar="N", help="without --data: of states and appearances (default 0)"
    )
    group = parser.add_argument_group("training")
    group.add_argument("--preset", choices=("quick", "paper"), default="quick", help="quick (default), or RISP's own settings")
    gamma = group.add_mutually_exclusive_group()
    gamma.add_argument(
        "--gamma", type=number_parser(NotNegative), help="weight of the gradient loss (default: the preset's; paper: the scene's)"
    )
    gamma.add_argument(
        "--no-grad", action="store_true", help="no gradient loss and no appearance jitter: domain randomisation alone"
    )
    group.add_argument(
        "--regulariser", choices=("error", "outputs"), help="gradient of the error (Eq. 12, default) or of all outputs (Eq. 10)"
    )
    group.add_argument("--norm", choices=("norm", "squared"), help="of the gradient (default norm)")
    group.add_argument("--interval", type=number_parser(Count), metavar="N", help="the gradient loss is used in every N-th step")
    group.add_argument(
        "--appearance-jitter", type=number_parser(UnitInterval), metavar="SHARE",
        help="fraction of the step to other appearances along dI/dpsi",
    )  # fmt: skip
    group.add_argument("--epochs", type=number_parser(Count))
    group.add_argument("--batch", type=number_parser(Count), dest="batch_size", help="pictures of a step")
    group.add_argument("--learning-rate", type=number_parser(Positive), help="of Adam at the start")
    group.add_argument("--width", type=number_parser(Count), help="channels of the network's first stage; ResNet-18 has 64")
    group.add_argument("--head", choices=("spatial", "average"), help="of the network (default spatial; the paper's: average)")
    group.add_argument(
        "--no-background-augmentation", action="store_true",
        help="leave backgrounds and grounds as they were rendered, without patterns",
    )  # fmt: skip
    group.add_argument(
        "--no-exposure-augmentation", action="store_true", help="leave exposures, tones and light as they were rendered"
    )
    group.add_argument("--network-precision", choices=("f32", "bf16"), help="of the network's arithmetic (default f32)")
    group.add_argument("--seed", type=number_parser(Seed), help="of first weights and order of pictures (default 0)")
    parser.add_argument("--out", metavar="DIR", help="folder; an unfinished run in it is resumed (runs/train-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Train and print the path of the network."""
    import torch

    from risp_torch.files.run_folder import default_run_path
    from risp_torch.risp.network.file import load_network
    from risp_torch.risp.task import load_task, resize_pictures
    from risp_torch.risp.training.train import parameter_count, train

    _check(options)
    scene, size = make_unsized_scene(options)
    task = load_task(options.scene, scene)
    settings = _settings(options, task)
    if options.data:
        source = _dataset_source(options, scene, task, size)
    else:
        resize_pictures(scene, size or DEFAULT_SIZE)
        source = _renderer_source(options, scene, task, size or DEFAULT_SIZE)
    device = "cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu"
    options.out = options.out or default_run_path("train", scene.name)
    path = train(scene, task, source, settings, out=options.out, device=device)
    network, _ = load_network(path)
    loss_text = "no gradient loss" if not settings.uses_jacobian else f"gamma {settings.gamma:g}"
    print(f"trained with {loss_text}: {path} ({parameter_count(network)} numbers, {path.stat().st_size / 1e6:.1f} MB)")
    print(f"curves: tensorboard --logdir {path.parent}/tensorboard")
    pictures = [path.parent / name for name in ("predictions.png", "training.png")]
    print_next_steps(*pictures, next_command=("risp", "evaluate", options.scene, "--network", path))
    return 0


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: yes."""
    return True


def _check(options: argparse.Namespace) -> None:
    """Raise a UserError for options without effect."""
    from ti_sim.base.errors import UserError

    if not options.data and not options.images:
        raise UserError("no pictures to train on: give --data DIR ('risp dataset' makes one), or --images N to render them")
    on_demand_options = [
        f"--{name.replace('_', '-')}" for name in ("images", "configs", "data_seed") if getattr(options, name) is not None
    ]
    if options.data and on_demand_options:
        raise UserError(f"{on_demand_options[0]} is for pictures rendered on demand, but --data has its own: leave one out")
    if options.verify and not options.data:
        raise UserError("--verify compares the files of a dataset: add --data DIR, or leave it out")
    if options.no_grad and (options.regulariser or options.norm or options.appearance_jitter):
        raise UserError("--no-grad omits dI/dpsi, which --regulariser, --norm and --appearance-jitter need: leave one out")


def _settings(options: argparse.Namespace, task: Any) -> Any:
    """The preset with the options' changes."""
    from risp_torch.risp.training.settings import preset

    names = (
        "gamma", "regulariser", "norm", "interval", "appearance_jitter", "epochs", "batch_size", "learning_rate", "width", "head",
        "seed",
    )  # fmt: skip
    changes = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.network_precision:
        changes["precision"] = options.network_precision
    if options.no_background_augmentation:
        changes["background_augmentation"] = False
    if options.no_exposure_augmentation:
        changes["exposure_augmentation"] = False
    if options.no_grad:
        changes |= {"regulariser": "none", "gamma": 0.0, "appearance_jitter": 0.0}
    return preset(options.preset, task, **changes)


def _dataset_source(options: argparse.Namespace, scene: Any, task: Any, size: int | None) -> Any:
    """The dataset of --data, checked against the scene."""
    from risp_torch.risp.dataset.source import ShardSource
    from risp_torch.risp.task import resize_pictures
    from ti_sim.base.errors import UserError

    source = ShardSource(options.data, verify=options.verify)
    if size is not None and size != source.size:
        raise UserError(f"the pictures in {options.data} have {source.size} pixels a side, not {size}: leave --size out")
    resize_pictures(scene, source.size)
    return ShardSource(options.data, scene, task)


def _renderer_source(options: argparse.Namespace, scene: Any, task: Any, size: int) -> Any:
    """Pictures rendered on demand."""
    from risp_torch.risp.dataset.renderer import RendererSource
    from risp_torch.risp.dataset.settings import DatasetSettings

    settings = DatasetSettings(images=options.images, configs=options.configs or "each", seed=options.data_seed or 0, size=size)
    return RendererSource(scene, task, settings)
