"""Check the gradient of a scene's film loss against central differences."""

from __future__ import annotations

import argparse

from risp_torch.commands.options import add_scene_arguments, make_scene

FLOOR = 1e-6  # of the loss, per allowed range: below it an unknown is not observable
TOLERANCE = 1e-3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --set, --param."""
    add_scene_arguments(parser, precision="f64")
    parser.add_argument(
        "--param", nargs="+", action="extend", default=[], metavar="NAME",
        help="parameters to check, or single entries of them (body.velocity[0]); default: every unknown",
    )
    parser.add_argument(
        "--step", type=float, default=1e-8,
        help="of the differences, in parts of the range: 1e-8 (default) checks the adjoint, 1e-3 what a search sees",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print gradient, difference and relative difference of every unknown; 1 if one is wrong."""
    from risp_torch.gradients import check_film_gradient
    from risp_torch.report import format_table

    scene = make_scene(options)
    checks, loss = check_film_gradient(scene, options.param or scene.unknowns, step=options.step, progress=True)
    rows, wrong = [], 0
    for check in checks:
        floor = max(FLOOR * loss, 1e-300)  # a film that never changes has no loss
        seen = max(abs(check.gradient), abs(check.difference)) >= floor
        good = abs(check.gradient - check.difference) <= TOLERANCE * max(abs(check.difference), floor)
        wrong += not good
        relative = abs(check.gradient - check.difference) / max(abs(check.difference), floor)
        verdict = "WRONG" if not good else "right" if seen else "not observable"
        rows.append([check.label, f"{check.gradient:+.6e}", f"{check.difference:+.6e}", f"{relative:.1e}", verdict])
    print(f"{scene.name}: loss {loss:.6e} against a film with every unknown moved by 5 % of its range; gradients per range")
    print(format_table(rows, ["unknown", "gradient", "central difference", "relative", ""]))
    return 1 if wrong else 0
