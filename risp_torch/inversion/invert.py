"""The whole inversion: starts, search, Gauss-Newton refinement, error bars, and the folder that holds them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.files.memory import check_memory
from risp_torch.files.run_folder import RunFolder, inversion_result
from risp_torch.files.suggest import unknown_name_error
from risp_torch.files.video import read_video
from risp_torch.inversion.comparison import Comparison
from risp_torch.inversion.compression import (
    CompressedFilm,
    bytes_per_frame,
    compressed_films,
    compression_moves,
    compression_power,
    noise_variance,
    size_of_moves,
)
from risp_torch.inversion.element_pictures import write_elements
from risp_torch.inversion.film import film
from risp_torch.inversion.films import Films, films_loss, for_every_film, values_for_every_film
from risp_torch.inversion.flatness import flatness
from risp_torch.inversion.losses import Loss, PictureLoss, PixelLoss
from risp_torch.inversion.newton_steps import NewtonSteps, newton_descend
from risp_torch.inversion.optimise import History, OptimiseSettings, descend
from risp_torch.inversion.refine import refined
from risp_torch.inversion.smoothness import Weights
from risp_torch.inversion.uncertainty import (
    Linearisation,
    Spread,
    Uncertainty,
    along_weak_directions,
    linearise,
    newton_step,
    reach,
    uncertainty,
    unfinished,
    widened,
    without_error_bars,
)
from risp_torch.inversion.unknowns import Bounds, Unknowns
from risp_torch.inversion.warm_start import CmaSettings, warmed
from risp_torch.inversion.wide_steps import WIDE_SEARCH, WideSteps, settle_whitened, wide_gauss_newton
from risp_torch.risp.psi import RenderingParameters
from risp_torch.scene import Scene
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import Count, FromZero, Seed, checked
from ti_sim.rollout.adjoint import Adjoint

Video = str | Path | np.ndarray | torch.Tensor
# Unknowns with Gauss-Newton steps and error bars, each of which takes two films for every unknown; and where nothing is rendered.
MOST_LINEARISED, MOST_WITHOUT_PICTURES = 40, 400
WIDE_STEP = 1e-2  # of the range: step of the differences for error bars of more unknowns than MOST_LINEARISED
MOST_PANELS = 12  # numbers of one parameter that are plotted and listed one by one
ROUGH_STEP = 4e-2  # of the range: step of the differences that tell whether a search on a rough loss has arrived
UNMOVED = 1e-5  # of the range: what rounding moves a guess by
MISFIT = 4.0  # times what noise and compression explain: a larger mean squared residual fits nothing
SAME_MINIMUM = 1.05  # a start belongs to the best one's minimum when its loss is at most this many times the lowest


@dataclass(frozen=True)
class Inversion:
    """What an inversion found.

    Attributes:
        unknowns: what was looked for.
        values: label -> estimate, physical units.
        sd: label -> standard deviation in scaled units (decades for log10); NaN where there is none.
        uncertainty: error bars and unseen directions.
        initial, final: [S, K] physical values of the starts.
        losses: [S] final losses over all frames that count.
        status: per start: "best", "same minimum", "higher loss", "stopped early" or "diverged".
        best: index of the best start.
        converged: whether the next Gauss-Newton step is within the error bars; None where there are none.
        misfit: mean squared residual over what noise and compression explain of it; None where that is not known.
        doubts: sentences that say why the estimate is not to be trusted: the search has not arrived, or nothing fits the film.
        history: of the search.
        remarks: sentences about what else to doubt.
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
    converged: bool | None
    misfit: float | None
    doubts: list[str]
    history: History
    remarks: list[str]
    seconds: float
    folder: Path | None

    @property
    def fits(self) -> bool | None:
        """Whether noise and compression explain what the estimate leaves of the film; None where that is not known."""
        return None if self.misfit is None else self.misfit <= MISFIT

    def scaled_error(self, truth: Mapping[str, float]) -> dict[str, float]:
        """Estimate minus truth of every label in scaled units (log10 ratio for log10)."""
        row = np.array([truth[label] for label in self.unknowns.labels])
        estimate = np.array([self.values[label] for label in self.unknowns.labels])
        return dict(zip(self.unknowns.labels, self.unknowns.scaled(estimate) - self.unknowns.scaled(row), strict=True))


