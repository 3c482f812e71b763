"""RISP's table 3 again: actions that make a scene move as a film shows, from films of its own renderer and of another.

The numbers of the scene are known, the actions of every frame are not. A film of the engine's own renderer (H.264) comes first,
compared by pixels; then path-traced films as in ``scenes.risp_inversion``, each with a look and a first guess of its own. What is
finished is not done again: the same command goes on where it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import RispTask, Scene, UserError, load_scene, load_task, simulate_video, start
from risp_torch.atomic import replacing, write_text
from risp_torch.report import format_table
from risp_torch.scene.numbers import constant
from risp_torch.task import training_scene
from scenes.risp_inversion import LOSSES, SIZE, Study, found_networks, inverted, make_loss, parsed, target_video

OWN = "own film"
ROWS = {OWN: "own film (H.264), pixels", "guess": "first guess"} | LOSSES
_STREAM = 83  # of the random numbers of first guesses
_NETWORKS = ("no-grad", "full")


@dataclass(frozen=True)
class Case:
    """What is imitated.

    Attributes:
        unknown: name of the actions.
        truth: frames of a film -> the true actions.
        spread: a first guess is one number for all frames, uniform within this either way; the own film's is zero.
        paper: loss or "guess" -> RISP (ICLR 2022), table 3: mean and standard deviation of the error over 4 repeats.
        options: of make_scene.
    """

    unknown: str
    truth: Callable[[int], np.ndarray]
    spread: float
    paper: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)

    def guess(self, frames: int, seed: int, repeat: int) -> np.ndarray:
        """The first guess of a repeat, of the truth's shape."""
        random = np.random.default_rng([seed, _STREAM, repeat])
        return np.full_like(self.truth(frames), random.uniform(-self.spread, self.spread))


def two_swings(frames: int) -> np.ndarray:
    """Forces on the rod [frames]: one swing up and down, and three smaller ones, at most 388 N."""
    phase = 2 * np.pi * np.arange(frames) / frames
    return 300 * np.sin(phase) + 150 * np.sin(3 * phase + 1)


