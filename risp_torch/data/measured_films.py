"""Folders of films with measured parameters: each film has a JSON file with its scene and the true values."""

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

__all__ = ["FILM_SUFFIXES", "FOLDER_TRUTH_FILE", "MeasuredFilm", "flatten_values", "read_json", "read_measured_films"]

FILM_SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm")
FOLDER_TRUTH_FILE = "truth.json"
_EXPECTED_CONTENT = '{"scene": "toss", "unknown": {"body.density": 600.0}, "units": {"body.density": "kg/m3"}}'


@dataclass(frozen=True)
class MeasuredFilm:
    """A film with measured truth.

    Attributes:
        name: path of the film below the folder, without its ending.
        film: the film's file.
        truth_file: the JSON file of its true values.
        scene: name of the scene, or path of its file.
        truth: label -> true value, in the unit of the scene's parameter; entries of arrays as "body.velocity[0]".
        units: parameter -> unit as written in the file; may be empty. Values are not converted.
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
    folder_text, folder = str(folder), Path(folder)
    if not folder_text or not folder.is_dir():  # "" would be the working folder, and all below it
        raise UserError(f"{folder_text!r} is not a folder: give a folder of films with JSON files of their true values")
    paths = sorted(_files(folder))
    films, messages, names = [], [], set()
    for path in (path for path in paths if path.suffix.lower() in FILM_SUFFIXES):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in names:
            messages.append(f"{path}: another film is called {name}, too: rename one of them")
            continue
        names.add(name)
        try:
            films.append(_read_film(name, path))
        except UserError as error:
            messages.append(str(error))
    truth_files = {folder / f"{name}.json" for name in names} | {film.truth_file for film in films}
    messages += [
        f"{path} belongs to no film: put a film {path.stem}.mp4 beside it, or remove it"
        for path in paths
        if path.suffix == ".json" and path not in truth_files and _has_truth(path)
    ]
    messages = list(dict.fromkeys(messages))  # a truth.json of several films is one file
    if messages:
        raise UserError("\n".join(messages))
    if not films:
        raise UserError(f"{folder} has no films ({', '.join(FILM_SUFFIXES)}): give a folder of films with JSON files beside them")
    return films


def flatten_values(name: str, value: Any) -> dict[str, float]:
    """Label -> number of a number or of nested lists of numbers ("body.velocity[0]").

    Raises:
        ValueError: something in it is not a finite number.
    """
    if isinstance(value, list) and value:
        return {label: number for k, item in enumerate(value) for label, number in flatten_values(f"{name}[{k}]", item).items()}
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {json.dumps(value)[:40]}")
    return {name: float(value)}


def read_json(path: Path, expected_content: str) -> dict[str, Any]:
    """A JSON object.

    Args:
        path: the file.
        expected_content: description of valid content, for error messages.

    Raises:
        UserError: the file cannot be read or has no JSON object.
    """
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give {expected_content}") from error
    except ValueError as error:
        location = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"{path} is not JSON ({location}): give {expected_content}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object: give {expected_content}")
    return content


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, except hidden ones and those in folders of runs, which also contain films."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if not (path / "result.json").exists():
                yield from _files(path)
        else:
            yield path


def _read_film(name: str, path: Path) -> MeasuredFilm:
    film_truth_file, folder_truth_file = path.with_suffix(".json"), path.with_name(FOLDER_TRUTH_FILE)
    file = film_truth_file if film_truth_file.exists() else folder_truth_file
    if not file.exists():
        raise UserError(
            f"{path} has no true values: write {film_truth_file.name} or {FOLDER_TRUTH_FILE} beside it, as {_EXPECTED_CONTENT}"
        )
    content = read_json(file, _EXPECTED_CONTENT)
    scene, unknown, units = content.get("scene"), content.get("unknown"), content.get("units", {})
    if not isinstance(scene, str) or not scene:
        raise UserError(f'{file} names no scene: write "scene": the name of a scene or the path of its file')
    if not isinstance(unknown, dict) or not unknown:
        raise UserError(f'{file} has no true values: write "unknown": {{"body.density": 600.0}}')
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise UserError(f'{file}: "units" is not an object of texts: write "units": {{"body.density": "kg/m3"}}')
    units_without_value = [parameter for parameter in units if parameter not in unknown]
    if units_without_value:
        raise UserError(
            f'{file} has a unit of {units_without_value[0]}, and no true value: add it to "unknown", or remove the unit'
        )
    try:
        truth = {
            label: number for parameter, value in unknown.items() for label, number in flatten_values(parameter, value).items()
        }
    except ValueError as error:
        raise UserError(f"{file}: the true value of {error}: give a finite number, or a list of them") from error
    return MeasuredFilm(name=name, film=path, truth_file=file, scene=scene, truth=truth, units=dict(units))


def _has_truth(path: Path) -> bool:
    """Whether a JSON file contains the true values of a film; the folder may also contain cameras and other files."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "unknown" in content
