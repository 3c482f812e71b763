"""The packages that read and make solid meshes: an optional extra."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from ti_sim.base.errors import UserError

_INSTALL = "install it with pip install 'risp-taichi[meshes]'"


def required(name: str, purpose: str) -> ModuleType:
    """Import a package of the extra "meshes".

    Args:
        name: of the module.
        purpose: what needs it, as the error says it.

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
        name: of the module.
        purpose: what needs it, as the error says it.
    """
    if importlib.util.find_spec(name) is None:
        raise UserError(f"{purpose} needs the package {name}, which is not installed: {_INSTALL}")
