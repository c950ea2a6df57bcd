"""Progress of a lake, kept beside the manifests, so that a merge reads only what is new.

Without it, every merge would read every manifest and every table. The file is a cache that may be
deleted; the truth is each lake table's own applied mark. For every table that the manifests name it
says what a merge last saw, whichever tables a merge was for, and whether all of its tables could be
merged.
"""

# ruff: noqa: TC001  `from_json` evaluates the types of fields.

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import End, check_follows
from airflow_provider_binlog.names import join_table_name, split_table_name
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.spark.plan.table_log import Globs, extend_globs, find_uncaptured
from airflow_provider_binlog.spark.target.state import NOTHING, Hold, Mark
from airflow_provider_binlog.stored_json import LEFT_OUT, StoredFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.staging.paths import ReadFiles
    from airflow_provider_binlog.table_options import TableRules

PROGRESS = "_merged"
"""The folder of a source's notes on lakes; no database's folder begins with an underscore."""

_STORED = StoredFormat("airflow-provider-binlog/merged", 4, "a progress")


@dataclass(frozen=True)
class TableProgress:
    """Progress of one table.

    Attributes:
        mark: The applied mark of its lake table when a merge last saw it; `NOTHING` if there was
            none.
        first: Number of the first manifest that may hold something more for it; None if none does
            of those that were read.
        pending: Whether one of them does, so that the next merge reads the lake table's state.
        hold: Why the table was not merged then; None if it was.
        loaded: The snapshot that its lake table was last loaded from; empty if from none.
        version: Delta's version of the lake table, or the id of Iceberg's snapshot, with what the
            mark says; None if that is not known.
    """

    mark: Mark = field(default=NOTHING, metadata=LEFT_OUT)
    first: int | None = field(default=None, metadata=LEFT_OUT)
    pending: bool = field(default=False, metadata=LEFT_OUT)
    hold: Hold | None = field(default=None, metadata=LEFT_OUT)
    loaded: str = field(default="", metadata=LEFT_OUT)
    version: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Progress:
    """Progress of all tables of one lake.

    Attributes:
        since: Number of the first manifest that was ever read.
        end: The stop of the last one that was read; None at first.
        servers: The servers of these manifests, that of the last one first: more than one where
            others were promoted.
        globs: Globs of the tables that the manifests were captured with, in order.
        tables: The tables that the manifests name.
        snapshots: Ids of the snapshots that are loaded, or were overtaken.
        lake: Format, place and names of the lake, for people.
    """

    since: int = 1
    end: End | None = None
    servers: tuple[SourceIdentity, ...] = ()
    globs: tuple[Globs, ...] = ()
    tables: Mapping[TableName, TableProgress] = field(default_factory=dict)
    snapshots: frozenset[str] = frozenset()
    lake: str = ""

    @property
    def through(self) -> int:
        """Number of the last manifest that was read."""
        return self.since - 1 if self.end is None else self.end.sequence

    def first_needed(self, name: TableName, applied: Mark) -> int:
        """Return the number of the first manifest that may hold something for a lake table."""
        known = self.tables.get(name)
        following = applied.sequence + 1
        if known is None:
            older = applied > NOTHING and following < self.since
            return following if older else max(following, self.through + 1)
        if applied < known.mark:
            # It was restored, or a delayed merge of less came in between.
            return following
        return max(following, known.first or self.through + 1)

    def pending(self, chosen: Callable[[TableName], bool]) -> list[TableName]:
        """Return the chosen tables whose state in the lake has to be read, whatever is new."""
        return sorted(name for name, each in self.tables.items() if each.pending and chosen(name))

    def is_merged(self, through: int, chosen: Callable[[TableName], bool]) -> bool:
        """Return whether there is nothing to do up to a manifest, as far as is known here.

        Tables that wait for a reload do not count.
        """
        live = (self.tables[name].hold is None for name in self.pending(chosen))
        return through <= self.through and not any(live)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The globs of the tables that the last manifest was captured without."""
        return self.globs[-1].exclude if self.globs else ()

    @property
    def stop(self) -> Position | None:
        """Where the last manifest that was read stops; None at first."""
        return None if self.end is None else self.end.stop

    @property
    def versions(self) -> dict[str, int]:
        """Return, by live table, which version has the log up to here, and nothing after it."""
        return {
            ".".join(name): each.version
            for name, each in sorted(self.tables.items())
            if each.version is not None
            and each.hold is None
            and not each.pending
            and each.mark.sequence <= self.through
        }

    def check_follows(self, manifest: Manifest) -> None:
        """Refuse a manifest that does not follow what was read.

        Raises:
            ManifestError: See `manifest.check_follows`.
        """
        if self.end is not None:
            check_follows(self.end, manifest)

    def read(self, manifests: Sequence[Manifest]) -> Progress:
        """Return the progress once further manifests were read, before any table is merged."""
        if not manifests:
            return self
        return replace(
            self,
            end=manifests[-1].end,
            servers=self._servers_through(manifests),
            globs=extend_globs(self.globs, manifests),
        )

    def captures(self, name: TableName) -> bool:
        """Return whether the last manifest was captured with a table."""
        return bool(self.globs) and self.globs[-1].capture(name)

    def find_uncaptured(self, name: TableName, *, since: int) -> int | None:
        """Return where a table was last not captured from `since` on; see `captured`."""
        return find_uncaptured(self.globs, name, first=since, last=self.through)

    def combine(self, stored: Progress, *, merged: Collection[TableName]) -> Progress:
        """Return what is safe to say after two merges that ran side by side.

        Args:
            stored: What the other one stored.
            merged: The tables that this one was for.
        """
        newer, older = (self, stored) if self.through > stored.through else (stored, self)
        tables = dict(newer.tables)
        for name in newer.tables.keys() | older.tables.keys():
            one, two = (each.tables.get(name, TableProgress()) for each in (newer, older))
            if one != two and (name in merged or newer is self):
                first = min(one.first or newer.through + 1, two.first or older.through + 1)
                mark, loaded = max(one.mark, two.mark), max(one.loaded, two.loaded)
                tables[name] = TableProgress(mark, first, True, one.hold, loaded)  # noqa: FBT003
        return replace(newer, tables=tables, snapshots=self.snapshots | stored.snapshots)

    def _servers_through(self, manifests: Sequence[Manifest]) -> tuple[SourceIdentity, ...]:
        """Return whose logs lead to the last of the manifests that follow, its own first.

        A lake table follows one of them: whichever it was that wrote the table last. Of the older
        ones the manifests may be deleted, and a table without changes knows no later one.
        """
        newest_first = (manifest.identity for manifest in reversed(manifests))
        return tuple(dict.fromkeys([*newest_first, *self.servers]))


def progress_folder(format_: str, lake: str, options: TableRules) -> str:
    """Return the folder of the progress of one lake, which the names of its tables distinguish."""
    text = json.dumps([format_, lake, [*options.targets.items()]])
    return f"{PROGRESS}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def load_progress(files: ReadFiles, folder: str) -> Progress | None:
    """Return what `save_progress` saved; None if it saved nothing, or if that is unreadable.

    Every manifest is then read again. A store without atomic writes shows a cut file while another
    merge writes it, and for good if that one is killed.
    """
    data = files.read(_path(folder))
    try:
        return None if data is None else _STORED.decode(_Stored, data).progress()
    except ManifestError:
        return None


def save_progress(
    files: SourceFiles,
    folder: str,
    progress: Progress,
    *,
    loaded: Progress | None,
    merged: Collection[TableName],
) -> None:
    """Store the progress of a lake.

    Args:
        files: Where.
        folder: Of the lake.
        progress: What to store.
        loaded: What was stored when the merge began; what another one stored since is kept.
        merged: The tables that the merge was for.
    """
    stored = load_progress(files, folder)
    if stored is not None and stored != loaded:
        progress = progress.combine(stored, merged=merged)
    files.write(_path(folder), _STORED.encode(_Stored.of(progress)))


def _path(folder: str) -> str:
    return f"{folder}/progress.json"


@dataclass(frozen=True)
class _Stored:
    """A progress as it is stored; the tables by `database.table`."""

    since: int
    through: int
    sources: tuple[SourceIdentity, ...]
    stop: Position | None
    globs: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]
    tables: dict[str, TableProgress]
    snapshots: tuple[str, ...]
    lake: str

    @classmethod
    def of(cls, progress: Progress) -> _Stored:
        tables = sorted(progress.tables.items())
        return cls(
            progress.since,
            progress.through,
            progress.servers,
            progress.stop,
            progress.globs,
            {join_table_name(name): table for name, table in tables},
            tuple(sorted(progress.snapshots)),
            progress.lake,
        )

    def progress(self) -> Progress:
        if self.stop is not None and not self.sources:
            raise ManifestError("a progress of no server")
        stop = self.stop
        return Progress(
            since=self.since,
            end=None if stop is None else End(self.through, self.sources[0], stop),
            servers=self.sources,
            globs=tuple(Globs(*globs) for globs in self.globs),
            tables={split_table_name(name): table for name, table in self.tables.items()},
            snapshots=frozenset(self.snapshots),
            lake=self.lake,
        )
