"""What capture would have staged of changes: their columns, rows and parts, by table id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_binlog.changes import (
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
    ChangeType,
)
from airflow_provider_binlog.manifest import Part, TableChanges
from airflow_provider_binlog.schema import (
    NULL,
    Action,
    AddField,
    AlterField,
    Default,
    DropField,
    Field,
    RenameField,
    Schema,
    SetKey,
    UnknownDefault,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG = "binlog.000001"
COMMITTED = 1_763_683_200_000_000
"""When transactions of the tests are committed that say nothing else."""

_CHANGE_SCHEMA: list[Any] = [
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_TS, pa.timestamp("us", "UTC")),
    pa.field(GTID, pa.string()),
    pa.field(FILE, pa.string()),
    pa.field(POSITION, pa.int64()),
    pa.field(ROW, pa.int64()),
    pa.field(IMAGE, pa.int32()),
]


@dataclass(frozen=True)
class ColumnType:
    """A column's type at the source and as staged.

    Attributes:
        default: Its default as manifests have it; None if it is not known.
        initial: The value that it stands for.
    """

    mysql: str
    arrow: pa.DataType
    nullable: bool = True
    default: Default | None = NULL
    initial: Any = None

    @property
    def is_blob(self) -> bool:
        return self.mysql in {"text", "blob"}


INT = ColumnType("int", pa.int32(), nullable=False, default=None)
BIGINT = ColumnType("bigint", pa.int64())
TEXT = ColumnType("varchar(40)", pa.string())
LONG_TEXT = ColumnType("text", pa.string())

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """One staged change row."""

    type: ChangeType
    point: int
    image: Row
    schema: Schema
    held: tuple[int, ...]
    position: int
    segment: int
    commit_ts: int = COMMITTED
    gtid: str | None = None


@dataclass
class TableIdentity:
    """One table id.

    Attributes:
        name: Its name, or the last one that it had.
        created: Number of the manifest with its CreateTable; None if the log does not have it.
        captured: Whether its name is captured.
        ids: Its field ids by name.
        initial: What rows from before hold in the fields that were added.
        typed: The fields whose type a row has shown.
        segment: How many actions there were on it.
        changes: Its rows that are not staged yet.
        touched: Whether actions concern it that are not staged yet.
        logged: Id of the last schema in which rows were staged.
        named: The fields that statements have named, each with whether they say its type; None if
            the log has all of them.
        rekeyed: Whether a statement says the key.
    """

    id: str
    name: tuple[str, str]
    created: int | None
    captured: bool
    ids: dict[str, int]
    last_field_id: int
    dropped: bool = False
    initial: dict[int, Default | UnknownDefault] = field(default_factory=dict)
    typed: set[int] = field(default_factory=set)
    schema_id: int = 1
    segment: int = 0
    changes: list[Change] = field(default_factory=list)
    touched: bool = False
    logged: int | None = None
    part_rows: int = 1000
    current: Schema | None = None
    named: dict[int, bool] | None = None
    rekeyed: bool = False

    def new_id(self) -> int:
        self.last_field_id += 1
        return self.last_field_id

    def name_fields(self, actions: Iterable[Action]) -> None:
        """Note the columns that a statement names."""
        named = {} if self.named is None else self.named
        for each in actions:
            if isinstance(each, AddField | AlterField):
                named[each.field] = True
            elif isinstance(each, DropField | RenameField):
                named.setdefault(each.field, False)
            elif isinstance(each, SetKey):
                self.rekeyed = True
                named.update({id_: named.get(id_, False) for id_ in each.key})

    def as_logged(self, schema: Schema | None) -> Schema | None:
        """Return what the log says of a schema."""
        if schema is None or self.named is None or self.logged is not None:
            return schema
        if not self.named:
            return None
        fields = tuple(
            each if self.named[each.id] else Field(each.id, each.name, None, None, nullable=True)
            for each in schema.fields
            if each.id in self.named
        )
        return Schema(schema.id, fields, schema.key if self.rekeyed else ())


def make_part(path: str, changes: list[Change], *, bytes_: int, sha256: str) -> Part:
    """Return what the manifest says of a part."""
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.type.value] = counts.get(change.type.value, 0) + 1
    return Part(
        path=path,
        schema=changes[0].schema.id,
        rows=len(changes),
        bytes=bytes_,
        sha256=sha256,
        first_row=changes[0].point,
        last_row=changes[-1].point,
        first_commit=min(change.commit_ts for change in changes),
        last_commit=max(change.commit_ts for change in changes),
        changes=counts,
    )


def table_changes(
    identity: TableIdentity,
    changes: list[Change],
    images: tuple[tuple[int, ...], ...],
    parts: tuple[Part, ...],
) -> TableChanges:
    schemas = {change.schema.id: change.schema for change in changes}
    # A row has shown its types.
    identity.current = schemas.get(identity.schema_id, identity.current)
    if changes:
        identity.logged = changes[-1].schema.id
    current = identity.as_logged(identity.current)
    if current is not None:
        schemas[current.id] = current
    return TableChanges(
        id=identity.id,
        database=identity.name[0],
        table=identity.name[1],
        dropped=identity.dropped,
        created=identity.created,
        schemas=tuple(schemas[each] for each in sorted(schemas)),
        current=None if current is None else current.id,
        last_field_id=identity.last_field_id,
        logged=identity.logged,
        images=images,
        parts=parts,
    )


_TYPES: dict[str, pa.DataType] = {}


def note_types(types: Iterable[ColumnType]) -> None:
    """Let `to_arrow` find the Arrow types of columns by their names."""
    _TYPES.update({str(each.arrow): each.arrow for each in types})


def to_arrow(
    schema: Schema, changes: list[Change], images: tuple[tuple[int, ...], ...]
) -> pa.Table:
    fields = [pa.field(each.name, _TYPES[str(each.arrow_type)]) for each in schema.fields]
    columns: list[Any] = [
        pa.array([change.image[index] for change in changes], each.type)
        for index, each in enumerate(fields)
    ]
    own: list[list[Any]] = [
        [change.type.value for change in changes],
        [change.commit_ts for change in changes],
        [change.gtid for change in changes],
        [LOG] * len(changes),
        [change.position for change in changes],
        [change.point for change in changes],
        [images.index(change.held) for change in changes],
    ]
    columns += [pa.array(each, its.type) for each, its in zip(own, _CHANGE_SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema([*fields, *_CHANGE_SCHEMA]))
