"""What a run did, on one page that opens anywhere; and runs side by side."""

from surelabel.report.comparing import Comparison, RunFigures, compare_runs
from surelabel.report.page import missing_packages, report_at_end, write_report

__all__ = [
    "Comparison",
    "RunFigures",
    "compare_runs",
    "missing_packages",
    "report_at_end",
    "write_report",
]
