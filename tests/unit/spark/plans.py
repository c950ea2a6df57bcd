"""Manifests to plan with: parts are points only, no file is written.

manifest(4, table(rows=[(10, 20)]), statements=[statement(30, TruncateTable(ORDERS))])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.manifest import Manifest, Part, Statement, TableChanges
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import NULL, Default, Field, Schema, UnknownDefault
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.schema import Action, TableId, TableName

NAME: TableName = ("shop", "orders")
ORDERS: TableId = "00000000000000aa"


def column(
    id_: int,
    name: str,
    type_: str | None = "int32",
    *,
    nullable: bool = True,
    initial: Default | UnknownDefault | None = NULL,
) -> Field:
    mysql = {"int32": "int", "int64": "bigint", "string": "varchar(9)", None: None}[type_]
    return Field(id_, name, mysql, type_, nullable, initial_default=initial)


def schema(*columns: str | Field, key: tuple[str, ...] = ("id",), id_: int = 1) -> Schema:
    """Return a schema; a column that is only named has its place as its field id."""
    fields = [
        each if isinstance(each, Field) else column(n, each, nullable=each not in key)
        for n, each in enumerate(columns, 1)
    ]
    ids = {each.name: each.id for each in fields}
    return Schema(id_, tuple(fields), tuple(ids[name] for name in key))


def table(
    rows: Sequence[tuple[int, int]] = (),
    *schemas: Schema,
    id_: TableId = ORDERS,
    name: TableName = NAME,
    created: int | None = None,
    dropped: bool = False,
    images: tuple[tuple[int, ...], ...] | None = None,
) -> TableChanges:
    """Return a table with a part for each (first row, last row); the last has the last schema."""
    known = schemas or (schema("id", "n"),)
    ids = [known[0].id] * (len(rows) - 1) + [known[-1].id]
    whole = tuple(tuple(field.id for field in each.fields) for each in known)
    return TableChanges(
        id=id_,
        database=name[0],
        table=name[1],
        dropped=dropped,
        created=created,
        schemas=known,
        current=known[-1].id,
        last_field_id=9,
        logged=known[-1].id,
        images=whole if images is None else images,
        parts=tuple(
            Part(f"{first}", its, 2, 100, "", first, last, 0, 0, {"insert": 2})
            for (first, last), its in zip(rows, ids, strict=False)
        ),
    )


def statement(row: int, *actions: Action, text: str = "ALTER TABLE orders ...") -> Statement:
    return Statement(LOG, row, row, "ALTER TABLE", text, actions)


def manifest(
    sequence: int,
    *tables: TableChanges,
    statements: Sequence[Statement] = (),
    before_images: BeforeImages = BeforeImages.KEY_CHANGES,
    exclude: tuple[str, ...] = (),
) -> Manifest:
    return Manifest(
        sequence=sequence,
        identity=IDENTITY,
        start=Position(LOG, 1000 * sequence),
        stop=Position(LOG, 1000 * (sequence + 1)),
        before_images=before_images,
        include=("*.*",),
        exclude=exclude,
        tables=tables,
        statements=tuple(statements),
        events={},
        skipped_events={},
        created_at="",
        created_by="",
    )
