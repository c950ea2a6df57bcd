"""What the merges write down beside their tables: properties, marks and columns, in one table.

It is in a schema of its own, `_binlog`, and committed with the rows. A trigger of each table notes
there when somebody else changes rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_binlog.spark.target.postgresql.connection import Connection, literal, quote
from airflow_provider_binlog.spark.target.postgresql.types import spark_type
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    Comments,
    Contents,
    Mark,
    TargetState,
    read_foreign_write,
)

SCHEMA = "_binlog"
"""The schema of what is ours: marks, and staged rows."""

_TRIGGER = "_binlog_foreign_write"
_MERGING = "binlog.merging"
# Classes of advisory locks: of target schemas, and of runs that may have staged tables.
_SCHEMA_LOCKS, _RUN_LOCKS = 0x62_69_6E_6C, 0x62_69_6E_6D
_SETUP_LOCK = 0x62_69_6E_6E
_STAGED = "staged_"

_SETUP = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE SEQUENCE IF NOT EXISTS {SCHEMA}.runs AS integer CYCLE;
CREATE TABLE IF NOT EXISTS {SCHEMA}.tables (
    schema_name text COLLATE "C",
    table_name text COLLATE "C",
    oid bigint NOT NULL,
    marks_oid bigint NOT NULL,
    version bigint NOT NULL,
    mark text NOT NULL,
    table_id text,
    snapshot text NOT NULL,
    foreign_write jsonb,
    properties jsonb NOT NULL,
    columns jsonb NOT NULL,
    PRIMARY KEY (schema_name, table_name)
);
COMMENT ON TABLE {SCHEMA}.tables IS 'Marks of airflow-provider-binlog, committed with the rows';
CREATE OR REPLACE FUNCTION {SCHEMA}.note_foreign_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    UPDATE {SCHEMA}.tables SET
        version = version + 1,
        foreign_write = coalesce(foreign_write, jsonb_build_object(
            'version', version + 1, 'operation', TG_OP, 'user', session_user,
            'time', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"')))
    WHERE schema_name = TG_TABLE_SCHEMA AND table_name = TG_TABLE_NAME;
    RETURN NULL;
END $$;
"""


@dataclass(frozen=True)
class Column:
    """A column as the server describes it.

    Attributes:
        type: As `format_type` prints it.
        collation: Quoted; None of a type without.
    """

    name: str
    type: str
    collation: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class ColumnNote:
    """What a merge noted of a column.

    Attributes:
        id: Never used again in its table.
        name: The column's name at the source, which is shorter here if that has too many bytes.
        type: The type that the merge gave it.
        source: Its type at the source; None where that is not known.
    """

    id: str
    name: str
    type: str
    source: str | None = None


@dataclass(frozen=True)
class StoredTable:
    """A table and what is noted of it; nothing is noted of one that somebody else made.

    Attributes:
        notes: By the columns' names.
        is_replaced: Whether another table was there when this was noted.
    """

    oid: int
    columns: tuple[Column, ...]
    has_trigger: bool
    is_empty: bool
    is_noted: bool = False
    is_replaced: bool = False
    version: int = 0
    contents: Contents = field(default_factory=lambda: Contents(NOTHING))
    properties: dict[str, str] = field(default_factory=dict)
    notes: dict[str, ColumnNote] = field(default_factory=dict)
    comment: str | None = None

    def note(self, column: Column) -> ColumnNote:
        """Return what is noted of a column; of another one what follows from itself."""
        return self.notes.get(column.name) or ColumnNote(column.name, column.name, column.type)

    @property
    def named(self) -> dict[str, Column]:
        """The columns by their names at the source."""
        return {self.note(column).name: column for column in self.columns}

    @property
    def state(self) -> TargetState:
        """The state, as planning knows it."""
        named = self.named
        return TargetState(
            columns={name: spark_type(self.note(column).type) for name, column in named.items()},
            column_ids={name: self.note(column).id for name, column in named.items()},
            properties=dict(self.properties),
            contents=self.contents,
            files=1,
            bytes=0,
            is_empty=self.is_empty,
            snapshot=self.version if self.is_noted else None,
            unknown=(
                "the table was dropped and made again, or restored without its marks: reload it"
                if self.is_replaced
                else None
            ),
            comments=Comments(
                self.comment or "",
                {name: column.comment for name, column in named.items() if column.comment},
            ),
        )


