"""A log of statements and rows, and what is known of its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_binlog.position import Flavor, SourceIdentity
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules
from airflow_provider_binlog.schema import Field, RewriteRows, TableState
from airflow_provider_binlog.schema_history.tables import EventRow, NoTable, TableLookup, Tables
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import STRICT_ALL_TABLES, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.schema import Action, Schema, TableName

STRICT = Session(Flavor.MYSQL, "shop", sql_mode=STRICT_ALL_TABLES, explicit_timestamps=True)
T, U = ("shop", "t"), ("shop", "u")


@dataclass
class Log:
    """Statements and rows, one after the other."""

    known: dict[TableName, TableState | NoTable] = field(default_factory=dict)
    captured: Callable[[str, str], bool] = lambda database, _: database == "shop"
    session: Session = STRICT
    offset: int = 4
    snapshots: dict[TableName, Schema] = field(default_factory=dict)
    columns: ColumnRules = NO_RULES

    def __post_init__(self) -> None:
        def find_all(database: str) -> list[TableState]:
            states = (each for each in self.known.values() if isinstance(each, TableState))
            return [each for each in states if each.name[0] == database]

        identity = SourceIdentity(self.session.flavor, "a-server", "binlog")
        self.tables = Tables(
            TableLookup(self.known.get, find_all, self.snapshots.get),
            captured=self.captured,
            identity=identity,
            sequence=7,
            columns=self.columns,
        )

    def next_offset(self) -> EventRow:
        self.offset += 100
        return EventRow(0, "binlog.000001", self.offset)

    def run(self, sql: str) -> list[Action]:
        ddl = read_ddl(sql, self.session)
        assert ddl is not None
        return list(self.tables.apply(ddl.changes, self.next_offset(), self.session))

    def rows(self, name: TableName, *columns: str, key: int = 1) -> list[Action]:
        """Log rows of a table whose columns are `name type [charset or - [staged type]]`."""
        fields = []
        for number, column in enumerate(columns, start=1):
            text, mysql_type, *others = column.split()
            charset = others[0] if others and others[0] != "-" else None
            staged = others[1] if others[1:] else f"arrow {mysql_type}"
            fields.append(Field(number, text, mysql_type, staged, True, charset))
        _, _, actions = self.tables.confirm(name, self.next_offset(), fields, (key,))
        return list(actions)

    def state(self, name: TableName) -> TableState:
        (state,) = (
            each.state
            for each in self.tables.touched.values()
            if each.state.name == name and not each.dropped
        )
        return state

    def fields(self, name: TableName = T) -> tuple[Field, ...]:
        schema = self.state(name).schema
        assert schema is not None
        return schema.fields

    def names(self, name: TableName = T) -> dict[int, str]:
        """Return the columns of a table by their field ids."""
        return {each.id: each.name for each in self.fields(name)}


def a_table() -> Log:
    log = Log()
    log.rows(T, "id int", "a int", "b int")
    return log


def rewritten(actions: list[Action]) -> list[int | None]:
    """Return the fields whose rows are rewritten; None for whole rows."""
    return [each.field for each in actions if isinstance(each, RewriteRows)]
