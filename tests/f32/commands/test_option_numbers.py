"""Every number of every command's options is held to a rule; the parsers are walked, and no command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import pytest

from risp_torch.__main__ import PROGRAM
from risp_torch.commands.options import picture_size
from risp_torch.commands.solver_settings import settings_of, solver_texts
from risp_torch.inversion.problem.search_settings import OptimiseSettings, WideSteps
from ti_sim.base.errors import UserError

PARSER, PARSERS = PROGRAM.parsers()
MALFORMED = ("nan", "inf", "-inf", "-1", "1e400", "9" * 5000, "x", "", "1+1j", "[1]")
# Where a number is only a part of an option.
PARTS = {"--prior": ("mu=smooth:{}",), "--psi": ("random:{}",), "--noise": ("{}", "mask={}"), "--loss": ("{}", "pixel+{}*mask"),
         "--camera-settings": ("depth={}:1", "depth=0.1:{}", "scale={}"), "--samples": ("exposure={}", "pixel={}"),
         "--size": ("{}", "4x{}"), "--look": ("color_regularisation={}",)}  # fmt: skip
NUMBERED = {"N", "K", "M", "PIXELS", "FRAMES", "PIXELS|WxH", "SHARE"}  # as help texts call numbers


INVERT = ["invert", "toss", "--video", "no.mp4", "--unknown", "body.density"]


def with_readers(command: str) -> Iterator[argparse.Action]:
    yield from (action for action in PARSERS[command]._actions if action.type is not None)


def line(command: str, action: argparse.Action, value: str) -> list[str]:
    """A command line that lacks nothing, with a value for one option."""
    words = [command]
    for needed in PARSERS[command]._actions:
        if needed.required and needed is not action:
            words += [*needed.option_strings[:1], next(iter(needed.choices or ["thing"]))]
    return [*words, f"{action.option_strings[0]}={value}"]


@pytest.mark.parametrize("command", PARSERS)
def test_malformed_numbers_are_refused_with_the_options_name(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in with_readers(command):
        option = action.option_strings[0]
        for value in MALFORMED:
            for text in (part.format(value) for part in PARTS.get(option, ("{}",))):
                with pytest.raises(SystemExit) as end:
                    PARSER.parse_args(line(command, action, text))
                said = capsys.readouterr().err
                assert end.value.code == 2 and said.count("\n") == 1 and len(said) < 250, said
                assert said.startswith(f"risp {command}: error: argument {option}: ") and (": give " in said or "write" in said)


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_with_a_number_has_a_reader(command: str) -> None:
    for action in PARSERS[command]._actions:
        number = isinstance(action.default, int | float) and not isinstance(action.default, bool) and action.default is not False
        number |= action.metavar in NUMBERED and not action.option_strings == ["--help"]
        assert action.type not in (int, float) and (action.type or not number or action.nargs == 0), action.option_strings


def test_the_walk_finds_them() -> None:
    assert sum(len(list(with_readers(command))) for command in PARSERS) > 70
    for option in PARTS:
        assert any(option in action.option_strings for command in PARSERS for action in with_readers(command))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*INVERT, "--bounds", "body.density=nan:1"], "body.density"),
        ([*INVERT, "--bounds", "body.density=1e400:1"], "body.density"),
        (["simulate", "toss", "--set", "frames=2.5"], "--set frames is 2.5: give a whole number of at least 1"),
        (["simulate", "toss", "--set", "body.density=1e400"], "body.density is inf: give a finite number"),
        (["train", "cube", "--images", "4", "--configs", "nan"], "configs are 'nan': give a number of appearances"),
        ([*INVERT, "--solver", "first_frames=999"], "first_frames is 999, and the film has"),
    ],
)  # fmt: skip
def test_numbers_within_texts(command_line: Callable[..., tuple[int, str, str]], arguments: list[str], words: str) -> None:
    status, _, error = command_line(*arguments)
    assert status == 2 and words in error and error.count("\n") == 1, error


def test_an_option_has_one_meaning_in_all_commands() -> None:
    actions = [action for parser in PARSERS.values() for action in parser._actions if action.option_strings]
    for option in {action.option_strings[0] for action in actions}:
        assert len({action.dest for action in actions if option in action.option_strings}) == 1, option
    for command in PARSERS.values():
        assert getattr(command._option_string_actions.get("--size"), "type", picture_size) is picture_size


def test_numbers_that_fit_are_read() -> None:
    words = ["--search", "adam", "--solver", "keep=0.2:4,0.5:1", "--size", "8x4"]
    options = PARSER.parse_args(["invert", "toss", "--unknown", "a", *words])
    assert settings_of(OptimiseSettings, solver_texts(options)).keep == ((0.2, 4), (0.5, 1)) and options.size == (8, 4)
    words = ["--solver", "settling_residual_ratio=none", "--solver", "widths=0.1,0.05"]
    options = PARSER.parse_args(["invert", "toss", "--unknown", "a", *words])
    message = r"settling_rounds is 7: give at most .* \(settings of --search wide: widths, trust_radius"
    with pytest.raises(UserError, match=message):
        settings_of(WideSteps, solver_texts(options))
    assert PARSER.parse_args(["train", "toss", "--seed", str(2**63 - 1)]).seed == 2**63 - 1
