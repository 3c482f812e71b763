"""Numbers of a scene from measured motions: many recordings side by side, without pictures."""

from risp_torch.motions.fit import fit_motions
from risp_torch.motions.held_out import held_out
from risp_torch.motions.predict import PredictionErrors, predict_motions
from risp_torch.motions.recording import Recording, Window, whole, windows
from risp_torch.motions.result import Derived, MotionFit
from risp_torch.motions.settings import MotionFitSettings

__all__ = [
    "Derived", "MotionFit", "MotionFitSettings", "PredictionErrors", "Recording", "Window", "fit_motions", "held_out",
    "predict_motions", "whole", "windows",
]  # fmt: skip
