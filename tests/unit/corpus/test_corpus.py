"""Every log of the corpus reads as the server that wrote it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType, show_name
from airflow_provider_binlog.changes import CHANGE_TYPE, ROW, ChangeType
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.information_schema import ServerTables
from tests.corpus.capture import capture, read_changes, stage
from tests.corpus.case import LOGS, SERVERS, Recorded, recorded
from tests.reference.rows_header import ROWS_V1
from tests.support.server_tables import server_column, server_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.reference.rows_header import ROWS_V1
from tests.corpus.capture import Change

READ = [each for each in recorded() if each.case.refused is None]
REFUSED = [each for each in recorded() if each.case.refused is not None]

MYSQL = {
    *(EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE, EventType.STOP),
    *(EventType.GTID, EventType.QUERY, EventType.XID, EventType.XA_PREPARE, EventType.ROWS_QUERY),
    *(EventType.TABLE_MAP, EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS),
    *(EventType.PARTIAL_UPDATE_ROWS, EventType.TRANSACTION_PAYLOAD, EventType.INCIDENT),
    *(EventType.INTVAR, EventType.RAND, EventType.USER_VAR),
    *(EventType.BEGIN_LOAD_QUERY, EventType.EXECUTE_LOAD_QUERY),
}
MARIADB = ROWS_V1 | {
    *(EventType.FORMAT_DESCRIPTION, EventType.MARIADB_GTID_LIST, EventType.BINLOG_CHECKPOINT),
    *(EventType.ROTATE, EventType.STOP, EventType.MARIADB_GTID, EventType.QUERY, EventType.XID),
    *(EventType.XA_PREPARE, EventType.ANNOTATE_ROWS, EventType.TABLE_MAP, EventType.INCIDENT),
    *(EventType.QUERY_COMPRESSED, EventType.WRITE_ROWS_COMPRESSED_V1),
    *(EventType.UPDATE_ROWS_COMPRESSED_V1, EventType.DELETE_ROWS_COMPRESSED_V1),
    *(EventType.INTVAR, EventType.RAND, EventType.USER_VAR),
    *(EventType.BEGIN_LOAD_QUERY, EventType.EXECUTE_LOAD_QUERY),
}
EVENTS = {
    "mysql97": MYSQL | {EventType.GTID_TAGGED},
    "mysql80": MYSQL | ROWS_V1 | {EventType.ANONYMOUS_GTID},
    "mariadb1011": MARIADB,
    "mariadb118": MARIADB,
}
"""What the logs of each server hold, all together."""


def events_of(log: Recorded) -> Iterator[tuple[str, int, int]]:
    """Yield file, position and type of each event."""
    source = FileBlockStream(log.files)
    for block in source.blocks(source.first_position):
        for offset, kind in zip(block.offset.tolist(), block.type.tolist(), strict=True):
            yield block.file, offset, kind


def rows_of(log: Recorded, folder: Path) -> list[list[str | None]]:
    """Return the rows that the staged changes come to, as the case's SELECT prints them.

    Fails where a change is of a row that is not there, or of one that is.
    """
    columns = log.expected["columns"]
    defaults = dict(zip(columns, log.expected["defaults"], strict=True))
    manifests = stage(log, folder)
    steps: list[tuple[int, Change | None]] = [
        (change.row[ROW], change) for change in read_changes(manifests, folder)
    ]
    steps += [
        (statement.row, None)
        for manifest in manifests
        for statement in manifest.statements
        if statement.type == "TRUNCATE TABLE"
    ]
    rows: list[dict[str, str | None]] = []
    before: dict[str, str | None] = {}
    for _, change in sorted(steps, key=lambda step: step[0]):
        if change is None:
            rows.clear()
            continue
        image = {name: log.case.shown(value) for name, value in change.values.items()}
        kind = ChangeType(change.row[CHANGE_TYPE])
        if kind is ChangeType.INSERT:
            # What an insert leaves out has its default.
            before = {column.name: defaults.get(column.name) for column in change.schema.fields}
        if kind in (ChangeType.INSERT, ChangeType.UPDATE_POSTIMAGE):
            row = before | image
            assert row["id"] not in [each["id"] for each in rows], f"there already: {row}"
            rows.append(row)
        else:
            # Columns that came after a row are NULL in it.
            (before,) = [row for row in rows if image == {name: row.get(name) for name in image}]
            rows.remove(before)
    return sorted(([row.get(name) for name in columns] for row in rows), key=str)


@pytest.mark.parametrize("log", READ, ids=str)
def test_the_rows_are_those_of_select(log: Recorded, tmp_path: Path) -> None:
    assert rows_of(log, tmp_path) == log.expected["rows"]


@pytest.mark.parametrize("log", REFUSED, ids=str)
def test_what_cannot_be_read_is_refused(log: Recorded, tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match=log.case.refused):
        stage(log, tmp_path)


@pytest.mark.parametrize("log", recorded(), ids=str)
def test_the_events_are_those_that_the_server_lists(log: Recorded) -> None:
    found: dict[str, list[list[Any]]] = {file.name: [] for file in log.files}
    for file, offset, kind in events_of(log):
        found[file].append([offset, show_name(kind)])

    assert found == log.expected["events"]


@pytest.mark.parametrize("server", SERVERS)
def test_every_event_that_the_corpus_promises_is_in_it(server: str) -> None:
    logs = [log for log in recorded() if log.server == server]

    assert {kind for log in logs for _, _, kind in events_of(log)} == EVENTS[server]


def test_every_case_is_recorded() -> None:
    folders = {str(log.folder) for log in recorded()}

    assert {str(path.parent) for path in LOGS.rglob("expected.json")} == folders


@pytest.mark.parametrize("log", [log for log in READ if log.case.name == "addresses"], ids=str)
def test_an_inet_column_of_information_schema_is_its_text(log: Recorded, tmp_path: Path) -> None:
    kinds = {"id": "int", "a": "uuid", "b": "inet4", "c": "inet6"}
    table = server_table(*(server_column(name, kind) for name, kind in kinds.items()))
    catalog = ServerTables(log.end, {("corpus", "t"): table})

    changes = capture(log, tmp_path, read_server_tables=lambda _: catalog)

    literals = {f"'{change.values[name]}'" for change in changes for name in "abc"} - {"'None'"}
    assert literals == set(re.findall("'[^']*'", " ".join(log.case.statements)))
