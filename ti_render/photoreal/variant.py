"""Loading of Mitsuba, and choice of a variant that runs on this machine.

The variant that is compiled at run time needs LLVM. Versions 15 and 16 load but abort the process on some instructions, so a
library is loaded into this process only after a child process has rendered a picture with it.
"""

from __future__ import annotations

import ctypes.util
import functools
import glob
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from typing import Any

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

OLDEST_LLVM = 17
LLVM_PATH_VARIABLE = "DRJIT_LIBLLVM_PATH"
_LIBRARY_PATTERNS = (
    "/usr/lib/*/libLLVM*.so*", "/usr/lib64/libLLVM*.so*", "/usr/lib/libLLVM*.so*", "/usr/lib/llvm-*/lib/libLLVM*.so*",
    "/usr/lib64/llvm*/lib*/libLLVM*.so*", "/usr/local/lib/libLLVM*.so*", "/opt/homebrew/opt/llvm*/lib/libLLVM*.dylib",
    "/usr/local/opt/llvm*/lib/libLLVM*.dylib",
)  # fmt: skip
# In an environment of Python: libraries of conda, and those in wheels. (llvmlite's library hides the
# functions that Mitsuba calls.)
_PREFIX_PATTERNS = ("lib/libLLVM*", "Library/bin/libLLVM*")
_WHEEL_PATTERNS = ("libLLVM*", "*/libLLVM*", "*/lib/libLLVM*", "*/bin/libLLVM*")
_PROBE_SECONDS = 120
_MAX_CANDIDATES = 3  # maximum number of libraries that are tested

# Runs in a child process. LLVMGetVersion exists from LLVM 16 on: older libraries fail here.
_PROBE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
version = [ctypes.c_uint() for _ in range(3)]
library.LLVMGetVersion(*(ctypes.byref(number) for number in version))
if version[0].value < int(sys.argv[2]):
    sys.exit(3)
import mitsuba as mi
mi.set_variant("llvm_ad_rgb")
ball = {"type": "sphere", "bsdf": {"type": "principled", "roughness": 0.3, "clearcoat": 0.5}}
lamp = {"type": "rectangle", "to_world": mi.ScalarTransform4f().translate([0, 0, 5]), "light": {"type": "area"}}
film = {"type": "hdrfilm", "width": 8, "height": 8}
eye = mi.ScalarTransform4f().look_at([0, 0, 4], [0, 0, 0], [0, 1, 0])
scene = {"type": "scene", "path": {"type": "path"}, "ball": ball, "lamp": lamp, "sky": {"type": "constant"},
         "eye": {"type": "perspective", "to_world": eye, "film": film}}
