"""Use the estimates of a run in its scene."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.run_folder import check_result_schema
from risp_torch.inversion.problem.unknowns import PSI
from risp_torch.scene.adding.camera import add_lens
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.parts.clock import NUMBERS
from risp_torch.scene.rendering_parameters import RenderingParameters
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json
from ti_sim.base.numbers import format_value, real_numbers
from ti_sim.base.rules import checked

_RESULT_FILES = "the result.json of 'risp invert' or 'risp landscape'"


@checked
def apply_result(scene: Scene, path: str | Path) -> list[str]:
    """Set the parameters of a scene to the estimates of a run.

    A value outside a parameter's bounds, which a search may have widened, widens them.

    Args:
        scene: scene that is changed.
        path: ``result.json`` of an inversion or a landscape (its lowest point), or the folder of the run. For several
            films, the parameters of each film are those of the first, or, with "@2" after the path, of the second.

    Returns:
        Names of the parameters, or entries, that were set.

    Raises:
        UserError: the file does not exist, has no values, or is another version's, or the scene lacks a parameter.
    """
    path, film = _path_and_film(str(path))
    file = path / "result.json" if path.is_dir() else path
    values = _values(scene, _read(file), str(file), film)
    if scene.clock is None and any(split_entry(name)[0] in NUMBERS for name in values):
        scene.set_film()
    for name, value in values.items():
        try:
            _widen(scene, name, value)
            scene.set(name, value)
        except UserError as error:
            raise UserError(f"{file} does not fit the scene {scene.name}: {error}") from None
    return list(values)


def _path_and_film(path: str) -> tuple[Path, int]:
    """Path, and number of the film behind an @."""
    base, _, film = path.rpartition("@")
    return (Path(base), int(film)) if base and film.isdecimal() and not Path(path).exists() else (Path(path), 1)


def _read(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise UserError(f"{file} does not exist: give {_RESULT_FILES}, or the folder of a finished run")
    try:
        result = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is not a JSON file: give {_RESULT_FILES}") from error
    keys = ("unknowns", "lowest", "values")
    if not isinstance(result, Mapping) or not any(isinstance(result.get(key), Mapping) for key in keys):
        raise UserError(f"{file} has no estimates: give {_RESULT_FILES}")
    check_result_schema(result, file)
    return result


def _values(scene: Scene, result: Mapping[str, Any], file: str, film: int) -> dict[str, Any]:
    """Name of a parameter or an entry -> value; psi as its parameters."""
    for key in ("lowest", "values"):
        if isinstance(result.get(key), Mapping):
            return {name: _numbers(value, name, file) for name, value in result[key].items()}
    try:
        estimates = {label: float(_numbers(entry["value"], label, file)) for label, entry in result["unknowns"].items()}
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{file} is damaged: give {_RESULT_FILES}") from None
    estimates = _of_one_film(estimates, film, file)
    psi = [estimates.pop(label) for label in list(estimates) if label.startswith(f"{PSI}: ")]
    values = _merged_arrays(scene, estimates)
    if psi:
        try:
            parameters = RenderingParameters.from_json(scene, result["settings"]["psi"])
        except (KeyError, TypeError):
            raise UserError(f"{file} is damaged: give {_RESULT_FILES}") from None
        psi_values = parameters.values(torch.tensor(psi, dtype=torch.float64))
        values |= {name: value.numpy() for name, value in psi_values.items()}
    return values


def _numbers(value: Any, name: str, file: str) -> np.ndarray:
    """A number or an array of numbers of a file."""
    array = real_numbers(value)
    if array is None or not np.isfinite(array).all():
        raise UserError(f"{file}: {name} is {format_value(value)}: give finite numbers there, or the file of another run")
    return array


def _of_one_film(estimates: Mapping[str, float], film: int, file: str) -> dict[str, float]:
    """The shared parameters and those of one film under their plain names ("body.velocity@2[0]" without "@2")."""
    mark = re.compile(r"@(\d+)(?=\[|$)")
    films = {int(number) for label in estimates for number in mark.findall(label)} or {1}
    if film not in films:
        raise UserError(f"{file} has no film {film}: name one of {', '.join(map(str, sorted(films)))}")
    return {mark.sub("", label): value for label, value in estimates.items() if mark.findall(label) in ([], [str(film)])}


def _merged_arrays(scene: Scene, estimates: Mapping[str, float]) -> dict[str, Any]:
    """Entries of one array merged, so that large arrays are set once."""
    entries: dict[str, dict[tuple[int, ...], float]] = {}
    for label, value in estimates.items():
        base, index = split_entry(label)
        entries.setdefault(base, {})[index] = value
    values: dict[str, Any] = {}
    for base, indices in entries.items():
        add_lens(scene, base)
        if () in indices:
            values[base] = indices[()]
            continue
        first = next(iter(indices))
        scene.table[base + "".join(f"[{i}]" for i in first)]  # raises an error that lists the entries
        array = np.array(scene.table[base].value)
        for index, value in indices.items():
            array[index] = value
        values[base] = array
    return values


def _widen(scene: Scene, name: str, value: Any) -> None:
    """Widen the bounds to include the value."""
    param, value = scene.table[name], np.asarray(value, dtype=np.float64)
    if value.shape == np.shape(param.value):
        low = None if param.low is None else np.minimum(param.low, value)
        high = None if param.high is None else np.maximum(param.high, value)
        scene.table.params[name] = replace(param, low=low, high=high)