@checked
def invert(
    scene: Scene,
    video: Video | Sequence[Video] | None,
    unknown: Sequence[str],
    *,
    cameras: Sequence[str] = (),
    per_film: Sequence[str] = (),
    loss: Loss | None = None,
    sampling: str = "all",
    bounds: Bounds | None = None,
    psi: RenderingParameters | None = None,
    smooth: Weights | None = None,
    starts: Count | list[Mapping[str, Any]] | tuple[Mapping[str, Any], ...] = 4,
    settings: NewtonSteps | OptimiseSettings | WideSteps | None = None,
    warm_start: CmaSettings | None = None,
    refine: FromZero = 15,
    linearise_up_to: Count | None = None,
    adjoint: Adjoint | None = None,
    seed: Seed = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Inversion:
    """Find the unknown numbers of a scene from a film of it.

    Args:
        scene: the scene, or several films of one (``Films``); its own values of the unknowns are not used.
        video: an .mp4, a folder of PNG frames, or linear frames [T, H, W, 3]; None for a loss that needs no film. Several films,
            in a list, are searched together.
        unknown: parameter names with bounds, and "psi" for all rendering parameters together.
        cameras: names of the cameras of several films, one for each; the scene's first camera filmed all where none is named.
        per_film: of several films, parameters that each has of its own, such as velocities at the start. Unknown or known, that
            of the second film is called "body.velocity@2", in bounds and results, too; all other numbers are shared.
        loss: what films are compared by, ``PixelLoss()`` by default.
        sampling: frames that count: "all", "last", "first+last", "first+middle" or "every:K".
        bounds: name -> (low, high) of unknowns that have none in the scene, or others.
        psi: what the unknown "psi" stands for, the scene's usual appearances by default.
        smooth: name -> weight, of unknowns with a number for each element of a solid or sheet: what is added to the loss is the
            weight times the mean over elements that share a face (triangles: an edge) of the squared difference of their scaled
            values (decades for log10).
        starts: how many guesses spread over the allowed ranges, or the guesses themselves (name -> value; what a guess leaves out
            has the scene's value).
        settings: of the search; by default ``usual_search``. Wide steps take no checkpoints: a killed run makes them again.
        warm_start: a search without gradients from every start, at whose ends the search begins.
        refine: Gauss-Newton steps after the search, taken while they lower the loss; none after wide steps on a rough loss, whose
            dents would catch them.
        linearise_up_to: number of unknowns up to which there are Gauss-Newton steps and error bars, each of which takes two films
            for every unknown; 40 by default, and 400 for losses that need no film.
        adjoint: how rollouts keep states.
        seed: of the starts' pairing.
        out: folder for settings, result, plots, strip and video; an unfinished run in it goes on where it was killed.
        progress: whether bars are shown.

    Returns:
        Estimates with error bars (NaN beyond ``linearise_up_to``).

    Raises:
        UserError: a name, start, video, loss or smoothness is not usable, or pycma is missing.
        DivergenceError: no start could be simulated.
    """
    began = time.perf_counter()
    loss = loss or PixelLoss()
    unknown = [unknown] if isinstance(unknown, str) else list(unknown)
    if isinstance(video, list | tuple) or isinstance(scene, Films) or cameras or per_film:
        video = list(video) if isinstance(video, list | tuple) else [video]
        scene = scene if isinstance(scene, Films) else Films(scene, len(video), cameras=cameras, per_film=per_film)
        loss, own = films_loss(loss), (scene.per_film, len(video))
        unknown, bounds = list(for_every_film(unknown, *own)), values_for_every_film(bounds or {}, *own)
        starts = starts if isinstance(starts, Integral) else [values_for_every_film(start, *own) for start in starts]
    unknowns = Unknowns.of(scene, unknown, bounds=bounds, psi=psi, smooth=smooth)
    settings = settings or usual_search(loss, len(unknowns.labels))
    loss.check(scene)
    if settings.first_frames is not None and settings.first_frames > scene.frames:
        raise UserError(f"first_frames is {settings.first_frames}, and the film has {scene.frames} frame intervals: give fewer")
    pictures = None if video is None else load_target(scene, video)
    comparison = Comparison.of(scene, loss, pictures, sampling)
    if isinstance(starts, Integral) and isinstance(pictures, torch.Tensor):  # each has a film of its own, and its gradient
        check_memory(2 * int(starts) * pictures.nbytes, f"the films of {starts} starts", "take fewer --starts")
    initial = unknowns.starts(int(starts), seed) if isinstance(starts, Integral) else _given_starts(unknowns, starts)
    z = unknowns.unbounded(initial)
    folder = None
    if out is not None:
        asked = _settings_of(scene, video, pictures, unknowns, initial, settings, refine, seed)
        asked |= {"loss": loss.to_json(), "sampling": sampling, "linearise_up_to": linearise_up_to}
        asked |= {"smooth": dict(unknowns.smoothness.given), "warm_start": warm_start and asdict(warm_start)}
        folder = RunFolder.open_or_create(out, asked)
    history = History()
    if warm_start is not None and (folder is None or folder.load_checkpoint() is None):
        z, history = warmed(scene, comparison, unknowns, z, warm_start, seed=seed, progress=progress)
    best = None
    if isinstance(settings, WideSteps):
        begin = unknowns.vector(z).double().cpu().numpy()
        final, best = wide_gauss_newton(scene, comparison, unknowns, begin, settings, history, progress=progress)
        final[best], comparison = settle_whitened(
            scene, comparison, unknowns, final[best], settings, history, start=best, seed=seed, progress=progress
        )
        refine = 0 if loss.rough else refine
    elif isinstance(settings, NewtonSteps):
        begin, near = unknowns.vector(z).double().cpu().numpy(), 12 * _floor(loss, pictures, comparison)
        final = newton_descend(
            scene, comparison, unknowns, begin, settings, history, near=near, folder=folder, progress=progress
        )
    else:
        z, history = descend(
            scene, comparison, unknowns, z, settings, folder=folder, adjoint=adjoint, history=history, progress=progress
        )
        final = unknowns.vector(z).double().cpu().numpy()
    most = linearise_up_to or (MOST_LINEARISED if loss.needs_film else MOST_WITHOUT_PICTURES)
    linear = len(unknowns.labels) <= most
    final, losses = refined(scene, comparison, unknowns, final, refine if linear else 0, history, progress=progress)
    if not np.isfinite(losses).any():
        scene.rollout(unknowns.physical(z))  # raises, and names body and step
        raise DivergenceError("every start of the inversion diverged: take smaller steps (more substeps)", body="", step=0)
    if best is None or refine or not np.isfinite(losses[best]):
        best = int(np.argmin(losses))
    if progress:
        tqdm.write("error bars, plots and videos ...", file=sys.stderr)
    status = _status(losses, best, history.stopped)
    bars, misfit, doubts = without_error_bars(len(unknowns.labels)), None, []
    if linear:
        bars, misfit, doubts = _judged(scene, comparison, unknowns, initial, final, losses, best, pictures, video)
    remarks = _remarks(unknowns, final[best], status)
    if not linear:
        remarks.insert(0, f"{len(unknowns.labels)} unknowns: no Gauss-Newton steps, no error bars (--linearise-up-to is {most})")
    result = Inversion(
        unknowns=unknowns,
        values=dict(zip(unknowns.labels, final[best].tolist(), strict=True)),
        sd=dict(zip(unknowns.labels, bars.sd.tolist(), strict=True)),
        uncertainty=bars, initial=initial, final=final, losses=losses, status=status, best=best,
        converged=not any(sentence.startswith("not converged") for sentence in doubts) if linear else None,
        misfit=misfit, doubts=doubts, history=history, remarks=remarks, seconds=time.perf_counter() - began,
        folder=folder.path if folder else None,
    )  # fmt: skip
    if folder is not None:
        write_report(scene, loss.pictures(scene) if pictures is None else pictures, result, folder, seed=seed, loss=loss)
    return result


def load_target(scene: Scene, video: Video | Sequence[Video]) -> torch.Tensor:
    """The target film [frames + 1, H, W, 3] (linear rgb, working precision), checked against the scene; several side by side.

    Raises:
        UserError: no camera; a video that ``read_video`` refuses; frames of another shape, not finite or outside [0, 1].
    """
    if isinstance(scene, Films):
        if len(video) != len(scene.films):
            raise UserError(f"{len(video)} films were given, and {len(scene.films)} are described: give as many")
        return torch.cat([load_target(film, each) for film, each in zip(scene.films, video, strict=True)], dim=-2)
    camera = scene.camera
    if camera is None:
        raise UserError("the scene has no camera: add one with add_camera")
    if isinstance(video, str | Path):
        frames = read_video(video, fps=1 / scene.frame_dt, size=(camera.height, camera.width), frames=scene.frames + 1)
        return torch.as_tensor(frames, dtype=bridge_dtype(), device=bridge_device())
    wanted = (scene.frames + 1, camera.height, camera.width, 3)
    if tuple(video.shape) != wanted:
        raise UserError(f"the target film has shape {tuple(video.shape)}, and the scene's films have {wanted}")
    frames = torch.as_tensor(video).detach().to(dtype=bridge_dtype(), device=bridge_device())
    if not torch.isfinite(frames).all() or frames.min() < -0.01 or frames.max() > 1.01:
        raise UserError(
            f"the target film has values from {float(frames.min()):.4g} to {float(frames.max()):.4g}: "
            "give finite linear colour in [0, 1] (bytes: divide by 255 and undo sRGB)"
        )
    return frames


def write_report(
    scene: Scene, target: torch.Tensor | None, result: Inversion, folder: RunFolder, *, seed: int, loss: Loss
) -> None:
    """Write result.json, the plots of the search, bodies coloured by their elements' numbers, and a strip and a video.

    Args:
        scene: what was filmed.
        target: film [T, H, W, 3], which the strip and the video compare with the estimate's; None where there is nothing to see.
        result: of the inversion.
        folder: of the run.
        seed: of the starts.
        loss: whose appearance the estimate is shown in.
    """
    from risp_torch.files import report

    unknowns, history = result.unknowns, result.history
    values = torch.stack(history.values).cpu().numpy()
    low, high = unknowns.bounds()
    labels = unknowns.labels
    report.plot_losses(
        folder.path / "loss.png", torch.stack(history.losses).cpu().numpy(),
        [f"start {i + 1}" + ("" if i == result.best else f": {s}") for i, s in enumerate(result.status)], best=result.best,
    )  # fmt: skip
    sizes = {name: part.stop - part.start for name, part in unknowns.groups.items()}
    listed = [k for name, part in unknowns.groups.items() if sizes[name] <= MOST_PANELS for k in range(part.start, part.stop)]
    if listed:
        report.plot_parameters(
            folder.path / "parameters.png", {labels[k]: values[:, :, k] for k in listed},
            {labels[k]: (low[k], high[k]) for k in listed}, dict(zip(labels, unknowns.units, strict=True)),
            None, dict(zip(labels, unknowns.scales, strict=True)), best=result.best,
        )  # fmt: skip
    long = {
        name: tuple(
            rows[result.best, part].reshape(np.shape(unknowns.params[name].value)) for rows in (result.initial, result.final)
        )
        for name, part in unknowns.groups.items()
        if sizes[name] > MOST_PANELS
    }
    if long:
        report.plot_entries(folder.path / "entries.png", long, {name: unknowns.params[name].unit for name in long})
    write_elements(folder.path / "elements.png", scene, unknowns, {"estimate": result.final[result.best]})
    if target is not None:
        shown = film_at(scene, unknowns, result.final[result.best], loss).cpu().numpy()
        report.write_strip(folder.path / "strip.png", target.cpu().numpy(), shown, fps=1 / scene.frame_dt)
        report.comparison_video(folder.path / "comparison.mp4", target.cpu().numpy(), shown, 1 / scene.frame_dt)
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
        | {"converged": result.converged, "fits": result.fits, "misfit": result.misfit, "doubts": result.doubts}
        | {"unseen": result.uncertainty.unseen, "remarks": result.remarks}
        | {"observable_modes": result.uncertainty.observable_modes}
    )  # fmt: skip


