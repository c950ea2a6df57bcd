"""Which table a name stands for, and which fields it has, under any statements."""

from __future__ import annotations

import json

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor, SourceIdentity
from airflow_provider_binlog.schema import (
    AddField,
    DropField,
    DropTable,
    Field,
    RenameField,
    RewriteRows,
    TableState,
)
from airflow_provider_binlog.schema_history.tables import EventRow, TableLookup, Tables
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import Session
from airflow_provider_binlog.stored_json import from_json, to_text
from tests.fuzz.targets import Wrong, check_text

DATABASE = "shop"
_ROWS = (
    ("t", ("id", "a", "b")),
    ("u", ("id", "a", "b", "c", "d")),
)


class _Reader:
    """Knows the fields of tables by actions alone, after their first rows."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[int, str]] = {}
        self.used: dict[str, set[int]] = {}

    def start(self, state: TableState) -> None:
        if state.id not in self.fields and state.schema is not None:
            self.fields[state.id] = {each.id: each.name for each in state.schema.fields}
            self.used[state.id] = set(self.fields[state.id])

    def follow(self, action: object) -> None:
        if isinstance(action, DropTable):
            self.fields.pop(action.table, None)
        elif isinstance(action, AddField | DropField | RenameField) and action.table in self.fields:
            fields, used = self.fields[action.table], self.used[action.table]
            if isinstance(action, AddField):
                if action.field in used:
                    raise Wrong(f"a field id is used again: {action}")
                used.add(action.field)
                fields[action.field] = action.name
            elif isinstance(action, DropField):
                if fields.pop(action.field, None) != action.name:
                    raise Wrong(f"a field is dropped that is not there: {action}")
            else:
                if fields.get(action.field) != action.old:
                    raise Wrong(f"a field is renamed that is not there: {action}")
                fields[action.field] = action.new

    def check(self, tables: Tables) -> None:
        for table in tables.touched.values():
            state = table.state
            if from_json(TableState, json.loads(to_text(state))) != state:
                raise Wrong(f"a table that does not survive being written: {state}")
            if state.schema is None:
                continue
            names = {each.id: each.name for each in state.schema.fields}
            if len(names) != len(state.schema.fields) or not set(state.schema.key) <= set(names):
                raise Wrong(f"an invalid schema: {state.schema}")
            if max(names, default=0) > state.last_field_id:
                raise Wrong(f"a field id after the last one: {state}")
            if not table.dropped and self.fields.get(state.id, names) != names:
                raise Wrong(f"actions lead to {self.fields[state.id]}, and not to {names}")


def run_identity(statements: list[str], mode: int | None) -> None:
    """Follow statements, with rows between them, and what they do by actions alone."""
    for flavor in Flavor:
        tables = Tables(
            TableLookup(lambda _: None, lambda _: ()),
            captured=lambda database, _: database == DATABASE,
            identity=SourceIdentity(flavor, "server", "binlog"),
            sequence=1,
        )
        reader, session = _Reader(), Session(flavor, DATABASE, mode, True, "utf8mb4", "utf8mb4")
        for number, sql in enumerate(statements):
            for name, columns in _ROWS[: number % 3]:
                fields = tuple(
                    Field(index, column, "int", "int32", nullable=True)
                    for index, column in enumerate(columns, start=1)
                )
                at = EventRow(0, "binlog.000001", 10 * number + 4)
                table, _, actions = tables.confirm((DATABASE, name), at, fields, (1,))
                for action in actions:
                    reader.follow(action)
                reader.start(tables.touched[table].state)
            try:
                ddl = read_ddl(sql, session)
            except UnsupportedError as error:
                check_text(error)
                continue
            at = EventRow(0, "binlog.000001", 10 * number + 9)
            for action in tables.apply(ddl.changes, at, session) if ddl else ():
                reader.follow(action)
                if isinstance(action, RewriteRows) and not action.reason:
                    raise Wrong("rows are rewritten for no reason")
            reader.check(tables)
