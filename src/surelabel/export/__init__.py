"""The result leaves the run: as CSV, as Parquet, or as the images in a folder for each class."""

from surelabel.export.formats import ExportFormat
from surelabel.export.result import export_run, missing_in
from surelabel.export.tables import export_table
from surelabel.export.target import check_target, choose_format, export_target

__all__ = [
    "ExportFormat",
    "check_target",
    "choose_format",
    "export_run",
    "export_table",
    "export_target",
    "missing_in",
]
