"""Statements by the grammar: what is known of their tables is what the server made of them.

After the statements, and before another row is logged, the columns are those of information_schema
in its order, older rows hold the values that SELECT returns, or the manifest says that they may
not; and the next row shows nothing that no statement has said.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import CreateTable, Default, RewriteRows, TruncateTable
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify
from tests.fixtures.mysql import connect
from tests.support.ddl_statements import ALL
from tests.support.ranges import end_of, files
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Action, Schema, TableName, TableState
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server
    from tests.support.ddl_statements import Steps

pytestmark = pytest.mark.server

_TABLE = re.compile(r"\b([tuw])\b")
_BYTES = ("binary", "blob", "geometry", "point", "vector", "bit", "polygon", "geomcollection")
Values = dict[str, str | None]
Rows = dict[str, list[Values]]


class Ranges:
    """Stages what happens in a database, one range after the other."""

    def __init__(self, database: Database) -> None:
        self.manifests: list[Manifest] = []
        self._database = database
        self._store = open_store(f"memory://{database.server.name}-{database.name}")
        self._start = end_of(database.server)

    def stage(self) -> Manifest:
        """Return what was logged since the last range."""
        server = self._database.server
        with closing(connect(server)) as connection:
            identity = identify(connection)
        request = ExtractRequest(
            start=self._start,
            stop=end_of(server),
            identity=identity,
            sequence=len(self.manifests) + 1,
            source_name="shop",
            tables=TableFilter([f"{self._database.name}.*"]),
            before_images=BeforeImages.KEY_CHANGES,
            created_by="a test",
            # MariaDB logs UUID and the like as BINARY.
            read_server_tables=self._read_tables if identity.flavor is Flavor.MARIADB else None,
        )
        self.manifests += extract(request, files(server), self._store).manifests
        self._start = self.manifests[-1].stop
        return self.manifests[-1]

    def _read_tables(self, names: Collection[TableName]) -> ServerTables:
        with closing(connect(self._database.server)) as connection:
            return read_server_tables(connection, names)

    def states(self) -> dict[str, TableState]:
        """Return what is known of the tables, by their names."""
        found: dict[str, TableState] = {}
        for table in (each for manifest in self.manifests for each in manifest.tables):
            found = {name: each for name, each in found.items() if each.id != table.id}
            if not table.dropped:
                found[table.table] = table.state
        return found


def numbered(statement: str, number: int) -> str:
    """Return a statement on the tables of the steps of this number."""
    if not (_TABLE.search(statement) or statement.startswith("SET ")):
        statement = f"ALTER TABLE t {statement}"
    return _TABLE.sub(lambda match: f"{match[1]}{number}", statement)


def execute(database: Database, parts: dict[int, tuple[str, ...]]) -> None:
    """Execute statements, those of each steps in a session of its own."""
    for number, statements in parts.items():
        database.execute(*(numbered(each, number) for each in statements))


def columns_of(database: Database) -> dict[str, dict[str, str]]:
    """Return the columns of each table in order, with their types."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        if database.server.name.startswith("mysql"):
            cursor.execute("SET show_gipk_in_create_table_and_information_schema = ON")
        cursor.execute(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME, ORDINAL_POSITION"
        )
        for table, column, data_type in cursor.fetchall():
            found[table][column] = data_type
    return dict(found)


def rows_of(database: Database, tables: dict[str, dict[str, str]]) -> Rows:
    """Return the rows, numbers without what only their type shows."""
    found: Rows = {}
    for table, columns in tables.items():
        shown = []
        for name, data_type in columns.items():
            column = f"`{name.replace('`', '``')}`"
            as_bytes = any(each in data_type for each in _BYTES)
            shown.append(f"LOWER(HEX({column}))" if as_bytes else f"CAST({column} AS CHAR)")
        selected = database.query(f"SELECT {', '.join(shown)} FROM `{table}`")
        found[table] = [dict(zip(columns, row, strict=True)) for row in selected]
    return found


def actions_on(manifest: Manifest, table: str, *, typed: bool = True) -> list[Action]:
    """Return what statements did to a table, or what rows alone showed of it."""
    return [
        action
        for statement in manifest.statements
        if bool(statement.type) is typed
        for action in statement.actions
        if action.table == table
    ]


def plain(value: str | None) -> str | None:
    """Return a value without what only the digits of its type show."""
    if value is None:
        return None
    is_number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value)
    return str(float(value)) if is_number else re.sub(r"\.0+$", "", value)


