"""Lakes, known by what their merges published: what they need, until somebody forgets them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    Progress,
    load_progress,
    published_at,
    read_records,
    record_ids,
    save_progress,
)
from airflow_provider_binlog.spark.reload.plan import is_comparable, is_reached
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import ReadFiles, StoredFiles, part_key


@dataclass(frozen=True)
class Need:
    """The first manifest that somebody needs, and who."""

    first: int
    reason: str


@dataclass(frozen=True)
class Lake:
    """A lake: what was published of it last, and last before the grace period, or else first."""

    id: str
    newest: Progress
    earlier: Progress

    def needs(self, oldest: int) -> Iterator[Need]:
        """Yield what the lake needs; a table that lacks what is removed already is reloaded."""
        name = f"lake {self.id} ({self.newest.lake})"
        for record in (self.earlier, self.newest):
            at = f"{published_at(record.id):%Y-%m-%d %H:%M}"
            yield Need(record.through + 1, f"{name} was merged up to {record.through} at {at}")
            for table, known in record.tables.items():
                waits = known.pending and known.chosen and known.hold is None
                if waits and known.first is not None and known.first >= oldest:
                    text = join_table_name(table)
                    yield Need(known.first, f"{name}: {text} waited for it at {at}")

    def has_read(self, snapshot: SnapshotManifest) -> bool:
        """Whether a merge could load a snapshot before the grace period.

        If it did not, it refused the snapshot, or the table waits for a manifest.
        """
        record, end = self.earlier, self.earlier.end
        if end is None or published_at(record.id) < datetime.fromisoformat(snapshot.created_at):
            return False
        return is_reached(snapshot, end) or not is_comparable(snapshot, end)


def find_lake(files: ReadFiles, lake: str, before: datetime) -> Lake | None:
    """Return a lake as it was published, also before a time; None if no record is readable."""
    folder = f"{PROGRESS}/{lake}"
    ids = record_ids(files, folder)
    split = bisect_right(ids, before, key=published_at)
    old, young = ids[:split], ids[split:]
    newest = next(read_records(files, folder, reversed(ids)), None)
    earlier = next(read_records(files, folder, [*reversed(old), *young]), None)
    return None if newest is None or earlier is None else Lake(lake, newest, earlier)


def forget_lake(store: ObjectStore, source: str, lake: str) -> None:
    """Let cleanups go on without a lake; if it is merged into again, its tables are reloaded.

    Raises:
        ConfigurationError: There is no lake of this id.
    """
    folder = _folder_of(store, source, lake)
    store.delete_folder(part_key(source, folder))


def forget_table(store: ObjectStore, source: str, lake: str, name: TableName) -> None:
    """Let cleanups go on without a table of a lake; if a merge includes it again, it is reloaded.

    Raises:
        ConfigurationError: There is no such lake, or it does not have the table.
    """
    files, folder = StoredFiles(store, source), _folder_of(store, source, lake)
    progress = load_progress(files, folder)
    known = None if progress is None else progress.tables.get(name)
    if progress is None or known is None:
        raise ConfigurationError("no merge has read this table", lake=lake, table=".".join(name))
    tables = {**progress.tables, name: replace(known, chosen=False)}
    forgotten = replace(progress, tables=tables)
    save_progress(files, folder, forgotten, loaded=progress, merged=())


def _folder_of(store: ObjectStore, source: str, lake: str) -> str:
    lakes = store.folders(part_key(source, PROGRESS))
    if lake not in lakes:
        raise ConfigurationError("no lake has this id", given=lake, lakes=", ".join(lakes))
    return f"{PROGRESS}/{lake}"
