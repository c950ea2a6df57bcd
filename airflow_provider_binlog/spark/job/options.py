"""What spark-submit is given of a merge: its options as arguments, and the zip of what it imports.

Free of PySpark, because Airflow reads it too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import GlobMatcher, find_unmatched, matches_globs
from airflow_provider_binlog.spark.names import catalog_name
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from airflow_provider_binlog.schema import TableName


@dataclass(frozen=True)
class MergeOptions:
    """What to merge, and where to.

    Attributes:
        staging: URI of the staging root.
        source: Name of the source.
        format: `delta` or `iceberg`.
        lake: Delta: folder of the tables. Iceberg: name of the catalog.
        through: Number of the last manifest to merge; None for the newest.
        tables: Globs of `database.table` to merge, and `!globs` that take some back; none for all.
        exclude: Globs of tables among them to leave out.
        table_options: Options of single tables.
        properties: Table properties of new tables.
        threads: How many tables are merged at once.
        verify_parts: Whether the parts' SHA-256 are compared, which reads every part once more.
        adopt: Whether snapshots are loaded into lake tables, too, that someone else made.
        upgrade: Whether existing Delta tables get features that a change of their columns needs.
        initial_load: What to do about a table that was never loaded, and has rows from before the
            staged log: `snapshot` waits for one, `changes_only` begins with the changes, `fail`
            fails.
    """

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
    "--format": {"required": True, "choices": ("delta", "iceberg")},
    "--lake": {
        "required": True,
        "help": "delta: folder of the tables; iceberg: name of the catalog in Spark's settings",
    },
    "--tables": {
        "nargs": "+",
        "default": [],
        "help": "globs of database.table, and !globs that take some back; default: all",
    },
    "--exclude": {
        "nargs": "+",
        "default": [],
        "help": "globs of tables among them to leave out",
    },
    "--options": {
        "dest": "table_options",
        "default": TableRules(),
        "type": _table_options,
        "metavar": "JSON",
        "help": 'options of tables by globs: {"shop.visits": {"key": ["id"]}, "*": {"target": '
        '"lake.{database}_{table}"}}; key: key columns of a table without a primary key, whose '
        "changes are appended without them; target: a table's name in the catalog, iceberg's "
        "default: {database}.{table}; delta's: a folder below --lake",
    },
    "--table-property": {
        "dest": "properties",
        "action": "append",
        "default": [],
        "type": _property,
        "metavar": "NAME=VALUE",
        "help": "a property of new tables",
    },
    "--threads": {"type": int, "default": 4, "help": "tables merged at once"},
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
        "default": "snapshot",
        "help": "a table that was never loaded, and has rows from before the staged log, waits for "
        "a snapshot, begins with the changes, or fails; default: snapshot",
    },
    "--report": {"help": "URI of a file that the report is written to"},
}
_COLLECTED = {"tables": tuple, "exclude": tuple, "properties": dict}


def parse_arguments(arguments: Sequence[str] | None) -> tuple[MergeOptions, str | None]:
    """Return the options, and the report's URI.

    Raises:
        ConfigurationError: The arguments cannot be used as given.
    """
    parser = _Parser(
        "application.py", description="Merge staged changes into Delta or Iceberg tables."
    )
    for name, options in _ARGUMENTS.items():
        parser.add_argument(name, **options)
    found = vars(parser.parse_args(arguments))
    report = found.pop("report")
    found |= {name: collect(found[name]) for name, collect in _COLLECTED.items()}
    return MergeOptions(**found), report


@dataclass(frozen=True)
class TableChoice:
    """The tables that a list of globs matches, without those that another one matches.

    Attributes:
        tables: What to merge; every table where only `!globs` are given.
        exclude: What of it to leave out.
    """

    tables: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def __call__(self, name: TableName) -> bool:
        """Return whether a table is chosen."""
        text = ".".join(name)
        return self._chosen.match(text, default=True) and not self._excluded.match(
            text, default=False
        )

    def unmatched(self, staged: Collection[TableName], excluded: Collection[str] = ()) -> list[str]:
        """Return the globs, of either list, that match none of the staged tables.

        Without those that leave out what is left out already.

        Args:
            staged: The tables of which anything is staged.
            excluded: Globs of the tables that are not captured.
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
    def _chosen(self) -> _Globs:
        return _Globs(self.tables)

    @cached_property
    def _excluded(self) -> _Globs:
        return _Globs(self.exclude)


class _Globs:
    """Globs that match, and `!globs` that take back."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._positive = GlobMatcher(glob for glob in globs if not glob.startswith("!"))
        self._negative = GlobMatcher(glob[1:] for glob in globs if glob.startswith("!"))
        self._has_positive = not all(glob.startswith("!") for glob in globs)

    def match(self, text: str, *, default: bool) -> bool:
        """Return whether a glob matches and no `!glob` does; `default` is for no glob."""
        matched = self._positive(text) if self._has_positive else default
        return matched and not self._negative(text)


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
