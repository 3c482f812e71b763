"""The whole inversion: starts, search, Gauss-Newton refinement, error bars, and the folder that holds them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.bridge import bridge_dtype
from risp_torch.bridge.checks import bridge_device
from risp_torch.inversion.film import film, film_losses
from risp_torch.inversion.optimise import History, OptimiseSettings, descend
from risp_torch.inversion.uncertainty import (
    Uncertainty,
    along_weak_directions,
    compression_shift,
    linearise,
    newton_step,
    uncertainty,
)
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.run_folder import RunFolder, inversion_result
from risp_torch.scene import Scene
from risp_torch.suggest import unknown_name_error
from risp_torch.video import read_video
from ti_sim.adjoint import Adjoint
from ti_sim.base.errors import DivergenceError, UserError

SAME_MINIMUM = 1.05  # a start belongs to the best one's minimum when its loss is at most this many times the lowest


@dataclass(frozen=True)
class Inversion:
    """What an inversion found.

    Attributes:
        unknowns: what was looked for.
        values: label -> estimate, physical units.
        sd: label -> standard deviation in scaled units (decades for log10).
        uncertainty: error bars and unseen directions.
        initial, final: [S, K] physical values of the starts.
        losses: [S] final losses over the whole film.
        status: per start: "best", "same minimum", "higher loss" or "diverged".
        best: index of the best start.
        history: of the search.
        seconds: wall-clock time.
        folder: where the run was written, or None.
    """

    unknowns: Unknowns
    values: dict[str, float]
    sd: dict[str, float]
    uncertainty: Uncertainty
    initial: np.ndarray
    final: np.ndarray
    losses: np.ndarray
    status: list[str]
    best: int
    history: History
    seconds: float
    folder: Path | None

    def scaled_error(self, truth: Mapping[str, float]) -> dict[str, float]:
        """Estimate minus truth of every label in scaled units (log10 ratio for log10)."""
        row = np.array([truth[label] for label in self.unknowns.labels])
        estimate = np.array([self.values[label] for label in self.unknowns.labels])
        return dict(zip(self.unknowns.labels, self.unknowns.scaled(estimate) - self.unknowns.scaled(row), strict=True))


def invert(
    scene: Scene,
    video: str | Path | np.ndarray | torch.Tensor,
    unknown: Sequence[str],
    *,
    starts: int | Sequence[Mapping[str, Any]] = 4,
    settings: OptimiseSettings | None = None,
    refine: int = 15,
    adjoint: Adjoint | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Inversion:
    """Find the unknown numbers of a scene from a film of it.

    Args:
        scene: the scene; its own values of the unknowns are not used.
        video: an .mp4, a folder of PNG frames, or linear frames [T, H, W, 3].
        unknown: parameter names with bounds.
        starts: how many guesses spread over the allowed ranges, or the guesses themselves (name -> value).
        settings: of the search.
        refine: Gauss-Newton steps after the search, taken while they lower the loss.
        adjoint: how rollouts keep states.
        seed: of the starts' pairing.
        out: folder for settings, result, plots, strip and video; an unfinished run in it goes on where it was killed.
        progress: whether bars are shown.

    Returns:
        Estimates with error bars.

    Raises:
        UserError: a name, start or video is not usable. DivergenceError: no start could be simulated.
    """
    began = time.perf_counter()
    settings = settings or OptimiseSettings()
    unknowns = Unknowns.of(scene, unknown)
    target = load_target(scene, video)
    initial = unknowns.starts(starts, seed) if isinstance(starts, int) else _given_starts(unknowns, starts)
    z = unknowns.unbounded(initial)
    folder = None
    if out is not None:
        folder = RunFolder.open_or_create(out, _settings_of(scene, video, unknown, initial, settings, refine, seed))
    z, history = descend(scene, target, unknowns, z, settings, folder=folder, adjoint=adjoint, progress=progress)
    final = unknowns.vector(unknowns.physical(z)).double().cpu().numpy()
    final, losses = _refined(scene, target, unknowns, final, refine, history, progress=progress)
    if not np.isfinite(losses).any():
        scene.rollout(unknowns.physical(z))  # raises, and names body and step
        raise DivergenceError("every start of the inversion diverged: take smaller steps (more substeps)", body="", step=0)
    best = int(np.argmin(losses))
    at = along_weak_directions(scene, unknowns, linearise(scene, target, unknowns, final[best]))
    bars = uncertainty(at, unknowns)
    status = _status(losses, best)
    shift = np.zeros(len(bars.sd))
    even = target.shape[1] % 2 == 0 and target.shape[2] % 2 == 0  # what H.264 with 4:2:0 colour can hold
    if even and isinstance(video, str | Path) and Path(video).is_file():
        shift = compression_shift(at, film_at(scene, unknowns, final[best]), unknowns, fps=1 / scene.frame_dt)
    bars = replace(bars, sd=np.sqrt(bars.sd**2 + _scatter(unknowns, final, status) ** 2 + shift**2))
    result = Inversion(
        unknowns=unknowns,
        values=dict(zip(unknowns.labels, final[best].tolist(), strict=True)),
        sd=dict(zip(unknowns.labels, bars.sd.tolist(), strict=True)),
        uncertainty=bars, initial=initial, final=final, losses=losses, status=status, best=best,
        history=history, seconds=time.perf_counter() - began, folder=folder.path if folder else None,
    )  # fmt: skip
    if folder is not None:
        write_report(scene, target, result, folder, seed=seed)
    return result


def load_target(scene: Scene, video: str | Path | np.ndarray | torch.Tensor) -> torch.Tensor:
    """The target film [frames + 1, H, W, 3] (linear rgb, working precision), checked against the scene."""
    camera = scene.camera
    if camera is None:
        raise UserError("the scene has no camera: add one with add_camera")
    if isinstance(video, str | Path):
        frames = read_video(video, fps=1 / scene.frame_dt, size=(camera.height, camera.width), frames=scene.frames + 1)
    else:
        frames = video
        wanted = (scene.frames + 1, camera.height, camera.width, 3)
        if tuple(frames.shape) != wanted:
            raise UserError(f"the target film has shape {tuple(frames.shape)}, and the scene's films have {wanted}")
    return torch.as_tensor(frames, dtype=bridge_dtype(), device=bridge_device())


def write_report(scene: Scene, target: torch.Tensor, result: Inversion, folder: RunFolder, *, seed: int) -> None:
    """Write result.json, the plots of the search, and a strip and a video of target | estimate | difference."""
    from risp_torch import report

    unknowns, history = result.unknowns, result.history
    values = torch.stack(history.values).cpu().numpy()
    low, high = unknowns.bounds()
    labels = unknowns.labels
    report.plot_losses(
        folder.path / "loss.png", torch.stack(history.losses).cpu().numpy(),
        [f"start {i + 1}" + ("" if i == result.best else f": {s}") for i, s in enumerate(result.status)], best=result.best,
    )  # fmt: skip
    report.plot_parameters(
        folder.path / "parameters.png", {label: values[:, :, k] for k, label in enumerate(labels)},
        {label: (low[k], high[k]) for k, label in enumerate(labels)}, dict(zip(labels, unknowns.units, strict=True)),
        None, dict(zip(labels, unknowns.scales, strict=True)), best=result.best,
    )  # fmt: skip
    estimate = film_at(scene, unknowns, result.final[result.best]).cpu().numpy()
    report.write_strip(folder.path / "strip.png", target.cpu().numpy(), estimate, fps=1 / scene.frame_dt)
    report.comparison_video(folder.path / "comparison.mp4", target.cpu().numpy(), estimate, 1 / scene.frame_dt)
    folder.write_result(
        inversion_result(
            scene=scene.name, seed=seed, settings=folder.settings,
            unknowns={
                label: {
                    "value": result.values[label], "unit": unknowns.units[k], "low": low[k], "high": high[k],
                    "sd": result.sd[label], "observable": result.uncertainty.observable[k],
                    "scale": unknowns.scales[k],
                }
                for k, label in enumerate(labels)
            },
            starts=[
                {
                    "initial": dict(zip(labels, result.initial[s], strict=True)),
                    "final": dict(zip(labels, result.final[s], strict=True)),
                    "loss": result.losses[s], "status": result.status[s],
                }
                for s in range(len(result.losses))
            ],
            best=result.best, seconds=result.seconds,
        )
        | {"unseen": result.uncertainty.unseen}
    )  # fmt: skip


def film_at(scene: Scene, unknowns: Unknowns, physical: np.ndarray) -> torch.Tensor:
    """Film of the scene with the unknowns at ``physical`` [K], [T, H, W, 3]."""
    row = torch.as_tensor(unknowns.scaled(physical)[None], dtype=bridge_dtype(), device=bridge_device())
    with torch.no_grad():
        pictures, _ = film(scene, unknowns.from_scaled(row), worlds=1, frames=scene.frames)
    return pictures[0]


def _refined(
    scene: Scene, target: torch.Tensor, unknowns: Unknowns, values: np.ndarray, steps: int, history: History,
    *, progress: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Newton steps from every start's end, each kept only if the loss falls; values [S, K] and losses [S].

    Every round is added to the history.
    """
    frames = target.shape[0] - 1
    scaled = unknowns.scaled(values)
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    ranges = unknowns.scaled_range()

    def losses_at(points: np.ndarray) -> np.ndarray:
        rows = torch.as_tensor(points, dtype=target.dtype, device=target.device)
        given = unknowns.from_scaled(rows)
        return film_losses(scene, given, target, worlds=len(rows), frames=frames).double().cpu().numpy()

    losses = losses_at(scaled)
    active = np.isfinite(losses)
    for _ in tqdm(range(steps), desc="refining", disable=not progress, leave=False):
        if not active.any():
            break
        for s in np.flatnonzero(active):
            step = newton_step(linearise(scene, target, unknowns, _physical(unknowns, scaled[s]))) * ranges
            tries = np.clip(scaled[s] + np.array([[1.0], [0.3], [0.05]]) * step, low, high)
            found = losses_at(tries)
            pick = int(np.argmin(found))
            if found[pick] < losses[s]:
                active[s] = losses[s] - found[pick] > 1e-7 * losses[s]
                scaled[s], losses[s] = tries[pick], found[pick]
            else:
                active[s] = False
        history.losses.append(torch.as_tensor(losses).to(target))
        history.values.append(torch.as_tensor(_physical(unknowns, scaled)).to(target))
    return _physical(unknowns, scaled), losses


