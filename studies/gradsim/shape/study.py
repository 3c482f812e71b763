"""Shape from video: the vertices of a body, and its mass with them, from the film of its flight.

An earlier version of the paper names shape among what it estimates; the public code looks for an apple, starting from a sphere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.report import figure_file, plot_curves
from risp_torch.scene.bridge import bridge_dtype
from studies.gradsim.cells import FAILED, Cell, run_cells
from studies.gradsim.pages import Page, digits
from studies.gradsim.presets import Preset
from studies.gradsim.shape.fit import PLAIN, FitSettings, fit_shape, tried_mass
from studies.gradsim.shape.flight import CAMERAS, DENSITY, FRAMES, MASSES, UNSEEN, Flight, flight_scene
from studies.gradsim.shape.solids import solid_of, surface_distance
from studies.gradsim.shape.truths import TRUTHS, true_surface
from studies.markdown import markdown

# Name of a search -> cameras it sees, whether the mass is unknown.
WAYS = {
    "public code's search, mass known": (("front",), False), "mass known": (("front",), False),
    "mass unknown": (("front",), True), "mass unknown, 3 cameras": (("front", "left", "right"), True),
}  # fmt: skip
_HEADERS = (
    "body", "search", "error of the surface", "of the sphere", "mass: truth", "first", "found", "relative error",
    "PSNR, unseen views", "of the sphere", "seconds",
)  # fmt: skip


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of shapes.

    Args:
        name: of the page.
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    cells = cells_of(preset)
    results = run_cells(cells, folder, jobs=jobs, title=name)
    folder.joinpath("shape").mkdir(parents=True, exist_ok=True)
    pictures = {"losses.png": folder / "shape" / "losses.png", "views.png": folder / "shape" / "views.png"}
    fits = [(cell.given, result) for cell, result in zip(cells, results, strict=True) if FAILED not in result]
    if not fits:
        return Page(name, f"# Shape from video\n\nNo search ended: {results[0][FAILED]}\n")
    curves = {way: [r["losses"] for g, r in fits if g["way"] == way] for way in WAYS}
    plot_curves(
        pictures["losses.png"],
        {way: {"pictures": np.array(rows)} for way, rows in curves.items() if rows},
        logarithmic=list(WAYS), x_label="step", title="Mean squared difference of the pictures: median and span of the bodies",
    )  # fmt: skip
    draw_views(pictures["views.png"], fits, preset)
    return Page(name, page_text(name, preset, fits, len(cells)), pictures)


def cells_of(preset: Preset) -> list[Cell]:
    """A cell for each body and search."""
    return [
        Cell(
            f"shape/{body}-{number}", fit_cell,
            {
                "body": body, "way": way, "size": preset.size, "frames": FRAMES, "divisions": preset.divisions,
                "seed": preset.seed, "settings": settings_of(way, preset).to_json(),
            },
        )
        for body in list(TRUTHS)[: preset.shapes]
        for number, way in enumerate(WAYS)
    ]  # fmt: skip


def settings_of(way: str, preset: Preset) -> FitSettings:
    """Settings of a search of ``WAYS``."""
    settings = PLAIN if way == next(iter(WAYS)) else FitSettings(iterations=preset.shape_steps)
    return replace(settings, iterations=min(settings.iterations, preset.shape_steps))


def fit_cell(
    *, body: str, way: str, size: int, frames: int, divisions: int, seed: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A body's vertices and mass from its film, and what is wrong with them.

    Args:
        body: name of ``TRUTHS``.
        way: name of ``WAYS``.
        size: side of the pictures [pixels].
        frames: frame intervals.
        divisions: of the template.
        seed: of the turn and the mass of the body.
        settings: ``FitSettings`` as JSON values.
    """
    cameras, free = WAYS[way]
    options, flight = FitSettings(**settings), Flight(divisions=divisions, size=size, frames=frames)
    vertices, faces, mass = true_body(body, seed=seed)
    film = true_film(vertices, faces, mass=mass, size=size, frames=frames)
    views = film[[CAMERAS.index(camera) for camera in cameras]]
    first = tried_mass(flight, views, cameras=cameras, every=options.every) if free else mass
    fit = fit_shape(flight, views, cameras=cameras, settings=options, mass=first, free_mass=free)
    hidden = film[[CAMERAS.index(camera) for camera in UNSEEN]]
    first_mass = torch.tensor(first).to(flight.template)
    fits, length = centred(fit.vertices, flight.faces), float(np.ptp(vertices, axis=0).max())
    truth, template = (vertices, faces), centred(flight.template, flight.faces)
    return {
        "surface": surface_distance((fits, faces_of(flight)), truth) / length,
        "surface_sphere": surface_distance((template, faces_of(flight)), truth) / length,
        "mass_truth": mass, "mass_first": first if free else None, "mass": fit.mass if free else None,
        "unseen": squared_difference(flight, fit.vertices, torch.tensor(fit.mass).to(flight.template), hidden),
        "unseen_sphere": squared_difference(flight, flight.template, first_mass, hidden),
        "losses": fit.losses, "vertices": np.round(fits, 5).tolist(),
    }  # fmt: skip


