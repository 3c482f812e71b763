"""What the README promises runs: its scene file, its commands, its Python blocks."""

import json
import re
import shlex
from pathlib import Path

import pytest

from risp_torch.__main__ import main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = [line.strip() for line in TEXT.splitlines() if re.match(r"\s*risp (simulate|invert) my_scene\.py", line)]


def scene_block() -> str:
    """The README's scene file, whole."""
    return next(block for block in BLOCKS if "def make_scene" in block)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a new user has saved the README's scene, beside the repository's scenes."""
    (tmp_path / "my_scene.py").write_text(scene_block(), encoding="utf-8")
    (tmp_path / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_first_scene_and_first_inversion(stranger: Path) -> None:
    """The commands of the README, word for word, find the friction and velocity of its scene file."""
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0
    result = json.loads((stranger / "runs/found/result.json").read_text())
    unknowns = result["unknowns"]
    assert unknowns["ground.contact.friction"]["value"] == pytest.approx(0.35, rel=0.02)
    assert unknowns["wedge.velocity[0]"]["value"] == pytest.approx(0.9, abs=0.02)
    assert unknowns["wedge.velocity[1]"]["value"] == pytest.approx(0.1, abs=0.01)
    for name in ("loss.png", "parameters.png", "strip.png", "comparison.mp4", "settings.json"):
        assert (stranger / "runs/found" / name).stat().st_size > 0


@pytest.mark.parametrize("block", [b for b in BLOCKS if "def make_scene" not in b])
def test_python_blocks_run(block: str, stranger: Path) -> None:
    """Every other Python block of the README runs as it stands."""
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    if "density" in names:
        assert names["density"].grad.isfinite().all() and (names["density"].grad != 0).all()
    else:
        assert names["result"].values["ground.contact.stiffness"] == pytest.approx(1000.0, rel=0.02)


def test_table_of_commands_is_complete() -> None:
    """Every command of the program stands in the README."""
    from risp_torch.__main__ import COMMANDS as known

    for name in known:
        assert f"`risp {name}" in TEXT
