"""Packs what an application imports into the zip that `--py-files` takes."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE = Path(__file__).resolve().parents[2]
_ROOM = Path(__file__).resolve().parents[1]
_SHARED = (
    "__init__.py",
    "binlog/__init__.py",
    "binlog/buffer.py",
    "binlog/gtid_set.py",
    "changes.py",
    "errors.py",
    "manifest.py",
    "names.py",
    "position.py",
    "schema.py",
    "snapshot_manifest.py",
    "staging/__init__.py",
    "staging/paths.py",
    "stored_json.py",
    "table_options.py",
)
# The earliest time a zip can hold: the same sources give the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)

NAME = "airflow_provider_binlog.zip"

APPLICATION = _ROOM / "job" / "application.py"
"""The job's main file, which spark-submit takes as its application."""


def build_py_files(folder: str | Path) -> Path:
    """Write the zip of the merge into `folder`, which must exist, and return its path.

    The same sources give the same bytes, so that two runs may write it at once.
    """
    return pack([_PACKAGE / name for name in _SHARED] + sorted(_ROOM.rglob("*.py")), folder)


def pack(sources: Iterable[Path], folder: str | Path) -> Path:
    """Write a zip of some modules of this package into `folder`, and return its path."""
    path = Path(folder) / NAME
    handle, scratch = tempfile.mkstemp(prefix=f".{NAME}.", dir=folder)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for source in sources:
            name = source.relative_to(_PACKAGE.parent).as_posix()
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, source.read_bytes())
    Path(scratch).chmod(0o644)
    Path(scratch).replace(path)
    return path
