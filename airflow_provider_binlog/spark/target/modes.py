"""Modes of a lake table: what it keeps of its table, and which columns it has besides.

The options of a table choose its mode; the lake table says, as the property `MODE`, in which its
rows are. That rows of two modes are never mixed is decided in `spark/merge/lake_table.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from airflow_provider_binlog.changes import (
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
)
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.table_options import TableOptions

MODE = "binlog.mode"
"""Table property: the `TableMode` as a JSON map, where it is not the mode of a table without
options."""

SEQUENCE = "_sequence"
"""Column of a changelog table: the manifest a change came in. (`_sequence`, `_row`) is its key."""

ABSENT = "_absent"
"""Column of a changelog table: the columns whose values are not known, because the row image lacks
them; NULL if it lacks none."""

CHANGELOG_COLUMNS = {
    CHANGE_TYPE: "string",
    COMMIT_TS: "timestamp",
    GTID: "string",
    "_binlog_file": "string",
    "_binlog_pos": "bigint",
    ROW: "bigint",
    IMAGE: "int",
    SEQUENCE: "bigint",
    ABSENT: "array<string>",
}
"""Columns of a changelog table besides those of the source's table, with their Spark types."""

STAGED_AS = {"_binlog_file": FILE, "_binlog_pos": POSITION}
"""Changelog columns that are called otherwise in the parts: in every Iceberg table `_file` and
`_pos` are the data file and the position in it."""

DELETED_AT = "deleted_at"
START, END = "start", "end"
"""Contents of the columns of a history: start and end of a version; NULL if it is current."""

HISTORY_COLUMNS = ("__START_AT", "__END_AT")
METADATA = {
    "change_type": "string",
    "commit_ts": "timestamp",
    "gtid": "string",
    "file": "string",
    "pos": "bigint",
}
"""What metadata columns hold of the last change of a row, with their Spark types."""

SNAPSHOT_CHANGE = "snapshot"
"""Change type of rows that a snapshot has, and of those that it does not have any more."""

_TYPES = {DELETED_AT: "timestamp", START: "timestamp", END: "timestamp"} | METADATA
KINDS = ("current", "history", "multiset", "changelog")
_PREFIX, _METADATA_PREFIX = "_", "_binlog_"


@dataclass(frozen=True)
class TableMode:
    """What a lake table keeps of its table.

    Attributes:
        kind: `current`: the rows of a table with a key; `history`: every version of these;
            `multiset`: the rows of one without; `changelog`: the changes of one without.
        deletes: `hard`: deleted rows are removed; `soft`: they are marked; `ignore`: they stay.
        names: Names of the columns besides those of the source's table, by what they hold; of a
            changelog they are those of `CHANGELOG_COLUMNS`.
    """

    kind: str = "current"
    deletes: str = "hard"
    names: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Value of the property `MODE`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def columns(self) -> dict[str, str]:
        """Name and Spark type of the columns besides those of the source's table."""
        if self.is_changelog:
            return CHANGELOG_COLUMNS
        return {name: _TYPES[held] for held, name in self.names.items()}

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return self.kind == "changelog"

    @property
    def is_multiset(self) -> bool:
        """Whether rows are counted, for want of a key to merge by."""
        return self.kind == "multiset"

    @property
    def may_repeat(self) -> bool:
        """Whether changes leave the same rows, if they are merged again after later ones."""
        return not (self.is_multiset or self.is_history)

    @property
    def is_history(self) -> bool:
        """Whether every version of a row is kept."""
        return self.kind == "history"

    @property
    def has_key(self) -> bool:
        """Whether rows are merged by a key."""
        return not (self.is_changelog or self.is_multiset)

    @property
    def keeps_removed(self) -> bool:
        """Whether it keeps rows, by their key, that the table does not have any more."""
        return self.deletes != "hard" or self.is_history

    @property
    def deleted_at(self) -> str | None:
        """Name of the column that marks deleted rows; None if they are not marked."""
        return self.names.get(DELETED_AT)

    def has_rows_of(self, other: TableMode) -> bool:
        """Whether rows of another mode are rows of this one."""
        return (self.kind, self.deletes) == (other.kind, other.deletes)

    def __str__(self) -> str:
        """Return the options that choose it, for people."""
        if not self.has_key:
            return f"a {self.kind}"
        return "mode='history'" if self.is_history else f"deletes={self.deletes!r}"


CURRENT = TableMode()
MULTISET = TableMode("multiset")
CHANGELOG = TableMode("changelog", names={name: name for name in CHANGELOG_COLUMNS})


def choose_mode(options: TableOptions, *, keyed: bool) -> TableMode:
    """Return the mode that options choose for a table with a key, or one without.

    A changelog has every delete, and metadata of every change: these options choose nothing there,
    nor does a history.

    Raises:
        ConfigurationError: The options cannot be followed together.
    """
    if not keyed and options.mode == "multiset":
        if options.deletes not in (None, "hard") or options.metadata:
            raise ConfigurationError(
                "the table has no key, and a multiset has neither deleted rows nor metadata: set "
                "deletes='hard' and metadata=False for it",
                options=options.given,
            )
        return MULTISET
    if not keyed:
        return CHANGELOG
    deletes = options.deletes or "hard"
    names, kind = dict[str, str](), "current"
    if options.mode == "history":
        if deletes != "hard":
            raise ConfigurationError(
                "a history has every version of a row, also of a deleted one: set deletes='hard' "
                "for it",
                options=options.given,
            )
        kind = "history"
        names = dict(zip((START, END), options.history_columns or HISTORY_COLUMNS, strict=True))
    if deletes == "soft":
        names[DELETED_AT] = f"{_prefix(options, _PREFIX)}{DELETED_AT}"
    if options.metadata:
        names |= {held: f"{_prefix(options, _METADATA_PREFIX)}{held}" for held in METADATA}
    return TableMode(kind, deletes, names)


def _prefix(options: TableOptions, default: str) -> str:
    return default if options.prefix is None else options.prefix
