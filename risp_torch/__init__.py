"""What is learnt: the torch bridge, scenes, inversion, reports and the command line."""

from risp_torch.scene import AmbientLight, Camera, Contact, DirectionalLight, Scene, States, Surface, load_scene, scene_names
from ti_sim import Box, Capsule, Checkpoint, Cone, Cylinder, Mesh, Param, Sphere, StoreAll, UserError, start

__all__ = [
    "AmbientLight", "Box", "Camera", "Capsule", "Checkpoint", "Cone", "Contact", "Cylinder", "DirectionalLight", "Mesh",
    "Param", "Scene", "Sphere", "States", "StoreAll", "Surface", "UserError", "load_scene", "scene_names", "start",
]  # fmt: skip
