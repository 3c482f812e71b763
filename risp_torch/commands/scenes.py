"""List the shipped scenes with their unknowns."""

from __future__ import annotations

import argparse

from risp_torch.commands.next_steps import print_next_steps


def run(options: argparse.Namespace) -> int:
    """Print name, first line, and unknowns or controlled parameter of every scene."""
    from risp_torch.control import load_control
    from risp_torch.scene.load import load_scene, scene_names

    controlled_scenes = scene_names(having="make_control")
    for name, summary in scene_names().items():
        scene = load_scene(name)
        print(f"{name:15s} {summary}")
        if scene.unknowns:
            print(f"{'':15s} unknown: {', '.join(scene.unknowns)}")
        if name in controlled_scenes:
            print(f"{'':15s} driven by a network: {load_control(name, scene).controlled_parameter} (risp control)")
    print_next_steps(next_command=("risp", "simulate", "SCENE"))
    return 0
