"""How well networks read states: test sets of unseen appearances, the errors on them, and tables and pictures of these."""

from risp_torch.risp.evaluation.baselines import baselines
from risp_torch.risp.evaluation.errors import StateErrors, state_errors
from risp_torch.risp.evaluation.evaluate import Evaluation, evaluate
from risp_torch.risp.evaluation.report import error_table, output_table, write_prediction_sheet
from risp_torch.risp.evaluation.test_set import RENDERERS, TestSet, TestSettings, make_test_set

__all__ = [
    "RENDERERS", "Evaluation", "StateErrors", "TestSet", "TestSettings", "baselines", "error_table", "evaluate", "make_test_set",
    "output_table", "state_errors", "write_prediction_sheet",
]  # fmt: skip
