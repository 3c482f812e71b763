"""RISP's table 1 again: how well networks read states, with and without the gradient loss, in appearances they have never seen.

For every scene it renders one set of training pictures, trains networks with and without the loss on rendering gradients on the
same pictures from the same first weights, and evaluates them on pictures of the rasteriser and of Mitsuba. What is finished is
not done again: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch import RispTask, Scene, UserError, load_task, start
from risp_torch.atomic import write_text
from risp_torch.commands.options import positive_int
from risp_torch.report import format_table
from risp_torch.run_folder import RunFolder
from risp_torch.task import training_scene

if TYPE_CHECKING:
    from risp_torch.dataset import Source
    from risp_torch.evaluation import StateErrors
    from risp_torch.training import TrainSettings

SIZE = 64
APPEARANCES = 4
# Name -> changes of the preset. "full" is RISP as the preset has it, with Eq. 12; "pooled" averages the last feature map.
VARIANTS: dict[str, dict[str, Any]] = {
    "no-grad": {"regulariser": "none", "gamma": 0.0},
    "full": {},
    "Eq.10": {"regulariser": "outputs"},
    "squared": {"norm": "squared"},
    "pooled": {"head": "average"},
}
RENDERERS = {"soft": "rasteriser", "mitsuba": "Mitsuba"}
BASELINES = ("average", "random, normal", "random state")
# RISP (ICLR 2022), table 1: mean and standard deviation over the pictures.
PAPER_ROWS = ("average", "random, normal", "no-grad", "full")
PAPER = {
    "quadrotor": ("0.5994 ± 0.0000", "0.9661 ± 0.7548", "0.3114 ± 0.3191", "0.1505 ± 0.1163"),
    "cube": ("0.5920 ± 0.0000", "0.9655 ± 0.8119", "0.2805 ± 0.3199", "0.1642 ± 0.1887"),
    "hand": ("0.2605 ± 0.0000", "0.8323 ± 0.5705", "0.1155 ± 0.0505", "0.0974 ± 0.0255"),
    "rod": ("0.9792 ± 0.0000", "1.2730 ± 0.7197", "0.0201 ± 0.0087", "0.0194 ± 0.0048"),
}


@dataclass(frozen=True)
class Study:
    """What is trained and tested.

    Attributes:
        images: training pictures of each scene.
        configs: appearances of the training pictures: "each" its own, or how many they share (``DatasetSettings``).
        seeds: networks of each variant; seed k gives both variants the same first weights and the same order of pictures.
        preset: of the training.
        epochs: passes over the pictures in place of the preset's.
        gamma: weight of the gradient loss in place of the preset's.
        test_images: of each renderer.
        variants: names from ``VARIANTS``.
    """

    images: int = 2000
    configs: str = "10"
    seeds: int = 3
    preset: str = "quick"
    epochs: int | None = None
    gamma: float | None = None
    test_images: int = 800
    variants: tuple[str, ...] = ("no-grad", "full")

    def training(self, task: RispTask, variant: str, seed: int) -> TrainSettings:
        """Settings of one network's training."""
        from risp_torch.training import preset

        changes: dict[str, Any] = {name: getattr(self, name) for name in ("epochs", "gamma") if getattr(self, name) is not None}
        return preset(self.preset, task, seed=seed, **(changes | VARIANTS[variant]))


