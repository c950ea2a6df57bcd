"""Options and report of a merge job, without PySpark, because Airflow reads them too.

Its options as arguments, the zip of what it imports, and its report as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from airflow_provider_binlog.errors import ConfigurationError, MergeError, UnknownMergeError
from airflow_provider_binlog.names import GlobMatcher, find_unmatched, matches_globs
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.names import catalog_name
from airflow_provider_binlog.spark.target.state import NOTHING, ForeignWrite, Hold, Mark
from airflow_provider_binlog.table_options import TableRules


@dataclass(frozen=True)
class MergeOptions:
    """Options of a merge; see the help of the arguments."""

    staging: str
    source: str
    format: str
    lake: str
    through: int | None = None
    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()
    table_options: TableRules = field(default_factory=TableRules)
    properties: Mapping[str, str] = field(default_factory=dict)
    threads: int = 4
    verify_parts: bool = False
    adopt: bool = False
    upgrade: bool = True
    initial_load: str = "snapshot"
    follow: float = 0
    tag: str | None = None
    connection: str | None = None
    without: frozenset[str] = frozenset()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what would end the process, which may be a task of Airflow."""
        raise ConfigurationError(f"the merge job cannot use its arguments: {message}")


def _table_options(text: str) -> TableRules:
    try:
        rules = TableRules.from_text(text)
        for target in rules.targets.values():
            catalog_name(target, database="database", table="table")
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return rules


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"not name=value: {text}")
    return name, value


_ARGUMENTS: dict[str, dict[str, Any]] = {
    "--staging": {"required": True, "help": "URI of the staging root"},
    "--source": {"required": True, "help": "name of the source"},
    "--through": {
        "type": int,
        "help": "number of the last manifest to merge; default: the newest",
    },
    "--format": {"required": True, "choices": ("delta", "iceberg", "postgresql")},
    "--lake": {
        "required": True,
        "help": "delta: folder of the tables; iceberg: name of the catalog in Spark's settings; "
        "postgresql: a name for the database",
    },
    "--connection": {
        "metavar": "FILE",
        "help": "postgresql: how to reach the database; the file is read and deleted",
    },
    "--tables": {
        "nargs": "+",
        "help": "globs of database.table, and !globs that take some back; default: all",
    },
    "--exclude": {
        "nargs": "+",
        "help": "globs of tables among them to leave out",
    },
    "--options": {
        "dest": "table_options",
        "type": _table_options,
        "metavar": "JSON",
        "help": 'options of tables by globs, the fields of TableOptions: {"shop.visits": {"key": '
        '["id"]}, "*": {"target": "lake.{database}_{table}"}}; default of target: '
        "{database}.{table}; delta's: a folder below --lake",
    },
    "--table-property": {
        "dest": "properties",
        "action": "append",
        "type": _property,
        "metavar": "NAME=VALUE",
        "help": "a property of new tables",
    },
    "--threads": {"type": int, "help": "tables merged at once"},
    "--verify-parts": {"action": "store_true", "help": "compare the SHA-256 of every part"},
    "--adopt": {
        "action": "store_true",
        "help": "load snapshots into tables that someone else made, too, and replace their rows",
    },
    "--no-upgrade": {
        "dest": "upgrade",
        "action": "store_false",
        "help": "delta: give no existing table a feature that its readers have to know: one whose "
        "columns change so that it needs one is stale",
    },
    "--initial-load": {
        "choices": ("snapshot", "changes_only", "fail"),
        "help": "a table that was never loaded, and has rows from before the staged log, waits for "
        "a snapshot, begins with the changes, or fails; default: snapshot",
    },
    "--tag": {
        "help": "iceberg: give this tag to the versions that are one state of the source",
    },
    "--follow": {
        "type": float,
        "metavar": "SECONDS",
        "help": "merge what is staged meanwhile, too; default: 0, what is staged already",
    },
    "--report": {"help": "URI of a file that the report is written to"},
}
_COLLECTED = {"tables": tuple, "exclude": tuple, "properties": dict}


def parse_arguments(arguments: Sequence[str] | None) -> tuple[MergeOptions, str | None]:
    """Return the options, and the report's URI.

    Raises:
        ConfigurationError: The arguments cannot be used as given.
    """
    # What is not given has the default of its field.
    parser = _Parser(
        "application.py",
        description="Merge staged changes into Delta, Iceberg or PostgreSQL.",
        argument_default=argparse.SUPPRESS,
    )
    for name, argument in _ARGUMENTS.items():
        parser.add_argument(name, **argument)
    values = vars(parser.parse_args(arguments))
    report = values.pop("report", None)
    values |= {
        name: collect(values[name]) for name, collect in _COLLECTED.items() if name in values
    }
    options = MergeOptions(**values)
    if options.tag is not None and options.format != "iceberg":
        parser.error("only Iceberg tables have tags: leave --tag out")
    if options.follow and options.through is not None:
        parser.error("a merge that follows ends with the time: leave --through out")
    options.table_options.check_format(options.format)
    return options, report


