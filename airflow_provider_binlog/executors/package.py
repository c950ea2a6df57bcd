"""Packs what executors import into the zip that `--py-files` takes: pure Python.

Third-party packages are not in it: NumPy, Arrow, PyMySQL, fsspec and the store's own.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_binlog.spark.job.package import pack

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOMS = (
    *("binlog", "blocks", "capture", "executors", "rows", "schema_history", "snapshot", "sources"),
    *("sql", "staging", "transport"),
)

APPLICATION = Path(__file__).resolve().parent / "application.py"
"""The main file, which spark-submit takes as its application."""


def build_py_files(folder: str | Path) -> Path:
    """Write the zip into `folder`, which must exist, and return its path."""
    modules = [each for each in sorted(_PACKAGE.glob("*.py")) if each.name != "data_source.py"]
    rooms = [each for room in _ROOMS for each in sorted((_PACKAGE / room).rglob("*.py"))]
    return pack([*modules, *rooms], folder)