def set_up(connection: Connection) -> None:
    """Create what is ours, if it is not there."""
    if connection.read(f"SELECT to_regclass('{SCHEMA}.tables')") is not None:
        return
    with connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
        connection.execute(_SETUP)


def start_run(connection: Connection) -> int:
    """Return the number of a run, which is locked until the connection ends.

    The staged tables of runs that have ended are dropped.
    """
    run = int(connection.read(f"SELECT nextval('{SCHEMA}.runs')"))
    connection.execute(f"SELECT pg_advisory_lock({_RUN_LOCKS}, {run})")
    query = (
        f"SELECT coalesce(json_agg(tablename), '[]') FROM pg_tables WHERE schemaname = '{SCHEMA}'"
    )
    left: dict[int, list[str]] = {}
    for name in connection.read_json(query):
        if name.startswith(_STAGED):
            left.setdefault(int(name.split("_")[1]), []).append(name)
    for other, names in left.items():
        lock = f"{_RUN_LOCKS}, {other}"
        if other != run and connection.read(f"SELECT pg_try_advisory_lock({lock})") == "t":
            for name in names:
                drop_staged(connection, f"{SCHEMA}.{name}")
            connection.execute(f"SELECT pg_advisory_unlock({lock})")
    return run


def name_staged(run: int, number: int) -> str:
    """Return the name of a table for staged rows."""
    return f"{SCHEMA}.{_STAGED}{run}_{number}"


def drop_staged(connection: Connection, name: str) -> None:
    """Drop a table of staged rows."""
    connection.execute(f"DROP TABLE IF EXISTS {name}")


@contextmanager
def merging(connection: Connection) -> Iterator[None]:
    """Commit what the body does in one transaction, and note no write of others for it."""
    with connection.transaction():
        connection.execute(f"SELECT set_config('{_MERGING}', 'on', true)")
        yield


def lock_schemas(connection: Connection, schemas: Iterable[str]) -> None:
    """Let no other merge commit to tables of schemas until the transaction ends."""
    for schema in sorted(schemas):
        lock = f"{_SCHEMA_LOCKS}, hashtext({literal(schema)})"
        connection.execute(f"SELECT pg_advisory_xact_lock({lock})")


def read_table(
    connection: Connection, schema: str, table: str, *, lock: bool = False
) -> StoredTable | None:
    """Return a table and what is noted of it; None if there is no such table.

    With `lock` nobody else notes anything of it until the transaction ends.
    """
    where = f"schema_name = {literal(schema)} AND table_name = {literal(table)}"
    if lock:
        connection.execute(f"SELECT FROM {SCHEMA}.tables WHERE {where} FOR UPDATE")
    found = connection.read_json(
        f"""SELECT json_build_object(
            'oid', c.oid::bigint,
            'comment', obj_description(c.oid, 'pg_class'),
            'marks_oid', '{SCHEMA}.tables'::regclass::oid::bigint,
            'has_trigger', EXISTS (
                SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgname = '{_TRIGGER}'),
            'noted', (SELECT to_json(noted) FROM {SCHEMA}.tables AS noted WHERE {where}),
            'columns', (
                SELECT coalesce(json_agg(json_build_object(
                    'name', attname,
                    'type', format_type(atttypid, atttypmod),
                    'comment', col_description(attrelid, attnum),
                    'collation', (
                        SELECT format('%I.%I', nspname, collname)
                        FROM pg_collation JOIN pg_namespace ON pg_namespace.oid = collnamespace
                        WHERE pg_collation.oid = attcollation)) ORDER BY attnum), '[]')
                FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped))
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = {literal(schema)} AND c.relname = {literal(table)}"""
    )
    if found is None:
        return None
    name = f"{quote(schema)}.{quote(table)}"
    is_empty = connection.read(f"SELECT NOT EXISTS (SELECT FROM {name})") == "t"
    return _read(found, is_empty=is_empty)


