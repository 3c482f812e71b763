"""Run one cell of RISP's evaluation: estimate states, identify a system, imitate a film, or reach the state in a picture."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from risp_torch.programs import number_parser
from ti_sim import Count, FromZero, Seed, UserError

if TYPE_CHECKING:
    from studies.risp.trials.run import TrialSettings

_READERS = ("average", "random", "no-grad", "full")  # methods that use single pictures
_OF_SEARCH = ("search", "starts", "iterations", "refine", "warm", "horizon")
_APPEARANCES = 4  # of a test set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, TASK, --method, --repeat, --network, the target, the settings of the search, --out."""
    parser.add_argument("scene", metavar="SCENE", help="name of a scene (quadrotor, cube, hand, rod), or path of a .py file")
    parser.add_argument("task", metavar="TASK", help="state, identify, imitate or reach: tables 1 to 4 of RISP (ICLR 2022)")
    parser.add_argument(
        "--method", required=True,
        help="average, random, pixel, perceptual, matched, no-grad, full, chain (full, then matched), or state (the oracle)",
    )
    parser.add_argument("--network", metavar="FILE", help="of no-grad and full: network.safetensors of 'risp train'")
    parser.add_argument(
        "--repeat", type=number_parser(FromZero), default=0, metavar="N", help="index of appearance and first guess (default 0)"
    )
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="seed of all random samples (default 0)")
    parser.add_argument(
        "--size", type=number_parser(Count), default=64, metavar="PIXELS", help="side of the pictures (default 64)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where everything but Mitsuba runs")
    target = parser.add_argument_group("target")
    target.add_argument(
        "--renderer", choices=("mitsuba", "rasteriser"), default="mitsuba",
        help="of the target: path traced (default, extra 'photoreal'), or a random appearance of the training's renderer",
    )  # fmt: skip
    target.add_argument("--samples", type=number_parser(Count), default=64, help="light paths for each pixel (default 64)")
    target.add_argument("--target", metavar="DIR", help="folder of the film, reused if it exists (default: in --out)")
    target.add_argument(
        "--images", type=number_parser(Count), metavar="N", help="of the task state: how many, a multiple of 4 (default 800)"
    )
    group = parser.add_argument_group("search")
    group.add_argument(
        "--search", choices=("wide", "paper"),
        help="wide: Levenberg-Marquardt with differences over wide steps, by the settings of the scene's task (default); paper: "
        "RMSProp with the paper's settings",
    )
    group.add_argument("--starts", type=number_parser(Count), help="first guesses (default: the task's)")
    group.add_argument("--iterations", type=number_parser(Count), help="gradient steps (default: the scene's)")
    group.add_argument("--refine", type=number_parser(FromZero), help="Gauss-Newton rounds (default: the scene's)")
    group.add_argument(
        "--warm-start", dest="warm", choices=("none", "cma"), help="cma begins with a gradient-free search (extra 'search')"
    )
    group.add_argument(
        "--horizon", type=number_parser(Count), metavar="FRAMES", help="begin with this number of frames and let it grow"
    )
    parser.add_argument("--out", metavar="DIR", help="folder; an unfinished run in it is resumed (default: runs/TASK-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Print the result of one cell and write its folder."""
    from risp_torch.programs import unknown_name_error
    from studies.risp.trials.methods import check_method
    from studies.risp.trials.trial import KINDS
    from ti_sim import start

    if options.task not in KINDS:
        raise unknown_name_error("task", options.task, KINDS)
    check_method(options.method, options.network)
    _check(options)
    start(device=options.device, precision="f32")
    if options.task == "state":
        return _read_states(options)
    return _run_trial(options)


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: once there is one."""
    return getattr(options, "resumes", False)


def _check(options: argparse.Namespace) -> None:
    """Raise a UserError for options without effect."""
    if options.task != "state":
        if options.images is not None:
            raise UserError("--images belongs to the task state: leave it out")
        return
    if options.method not in _READERS:
        raise UserError(f"the task state evaluates predictions for single pictures: choose the method {', '.join(_READERS)}")
    words = {"warm": "warm-start"}
    options_given = [f"--{words.get(name, name)}" for name in (*_OF_SEARCH, "target") if getattr(options, name) is not None]
    if options_given:
        raise UserError(f"{options_given[0]} belongs to the other tasks, and state searches for nothing: leave it out")
    if options.images is not None and options.images % _APPEARANCES:
        raise UserError(f"{options.images} pictures are not a multiple of {_APPEARANCES} appearances: give 800, for example")


def _settings(options: argparse.Namespace) -> TrialSettings:
    from studies.risp.trials.run import TrialSettings

    changes = {name: getattr(options, name) for name in _OF_SEARCH if getattr(options, name) is not None}
    return TrialSettings(size=options.size, seed=options.seed, samples=options.samples, **changes)


def _run_trial(options: argparse.Namespace) -> int:
    from pathlib import Path

    import torch

    from risp_torch.programs import default_run_path
    from studies.risp.trials.methods import IMAGE_METHODS
    from studies.risp.trials.run import run_trial
    from studies.risp.trials.target import target_film
    from studies.risp.trials.trial import load_trial, set_truth, true_scene

    settings = _settings(options)
    trial = load_trial(options.scene, options.task)
    out = options.out = Path(options.out or default_run_path(options.task, options.scene))
    options.resumes = True
    target = None
    if options.method in IMAGE_METHODS:
        scene, task = true_scene(options.scene, trial, options.size)
        set_truth(scene, trial.of_repeat(scene.name, options.task, seed=options.seed, repeat=options.repeat))
        with torch.no_grad():
            motion = scene.rollout()
        target = target_film(
            scene, task, options.task, motion, options.target or out / "target", seed=options.seed, repeat=options.repeat,
            samples=options.samples, renderer=options.renderer,
        )  # fmt: skip
    result = run_trial(
        options.scene, options.task, options.method, repeat=options.repeat, settings=settings, network=options.network,
        target=target, out=out,
    )  # fmt: skip
    _print_result(result)
    print(f"numbers: {out}/result.json ({result['seconds']:.0f} s)")
    return 0


def _print_result(result: dict[str, Any]) -> None:
    """Print the error with that of the first guess, the estimates if they are few, and errors of held-out motions."""
    import numpy as np

    from studies.risp.trials.methods import LABELS

    print(f"{result['scene']}, {result['kind']}, {LABELS[result['method']]}, repeat {result['repeat']}")
    print(f"error: {result['error']:.4g} {result['unit']}".rstrip() + f" (first guess: {result['guess_error']:.4g})")
    for name, value in result["values"].items():
        if np.ndim(value) == 0:
            print(f"{name}: {value:.6g}")
    if "bars_off" in result:
        bars = ", ".join(f"{sd:.3g}" for sd in result["bars_sd"])
        print(f"standard deviation (decades for log10): {bars}; the truth is at most {result['bars_off']:.2g} of them off")
    for name, error in result["unseen"].items():
        print(f"held out, {name}: mean error of the outputs {error:.4g}")
    if result["loss_estimate"] is not None:
        print(f"loss: {result['loss_estimate']:.4e} at the estimate, {result['loss_truth']:.4e} at the truth")
    if result["reading_error"] is not None:
        print(f"mean error of the network's predictions for the target: {result['reading_error']:.4g}")


def _read_states(options: argparse.Namespace) -> int:
    """Errors of a network, or of a baseline, on pictures that are held out from training."""
    from risp_torch.programs import RunFolder, default_run_path
    from risp_torch.risp import (
        TestSettings,
        check_network,
        error_table,
        evaluate,
        load_network,
        load_task,
        make_test_set,
        training_scene,
    )

    scene = training_scene(options.scene, options.size)
    task = load_task(options.scene, scene)
    readers = {}
    if options.network is not None:
        readers[options.method], record = load_network(options.network)
        check_network(
            readers[options.method], record, scene=scene.name, outputs=task.head.size, size=options.size, path=options.network
        )
    states = (options.images or 800) // _APPEARANCES
    renderer = "mitsuba" if options.renderer == "mitsuba" else "soft"
    test = TestSettings(renderer=renderer, appearances=_APPEARANCES, states=states, seed=options.seed)
    settings = {
        "scene": options.scene, "kind": "state", "method": options.method, "network": options.network, "size": options.size,
        "test": vars(test),
    }  # fmt: skip
    options.out, options.resumes = options.out or default_run_path("state", options.scene), True
    folder = RunFolder.open_or_create(options.out, settings)
    test_set = make_test_set(scene, task, test, cache=folder.path / "test-set")
    errors = evaluate(scene, task, readers, test_set, seed=options.seed).errors
    method_errors = errors[{"random": "random, normal"}.get(options.method, options.method)]
    print(error_table({options.method: method_errors}))
    folder.write_result({"schema": 1, "scene": scene.name, "kind": "state", "method": options.method} | method_errors.to_json())
    print(f"numbers: {folder.path}/result.json")
    return 0
