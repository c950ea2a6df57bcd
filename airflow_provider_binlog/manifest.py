"""The manifest: what one staged range holds, and the only thing that makes its parts visible.

It is written once, after all of its parts, and never rewritten. It is JSON, described for readers
in other languages in `docs/staged-format.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_binlog.changes import BeforeImages, InvalidText, ZeroDates
from airflow_provider_binlog.errors import FormatError, ManifestError
from airflow_provider_binlog.position import Position, SourceIdentity, is_contiguous
from airflow_provider_binlog.schema import (
    Action,
    QuarantineTable,
    Schema,
    TableId,
    TableName,
    TableState,
)
from airflow_provider_binlog.stored_json import LEFT_OUT, StoredFormat, stored_as
from airflow_provider_binlog.table_options import ColumnOptions

FORMAT = StoredFormat("airflow-provider-binlog/manifest", 2, "a manifest")

REPAIR = (
    "put it back as it was written; if nobody has it, capture under another source name, load its "
    "tables from snapshots, and merge them with adopt=True"
)
"""Repair of a manifest that is missing, or is not the one that was written."""


@dataclass(frozen=True)
class Part:
    """One Parquet file of change rows of one table in one schema.

    No action on the table lies between two rows of a part.

    Attributes:
        path: Key below the source's folder.
        schema: Id of one of the table's `schemas`.
        rows: Change rows in the file.
        bytes: Size of the file.
        sha256: Hex digest of the file.
        first_row, last_row: Smallest and largest `_row`.
        first_commit, last_commit: Earliest and latest `_commit_ts`, microseconds since 1970 in UTC.
        changes: Rows by change type; types that do not occur are left out.
        replaced: Values for which another one is staged, counted by column: NULL for a zero date,
            U+FFFD for an invalid byte sequence; columns without any are left out. No row is
            identified by such a value.
    """

    path: str
    schema: int
    rows: int
    bytes: int
    sha256: str
    first_row: int
    last_row: int
    first_commit: int
    last_commit: int
    changes: dict[str, int]
    replaced: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the source's folder: whoever edits it reads no more."""
        if not {"", ".", ".."}.isdisjoint(self.path.split("/")):
            raise FormatError("not the path of a part", path=self.path)


def count_changes(counted: Iterable[Part | TableChanges]) -> dict[str, int]:
    """Return the change rows of some parts, or tables, by type."""
    total: Counter[str] = Counter()
    for item in counted:
        total.update(item.changes)
    return dict(total)