@dataclass(frozen=True)
class TableChoice:
    """The tables that a list of globs matches, every one if only `!globs`, without another's.

    Nor those that are named in `without`.
    """

    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()
    without: Collection[str] = ()

    def __call__(self, name: TableName) -> bool:
        """Return whether a table is chosen."""
        text = ".".join(name)
        return text not in self.without and self._chosen(text) and not self._excluded(text)

    def unmatched(self, staged: Collection[TableName], excluded: Collection[str] = ()) -> list[str]:
        """Return the globs, of either list, that match none of the staged tables.

        Without those that leave out what is not captured already.
        """
        given = [(glob, glob.startswith("!")) for glob in self.tables]
        given += [(glob, not glob.startswith("!")) for glob in self.exclude]
        texts = (glob.removeprefix("!") for glob, _ in given)
        unmatched = {*find_unmatched(texts, map(".".join, staged))}
        return [
            glob
            for glob, leaves_out in given
            if (text := glob.removeprefix("!")) in unmatched
            and not (leaves_out and (text in excluded or matches_globs(text, excluded)))
        ]

    @cached_property
    def _chosen(self) -> Callable[[str], bool]:
        return _matcher(self.tables, default=True)

    @cached_property
    def _excluded(self) -> Callable[[str], bool]:
        return _matcher(self.exclude, default=False)


def _matcher(globs: Sequence[str], *, default: bool) -> Callable[[str], bool]:
    """Return whether a glob matches a text and no `!glob` does; `default` is for no glob."""
    positive = [glob for glob in globs if not glob.startswith("!")]
    matches = GlobMatcher(positive) if positive else lambda _: default
    excluded = GlobMatcher(glob[1:] for glob in globs if glob.startswith("!"))
    return lambda text: matches(text) and not excluded(text)


_PACKAGE = Path(__file__).resolve().parents[2]
_ROOM = Path(__file__).resolve().parents[1]
_SHARED = (
    "__init__.py",
    "binlog/__init__.py",
    "binlog/buffer.py",
    "binlog/gtid_set.py",
    "changes.py",
    "errors.py",
    "manifest.py",
    "names.py",
    "position.py",
    "schema.py",
    "snapshot_manifest.py",
    "staging/__init__.py",
    "staging/paths.py",
    "stored_json.py",
    "table_options.py",
)
# The earliest time a zip can hold: the same sources give the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)

NAME = "airflow_provider_binlog.zip"

APPLICATION = _ROOM / "job" / "application.py"
"""The job's main file, which spark-submit takes as its application."""


def build_py_files(folder: str | Path) -> Path:
    """Write the zip of the merge into `folder`, which must exist, and return its path.

    The same sources give the same bytes, so that two runs may write it at once.
    """
    return pack([_PACKAGE / name for name in _SHARED] + sorted(_ROOM.rglob("*.py")), folder)


def pack(sources: Iterable[Path], folder: str | Path) -> Path:
    """Write a zip of some modules of this package into `folder`, and return its path."""
    path = Path(folder) / NAME
    handle, scratch = tempfile.mkstemp(prefix=f".{NAME}.", dir=folder)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for source in sources:
            name = source.relative_to(_PACKAGE.parent).as_posix()
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, source.read_bytes())
    Path(scratch).chmod(0o644)
    Path(scratch).replace(path)
    return path


def find_error(report: Mapping[str, Any]) -> MergeError | None:
    """Return the error that a job reports; None if it reports none."""
    if report.get("status") != "failed":
        return None
    tables = [f"{row['table']}: {row['error']}" for row in report["tables"] if row["error"]]
    failures = [report["error"], *tables] if report["error"] else tables
    return (UnknownMergeError if report["retryable"] else MergeError)("; ".join(failures))


FORMAT = "airflow-provider-binlog/merge-report"

UNMATCHED = (
    "globs match no staged table, in letters and case: correct them, unless their tables have not "
    "changed yet"
)

_SHOWN = (
    *("table", "target", "status", "reason", "position", "suspect", "layout", "snapshot"),
    *("changes", "rows", "missing_rows", "bytes", "version", "seconds", "error", "retryable"),
)


