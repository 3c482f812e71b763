"""Scenes: what users write, and the torch functions that run and render it."""

from risp_torch.scene.load import load_scene, scene_names
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.joints import Fixed, Joint, Prismatic, Revolute, Spherical
from risp_torch.scene.parts.lights import AmbientLight, DirectionalLight, EnvironmentLight, PointLight
from risp_torch.scene.parts.look import Surface
from risp_torch.scene.parts.materials import Air, Bending, Elastic, Membrane
from risp_torch.scene.parts.motors import SinePulse
from risp_torch.scene.scene import Scene
from risp_torch.scene.start import Start
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
    "Start",
    "States",
    "Surface",
    "load_scene",
    "scene_names",
]
