"""Ten tables of which several are broken, each in another way: the others equal SELECT."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import OnTableError, Policies, ZeroDates
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.transport.server.information_schema import (
    ServerTables,
    read_server_tables,
)
from tests.fixtures.mysql import Database, connect
from tests.support.ranges import Range, apply, end_of, live, stage
from tests.support.snapshots import take
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from tests.services.servers import Server
    from tests.support.pipeline import Pipeline
    from tests.support.ranges import Staged

pytestmark = pytest.mark.server

GOOD = ("orders", "visits", "items", "people")
BREAKING: dict[str, tuple[str, list[str]]] = {
    "days": (
        "id INT PRIMARY KEY, day DATE",
        ["SET SESSION sql_mode = ''", "INSERT INTO days VALUES (2, '0000-00-00')"],
    ),
    "texts": (
        "id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET ucs2",
        ["INSERT INTO texts VALUES (2, x'0061D800')"],
    ),
    "taken": ("id INT PRIMARY KEY, _row INT", ["INSERT INTO taken VALUES (2, 2)"]),
}
"""Of each broken table: its columns, and what breaks it."""
OF_MYSQL: dict[str, tuple[str, list[str]]] = {
    "documents": (
        "id INT PRIMARY KEY, j JSON",
        [
            """INSERT INTO documents VALUES (2, '{"a": "some text", "b": "more"}')""",
            "SET SESSION binlog_row_image = MINIMAL",
            "SET SESSION binlog_row_value_options = PARTIAL_JSON",
            "UPDATE documents SET j = JSON_SET(j, '$.a', 'else') WHERE id = 2",
            "SET SESSION binlog_row_image = FULL, binlog_row_value_options = ''",
        ],
    ),
}
OF_MARIADB: dict[str, tuple[str, list[str]]] = {
    "computed": (
        "id INT PRIMARY KEY, a INT, v INT AS (a + 2) VIRTUAL",
        [
            "INSERT INTO computed (id, a) VALUES (2, 2)",
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE computed SET a = 3",
            "SET SESSION binlog_row_image = FULL",
        ],
    ),
    "versioned": (
        "id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING -- ",
        ["INSERT INTO versioned (id, v) VALUES (2, 2)"],
    ),
    "saved": (
        "id INT PRIMARY KEY",
        [
            *("START TRANSACTION", "INSERT INTO saved VALUES (2)", "SAVEPOINT `é`"),
            *("INSERT INTO saved VALUES (3)", "INSERT INTO loose VALUES (3)"),
            *("ROLLBACK TO `é`", "COMMIT"),
        ],
    ),
}


class Capture:
    """Ranges of a server's log, one after the other, with what is broken left out."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.staged: list[Staged] = []
        self._store = open_store(f"memory://quarantine{id(self)}")
        self._at = end_of(database.server)

    def run(self, **options: Any) -> Manifest:
        """Capture what happened since the last time, and compare the good tables."""
        happened = Range(self.database, self._at, end_of(self.database.server))
        defaults = {
            "sequence": len(self.staged) + 1,
            "store": self._store,
            "tables": TableFilter([f"{self.database.name}.*"], [f"{self.database.name}.loose"]),
            "policies": Policies(zero_dates=ZeroDates.FAIL),
            "read_server_tables": self._read_server_tables,
            "on_table_error": OnTableError.QUARANTINE,
        }
        staged = stage(live(self.database.server), happened, **defaults | options)
        self.staged.append(staged)
        self._at = staged.manifest.stop
        found = apply(*self.staged)
        for name in GOOD:
            there = Counter(self.database.query(f"SELECT * FROM {name}"))
            assert {row: count for row, count in found[name].items() if count} == there, name
        return staged.manifest

    def _read_server_tables(self, names: Collection[TableName]) -> ServerTables:
        with closing(connect(self.database.server)) as connection:
            return read_server_tables(connection, names)


def writes(number: int, tables: tuple[str, ...] = GOOD) -> Iterator[str]:
    """Yield statements on every good table."""
    for name in tables:
        yield f"INSERT INTO {name} VALUES ({number}, 'a'), ({number + 1}, NULL)"
        yield f"UPDATE {name} SET a = 'changed' WHERE id = {number}"
        yield f"DELETE FROM {name} WHERE id = {number - 1}"


def test_a_statement_on_other_databases_alone_does_not_stop_the_source(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database, other = create_database(mysql97), create_database(mysql97)
    capture = Capture(database)
    database.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20))" for name in GOOD))
    other.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT * FROM t")
    for format_ in ("STATEMENT", "MIXED"):
        database.execute(
            *writes(10 if format_ == "MIXED" else 20),
            f"SET SESSION binlog_format = {format_}",
            *("START TRANSACTION", f"INSERT INTO {other.name}.t VALUES (1)", "COMMIT"),
            f"/* of an application */ REPLACE\tINTO {other.name}.v VALUES (2)",
            f"WITH w AS (SELECT 1 AS id) DELETE x FROM {other.name}.t x JOIN w USING (id)",
            f"-- of another one\ndelete from {other.name}.t",
        )
    assert capture.run().quarantined == ()

    # A trigger writes to a captured table: the event names its database, too.
    other.execute(
        f"CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW"
        f" INSERT INTO {database.name}.orders VALUES (NEW.id, 'by a trigger')"
    )
    database.execute(
        "SET SESSION binlog_format = STATEMENT", f"INSERT INTO {other.name}.t VALUES (99)"
    )
    with pytest.raises(UnsupportedError, match="STATEMENT or MIXED"):
        capture.run()


