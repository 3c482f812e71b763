"""Find unknown numbers of a scene from a film of it."""

from __future__ import annotations

import argparse

from risp_torch.commands.options import add_scene_arguments, make_scene, positive_int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --video, --unknown, and the settings of the search."""
    add_scene_arguments(parser)
    parser.add_argument("--video", required=True, metavar="FILE", help="an .mp4 or a folder of PNG frames")
    parser.add_argument("--unknown", required=True, nargs="+", action="extend", metavar="NAME", help="parameters to find")
    parser.add_argument("--starts", type=positive_int, default=4, help="guesses spread over the allowed ranges (default 4)")
    parser.add_argument("--iterations", type=positive_int, default=60, help="gradient steps (default 60)")
    parser.add_argument("--optimizer", choices=("adam", "rmsprop", "lbfgs"), default="adam")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="in unit-scale variables (default 0.1)")
    parser.add_argument("--refine", type=int, default=15, help="Gauss-Newton rounds after the search (default 15)")
    parser.add_argument("--first-frames", type=positive_int, help="begin with this many frames and let the horizon grow")
    parser.add_argument("--seed", type=int, default=0, help="of the starts (default 0)")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/invert-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Run the inversion, print estimates and starts, write the run's folder."""
    from risp_torch.inversion import OptimiseSettings, invert
    from risp_torch.run_folder import default_run_path

    scene = make_scene(options)
    result = invert(
        scene, options.video, options.unknown, starts=options.starts, seed=options.seed, refine=options.refine,
        out=options.out or default_run_path("invert", scene.name),
        settings=OptimiseSettings(
            optimizer=options.optimizer, iterations=options.iterations, learning_rate=options.learning_rate,
            first_frames=options.first_frames,
        ),
    )  # fmt: skip
    print_inversion(result)
    return 0


def print_inversion(result: object, truth: dict[str, float] | None = None) -> None:
    """Print estimates with error bars (and errors, where the truth is known), unseen directions and starts."""
    from risp_torch.report import format_table

    unknowns = result.unknowns
    logs = dict(zip(unknowns.labels, (scale == "log10" for scale in unknowns.scales), strict=True))
    errors = result.scaled_error(truth) if truth else {}
    rows = []
    for label, unit, seen in zip(unknowns.labels, unknowns.units, result.uncertainty.observable, strict=True):
        value, sd = result.values[label], result.sd[label]
        bar = f"± {100 * (10 ** min(sd, 9.0) - 1):.2g} %" if logs[label] else f"± {sd:.2g}"
        row = [label, f"{value:.5g} {unit}".strip(), bar if seen else "not observable"]
        if truth:
            error = errors[label]
            row[1:1] = [f"{truth[label]:.5g} {unit}".strip()]
            row.append(f"{100 * (10**error - 1):+.2f} % ({error:+.4f} in log10)" if logs[label] else f"{error:+.2g}")
        rows.append(row)
    headers = ["unknown", "estimate", "error bar"]
    print(format_table(rows, ["unknown", "truth", "estimate", "error bar", "error"] if truth else headers))
    for sentence in result.uncertainty.unseen:
        print(f"not visible in this film: {sentence}")
    for sentence in result.remarks:
        print(f"note: {sentence}")
    starts = [
        [str(i + 1), _row(result.initial[i]), _row(result.final[i]), f"{loss:.4e}", status]
        for i, (loss, status) in enumerate(zip(result.losses, result.status, strict=True))
    ]
    print(format_table(starts, ["start", "from", "to", "loss", ""]))
    if result.folder:
        print(f"pictures and numbers: {result.folder} ({result.seconds:.0f} s)")


def _row(values: object) -> str:
    return ", ".join(f"{value:.5g}" for value in values)
