"""The manifest of a snapshot: rows of a table as SELECT returned them, between two positions.

The merge replays the staged log over its rows: everything that `low` does not contain. A part is
one like any other. Each row is an `insert` with a whole image: `_row` numbers the rows of the
snapshot, `_commit_ts` is when its chunk was read, `_gtid` is null, `_file` and `_pos` are those of
`low`. Fields count from 1 in the table's order; the merge matches them by their names.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_binlog.changes import InvalidText, ZeroDates
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.schema import Schema, TableName
from airflow_provider_binlog.stored_json import StoredFormat, stored_as

FORMAT = StoredFormat("airflow-provider-binlog/snapshot", 1, "the manifest of a snapshot")

SNAPSHOTS = "snapshots"
"""The folder of a source's snapshots; a database of this name is stored as `%73napshots`."""

_TABLE_DIGITS = 12
_ORDINALS = 10**6
_ID = re.compile(rf"\d{{8}}T\d{{6}}\.\d{{6}}Z-([0-9a-f]{{{_TABLE_DIGITS}}})", re.ASCII)


@dataclass(frozen=True)
class Chunk:
    """Rows that one SELECT returned; chunks are numbered from 0, in the order of the key."""

    number: int
    low: Position
    high: Position
    rows: int


@dataclass(frozen=True, kw_only=True)
class SnapshotManifest:
    """One complete snapshot.

    Attributes:
        id: From `new_snapshot_id`: later snapshots of a table have greater ids.
        identity: The server that was read, and whose positions these are.
        database, table: The table's name.
        schema: Its columns and its key, the same in all chunks; the id is 1.
        low: Every transaction before it was visible to all SELECTs. If it has a GTID set, that says
            which transactions these are, and the coordinates say it of DDL statements alone; else
            the coordinates say it of both.
        high: Nothing after it was visible to any SELECT. Its coordinates and its GTID set, if it
            has one, both say so.
        is_exact: Whether the rows are those that the table had at `low`: nothing after it was
            visible either, by its coordinates. Without a key, a table is loaded from such a
            snapshot only.
        where: The condition on the rows that were read; None for all rows.
        adopts: Whether the rows are those that the lake table has already, which someone else
            loaded: nothing was read, and there are no parts.
        zero_dates, invalid_text: How the values are staged, as in `Manifest`.
        chunks: In the order of their numbers.
        parts: In the order of their rows; each has the schema 1.
        created_at, created_by: As in `Manifest`.
    """

    id: str
    identity: SourceIdentity = field(metadata=stored_as("source"))
    database: str
    table: str
    schema: Schema
    low: Position
    high: Position
    is_exact: bool
    where: str | None
    zero_dates: ZeroDates = ZeroDates.NULL
    invalid_text: InvalidText = InvalidText.FAIL
    chunks: tuple[Chunk, ...]
    parts: tuple[Part, ...]
    created_at: str
    created_by: str
    adopts: bool = False

    @property
    def name(self) -> TableName:
        """Database and table."""
        return self.database, self.table

    @property
    def rows(self) -> int:
        """Rows over all parts."""
        return sum(part.rows for part in self.parts)

    def encode(self) -> bytes:
        """Return the manifest as it is stored; see `stored_json`."""
        return FORMAT.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> SnapshotManifest:
        """Read what `encode` wrote; raise ManifestError for anything else."""
        manifest = FORMAT.decode(cls, data)
        if table_digest(manifest.name) != digest_in(manifest.id):
            raise ManifestError(
                "a snapshot has the id of another table's",
                snapshot=manifest.id,
                table=".".join(manifest.name),
            )
        return manifest


def new_snapshot_id(at: datetime, name: TableName) -> str:
    """Return the id of a snapshot of a table that is planned at a time, which has a zone.

    A retry uses the id of the first try, which has its parts.
    """
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{table_digest(name)}"


def planned_at(snapshot_id: str) -> datetime:
    """Return when a snapshot was planned, by its id; raise ValueError if it is none."""
    return datetime.strptime(snapshot_id.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)


def table_digest(name: TableName) -> str:
    """Return what the ids of all snapshots of a table end in."""
    return hashlib.sha256("\0".join(name).encode()).hexdigest()[:_TABLE_DIGITS]


def digest_in(snapshot_id: str) -> str | None:
    """Return the `table_digest` that an id ends in; None if it is no id of a snapshot."""
    match = _ID.fullmatch(snapshot_id)
    return None if match is None else match[1]


def snapshot_path(snapshot_id: str) -> str:
    """Return the path of a snapshot's manifest below the source's folder."""
    return f"{SNAPSHOTS}/{snapshot_id}.json"


def snapshot_folder(snapshot_id: str) -> str:
    """Return the folder, below the source's, of the parts of a snapshot and of notes on them."""
    return f"{SNAPSHOTS}/{snapshot_id}"


def snapshot_part_path(snapshot_id: str, ordinal: int, token: str) -> str:
    """Return the path of a part of a snapshot below the source's folder: what `Part.path` holds.

    `ordinal` counts the parts of the snapshot from 0; `token` differs for every try to write it.
    """
    if not 0 <= ordinal < _ORDINALS:
        raise ManifestError("not the ordinal of a part", ordinal=ordinal)
    return f"{snapshot_folder(snapshot_id)}/{0:016}-{ordinal:06}-{token}.parquet"
