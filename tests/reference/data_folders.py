"""Folders of real data sets, for tests that are skipped where they are not."""

import os
from pathlib import Path

import pytest

from risp_torch.data import DATA_SETS
from risp_torch.data.locations import FOLDER_VARIABLE, missing_files
from tests.reference.folders import ROOT


def real_data_folder(name: str) -> Path:
    """Folder of a real data set: of RISP_DATA, or of ``shared/films`` beside the checkout; else the test is skipped."""
    named = os.environ.get(FOLDER_VARIABLE)
    for root in ([Path(named)] if named else []) + [ROOT.parent / "shared/films"]:
        if not missing_files(DATA_SETS[name], root / name):
            return root / name
    pytest.skip(f"the data set {name} is not here: set {FOLDER_VARIABLE} to a folder that holds it")
