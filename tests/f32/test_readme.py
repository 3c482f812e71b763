"""What the README promises runs: its scene file, its commands, its Python blocks; and so do those of the renderer's page."""

import importlib.util
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from risp_torch.__main__ import main
from ti_render.camera_files import CameraRecord, write_transforms_json

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/rendering.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT + PAGE, flags=re.DOTALL)
LINES = [line.strip() for line in TEXT.splitlines()]
COMMANDS = [line for line in LINES if re.match(r"risp (simulate|invert) my_scene\.py", line)]
SHEETS = [line for line in LINES if line.startswith("risp render ")]
PATH_TRACED = [line for line in LINES if line.startswith("risp simulate ") and "--renderer mitsuba" in line]
FILES = re.findall(r"`(\w+/[\w/]+\.py)`", TEXT + PAGE)
LINKS = re.findall(r"\]\(([^)#]+)", TEXT) + [f"docs/{link}" for link in re.findall(r"\]\(([^)#]+)", PAGE)]


def scene_block() -> str:
    """The README's scene file, whole."""
    return next(block for block in BLOCKS if "def make_scene" in block)


def camera_of_a_file() -> CameraRecord:
    """A camera as a program for real pictures writes it, in a world with y up."""
    return CameraRecord(
        name="images/0001.jpg", width=64, height=48, intrinsics=np.array([80.0, 80.0, 32.0, 24.0]), rotation=np.eye(3),
        translation=np.array([0.0, 0.0, 0.8]), distortion=np.array([-0.1, 0.02, 0.0, 0.0, 0.0]),
    )  # fmt: skip


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a new user has saved the README's scene, beside the repository's scenes and a capture's cameras."""
    (tmp_path / "my_scene.py").write_text(scene_block(), encoding="utf-8")
    (tmp_path / "scenes").symlink_to(ROOT / "scenes")
    write_transforms_json(tmp_path / "capture/transforms.json", [camera_of_a_file()])
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


def test_sheet_of_appearances(stranger: Path) -> None:
    assert len(SHEETS) == 1
    assert main(shlex.split(SHEETS[0])[1:]) == 0
    record = json.loads((stranger / "runs/looks.json").read_text())
    assert len(record["psi"]) == 8 and record["frame"] == 12
    assert np.asarray(Image.open(stranger / "runs/looks.png")).std() > 10


@pytest.mark.skipif(importlib.util.find_spec("mitsuba") is None, reason="the extra 'photoreal' is not installed")
def test_path_traced_film(stranger: Path) -> None:
    """The README's command, with fewer and smaller pictures."""
    assert len(PATH_TRACED) == 1
    small = ["--size", "16", "--frames", "1", "--spp", "2", "--variant", "scalar_rgb"]
    assert main(shlex.split(PATH_TRACED[0])[1:] + small) == 0
    folder = stranger / "runs/photoreal"
    assert [path.name for path in sorted((folder / "frames").glob("*.png"))] == ["00000.png", "00001.png"]
    assert (folder / "masks/body/00001.png").exists() and (folder / "video.mp4").stat().st_size > 0
    assert np.asarray(Image.open(folder / "frames/00001.png")).std() > 5


def check_inversion(names: dict[str, Any]) -> None:
    assert names["result"].values["ground.contact.stiffness"] == pytest.approx(1000.0, rel=0.02)


def check_gradient(names: dict[str, Any]) -> None:
    gradient = names["density"].grad
    assert gradient.isfinite().all() and (gradient != 0).all()


def check_jacobian(names: dict[str, Any]) -> None:
    assert names["pictures"].shape == (4, 128, 128, 3) and names["jacobian"].shape == (4, 3, 128, 128, 3)
    largest = names["jacobian"].abs().amax(dim=(2, 3, 4))
    assert largest.isfinite().all() and (largest > 1e-3).all()


def check_cameras(names: dict[str, Any]) -> None:
    """The file's camera looks along -y of its world, from 0.8 units: with z up it looks along +y."""
    added = names["scene"].cameras[1:]
    assert [(camera.name, camera.width, camera.height) for camera in added] == [("images_0001_jpg", 64, 48)]
    record = camera_of_a_file()
    forward = record.rotation[2]  # z up from y up: (x, y, z) becomes (x, -z, y)
    np.testing.assert_allclose(added[0].rotation[2], [forward[0], -forward[2], forward[1]], atol=1e-12)
    np.testing.assert_allclose(added[0].position, [0.0, 0.8, 0.0], atol=1e-12)
    np.testing.assert_allclose(added[0].distortion, record.distortion)


def check_film(names: dict[str, Any]) -> None:
    film = names["film"].detach()
    assert film.shape == (1, 11, 128, 128, 4)
    assert film.isfinite().all() and film[..., 3].amax() > 0.99 and film[..., 3].amin() == 0


# What is looked at after a block, by a name that it makes.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "result": check_inversion, "density": check_gradient, "jacobian": check_jacobian, "record": check_cameras, "film": check_film,
}  # fmt: skip


@pytest.mark.parametrize("block", [b for b in BLOCKS if "def make_scene" not in b])
def test_python_blocks_run(block: str, stranger: Path) -> None:
    """Every other Python block runs as it stands, and makes what it says."""
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    made = [name for name in CHECKS if name in names]
    assert len(made) == 1, "a new block needs a check of its own"
    CHECKS[made[0]](names)


def test_every_check_has_its_block() -> None:
    assert len(BLOCKS) == 1 + len(CHECKS)


@pytest.mark.parametrize("link", sorted({link for link in LINKS if "://" not in link} | set(FILES)))
def test_links_and_named_files_lead_somewhere(link: str) -> None:
    assert (ROOT / link).is_file()


def test_table_of_commands_is_complete() -> None:
    """Every command of the program stands in the README."""
    from risp_torch.__main__ import COMMANDS as known

    for name in known:
        assert f"`risp {name}" in TEXT