@pytest.mark.fault("statement-format", servers="mysql97 mariadb1011 mariadb118", stores="file")
def test_the_good_tables_equal_select_after_every_run(database: Database) -> None:
    mysql = database.server.name.startswith("mysql")
    broken = BREAKING | (OF_MYSQL if mysql else OF_MARIADB)
    capture = Capture(database)
    database.execute(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20))" for name in GOOD),
        *(f"CREATE TABLE {name} ({columns})" for name, (columns, _) in broken.items()),
        "CREATE TABLE loose (id INT PRIMARY KEY) ENGINE=MyISAM",
        *writes(10),
        *(each for _, statements in broken.values() for each in statements),
        *writes(20),
    )

    first = capture.run()
    assert {each.table for each in first.quarantined} == broken.keys()
    reasons = {each.table: each.reason for each in first.quarantined}
    assert reasons["days"].startswith("a zero or invalid date")
    assert reasons["texts"].endswith("(charset=ucs2, column=a)")
    assert reasons["taken"].endswith("(column=_row)")

    database.execute(*writes(30), "INSERT INTO days VALUES (4, '2024-02-29')")
    second = capture.run()
    # What is broken in every row is so again; what was a single value is staged.
    assert {each.table for each in second.quarantined} == set()

    loose, zero = "SET SESSION sql_mode = ''", "INSERT INTO days VALUES (5, '0000-00-00')"
    database.execute(*writes(40), loose, zero)
    third = capture.run()
    assert {each.table for each in third.quarantined} == {"days"}
    (days,) = (each for each in third.tables if each.table == "days")
    assert days.rows == 0


FIRST = {
    "days": "1, '2024-02-29'",
    "texts": "1, 'a'",
    "taken": "1, 1",
    "documents": "1, '[]'",
    "computed": "1, 1, DEFAULT",
    "saved": "1",
}
"""Of each broken table the row that it has before; one is broken from its first row on."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        ("mariadb118", "iceberg"),
        pytest.param("mysql97", "iceberg", marks=pytest.mark.slow),
        pytest.param("mysql97", "delta", marks=pytest.mark.slow),
        pytest.param("mariadb118", "delta", marks=pytest.mark.slow),
    ],
)
def test_a_reload_mends_each_broken_table_and_no_other_one_has_waited(
    kind: str, format_: str, create_pipeline: Callable[..., Pipeline]
) -> None:
    policies = Policies(zero_dates=ZeroDates.FAIL)
    pipeline = create_pipeline(kind, format_, policies=policies)
    pipeline.on_table_error = OnTableError.QUARANTINE
    database, workplace, good = pipeline.database, pipeline.workplace, GOOD[:2]
    broken = BREAKING | (OF_MYSQL if kind == "mysql97" else OF_MARIADB)
    # What merges cannot follow at all is not mended.
    broken.pop("versioned", None)

    def merge() -> set[str]:
        """Capture and merge; return which tables are left alone. The others equal SELECT."""
        pipeline.capture()
        report = workplace.try_merge(initial_load="snapshot")
        assert not report.failed
        held = {each.table.partition(".")[2]: each.reason for each in report.held}
        assert all("quarantined" in reason for reason in held.values())
        assert pipeline.differences(but=held) == []
        return {*held}

    database.execute(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20))" for name in good),
        *(f"CREATE TABLE {name} ({columns})" for name, (columns, _) in broken.items()),
        "CREATE TABLE loose (id INT PRIMARY KEY) ENGINE=MyISAM",
        "INSERT INTO loose VALUES (1)",
        *(f"INSERT INTO {name} VALUES ({FIRST[name]})" for name in broken),
        *writes(10, good),
    )
    assert merge() == {"taken"}

    database.execute(*(each for _, statements in broken.values() for each in statements))
    database.execute(*writes(20, good))
    assert merge() - {"loose"} == broken.keys()

    database.execute(
        "UPDATE days SET day = NULL WHERE id = 2",
        "DELETE FROM texts WHERE id = 2",
        "ALTER TABLE taken CHANGE _row number INT",
        *writes(30, good),
    )
    left = merge()
    assert left >= broken.keys()

    for table in left:
        take(database, table, workplace.store, source_name=workplace.source, policies=policies)
    database.execute("INSERT INTO days VALUES (3, '2024-02-29')", *writes(40, good))
    assert merge() == set()