def film_at(scene: Scene, unknowns: Unknowns, physical: np.ndarray, loss: Loss) -> torch.Tensor:
    """Film of the scene with the unknowns at ``physical`` [K], in the loss's appearance, [T, H, W, 3]."""
    row = torch.as_tensor(unknowns.scaled(physical)[None], dtype=bridge_dtype(), device=bridge_device())
    with torch.no_grad():
        pictures, _ = film(scene, {**loss.appearance(), **unknowns.from_scaled(row)}, worlds=1, frames=scene.frames)
    return pictures[0]


def _is_file(video: object) -> bool:
    if isinstance(video, list):
        return all(_is_file(each) for each in video)
    return isinstance(video, str | Path) and Path(video).is_file()


def _bytes(video: Any) -> float:
    """Bytes a frame of a file, or of all files whose films are compared side by side."""
    return sum(map(_bytes, video)) if isinstance(video, list) else bytes_per_frame(Path(video))


def usual_search(loss: Loss, count: int) -> NewtonSteps | OptimiseSettings | WideSteps:
    """The search that is taken where none is given, for so many unknowns.

    ``WIDE_SEARCH`` for losses that are rough in the small (``Loss.rough``); otherwise Levenberg-Marquardt steps over a growing
    horizon, and gradient steps for more than 40 unknowns, each of which such a step takes two films for.
    """
    if loss.rough:
        return WIDE_SEARCH
    return NewtonSteps() if count <= MOST_LINEARISED else OptimiseSettings()