def _read(found: dict[str, Any], *, is_empty: bool) -> StoredTable:
    columns = tuple(Column(**column) for column in found["columns"])
    table = StoredTable(
        found["oid"], columns, found["has_trigger"], is_empty, comment=found["comment"]
    )
    noted = found["noted"]
    if noted is None:
        return table
    # A restored database has other numbers of both.
    same_marks = noted["marks_oid"] == found["marks_oid"]
    is_replaced = same_marks and noted["oid"] != found["oid"]
    contents = Contents(
        Mark.parse(noted["mark"]),
        noted["table_id"],
        noted["snapshot"],
        read_foreign_write(noted["foreign_write"]),
    )
    return replace(
        table,
        is_noted=True,
        is_replaced=is_replaced,
        version=noted["version"],
        contents=Contents(NOTHING) if is_replaced else contents,
        properties=noted["properties"],
        notes={name: ColumnNote(**note) for name, note in noted["columns"].items()},
    )


def save_table(
    connection: Connection,
    schema: str,
    table: str,
    stored: StoredTable,
) -> None:
    """Note what a table is after a commit."""
    write = stored.contents.foreign_write
    values = {
        "oid": str(stored.oid),
        "marks_oid": f"'{SCHEMA}.tables'::regclass::oid::bigint",
        "version": str(stored.version),
        "mark": literal(str(stored.contents.mark)),
        "table_id": _text(stored.contents.table),
        "snapshot": literal(stored.contents.snapshot or ""),
        "foreign_write": "NULL" if write is None else _json(asdict(write)),
        "properties": _json(stored.properties),
        "columns": _json({name: asdict(note) for name, note in stored.notes.items()}),
    }
    names, sets = ", ".join(values), ", ".join(f"{name} = excluded.{name}" for name in values)
    connection.execute(
        f"INSERT INTO {SCHEMA}.tables (schema_name, table_name, {names}) VALUES "
        f"({literal(schema)}, {literal(table)}, {', '.join(values.values())}) "
        f"ON CONFLICT (schema_name, table_name) DO UPDATE SET {sets}"
    )


def set_properties(
    connection: Connection, schema: str, table: str, properties: dict[str, str]
) -> None:
    """Set properties of a table."""
    where = f"schema_name = {literal(schema)} AND table_name = {literal(table)}"
    sets = f"properties = properties || {_json(properties)}"
    connection.execute(f"UPDATE {SCHEMA}.tables SET {sets} WHERE {where}")


def create_trigger(connection: Connection, name: str) -> None:
    """Let a table note what others do to its rows."""
    connection.execute(
        f"CREATE TRIGGER {_TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {name} "
        f"FOR EACH STATEMENT WHEN (current_setting('{_MERGING}', true) IS DISTINCT FROM 'on') "
        f"EXECUTE FUNCTION {SCHEMA}.note_foreign_write()"
    )


def read_actions(connection: Connection, oid: int) -> tuple[int, int, int] | None:
    """Return how many rows of a table the transaction has inserted, updated and deleted so far.

    None where the server does not count (`track_counts`).
    """
    counts = connection.read_json(
        "SELECT json_build_array(n_tup_ins, n_tup_upd, n_tup_del) FROM pg_stat_xact_user_tables "
        f"WHERE relid = {oid} AND current_setting('track_counts')::boolean"
    )
    return None if counts is None else tuple(counts)


@dataclass(frozen=True)
class KeyConstraint:
    """A primary key, or a unique constraint.

    Attributes:
        holds_null_once: Whether NULL equals NULL.
    """

    name: str
    is_primary: bool
    holds_null_once: bool
    columns: list[str]


def read_keys(connection: Connection, oid: int) -> list[KeyConstraint]:
    """Return the primary key and the unique constraints of a table."""
    found = connection.read_json(
        f"""SELECT coalesce(json_agg(json_build_object(
            'name', conname,
            'is_primary', contype = 'p',
            'holds_null_once', indnullsnotdistinct,
            'columns', (
                SELECT json_agg(attname) FROM pg_attribute
                WHERE attrelid = conrelid AND attnum = ANY (conkey)))), '[]')
        FROM pg_constraint JOIN pg_index ON indexrelid = conindid
        WHERE conrelid = {oid} AND contype IN ('p', 'u')"""
    )
    return [KeyConstraint(**constraint) for constraint in found]


def _text(value: str | None) -> str:
    return "NULL" if value is None else literal(value)


def _json(value: Any) -> str:
    return f"{literal(json.dumps(value, ensure_ascii=False))}::jsonb"
