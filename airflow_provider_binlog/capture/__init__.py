"""The story of a range: source → transactions → rows → parts → manifest.

`capture_range.py` has it on one page; `extract.py` adds what makes it safe to repeat.
"""

from airflow_provider_binlog.capture.extract import Extracted, extract, reuse
from airflow_provider_binlog.capture.log_range import ExtractRequest
from airflow_provider_binlog.capture.progress import Progress
from airflow_provider_binlog.capture.table_filter import TableFilter

__all__ = ["ExtractRequest", "Extracted", "Progress", "TableFilter", "extract", "reuse"]
