"""How far a lake has got, kept beside the manifests, so that a merge reads only what is new.

Without it, one table that never changes would make every merge read every manifest, to find out
that there is nothing for it. The file is a note, not the truth: the truth is each table's own
applied sequence. It is written when every table of a run is done, and what it says stays true, so
that no race does harm. A table that was dropped from the lake, or put back to an earlier state, is
noticed by its applied sequence when it changes next, and is merged from there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import FormatError, ManifestError
from airflow_provider_binlog.manifest import End, check_follows
from airflow_provider_binlog.position import Position, SourceIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.staged.files import SourceFiles

FORMAT = "airflow-provider-binlog/merged"
VERSION = 1


@dataclass(frozen=True)
class TableProgress:
    """How far one table has got.

    Attributes:
        applied: The applied sequence of its target; 0 if it has none.
        settled: Manifests up to this one hold nothing more for it.
    """

    applied: int
    settled: int


@dataclass(frozen=True)
class Progress:
    """How far all tables of one lake have got.

    Attributes:
        end: Every manifest up to this end is applied; None at first.
        servers: Whose logs these manifests are of, the last one's first: more than one where others
            were promoted.
        tables: The tables that these manifests name.
    """

    end: End | None = None
    servers: tuple[SourceIdentity, ...] = ()
    tables: Mapping[TableName, TableProgress] = field(default_factory=dict)

    @property
    def through(self) -> int:
        """Number of the last manifest that is applied; 0 at first."""
        return 0 if self.end is None else self.end.sequence

    def first_needed(self, name: TableName, applied: int) -> int:
        """Return the number of the first manifest that may hold something for a table."""
        known = self.tables.get(name)
        if known is None:
            return max(applied, self.through) + 1
        if applied < known.applied:
            return applied + 1
        return max(applied, known.settled) + 1

    def check_follows(self, manifest: Manifest) -> None:
        """Refuse a manifest that does not follow what was merged.

        Raises:
            ManifestError: See `manifest.check_follows`.
        """
        if self.end is not None:
            check_follows(self.end, manifest)

    def servers_through(self, manifests: Sequence[Manifest]) -> tuple[SourceIdentity, ...]:
        """Return whose logs lead to the last of the manifests that follow, its own first.

        A lake table follows one of them: whichever it was that wrote the table last. Of the older
        ones the manifests may be deleted, and a table without changes knows no later one.
        """
        newest_first = (manifest.identity for manifest in reversed(manifests))
        return tuple(dict.fromkeys([*newest_first, *self.servers]))


def progress_path(**target: object) -> str:
    """Return where the progress towards one target lies; `target` says what makes it that one."""
    text = json.dumps(target, sort_keys=True, default=list)
    return f"_merged/{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def load_progress(files: SourceFiles, path: str) -> Progress:
    """Return what `save_progress` saved; nothing done if it saved nothing.

    Raises:
        ManifestError: The file is not one of ours.
    """
    data = files.read(path)
    if data is None:
        return Progress()
    try:
        value = json.loads(data)
        if (value["format"], value["version"]) == (FORMAT, VERSION):
            return _from_json(value)
        cause: Exception | None = None
    except (FormatError, LookupError, RecursionError, TypeError, ValueError) as error:
        cause = error
    raise ManifestError(
        "this is not how far a lake has got: delete it, and every manifest is read again",
        file=files.locate(path),
    ) from cause


def save_progress(files: SourceFiles, path: str, progress: Progress) -> None:
    """Store how far the lake has got."""
    value = {
        "format": FORMAT,
        "version": VERSION,
        "through": progress.through,
        "sources": [server.to_json() for server in progress.servers],
        "stop": progress.end.stop.to_json() if progress.end else None,
        "tables": [
            [*name, table.applied, table.settled] for name, table in sorted(progress.tables.items())
        ],
    }
    files.write(path, json.dumps(value, ensure_ascii=False).encode())


def _from_json(value: dict[str, Any]) -> Progress:
    servers = tuple(map(SourceIdentity.from_json, value["sources"]))
    return Progress(
        end=End(int(value["through"]), servers[0], Position.from_json(value["stop"])),
        servers=servers,
        tables={
            (database, table): TableProgress(int(applied), int(settled))
            for database, table, applied, settled in value["tables"]
        },
    )
