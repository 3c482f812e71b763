"""Trials of the paper's four scenes, a file for each with ``make_trials() -> dict[str, Trial]``."""
