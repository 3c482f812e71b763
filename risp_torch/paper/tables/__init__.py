"""RISP's tables: every cell of the paper's evaluation as a unit of work, and pages that show them."""

from risp_torch.paper.tables.plan import ABLATIONS, TABLES, TablePlan
from risp_torch.paper.tables.presets import PRESETS, TablePreset, table_preset
from risp_torch.paper.tables.work import Outcome, work

__all__ = ["ABLATIONS", "PRESETS", "TABLES", "Outcome", "TablePlan", "TablePreset", "table_preset", "work"]