@dataclass
class Seen:
    """What is known of one table, and what the server made of it.

    Attributes:
        before, after: What was known before its statements and after them; None where it was
            created by them.
        actions: Of its statements.
        shown: What the rows after them showed.
        columns: In the server's order.
        old, row: The older row before and after; None where it has none.
    """

    before: TableState | None
    after: Schema
    actions: list[Action]
    shown: list[Action]
    columns: list[str]
    old: Values | None
    row: Values | None

    def rewritten(self) -> set[str]:
        """Return the columns whose values in older rows are not known; `*` for all."""
        names = {field.id: field.name for field in self.after.fields}
        return {
            "*" if isinstance(each, TruncateTable) or each.field is None else names[each.field]
            for each in self.actions
            if isinstance(each, RewriteRows | TruncateTable)
        }

    def differences(self, of: Steps) -> Iterator[object]:
        """Yield what is not as the server has it."""
        rewritten = self.rewritten()
        if rewritten != of.rewritten:
            yield "rewritten", rewritten
        if "*" in of.rewritten:
            return
        names = [field.name for field in self.after.fields]
        if names != self.columns:
            yield names, self.columns
        if self.shown:
            yield "rows show", self.shown
        if self.before is not None and self.old is not None and self.row is not None:
            yield from self._values(of, self.before, self.old, self.row, but=rewritten)

    def _values(
        self, of: Steps, before: TableState, old: Values, row: Values, *, but: set[str]
    ) -> Iterator[object]:
        previous = {field.id: field.name for field in before.schema.fields} if before.schema else {}
        for field in (each for each in self.after.fields if each.name not in but):
            if field.id in previous:
                expected = old[previous[field.id]]
            elif isinstance(field.initial_default, Default):
                expected = field.initial_default.value
            else:
                if field.name not in of.unknown:
                    yield field.name, field.initial_default
                continue
            if plain(expected) != plain(row[field.name]):
                yield field.name, expected, row[field.name]


def show_columns(database: Database, tables: Iterable[str]) -> None:
    """Log a row of each table."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', foreign_key_checks = 0")
        for table in tables:
            cursor.execute(f"SHOW CREATE TABLE {table}")
            ((_, created, *_),) = cursor.fetchall()
            if "SEQUENCE=1" in created:
                cursor.execute(f"SELECT SETVAL({table}, 9)")
            elif not cursor.execute(f"DELETE FROM {table}"):
                cursor.execute(f"INSERT IGNORE INTO {table} () VALUES ()")


def see(database: Database, steps: dict[int, Steps]) -> Iterator[tuple[str, Seen]]:
    """Yield the tables that there are after the statements, and what is known of them."""
    ranges = Ranges(database)
    execute(database, {number: each.tables for number, each in steps.items()})
    execute(database, {number: each.rows for number, each in steps.items()})
    ranges.stage()
    before, rows_before = ranges.states(), rows_of(database, columns_of(database))
    execute(database, {number: each.statements for number, each in steps.items()})
    altered, after = ranges.stage(), ranges.states()
    columns = columns_of(database)
    rows = rows_of(database, columns)
    show_columns(database, columns)
    shown = ranges.stage()

    assert set(after) == set(columns)
    names = {state.id: name for name, state in before.items()}
    for table, state in after.items():
        assert state.schema is not None, table
        actions = actions_on(altered, state.id)
        is_new = any(isinstance(each, CreateTable) for each in actions)
        old = None if is_new else rows_before[names[state.id]]
        yield (
            table,
            Seen(
                None if is_new else before[names[state.id]],
                state.schema,
                actions,
                actions_on(shown, state.id, typed=False),
                list(columns[table]),
                old[0] if old else None,
                rows[table][0] if rows[table] else None,
            ),
        )


@pytest.mark.parametrize(
    "name", ["mysql97", "mariadb118", pytest.param("mariadb1011", marks=pytest.mark.slow)]
)
def test_tables_are_what_the_server_made_of_them(
    name: str,
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
) -> None:
    database = create_database(request.getfixturevalue(name))
    steps = {number: each for number, each in enumerate(ALL) if name.startswith(each.on)}

    found = {
        table: list(seen.differences(steps[int(table[1:])])) for table, seen in see(database, steps)
    }

    assert {table: wrong for table, wrong in found.items() if wrong} == {}
