"""One trial by one method, with its result in a folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np
import torch

from risp_torch import CmaSettings, OptimiseSettings, PixelWeights, WideSteps
from risp_torch.inversion import Comparison, mean_square
from risp_torch.programs import RunFolder, first_setting_difference, to_jsonable
from risp_torch.scene.bridge import bridge_dtype
from studies.risp.trials.bars import Bars
from studies.risp.trials.errors import single_world, trial_error, unseen_errors
from studies.risp.trials.methods import NEAR, NETWORK_METHODS, check_method, make_loss
from studies.risp.trials.paper_search import PAPER_SEARCH
from studies.risp.trials.search import Found, search
from studies.risp.trials.target import read_target
from studies.risp.trials.trial import Trial, Values, load_trial, set_truth, true_scene
from ti_sim import Count, FromZero, Seed, UserError, checked

if TYPE_CHECKING:
    from risp_torch import Loss, Scene, States
    from risp_torch.risp import RispTask

SCHEMA = 1
SOLVED_LOOKS = ("matched", "chain")  # methods whose estimates of numbers have error bars
_STREAMS = {"guess": 83, "initial": 84, "random": 85}  # random streams, different from those of appearances and test sets


@checked
@dataclass(frozen=True, kw_only=True)
class TrialSettings:
    """Settings of a trial.

    Attributes:
        size: side of the pictures [pixels].
        seed: of guesses and initial states; with the number of the repeat.
        search: "wide", the trial's wide steps, or "paper", that of RISP (ICLR 2022), B.3 (``PAPER_SEARCH``, ``paper_unknowns``),
            without Gauss-Newton rounds.
        starts: number of random guesses, by default that of the trial (one for the paper's search). Of several, only
            the better half continues after a fifth of the steps, and only the best after half of them (not with lbfgs, which
            finishes all).
        iterations, refine: in place of those of the search; for wide steps the number of first rounds.
        samples: light paths per pixel of the target.
        warm: "cma" begins with a gradient-free search around the guess.
        horizon: initial frames of a growing horizon.

    Raises:
        UserError: a setting is out of its range.
    """

    size: Count = 64
    seed: Seed = 0
    search: Literal["wide", "paper"] = "wide"
    starts: Count | None = None
    iterations: Count | None = None
    refine: FromZero | None = None
    samples: Count = 64
    warm: Literal["none", "cma"] = "none"
    horizon: Count | None = None

    def of_search(self, trial: Trial) -> OptimiseSettings | WideSteps:
        """Settings of the wide or the gradient steps of a trial."""
        search = trial.search if self.search == "wide" else PAPER_SEARCH
        if isinstance(search, WideSteps):
            return search.shortened(self.iterations, self.horizon)
        changes = {"iterations": self.iterations, "first_frames": self.horizon}
        starts = self.guesses(trial)
        if search.optimizer != "lbfgs" and starts > 1:
            changes["keep"] = (((0.2, (starts + 1) // 2),) if starts > 2 else ()) + ((0.5, 1),)
        return replace(search, **{name: value for name, value in changes.items() if value is not None})

    def guesses(self, trial: Trial) -> int:
        """First guesses of a trial."""
        return self.starts or (trial.starts if self.search == "wide" else 1)

    def rounds(self, trial: Trial) -> int:
        """Gauss-Newton rounds of a trial."""
        refine_rounds = trial.refine if self.search == "wide" else 0
        return refine_rounds if self.refine is None else self.refine


@checked
def run_trial(
    scene_name: str, kind: str, method: str, *, repeat: FromZero, settings: TrialSettings, network: Path | str | None = None,
    target: Path | str | None = None, begin: Values | None = None, out: Path | str, progress: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Run one trial by one method, or return the result in its folder.

    Args:
        scene_name: name of a scene, or the path of its file.
        kind: "identify", "imitate" or "reach".
        method: name from ``METHODS``.
        repeat: index of the repeat, which has its own first guess (and for "reach" initial state).
        settings: of the run.
        network: file of the methods with a network.
        target: folder of frames from ``target_film``, for the image-based methods.
        begin: for "chain": estimate of "full" on this repeat, from which the solved look continues; by default it is searched
            first, in the folder "risp" of the run.
        out: folder of the run: an unfinished one is resumed, a finished one is only read.
        progress: whether to show progress bars.

    Returns:
        The content of ``result.json``: error, unit, values, guess and initial (random values), loss_estimate, loss_truth (the
        method's own loss at the truth), reading_error (mean L1 distance between a network's predictions for the target and the
        truth), guess_error, unseen (name -> error), seconds, iterations. A solved look has its picture, ``look.png``, beside it,
        and estimates of numbers in it have error bars: bars_sd and bars_off (``Bars``).

    Raises:
        UserError: an unknown task or method, a missing or wrong file, or a folder with other settings.
        DivergenceError: no guess could be simulated.
    """
    began = time.perf_counter()
    trial = load_trial(scene_name, kind)
    check_method(method, network)
    if method == "chain" and begin is None:
        begin = run_trial(
            scene_name, kind, "full", repeat=repeat, settings=settings, network=network, target=target, out=Path(out) / "risp",
            progress=progress,
        )["values"]  # fmt: skip
    scene, task = true_scene(scene_name, trial, settings.size)
    trial = trial.of_repeat(scene.name, kind, seed=settings.seed, repeat=repeat)
    set_truth(scene, trial)
    with torch.no_grad():
        motion = scene.rollout()
    checksum = crc32(f"{scene.name} {kind}".encode())
    drawn = {name: np.random.default_rng([settings.seed, stream, repeat, checksum]) for name, stream in _STREAMS.items()}
    initial = trial.initial(drawn["initial"]) if trial.initial else {}
    for name, value in initial.items():
        scene.set(name, value)
    guesses = [trial.guess(drawn["guess"]) for _ in range(settings.guesses(trial))]
    pixel_weights = _near(scene, begin) if kind == "reach" and begin is not None else None
    loss = make_loss("matched" if method == "chain" else method, kind, task, motion, network, pixel_weights=pixel_weights)
    comparison = None if loss is None else _comparison(scene, kind, method, loss, target, trial.sampling)
    run_settings = _asked(scene_name, kind, method, repeat, settings, trial, scene, guesses, loss, comparison)
    run_settings |= {} if begin is None else {"begin": to_jsonable(begin)}
    folder = _folder(Path(out), run_settings)
    if folder.finished:
        return folder.read_result()
    if comparison is None:
        values = trial.average if method == "average" else trial.random(drawn["random"])
        estimate = Found({name: np.asarray(values[name], dtype=np.float64) for name in trial.unknowns}, float("nan"), 0)
    else:
        estimate = search(
            scene, comparison, trial, guesses, settings.of_search(trial), refine=settings.rounds(trial), begin=begin,
            paper=settings.search == "paper", warm=CmaSettings() if settings.warm == "cma" else None, seed=settings.seed,
            folder=folder, progress=progress,
        )  # fmt: skip
    result = {
        "schema": SCHEMA, "scene": scene_name, "kind": kind, "method": method, "repeat": repeat,
        "error": trial_error(trial, scene, task, motion, estimate.values), "unit": trial.unit, "values": estimate.values,
        "guess": guesses[0], "initial": initial,
        "guess_error": trial_error(trial, scene, task, motion, guesses[0]), "loss_estimate": estimate.loss,
        **_at_truth(scene, task, method, comparison, estimate.comparison, motion),
        "unseen": unseen_errors(scene_name, trial, estimate.values, fitted=scene.frames),
        "iterations": estimate.iterations, "seconds": time.perf_counter() - began,
    }  # fmt: skip
    if kind == "identify" and method in SOLVED_LOOKS:
        result |= Bars.of(scene, trial, loss, target, estimate).to_json()
    if comparison is not None and kind != "reach":
        _write_pictures(folder, scene, comparison.loss, estimate.values)
    folder.write_result(result)
    return folder.read_result()


def _near(scene: Scene, begin: Values) -> PixelWeights:
    """The pixels of the goal's picture near the bodies of an estimate."""
    rows = single_world(begin)
    with torch.no_grad():
        goal = scene.rollout(rows, worlds=1).placement[:, -1:]
    return PixelWeights.near(scene, goal, distance=NEAR)


def _write_pictures(folder: RunFolder, scene: Scene, loss: Loss, values: Values) -> None:
    """Write the pictures of the loss at an estimate, such as the solved look."""
    rows = single_world(values)
    with torch.no_grad():
        loss.write_pictures(folder.path, scene, scene.rollout(rows, worlds=1), rows)


def _comparison(scene: Scene, kind: str, method: str, loss: Loss, target: Path | str | None, sampling: str) -> Comparison:
    if loss.needs_film and target is None:
        raise UserError(f"the method {method} compares pictures: give the target's folder of frames")
    loss.check(scene)
    video = read_target(scene, kind, target) if loss.needs_film else None
    return Comparison.of(scene, loss, video, sampling)


def _at_truth(
    scene: Scene, task: RispTask, method: str, plain: Comparison | None, last: Comparison | None, motion: States
) -> dict[str, float | None]:
    """The loss of the true motion in the final comparison of the search, and the prediction error of a network for the target."""
    if plain is None or last is None:
        return {"loss_truth": None, "reading_error": None}
    with torch.no_grad():
        observed = last.loss.observe(scene, motion, {}, last.frames)
    read = None
    if method in NETWORK_METHODS and method != "chain":
        true = task.head.outputs(scene, motion.placement[0, list(plain.frames)])
        read = float((plain.target - true).abs().mean())
    return {"loss_truth": float(mean_square(observed, last.target, last.observation_count)[0]), "reading_error": read}


def _asked(
    scene_name: str, kind: str, method: str, repeat: int, settings: TrialSettings, trial: Trial, scene: Scene,
    guesses: list[Mapping[str, Any]], loss: Loss | None, comparison: Comparison | None,
) -> dict[str, Any]:  # fmt: skip
    """All data that determine the result."""
    target = None
    if comparison is not None:
        target = sha256(comparison.target.contiguous().float().cpu().numpy().tobytes()).hexdigest()
    return to_jsonable({
        "name": scene_name, "kind": kind, "method": method, "repeat": repeat, "settings": asdict(settings),
        "scene": scene.description(), "truth": trial.truth, "guesses": guesses, "measure": trial.measure,
        "search": asdict(settings.of_search(trial)), "refine": settings.rounds(trial),
        "smooth": trial.smooth if settings.search == "wide" else 0.0,
        "sampling": trial.sampling, "loss": None if loss is None else loss.to_json(), "target_sha256": target,
        "precision": str(bridge_dtype()),
    })  # fmt: skip


def _folder(path: Path, settings: dict[str, Any]) -> RunFolder:
    """The run's folder; a finished run is read if it has the same settings."""
    existing = RunFolder(path, settings)
    if not existing.finished:
        return RunFolder.open_or_create(path, settings)
    difference = first_setting_difference(existing.read_settings(), settings)
    if difference is not None:
        raise UserError(f"the run in {path} has other settings ({difference}): choose another folder")
    return existing
