"""What is learnt: the torch bridge, scenes, inversion, reports and the command line."""

import os

# Before torch comes: its threads sleep while they wait. Spinning, those of two processes on the same cores keep each other from
# working, and a small network takes twenty times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from risp_torch.gradients import check_film_gradient, check_torch
from risp_torch.inversion import (
    Inversion,
    OptimiseSettings,
    PerceptualLoss,
    PixelLoss,
    RispLoss,
    StateLoss,
    film,
    invert,
    landscape,
    pixel_loss,
    simulate_video,
)
from risp_torch.psi import Direction, Factor, Range, RenderingParameters, contact_sheet, default_psi, image_jacobian
from risp_torch.scene import (
    Air,
    AmbientLight,
    Bending,
    Camera,
    Contact,
    DirectionalLight,
    Elastic,
    EnvironmentLight,
    Fixed,
    Membrane,
    PointLight,
    Prismatic,
    Revolute,
    Scene,
    SinePulse,
    Spherical,
    States,
    Surface,
    load_scene,
    scene_names,
)
from risp_torch.task import RispTask, load_task
from risp_torch.video import read_video, write_frames, write_video
from ti_sim import Box, Capsule, Checkpoint, Cone, Cylinder, DivergenceError, Mesh, Param, Sphere, StoreAll, UserError, start

__all__ = [
    "Air", "AmbientLight", "Bending", "Box", "Camera", "Capsule", "Checkpoint", "Cone", "Contact", "Cylinder", "Direction",
    "DirectionalLight", "DivergenceError", "Elastic", "EnvironmentLight", "Factor", "Fixed", "Inversion", "Membrane", "Mesh",
    "OptimiseSettings", "Param", "PerceptualLoss", "PixelLoss", "PointLight", "Prismatic", "Range", "RenderingParameters",
    "Revolute", "RispLoss", "RispTask", "Scene", "SinePulse", "Sphere", "Spherical", "StateLoss", "States", "StoreAll",
    "Surface", "UserError", "check_film_gradient", "check_torch", "contact_sheet", "default_psi", "film", "image_jacobian",
    "invert", "landscape", "load_scene", "load_task", "pixel_loss", "read_video", "scene_names", "simulate_video", "start",
    "write_frames", "write_video",
]  # fmt: skip
