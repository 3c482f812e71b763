"""Settings of solvers that few inversions change: --solver NAME=VALUE.

Names, defaults and meanings are those of the dataclasses of ``search_settings``, and of two fields of ``SearchStages``.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from risp_torch.commands.options import number_parser
from risp_torch.inversion.problem.search_settings import (
    WIDE_SEARCH,
    CmaSettings,
    FindStart,
    NewtonSteps,
    OptimiseSettings,
    SearchSettings,
    WideSteps,
)
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero

OPTIMIZERS = ("adam", "rmsprop", "lbfgs")
SEARCHES: dict[str, type[SearchSettings]] = {
    "lm": NewtonSteps, **dict.fromkeys(OPTIMIZERS, OptimiseSettings), "wide": WideSteps
}  # fmt: skip
STAGE_SETTINGS = {"refine": FromZero, "linearise_up_to": Count}  # fields of ``SearchStages``


@dataclass(frozen=True)
class SolverGroup:
    """The settings of one solver.

    Attributes:
        option: the options that choose the solver.
        defaults: its settings, with their defaults.
        prefix: of their names on the command line.
        hidden: fields that are separate options.
    """

    option: str
    defaults: SearchSettings | FindStart | CmaSettings
    prefix: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the settings on the command line."""
        return [self.prefix + field.name for field in fields(self.defaults) if field.name not in self.hidden]

    def changed(self, texts: Mapping[str, str]) -> Any:
        """The settings with other values.

        Args:
            texts: name on the command line -> value.

        Raises:
            UserError: a value is out of its range.
        """
        changes = {}
        for name, text in texts.items():
            field = name.removeprefix(self.prefix)
            is_sequence = isinstance(getattr(self.defaults, field), tuple)
            values = [] if text.lower() == "none" else text.split(",")
            changes[field] = tuple(map(_value, values)) if is_sequence else _value(text)
        try:
            return replace(self.defaults, **changes)
        except UserError as error:
            sentence = str(error).removeprefix(f"{type(self.defaults).__name__}: ")
            raise UserError(f"--solver {self.prefix}{sentence} (settings of {self.option}: {', '.join(self.names)})") from None


SEARCH_GROUPS = (
    SolverGroup("--search lm", NewtonSteps(), hidden=("rounds",)),
    SolverGroup(f"--search {' or '.join(OPTIMIZERS)}", OptimiseSettings(), hidden=("optimizer", "iterations", "adjoint")),
    SolverGroup("--search wide", WIDE_SEARCH),
)
WARM_START_GROUPS = {
    "pictures": SolverGroup("--warm-start pictures", FindStart(), prefix="pictures."),
    "cma": SolverGroup("--warm-start cma", CmaSettings(), prefix="cma."),
}
_GROUPS = (*SEARCH_GROUPS, *WARM_START_GROUPS.values())


class SolverAction(argparse.Action):
    """Collect NAME=VALUE; the value "help" prints all settings and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        if values == "help":
            print(solver_help())
            parser.exit()
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])


def solver_help() -> str:
    """Name, default and meaning of every setting."""
    from risp_torch.inversion.problem.search_stages import SearchStages

    stage_defaults = {name: getattr(SearchStages(), name) for name in STAGE_SETTINGS}
    lines = ["after the search:", *_described(stage_defaults, _meanings(SearchStages, "Attributes:"))]
    for group in _GROUPS:
        defaults = {name: getattr(group.defaults, name.removeprefix(group.prefix)) for name in group.names}
        meanings = {group.prefix + name: text for name, text in _meanings(group.defaults, "Attributes:").items()}
        lines += ["", f"of {group.option}:", *_described(defaults, meanings)]
    return "\n".join(lines)


def solver_texts(options: argparse.Namespace) -> dict[str, str]:
    """Name -> value of --solver.

    Raises:
        UserError: a text is not NAME=VALUE, a name is unknown, or the solver that a name belongs to is not chosen.
    """
    texts = {}
    for text in options.solver:
        name, equals, value = text.partition("=")
        name, known_names = name.strip(), dict.fromkeys([*STAGE_SETTINGS, *(name for group in _GROUPS for name in group.names)])
        if not equals or name not in known_names:
            fault = f"unknown setting {name[:40]!r}" if equals else f"{text[:40]!r} is not NAME=VALUE"
            raise UserError(f"--solver: {fault}: give one of {', '.join(known_names)} (--solver help explains them)")
        texts[name] = value.strip()
    for kind, group in WARM_START_GROUPS.items():
        unused_names = sorted(set(group.names) & set(texts))
        if unused_names and kind not in options.warm_start:
            raise UserError(f"--solver {unused_names[0]} belongs to {group.option}: give that too, or leave it out")
    return texts


def stage_settings(texts: Mapping[str, str]) -> dict[str, int]:
    """The fields of ``SearchStages`` among the settings.

    Raises:
        UserError: a value is out of its range.
    """
    arguments = {}
    for name in texts.keys() & STAGE_SETTINGS.keys():
        try:
            arguments[name] = number_parser(STAGE_SETTINGS[name])(texts[name])
        except argparse.ArgumentTypeError as error:
            sentence = str(error).removeprefix("it ")
            raise UserError(f"--solver {name} {sentence} (settings of every search: {', '.join(STAGE_SETTINGS)})") from None
    return arguments


def settings_of(search: type[SearchSettings], texts: Mapping[str, str]) -> Any:
    """The settings of a search.

    Args:
        search: its class.
        texts: name -> value of --solver; those of other solvers have no effect.

    Raises:
        UserError: a setting of another search, or a value is out of its range.
    """
    (group,) = (group for group in SEARCH_GROUPS if type(group.defaults) is search)
    search_setting_names = [name for other_group in SEARCH_GROUPS for name in other_group.names]
    for name in texts:
        if name in search_setting_names and name not in group.names:
            owner = next(other_group.option for other_group in SEARCH_GROUPS if name in other_group.names)
            names = ", ".join(group.names)
            raise UserError(
                f"--solver {name} belongs to {owner}: choose that search, or leave it out (settings of {group.option}: {names})"
            )
    return group.changed({name: text for name, text in texts.items() if name in group.names})


def _value(text: str) -> Any:
    """A number, none, true or false, a tuple of numbers with colons between, or else the text."""
    words = {"none": None, "true": True, "false": False}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    if ":" in text:
        return tuple(map(_value, text.split(":")))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _described(defaults: Mapping[str, Any], meanings: Mapping[str, str]) -> list[str]:
    """Lines with name, default and meaning."""
    lines = []
    for name, default in defaults.items():
        text = ",".join(map(str, default)) or "none" if isinstance(default, tuple) else str(default).lower()
        described = f"{name}={text}  {meanings[name].replace('``', '')}"
        lines += textwrap.wrap(described, 110, initial_indent="  ", subsequent_indent=" " * 6)
    return lines


def _meanings(documented: Any, heading: str) -> dict[str, str]:
    """Name -> text of a section of a docstring."""
    lines: Sequence[str] = (inspect.getdoc(documented) or "").splitlines()
    meanings: dict[str, str] = {}
    name = ""
    for line in lines[lines.index(heading) + 1 :]:
        if not line.strip():
            break
        if line.startswith(" " * 8):
            meanings[name] += f" {line.strip()}"
        else:
            name, _, meanings[name] = line.strip().partition(": ")
    return meanings
