"""List the scenes that ship, with their unknowns."""

from __future__ import annotations

import argparse


def run(options: argparse.Namespace) -> int:
    """Print name and first line of every scene."""
    from risp_torch.scene import load_scene, scene_names

    for name, summary in scene_names().items():
        print(f"{name:10s} {summary}")
        print(f"{'':10s} unknown: {', '.join(load_scene(name).unknowns)}")
    return 0
