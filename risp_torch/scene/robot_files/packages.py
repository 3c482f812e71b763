"""Optional packages that read robot files."""

from __future__ import annotations

import importlib
from types import ModuleType

from ti_sim.base.errors import UserError


def import_robot_package(name: str) -> ModuleType:
    """Import a package of the extra "robots".

    Args:
        name: name of the module.

    Raises:
        UserError: it is not installed or does not load.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UserError(
            f"robot files need the package {package} ({error}): install it with pip install 'risp-taichi[robots]'"
        ) from error
