"""The two ablations of RISP (ICLR 2022, C.3): appearances of the training pictures, and frames compared by a loss."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch.programs import RunFolder, first_setting_difference, to_jsonable
from risp_torch.risp import load_task, training_scene
from studies.risp.tables.plan import CURVE_SCENE, SAMPLING_SCENE
from ti_sim import UserError

if TYPE_CHECKING:
    from risp_torch import Scene
    from risp_torch.inversion import Comparison, Unknowns
    from studies.risp.tables.presets import TablePreset

SAMPLINGS = ("all", "every:5", "first+last", "first+middle")
_TOGETHER = 4  # points of a landscape that are simulated together and then saved


def configs_unit(variant: str, configs: str, *, preset: TablePreset, folder: Path | str, progress: bool = True) -> dict[str, Any]:
    """Train one network and record its error on held-out appearances after every epoch (the paper's figure 6a).

    Training and test pictures are the rasteriser's, without augmentation of background, exposure and appearance: the entries of
    psi are the only variation.

    Args:
        variant: "no-grad" or "full".
        configs: appearances of the training pictures: a number of them, or "each" for a separate one for every picture.
        preset: numbers of pictures, epochs and width, seed.
        folder: of the run; a finished run in it is read, a killed one is resumed.
        progress: whether to show progress bars.

    Returns:
        {method, configs, appearances, images, epochs: [E], train: [E], test: [E] mean L1 errors of an output, seconds}.

    Raises:
        UserError: the folder holds a run with other settings; as ``train``.
    """
    from risp_torch.risp import DatasetSettings, ShardSource, TestSettings, generate, make_test_set, train
    from risp_torch.risp import preset as training_preset
    from risp_torch.scene.bridge import bridge_device

    folder, scene = Path(folder), training_scene(CURVE_SCENE, preset.size)
    task = load_task(CURVE_SCENE, scene)
    data = DatasetSettings(preset.curve_images, configs, seed=preset.seed, size=preset.size)
    test = TestSettings(appearances=preset.curve_appearances, states=preset.curve_states, seed=preset.seed)
    training = training_preset(
        preset.training, task, seed=preset.seed,
        **dict(preset.changes) | {"epochs": preset.curve_epochs, "width": preset.curve_width, "gamma": preset.curve_gamma},
        background_augmentation=False, exposure_augmentation=False, appearance_jitter=0.0,
    )  # fmt: skip
    if variant == "no-grad":
        training = replace(training, regulariser="none", gamma=0.0)
    settings = {"scene": scene.description(), "data": data.record, "test": test, "training": training}
    run, stored_result = _opened(folder, settings)
    if stored_result is not None:
        return stored_result
    network = folder / "network"
    if not RunFolder(network, {}).finished:
        generate(scene, task, data, folder / "data", progress=progress)
        pictures = make_test_set(scene, task, test, cache=folder / "test", progress=progress)
        source = ShardSource(folder / "data", scene, task)
        train(scene, task, source, training, out=network, device=str(bridge_device()), test=pictures, progress=progress)
    curves = _curves(network / "training.csv")
    result = {"method": variant, "configs": configs, "appearances": preset.curve_appearances, "images": preset.curve_images}
    run.write_result(result | curves)
    shutil.rmtree(folder / "data", ignore_errors=True)  # gigabytes, which can be regenerated from the seed
    return run.read_result()


def _curves(table: Path) -> dict[str, Any]:
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {"train": "error", "test": "test"}
    return {
        "epochs": [int(float(row["epoch"])) + 1 for row in rows], "seconds": sum(float(row["seconds"]) for row in rows)
    } | {name: [float(row[column]) for row in rows] for name, column in columns.items()}  # fmt: skip


def sampling_unit(
    method: str, *, network: Path | str | None, target: Path | str, folder: Path | str, points: int = 41, progress: bool = True
) -> dict[str, Any]:
    """Loss of the rod's film against Young's modulus for all frames or some of them (the paper's figure 6b).

    The loss of every frame is computed once; the samplings are means over frames.

    Args:
        method: "pixel", "no-grad" or "full".
        network: file of the latter two.
        target: folder of the frames of the target film (``trials.target_film``).
        folder: of the run; a killed one is resumed at the first missing point.
        points: of the grid over the modulus's range.
        progress: whether to show a progress bar.

    Returns:
        {method, name, unit, values: [points], truth, losses: {sampling: [points]}}; null where a simulation diverged.

    Raises:
        UserError: the folder holds another run, or as ``RispLoss`` and ``read_target``.
    """
    from risp_torch.inversion import Comparison, Unknowns
    from studies.risp.trials.methods import make_loss
    from studies.risp.trials.target import read_target
    from studies.risp.trials.trial import load_trial, true_scene

    trial = load_trial(SAMPLING_SCENE, "identify")
    scene, task = true_scene(SAMPLING_SCENE, trial, _width(Path(target)))
    loss = make_loss(method, "identify", task, None, network)
    film = read_target(scene, "identify", target)
    settings = {"scene": scene.description(), "loss": loss.to_json(), "points": points}
    settings["film_sha256"] = sha256(film.float().cpu().numpy().tobytes()).hexdigest()
    run, result = _opened(Path(folder), settings)
    if result is not None:
        return result
    (name,) = trial.unknowns
    unknowns, comparison = Unknowns.of(scene, [name]), Comparison.of(scene, loss, film)
    low, high = (unknowns.scaled(bound)[0] for bound in unknowns.bounds())
    scaled = np.linspace(low, high, points)
    losses = _landscape(scene, comparison, unknowns, scaled, run, progress=progress)
    run.write_result(
        {
            "method": method, "name": name, "unit": unknowns.units[0], "truth": float(trial.truth[name]),
            "values": unknowns.physical_values(scaled[:, None])[:, 0],
            "losses": {sampling: sampled_mean(losses, sampling) for sampling in SAMPLINGS},
        }
    )  # fmt: skip
    return run.read_result()


def sampled_mean(losses: np.ndarray, sampling: str) -> np.ndarray:
    """Loss [points] over some frames.

    Args:
        losses: of every frame, [points, frames + 1].
        sampling: see ``sampled_frames``.
    """
    from risp_torch.inversion import sampled_frames

    return losses[:, list(sampled_frames(sampling, losses.shape[1] - 1))].mean(axis=1)


def _landscape(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, scaled: np.ndarray, run: RunFolder, *, progress: bool
) -> np.ndarray:
    """Loss of every frame at every point, [points, frames + 1]; NaN where the simulation diverged."""
    from tqdm import tqdm

    from risp_torch.scene.bridge import bridge_device, bridge_dtype

    saved = run.load_checkpoint()
    losses = [] if saved is None else [saved[0]["losses"]]
    done = sum(len(batch) for batch in losses)
    with tqdm(total=len(scaled), initial=done, desc="landscape", unit="point", disable=not progress) as bar:
        for first in range(done, len(scaled), _TOGETHER):
            rows = torch.as_tensor(scaled[first : first + _TOGETHER, None], dtype=bridge_dtype(), device=bridge_device())
            losses.append(_frame_losses(scene, comparison, unknowns, rows).cpu())
            run.save_checkpoint({"losses": torch.cat(losses)}, {})
            bar.update(len(rows))
    return torch.cat(losses).numpy()


def _frame_losses(scene: Scene, comparison: Comparison, unknowns: Unknowns, rows: torch.Tensor) -> torch.Tensor:
    """[n, frames + 1] float64 at scaled points [n, 1]."""
    from ti_sim import DivergenceError

    with torch.no_grad():
        try:
            observations, finite = comparison.observe(scene, unknowns.from_scaled(rows), worlds=len(rows))
        except DivergenceError:
            return torch.full((len(rows), len(comparison.frames)), torch.nan, dtype=torch.float64)
        losses = (observations - comparison.target).double().square().flatten(2).mean(dim=2)
        return torch.where(finite[:, None], losses, torch.nan).cpu()


def _opened(folder: Path, settings: Mapping[str, Any]) -> tuple[RunFolder, dict[str, Any] | None]:
    """The run in a folder, and its result if it is finished.

    Raises:
        UserError: the run there has other settings.
    """
    run = RunFolder(folder, to_jsonable(settings))
    if not run.finished:
        return RunFolder.open_or_create(folder, settings), None
    difference = first_setting_difference(run.read_settings(), run.settings)
    if difference is not None:
        raise UserError(f"the finished run in {folder} has other settings ({difference}): choose another folder")
    return run, run.read_result()


def _width(film: Path) -> int:
    """Width of the pictures of a film in a folder of PNG frames."""
    from PIL import Image

    frames = sorted(film.glob("*.png"))
    if not frames:
        raise UserError(f"there are no PNG frames in {film}: make the target's film first")
    with Image.open(frames[0]) as picture:
        return picture.width
