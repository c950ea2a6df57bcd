"""Small histories of MySQL tables: what the tables hold, and what capture would have staged of it.

    source = Source(store, "shop")
    orders = source.create("shop", "orders", {"id": INT, "note": TEXT}, key=("id",))
    orders.insert(id=1, note="first")
    source.commit()

A table's `rows` are what `SELECT` would return. What a row image holds is up to `source.row_image`,
which may change at any time. A `Table` is what a script of statements means by its name; each time
that it is created it is another `TableIdentity`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import BeforeImages, ChangeType
from airflow_provider_binlog.manifest import Manifest, Part, Statement
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import (
    Action,
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    Field,
    QuarantineTable,
    RenameField,
    RenameTable,
    RewriteRows,
    Schema,
    SetKey,
    TruncateTable,
    UnknownDefault,
    new_table_id,
)
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.part_writer import write_part
from airflow_provider_binlog.staging.paths import part_key, part_path
from tests.unit.spark.staged_changes import (
    COMMITTED,
    LOG,
    Change,
    ColumnType,
    Row,
    TableIdentity,
    make_part,
    note_types,
    table_changes,
    to_arrow,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.staging.object_store import ObjectStore

IDENTITY = SourceIdentity(Flavor.MYSQL, "fabf987e-e54b-11f1-bec6-02fc00000001", "binlog")
_BYTES_PER_EVENT = 100


class RowImage(Enum):
    """What `binlog_row_image` can be."""

    FULL = "FULL"
    MINIMAL = "MINIMAL"
    NOBLOB = "NOBLOB"


@dataclass(frozen=True)
class Event:
    """What happened to a table: a change of a row, or a statement.

    Attributes:
        kind: `insert`, `update`, `delete`, `truncate`, `drop`, `create`, `rename`, `alter`, or
            `rewrite` for what changes rows without an event.
        key: Of the row before, or of the one that is inserted; of an ALTER the key's columns.
        after: Of the row after an update.
        row: The row by column name, after the change.
        origins: Of an ALTER, what each column was called before; None for a new one.
        values: Of an ALTER, what older rows hold in new columns; of a rewrite the rows by key.
        unknown: Of an ALTER, new columns whose values in older rows the log does not say.
        names: Of a RENAME, the tables, their old and their new names.
    """

    kind: str
    table: TableId
    name: tuple[str, str]
    commit_ts: int
    gtid: str | None
    position: int
    key: Any = None
    after: Any = None
    row: dict[str, Any] | None = None
    origins: dict[str, str | None] | None = None
    values: dict[Any, Any] | None = None
    unknown: frozenset[str] = frozenset()
    names: tuple[tuple[TableId, tuple[str, str], tuple[str, str]], ...] = ()


@dataclass
class Table:
    """A table of the source; `rows` are its rows by key, or by number if it has none."""

    source: Source
    name: tuple[str, str]
    types: dict[str, ColumnType]
    key: tuple[str, ...]
    rows: dict[Any, Row] = field(default_factory=dict)
    _inserted: int = 0
    identity: TableIdentity = field(init=False)

    @property
    def schema(self) -> Schema:
        """The schema, as far as rows have shown the types."""
        note_types(self.types.values())
        ids, typed = self.identity.ids, self.identity.typed
        fields = tuple(
            Field(
                ids[name],
                name,
                each.mysql,
                str(each.arrow) if ids[name] in typed else None,
                each.nullable,
                initial_default=self.identity.initial.get(ids[name]),
                write_default=each.default,
            )
            for name, each in self.types.items()
        )
        return Schema(self.identity.schema_id, fields, tuple(ids[name] for name in self.key))

    @property
    def values(self) -> list[dict[str, Any]]:
        """The rows as `SELECT` would return them, by column name."""
        return [dict(zip(self.types, row, strict=True)) for row in self.rows.values()]

    def load(self, **values: Any) -> None:
        """Insert a row that is not logged."""
        row = self._row(values)
        self.rows[self._identify(row)] = row

    def insert(self, **values: Any) -> None:
        defaults = {name: each.initial for name, each in self.types.items()}
        row = self._row(defaults | values)
        key = self._identify(row)
        if key in self.rows:
            raise KeyError(key)
        self.rows[key] = row
        self._log(ChangeType.INSERT, row, values)
        self._note("insert", key=key, row=self._named(row))

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
        self._note("update", key=key, after=after, row=self._named(row))

    def delete(self, key: Any) -> None:
        self._log(ChangeType.DELETE, self.rows.pop(key))
        self._note("delete", key=key)

    def _named(self, row: Row) -> dict[str, Any]:
        return dict(zip(self.types, row, strict=True))

    def _note(self, kind: str, **what: Any) -> None:
        self.source.note_event(kind, self, **what)

    def swap(self, one: Any, other: Any, away: Any) -> None:
        """Exchange two single-column keys by way of a third value."""
        (name,) = self.key
        self.update(one, **{name: away})
        self.update(other, **{name: one})
        self.update(away, **{name: other})

    def truncate(self) -> None:
        self.rows.clear()
        text = f"TRUNCATE TABLE {self.name[1]}"
        self.source.run("TRUNCATE TABLE", text, self, TruncateTable(self.identity.id))
        self._note("truncate")

    def drop(self, kind: str = "DROP TABLE") -> None:
        self.rows.clear()
        action = DropTable(self.identity.id, self.name)
        self.source.run(kind, f"{kind} {self.name[1]}", self, action)
        self.identity.dropped = True
        self._note("drop")

    def create_again(self) -> None:
        """CREATE TABLE IF NOT EXISTS."""
        if self.identity.dropped:
            self.source.identify(self)
            action = CreateTable(self.identity.id, self.name)
            self.source.run("CREATE TABLE", f"CREATE TABLE {self.name[1]} (...)", self, action)
            self._note("create", row=dict.fromkeys(self.types))

    def quarantine(self, reason: str) -> None:
        """Leave out what is changed in the manifest."""
        self.identity.created = None
        self.source.quarantine(self, reason)

    def rewrite(self, reason: str, column: str | None = None) -> None:
        """Run a statement that may change rows."""
        id_ = None if column is None else self.identity.ids[column]
        action = RewriteRows(self.identity.id, reason, id_)
        if column is None:
            self.identity.created = None
        self.source.run("ALTER TABLE", f"ALTER TABLE {self.name[1]} ...", self, action)
        self._note("rewrite", values={key: self._named(row) for key, row in self.rows.items()})

    def alter(
        self,
        text: str,
        types: dict[str, ColumnType],
        *,
        renamed: dict[str, str] | None = None,
        again: Collection[str] = (),
        unknown: Collection[str] = (),
        key: tuple[str, ...] | None = None,
        **values: Any,
    ) -> None:
        """Change the columns.

        Args:
            text: The statement after the table's name.
            types: The columns afterwards.
            renamed: The old names of columns by their new ones.
            again: Columns that are dropped and added again.
            unknown: New columns whose values in old rows the log does not say.
            key: The key afterwards.
            values: What old rows hold in the new columns; NULL in the others.
        """
        origins = {
            name: (renamed or {}).get(name, name if name in self.types else None) for name in types
        }
        origins |= dict.fromkeys(again)
        old = list(self.types)
        for at, row in self.rows.items():
            self.rows[at] = tuple(
                values.get(name) if origin is None else row[old.index(origin)]
                for name, origin in origins.items()
            )
        actions = self._alter_identity(origins, types, unknown, values)
        self.types = types
        now = {origin: name for name, origin in origins.items()}
        self.key = tuple(now[name] for name in self.key)
        if key is not None:
            self.key = key
            self.rows = {self._identify(row): row for row in self.rows.values()}
            ids = tuple(self.identity.ids[name] for name in key)
            actions.append(SetKey(self.identity.id, ids))
        self.identity.name_fields(actions)
        self.identity.schema_id += bool(actions)
        self.source.run("ALTER TABLE", f"ALTER TABLE {self.name[1]} {text}", self, *actions)
        self._note(
            "alter", origins=origins, values=values, key=self.key, unknown=frozenset(unknown)
        )

    def _alter_identity(
        self,
        origins: dict[str, str | None],
        types: dict[str, ColumnType],
        unknown: Collection[str],
        values: dict[str, Any],
    ) -> list[Action]:
        identity, table, before = self.identity, self.identity.id, self.identity.ids
        actions: list[Action] = [
            DropField(table, id_, name)
            for name, id_ in before.items()
            if name not in origins.values()
        ]
        ids: dict[str, int] = {}
        for name, origin in origins.items():
            if origin is None:
                ids[name] = identity.new_id()
                initial = values.get(name)
                identity.initial[ids[name]] = (
                    UnknownDefault("a test does not say it")
                    if name in unknown
                    else Default(None if initial is None else str(initial))
                )
                actions.append(AddField(table, ids[name], name))
                continue
            ids[name] = before[origin]
            if name != origin:
                actions.append(RenameField(table, ids[name], origin, name))
            if types[name] != self.types[origin]:
                mysql = self.types[origin].mysql, types[name].mysql
                actions.append(AlterField(table, ids[name], name, *mysql))
                if mysql[0] != mysql[1]:
                    identity.typed.discard(ids[name])
        identity.ids = ids
        return actions

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
        kind, identity = self.source.row_image, self.identity
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
        point = position = self.source.next_point()
        if not identity.captured:
            return
        changes = identity.changes
        if changes and changes[-1].type is ChangeType.UPDATE_PREIMAGE:
            # Both images of an update are in one event.
            position = changes[-1].position
        identity.typed.update(identity.ids.values())
        ids = tuple(identity.ids[name] for name in held)
        self.source.note_position(position)
        changes.append(
            Change(
                type_,
                point,
                shown,
                self.schema,
                ids,
                position,
                identity.segment,
                self.source.commit_ts,
                self.source.gtid,
            )
        )


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
        self._identities: list[TableIdentity] = []
        # Of the transaction that is open.
        self.commit_ts: int = COMMITTED
        self.gtid: str | None = None
        self.events: list[Event] = []
        self._position = 0
        self._statements: list[Statement] = []
        self._quarantines: dict[TableId, Statement] = {}
        self._start = self._point = 4

    def create(
        self,
        database: str,
        table: str,
        types: dict[str, ColumnType],
        key: tuple[str, ...] = (),
        *,
        logged: bool = True,
    ) -> Table:
        """CREATE TABLE; without an event of it if the table is older than the log."""
        made = Table(self, (database, table), types, key)
        self.identify(made, logged=logged)
        if logged:
            action = CreateTable(made.identity.id, made.name)
            self.run("CREATE TABLE", f"CREATE TABLE {table} (...)", made, action)
        self.note_event("create", made, row=dict.fromkeys(types))
        return made

    def identify(self, table: Table, *, logged: bool = True) -> None:
        """Give a table a new id."""
        ids = {name: number for number, name in enumerate(table.types, 1)}
        id_ = new_table_id(IDENTITY.server, LOG, self.next_point(), table.name)
        created = self.sequence + 1 if logged else None
        table.identity = TableIdentity(
            id_, table.name, created, self._captures(table.name), ids, len(ids)
        )
        table.identity.named = None if logged else {}
        self._identities.append(table.identity)

    def run(self, kind: str, text: str, table: Table, *actions: Action) -> None:
        """Log a statement that acts on a table."""
        self.run_actions(kind, text, [(table, each) for each in actions])

    def run_actions(self, kind: str, text: str, actions: list[tuple[Table, Action]]) -> None:
        """Log a statement that acts on tables."""
        point = self._position = self.next_point()
        done = []
        for table, action in actions:
            identity = table.identity
            identity.touched, identity.segment = True, identity.segment + 1
            identity.current = table.schema
            if identity.captured:
                done.append(action)
        if done:
            self._statements.append(
                Statement(LOG, point, point, kind, text, tuple(done), self.commit_ts)
            )

    def quarantine(self, table: Table, reason: str) -> None:
        """Quarantine a table in the next manifest."""
        identity, point = table.identity, self.next_point()
        identity.touched, identity.current = True, table.schema
        action = QuarantineTable(identity.id, reason)
        self._quarantines[identity.id] = Statement(LOG, point, point, "", "", (action,))

    def rename(self, *pairs: tuple[Table, str]) -> None:
        """RENAME TABLE: each table to its new name, in the same database."""
        words, actions, names = [], list[tuple[Table, Action]](), []
        for table, name in pairs:
            old, table.name = table.name, (table.name[0], name)
            words.append(f"{old[1]} TO {name}")
            captured = self._captures(table.name)
            if captured and not table.identity.captured:
                # What it did under its old name is not known.
                self.identify(table, logged=False)
            action = RenameTable(table.identity.id, old, table.name)
            table.identity.name = table.name
            actions.append((table, action))
            names.append((table.identity.id, old, table.name))
        self.run_actions("RENAME TABLE", f"RENAME TABLE {', '.join(words)}", actions)
        for table, _ in pairs:
            table.identity.captured = self._captures(table.name)
        self.note_event("rename", pairs[0][0], names=tuple(names))

    def note_event(self, kind: str, table: Table, **what: Any) -> None:
        """Note what just happened to a table."""
        self.events.append(
            Event(
                kind,
                table.identity.id,
                table.name,
                self.commit_ts,
                self.gtid,
                self._position,
                **what,
            )
        )

    def _captures(self, name: tuple[str, str]) -> bool:
        return not any(fnmatchcase(".".join(name), glob) for glob in self.exclude)

    def note_position(self, position: int) -> None:
        """Note where the event starts whose rows are logged."""
        self._position = position

    def position(self) -> Position:
        """Return the position after all that has happened."""
        return Position(LOG, self.next_point())

    def next_point(self) -> int:
        self._point += _BYTES_PER_EVENT
        return self._point

    def make_manifest(self) -> Manifest:
        """Stage what happened since the last one; return the manifest that names it."""
        self.sequence += 1
        ordinal = 0
        tables = []
        for identity in self._identities:
            changes, identity.changes = identity.changes, []
            if not changes and not identity.touched:
                continue
            if identity.id in self._quarantines:
                changes = []
            images = tuple(dict.fromkeys(change.held for change in changes))
            parts = []
            for segment in dict.fromkeys(change.segment for change in changes):
                alike = [change for change in changes if change.segment == segment]
                for first in range(0, len(alike), identity.part_rows):
                    rows = alike[first : first + identity.part_rows]
                    parts.append(self._write(identity.name, rows, images, ordinal))
                    ordinal += 1
            tables.append(table_changes(identity, changes, images, tuple(parts)))
            identity.touched = False
        stop = self.next_point()
        manifest = Manifest(
            sequence=self.sequence,
            identity=self.identity,
            start=Position(LOG, self._start),
            stop=Position(LOG, stop),
            before_images=self.before_images,
            include=("*.*",),
            exclude=self.exclude,
            tables=tuple(sorted(tables, key=lambda each: (each.database, each.table))),
            statements=(*self._statements, *self._quarantines.values()),
            events={},
            skipped_events={},
            created_at="2026-11-21T00:00:00Z",
            created_by="test",
        )
        self._start, self._statements = stop, []
        self._quarantines = {}
        return manifest

    def commit(self) -> Manifest:
        """Stage what happened since the last manifest, and make it visible."""
        manifest = self.make_manifest()
        self.log.commit(manifest)
        return manifest

    def _write(
        self,
        name: tuple[str, str],
        changes: list[Change],
        images: tuple[tuple[int, ...], ...],
        ordinal: int,
    ) -> Part:
        path = part_path(*name, self.sequence, ordinal, "9f86d081884c")
        schema = changes[0].schema
        arrow = to_arrow(schema, changes, images)
        written = write_part(self.store, part_key(self.name, path), arrow, schema)
        return make_part(path, changes, bytes_=written.bytes, sha256=written.sha256)
