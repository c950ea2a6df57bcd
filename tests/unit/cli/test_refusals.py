"""Refusals: one reason is named once, with its first place, and counted."""

from __future__ import annotations

from airflow_provider_binlog.cli.refusals import Refusals
from airflow_provider_binlog.errors import FormatError, UnsupportedError


def test_one_reason_of_one_table_is_one_line() -> None:
    refusals = Refusals()
    refusals.file = "f.1"
    for offset in (4, 8):
        refusals.add(UnsupportedError("no", table="a.b", file="f.1", offset=offset))
    refusals.file = "f.2"
    refusals.add(UnsupportedError("no", table="a.c"), times=3)
    refusals.file = "f.3"
    refusals.add(FormatError("damaged", log_pos=7, wanted=2))

    assert list(refusals.lines()) == [
        "  f.1:4  no (table=a.b)  (2 times)",
        "  f.2  no (table=a.c)  (3 times)",
        "  f.3  damaged (wanted=2)",
    ]
    assert refusals.count == 6
