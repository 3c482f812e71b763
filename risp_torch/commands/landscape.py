"""Plot the film loss against one or two parameters."""

from __future__ import annotations

import argparse

from risp_torch.commands.loss_options import add_loss_arguments, check_loss_options, make_compared_scene, make_loss
from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import add_bounds_argument, add_scene_arguments, bounds_of, number_parser
from risp_torch.inversion.diagnostics.landscape import Points


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --unknown, --bounds, --grid, --video, the loss with its files, --out."""
    parser.add_argument(
        "--unknown", required=True, nargs="+", action="extend", metavar="NAME", help="parameters along the axes, one or two"
    )
    add_bounds_argument(parser)
    parser.add_argument(
        "--grid", type=number_parser(Points), metavar="N", help="grid points along an axis (default 41; 15 with two)"
    )
    parser.add_argument("--video", metavar="FILE", help="target film (default: the scene's own)")
    add_loss_arguments(parser)
    add_scene_arguments(parser, with_video=True)
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/landscape-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Write landscape.png, landscape.npz, settings.json and result.json."""
    import numpy as np
    import torch

    from risp_torch.commands.simulate import simulation_settings
    from risp_torch.files import report
    from risp_torch.files.atomic import atomic_replacement
    from risp_torch.files.run_folder import RunFolder, default_run_path
    from risp_torch.inversion import Comparison
    from risp_torch.inversion.diagnostics.landscape import landscape, landscape_unknowns
    from risp_torch.inversion.problem.films.rendered_film import film
    from risp_torch.inversion.problem.films.target import load_target

    check_loss_options(options, target_needed=False)
    bounds = dict(bounds_of(text) for text in options.bounds)
    scene = make_compared_scene(options)
    names = options.unknown
    points = options.grid or (41 if len(names) == 1 else 15)
    unknowns = landscape_unknowns(scene, names, points=points, bounds=bounds)  # before anything is written
    params = [unknowns.params[name] for name in names]
    loss = make_loss(options, scene)
    settings = simulation_settings(scene, options) | {"params": names, "points": points, "video": options.video}
    settings |= {"loss": loss.to_json(), "sampling": options.sampling}
    if not loss.needs_film:
        target = None
    elif options.video:
        target = load_target(scene, options.video)
    else:
        with torch.no_grad():
            target = film(scene, loss.appearance(), worlds=1, frames=scene.frames)[0][0]
    comparison = Comparison.of(scene, loss, target, options.sampling)
    folder = RunFolder.create(options.out or default_run_path("landscape", scene.name), settings)
    axes, losses = landscape(scene, comparison, names, points=points, bounds=bounds)
    marks = None if options.video or options.states else {"scene": tuple(param.value for param in params)}
    picture = folder.path / "landscape.png"
    if len(names) == 1:
        report.plot_landscape_1d(
            picture, axes[0], losses, name=names[0], unit=params[0].unit, scale=params[0].scale,
            marks=None if marks is None else {"scene": params[0].value},
        )  # fmt: skip
    else:
        report.plot_landscape_2d(
            picture, axes[0], axes[1], losses.T, names=tuple(names), units=tuple(p.unit for p in params),
            scales=tuple(p.scale for p in params), marks=marks,
        )  # fmt: skip
    with atomic_replacement(folder.path / "landscape.npz") as temporary, open(temporary, "wb") as file:
        np.savez(file, loss=losses, **{f"axis{i}": axis for i, axis in enumerate(axes)})
    minimum_index = np.unravel_index(int(np.nanargmin(losses)), losses.shape)
    minimum = {name: float(axis[i]) for name, axis, i in zip(names, axes, minimum_index, strict=True)}
    folder.write_result({"schema": 1, "scene": scene.name, "lowest": minimum, "loss": float(losses[minimum_index])})
    if not np.ptp(losses[np.isfinite(losses)]) > 0:
        print(f"the loss is the same everywhere: {' and '.join(names)} leaves no trace in this film")
    print(f"lowest loss {losses[minimum_index]:.4e} at " + ", ".join(f"{name} = {value:.5g}" for name, value in minimum.items()))
    print(f"written: {folder.path}/landscape.png, landscape.npz")
    print_next_steps(picture, next_command=("risp", "check", options.scene, "--unknown", *names))
    return 0
