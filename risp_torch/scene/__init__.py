"""Scenes: what users write, and the torch functions that run and render it."""

from risp_torch.scene.items import (
    AmbientLight,
    Camera,
    Contact,
    DirectionalLight,
    EnvironmentLight,
    PointLight,
    Surface,
)
from risp_torch.scene.load import load_scene, scene_names
from risp_torch.scene.scene import Scene, States

__all__ = [
    "AmbientLight",
    "Camera",
    "Contact",
    "DirectionalLight",
    "EnvironmentLight",
    "PointLight",
    "Scene",
    "States",
    "Surface",
    "load_scene",
    "scene_names",
]
