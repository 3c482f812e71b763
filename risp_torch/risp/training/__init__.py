"""Training of RISP: its losses, presets, and the loop that survives being killed."""

from risp_torch.risp.training.losses import error_and_its_gradient, error_and_jacobian, state_error
from risp_torch.risp.training.settings import TrainSettings, preset
from risp_torch.risp.training.train import train

__all__ = ["TrainSettings", "error_and_its_gradient", "error_and_jacobian", "preset", "state_error", "train"]
