"""Optional packages that read and create solid meshes."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from ti_sim.base.errors import UserError

_INSTALL = "install it with pip install 'risp-taichi[meshes]'"


def require_package(name: str, purpose: str) -> ModuleType:
    """Import a package of the extra "meshes".

    Args:
        name: name of the module.
        purpose: action that requires it, for the error message.

    Raises:
        UserError: it is not installed or does not load.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"{purpose} needs the package {name} ({error}): {_INSTALL}") from error


def check_installed(name: str, purpose: str) -> None:
    """Raise a UserError unless a package of the extra "meshes" is installed; it is not imported.

    Args:
        name: name of the module.
        purpose: action that requires it, for the error message.
    """
    if importlib.util.find_spec(name) is None:
        raise UserError(f"{purpose} needs the package {name}, which is not installed: {_INSTALL}")