def _floor(loss: Loss, pictures: torch.Tensor | None, comparison: Comparison) -> float:
    """``Loss.floor`` by the first frames of a film that count."""
    if pictures is None or not isinstance(loss, PictureLoss):
        return loss.floor(comparison.target.new_zeros((0, 0, 0, 3)))
    return loss.floor(pictures[list(comparison.frames)[:MOST_PANELS]])


def _judged(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, initial: np.ndarray, final: np.ndarray, losses: np.ndarray,
    best: int, pictures: torch.Tensor | None, video: object,
) -> tuple[Uncertainty, float | None, list[str]]:  # fmt: skip
    """Error bars at the end of the best start, the misfit (``Inversion.misfit``), and doubts in the estimate."""
    loss, values = comparison.loss, final[best]
    if len(unknowns.labels) <= MOST_LINEARISED:
        at = along_weak_directions(scene, unknowns, linearise(scene, comparison, unknowns, values))
    else:  # whose rounds would each take as long as the Jacobian; wider steps lift weak responses above rounding, too
        at = linearise(scene, comparison, unknowns, values, step=WIDE_STEP)
    estimate = film_at(scene, unknowns, values, loss) if isinstance(loss, PictureLoss) else None
    floor = _floor(loss, estimate, comparison)
    films, moves = [], np.zeros((1, len(values)))
    even = estimate is not None and estimate.shape[1] % 2 == 0 and estimate.shape[2] % 2 == 0  # what 4:2:0 colour can hold
    if even and _is_file(video) and not loss.lasting:
        films = compressed_films(at, estimate, fps=1 / scene.frame_dt)
        moves = compression_moves(at, films)
    spread, ranges = Spread.of(at, floor), unknowns.scaled_range()
    # Twelve times the variance of rounding is the square of a whole step, a grey level of 255 for pixels.
    scatter = _scatter(unknowns, final, losses, best, near=12 * floor)
    bars = uncertainty(at, unknowns, floor=floor, spread=spread)
    own, model = (
        widened(bars, unknowns, other, size_of_moves(moves) * ranges) for other in (np.zeros(len(values)), scatter)
    )  # fmt: skip
    # A scatter of starts none of which has arrived hides unknowns: there the bars without it tell how long a step is.
    own = replace(own, sd=np.where(model.observable, model.sd, own.sd))
    if estimate is not None and not loss.rough and len(values) <= MOST_LINEARISED:
        times = flatness(scene, unknowns, at, spread, np.hypot(spread.sizes, size_of_moves(moves @ spread.vectors)))
        bars = uncertainty(at, unknowns, floor=floor, spread=spread.stretched(times))
        moves = moves @ spread.stretch(times)
    bars = widened(bars, unknowns, scatter, size_of_moves(moves) * ranges)
    explained = _explained(at, estimate, pictures, films, video, floor)
    # Near the minimum of a rough loss its slopes are those of dents, which wide differences average over.
    rough = linearise(scene, comparison, unknowns, values, step=ROUGH_STEP) if loss.rough else at
    step = newton_step(rough)
    fit = min(1.0, explained / max(at.loss, 1e-300)) ** 0.5 if explained is not None and loss.needs_film else 1.0
    way = reach(rough, step, explained)
    bars, doubts = unfinished(bars, unknowns, step * ranges, own=own, times=way, fit=fit)
    misfit = None
    if isinstance(loss, PixelLoss):
        misfit = max(0.0, at.loss - 12 * floor) / explained
        moved = np.abs(unknowns.scaled(values) - unknowns.scaled(initial[best])) / unknowns.scaled_range()
        doubts += _misfits(misfit, at.loss, explained, unmoved=bool(moved.max() < UNMOVED))
        bars = _widened_by_misfit(bars, misfit, ranges)
    return bars, misfit, doubts


