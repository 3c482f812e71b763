"""For programs of one's own around scenes: options of a command line, run folders, tables of estimates."""

from risp_torch.commands.estimates import TRUE_HEADERS, estimate_rows, print_inversion
from risp_torch.commands.options import number
from risp_torch.files.atomic import write_text
from risp_torch.files.run_folder import default_run_path, first_difference, plain
from risp_torch.files.suggest import unknown_name_error

__all__ = [
    "TRUE_HEADERS", "default_run_path", "estimate_rows", "first_difference", "number", "plain", "print_inversion",
    "unknown_name_error", "write_text",
]  # fmt: skip
