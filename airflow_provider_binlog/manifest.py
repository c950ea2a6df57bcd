"""The manifest: what one staged range holds, and the only thing that makes its parts visible.

A manifest is written once, after all of its parts, and never rewritten. Capture writes it, the
merge and every other reader believe nothing that it does not name. It is JSON, described for
readers in other languages in `docs/staged-format.md`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_binlog.changes import BeforeImages, InvalidText, ZeroDates
from airflow_provider_binlog.errors import MALFORMED, ManifestError
from airflow_provider_binlog.position import Position, SourceIdentity, is_contiguous

FORMAT = "airflow-provider-binlog/manifest"
VERSION = 1
_FINGERPRINT_SIZE = 16


@dataclass(frozen=True)
class ColumnDefault:
    """What a column holds where an insert does not name it.

    Attributes:
        value: As SELECT prints it, TIMESTAMP in UTC; of binary columns their bytes in hex digits;
            None for NULL.
    """

    value: str | None


@dataclass(frozen=True)
class Column:
    """One column of a table as it was when its rows were logged.

    Attributes:
        name: The column's name.
        mysql_type: The type as SQL writes it: `decimal(10,2)`, `bigint unsigned`.
        arrow_type: The type of the staged values as Arrow prints it: `decimal128(10, 2)`.
        nullable: Whether the column may hold NULL.
        charset: Character set of text, ENUM and SET columns; None for the others.
        default: What an insert leaves in the column whose image lacks it; None if not known.
    """

    name: str
    mysql_type: str
    arrow_type: str
    nullable: bool
    charset: str | None = None
    default: ColumnDefault | None = None


@dataclass(frozen=True)
class Schema:
    """One shape of a table.

    Attributes:
        columns: In the table's order.
        key: Names of the primary key's columns in key order; empty where the table has none.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A short name of the shape: the same for the same shape, in every manifest."""
        text = json.dumps(_schema_to_json(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_SIZE]


@dataclass(frozen=True)
class Part:
    """One Parquet file of change rows of one table in one shape.

    Attributes:
        path: Key below the source's folder.
        schema: Index into the table's `schemas`.
        rows: Change rows in the file.
        bytes: Size of the file.
        sha256: Hex digest of the file.
        first_row, last_row: Smallest and largest `_row`.
        first_commit, last_commit: Earliest and latest `_commit_ts`, microseconds since 1970 in UTC.
        changes: Rows by change type; types that do not occur are left out.
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


@dataclass(frozen=True)
class TableChanges:
    """What the range changed in one table.

    Attributes:
        database, table: Names as the server has them.
        schemas: The shapes that occur, in the order of their first row.
        images: The sets of columns that `_image` numbers, each in the table's order.
        parts: In the order of their rows.
        unrepresentable: Values that no lake type holds (zero dates) and that were staged as
            NULL, counted by column; columns without any are left out.
        invalid_text: Values in which U+FFFD was staged for bytes that are no text in the column's
            character set, counted by column; columns without any are left out.
    """

    database: str
    table: str
    schemas: tuple[Schema, ...]
    images: tuple[tuple[str, ...], ...]
    parts: tuple[Part, ...]
    unrepresentable: dict[str, int] = field(default_factory=dict)
    invalid_text: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Change rows over all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows by type over all parts."""
        total: dict[str, int] = {}
        for part in self.parts:
            for change, count in part.changes.items():
                total[change] = total.get(change, 0) + count
        return total


@dataclass(frozen=True)
class Statement:
    """A statement in the range that changes tables without row events.

    Attributes:
        file, offset: Where its event starts.
        row: Its place among the change rows: it applies after those with a smaller `_row`.
        kind: `CREATE TABLE`, `ALTER TABLE`, `DROP TABLE`, `RENAME TABLE`, `TRUNCATE TABLE`,
            `CREATE DATABASE`, `DROP DATABASE`, ...: the words it starts with.
        tables: The tables it names, as (database, table).
        text: The statement as the server logged it.
        fingerprints: Of each of the tables, the fingerprint of the shape that its first rows have
            behind the statement; None where no rows follow in the range before the next statement
            on the table.
    """

    file: str
    offset: int
    row: int
    kind: str
    tables: tuple[tuple[str, str], ...]
    text: str
    fingerprints: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """An XA transaction that is prepared: its changes are staged where it is committed, if it is.

    Attributes:
        xid: Its name as the log has it: `X'61',X'62',1`.
        gtid: The GTID under which it was prepared; None where it has none.
        file, offset: Where that GTID's event starts: its changes are behind it.
        tables: Those it changes, as (database, table).
    """

    xid: str
    gtid: str | None
    file: str
    offset: int
    tables: tuple[tuple[str, str], ...]


class End(NamedTuple):
    """Where a manifest leaves off, and the next one starts.

    Attributes:
        sequence: Number of the manifest.
        identity: The server that issued the position.
        stop: The range ends before it.
    """

    sequence: int
    identity: SourceIdentity
    stop: Position


@dataclass(frozen=True)
class Manifest:
    """One staged range.

    Attributes:
        sequence: Number of the manifest: 1 for the first of a source, then without gaps.
        identity: The server that issued both positions.
        start: The first change of the range begins here or later.
        stop: The range ends before this position; the next manifest starts here.
        before_images: Which before-images of updates the parts hold.
        include, exclude: Globs of `database.table` that say which tables were captured.
        tables: The tables with changes, by database and table.
        statements: In log order.
        events: Events read, by type name; the skipped ones included.
        skipped_events: Events that were passed over unread because they bear the ignorable
            flag, by type name.
        created_at: When the manifest was made, ISO 8601 in UTC.
        created_by: The run that made it.
        prepared: The XA transactions that are prepared before `stop`, and neither committed nor
            rolled back there; the next range begins with them. None in manifests of releases that
            did not know.
        zero_dates, invalid_text: How the range was staged where values are no dates, or no text.
    """

    sequence: int
    identity: SourceIdentity
    start: Position
    stop: Position
    before_images: BeforeImages
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    tables: tuple[TableChanges, ...]
    statements: tuple[Statement, ...]
    events: dict[str, int]
    skipped_events: dict[str, int]
    created_at: str
    created_by: str
    prepared: tuple[Prepared, ...] | None = None
    zero_dates: ZeroDates = ZeroDates.NULL
    invalid_text: InvalidText = InvalidText.FAIL

    @property
    def rows(self) -> int:
        """Change rows over all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def end(self) -> End:
        """Where it leaves off."""
        return End(self.sequence, self.identity, self.stop)

    def encode(self) -> bytes:
        """Return the manifest as it is stored: UTF-8 JSON, keys in a fixed order."""
        value = {
            "format": FORMAT,
            "version": VERSION,
            "sequence": self.sequence,
            "source": self.identity.to_json(),
            "start": self.start.to_json(),
            "stop": self.stop.to_json(),
            "before_images": self.before_images.value,
            "zero_dates": self.zero_dates.value,
            "invalid_text": self.invalid_text.value,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "tables": [_table_to_json(table) for table in self.tables],
            "statements": [_statement_to_json(statement) for statement in self.statements],
            "events": self.events,
            "skipped_events": self.skipped_events,
            "created_at": self.created_at,
            "created_by": self.created_by,
        }
        if self.prepared is not None:
            value["prepared"] = [_prepared_to_json(each) for each in self.prepared]
        return json.dumps(value, ensure_ascii=False, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes | str) -> Manifest:
        """Read what `encode` wrote.

        Raises:
            ManifestError: The bytes are no manifest, or one of another version.
        """
        try:
            value = json.loads(data)
            if value.get("format") != FORMAT:
                raise ManifestError("not a manifest", format=value.get("format"))
            if value.get("version") != VERSION:
                raise ManifestError(
                    "a manifest of another version: read it with the release that wrote it",
                    version=value.get("version"),
                    known=VERSION,
                )
            return cls(
                sequence=int(value["sequence"]),
                identity=SourceIdentity.from_json(value["source"]),
                start=Position.from_json(value["start"]),
                stop=Position.from_json(value["stop"]),
                before_images=BeforeImages(value["before_images"]),
                include=tuple(value["include"]),
                exclude=tuple(value["exclude"]),
                tables=tuple(_table_from_json(table) for table in value["tables"]),
                statements=tuple(_statement_from_json(each) for each in value["statements"]),
                events=dict(value["events"]),
                skipped_events=dict(value["skipped_events"]),
                created_at=value["created_at"],
                created_by=value["created_by"],
                prepared=_prepared_from_json(value.get("prepared")),
                zero_dates=ZeroDates(value.get("zero_dates", ZeroDates.NULL)),
                invalid_text=InvalidText(value.get("invalid_text", InvalidText.FAIL)),
            )
        except MALFORMED as error:
            raise ManifestError("not a manifest", cause=repr(error)) from error


def check_follows(end: End, following: Manifest) -> None:
    """Refuse a manifest if changes would be missing or doubled between an end and its start.

    Raises:
        ManifestError: The numbers do not follow each other, or it does not start where the one
            before it stops: at the same place, or on another server at the same GTIDs.
    """
    if following.sequence != end.sequence + 1:
        raise ManifestError("a gap between manifests", after=end.sequence, found=following.sequence)
    if is_contiguous(end.stop, end.identity, following.start, following.identity):
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


def _table_to_json(table: TableChanges) -> dict[str, Any]:
    return {
        "database": table.database,
        "table": table.table,
        "schemas": [_schema_to_json(schema) for schema in table.schemas],
        "images": [list(image) for image in table.images],
        "parts": [vars(part) for part in table.parts],
        "unrepresentable": table.unrepresentable,
        "invalid_text": table.invalid_text,
    }


def _table_from_json(value: dict[str, Any]) -> TableChanges:
    return TableChanges(
        database=value["database"],
        table=value["table"],
        schemas=tuple(
            Schema(tuple(map(_column_from_json, schema["columns"])), tuple(schema["key"]))
            for schema in value["schemas"]
        ),
        images=tuple(tuple(image) for image in value["images"]),
        parts=tuple(Part(**part) for part in value["parts"]),
        unrepresentable=dict(value["unrepresentable"]),
        invalid_text=dict(value.get("invalid_text", {})),
    )


def _schema_to_json(schema: Schema) -> dict[str, Any]:
    return {
        "columns": [_column_to_json(column) for column in schema.columns],
        "key": list(schema.key),
    }


def _column_to_json(column: Column) -> dict[str, Any]:
    value = dict(vars(column))
    if column.default is None:
        del value["default"]
    else:
        value["default"] = vars(column.default)
    return value


def _column_from_json(value: dict[str, Any]) -> Column:
    default = value.get("default")
    known = None if default is None else ColumnDefault(**default)
    return Column(**(value | {"default": known}))


def _statement_to_json(statement: Statement) -> dict[str, Any]:
    return {
        "file": statement.file,
        "offset": statement.offset,
        "row": statement.row,
        "kind": statement.kind,
        "tables": [list(table) for table in statement.tables],
        "text": statement.text,
        "fingerprints": list(statement.fingerprints),
    }


def _statement_from_json(value: dict[str, Any]) -> Statement:
    return Statement(
        file=value["file"],
        offset=value["offset"],
        row=value["row"],
        kind=value["kind"],
        tables=tuple((database, table) for database, table in value["tables"]),
        text=value["text"],
        fingerprints=tuple(value.get("fingerprints", ())),
    )


def _prepared_to_json(prepared: Prepared) -> dict[str, Any]:
    return {**vars(prepared), "tables": [list(table) for table in prepared.tables]}


def _prepared_from_json(value: list[dict[str, Any]] | None) -> tuple[Prepared, ...] | None:
    if value is None:
        return None
    return tuple(
        Prepared(
            xid=each["xid"],
            gtid=each["gtid"],
            file=each["file"],
            offset=each["offset"],
            tables=tuple((database, table) for database, table in each["tables"]),
        )
        for each in value
    )
