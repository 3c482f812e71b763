"""Folders of films whose numbers were measured: each film has a JSON file with its scene and the true values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json
from ti_sim.base.rules import checked

__all__ = ["FILM_ENDINGS", "TRUTH_OF_FOLDER", "MeasuredFilm", "labelled", "read_json", "read_measured_films"]

FILM_ENDINGS = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm")
TRUTH_OF_FOLDER = "truth.json"
_FORM = '{"scene": "toss", "unknown": {"body.density": 600.0}, "units": {"body.density": "kg/m3"}}'


@dataclass(frozen=True)
class MeasuredFilm:
    """A film with measured truth.

    Attributes:
        name: path of the film below the folder, without its ending.
        film: the film's file.
        truth_file: the JSON file that its truth is from.
        scene: the scene, as commands take it.
        truth: label -> true value, in the unit of the scene's parameter; entries of arrays as "body.velocity[0]".
        units: parameter -> unit; may be empty.
    """

    name: str
    film: Path
    truth_file: Path
    scene: str
    truth: Mapping[str, float]
    units: Mapping[str, str]


@checked
def read_measured_films(folder: str | Path) -> list[MeasuredFilm]:
    """Read all films of a folder and its subfolders with their measured truth.

    The truth of NAME.mp4 is in NAME.json beside it, or else in ``truth.json`` of the same folder:
    {"scene": ..., "unknown": {parameter: number or list}, "units": {parameter: unit}}, units being optional. Folders of runs
    (those with a ``result.json``) and hidden ones are passed over.

    Args:
        folder: the folder.

    Returns:
        The films, by name.

    Raises:
        UserError: there is no film, or files are malformed: one sentence for each of them, a line each.
    """
    named, folder = str(folder), Path(folder)
    if not named or not folder.is_dir():  # "" would be the working folder, and all below it
        raise UserError(f"{named!r} is not a folder: give a folder of films with JSON files of their true values")
    paths = sorted(_files(folder))
    films, faults, names = [], [], set()
    for path in (path for path in paths if path.suffix.lower() in FILM_ENDINGS):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in names:
            faults.append(f"{path}: another film is called {name}, too: rename one of them")
            continue
        names.add(name)
        try:
            films.append(_read_film(name, path))
        except UserError as error:
            faults.append(str(error))
    owned = {folder / f"{name}.json" for name in names} | {film.truth_file for film in films}
    faults += [
        f"{path} belongs to no film: put a film {path.stem}.mp4 beside it, or remove it"
        for path in paths
        if path.suffix == ".json" and path not in owned and _has_truth(path)
    ]
    faults = list(dict.fromkeys(faults))  # a truth.json of several films is one file
    if faults:
        raise UserError("\n".join(faults))
    if not films:
        raise UserError(f"{folder} has no films ({', '.join(FILM_ENDINGS)}): give a folder of films with JSON files beside them")
    return films


def labelled(name: str, value: Any) -> dict[str, float]:
    """Label -> number of a number or of nested lists of numbers ("body.velocity[0]").

    Raises:
        ValueError: something in it is not a finite number.
    """
    if isinstance(value, list) and value:
        return {label: x for k, entry in enumerate(value) for label, x in labelled(f"{name}[{k}]", entry).items()}
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {json.dumps(value)[:40]}")
    return {name: float(value)}


def read_json(path: Path, form: str) -> dict[str, Any]:
    """A JSON object.

    Args:
        path: the file.
        form: what to write there instead, for the error.

    Raises:
        UserError: the file cannot be read or has no JSON object.
    """
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give {form}") from error
    except ValueError as error:
        location = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"{path} is not JSON ({location}): give {form}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object: give {form}")
    return content


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, but for hidden ones and those of runs, which have films of their own."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if not (path / "result.json").exists():
                yield from _files(path)
        else:
            yield path


def _read_film(name: str, path: Path) -> MeasuredFilm:
    film_truth, of_folder = path.with_suffix(".json"), path.with_name(TRUTH_OF_FOLDER)
    file = film_truth if film_truth.exists() else of_folder
    if not file.exists():
        raise UserError(f"{path} has no true values: write {film_truth.name} or {TRUTH_OF_FOLDER} beside it, as {_FORM}")
    content = read_json(file, _FORM)
    scene, unknown, units = content.get("scene"), content.get("unknown"), content.get("units", {})
    if not isinstance(scene, str) or not scene:
        raise UserError(f'{file} names no scene: write "scene": the name of a scene or the path of its file')
    if not isinstance(unknown, dict) or not unknown:
        raise UserError(f'{file} has no true values: write "unknown": {{"body.density": 600.0}}')
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise UserError(f'{file}: "units" is not an object of texts: write "units": {{"body.density": "kg/m3"}}')
    without = [parameter for parameter in units if parameter not in unknown]
    if without:
        raise UserError(f'{file} has a unit of {without[0]}, and no true value: add it to "unknown", or remove the unit')
    try:
        truth = {label: x for parameter, value in unknown.items() for label, x in labelled(parameter, value).items()}
    except ValueError as error:
        raise UserError(f"{file}: the true value of {error}: give a finite number, or a list of them") from error
    return MeasuredFilm(name=name, film=path, truth_file=file, scene=scene, truth=truth, units=dict(units))


def _has_truth(path: Path) -> bool:
    """Whether a JSON file is meant to be the truth of a film: cameras and others may lie there, too."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "unknown" in content