def _explained(
    at: Linearisation, estimate: torch.Tensor | None, pictures: torch.Tensor | None, films: list[CompressedFilm], video: object,
    floor: float,
) -> float | None:  # fmt: skip
    """Mean squared residual that rounding, noise and compression explain; None where a loss has other errors, too."""
    loss, frames = at.comparison.loss, list(at.comparison.frames)
    if not loss.needs_film:
        return floor
    if loss.lasting or not (films or isinstance(loss, PixelLoss)):
        return None
    noise = noise_variance(pictures[frames] - estimate[frames]) if isinstance(loss, PixelLoss) else 0.0
    return floor + noise + (compression_power(films, _bytes(video)) if films else 0.0)


def _misfits(misfit: float, loss: float, explained: float, *, unmoved: bool) -> list[str]:
    """A sentence where the estimate does not fit the film."""
    if misfit <= MISFIT:
        return []
    guess = ", a guess that no step has moved," if unmoved else ""
    return [
        f"nothing fits this film: the best start{guess} leaves {misfit:.2g} times what noise and compression explain (loss "
        f"{loss:.2g}, explained {explained:.2g}): another minimum, bounds without the truth, or a scene unlike the film's; the "
        f"error bars are widened {misfit**0.5:.2g} times, as if the rest were noise, and need not hold"
    ]


