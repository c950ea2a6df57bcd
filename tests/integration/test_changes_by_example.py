"""docs/changes-by-example.md: its statements, run on a server, are staged as the page says."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.fixtures.mysql import Database
from tests.support.ranges import Row, Staged, happen, live, stage
from tests.support.staged import held_by
from tests.unit.test_docs import cells, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.services.servers import Server

pytestmark = pytest.mark.server

PAGE = (Path(__file__).parents[2] / "docs/changes-by-example.md").read_text(encoding="utf-8")
NOT_LOGGED = "–"


class Example(NamedTuple):
    """A section with statements."""

    title: str
    text: str

    @property
    def statements(self) -> list[str]:
        (block,) = re.findall(r"^```sql\n(.*?)^```", self.text, re.DOTALL | re.MULTILINE)
        return [line.removesuffix(";") for line in block.splitlines()]

    @property
    def table(self) -> str:
        """The first table that is created."""
        return self.text.partition("CREATE TABLE ")[2].split()[0]

    @property
    def actions(self) -> list[str] | None:
        found = re.search(r"^Actions: (.*)$", self.text, re.MULTILINE)
        return None if found is None else quoted(found[1])

    def rows(self, heading: str) -> list[list[str]] | None:
        """Return the rows of a table of the section; None if it has none."""
        if f"\n| {heading} |" not in self.text:
            return None
        return list(cells(self.text, f"| {heading} |"))


EXAMPLES = [
    Example(title, text)
    for title, text in re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
]


def shown(value: Any) -> str:
    """Return a value as the page has it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def logged(table: TableChanges, row: Row) -> list[str]:
    (schema,) = table.schemas
    held = held_by(table, schema, row["_image"])
    names = [field.name for field in schema.fields]
    values = [shown(row[name]) if name in held else NOT_LOGGED for name in names]
    return [row["_change_type"], *values]


def captured(database: Database, *statements: str) -> Staged:
    happened = happen(database, *statements)

    def read(names: Collection[TableName], *_: object) -> ServerTables:
        with closing(database.connect()) as connection:
            return read_server_tables(connection, names)

    return stage(live(database.server), happened, read_server_tables=read)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == PAGE.count("```sql") > 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_statements_become_what_the_page_says(
    example: Example, mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)

    staged = captured(database, *example.statements)

    statements = staged.manifest.statements
    actions = [action.type for statement in statements for action in statement.actions]
    assert example.actions in (None, actions)
    if (changes := example.rows("`_change_type`")) is not None:
        (table,) = staged.manifest.tables
        assert [logged(table, row) for row in staged.rows(table)] == changes
    if (lake := example.rows("lake")) is not None:
        rows = database.query(f"SELECT * FROM `{example.table}` ORDER BY 1")
        assert [["", *map(shown, row)] for row in rows] == lake
    assert (example.actions, changes, lake) != (None, None, None)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_values_are_staged_as_the_page_says(
    name: str, request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(request.getfixturevalue(name))
    heading = "MySQL:" if name == "mysql97" else "MariaDB, with"
    section = PAGE[PAGE.index(f"\n{heading}") :]
    examples = [
        (*quoted(column), *re.findall(r"^`(.*)`$", value), staged)
        for column, value, staged in cells(section, "| column | value | staged |")
    ]
    columns = ", ".join(f"c{number} {column}" for number, (column, _, _) in enumerate(examples))
    values = ", ".join(value for _, value, _ in examples)

    staged = captured(
        database,
        "SET sql_mode = ''",
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values})",
    )

    (table,) = staged.manifest.tables
    (row,) = staged.rows(table)
    found = [shown(row[f"c{number}"]) for number in range(len(examples))]
    assert found == [staged for *_, staged in examples]
