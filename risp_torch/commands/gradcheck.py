"""Check the gradient of a scene's film loss against central differences."""

from __future__ import annotations

import argparse

from risp_torch.commands.options import add_scene_arguments, make_scene, number
from risp_torch.inversion.problem.linearisation import Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --unknown, --step."""
    add_scene_arguments(parser, precision="f64")
    parser.add_argument(
        "--unknown", nargs="+", action="extend", default=[], metavar="NAME",
        help="parameters to check, or single entries of them (body.velocity[0]); default: every unknown",
    )
    parser.add_argument(
        "--step", type=number(Step), default=1e-8,
        help="step of the differences relative to the range: 1e-8 (default) checks the adjoint, 1e-3 the scale of a search",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print gradient, difference and verdict of every unknown; 1 if one is wrong (at a kink: not between both sides' slopes)."""
    from risp_torch.files.report import format_table
    from risp_torch.inversion.diagnostics.gradient_check import check_film_gradient

    scene = make_scene(options)
    checks, loss = check_film_gradient(scene, options.unknown or scene.unknowns, step=options.step, progress=True)
    rows = [[c.label, f"{c.gradient:+.6e}", f"{c.difference:+.6e}", f"{c.relative:.1e}", c.verdict] for c in checks]
    print(f"{scene.name}: loss {loss:.6e} against a film with every unknown moved by 5 % of its range; gradients per range")
    print(format_table(rows, ["unknown", "gradient", "central difference", "relative", ""]))
    return 0 if all(check.ok for check in checks) else 1
