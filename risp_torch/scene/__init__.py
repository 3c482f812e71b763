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
from risp_torch.scene.materials import Air, Bending, Elastic, Membrane
from risp_torch.scene.motors import SinePulse
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States

__all__ = [
    "Air",
    "AmbientLight",
    "Bending",
    "Camera",
    "Contact",
    "DirectionalLight",
    "Elastic",
    "EnvironmentLight",
    "Fixed",
    "Joint",
    "Membrane",
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