def true_body(body: str, *, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Vertices [V, 3] from the centre of mass [m], faces [F, 3], and mass [kg] of a body; its density is drawn."""
    vertices, faces = true_surface(body, seed=seed)
    solid = solid_of(torch.as_tensor(vertices), torch.as_tensor(faces))
    density = np.random.default_rng([seed, list(TRUTHS).index(body), 1]).uniform(*DENSITY)
    return vertices - solid.centre.numpy(), faces, float(density * solid.volume)


def true_film(vertices: np.ndarray, faces: np.ndarray, *, mass: float, size: int, frames: int) -> torch.Tensor:
    """[C, frames + 1, H, W, 3] film of a body by all cameras (arguments: ``flight_scene``)."""
    scene = flight_scene(vertices, faces, mass=mass, size=size, frames=frames)
    with torch.no_grad():
        return scene.render(scene.rollout(worlds=1), camera="all")[0].transpose(0, 1)


def squared_difference(flight: Flight, vertices: torch.Tensor, mass: torch.Tensor, film: torch.Tensor) -> float:
    """Mean squared difference of all frames of the views that no search has seen; film [2, frames + 1, H, W, 3]."""
    with torch.no_grad():
        pictures = flight.film(vertices, flight.poses(vertices, mass), frames=range(film.shape[1]), cameras=UNSEEN)
    return float((pictures - film).square().mean())


def centred(vertices: torch.Tensor, faces: torch.Tensor) -> np.ndarray:
    """[V, 3] float64 vertices from their centre of mass [m]."""
    double = vertices.detach().double()
    return (double - solid_of(double, faces).centre).numpy()


def faces_of(flight: Flight) -> np.ndarray:
    """[F, 3] faces of the template."""
    return flight.faces.cpu().numpy()


def psnr(squared: float) -> float:
    """Peak signal-to-noise ratio of a mean squared difference of pictures in [0, 1] [dB]."""
    return float(-10 * np.log10(squared)) if squared > 0 else float("inf")


def draw_views(path: Path, fits: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], preset: Preset) -> None:
    """Pictures from a view that no search has seen, in the middle of the flight: truth, sphere, and what each search found."""
    bodies = list(dict.fromkeys(arguments["body"] for arguments, _ in fits))
    flight = Flight(divisions=preset.divisions, size=preset.size)
    columns = ["truth", "sphere", *WAYS]
    with figure_file(path, 1.7 * len(columns), 1.75 * len(bodies) + 0.4) as figure:
        grid = figure.subplots(len(bodies), len(columns), squeeze=False)
        for row, body in zip(grid, bodies, strict=True):
            vertices, faces, mass = true_body(body, seed=preset.seed)
            weight = torch.tensor(mass).to(flight.template)
            pictures = {"truth": true_film(vertices, faces, mass=mass, size=preset.size, frames=FRAMES)[4, FRAMES // 2]}
            pictures["sphere"] = _behind(flight, flight.template, weight)
            for arguments, result in fits:
                if arguments["body"] == body:
                    kg = weight if result["mass"] is None else weight.new_tensor(result["mass"])
                    pictures[arguments["way"]] = _behind(flight, torch.tensor(result["vertices"], dtype=bridge_dtype()), kg)
            for axes, column in zip(row, columns, strict=True):
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if column in pictures:
                    axes.imshow(np.clip(pictures[column].cpu().numpy(), 0, 1) ** (1 / 2.2), interpolation="nearest")
            row[0].set_ylabel(body, fontsize=9)
        for axes, column in zip(grid[0], columns, strict=True):
            axes.set_title(column.replace(", ", ",\n"), fontsize=7, loc="center")


def _behind(flight: Flight, vertices: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        poses = flight.poses(vertices, mass)
        return flight.film(vertices, poses, frames=(FRAMES // 2,), cameras=("behind",))[0, 0]


def page_text(name: str, preset: Preset, fits: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], num_cells: int) -> str:
    """The page."""
    rows = []
    for inputs, result in fits:
        relative = None if result["mass"] is None else result["mass"] / result["mass_truth"] - 1
        rows.append(
            (
                inputs["body"], inputs["way"], f"{100 * result['surface']:.2f} %", f"{100 * result['surface_sphere']:.2f} %",
                digits(result["mass_truth"]), digits(result["mass_first"]), digits(result["mass"]),
                "-" if relative is None else f"{100 * relative:+.3f} %", f"{psnr(result['unseen']):.1f} dB",
                f"{psnr(result['unseen_sphere']):.1f} dB", f"{result['seconds']:.0f}",
            )
        )  # fmt: skip
    used = settings_of("mass known", preset)
    plain = settings_of(next(iter(WAYS)), preset)
    template = Flight(divisions=preset.divisions, size=preset.size)
    return f"""# Shape from video

Vertices of a body in flight, and its mass with them, from a film without loss. The start is a sphere of
{len(template.template)} vertices; the true surfaces have other vertices. Start, velocity and push are known, colour and
lights too; the surface has one colour, so that only outline and shading tell its shape.
Every {used.every}th of {FRAMES + 1} frames of {preset.size} x {preset.size} pixels is compared. Mass is a
number of its own (the density is not known), and the inertia follows from mass and vertices. The search tries {len(MASSES)}
masses between {digits(MASSES[0])} and {digits(MASSES[-1])} kg with the sphere, and goes
on from the best one ("first").

{markdown(_HEADERS, rows)}

The error of the surface is the mean distance between the two surfaces, both ways, in parts of the body's longest side; PSNR is
that of all frames of two cameras ({" and ".join(UNSEEN)}) that no search sees. {len(fits)} of {num_cells} searches have a result.

{_verdict(fits)}

![views](images/{name}-views.png)

The middle of the flight, seen by the camera behind, which no search uses.

![losses](images/{name}-losses.png)

## How

Adam moves u, with vertices = (1 + {used.smoothing:g} L)^-1 u and L the graph Laplacian of the template; {used.iterations} steps,
rate {used.rate:g} m and {used.mass_rate:g} decades, falling along a cosine. Weights of the penalties: Laplacian
{used.laplacian:g}, edge lengths {used.edges:g}, normals of neighbouring faces {used.flattening:g}. The public code's search moves
every vertex on its own, without penalties: rate {PLAIN.rate:g}, {plain.iterations} steps. The paper prints
no numbers for shapes, and its apple is not published: the apple here is one of our own.
"""


def _verdict(fits: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """A summary of the table."""
    sentences = []
    for way in WAYS:
        results = [result for arguments, result in fits if arguments["way"] == way]
        if results:
            errors = 100 * np.array([result["surface"] for result in results])
            masses = [abs(result["mass"] / result["mass_truth"] - 1) for result in results if result["mass"] is not None]
            text = f"- {way}: median error of the surface {np.median(errors):.2f} % (at most {errors.max():.2f} %)"
            if masses:
                text += f", relative error of the mass {100 * np.median(masses):.2g} % (at most {100 * max(masses):.2g} %)"
            sentences.append(f"{text}.")
    return "\n".join(sentences)
