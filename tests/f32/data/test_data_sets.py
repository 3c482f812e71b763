"""Data sets by name: what is downloaded, from where files are used, and what is refused."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from risp_torch.data import DATA_SETS, data_folder, fetch_data_set
from risp_torch.data.locations import FOLDER_VARIABLE, cache_folder
from risp_torch.files.film import film_facts
from ti_sim import UserError

pooch_is_here = pytest.mark.skipif(importlib.util.find_spec("pooch") is None, reason="the extra 'data' is not installed")
Run = Callable[..., tuple[int, str, str]]


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pooch_is_here
def test_a_fetch_writes_all_files_and_the_next_one_asks_for_nothing(toy: Any, tmp_path: Path, command_line: Run) -> None:
    folder = tmp_path / "data/toy_rod"
    status, out, err = command_line("data", "fetch", "toy_rod", "--out", folder.parent)
    assert (status, err) == (0, "")
    assert sorted(toy.requests) == ["/LICENSE", "/made.txt", "/parts/rod.txt"]
    assert (folder / "parts/rod.txt").read_text() == "length 0.3\n"
    assert (folder / "LICENSE").read_text() == "Licence of the toy.\n"
    assert "Licence of the toy." in out and "toys/rod at 0123abc, MIT, Copyright (c) 2020, Toys" in out
    assert {path.name for path in folder.rglob("*")} == {"LICENSE", "parts", "rod.txt", "made.txt"}
    before = stamps(folder)
    status, out, _ = command_line("data", "fetch", "toy_rod", "--out", folder.parent)
    assert status == 0 and "nothing is downloaded" in out and "Licence of the toy." in out
    assert len(toy.requests) == 3 and stamps(folder) == before


@pooch_is_here
def test_files_go_to_the_cache_or_to_the_named_folder(toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_data_set("toy_rod").folder == data_folder("toy_rod") == tmp_path / "cache/toy_rod"
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "named"))
    asked = len(toy.requests)
    assert data_folder("toy_rod") == fetch_data_set("toy_rod").folder == tmp_path / "cache/toy_rod"  # still whole there
    assert len(toy.requests) == asked and not (tmp_path / "named").exists()
    (tmp_path / "cache/toy_rod/LICENSE").unlink()
    fetched = fetch_data_set("toy_rod")
    assert fetched.folder == data_folder("toy_rod") == tmp_path / "named/toy_rod" and len(fetched.downloaded) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have caches elsewhere")
@pooch_is_here
def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "risp-taichi"


def test_files_of_the_named_folder_are_used_and_nothing_is_written(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Run
) -> None:
    folder = toy.write(tmp_path / "named")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder.parent))
    before = stamps(folder.parent)
    assert data_folder("toy_rod") == folder
    assert command_line("data", "fetch", "toy_rod")[0] == 0
    assert toy.requests == [] and stamps(folder.parent) == before and not (tmp_path / "cache").exists()
    (row,) = [line for line in command_line("data", "list")[1].splitlines() if line.startswith("toy_rod")]
    assert row.split("  ")[-1].strip() == str(folder) and "MIT" in row


@pooch_is_here
def test_a_fetch_goes_on_with_what_is_missing(toy: Any, tmp_path: Path) -> None:
    folder = toy.write(tmp_path)
    (folder / "parts/rod.txt").unlink()
    assert fetch_data_set("toy_rod", out=tmp_path).downloaded == ("parts/rod.txt",)
    assert toy.requests == ["/parts/rod.txt"]


def test_damaged_files_are_refused(toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Run) -> None:
    folder = toy.write(tmp_path / "named")
    (folder / "made.txt").write_bytes(b"made by foot\n")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder.parent))
    with pytest.raises(UserError, match="made.txt is damaged: delete it and fetch again"):
        data_folder("toy_rod")
    for options in ((), ("--out", folder.parent)):
        status, _, err = command_line("data", "fetch", "toy_rod", *options)
        assert status == 2 and f"{folder / 'made.txt'} is damaged" in err
    assert (folder / "made.txt").read_bytes() == b"made by foot\n" and toy.requests == []
    assert "made.txt is damaged" in command_line("data", "list")[1]


@pooch_is_here
def test_a_download_of_other_bytes_is_not_kept(toy: Any, tmp_path: Path, command_line: Run) -> None:
    (toy.served / "parts/rod.txt").write_bytes(b"length 0.4\n")
    status, _, err = command_line("data", "fetch", "toy_rod", "--out", tmp_path / "data")
    assert status == 2 and "another SHA-256" in err and err.count("\n") == 1
    assert [path.name for path in (tmp_path / "data/toy_rod/parts").iterdir()] == []


@pooch_is_here
@pytest.mark.parametrize("way", ["no file", "no server"])
def test_addresses_that_give_nothing(
    way: str, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Run
) -> None:
    if way == "no file":
        (toy.served / "LICENSE").unlink()
    else:
        toy.url = "http://127.0.0.1:1"
        toy.register(monkeypatch)
    status, _, err = command_line("data", "fetch", "toy_rod", "--out", tmp_path / "data")
    assert status == 2 and err.count("\n") == 1
    assert f"({'status 404' if way == 'no file' else 'ConnectionError'}): check the network, or set RISP_DATA to" in err


@pooch_is_here
def test_a_file_without_an_address_is_asked_for(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Run
) -> None:
    toy.register(monkeypatch, without="made.txt")
    status, out, err = command_line("data", "fetch", "toy_rod", "--out", tmp_path)
    folder = tmp_path / "toy_rod"
    assert status == 2 and f"{folder} lacks made.txt, which cannot be downloaded (it is made of wood): put it there, or" in err
    assert (folder / "parts/rod.txt").is_file() and "Licence of the toy." in out
    (folder / "made.txt").write_bytes(b"made by hand\n")
    assert command_line("data", "fetch", "toy_rod", "--out", tmp_path)[0] == 0
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert data_folder("toy_rod") == folder


def test_names_that_are_unknown_or_not_here(toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Run) -> None:
    status, _, err = command_line("data", "fetch", "dfki")
    assert status == 2 and "unknown data set 'dfki': did you mean 'dfki_double_pendulum'?" in err
    with pytest.raises(UserError, match="unknown data set 'cube'"):
        data_folder("cube")
    with pytest.raises(UserError, match="toy_rod is not in .*cache/toy_rod .*run risp data fetch toy_rod, or set RISP_DATA to"):
        data_folder("toy_rod")
    monkeypatch.setattr("risp_torch.data.locations.cache_folder", lambda: None)  # without pooch
    with pytest.raises(UserError, match=r"toy_rod is not here: set RISP_DATA to .*risp-taichi\[data\]"):
        data_folder("toy_rod")
    with pytest.raises(UserError, match=r"downloads need pooch: .*risp-taichi\[data\]"):
        fetch_data_set("toy_rod")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(UserError, match=r"downloads need pooch: .*risp-taichi\[data\]"):
        fetch_data_set("toy_rod", out=tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fetch"], "risp data fetch takes a name: choose one of contactnets_cube"),
        (["list", "x"], "risp data list takes no x: leave it out"),
        (["fetch", "toy_rod", "--results", "r"], "risp data fetch takes no --results"),
        (["errors", "films"], "risp data errors takes a folder of films and --results RUNS"),
    ],
)
def test_words_that_do_not_fit(words: list[str], sentence: str, command_line: Run) -> None:
    status, _, err = command_line("data", *words)
    assert status == 2 and sentence in err


def test_entries_of_the_registry() -> None:
    for name, data_set in DATA_SETS.items():
        assert name == data_set.name and data_set.licence_file in {file.name for file in data_set.files}
        assert len({file.name for file in data_set.files}) == len(data_set.files)
        known = tuple(f"https://raw.githubusercontent.com/{each.repository}/{each.commit}/" for each in data_set.sources)
        for file in data_set.files:
            assert len(file.sha256) == 64 and int(file.sha256, 16) and file.size > 0
            assert file.url.startswith(known) if file.url else file.made_of
            assert not Path(file.name).is_absolute() and ".." not in Path(file.name).parts


# -- the real ones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA_SETS)
def test_sizes_and_licences_of_real_files(name: str, data_set: Callable[[str], Path]) -> None:
    folder = data_set(name)
    assert {file.name: file.size for file in DATA_SETS[name].files} == {
        file.name: (folder / file.name).stat().st_size for file in DATA_SETS[name].files
    }
    licence = (folder / DATA_SETS[name].licence_file).read_text()
    assert "BSD 3-Clause" in licence and DATA_SETS[name].sources[0].copyright in licence


def test_the_cube_is_tossed(data_set: Callable[[str], Path]) -> None:
    """Poses are in metres, quaternions have their real part first; the cube comes to rest on a face."""
    with np.load(data_set("contactnets_cube") / "all570_si.npz") as tosses:
        assert len(tosses.files) == 570
        last = np.stack([tosses[name][-1] for name in tosses.files])
    assert last.shape == (570, 13)
    np.testing.assert_allclose(np.linalg.norm(last[:, 3:7], axis=1), 1.0, atol=1e-3)
    assert np.median(last[:, 2]) == pytest.approx(0.0524, rel=0.04)  # half its side, less the bias that poses have


def test_the_pendulum_is_filmed(data_set: Callable[[str], Path]) -> None:
    folder = data_set("dfki_double_pendulum")
    facts = film_facts(folder / "experiment_swingup_pendubot_tvlqr.m4v")
    assert facts.frames == 908 and facts.stored.shown_size == (607, 1080)
    table = np.loadtxt(folder / "trajectory.csv", delimiter=",", skiprows=1)
    assert table.shape[1] == 15 and table[-1, 0] == pytest.approx(20.0, abs=0.1)
