"""What a wheel holds, and which scenes a program finds: those that ship, whatever lies in the working folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch

import risp_torch
from risp_torch.__main__ import main
from risp_torch.commands import scenes

ROOT = Path(risp_torch.__file__).parents[1]
FIND_SCENES = """
import risp_torch, risp_torch.scene.load
from risp_torch import load_scene, scene_names
assert risp_torch.__file__.startswith(EXPECTED), risp_torch.__file__
assert scene_names()["cube"].startswith("RISP's die"), scene_names()
load_scene("hand_cube", size=16)  # imports from another scene
from risp_torch_scenes.cube import make_scene
"""


def setuptools_is_new() -> bool:
    """Whether wheels can be built here (pyproject.toml, build-system)."""
    try:
        return importlib.util.find_spec("setuptools") is not None and int(version("setuptools").partition(".")[0]) >= 77
    except PackageNotFoundError:
        return False


def python(code: str, cwd: Path, path: Path) -> None:
    """Run a program in a working folder that has a folder ``scenes`` of its own, with packages from ``path``."""
    (cwd / "scenes").mkdir(parents=True)
    (cwd / "scenes/__init__.py").touch()
    (cwd / "scenes/cube.py").write_text('"""Another cube."""\n\ndef make_scene():\n    pass\n')
    environment = os.environ | {"PYTHONPATH": str(path)}
    subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, check=True)


@pytest.mark.processes
@pytest.mark.skipif(not setuptools_is_new(), reason="setuptools >= 77 is not installed")
def test_a_wheel_installs_packages_of_the_project_only(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    caches = shutil.ignore_patterns("__pycache__")
    for name in ("ti_sim", "ti_render", "risp_torch", "scenes", "studies"):
        shutil.copytree(ROOT / name, source / name, ignore=caches)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = f"import setuptools.build_meta as build; build.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    packages = {path.name for path in site.iterdir() if path.suffix != ".dist-info"}
    assert packages == {"ti_sim", "ti_render", "risp_torch", "risp_torch_scenes"}
    assert all((site / name / "py.typed").is_file() for name in ("ti_sim", "ti_render", "risp_torch"))
    assert (site / "risp_torch_scenes/assets/pebble.obj").is_file()
    assert not (site / "risp_torch_scenes/studies").exists()
    python(f"EXPECTED = {str(site)!r}{FIND_SCENES}", tmp_path / "work", site)


def test_the_demo_installs_no_extra_and_the_tests_nothing_that_is_compiled(tmp_path: Path) -> None:
    """Output of ``make -n`` for an environment that does not exist yet. PyBullet has no wheels from Python 3.12 on."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    installs = {}
    for goal in ("demo", "test"):
        make = ["make", "-n", goal, f"VENV={tmp_path}/venv"]
        printed = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        installs[goal] = [line.split("constraints.txt ")[1] for line in printed.splitlines() if "pip install" in line]
    assert installs == {"demo": ["torch==2.13.0", "-e ."], "test": ["torch==2.13.0", "-e .", "-e '.[test]'"]}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [name for name, packages in extras.items() if any("pybullet" in package for package in packages)] == ["baselines"]


@pytest.mark.parametrize(
    ("rank", "named", "count", "seen"),
    [
        ("0", None, 2, "0"), ("1", None, 2, "1"), ("1", "4,7", 2, "7"), ("2", "4,7", 2, "4"), ("1", "5", 1, "5"),
        (None, "4,7", 2, "4,7"),
    ],
)
def test_each_rank_takes_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, named: str | None, count: int, seen: str
) -> None:
    """CUDA_VISIBLE_DEVICES before any command runs: rank, GPUs that are named already, their number, what the rank sees."""
    for name, value in (("LOCAL_RANK", rank), ("CUDA_VISIBLE_DEVICES", named)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    seen_by_command = []
    monkeypatch.setattr(scenes, "run", lambda options: seen_by_command.append(os.environ["CUDA_VISIBLE_DEVICES"]) or 0)
    assert main(["scenes"]) == 0 and seen_by_command == [seen]


def test_what_users_of_the_package_import() -> None:
    assert {"Loss", "PictureLoss", "WideSteps", "CmaSettings"} <= set(risp_torch.__all__)
    assert risp_torch.__version__[0].isdigit()
