"""Every command prints what it found in the form that was asked for."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from typing import Any

import pytest
import yaml

from airflow_provider_binlog.cli.output import (
    print_record,
    print_records,
    print_stream,
    show_progress,
    track,
)
from airflow_provider_binlog.read_progress import ReadProgress

RECORDS: list[dict[str, Any]] = [
    {"table": "shop.größe", "rows": 1_200_000, "live": True, "why": None, "at": ["a", "b"]},
    {"table": "shop.[red]x[/red]", "rows": 0, "live": False, "why": "x" * 300, "at": []},
]


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_program_reads_values_as_they_are(
    form: str, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    print_records(RECORDS, form)
    assert read(capsys.readouterr().out) == RECORDS

    print_record(RECORDS[0], form)
    assert read(capsys.readouterr().out) == RECORDS[0]

    print_records([], form)
    assert read(capsys.readouterr().out) == []


def test_a_table_cuts_nothing_and_takes_names_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_records(RECORDS, "table")

    head, _, first, second = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in head.split("┃")] == ["table", "rows", "live", "why", "at"]
    assert [cell.strip() for cell in first.split("│")] == [
        *("shop.größe", "1,200,000", "yes", "", "a, b"),
    ]
    assert "shop.[red]x[/red]" in second
    assert "x" * 300 in second


def test_plain_text_can_be_cut_into_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_records(RECORDS, "plain")
    plain = capsys.readouterr().out
    # Without Airflow there is no rich.
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_records(RECORDS, "table")

    assert plain.splitlines()[1].split() == ["shop.größe", "1,200,000", "yes", "a,", "b"]
    assert capsys.readouterr().out == plain


def test_json_of_a_stream_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_stream(iter(RECORDS), "json")

    assert list(map(json.loads, capsys.readouterr().out.splitlines())) == RECORDS


def test_progress_is_a_line_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress("shop.orders") as show:
        for second in range(12):
            show(ReadProgress(second, 20, "chunks", rows=second, seconds=float(second)))

    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.partition(" of ")[0] for line in printed.err.splitlines()] == [
        "shop.orders: 5",
        "shop.orders: 10",
    ]


def test_progress_is_a_bar_with_the_time_left_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, stderr = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    with os.fdopen(stderr, "w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", file)
        with show_progress("shop.orders") as show:
            show(ReadProgress(5, 20, "chunks", rows=1_200, seconds=1.0))
        assert list(track([1, 2], "parts")) == [1, 2]
    shown = b""
    # Linux ends a terminal that nobody writes to with an error.
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            shown += piece
    os.close(terminal)

    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"shop\.orders: 1,200 rows .*(\d|-):..:.. left", plain)
    assert re.search(r"parts .* left", plain)
    assert capsys.readouterr().out == ""