@dataclass(frozen=True)
class TableChanges:
    """A table that rows or actions of the range concern: what they changed, and what it is now.

    Attributes:
        id: The table id.
        database, table: Its name at the stop of the range, or the last one that it had.
        dropped: Whether it was dropped in the range.
        created: Number of the manifest that holds its `CreateTable`: with those after it, it holds
            every row of the table. None where the table is older than what is staged of it.
        schemas: The schemas of its parts, and the one that it has at the stop, in the order of
            their ids.
        current: Id of the schema at the stop of the range; None where nothing is known of it.
        last_field_id: The highest field id that was ever used; 0 for none.
        logged: Id of the last schema in which rows were logged. None where no row of the table has
            been logged yet: then its schema may lack fields, and its types are not confirmed.
        changed: Whether its identity, its name or its schema is another one than before the range.
        images: The sets of fields that `_image` numbers: field ids, each set in the table's order.
        parts: In the order of their rows.
        unrepresentable: Values that no lake type holds (zero dates) and that were staged as
            NULL, counted by column; columns without any are left out.
        invalid_text: Values in which U+FFFD was staged for invalid byte sequences of the column's
            character set, counted by column; columns without any are left out.
    """

    id: TableId
    database: str
    table: str
    dropped: bool
    created: int | None
    schemas: tuple[Schema, ...]
    current: int | None
    last_field_id: int
    logged: int | None = None
    changed: bool = True
    images: tuple[tuple[int, ...], ...] = ()
    parts: tuple[Part, ...] = ()
    unrepresentable: dict[str, int] = field(default_factory=dict)
    invalid_text: dict[str, int] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether its current schema has those columns only that statements have named."""
        return self.state.is_partial

    @property
    def rows(self) -> int:
        """Change rows over all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows by type over all parts."""
        return count_changes(self.parts)

    @property
    def name(self) -> TableName:
        """Its name at the stop of the range, or the last one that it had."""
        return self.database, self.table

    @property
    def state(self) -> TableState:
        """State of the table at the stop of the range."""
        return TableState(
            id=self.id,
            name=self.name,
            created=self.created,
            schema=None if self.current is None else self.schema(self.current).whole,
            last_field_id=self.last_field_id,
            logged=self.logged,
        )

    def schema(self, schema_id: int) -> Schema:
        """Return one of its schemas, by its id."""
        for schema in self.schemas:
            if schema.id == schema_id:
                return schema
        raise ManifestError("a schema is missing", table=f"{self.database}.{self.table}")


@dataclass(frozen=True)
class Statement:
    """A DDL statement in the range that acts on captured tables.

    Rows may show a table otherwise than the statements say: one was not logged, or not understood.
    What they show is a statement too, without type and text, at the event of the first such row.
    So is the quarantine of a table, at the event that it is quarantined for: the manifest has none
    of its rows, from its start to its stop. Quarantines follow all other statements.

    Attributes:
        file, offset: Where its event starts.
        row: Where it is among the change rows: it applies after those with a smaller `_row`.
        type: `CREATE TABLE`, `ALTER TABLE`, `DROP TABLE`, `RENAME TABLE`, `TRUNCATE TABLE`,
            `DROP DATABASE`, ...; empty for what rows show.
        text: The statement as the server logged it, but for what may hold a password; for people:
            no reader takes it apart.
        actions: What it does to captured tables, in order.
        commit_ts: When it was committed, microseconds since 1970 in UTC; None of what rows show,
            and of quarantines.
    """

    file: str
    offset: int
    row: int
    type: str
    text: str
    actions: tuple[Action, ...]
    commit_ts: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Prepared:
    """An XA transaction that is prepared: its changes are staged where it is committed, if it is.

    Attributes:
        xid: Its name as the log has it: `X'61',X'62',1`.
        gtid: The GTID under which it was prepared; None where it has none.
        file, offset: Where that GTID's event starts: its changes are after it.
        tables: Those it changes.
    """

    xid: str
    gtid: str | None
    file: str
    offset: int
    tables: tuple[TableName, ...]


class QuarantinedTable(NamedTuple):
    """A table whose rows a manifest leaves out, because of the event at `file:offset`."""

    database: str
    table: str
    position: str
    reason: str


class End(NamedTuple):
    """The stop of a manifest, at which the next one starts, and the server that issued it."""

    sequence: int
    identity: SourceIdentity
    stop: Position


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One staged range.

    Attributes:
        sequence: Number of the manifest: 1 for the first of a source, then without gaps.
        identity: The server that issued both positions.
        start: The first change of the range begins here or later.
        stop: The range ends before this position; the next manifest starts here.
        before_images: Which before-images of updates the parts hold.
        zero_dates, invalid_text: How the range was staged where it has zero dates, invalid dates or
            invalid byte sequences.
        include, exclude: Globs of `database.table` that say which tables were captured.
        columns: Which of their columns were excluded or hashed.
        captured_since: Number of the first manifest, of those before it without a gap, that was
            captured with the same globs.
        tables: The tables that rows or actions concern, by database and table.
        statements: In log order, then the quarantines.
        events: Events read, by type name; the skipped ones included.
        skipped_events: Events that were skipped because they bear the ignorable flag.
        created_at, created_by: When, ISO 8601 in UTC, and by which run it was made.
        prepared: The XA transactions that are prepared before `stop`, and neither committed nor
            rolled back there; the next range begins with them.
        dropped_databases: Those that were dropped in the range, with tables that the log may never
            have mentioned.
    """

    sequence: int
    identity: SourceIdentity = field(metadata=stored_as("source"))
    start: Position
    stop: Position
    before_images: BeforeImages
    zero_dates: ZeroDates = ZeroDates.NULL
    invalid_text: InvalidText = InvalidText.FAIL
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    captured_since: int = 1
    tables: tuple[TableChanges, ...]
    statements: tuple[Statement, ...]
    events: dict[str, int]
    skipped_events: dict[str, int]
    created_at: str
    created_by: str
    prepared: tuple[Prepared, ...] = ()
    dropped_databases: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    columns: tuple[ColumnOptions, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def rows(self) -> int:
        """Change rows over all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def quarantined(self) -> tuple[QuarantinedTable, ...]:
        """Tables whose rows are left out, in log order."""
        names = {table.id: table.name for table in self.tables}
        return tuple(
            QuarantinedTable(
                *names[action.table], f"{statement.file}:{statement.offset}", action.reason
            )
            for statement in self.statements
            for action in statement.actions
            if isinstance(action, QuarantineTable)
        )

    @property
    def end(self) -> End:
        """The stop of the range, with number and server."""
        return End(self.sequence, self.identity, self.stop)

    def encode(self) -> bytes:
        """Return the manifest as it is stored; see `stored_json`."""
        return FORMAT.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Manifest:
        """Read what `encode` wrote; raise ManifestError for anything else."""
        return FORMAT.decode(cls, data)


def check_follows(end: End, following: Manifest) -> None:
    """Refuse a manifest if changes would be missing or doubled between an end and its start.

    Raises:
        ManifestError: The numbers do not follow each other, or it does not start where the one
            before it stops: at the same coordinates, or on another server at the same GTIDs.
    """
    if following.sequence != end.sequence + 1:
        raise ManifestError("a gap between manifests", after=end.sequence, found=following.sequence)
    if is_contiguous(end.stop, end.identity, following.start, following.identity):
        if len({end.stop.gtid, following.start.gtid} - {None}) > 1:
            raise ManifestError(
                "a manifest starts at other GTIDs than those at which the one before it stops, and "
                "at the same offset: one of them, or a checkpoint, was edited; restore it as it "
                "was written",
                sequence=following.sequence,
                stop=end.stop.gtid,
                start=following.start.gtid,
            )
        return
    if following.identity != end.identity:
        raise ManifestError(
            "two manifests of one source come from different servers, and the second does not go "
            "on at the GTIDs where the first stops",
            sequence=following.sequence,
            before=end.identity.server,
            now=following.identity.server,
            stop=end.stop.gtid,
            start=following.start.gtid,
        )
    raise ManifestError(
        "a manifest does not start where the one before it stops: "
        "after a new snapshot, capture under a new source name",
        sequence=following.sequence,
        stop=end.stop,
        start=following.start,
    )