CASES = {
    "rod": Case(
        "press.force", two_swings, 400.0,
        paper={
            "guess": "29.89 ± 0.61", "pixel": "29.57 ± 0.85", "no-grad": "0.83 ± 0.35", "full": "1.05 ± 0.27",
            "state": "0.28 ± 0.16",
        },
        options={"substeps": 12},  # enough for its Young's modulus, which is known here
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """How far an imitation is from what the film shows.

    Attributes:
        total: mean L1 error of the state head's normalised outputs, summed over the frames (the paper's table).
        part: mean distance of the outputs, in parts of the range of the true motion's outputs.
        action: root mean square of the actions' error, in their unit.
        actions: the estimate.
        outputs: [T, S] of the imitated motion.
    """

    total: float
    part: float
    action: float
    actions: np.ndarray
    outputs: np.ndarray


def errors_of(scene: Scene, task: RispTask, case: Case, actions: np.ndarray) -> Errors:
    """Errors of some actions in the scene, whose own ones are true."""
    with torch.no_grad():
        true, found = (
            task.head.outputs(scene, scene.rollout(values).placement[0]).cpu().numpy()
            for values in ({}, {case.unknown: constant(actions)[None]})
        )
    each = np.abs(found - true).mean(axis=1)
    off = actions - scene.parameters[case.unknown].value
    return Errors(float(each.sum()), float(each.mean() / np.ptp(true)), float(np.sqrt((off**2).mean())), actions, found)


def made_true(scene: Scene, name: str) -> tuple[RispTask, np.ndarray]:
    """Give the scene of a case its true actions: its task, and the actions."""
    case = CASES[name]
    truth = case.truth(scene.frames)
    scene.set(case.unknown, truth)
    return load_task(name, scene), truth


def run_scene(name: str, study: Study, out: Path) -> dict[str, list[Errors]]:
    """All imitations of one scene.

    Args:
        name: of the scene.
        study: what is inverted.
        out: folder of all scenes.

    Returns:
        ``OWN`` -> errors from the own film; "guess" and every loss -> errors of each repeat.
    """
    if name not in CASES:
        raise UserError(f"there is no experiment for the scene {name!r}: choose among {', '.join(CASES)}")
    case = CASES[name]
    scene = training_scene(name, SIZE, **case.options)
    task, truth = made_true(scene, name)
    networks = {variant: found_networks(study, name, variant) for variant in _NETWORKS if variant in study.losses}
    with torch.no_grad():
        motion = scene.rollout()
    results: dict[str, list[Errors]] = {OWN: [own_film(name, case, study, out)], "guess": []}
    results |= {loss: [] for loss in study.losses}
    for repeat in range(study.repeats):
        guess = case.guess(scene.frames, study.seed, repeat)
        results["guess"].append(errors_of(scene, task, case, guess))
        for kind in study.losses:
            some = networks.get(kind)
            loss = make_loss(kind, task, motion, some[repeat % len(some)] if some else None)
            print(f"\n{name}, repeat {repeat}, {LOSSES[kind]}", flush=True)
            video = None
            if loss.needs_film:
                video = target_video(scene, task, motion, out / name / f"target-{repeat}", study.seed, repeat)
            values = inverted(scene, video, {case.unknown: guess}, loss, study, out / name / f"{kind}-{repeat}")
            results[kind].append(errors_of(scene, task, case, np.reshape(values, truth.shape)))
            print(f"off by {results[kind][-1].part:.2%} of the range", flush=True)
    return results


def own_film(name: str, case: Case, study: Study, out: Path) -> Errors:
    """Imitation of the scene's own film in H.264, by pixels, from no action at all."""
    scene = load_scene(name, **case.options)
    task, truth = made_true(scene, name)
    path = out / name / "own.mp4"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        simulate_video(scene, path)
    print(f"\n{name}, its own film", flush=True)
    loss = make_loss("pixel", task, None, None)
    values = inverted(scene, path, {case.unknown: np.zeros_like(truth)}, loss, study, out / name / "own")
    return errors_of(scene, task, case, np.reshape(values, truth.shape))


def report(results: Mapping[str, Mapping[str, Sequence[Errors]]], study: Study) -> str:
    """The tables as Markdown with the paper's numbers beside them."""
    lines = [
        "# Imitation", "",
        "Errors of the imitated motion: mean L1 error of the normalised outputs of the state head, summed over the frames, as in",
        "the paper (whose outputs have another scale), and the mean distance in parts of the range of the true motion; mean and",
        f"standard deviation over {study.repeats} path-traced films ({SIZE} x {SIZE} pixels), each with its own look and its own",
        "first guess. The last but one column is the error of the actions, frame by frame.",
        f"Frames: {study.sampling}; {study.iterations} steps of {study.optimizer.upper()}.", "",
    ]  # fmt: skip
    for name, by_loss in results.items():
        rows = []
        for kind, some in by_loss.items():
            total, part, action = (np.array([getattr(e, key) for e in some]) for key in ("total", "part", "action"))
            rows.append([
                ROWS[kind], f"{total.mean():.2f} ± {total.std():.2f}", f"{100 * part.mean():.2f} %", f"{100 * part.max():.2f} %",
                f"{action.mean():.0f}", CASES[name].paper.get(kind),
            ])  # fmt: skip
        unit = load_scene(name).parameters[CASES[name].unknown].unit
        headers = ["", "error, sum over frames", "of the range", "largest", f"actions, rms [{unit}]", "RISP, table 3"]
        lines += [f"## {name}: {CASES[name].unknown}", "", "```", format_table(rows, headers), "```", ""]
    return "\n".join(lines)


def plot(path: Path, name: str, results: Mapping[str, Sequence[Errors]], repeat: int = 0) -> None:
    """Plot the true and the imitated motion and actions of one repeat.

    Args:
        path: picture to write.
        name: of the scene.
        results: of ``run_scene``.
        repeat: which is shown.
    """
    from matplotlib.figure import Figure

    case = CASES[name]
    scene = load_scene(name, **case.options)
    task, truth = made_true(scene, name)
    shown = {"truth": errors_of(scene, task, case, truth)}
    shown |= {ROWS[kind]: some[min(repeat, len(some) - 1)] for kind, some in results.items()}
    middle = task.head.size // 2
    figure = Figure(figsize=(10, 4), layout="constrained")
    motion, actions = figure.subplots(1, 2)
    for label, errors in shown.items():
        style = {"color": "black", "linewidth": 2.5} if label == "truth" else {"linewidth": 1.2}
        physical = next(iter(task.head.physical(torch.as_tensor(errors.outputs)).values()))[:, middle]
        motion.plot(scene.frame_dt * np.arange(len(physical)), physical, **style)
        actions.step(scene.frame_dt * np.arange(len(truth)), errors.actions, where="post", label=label, **style)
    motion.set(xlabel="time [s]", ylabel=f"{task.head.labels[middle]} [m]")
    actions.set(xlabel="time [s]", ylabel=f"{case.unknown} [{scene.parameters[case.unknown].unit}]")
    figure.legend(loc="outside lower center", ncols=4)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study: 0, or 2 for wrong input."""
    usual = Study(iterations=20, refine=0, optimizer="lbfgs", linearise_up_to=1)
    about = (__doc__ or "").splitlines()[0]
    options, study = parsed(arguments, usual, about=about, scenes=tuple(CASES), out="runs/imitation")
    out = Path(options.out)
    try:
        start(device=options.device, precision="f32")
        results = {name: run_scene(name, study, out) for name in options.scenes}
    except UserError as error:
        print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr)
        return 2
    text = report(results, study)
    for name, by_loss in results.items():
        plot(out / f"{name}.png", name, by_loss)
    listed = {
        name: {kind: [{"total": e.total, "part": e.part, "action": e.action} for e in some] for kind, some in by_loss.items()}
        for name, by_loss in results.items()
    }
    write_text(out / "imitation.json", json.dumps({"study": asdict(study), "scenes": listed}, indent=2) + "\n")
    write_text(out / "imitation.md", text)
    print(f"\n{text}\nwritten: {out}/imitation.md, imitation.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
