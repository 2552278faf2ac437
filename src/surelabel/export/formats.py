"""The shapes in which a result leaves a run."""

from __future__ import annotations

from enum import StrEnum


class ExportFormat(StrEnum):
    """What ``surelabel export --to`` writes."""

    CSV = "csv"
    """A table as text, one row per image."""
    PARQUET = "parquet"
    """The same table with types."""
    FOLDER = "folder"
    """The images themselves, a folder for each class (``ImageFolder``)."""
