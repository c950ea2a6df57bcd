"""`rows` of a server: what the log leaves out of a table is completed for certain, or named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.cli.rows import read_rows
from airflow_provider_binlog.cli.source import Range
from airflow_provider_binlog.errors import AccessDeniedError, FormatError, TableLockedError
from airflow_provider_binlog.position import Position
from tests.support.builder import BinlogFile
from tests.support.logs import insert
from tests.support.table_map_builder import table_map
from tests.unit.cli.served import FIRST, NAME, SPARSE, A, Served, a_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock


def printed(log: Served, stop: Position | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [*read_rows(Range(log, FIRST, stop), None)]
    rows = [row["row"] for row in found]
    assert rows == sorted(set(rows))
    return [row["values"] for row in found]


def rename(old: str, new: str) -> str:
    return f"ALTER TABLE a RENAME COLUMN {old} TO {new}"


@pytest.mark.parametrize(
    ("tables", "values", "noted"),
    [
        ({"a": "u x"}, [{"u": 2**32 - 1, "x": -2}] * 2, ""),
        ({}, [{"@1": -1, "@2": -2}] * 2, "not determine it: it is not in the server's"),
    ],
)
def test_a_table_is_completed_from_information_schema_or_noted(
    tables: dict[str, str],
    values: list[dict[str, int]],
    noted: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Served(a_log("-", "DROP TABLE other", "-"), **tables)

    assert printed(log) == values
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == bool(noted)
    assert all(noted in note for note in notes)


def test_information_schema_holds_after_the_last_statement_on_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Served(a_log("-", rename("b", "c"), "-", rename("c", "d"), "-"), a="id d")

    assert [list(values) for values in printed(log)] == [["@1", "@2"], ["@1", "@2"], ["id", "d"]]
    assert log.asked == 1
    assert "names the table" in capsys.readouterr().err


def test_a_statement_after_the_stop_counts() -> None:
    file = a_log("-", rename("b", "c"))
    stop = Position(NAME, file.offsets[-2])

    assert printed(Served(file, a="id c"), stop) == [{"@1": -1, "@2": -2}]


def test_the_server_is_queried_once() -> None:
    log = Served(a_log("+", "+", "-", "+", "-"), a="u x")

    assert [each.keys() for each in printed(log)] == [
        *({"id", "x"}, {"id", "x"}, {"u", "x"}, {"id", "x"}, {"u", "x"})
    ]
    assert log.asked == 1


def test_a_log_that_grows_is_read_to_where_it_first_ended() -> None:
    class Growing(Served):
        """A log to which a row is added whenever it is read."""

        def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
            yield from super().blocks(start, stop)
            made = insert(A, [9])
            file: BinlogFile = vars(self)["file"]
            events = [(int(EventType.TABLE_MAP), table_map(SPARSE)), (made.type, made.body)]
            file.add_transaction(99, events)

    log = Growing(a_log("-"), a="id x")

    assert printed(log) == [{"id": -1, "x": -2}]


def test_the_server_is_not_queried_for_what_the_log_says() -> None:
    log = Served(a_log("+", "CREATE TABLE other (a INT)", "+"), a="id x")

    assert len(printed(log)) == 2
    assert log.asked == 0


def test_a_server_that_refuses_is_queried_once(capsys: pytest.CaptureFixture[str]) -> None:
    log = Served(a_log("-", "+", "-"), a="id x")
    log.fail(AccessDeniedError("not for you"))

    values = printed(log)

    assert values == [{"@1": -1, "@2": -2}, {"id": -1, "x": -2}, {"@1": -1, "@2": -2}]
    assert log.asked == 1
    (note,) = capsys.readouterr().err.splitlines()
    assert note.endswith("determine it: not for you")


def test_what_a_retry_may_help_is_raised() -> None:
    log = Served(a_log("-"), a="id x")
    log.fail(TableLockedError("somebody holds it"))

    with pytest.raises(TableLockedError):
        printed(log)


def test_a_statement_that_is_not_understood_makes_every_table_unclear(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Served(a_log("-", "ALTER TABLE `"), a="id x")

    assert printed(log) == [{"@1": -1, "@2": -2}]
    assert "statement=ALTER TABLE" in capsys.readouterr().err


def test_rows_before_damage_are_printed_where_the_statements_are_not_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Damaged(Served):
        """A log that cannot be read to its end."""

        def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
            yield from super().blocks(start, stop)
            raise FormatError("an event is damaged")

    rows = read_rows(Range(Damaged(a_log("-"), a="id x"), FIRST, None), None)

    assert next(rows)["values"] == {"@1": -1, "@2": -2}
    with pytest.raises(FormatError):
        next(rows)
    assert "determine it: an event is damaged" in capsys.readouterr().err
