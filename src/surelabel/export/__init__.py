"""The result leaves the run: as CSV, as Parquet, or as the images in a folder for each class."""

from surelabel.export.formats import ExportFormat
from surelabel.export.result import export_run
from surelabel.export.tables import export_table

__all__ = ["ExportFormat", "export_run", "export_table"]
