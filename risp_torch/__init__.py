"""What is learnt: the torch bridge, scenes, inversion, reports and the command line."""

import os

import risp_torch.files.signals  # noqa: F401  (first of all: from here on Ctrl-C ends the command line with a sentence)

# Before torch comes: its threads sleep while they wait. Spinning, those of two processes on the same cores keep each other from
# working, and a small network takes twenty times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from risp_torch.control import ControlTask, Goal, SinePolicy, control, load_control
from risp_torch.files.run_folder import program_version
from risp_torch.files.video import read_video, write_frames, write_video
from risp_torch.inversion import (
    CmaSettings,
    Films,
    Inversion,
    Loss,
    NewtonSteps,
    OptimiseSettings,
    PerceptualLoss,
    PictureLoss,
    PixelLoss,
    RispLoss,
    StateLoss,
    WideSteps,
    film,
    invert,
    landscape,
    pixel_loss,
    simulate_video,
    use_found,
)
from risp_torch.inversion.gradients import check_film_gradient, check_torch
from risp_torch.risp.network import load_network
from risp_torch.risp.psi import Direction, Factor, Range, RenderingParameters, contact_sheet, default_psi, image_jacobian
from risp_torch.risp.task import RispTask, load_task
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
    Start,
    States,
    Surface,
    load_scene,
    scene_names,
)
from ti_sim import Box, Capsule, Checkpoint, Cone, Cylinder, DivergenceError, Mesh, Param, Sphere, StoreAll, UserError, start

__version__ = program_version()

__all__ = [
    "Air", "AmbientLight", "Bending", "Box", "Camera", "Capsule", "Checkpoint", "CmaSettings", "Cone", "Contact", "ControlTask",
    "Cylinder", "Direction", "DirectionalLight", "DivergenceError", "Elastic", "EnvironmentLight", "Factor", "Films", "Fixed",
    "Goal", "Inversion", "Loss", "Membrane", "Mesh", "NewtonSteps", "OptimiseSettings", "Param", "PerceptualLoss", "PictureLoss",
    "PixelLoss", "PointLight", "Prismatic", "Range", "RenderingParameters", "Revolute", "RispLoss", "RispTask", "Scene",
    "SinePolicy", "SinePulse", "Sphere", "Spherical", "Start", "StateLoss", "States", "StoreAll", "Surface", "UserError",
    "WideSteps",
    "check_film_gradient", "check_torch", "contact_sheet", "control", "default_psi", "film", "image_jacobian", "invert",
    "landscape", "load_control", "load_network", "load_scene", "load_task", "pixel_loss", "read_video", "scene_names",
    "simulate_video", "start", "use_found", "write_frames", "write_video",
]  # fmt: skip
