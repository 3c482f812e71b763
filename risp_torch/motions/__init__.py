"""Parameters of a scene from measured motions: many recordings simulated in one batch, without pictures."""

from risp_torch.motions.actions import ActionEstimate, estimate_actions
from risp_torch.motions.conclusion import at_bounds
from risp_torch.motions.fit import fit_motions
from risp_torch.motions.growing import GrowingFits, fit_growing_windows, split_windows
from risp_torch.motions.held_out import held_out
from risp_torch.motions.joint_recording import JointRecording
from risp_torch.motions.normal_equations import SharedNormalEquations, clustered_covariance
from risp_torch.motions.predict import PredictionErrors, predict_joints, predict_motions
from risp_torch.motions.recording import Recording, Window, whole_recordings, windows
from risp_torch.motions.result import Derived, MotionFit
from risp_torch.motions.settings import JointNoise, MotionFitSettings, PoseNoise
from risp_torch.motions.starts import estimate_starts

__all__ = [
    "ActionEstimate", "Derived", "GrowingFits", "JointNoise", "JointRecording", "MotionFit", "MotionFitSettings", "PoseNoise",
    "PredictionErrors", "Recording", "SharedNormalEquations", "Window", "at_bounds", "clustered_covariance", "estimate_actions",
    "estimate_starts", "fit_growing_windows", "fit_motions", "held_out", "predict_joints", "predict_motions", "split_windows",
    "whole_recordings", "windows",
]  # fmt: skip
