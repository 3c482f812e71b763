"""The pages about the tables: Markdown with the paper's numbers beside ours, pictures, reasons, and settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from risp_torch.programs import write_text
from studies.risp.pages.why import NAMES, reasons
from studies.risp.tables.plan import METHODS, PAPER_SEARCH, TABLES, TablePlan
from studies.risp.tables.presets import TablePreset
from studies.risp.tables.provenance import provenance
from studies.risp.tables.results import Cell, Cells, lowest, state_cells
from studies.risp.trials.trial import SCENES

TITLES = {
    "1": "State estimation", "2": "System identification", "3": "Imitation", "4": "Visuomotor control",
}  # fmt: skip
_MACHINE = ("processor", "cores", "gpu", "commit")
RENDERERS = {"mitsuba": "path-traced", "soft": "the rasteriser's"}
_ABOUT = {
    "1": (
        "Mean L1 error of an output of the state head, and its standard deviation over the test pictures ({appearances} unseen "
        "appearances of the same {states} states). Hand: angles in rad; the other outputs are normalised to [-1, 1], angles are "
        "sines and cosines."
    ),
    "2": (
        "Distance between the estimated and the true numbers of the scene: mean and standard deviation over the repeats "
        "({repeats}), each with a path-traced film in a drawn look and a drawn first guess of its own. The actions are known."
    ),
    "3": (
        "Distance between the imitated and the true motion, the mean L1 distance of the outputs summed over the frames: mean "
        "and standard deviation over the repeats ({repeats}), each with a path-traced film in a drawn look and a drawn first "
        "guess of its own. The numbers of the scene are known, its actions are not."
    ),
    "4": (
        "Distance from the goal at the last frame, mean L1 over the outputs: mean and standard deviation over the repeats "
        "({repeats}), each with a path-traced picture of the goal in a drawn look, a drawn first guess and a drawn initial "
        "state of its own."
    ),
}


def write_table_page(plan: TablePlan, table: str, cells: Cells, page_folder: Path, figures: Sequence[str]) -> Path:
    """Write table_N.md.

    Args:
        plan: the plan.
        table: its number.
        cells: of the table.
        page_folder: folder of the page.
        figures: names of files below "figures" of that folder that may be included.

    Returns:
        The page.
    """
    preset = plan.preset
    about = _ABOUT[table].format(appearances=preset.test_appearances, states=preset.test_states, repeats=plan.repeats)
    if preset.target != "mitsuba":
        about = about.replace("path-traced", "rasterised")
    lines = [f"# Table {table}: {TITLES[table].lower()}", "", about, "", *_overview(plan, table, cells), ""]
    if table == "1":
        lines += [f"The pictures are {RENDERERS[preset.renderers[0]]}.", ""]
    if f"table_{table}.png" in figures:
        lines += [f"![errors of all methods and the paper's](figures/table_{table}.png)", ""]
    for scene in plan.scenes_of(table):
        lines += _scene_part(plan, table, scene, cells, figures)
    page = page_folder / f"table_{table}.md"
    write_text(page, "\n".join([*lines, *how(plan, table)]) + "\n")
    return page


def _overview(plan: TablePlan, table: str, cells: Cells) -> list[str]:
    """All methods and scenes, ours before the paper's."""
    scenes = [scene for scene in plan.scenes_of(table) if any(name == scene for name, _ in cells)]
    methods = [method for method in NAMES if any(name == method for _, name in cells)]
    headers = ["", *(f"{scene}{in_brackets(cells, scene)}" for scene in scenes)]
    rows = [[NAMES[m], *(_both(cells.get((s, m)), bold=lowest(cells, s) == m) for s in scenes)] for m in methods]
    return [*markdown_table(headers, rows), "", "Ours / the paper's. Bold: the lowest of the image-based methods."]


def in_brackets(cells: Cells, scene: str) -> str:
    """The unit of a scene's errors."""
    unit = next(cell.unit for (name, _), cell in cells.items() if name == scene)
    return f" [{unit}]" if unit else ""


def _both(cell: Cell | None, *, bold: bool) -> str:
    if cell is None:
        return ""
    ours = f"{number(cell.mean)} ± {number(cell.sd)}"
    ours = f"**{ours}**" if bold else ours
    paper = "" if cell.paper is None or cell.method == PAPER_SEARCH else f" / {number(cell.paper[0])} ± {number(cell.paper[1])}"
    return ours + paper


def _scene_part(plan: TablePlan, table: str, scene: str, cells: Cells, figures: Sequence[str]) -> list[str]:
    """The section of a scene with its cells."""
    scene_cells = [cell for (name, _), cell in cells.items() if name == scene]
    if not scene_cells:
        return []
    lines = [f"## {scene}", ""]
    stem = f"{scene}_{TABLES[table]}"
    if f"{stem}.png" in figures:
        lines += [f"![target, start and the motions that each method found](figures/{stem}.png)", ""]
    if f"{stem}.mp4" in figures:
        lines += [f"As a video: [{stem}.mp4](figures/{stem}.mp4).", ""]
    lines += [*(_readers(plan, scene) if table == "1" else _inversions(scene_cells)), ""]
    return lines + [line for sentence in reasons(cells, scene) for line in (f"- {sentence}",)] + [""]