def _widened_by_misfit(bars: Uncertainty, misfit: float, ranges: np.ndarray) -> Uncertainty:
    """Error bars, up to the ranges [K], where an estimate does not fit the film.

    The residual is in the bars as noise. It is none: errors of a wrong scene or minimum hang together over the whole film, and
    count as another ``misfit`` times what noise explains.
    """
    if misfit <= MISFIT:
        return bars
    return replace(bars, sd=np.maximum(bars.sd, np.minimum(misfit**0.5 * bars.sd, ranges)))


def _given_starts(unknowns: Unknowns, starts: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Rows [S, K] of the guesses that the user gave; what a guess leaves out has the scene's value."""
    rows = []
    for start in starts:
        for name in start:
            if name not in unknowns.params:
                raise unknown_name_error("unknown", name, list(unknowns.params))
        row = []
        for name, param in unknowns.params.items():
            value = np.asarray(start.get(name, param.value), dtype=np.float64)
            if value.shape != np.shape(param.value):
                raise UserError(f"start of {name} has shape {value.shape}, and {np.shape(param.value)} is needed")
            row.append(value.ravel())
        rows.append(np.concatenate(row))
    if not rows:
        raise UserError("no starts were given: give a number of starts, or at least one guess")
    return np.array(rows)


def _status(losses: np.ndarray, best: int, stopped: Sequence[int]) -> list[str]:
    names = []
    for index, loss in enumerate(losses):
        if index == best:
            names.append("best")
        elif not np.isfinite(loss):
            names.append("diverged")
        elif index in stopped:
            names.append("stopped early")
        else:
            names.append("same minimum" if loss <= SAME_MINIMUM * losses[best] + 1e-9 else "higher loss")
    return names


def _scatter(
    unknowns: Unknowns, final: np.ndarray, losses: np.ndarray, best: int, *, near: float = (1 / 255) ** 2
) -> np.ndarray:
    """Standard deviation [K] (scaled units) of the starts that ended about as well as the best.

    That is within a fifth of its loss or ``near`` (a grey level of 255, squared), which the simplest flaw of a scene outweighs.
    The floor of a flat valley has dents (contacts that slip or stick, edges that pass behind others), and where the starts were
    caught in them shows how much that matters, which no local Jacobian can.
    """
    together = losses <= 1.2 * losses[best] + near
    if together.sum() < 2:
        return np.zeros(final.shape[1])
    return unknowns.scaled(final[together]).std(axis=0, ddof=1)


def _remarks(unknowns: Unknowns, physical: np.ndarray, status: list[str]) -> list[str]:
    """What to doubt: a minimum that one start alone found, an estimate on its bound.

    Starts that were stopped were not let look for it.
    """
    remarks = []
    others = [name for name in status if name not in ("best", "stopped early")]
    if others and "same minimum" not in others:
        remarks.append(
            f"only 1 of the {len(others) + 1} starts that went on to the end reached the lowest loss: "
            "more starts, or a growing horizon, would tell whether it is the lowest there is"
        )
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    margin = np.minimum(unknowns.scaled(physical) - low, high - unknowns.scaled(physical)) / (high - low)
    labels = unknowns.labels
    for name, part in unknowns.groups.items():
        bound = [labels[k] for k in range(part.start, part.stop) if margin[k] < 0.005]
        if len(bound) > MOST_PANELS:
            remarks.append(
                f"{len(bound)} of the {part.stop - part.start} numbers of {name} lie on their bounds: widen the bounds"
            )
        else:
            remarks += [f"the estimate of {label} lies on its bound: widen the bounds" for label in bound]
    return remarks


def _named(video: Any) -> Any:
    """A film, or each of several, for settings.json."""
    if isinstance(video, list):
        return [_named(each) for each in video]
    return str(video) if isinstance(video, str | Path) else None if video is None else f"frames {tuple(video.shape)}"


def _settings_of(
    scene: Scene, video: Any, target: torch.Tensor | None, unknowns: Unknowns, initial: np.ndarray,
    settings: NewtonSteps | OptimiseSettings | WideSteps,
    refine: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Everything that decides the outcome: a run resumes only where all of it is the same."""
    return {
        "scene": scene.description(),
        "video": _named(video),
        "video_sha256": None if target is None else sha256(target.float().cpu().numpy().tobytes()).hexdigest(),
        "unknown": {
            name: {"low": np.asarray(p.low).tolist(), "high": np.asarray(p.high).tolist(), "scale": p.scale}
            for name, p in unknowns.params.items()
        },
        "psi": None if unknowns.appearance is None else unknowns.appearance.to_json(),
        "initial": initial.tolist(),
        "search": asdict(settings),
        "refine": refine,
        "seed": seed,
        "precision": str(bridge_dtype()),
    }