image = mi.TensorXf(mi.render(mi.load_dict(scene), spp=4))
print("mean", float(sum(image.array) / len(image.array)))
"""


@dataclass(frozen=True)
class Variant:
    """Variant of Mitsuba that runs on this machine.

    Attributes:
        name: Mitsuba's name of the variant.
        llvm: path of the LLVM library that it uses, None for scalar_rgb.
        reason: of the choice, in a few words.
    """

    name: str
    llvm: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


@checked
def choose_variant(requested: str) -> Variant:
    """The variant to use.

    Args:
        requested: "auto", "scalar_rgb" or "llvm_ad_rgb" (see ``MitsubaSettings``).

    Returns:
        The variant; Mitsuba is not loaded.

    Raises:
        UserError: Mitsuba is not installed, or "llvm_ad_rgb" was asked for and no LLVM library works.
    """
    if importlib.util.find_spec("mitsuba") is None:
        raise _not_installed("no module of that name")
    if requested == "scalar_rgb":
        return Variant("scalar_rgb", None, "as asked for")
    # Mitsuba takes the first LLVM it finds when it is imported, and keeps it.
    loaded_version = _loaded_llvm()
    if loaded_version is not None and loaded_version[0] >= OLDEST_LLVM:
        return Variant("llvm_ad_rgb", None, f"with the LLVM {loaded_version[0]} that is loaded already")
    path = find_llvm() if loaded_version is None else None
    if path is not None:
        return Variant("llvm_ad_rgb", path, f"with {path}")
    status = (
        f"LLVM {loaded_version[0]} is loaded already" if loaded_version and loaded_version[0] > 0 else "none was found to work"
    )
    if requested == "llvm_ad_rgb":
        raise UserError(
            f"variant llvm_ad_rgb needs an LLVM library of version {OLDEST_LLVM} or newer, and {status}: "
            f"install one (Debian: libllvm19), name its file in {LLVM_PATH_VARIABLE}, or take --variant scalar_rgb"
        )
    return Variant("scalar_rgb", None, f"the faster llvm_ad_rgb needs LLVM {OLDEST_LLVM} or newer, and {status}")


def load_mitsuba(variant: Variant) -> Any:
    """The module ``mitsuba`` with its variant set.

    Args:
        variant: from ``choose_variant``.

    Raises:
        UserError: Mitsuba is not installed, a library that it needs is missing, or another LLVM than that of the variant was
            loaded after the choice.
    """
    if variant.llvm is not None:
        os.environ[LLVM_PATH_VARIABLE] = variant.llvm
    try:
        import mitsuba
    except ImportError as error:
        raise _not_installed(str(error)) from error
    except NameError as error:  # Dr.Jit raises it while it handles the ImportError of its extension module
        raise UserError(
            f"Mitsuba cannot be imported ({error.__context__ or error}): install the library that it needs (libatomic.so.1: "
            "Debian's package libatomic1), or leave --renderer mitsuba out"
        ) from error
    if variant.name.startswith("llvm"):
        loaded_version = _loaded_llvm() or (0,)
        if loaded_version[0] < OLDEST_LLVM:
            raise UserError(
                f"Mitsuba has loaded LLVM {loaded_version[0]} and {OLDEST_LLVM} or newer is needed: choose the variant before "
                "anything else imports Mitsuba, or take scalar_rgb"
            )
    if mitsuba.variant() != variant.name:
        mitsuba.set_variant(variant.name)
    return mitsuba


@functools.lru_cache(maxsize=1)
def find_llvm() -> str | None:
    """Path of an LLVM library with which a child process has rendered a picture, None if there is none.

    The library that the environment variable DRJIT_LIBLLVM_PATH names is the only one tested where it is set.
    """
    chosen_path = os.environ.get(LLVM_PATH_VARIABLE)
    candidates = [chosen_path] if chosen_path else _candidates()
    return next((path for path in candidates[:_MAX_CANDIDATES] if _can_render(path)), None)


def _candidates() -> list[str]:
    """Libraries whose file names contain a sufficient version, the newest first, each file once."""
    libraries: dict[str, tuple[int, str]] = {}
    names = [path for pattern in _path_patterns() for path in sorted(glob.glob(pattern))]
    loader_path = ctypes.util.find_library("LLVM")
    for path in [*names, *([loader_path] if loader_path and os.path.isabs(loader_path) else [])]:
        version = _version_in(path)
        if version >= OLDEST_LLVM:
            libraries.setdefault(os.path.realpath(path), (version, path))
    return [path for _, path in sorted(libraries.values(), key=lambda entry: -entry[0])]


def _path_patterns() -> list[str]:
    """Patterns of the paths of libraries."""
    wheels = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return [
        *(os.path.join(glob.escape(sys.prefix), pattern) for pattern in _PREFIX_PATTERNS),
        *(os.path.join(glob.escape(folder), pattern) for folder in sorted(wheels) for pattern in _WHEEL_PATTERNS),
        *_LIBRARY_PATTERNS,
    ]  # fmt: skip


def _version_in(path: str) -> int:
    """The version in a library's path, such as 19 of libLLVM.so.19.1 or llvm-18/lib/libLLVM.so; 0 for none.

    Wheels put a part of a checksum between name and version: libLLVM-0a1b2c3d.so.19.1.
    """
    name = re.sub(r"-[0-9a-f]{8}(?=[.-])", "", os.path.basename(path))
    match = re.search(r"libLLVM(?:-|\.so\.|\.)(\d+)", name) or re.search(r"llvm[-@]?(\d+)", path)
    return int(match.group(1)) if match else 0


def _can_render(path: str) -> bool:
    environment = {**os.environ, LLVM_PATH_VARIABLE: path}
    command = [sys.executable, "-c", _PROBE, path, str(OLDEST_LLVM)]
    try:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return process.returncode == 0 and process.stdout.startswith("mean")


def _loaded_llvm() -> tuple[int, ...] | None:
    """Version of the LLVM that this process has loaded for Mitsuba, -1 where it found none, None before the search."""
    return tuple(sys.modules["drjit"].detail.llvm_version()) if "drjit" in sys.modules else None


def _not_installed(reason: str) -> UserError:
    return UserError(
        f"Mitsuba is not installed ({reason}): install it with pip install 'risp-taichi[photoreal]', "
        "or leave --renderer mitsuba out"
    )
