"""Public data sets by name, and folders of films whose numbers were measured."""

from risp_torch.data.fetch import FetchResult, fetch_data_set
from risp_torch.data.film_errors import ErrorRow, estimate_errors, median_errors
from risp_torch.data.locations import data_folder
from risp_torch.data.measured_films import MeasuredFilm, read_measured_films
from risp_torch.data.registry import DATA_SETS, DataFile, DataSet, DataSource

__all__ = [
    "DATA_SETS", "DataFile", "DataSet", "ErrorRow", "FetchResult", "MeasuredFilm", "DataSource", "data_folder", "estimate_errors",
    "fetch_data_set", "median_errors", "read_measured_films",
]  # fmt: skip
