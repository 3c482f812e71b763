"""RISP's inversions (system identification, imitation, visuomotor control), one at a time, by any method."""

from risp_torch.paper.trials.draws import smooth_draw
from risp_torch.paper.trials.methods import IMAGE_METHODS, LABELS, METHODS, NETWORK_METHODS
from risp_torch.paper.trials.paper_search import PAPER_SEARCH
from risp_torch.paper.trials.run import TrialSettings, run_trial
from risp_torch.paper.trials.target import RENDERERS, target_film
from risp_torch.paper.trials.trial import DRAWN_FROM, KINDS, Trial, load_trial, load_trials, set_truth, true_scene

__all__ = [
    "DRAWN_FROM", "IMAGE_METHODS", "KINDS", "LABELS", "METHODS", "NETWORK_METHODS", "PAPER_SEARCH", "RENDERERS", "Trial",
    "TrialSettings", "load_trial", "load_trials", "run_trial", "set_truth", "smooth_draw", "target_film", "true_scene",
]  # fmt: skip
