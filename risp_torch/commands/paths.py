"""Checks of the paths on a command line, before a command reads or writes anything."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from typing import Any

from risp_torch.files.folders import check_regular, contains, is_same_path
from ti_sim.base.errors import UserError
from ti_sim.base.rules import check_path

# Options that name files or folders which a command reads.
_INPUTS = (
    "scene", "video", "masks", "plate", "tracks", "depth", "pixel_weights", "states", "network",
    "result_path", "camera_file", "appearance", "data", "points", "pictures", "target", "cache", "verify",
)  # fmt: skip
_OUTPUTS = ("out", "sheet")
_SHARED_FOLDERS = ("result_path", "data", "cache")  # folders of runs, data sets and kept pictures, in which more runs may lie
_NUMBERED = re.compile(r"(.+):(\d{1,10})")
_WITH_THRESHOLD = re.compile(r"(.+):([\d.eE+-]+)")
_KEYWORDS = {"appearance": ("random", "scene"), "plate": ("median",)}  # words that an option takes in place of a path


def check_paths(options: argparse.Namespace) -> None:
    """Refuse paths that no file can have, pipes, and outputs that would change an input.

    Raises:
        UserError: a path is no UTF-8 text or is too long; an input is a pipe or a device; or an output is an input, lies in an
            input's folder, or is a folder around it that the command replaces.
    """
    inputs = [(name, path) for name in _INPUTS for path in _paths_of(options, name)]
    outputs = [(name, path) for name in _OUTPUTS for path in _paths_of(options, name)]
    for name, path in [*inputs, *outputs]:
        check_path(_option_text(name), path)
    inputs = [(name, path) for name, path in inputs if os.path.exists(path)]
    for name, path in inputs:
        check_regular(path, f"{_option_text(name)} {path}")
    for option, output_path in outputs:
        for name, path in inputs:
            is_input = is_same_path(output_path, path)
            is_inside_input = os.path.isdir(path) and name not in _SHARED_FOLDERS and contains(path, output_path)
            is_film_folder = options.command == "film" and option == "out" and contains(output_path, path)
            if is_input or is_inside_input or is_film_folder:
                relation = "is" if is_input else "lies in" if is_inside_input else "is a folder around"
                raise UserError(
                    f"--{option} {output_path} {relation} the input {path}, which would change: choose another place for it"
                )


def _paths_of(options: argparse.Namespace, name: str) -> Iterator[str]:
    """The texts of an option that may be paths, without numbers and keywords."""
    value: Any = getattr(options, name, None)
    for text in value if isinstance(value, list | tuple) else [value]:
        if (
            not isinstance(text, str)
            or not text
            or text in _KEYWORDS.get(name, ())
            or name == "scene"
            and not text.endswith(".py")
        ):
            continue
        if name == "masks":
            yield split_mask(text)[1]
        elif name == "plate":
            yield split_plate(text)[0]
        else:
            yield re.sub("^(risp|perceptual)=", "", text) if name == "network" else text


def split_mask(text: str) -> tuple[str | None, str, int | None]:
    """Body, path and object number of [BODY=]PATH[:N]."""
    name, equals, path = text.partition("=")
    match = _NUMBERED.fullmatch(path if equals else text)
    path, number = (match[1], int(match[2])) if match else (path if equals else text, None)
    return (name.strip() if equals else None), path, number


def split_plate(text: str) -> tuple[str, str | None]:
    """Path, or a word, and threshold of FILE[:X]."""
    match = _WITH_THRESHOLD.fullmatch(text)
    return (match[1], match[2]) if match else (text, None)


def _option_text(name: str) -> str:
    """An option as it is written on the command line."""
    special_texts = {"result_path": "--from", "video": "the film", "scene": "the scene", "pictures": "the picture"}
    return special_texts.get(name, f"--{name.replace('_', '-')}")
