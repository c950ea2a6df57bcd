"""The events around a position, in a real log."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.plugins import logs
from airflow_provider_binlog.plugins.logs import (
    HIDDEN,
    EventsAround,
    find_anchor,
    read_events,
    shown_info,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.sources.file_log import FileLog

_CORPUS = Path(__file__).parents[2] / "corpus" / "logs"
LOG = next((_CORPUS / "several_tables" / "mysql97").glob("binlog.*"))


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The events of the log as the command prints them, which servers are the judges of."""
    assert main(["events", str(LOG)]) == 0
    return [line.split("\t") for line in capsys.readouterr().out.splitlines()]


def around(offset: int, anchor: int | None = None) -> EventsAround:
    position = Position(LOG.name, offset)
    log = FileLog(find_files(str(LOG.parent), reach_plainly))
    return read_events(log, position, Position(LOG.name, offset if anchor is None else anchor))


def test_events_before_and_after_a_position_are_those_of_the_log(lines: list[list[str]]) -> None:
    middle = len(lines) // 2

    events = around(int(lines[middle][1]), anchor=4)

    shown = [(each.position, each.type, each.info) for each in (*events.before, *events.after)]
    assert shown == [
        (int(line[1]), line[2], line[5].replace("(20)", "(?)").split(" /* xid")[0])
        if line[2] == "Query"
        else (int(line[1]), line[2], line[5])
        for line in lines
    ]
    assert events.after[0].position == int(lines[middle][1])
    assert around(int(lines[middle][1])).before == deque()


def test_only_some_events_are_shown(
    lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "EVENTS_AFTER", 2)

    events = around(4)

    assert len(events.after) == 2
    assert events.note
    monkeypatch.setattr(logs, "_READ_SECONDS", -1)
    assert len(around(4).after) == 1


def test_a_position_inside_an_event_is_refused(lines: list[list[str]]) -> None:
    with pytest.raises(ConfigurationError, match="no event begins"):
        around(int(lines[3][1]) + 1, anchor=4)


@pytest.mark.parametrize(
    "text",
    [
        "use `shop`; CREATE USER eve IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$hash'",
        "ALTER USER eve IDENTIFIED BY 'secret'",
        "SET PASSWORD FOR eve = 'x'",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD 'x')",
        "CREATE TABLE t (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:p@h/d/t'",
    ],
)
def test_what_may_hold_a_password_is_not_shown(text: str) -> None:
    assert shown_info("Query", text) == HIDDEN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "use `d`; ALTER TABLE t ADD c INT DEFAULT 'X' /* X */",
            "use `d`; ALTER TABLE t ADD c INT DEFAULT ?",
        ),
        ("""INSERT INTO t\nVALUES ('it''s', "X",\t'X', 7)""", "INSERT INTO t VALUES (?, ?, ?, ?)"),
        # Which of them is a literal depends on sql_mode.
        (r"INSERT INTO t VALUES (1, '\', X, '\')", "INSERT INTO t VALUES (?, ..."),
        ("INSERT INTO t VALUES ('X", "INSERT INTO t VALUES ("),
    ],
)
@pytest.mark.parametrize("type_", ["Query", "Rows_query", "Annotate_rows"])
def test_values_of_statements_are_not_shown(text: str, shown: str, type_: str) -> None:
    assert shown_info(type_, text) == shown


@pytest.mark.parametrize(
    ("offset", "boundaries", "expected"),
    [
        (100, [], 4),
        (50_000, [40_000, 49_000, 49_990, 60_000], 40_000),
        (50_000, [49_990], 4),
        (9 << 20, [], 9 << 20),
        (9 << 20, [(9 << 20) - 10], (9 << 20) - 10),
        (4, [], 4),
    ],
)
def test_reading_starts_at_a_boundary_not_far_before(
    offset: int, boundaries: list[int], expected: int
) -> None:
    known = [Position("binlog.000001", each) for each in boundaries]
    known.append(Position("binlog.000002", offset - 1))

    assert find_anchor(Position("binlog.000001", offset), known).offset == expected
