"""Interface for user programs around scenes: commands, functions of scene files, run folders, tables of estimates."""

from risp_torch.commands.estimates import TRUE_HEADERS, estimate_rows, print_inversion
from risp_torch.commands.options import number
from risp_torch.commands.program import Program, exit_status
from risp_torch.files.atomic import is_running, replacing, write_text
from risp_torch.files.run_folder import RunFolder, default_run_path, first_difference, program_version, to_jsonable
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.load import errors_of_scene_file, find_function

__all__ = [
    "Program", "RunFolder", "TRUE_HEADERS", "default_run_path", "errors_of_scene_file", "estimate_rows", "exit_status",
    "find_function", "first_difference", "is_running", "number", "to_jsonable", "print_inversion", "program_version", "replacing",
    "unknown_name_error", "write_text",
]  # fmt: skip
