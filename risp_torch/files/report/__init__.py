"""Pictures and tables that show what a run did and why to believe it."""

from risp_torch.files.report.curves import plot_curves, plot_entries, plot_losses, plot_parameters
from risp_torch.files.report.elements import ElementNumbers, plot_elements
from risp_torch.files.report.figure import figure_file
from risp_torch.files.report.landscapes import plot_landscape_1d, plot_landscape_2d
from risp_torch.files.report.observability import plot_error_bars, plot_observability
from risp_torch.files.report.strips import comparison_video, write_film_strip, write_strip
from risp_torch.files.report.text_table import format_table

__all__ = [
    "ElementNumbers",
    "comparison_video",
    "figure_file",
    "format_table",
    "plot_curves",
    "plot_elements",
    "plot_entries",
    "plot_error_bars",
    "plot_landscape_1d",
    "plot_landscape_2d",
    "plot_losses",
    "plot_observability",
    "plot_parameters",
    "write_film_strip",
    "write_strip",
]
