"""The tables of the RISP paper: trials of every method, and pages with their results. Trials are public here."""

from studies.risp.trials.run import TrialSettings, run_trial
from studies.risp.trials.sequences import smooth_sequence
from studies.risp.trials.trial import Trial, load_trial, load_trials

__all__ = [
    "Trial", "TrialSettings", "load_trial", "load_trials", "run_trial", "smooth_sequence",
]  # fmt: skip