def _physical(unknowns: Unknowns, scaled: np.ndarray) -> np.ndarray:
    return np.where(np.array(unknowns.scales) == "log10", 10.0**scaled, scaled)


def _given_starts(unknowns: Unknowns, starts: Sequence[Mapping[str, Any]]) -> np.ndarray:
    rows = []
    for start in starts:
        for name in start:
            if name not in unknowns.params:
                raise unknown_name_error("unknown", name, list(unknowns.params))
        rows.append(np.concatenate([np.ravel(start.get(name, p.value)) for name, p in unknowns.params.items()]))
    return np.array(rows, dtype=np.float64)


def _status(losses: np.ndarray, best: int) -> list[str]:
    names = []
    for index, loss in enumerate(losses):
        if index == best:
            names.append("best")
        elif not np.isfinite(loss):
            names.append("diverged")
        else:
            names.append("same minimum" if loss <= SAME_MINIMUM * losses[best] + 1e-9 else "higher loss")
    return names


def _scatter(unknowns: Unknowns, final: np.ndarray, status: list[str]) -> np.ndarray:
    """Standard deviation [K] (scaled units) of the starts that ended in the best one's minimum.

    Contacts that set in a step earlier or later make the loss rough on a small scale; starts caught in different dents of
    one minimum show how much that matters, which no local Jacobian can.
    """
    together = [index for index, name in enumerate(status) if name in ("best", "same minimum")]
    if len(together) < 2:
        return np.zeros(final.shape[1])
    return unknowns.scaled(final[together]).std(axis=0, ddof=1)


def _settings_of(
    scene: Scene, video: Any, unknown: Sequence[str], initial: np.ndarray, settings: OptimiseSettings, refine: int, seed: int
) -> dict[str, Any]:  # fmt: skip
    return {
        "scene": scene.name,
        "video": str(video) if isinstance(video, str | Path) else f"frames {tuple(video.shape)}",
        "unknown": list(unknown),
        "initial": initial.tolist(),
        "search": asdict(settings),
        "refine": refine,
        "seed": seed,
        "parameters": {name: np.asarray(param.value).tolist() for name, param in scene.parameters.items()},
        "precision": str(bridge_dtype()),
    }
