"""Folders that tests read from, wherever the test lies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROBOTS = ROOT / "tests/assets/robots"
SCENE_ASSETS = ROOT / "scenes/assets"
