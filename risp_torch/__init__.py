"""Scenes, films and inversion; docs/api.md lists the other public modules."""

import os

import risp_torch.files.signals  # noqa: F401  (first, so that Ctrl-C ends the command line with a message)

# Set before torch is imported: its threads sleep while they wait. Spinning threads of two processes on the same cores block each
# other, and a small network takes twenty times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.files.run_folder import program_version
from risp_torch.files.video import Quality, read_video, write_frames, write_video
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.diagnostics.gradient_check import check_film_gradient, check_torch
from risp_torch.inversion.diagnostics.landscape import landscape
from risp_torch.inversion.losses.depth import DepthLoss
from risp_torch.inversion.losses.image_tracks import ImageTracksLoss
from risp_torch.inversion.losses.loss import Loss, PictureLoss
from risp_torch.inversion.losses.luminance import LuminanceLoss
from risp_torch.inversion.losses.masks import MaskLoss
from risp_torch.inversion.losses.mixed import MixedLoss, MixedPart
from risp_torch.inversion.losses.perceptual.loss import PerceptualLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.inversion.losses.state import StateLoss
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.inversion.problem.films.rendered_film import film, pixel_loss, simulate_video
from risp_torch.inversion.problem.search_settings import (
    WIDE_SEARCH,
    CmaSettings,
    FindStart,
    NewtonSteps,
    OptimiseSettings,
    WideSteps,
)
from risp_torch.inversion.problem.search_stages import SearchStages
from risp_torch.inversion.problem.smoothness import SmoothnessPrior
from risp_torch.inversion.report.apply_result import apply_result
from risp_torch.inversion.report.result import Inversion
from risp_torch.inversion.run.invert import invert
from risp_torch.risp.loss import RispLoss
from risp_torch.scene.adding.link import LinkFrame
from risp_torch.scene.adding.particles import Prescribed
from risp_torch.scene.adding.smoke import SmokeAppearance
from risp_torch.scene.forces import Forces
from risp_torch.scene.load import load_scene, scene_names
from risp_torch.scene.masks import render_masks
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.joints import Fixed, Joint, Prismatic, Revolute, Spherical
from risp_torch.scene.parts.lights import AmbientLight, DirectionalLight, EnvironmentLight, PointLight
from risp_torch.scene.parts.materials import Actuation, Air, Bending, Elastic, Shell, Springs
from risp_torch.scene.parts.motors import SinePulse
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.scene import Scene
from risp_torch.scene.spec import PictureStyle
from risp_torch.scene.start import Start
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from risp_torch.scene.time_stepping import SolverOptions
from ti_sim import (
    Box,
    Capsule,
    Checkpoint,
    Cone,
    Cylinder,
    DivergenceError,
    ImplicitSettings,
    Mesh,
    Param,
    Sphere,
    StoreAll,
    UserError,
    start,
)

__version__ = program_version()

__all__ = [
    "Actuation", "Air", "AmbientLight", "Bending", "Box", "Camera", "Capsule", "Checkpoint", "CmaSettings", "Cone", "Contact",
    "Cylinder", "DepthLoss", "DirectionalLight", "DivergenceError", "Elastic", "EnvironmentLight", "Films", "FindStart", "Fixed",
    "Forces", "ImageTracksLoss", "ImplicitSettings", "Inversion", "Joint", "LinkFrame", "LookSettings", "Loss", "LuminanceLoss",
    "MaskLoss", "MatchedLoss", "Mesh", "MixedLoss", "MixedPart", "NewtonSteps", "OptimiseSettings", "Param", "PerceptualLoss",
    "PictureLoss", "PictureStyle", "PixelLoss", "PixelWeights", "PointLight", "Prescribed", "Prismatic", "Quality", "Revolute",
    "RispLoss", "Scene", "SearchStages", "Shell", "SinePulse", "SmokeAppearance", "SmoothnessPrior", "SolverOptions", "Sphere",
    "Spherical", "Springs", "Start", "State", "StateLoss", "States", "StoreAll", "Surface", "UserError", "WIDE_SEARCH",
    "WideSteps", "apply_result", "check_film_gradient", "check_torch", "film", "invert", "landscape", "linear_to_srgb",
    "load_scene", "pixel_loss", "read_video", "render_masks", "scene_names", "simulate_video", "srgb_to_linear", "start",
    "write_frames", "write_video",
]  # fmt: skip
