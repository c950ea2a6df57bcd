"""Column types: the code, and the metadata of each."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.column_types import (
    ColumnType,
    metadata_width,
    real_type,
    string_bytes_max,
)
from airflow_provider_binlog.errors import UnsupportedError


@pytest.mark.parametrize(
    ("metadata", "kind", "size"),
    [
        (b"\xfe\x0a", ColumnType.STRING, 10),
        (b"\xce\xfc", ColumnType.STRING, 1020),  # CHAR(255) in utf8mb4
        (b"\xf7\x01", ColumnType.ENUM, 1),
        (b"\xf8\x08", ColumnType.SET, 8),
    ],
)
def test_string_hides_other_types_and_long_lengths(metadata: bytes, kind: int, size: int) -> None:
    assert real_type(ColumnType.STRING, metadata) == kind
    assert string_bytes_max(metadata) == size


@pytest.mark.parametrize("code", [20, 99, 243, 244])
def test_types_that_no_row_holds_are_refused(code: int) -> None:
    with pytest.raises(UnsupportedError, match="leave the table out"):
        metadata_width(code)