def run_scene(name: str, study: Study, out: Path) -> dict[str, Any]:
    """Data, networks and tables of one scene.

    Args:
        name: of the scene.
        study: what is trained and tested.
        out: folder of all scenes.

    Returns:
        Renderer -> reader -> means and standard deviations, the networks of a variant taken together.
    """
    from risp_torch.evaluation import TestSettings, evaluate, make_test_set
    from risp_torch.network import load_network

    scene = training_scene(name, SIZE)
    task = load_task(name, scene)
    networks = trained(scene, task, study, out / name / study.configs)
    readers = {key: load_network(path)[0] for key, path in networks.items()}
    seconds = {key: RunFolder(path.parent, {}).read_result()["seconds"] for key, path in networks.items()}
    result = {}
    for renderer in RENDERERS:
        settings = TestSettings(renderer=renderer, appearances=APPEARANCES, states=study.test_images // APPEARANCES)
        test_set = make_test_set(scene, task, settings, cache=out / "test-sets")
        errors = evaluate(scene, task, readers, test_set).errors
        result[renderer] = {"pictures": len(test_set)} | {"readers": summaries(errors, seconds)}
    return result


def trained(scene: Scene, task: RispTask, study: Study, folder: Path) -> dict[str, Path]:
    """Train what is not there yet: "<variant>/<seed>" -> network file."""
    from risp_torch.bridge.checks import bridge_device
    from risp_torch.training import train

    paths = {}
    source: Source | None = None
    for seed in range(study.seeds):
        for variant in study.variants:
            run = folder / f"{variant}-seed{seed}"
            paths[f"{variant}/{seed}"] = run / "network.safetensors"
            if (run / "result.json").is_file():
                check_finished(run, study.training(task, variant, seed))
                continue
            source = source or data(scene, task, study, folder / "data")
            print(f"\n{scene.name}: training {variant}, seed {seed}, in {run}", flush=True)
            train(scene, task, source, study.training(task, variant, seed), out=run, device=str(bridge_device()))
    return paths


def data(scene: Scene, task: RispTask, study: Study, folder: Path) -> Source:
    """The training pictures of a scene, rendered where they are not there yet."""
    from risp_torch.dataset import DatasetSettings, ShardSource, generate

    generate(scene, task, DatasetSettings(study.images, study.configs, size=SIZE), folder, progress=True)
    return ShardSource(folder, scene, task)


def check_finished(run: Path, wanted: TrainSettings) -> None:
    """Refuse a finished training with other settings than those that are wanted.

    Raises:
        UserError: the first setting that differs is named.
    """
    from risp_torch.run_folder import first_difference, plain

    there = json.loads((run / "settings.json").read_text(encoding="utf-8"))["training"]
    there.pop("data", None)
    difference = first_difference(there, plain(wanted))
    if difference is not None:
        raise UserError(f"the network in {run} was trained with other settings ({difference}): choose another --out")


def summaries(errors: dict[str, StateErrors], seconds: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Errors of the baselines, and of each variant over all its networks.

    Args:
        errors: reader -> errors; networks are called "<variant>/<seed>".
        seconds: network -> time of its training [s].

    Returns:
        Reader -> error {mean, sd over the pictures, seeds: the mean of each network}, physical means, spread, mean time of
        training in minutes.
    """
    minutes: dict[str, list[float]] = {}
    groups = {name: [errors[name]] for name in BASELINES}
    for name, some in seconds.items():
        variant = name.partition("/")[0]
        groups.setdefault(variant, []).append(errors[name])
        minutes.setdefault(variant, []).append(some / 60)
    return {
        name: {
            "mean": float(np.mean([e.per_image for e in some])), "sd": float(np.std([e.per_image for e in some])),
            "seeds": [float(e.per_image.mean()) for e in some],
            "physical": {p: float(np.mean([e.physical[p] for e in some])) for p in some[0].physical},
            "spread": float(np.mean([e.spread for e in some])),
            "minutes": float(np.mean(minutes[name])) if name in minutes else None,
        }
        for name, some in groups.items()
    }  # fmt: skip


def report(results: dict[str, dict[str, Any]], study: Study) -> str:
    """The tables as Markdown with the paper's numbers beside them."""
    lines = [
        "# State estimation", "",
        f"Mean L1 error of a normalised output ± its standard deviation over the pictures ({APPEARANCES} unseen appearances of",
        f"the same states; {SIZE} x {SIZE} pixels). Networks: preset {study.preset}, {study.images} training pictures, their",
        f"appearances: {study.configs}, seeds: {study.seeds}; all variants see the same pictures and begin with the same",
        "weights. Minutes: of one training; they depend on what else the machine did. The paper's states, appearances and",
        "renderers are not published: its numbers stand for the order of the rows, not for the same pictures.", "",
    ]  # fmt: skip
    for scene, by_renderer in results.items():
        for renderer, outcome in by_renderer.items():
            rows = [_row(scene, name, summary) for name, summary in outcome["readers"].items()]
            physical = list(next(iter(outcome["readers"].values()))["physical"])
            headers = ["", "error", "of the seeds", *physical, "spread over appearances", "minutes", "RISP, table 1"]
            table = format_table(rows, headers)
            lines += [f"## {scene}, {RENDERERS[renderer]}, {outcome['pictures']} pictures", "", "```", table, "```", ""]
    return "\n".join(lines)


def _row(scene: str, name: str, summary: dict[str, Any]) -> list[Any]:
    seeds = summary["seeds"]
    span = f"{min(seeds):.4f} to {max(seeds):.4f}" if len(seeds) > 1 else None
    physical = [f"{value:.3g}" for value in summary["physical"].values()]
    paper = dict(zip(PAPER_ROWS, PAPER.get(scene, ()), strict=False)).get(name)
    minutes = None if summary["minutes"] is None else f"{summary['minutes']:.1f}"
    return [name, f"{summary['mean']:.4f} ± {summary['sd']:.4f}", span, *physical, f"{summary['spread']:.4f}", minutes, paper]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study: 0, or 2 for wrong input."""
    usual = Study()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", nargs="+", default=["cube", "quadrotor"], metavar="SCENE")
    parser.add_argument("--images", type=positive_int, default=usual.images, help=f"training pictures (default {usual.images})")
    parser.add_argument("--configs", default=usual.configs, help="appearances of the training pictures: 1, 10 (default), each")
    parser.add_argument("--seeds", type=positive_int, default=usual.seeds, help=f"networks a variant (default {usual.seeds})")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=usual.variants, help="default no-grad and full")
    parser.add_argument("--preset", default=usual.preset, help=f"of the training (default {usual.preset})")
    parser.add_argument("--epochs", type=positive_int, help="in place of the preset's")
    parser.add_argument("--gamma", type=float, help="weight of the gradient loss in place of the preset's")
    parser.add_argument(
        "--test-images", type=positive_int, default=usual.test_images, help=f"a renderer (default {usual.test_images})"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where pictures and networks are made")
    parser.add_argument("--out", default="runs/estimation", help="folder (default runs/estimation)")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    names = ("images", "configs", "seeds", "preset", "epochs", "gamma", "test_images")
    study = Study(variants=tuple(options.variants), **{name: getattr(options, name) for name in names})
    try:
        start(device=options.device, precision="f32")
        results = {name: run_scene(name, study, out) for name in options.scenes}
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    text = report(results, study)
    write_text(out / "state_estimation.json", json.dumps({"study": vars(study), "scenes": results}, indent=2) + "\n")
    write_text(out / "state_estimation.md", text)
    print(f"\n{text}\nwritten: {out}/state_estimation.md, state_estimation.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
