"""Data sets: one that a server in this process offers, and the real ones where they are."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from risp_torch.data import DATA_SETS, DataFile, DataSet, DataSource
from risp_torch.data.locations import FOLDER_VARIABLE
from tests.reference.data_folders import real_data_folder

CONTENTS = {"LICENSE": b"Licence of the toy.\n", "parts/rod.txt": b"length 0.3\n", "made.txt": b"made by hand\n"}


@dataclass
class Toy:
    """A data set "toy_rod" on a server.

    Attributes:
        served: folder of the server, in which files may be changed.
        requests: paths that were asked for.
        url: address of the server.
    """

    served: Path
    requests: list[str]
    url: str

    def register(self, monkeypatch: pytest.MonkeyPatch, *, without: str | None = None) -> None:
        """Enter the data set, with one file that has no address."""
        files = tuple(
            DataFile(
                name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content),
                url=None if name == without else f"{self.url}/{name}", made_of="wood" if name == without else "",
            )
            for name, content in CONTENTS.items()
        )  # fmt: skip
        source = DataSource("toys/rod", "0123abc", "Copyright (c) 2020, Toys")
        monkeypatch.setitem(DATA_SETS, "toy_rod", DataSet("toy_rod", "a toy", "MIT", "LICENSE", (source,), files))

    def write(self, root: Path) -> Path:
        """Write the data set below a folder."""
        for name, content in CONTENTS.items():
            path = root / "toy_rod" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return root / "toy_rod"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    """The data set, all of it on the server. The user's cache is an empty folder; RISP_DATA is not set."""
    requests: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            super().do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    served = tmp_path / "served"
    for name, content in CONTENTS.items():
        (served / name).parent.mkdir(parents=True, exist_ok=True)
        (served / name).write_bytes(content)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("risp_torch.data.locations.cache_folder", lambda: tmp_path / "cache")
    made = Toy(served, requests, f"http://127.0.0.1:{server.server_port}")
    made.register(monkeypatch)
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def data_set() -> Callable[[str], Path]:
    """Folder of a real data set by name (``real_data_folder``)."""
    return real_data_folder
