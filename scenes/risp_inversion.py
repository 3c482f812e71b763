"""RISP's table 2 again: numbers of scenes from path-traced films of them, by pixels, by RISP's networks, and by true states.

Every repeat has a film of its own, of the true scene in a drawn look that neither training nor test pictures have, and a random
first guess, the same for all losses. What is finished is not done again: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch import OptimiseSettings, RispTask, Scene, UserError, invert, load_task, start
from risp_torch.atomic import write_text
from risp_torch.commands.options import positive_int
from risp_torch.report import format_table
from risp_torch.run_folder import RunFolder, first_difference, plain
from risp_torch.task import training_scene

if TYPE_CHECKING:
    from risp_torch.inversion import Loss
    from risp_torch.inversion.optimise import OptimizerName

SIZE = 64
LOSSES = {"pixel": "pixels (gradSim)", "no-grad": "RISP without gradient loss", "full": "RISP", "state": "true states (oracle)"}
_STREAM = 79  # of the random numbers of looks and first guesses; test sets have another


@dataclass(frozen=True)
class Case:
    """What is read from the films of a scene.

    Attributes:
        unknowns: names of the parameters.
        truth: their true value.
        low, high: ends of the range of the first guesses.
        log: whether guesses are uniform in log10.
        unit: of the error, "log10" for one of decades.
        paper: loss or "guess" -> RISP (ICLR 2022), table 2: mean and standard deviation of the error over 4 repeats.
    """

    unknowns: tuple[str, ...]
    truth: float
    low: float
    high: float
    log: bool
    unit: str
    paper: Mapping[str, str]

    def error(self, values: Sequence[float]) -> float:
        """Mean distance of the estimates from the truth."""
        given = np.asarray(values)
        return float(np.abs(np.log10(given / self.truth) if self.unit == "log10" else given - self.truth).mean())

    def guess(self, seed: int, repeat: int) -> list[float]:
        """The first guess of a repeat, uniform in the range."""
        random = np.random.default_rng([seed, _STREAM, repeat])
        if self.log:
            return (10 ** random.uniform(np.log10(self.low), np.log10(self.high), size=len(self.unknowns))).tolist()
        return random.uniform(self.low, self.high, size=len(self.unknowns)).tolist()


CASES = {
    "quadrotor": Case(
        ("quadrotor.mass",), 3.0, 2.8, 3.2, log=False, unit="kg",
        paper={
            "guess": "9.22e-2 ± 3.83e-2", "pixel": "7.22e-2 ± 5.26e-2", "no-grad": "6.07e-2 ± 4.34e-2",
            "full": "1.18e-2 ± 1.93e-2", "state": "2.36e-5 ± 2.41e-5",
        },
    ),
    "cube": Case(
        ("ground.contact.stiffness",), 1e3, 10**2.5, 10**3.5, log=True, unit="log10",
        paper={
            "guess": "2.31e-1 ± 9.57e-2", "pixel": "2.24e-3 ± 1.74e-3", "no-grad": "1.16e-1 ± 6.20e-2",
            "full": "6.76e-3 ± 7.23e-3", "state": "1.15e-3 ± 8.60e-4",
        },
    ),
    "hand": Case(
        tuple(f"{finger}.stiffness" for finger in ("thumb", "index", "middle", "ring", "little")), 1.0, 0.0, 1.0, log=False,
        unit="N m/rad",
        paper={
            "guess": "5.70e-1 ± 1.62e-1", "pixel": "1.04e-1 ± 9.62e-2", "no-grad": "4.85e-2 ± 2.16e-2",
            "full": "3.96e-2 ± 2.73e-2", "state": "3.92e-3 ± 4.40e-4",
        },
    ),
    "rod": Case(
        ("rod.E",), 1e5, 1e4, 1e7, log=True, unit="Pa",
        paper={
            "guess": "1.30e6 ± 1.35e6", "pixel": "8.50e5 ± 1.42e6", "no-grad": "8.78e4 ± 1.52e5",
            "full": "9.31e1 ± 4.21e1", "state": "4.36e0 ± 3.57e0",
        },
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """What is inverted.

    Attributes:
        repeats: films and first guesses of each scene.
        losses: names from ``LOSSES``.
        networks: folder that ``scenes.risp_estimation`` wrote; repeat r takes the r-th network of each variant, in turn.
        configs: which of its trainings, by the appearances of the training pictures.
        iterations, refine: gradient steps, and Gauss-Newton rounds after them.
        sampling: frames that count, as in ``invert``.
        seed: of looks and first guesses.
        optimizer: of the gradient steps.
        linearise_up_to: as in ``invert``.
    """

    repeats: int = 4
    losses: tuple[str, ...] = tuple(LOSSES)
    networks: str = "runs/estimation"
    configs: str = "10"
    iterations: int = 40
    refine: int = 15
    sampling: str = "all"
    seed: int = 0
    optimizer: OptimizerName = "adam"
    linearise_up_to: int | None = None

    @property
    def search(self) -> OptimiseSettings:
        """Settings of the search."""
        return OptimiseSettings(optimizer=self.optimizer, iterations=self.iterations)


def run_scene(name: str, study: Study, out: Path) -> dict[str, list[float]]:
    """All inversions of one scene.

    Args:
        name: of the scene.
        study: what is inverted.
        out: folder of all scenes.

    Returns:
        "guess" and every loss -> the error of each repeat.
    """
    if name not in CASES:
        raise UserError(f"there is no experiment for the scene {name!r}: choose among {', '.join(CASES)}")
    case = CASES[name]
    scene = training_scene(name, SIZE)
    for unknown in case.unknowns:
        scene.set(unknown, case.truth)
    task = load_task(name, scene)
    networks = {variant: found_networks(study, name, variant) for variant in ("no-grad", "full") if variant in study.losses}
    with torch.no_grad():
        motion = scene.rollout()
    errors: dict[str, list[float]] = {"guess": []} | {loss: [] for loss in study.losses}
    for repeat in range(study.repeats):
        guess = case.guess(study.seed, repeat)
        errors["guess"].append(case.error(guess))
        for kind in study.losses:
            some = networks.get(kind)
            loss = make_loss(kind, task, motion, some[repeat % len(some)] if some else None)
            print(f"\n{name}, repeat {repeat}, {LOSSES[kind]}: {_shown(case, guess)} at first", flush=True)
            video = None
            if loss.needs_film:
                video = target_video(scene, task, motion, out / name / f"target-{repeat}", study.seed, repeat)
            first = dict(zip(case.unknowns, guess, strict=True))
            values = inverted(scene, video, first, loss, study, out / name / f"{kind}-{repeat}")
            errors[kind].append(case.error(values))
            print(f"{_shown(case, values)}, error {errors[kind][-1]:.3g} {case.unit}", flush=True)
    return errors


def _shown(case: Case, values: Sequence[float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(case.unknowns, values, strict=True))


def found_networks(study: Study, scene: str, variant: str) -> list[Path]:
    """Networks of a variant, by their seeds.

    Raises:
        UserError: there is none.
    """
    folder = Path(study.networks) / scene / study.configs
    found = sorted(folder.glob(f"{variant}-seed*/network.safetensors"))
    if not found:
        raise UserError(
            f"there is no {variant} network in {folder}: train it with python -m scenes.risp_estimation, or name --networks"
        )
    return found


def target_video(scene: Scene, task: RispTask, motion: Any, folder: Path, seed: int, repeat: int) -> Path:
    """The path-traced film of the true scene in the look of a repeat; only frames that are not there yet are rendered.

    Args:
        scene, task: what is filmed, and which looks there are.
        motion: states of the true scene.
        folder: of the film.
        seed, repeat: of the look and of the noise.

    Returns:
        Folder of PNG frames.

    Raises:
        UserError: the folder holds another film, or Mitsuba is not installed.
    """
    from risp_torch.photoreal import FRAMES, write_photoreal_frames

    number = int(np.random.SeedSequence([seed, _STREAM, repeat]).generate_state(1)[0])
    film = task.domains.target.film(scene, motion, seed=number)
    settings = {"film": scene.description(), "domain": task.domains.target.to_json(), "appearance": film.look}
    RunFolder.open_or_create(folder, settings)
    write_photoreal_frames(folder, film, fps=1 / scene.frame_dt, masks=False)
    return folder / FRAMES


def make_loss(kind: str, task: RispTask, motion: Any, network: Path | None) -> Loss:
    """The loss of a name from ``LOSSES``."""
    from risp_torch.inversion import PixelLoss, RispLoss, StateLoss

    if kind == "pixel":
        return PixelLoss()
    return StateLoss(task.head, motion) if kind == "state" else RispLoss(network, task=task)


def inverted(scene: Scene, video: Path | None, first: Mapping[str, Any], loss: Loss, study: Study, folder: Path) -> list[float]:
    """The estimates of one inversion, made now or, where its folder is finished, before.

    Args:
        scene: what was filmed.
        video: the film, None for a loss that needs none.
        first: name of each unknown -> first guess.
        loss: what films are compared by.
        study: how the search goes.
        folder: of the inversion.

    Returns:
        Every number of every unknown, in their order.

    Raises:
        UserError: the folder holds an inversion with other settings; as ``invert``.
    """
    finished = RunFolder(folder, {})
    if not finished.finished:
        result = invert(
            scene, video, list(first), loss=loss, sampling=study.sampling, starts=[first], settings=study.search,
            refine=study.refine, linearise_up_to=study.linearise_up_to, out=folder,
        )  # fmt: skip
        return list(result.values.values())
    there = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    wanted = plain(
        {
            "loss": loss.to_json(), "search": asdict(study.search), "refine": study.refine, "sampling": study.sampling,
            "linearise_up_to": study.linearise_up_to,
            "initial": [np.concatenate([np.ravel(guess) for guess in first.values()])],
        }
    )  # fmt: skip
    difference = first_difference({key: there.get(key) for key in wanted}, wanted)
    if difference is not None:
        raise UserError(f"the inversion in {folder} has other settings ({difference}): choose another --out")
    return [float(unknown["value"]) for unknown in finished.read_result()["unknowns"].values()]


def report(results: Mapping[str, Mapping[str, Sequence[float]]], study: Study) -> str:
    """The tables as Markdown with the paper's numbers beside them."""
    lines = [
        "# System identification across renderers", "",
        f"Mean ± standard deviation of the error over {study.repeats} path-traced films ({SIZE} x {SIZE} pixels), each with its",
        f"own look and its own first guess. Frames: {study.sampling}; {study.iterations} gradient steps and up to {study.refine}",
        "Gauss-Newton rounds from the one guess.", "",
    ]  # fmt: skip
    for name, errors in results.items():
        case = CASES[name]
        rows = [
            [LOSSES.get(kind, "first guess"), f"{np.mean(values):.2e} ± {np.std(values):.2e}", f"{min(values):.2e}",
             f"{max(values):.2e}", case.paper.get(kind)]
            for kind, values in errors.items()
        ]  # fmt: skip
        table = format_table(rows, ["", f"error [{case.unit}]", "least", "largest", "RISP, table 2"])
        lines += [f"## {name}: {', '.join(case.unknowns)}, truth {case.truth:g}", "", "```", table, "```", ""]
    return "\n".join(lines)


