"""How far a lake has got, kept beside the manifests, so that a merge reads only what is new.

Without it, every merge would read every manifest and every table. The file is a cache that may be
deleted; the truth is each lake table's own applied mark. For every table that the manifests name it
says what a merge last saw, whichever tables a merge was for, and whether all of its tables could be
merged.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import MALFORMED, ManifestError
from airflow_provider_binlog.manifest import End, check_follows
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.spark.plan.table_log import Globs, extend_globs, find_uncaptured
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark
from airflow_provider_binlog.spark.target.state import Hold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.staged.files import SourceFiles
    from airflow_provider_binlog.staging.paths import ReadFiles
    from airflow_provider_binlog.table_options import TableRules

PROGRESS = "_merged"
"""The folder of a source's notes on lakes; no database's folder begins with an underscore."""

FORMAT = "airflow-provider-binlog/merged"
VERSION = 3


@dataclass(frozen=True)
class TableProgress:
    """How far one table has got.

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

    mark: Mark = NOTHING
    first: int | None = None
    pending: bool = False
    hold: Hold | None = None
    loaded: str = ""
    version: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far all tables of one lake have got.

    Attributes:
        since: Number of the first manifest that was ever read.
        end: Where the last one that was read stops; None at first.
        servers: Whose logs these manifests are of, the last one's first: more than one where others
            were promoted.
        globs: Which tables they were captured with, in order.
        tables: The tables that they name.
        snapshots: Ids of the snapshots that are loaded, or were overtaken.
        lake: Which lake it is, for people.
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
    """Return where the progress of one lake lies: its tables' names make it that one."""
    text = json.dumps([format_, lake, [*options.targets.items()]])
    return f"{PROGRESS}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def load_progress(files: ReadFiles, folder: str) -> Progress | None:
    """Return what `save_progress` saved; None if it saved nothing, or not all of it.

    A store without atomic writes shows a cut file while another merge writes it, and for good if
    that one is killed. Every manifest is read again then, as if there were no file.

    Raises:
        ManifestError: The file is not one of ours.
    """
    path = _path(folder)
    data = files.read(path)
    if data is None or _is_cut(data):
        return None
    try:
        value = json.loads(data)
        if (value["format"], value["version"]) == (FORMAT, VERSION):
            return _from_json(value)
        cause: Exception | None = None
    except MALFORMED as error:
        cause = error
    raise ManifestError(
        "this is not how far a lake has got: delete it, and every manifest is read again",
        file=files.locate(path),
    ) from cause


def save_progress(
    files: SourceFiles,
    folder: str,
    progress: Progress,
    *,
    loaded: Progress | None,
    merged: Collection[TableName],
) -> None:
    """Store how far the lake has got.

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
    value = {
        "format": FORMAT,
        "version": VERSION,
        "since": progress.since,
        "through": progress.through,
        "sources": [server.to_json() for server in progress.servers],
        "stop": None if progress.stop is None else progress.stop.to_json(),
        "globs": progress.globs,
        "tables": [
            [
                *(*name, str(each.mark), each.first, each.pending),
                *(each.hold and each.hold.to_json(), each.loaded, each.version),
            ]
            for name, each in sorted(progress.tables.items())
        ],
        "snapshots": sorted(progress.snapshots),
        "lake": progress.lake,
    }
    files.write(_path(folder), json.dumps(value).encode())


def _is_cut(data: bytes) -> bool:
    """Whether these are the first bytes of an object in JSON, or none, and not the last ones."""
    try:
        json.loads(data)
    except ValueError:
        return not data or data.startswith(b"{")
    return False


def _path(folder: str) -> str:
    return f"{folder}/progress.json"


def _from_json(value: dict[str, Any]) -> Progress:
    servers = tuple(map(SourceIdentity.from_json, value["sources"]))
    stop, through = value["stop"], int(value["through"])
    return Progress(
        since=int(value["since"]),
        end=None if stop is None else End(through, servers[0], Position.from_json(stop)),
        servers=servers,
        globs=tuple(
            Globs(int(since), _texts(include), _texts(exclude))
            for since, include, exclude in value["globs"]
        ),
        tables={
            _name(database, table): TableProgress(
                Mark.parse(mark),
                None if first is None else int(first),
                bool(pending),
                None if hold is None else Hold.from_json(hold),
                str(loaded),
                None if version is None else int(version),
            )
            for database, table, mark, first, pending, hold, loaded, version in value["tables"]
        },
        snapshots=frozenset(_texts(value["snapshots"])),
        lake=str(value["lake"]),
    )


def _texts(value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise TypeError(f"not a list of texts: {value!r:.80}")
    return tuple(value)


def _name(database: Any, table: Any) -> TableName:
    database, table = _texts([database, table])
    return database, table