@dataclass
class TableReport:
    """The result of the merge of one table.

    Attributes:
        target: The lake table, as SQL names it.
        hold: Why the table is not merged, until it is reloaded; None if it is.
        is_merged: Whether anything was committed.
        lacks: What a merged table lacks, if the author chose that.
        foreign_write: The commit of others that changed rows, and that no reload replaced yet.
        layout: Options that an existing lake table does not follow, where that was not reported
            before; or properties that it refused.
        snapshot: Id of the snapshot that was loaded; or why a newer one is not.
        applied_before, applied_after: How much of the log the target contained, and contains.
        changes: Change rows that were read, by type.
        rows: Rows of the target that were inserted, updated and deleted, where the format says.
        missing_rows: Rows that were updated or deleted, and that the target did not have: it lacked
            them before. None where that is not known: after a reload, without a key.
        version: Delta's version of the target, or the id of Iceberg's snapshot, with these rows.
        retryable: Whether the same merge may succeed later.
    """

    table: str
    target: str
    hold: Hold | None = None
    is_merged: bool = False
    lacks: str = ""
    foreign_write: ForeignWrite | None = None
    layout: str = ""
    snapshot: str = ""
    applied_before: Mark = NOTHING
    applied_after: Mark = NOTHING
    changes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int | None] = field(default_factory=dict)
    missing_rows: int | None = None
    bytes: int = 0
    version: int | None = None
    seconds: float = 0.0
    error: str | None = None
    retryable: bool = False

    @property
    def status(self) -> str:
        """`failed`, `loading`, `stale`, `merged`, or `current` where there is nothing to do."""
        if self.error is not None:
            return "failed"
        if self.hold is not None:
            return self.hold.state
        return "merged" if self.is_merged else "current"

    @property
    def reason(self) -> str:
        """The reason why the table is not merged, or what it lacks."""
        return self.lacks if self.hold is None else self.hold.reason

    @property
    def suspect(self) -> str:
        """The reason why rows of a live table may differ from its source's; empty if none."""
        return "" if self.foreign_write is None or self.hold else str(self.foreign_write)

    @property
    def position(self) -> str:
        """Position in the log of the reason; empty if it has none."""
        return "" if self.hold is None else self.hold.position

    def to_json(self) -> dict[str, Any]:
        """Return the report as a value of JSON."""
        marks = {name: asdict(getattr(self, name)) for name in ("applied_before", "applied_after")}
        since = "" if self.hold is None else self.hold.since
        return {name: getattr(self, name) for name in _SHOWN} | marks | {"since": since}

    def line(self) -> str:
        """Return what a person wants to read as the table is done."""
        if self.error is not None:
            return f"{self.table}: failed after {self.seconds:.1f} s"
        counts = [f"{count:,} {kind}" for kind, count in self.rows.items() if count]
        rows = f"{', '.join(counts)} rows" if counts else self.status
        version = "" if self.version is None else f", version {self.version}"
        missing = ""
        if self.missing_rows:
            missing = f", {self.missing_rows:,} rows that were updated or deleted were not there"
        return f"{self.table}: {rows} in {self.seconds:.1f} s{version}{missing}"


class JobReport(ABC):
    """The result of a job over tables.

    Attributes:
        tables: The result of each table: `table`, its name, `error` and `retryable`.
        error: Why the job failed, if that is not because of a table; it may pass if `retryable`.
    """

    tables: Sequence[Any]
    error: str | None
    retryable: bool

    @property
    def failures(self) -> list[str]:
        """The error of the job, and those of tables."""
        failed = (table for table in self.tables if table.error is not None)
        tables = [f"{table.table}: {table.error}" for table in failed]
        return tables if self.error is None else [self.error, *tables]

    @property
    def failed(self) -> bool:
        """Whether anything failed."""
        return bool(self.failures)

    @property
    def may_pass(self) -> bool:
        """Whether every failure may pass by itself."""
        failed = (table for table in self.tables if table.error is not None)
        return all(table.retryable for table in failed) and (self.retryable or self.error is None)

    @abstractmethod
    def to_json(self) -> str:
        """Return the report as one line."""


@dataclass(frozen=True)
class Report(JobReport):
    """The result of a merge.

    Attributes:
        through: Number of the last manifest it covers.
        tables: One entry for each table that the manifests changed.
        error: Why it failed, if that is not because of a table; it may pass if `retryable`.
        unmatched: The globs of the merge that match no table of which anything is staged, but for
            those that leave out what is not captured.
        stop: Up to where in the log the lake is merged; None before the first manifest.
        versions: By live table, the version of its lake table that has the log up to there, and
            nothing after it: together they are one state of the source.
        published: Id of the publish record that says so; empty before the first one.
    """

    source: str
    through: int
    tables: Sequence[TableReport]
    seconds: float
    error: str | None = None
    retryable: bool = False
    unmatched: Sequence[str] = ()
    stop: Position | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    published: str = ""

    @property
    def held(self) -> list[TableReport]:
        """Return the tables that are left alone until they are reloaded."""
        return [table for table in self.tables if table.error is None and table.hold is not None]

    def to_json(self) -> str:
        """Return the report as one line."""
        value = {
            "format": FORMAT,
            "source": self.source,
            "through": self.through,
            "status": "failed" if self.failed else "merged",
            "retryable": self.failed and self.may_pass,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "unmatched": list(self.unmatched),
            "stop": None if self.stop is None else self.stop.to_json(),
            "versions": dict(self.versions),
            "published": self.published,
            "tables": [table.to_json() for table in self.tables],
        }
        return json.dumps(value, ensure_ascii=False)
