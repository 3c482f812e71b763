"""Interface for user programs around scenes: commands, functions of scene files, run folders, tables of estimates."""

from risp_torch.commands.estimates import HEADERS_WITH_TRUTH, estimate_rows, print_inversion
from risp_torch.commands.options import number_parser
from risp_torch.commands.program import Program, run_with_exit_status
from risp_torch.files.atomic import atomic_replacement, process_exists, write_text
from risp_torch.files.memory import keep_freed_memory
from risp_torch.files.run_folder import RunFolder, default_run_path, first_setting_difference, program_version, to_jsonable
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.load import find_function, scene_errors_as_user_errors

__all__ = [
    "HEADERS_WITH_TRUTH", "Program", "RunFolder", "atomic_replacement", "default_run_path", "estimate_rows", "find_function",
    "first_setting_difference", "keep_freed_memory", "number_parser", "print_inversion", "process_exists", "program_version",
    "run_with_exit_status", "scene_errors_as_user_errors", "to_jsonable", "unknown_name_error", "write_text",
]  # fmt: skip
