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
from risp_torch.scene.joints import Fixed, Joint, Prismatic, Revolute, Spherical
from risp_torch.scene.load import load_scene, scene_names
from risp_torch.scene.motors import SinePulse
from risp_torch.scene.scene import Scene, States

__all__ = [
    "AmbientLight",
    "Camera",
    "Contact",
    "DirectionalLight",
    "EnvironmentLight",
    "Fixed",
    "Joint",
    "PointLight",
    "Prismatic",
    "Revolute",
    "Scene",
    "SinePulse",
    "Spherical",
    "States",
    "Surface",
    "load_scene",
    "scene_names",
]
