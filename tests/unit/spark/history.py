"""Small histories of MySQL tables: what the tables hold, and what capture would have staged of it.

    source = Source(store, "shop")
    orders = source.create("shop", "orders", {"id": INT, "note": TEXT}, key=("id",))
    orders.insert(id=1, note="first")
    source.seal()

A table's `rows` are what `SELECT` would return. What a row image holds is up to `source.row_image`,
which may change at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
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
    BeforeImages,
    ChangeType,
)
from airflow_provider_binlog.manifest import (
    Column,
    ColumnDefault,
    Manifest,
    Part,
    Schema,
    Statement,
    TableChanges,
)
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.part_writer import write_part
from airflow_provider_binlog.staging.paths import part_key, part_path

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_binlog.staging.object_store import ObjectStore

IDENTITY = SourceIdentity(Flavor.MYSQL, "fabf987e-e54b-11f1-bec6-02fc00000001", "binlog")
LOG = "binlog.000001"
_COMMIT_TS = 1_763_683_200_000_000
_BYTES_PER_EVENT = 100

_CHANGE_SCHEMA: list[Any] = [
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_TS, pa.timestamp("us", "UTC")),
    pa.field(GTID, pa.string()),
    pa.field(FILE, pa.string()),
    pa.field(POSITION, pa.int64()),
    pa.field(ROW, pa.int64()),
    pa.field(IMAGE, pa.int32()),
]


_NULL = ColumnDefault(None)


class RowImage(Enum):
    """What `binlog_row_image` can be."""

    FULL = "FULL"
    MINIMAL = "MINIMAL"
    NOBLOB = "NOBLOB"


@dataclass(frozen=True)
class ColumnType:
    """A column's type at the source and as staged.

    Attributes:
        default: Its default as manifests tell it.
        initial: The value that it stands for.
    """

    mysql: str
    arrow: pa.DataType
    nullable: bool = True
    default: ColumnDefault | None = _NULL
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
    place: int
    image: Row
    schema: Schema
    held: tuple[str, ...]
    position: int


@dataclass
class Table:
    """A table of the source; `rows` are its rows by key, or by number if it has none."""

    source: Source
    name: tuple[str, str]
    types: dict[str, ColumnType]
    key: tuple[str, ...]
    rows: dict[Any, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    part_rows: int = 1000
    _inserted: int = 0

    @property
    def schema(self) -> Schema:
        _TYPES.update({str(each.arrow): each.arrow for each in self.types.values()})
        columns = tuple(
            Column(name, each.mysql, str(each.arrow), each.nullable, default=each.default)
            for name, each in self.types.items()
        )
        return Schema(columns, self.key)

    @property
    def values(self) -> list[dict[str, Any]]:
        """The rows as `SELECT` would return them, by column name."""
        return [dict(zip(self.types, row, strict=True)) for row in self.rows.values()]

    def insert(self, **values: Any) -> None:
        defaults = {name: each.initial for name, each in self.types.items()}
        row = self._row(defaults | values)
        key = self._identify(row)
        if key in self.rows:
            raise KeyError(key)
        self.rows[key] = row
        self._log(ChangeType.INSERT, row, values)

    def update(self, key: Any, **values: Any) -> None:
        before = self.rows.pop(key)
        row = self._row(dict(zip(self.types, before, strict=True)) | values)
        after = self._identify(row) if self.key else key
        if after in self.rows:
            raise KeyError(after)
        self.rows[after] = row
        whole = not self.key or self.source.before_images is BeforeImages.ALL
        if whole or after != key:
            self._log(ChangeType.UPDATE_PREIMAGE, before)
        changed = {
            name for name, old, new in zip(self.types, before, row, strict=True) if old != new
        }
        self._log(ChangeType.UPDATE_POSTIMAGE, row, changed)

    def delete(self, key: Any) -> None:
        self._log(ChangeType.DELETE, self.rows.pop(key))

    def swap(self, one: Any, other: Any, away: Any) -> None:
        """Exchange two single-column keys by way of a third value."""
        (name,) = self.key
        self.update(one, **{name: away})
        self.update(other, **{name: one})
        self.update(away, **{name: other})

    def truncate(self) -> None:
        self.rows.clear()
        self.source.run("TRUNCATE TABLE", f"TRUNCATE TABLE {self.name[1]}", self.name)

    def drop(self) -> None:
        self.rows.clear()
        self.source.run("DROP TABLE", f"DROP TABLE {self.name[1]}", self.name)

    def create_again(self) -> None:
        text = f"CREATE TABLE IF NOT EXISTS {self.name[1]} (...)"
        self.source.run("CREATE TABLE", text, self.name)

    def alter(self, text: str, types: dict[str, ColumnType], **values: Any) -> None:
        """Change the columns: old rows keep what they hold by name, `values` fill the new ones."""
        old = self.types
        self.types = types
        for key, row in self.rows.items():
            known = dict(zip(old, row, strict=True))
            self.rows[key] = self._row({name: known.get(name, values.get(name)) for name in types})
        self.source.run("ALTER TABLE", f"ALTER TABLE {self.name[1]} {text}", self.name)

    def _row(self, values: dict[str, Any]) -> Row:
        return tuple(values.get(name) for name in self.types)

    def _identify(self, row: Row) -> Any:
        names = list(self.types)
        if not self.key:
            self._inserted += 1
            return self._inserted
        key = tuple(row[names.index(name)] for name in self.key)
        return key[0] if len(key) == 1 else key

    def _log(self, type_: ChangeType, image: Row, given: Collection[str] = ()) -> None:
        """Log an image that cannot do without the values that are `given`."""
        kind = self.source.row_image
        identifies = () if type_ is ChangeType.INSERT else self.key or self.types
        held = tuple(
            name
            for name, column in self.types.items()
            if kind is RowImage.FULL
            or name in given
            or name in identifies
            or (kind is RowImage.NOBLOB and not column.is_blob)
        )
        values = zip(self.types, image, strict=True)
        shown = tuple(value if name in held else None for name, value in values)
        place = position = self.source.next_place()
        if self.changes and self.changes[-1].type is ChangeType.UPDATE_PREIMAGE:
            # Both images of an update are in one event.
            position = self.changes[-1].position
        self.changes.append(Change(type_, place, shown, self.schema, held, position))


class Source:
    """A server whose log is staged into `store` under `name`."""

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        *,
        before_images: BeforeImages = BeforeImages.KEY_CHANGES,
    ) -> None:
        self.store, self.name, self.before_images = store, name, before_images
        self.log = ManifestLog(store, name)
        self.identity = IDENTITY
        self.row_image = RowImage.FULL
        self.sequence = 0
        self.exclude: tuple[str, ...] = ()
        self._tables: list[Table] = []
        self._logged: dict[tuple[str, str], list[Change]] = {}
        self._statements: list[Statement] = []
        self._start = self._place = 4

    def create(
        self, database: str, table: str, types: dict[str, ColumnType], key: tuple[str, ...] = ()
    ) -> Table:
        made = Table(self, (database, table), types, key)
        self._tables.append(made)
        self.run("CREATE TABLE", f"CREATE TABLE {table} (...)", made.name)
        return made

    def run(self, kind: str, text: str, *tables: tuple[str, str]) -> None:
        place = self.next_place()
        self._statements.append(Statement(LOG, place, place, kind, tables, text))

    def rename(self, *pairs: tuple[Table, str]) -> None:
        """RENAME TABLE: each table to its new name, in the same database."""
        names = []
        for table, name in pairs:
            self._take(table)
            old, table.name = table.name, (table.name[0], name)
            names += [old, table.name]
        words = ", ".join(
            f"{old[1]} TO {new[1]}" for old, new in zip(*[iter(names)] * 2, strict=True)
        )
        self.run("RENAME TABLE", f"RENAME TABLE {words}", *names)

    def next_place(self) -> int:
        self._place += _BYTES_PER_EVENT
        return self._place

    def make_manifest(self) -> Manifest:
        """Stage what happened since the last one; return the manifest that names it."""
        self.sequence += 1
        ordinal = 0
        tables = []
        for table in self._tables:
            self._take(table)
        logged, self._logged = self._logged, {}
        part_rows = {table.name: table.part_rows for table in self._tables}
        for name in sorted(logged):
            changes = sorted(logged[name], key=lambda change: change.place)
            schemas = list(dict.fromkeys(change.schema for change in changes))
            images = tuple(dict.fromkeys(change.held for change in changes))
            parts = []
            for schema in schemas:
                alike = [change for change in changes if change.schema == schema]
                size = part_rows.get(name, 1000)
                for first in range(0, len(alike), size):
                    rows = alike[first : first + size]
                    shape = schemas.index(schema)
                    parts.append(self._write(name, shape, rows, images, ordinal))
                    ordinal += 1
            if parts:
                tables.append(TableChanges(*name, tuple(schemas), images, tuple(parts)))
        stop = self.next_place()
        manifest = Manifest(
            sequence=self.sequence,
            identity=self.identity,
            start=Position(LOG, self._start),
            stop=Position(LOG, stop),
            before_images=self.before_images,
            include=("*.*",),
            exclude=self.exclude,
            tables=tuple(tables),
            statements=tuple(self._statements),
            events={},
            skipped_events={},
            created_at="2026-11-21T00:00:00Z",
            created_by="test",
        )
        self._start, self._statements = stop, []
        return manifest

    def _take(self, table: Table) -> None:
        """Keep what is logged under the table's name."""
        self._logged.setdefault(table.name, []).extend(table.changes)
        table.changes = []

    def seal(self) -> Manifest:
        """Stage what happened since the last manifest, and make it visible."""
        manifest = self.make_manifest()
        self.log.commit(manifest)
        return manifest

    def _write(
        self,
        name: tuple[str, str],
        schema: int,
        changes: list[Change],
        images: tuple[tuple[str, ...], ...],
        ordinal: int,
    ) -> Part:
        path = part_path(*name, self.sequence, ordinal, "9f86d081884c")
        shape = changes[0].schema
        arrow = _to_arrow(shape, changes, images)
        written = write_part(self.store, part_key(self.name, path), arrow, shape)
        counts: dict[str, int] = {}
        for change in changes:
            counts[change.type.value] = counts.get(change.type.value, 0) + 1
        return Part(
            path=path,
            schema=schema,
            rows=len(changes),
            bytes=written.bytes,
            sha256=written.sha256,
            first_row=changes[0].place,
            last_row=changes[-1].place,
            first_commit=_COMMIT_TS,
            last_commit=_COMMIT_TS,
            changes=counts,
        )


_TYPES: dict[str, pa.DataType] = {}


def _to_arrow(
    schema: Schema, changes: list[Change], images: tuple[tuple[str, ...], ...]
) -> pa.Table:
    fields = [pa.field(column.name, _TYPES[column.arrow_type]) for column in schema.columns]
    columns: list[Any] = [
        pa.array([change.image[index] for change in changes], each.type)
        for index, each in enumerate(fields)
    ]
    own: list[list[Any]] = [
        [change.type.value for change in changes],
        [_COMMIT_TS] * len(changes),
        [None] * len(changes),
        [LOG] * len(changes),
        [change.position for change in changes],
        [change.place for change in changes],
        [images.index(change.held) for change in changes],
    ]
    columns += [pa.array(each, its.type) for each, its in zip(own, _CHANGE_SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema([*fields, *_CHANGE_SCHEMA]))
