"""Finding scenes: by name among those that ship, or by the path of a Python file."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

from risp_torch.scene.scene import Scene
from risp_torch.suggest import unknown_name_error
from ti_sim.base.errors import UserError

_SIGNATURES = {
    "make_scene": "make_scene(**overrides) that returns a Scene",
    "make_task": "make_task(scene) that returns a RispTask",
    "make_control": "make_control(scene) that returns a ControlTask",
    "make_trials": "make_trials() that returns a dict of Trials",
}


def scene_names() -> dict[str, str]:
    """Name -> first line of the docstring, for every scene that ships."""
    result = {}
    for path in sorted(_folder().glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "\ndef make_scene(" in source:
            first = source.lstrip().lstrip('"').splitlines()[0]
            result[path.stem] = first.rstrip('"').strip()
    return result


def load_scene(scene: str, **overrides: Any) -> Scene:
    """Make a scene from its name or the path of its file.

    Args:
        scene: a name that ``scene_names`` lists, or a path to a .py file with ``make_scene(**overrides) -> Scene``.
        overrides: options of make_scene.

    Raises:
        UserError: no such scene, a file that does not load, no make_scene in it, an option that it does not take, or
            make_scene failed.
    """
    make_scene = find_make_scene(scene)
    options = inspect.signature(make_scene).parameters
    if not any(option.kind is option.VAR_KEYWORD for option in options.values()):
        for name in overrides:
            if name not in options:
                raise unknown_name_error(f"option of {scene}'s make_scene", name, list(options))
    given = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
    try:
        made = make_scene(**overrides)
    except UserError as error:
        raise UserError(f"make_scene({given}) of {scene}: {error}") from error
    except Exception as error:
        raise UserError(f"make_scene({given}) of {scene} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Scene):
        raise UserError(f"make_scene of {scene} returned {type(made).__name__}: return a Scene")
    return made


def find_make_scene(scene: str) -> Callable[..., Scene]:
    """The make_scene function of a scene, by name or path (errors: ``load_scene``)."""
    return find_function(scene, "make_scene")


def find_function(scene: str, name: str) -> Callable[..., Any]:
    """A function of a scene's file, by the scene's name or path (errors: ``load_scene``)."""
    module = _load_module(_find(scene))
    if not callable(getattr(module, name, None)):
        raise UserError(f"{module.__file__} has no {name}: define {_SIGNATURES[name]}")
    return getattr(module, name)


def has_function(scene: str, name: str) -> bool:
    """Whether a scene's file defines a function (errors: ``load_scene``)."""
    return callable(getattr(_load_module(_find(scene)), name, None))


def _find(scene: str) -> Path:
    if scene.endswith(".py") or "/" in scene:
        path = Path(scene)
        if not path.is_file():
            names = ", ".join(scene_names())
            raise UserError(f"scene file {scene} does not exist: give the path of a .py file, or one of {names}")
        return path
    if scene not in scene_names():
        raise unknown_name_error("scene", scene, list(scene_names()))
    return _folder() / f"{scene}.py"


def _load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scene_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"scene file {path} does not load: {type(error).__name__}: {error}") from error
    return module


def _folder() -> Path:
    return Path(str(resources.files("scenes")))