def _readers(plan: TablePlan, scene: str) -> list[str]:
    """Errors on the test pictures of every renderer."""
    lines = []
    for renderer in plan.preset.renderers:
        scene_cells = [cell for (name, _), cell in state_cells(plan, renderer).items() if name == scene]
        if not scene_cells:
            continue
        physical = list(scene_cells[0].records[0]["physical"])
        headers = [
            f"{RENDERERS[renderer]} pictures", "error", "the paper's", *physical, "spread over appearances", "training [min]"
        ]  # fmt: skip
        rows = []
        for cell in scene_cells:
            record = cell.records[0]
            paper = "" if cell.paper is None else f"{number(cell.paper[0])} ± {number(cell.paper[1])}"
            rows.append([
                NAMES[cell.method], f"{number(cell.mean)} ± {number(cell.sd)}", paper,
                *(number(record["physical"][name]["mean"]) for name in physical), number(cell.spread()),
                f"{cell.seconds() / 60:.1f}" if cell.seconds() else "",
            ])  # fmt: skip
        lines += [*markdown_table(headers, rows), ""]
    return lines[:-1]


def _inversions(scene_cells: Sequence[Cell]) -> list[str]:
    """Errors, losses, held-out errors and times of the methods on one scene."""
    oracle = next((cell.mean for cell in scene_cells if cell.method == "state"), None)
    unseen = list(dict.fromkeys(name for cell in scene_cells for name in cell.unseen()))
    headers = [
        "", "error", "least to largest", "in error bars", "the paper's", "repeats", "guesses", "times the oracle's", "read",
        "loss", "loss at the truth", *(f"held out: {name}" for name in unseen), "s",
    ]  # fmt: skip
    rows = []
    for cell in scene_cells:
        paper = "" if cell.paper is None else f"{number(cell.paper[0])} ± {number(cell.paper[1])}"
        ratio = number(cell.mean / oracle) if oracle else ""
        means = [cell.mean_of(key) for key in ("reading_error", "loss_estimate", "loss_truth")]
        held_out = cell.unseen()
        rows.append([
            NAMES[cell.method], f"{number(cell.mean)} ± {number(cell.sd)}",
            f"{number(min(cell.errors))} to {number(max(cell.errors))}", "" if cell.off() is None else number(cell.off()), paper,
            str(len(cell.errors)),
            str(cell.guesses or ""), ratio,
            *("" if value is None else number(value) for value in means),
            *(number(held_out[name]) if name in held_out else "" for name in unseen), f"{cell.seconds():.1f}",
        ])  # fmt: skip
    return markdown_table(headers, rows)


def how(plan: TablePlan, table: str) -> list[str]:
    """Settings, seeds, machines, versions, and the command."""
    from studies.risp.trials.trial import RANDOM_FROM

    preset = plan.preset
    lines = ["## How it was made", "", "```", _command(plan, table), "```", ""]
    settings = [
        f"pictures of {preset.size} x {preset.size} pixels",
        f"networks: {_pictures(preset)} training pictures of {preset.configs} appearances, preset {preset.training} of "
        f"`risp train`{_changes(preset)}",
        f"seed {preset.seed}; a repeat draws its look, its first guesses and its initial state from the seed and its number",
    ]
    if table in ("2", "3", "4"):
        settings += [
            f"films: {preset.samples} light paths for each pixel" if preset.target == "mitsuba" else "films: of the rasteriser",
            f"truth: the scene's own in the first {RANDOM_FROM} repeats, in table 2 drawn from the range in later ones",
            "guesses: a search begins at so many, of which the one that ends lowest counts",
            "read: what the network reads from the target is off by so much, a mean over frames and outputs; times are those of "
            "one process beside others",
        ]  # fmt: skip
    lines += [f"- {line}" for line in settings + [_machine(entry) for entry in provenance(plan.out)]]
    return lines


def _changes(preset: TablePreset) -> str:
    """Settings of the trainings that differ from their preset's, in words."""
    return "".join(f", {name} {value}" for name, value in preset.changes.items())


def _pictures(preset: TablePreset) -> str:
    """Numbers of training pictures, in words."""
    return " ".join([str(preset.images), *(f"({scene}: {count})" for scene, count in preset.scene_images.items())])


def _command(plan: TablePlan, table: str) -> str:
    """The command that fills a table, with its non-default options."""
    words = ["python -m studies.risp table", table, "--preset", plan.preset.name, "--repeats", str(plan.repeats)]
    words += ["--seed", str(plan.preset.seed)] if plan.preset.seed else []
    words += ["--scenes", *plan.scenes] if set(plan.scenes) != set(SCENES) else []
    words += ["--methods", *plan.methods] if set(plan.methods) != set(METHODS) else []
    return " ".join(words)


def _machine(entry: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in entry.items() if name not in _MACHINE and version)
    gpu = f", {entry['gpu']}" if entry.get("gpu") else ""
    return f"{entry['processor']}, {entry['cores']} cores{gpu}; commit {entry['commit']}; {versions}"


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; columns without any entry are left out."""
    filled = [k for k, header in enumerate(headers) if k == 0 or any(row[k] for row in rows)]
    lines = [[headers[k] for k in filled], ["---"] * len(filled), *([row[k] for k in filled] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e5 else f"{value:.3g}"
