"""Staging of a range: source → transactions → rows → parts → manifest.

`capture_range.py` stages one range; `extract.py` makes it safe to repeat.
"""

from airflow_provider_binlog.capture.extract import Extracted, extract, reuse
from airflow_provider_binlog.capture.log_range import ExtractRequest, Progress
from airflow_provider_binlog.capture.table_filter import TableFilter

__all__ = ["ExtractRequest", "Extracted", "Progress", "TableFilter", "extract", "reuse"]
