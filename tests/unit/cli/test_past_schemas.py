"""PastSchemas: a TABLE_MAP of a server's log is completed for certain, or it is said why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.cli.past_schemas import PastSchemas
from airflow_provider_binlog.errors import AccessDeniedError, TableLockedError
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema_history.completion import Unclear
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.logs import a_table
from tests.unit.cli.served import FIRST, NAME, Served

FORMAT = builder.parsed_format()
NAMELESS = a_table("t", "id", "x")
NAMELESS = replace(
    NAMELESS,
    columns=tuple(replace(each, name=None) for each in NAMELESS.columns),
    primary_key=None,
)


def a_log(*statements: str) -> tuple[BinlogFile, list[Position]]:
    """Return a log of statements, and a place behind each."""
    file, behind = BinlogFile(), []
    for number, sql in enumerate(statements, start=1):
        file.add(EventType.GTID, builder.gtid(number))
        file.add(EventType.QUERY, builder.query(sql))
        behind.append(Position(NAME, len(file.data)))
    file.add(EventType.GTID, builder.gtid(len(statements) + 1))
    return file, behind


def every(database: str, table: str) -> bool:
    return True


def names(past: PastSchemas, at: Position) -> list[str | None]:
    told = past.complete(NAMELESS, at, FORMAT)
    assert not isinstance(told, Unclear)
    return [column.name for column in told.columns]


def test_statements_behind_are_undone() -> None:
    file, behind = a_log("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t RENAME COLUMN b TO c")
    past = PastSchemas(Served(file, t="id c"), FIRST, every)

    found = [names(past, at) for at in (FIRST, *behind)]
    epochs = [past.epoch(NAMELESS, at, Flavor.MYSQL) for at in (FIRST, *behind)]

    assert found == [["id", "a"], ["id", "b"], ["id", "c"]]
    assert epochs == sorted(set(epochs))


def test_a_log_that_grows_is_read_on() -> None:
    file, behind = a_log("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t RENAME COLUMN b TO c")
    log = Served(file, t="id b")
    log.ends[:] = [behind[0].offset, behind[0].offset]
    past = PastSchemas(log, FIRST, every)

    first = names(past, FIRST), past.epoch(NAMELESS, FIRST, Flavor.MYSQL)
    vars(log).update(tables={"t": "id c"})
    later = names(past, behind[1])

    assert first[0] == ["id", "a"]
    assert later == ["id", "c"]
    assert (names(past, FIRST), past.epoch(NAMELESS, FIRST, Flavor.MYSQL)) == first


def test_a_table_that_was_not_wanted_is_asked_for_when_it_comes() -> None:
    file, _ = a_log("CREATE TABLE other (a INT)")
    past = PastSchemas(Served(file, t="id x"), FIRST, lambda *_: False)

    found = names(past, FIRST)

    assert found == ["id", "x"]


def test_nothing_is_asked_before_a_table_comes() -> None:
    file, _ = a_log("CREATE TABLE other (a INT)")
    log = Served(file, t="id x")

    PastSchemas(log, FIRST, every)

    assert log.asked == 0


def test_a_server_that_refuses_is_asked_once() -> None:
    file, _ = a_log("CREATE TABLE other (a INT)")
    log = Served(file, t="id x")
    log.fail(AccessDeniedError("not for you"))
    past = PastSchemas(log, FIRST, every)

    found = [past.complete(NAMELESS, FIRST, FORMAT) for _ in range(2)]

    assert found == [Unclear("not for you")] * 2
    assert past.epoch(NAMELESS, FIRST, Flavor.MYSQL) == past.epoch(
        NAMELESS, Position(NAME, 9999), Flavor.MYSQL
    )
    assert log.asked == 1


def test_what_a_retry_may_help_is_raised() -> None:
    file, _ = a_log("CREATE TABLE other (a INT)")
    log = Served(file, t="id x")
    log.fail(TableLockedError("somebody holds it"))

    with pytest.raises(TableLockedError):
        PastSchemas(log, FIRST, every).complete(NAMELESS, FIRST, FORMAT)


def test_a_statement_that_reads_as_nothing_makes_every_table_unclear() -> None:
    file, _ = a_log("ALTER TABLE `")
    past = PastSchemas(Served(file, t="id x"), FIRST, every)

    found = past.complete(NAMELESS, FIRST, FORMAT)

    assert isinstance(found, Unclear)
    assert "statement=ALTER TABLE" in found.reason
