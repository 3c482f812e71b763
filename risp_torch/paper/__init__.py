"""The tables of the RISP paper: trials of every method, and the pages that they fill. Trials are public here."""

from risp_torch.paper.trials.draws import smooth_draw
from risp_torch.paper.trials.run import TrialSettings, run_trial
from risp_torch.paper.trials.trial import Trial, load_trial, load_trials

__all__ = [
    "Trial", "TrialSettings", "load_trial", "load_trials", "run_trial", "smooth_draw",
]  # fmt: skip
