"""Event types: names are those of the source, and of SHOW BINLOG EVENTS."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.header import EventType, event_name, show_name


@pytest.mark.parametrize(
    ("code", "name", "shown"),
    [
        (2, "QUERY", "Query"),
        (15, "FORMAT_DESCRIPTION", "Format_desc"),
        (23, "WRITE_ROWS_V1", "Write_rows_v1"),
        (30, "WRITE_ROWS", "Write_rows"),
        (33, "GTID", "Gtid"),
        (34, "ANONYMOUS_GTID", "Anonymous_Gtid"),
        (38, "XA_PREPARE", "XA_prepare"),
        (42, "GTID_TAGGED", "Gtid_tagged_log_event"),
        (162, "MARIADB_GTID", "Gtid"),
        (163, "MARIADB_GTID_LIST", "Gtid_list"),
        (200, "UNKNOWN_200", "Unknown"),
    ],
)
def test_a_code_has_two_names(code: int, name: str, shown: str) -> None:
    assert event_name(code) == name
    assert show_name(code) == shown


def test_codes_fit_the_header() -> None:
    assert all(0 <= kind <= 0xFF for kind in EventType)
