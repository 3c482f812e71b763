"""Load scenes by the name of a shipped scene or by the path of a Python file."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

# The package of the shipped scenes, as a wheel installs it; in a checkout it is the folder ``scenes``.
_PACKAGE = "risp_torch_scenes"
_ROOT = Path(__file__).resolve().parents[2]
_SIGNATURES = {
    "make_scene": "make_scene(**overrides) that returns a Scene",
    "make_task": "make_task(scene) that returns a RispTask",
    "make_control": "make_control(scene) that returns a ControlTask",
}


@checked
def scene_names(having: str = "make_scene") -> dict[str, str]:
    """Name -> first line of the docstring, for every shipped scene; those of real data are "real/NAME".

    Args:
        having: "make_task" or "make_control" for the scenes whose files also define that function.
    """
    result = {}
    for path in (*sorted(_folder().glob("*.py")), *sorted(_folder().glob("real/*.py"))):
        source = path.read_text(encoding="utf-8")
        if "\ndef make_scene(" in source and f"\ndef {having}(" in source:
            first_line = source.lstrip().lstrip('"').splitlines()[0]
            result[path.relative_to(_folder()).with_suffix("").as_posix()] = first_line.rstrip('"').strip()
    return result


@checked
def load_scene(scene: str, **overrides: Any) -> Scene:
    """Make a scene from its name or the path of its file.

    Args:
        scene: a name that ``scene_names`` lists, or a path to a .py file with ``make_scene(**overrides) -> Scene``.
        overrides: options of make_scene.

    Raises:
        UserError: the scene does not exist, its file does not load or has no make_scene, make_scene does not have an option,
            or make_scene failed.
    """
    make_scene = find_make_scene(scene)
    options = inspect.signature(make_scene).parameters
    if not any(option.kind is option.VAR_KEYWORD for option in options.values()):
        for name in overrides:
            if name not in options:
                raise unknown_name_error(f"option of {scene}'s make_scene", name, list(options))
    override_text = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
    with scene_errors_as_user_errors(scene, f"make_scene({override_text})"):
        made_scene = make_scene(**overrides)
    if not isinstance(made_scene, Scene):
        raise UserError(f"make_scene of {scene} returned {type(made_scene).__name__}: return a Scene")
    return made_scene


def find_make_scene(scene: str) -> Callable[..., Scene]:
    """The make_scene function of a scene, by name or path (errors: ``load_scene``)."""
    return find_function(scene, "make_scene")


@checked
def find_function(scene: str, name: str, *, signature: str | None = None) -> Callable[..., Any]:
    """A function of a scene's file.

    Args:
        scene: name or path, as for ``load_scene``.
        name: of the function.
        signature: its call and result for the error message, such as "make_task(scene) that returns a RispTask".

    Raises:
        UserError: see ``load_scene``, or the file has no such function.
    """
    path = _scene_path(scene)
    module = _load_module(path)
    if not callable(getattr(module, name, None)):
        shipped = scene_names(having=name) if name != "make_scene" else {}
        hint = f" (shipped scenes with one: {', '.join(shipped)})" if shipped else ""
        raise UserError(f"{path} has no {name}: define {signature or _SIGNATURES.get(name, name)}{hint}")
    return getattr(module, name)


def has_function(scene: str, name: str) -> bool:
    """Whether a scene's file defines a function (errors: ``load_scene``)."""
    return callable(getattr(_load_module(_scene_path(scene)), name, None))


def _scene_path(scene: str) -> Path:
    if scene in scene_names():
        return _folder() / f"{scene}.py"
    if scene.endswith(".py") or "/" in scene:
        path = Path(scene)
        if not path.is_file() or path.suffix != ".py":
            names, fault = ", ".join(scene_names()), "is no Python file" if path.is_file() else "does not exist"
            raise UserError(f"scene file {scene} {fault}: give the path of a .py file, or one of {names}")
        return path
    raise unknown_name_error("scene", scene, list(scene_names()))


def _load_module(path: Path) -> ModuleType:
    _make_package()
    name = f"scene_{path.stem}"
    if _folder() in path.resolve().parents:
        name = ".".join((_PACKAGE, *path.resolve().relative_to(_folder()).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except UserError as error:
        raise UserError(f"scene file {path} does not load: {error}{_error_location(error, path)}") from error
    except (Exception, SystemExit) as error:
        raise UserError(
            f"scene file {path} does not load: {type(error).__name__}: {error}{_error_location(error, path)}"
        ) from error
    return module


@checked
@contextmanager
def scene_errors_as_user_errors(scene: str, function: str) -> Iterator[None]:
    """Turn every error of a function of a scene's file into one that names function, scene and line.

    Args:
        scene: name or path, as for ``load_scene``.
        function: the call in the block, for the message, such as "make_task(scene)".

    Raises:
        UserError: in place of any exception of the block.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{function} of {scene}: {error}{_error_location(error, _scene_path(scene))}") from error
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{function} of {scene} failed: {reason}{_error_location(error, _scene_path(scene))}") from error


def _error_location(error: BaseException, path: Path) -> str:
    """ " (file, line N)": the deepest line of the scene's file in the traceback of an error; "" if unknown."""
    if isinstance(error, SyntaxError) and re.search(r"line \d+\)$", str(error)):
        return ""  # the message already has it
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name and Path(frame.filename).samefile(path)]
    return f" ({path.name}, line {lines[-1]})" if lines else ""


def _folder() -> Path:
    """Folder of the shipped scenes: beside this package, independent of the working folder."""
    installed = _ROOT / _PACKAGE
    return installed if installed.is_dir() else _ROOT / "scenes"


def _make_package() -> None:
    """Make the shipped scenes importable by each other and by users' scenes: ``from risp_torch_scenes.hand import ...``."""
    if _PACKAGE in sys.modules:
        return
    folder = _folder()
    spec = importlib.util.spec_from_file_location(_PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_PACKAGE] = module