def parsed(
    arguments: Sequence[str] | None, usual: Study, *, about: str, scenes: Sequence[str], out: str
) -> tuple[argparse.Namespace, Study]:
    """Read the command line of a study.

    Args:
        arguments: of the command line, the process' own by default.
        usual: the study where nothing is asked.
        about: the command in a sentence.
        scenes: that it has experiments for.
        out: folder by default.

    Returns:
        All options, and the study that they ask for.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--scenes", nargs="+", default=list(scenes), metavar="SCENE")
    parser.add_argument("--repeats", type=positive_int, default=usual.repeats, help=f"films a scene (default {usual.repeats})")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=usual.losses, help="default all")
    parser.add_argument("--networks", default=usual.networks, help=f"folder of risp_estimation (default {usual.networks})")
    parser.add_argument("--configs", default=usual.configs, help="appearances of their training pictures (default 10)")
    parser.add_argument("--iterations", type=positive_int, default=usual.iterations, help=f"default {usual.iterations}")
    parser.add_argument("--refine", type=int, default=usual.refine, help=f"Gauss-Newton rounds (default {usual.refine})")
    parser.add_argument("--sampling", default=usual.sampling, help="frames: all (default), first+last, first+middle, every:K")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of looks and first guesses (default 0)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where everything but Mitsuba runs")
    parser.add_argument("--out", default=out, help=f"folder (default {out})")
    options = parser.parse_args(arguments)
    asked = {name: getattr(options, name) for name in asdict(usual) if hasattr(options, name)}
    return options, replace(usual, **asked | {"losses": tuple(options.losses)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study: 0, or 2 for wrong input."""
    about = (__doc__ or "").splitlines()[0]
    options, study = parsed(arguments, Study(), about=about, scenes=tuple(CASES), out="runs/cross-renderer")
    out = Path(options.out)
    try:
        start(device=options.device, precision="f32")
        results = {name: run_scene(name, study, out) for name in options.scenes}
    except UserError as error:
        print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr)
        return 2
    text = report(results, study)
    write_text(out / "system_identification.json", json.dumps({"study": asdict(study), "scenes": results}, indent=2) + "\n")
    write_text(out / "system_identification.md", text)
    print(f"\n{text}\nwritten: {out}/system_identification.md, system_identification.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
