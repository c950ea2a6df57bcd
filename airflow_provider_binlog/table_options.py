"""Options of single tables, given by globs of `database.table`.

    {"*": TableOptions(target="lake.{database}_{table}"), "shop.visits": TableOptions(key=("id",))}

The options of a table are resolved field by field, from every rule that matches its name and gives
the field: an exact name precedes a glob, and of two globs the later one holds. Columns to exclude
and to hash are those of all these rules together: no rule takes back what another one protects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from airflow_provider_binlog.errors import MALFORMED, ConfigurationError
from airflow_provider_binlog.names import (
    find_unmatched,
    is_exact_glob,
    join_table_name,
    split_table_name,
)
from airflow_provider_binlog.stored_json import from_json


@dataclass(frozen=True)
class TableOptions:
    """Options of a table; of a rule those that it gives, the others are None.

    Attributes:
        key: Key columns of a table whose key the log does not contain.
        target: Name of the lake table in its catalog, from `{database}` and `{table}`.
        on_foreign_write: Once others changed rows of the lake table: `warn` in every run until it
            is reloaded, leave it `stale`, or `ignore` that; `warn` by default.
        on_nul: In PostgreSQL, whose texts hold no NUL character: `fail` the table where one has it,
            `strip` the character, or `replace` it by U+FFFD; `fail` by default.
        mode: What the lake table keeps: `current`, the default, the rows of a table with a key, and
            the changes of one without; `history` every version of the rows of a table with a key;
            `multiset` the rows of one without.
        deletes: How deleted rows are handled: `hard`, the default, removes them; `soft` marks them
            in the column `_deleted_at`; `ignore` leaves them as they are.
        metadata: Whether the lake table has columns that say when, where and how a row last
            changed.
        prefix: What the names of the columns that these options add begin with.
        history_columns: Names of the columns that say from when, and until when, a version of a
            history holds; `__START_AT` and `__END_AT` by default.
        track_columns: Columns whose changes begin another version in a history; by default all.
        cluster_by: Columns that a new Delta table is clustered by.
        partition_by: Columns that a new table is partitioned by, of Iceberg also transforms, as
            `days(created_at)` or `bucket(16, id)`.
        sort_by: Columns and transforms that rows of a new Iceberg table are sorted by, each as SQL
            sorts: `day DESC NULLS LAST`.
        properties: Table properties, which an existing table gets, too.
        comments: Whether the lake table has the comments of its table and of its columns.
        exclude_columns: Columns that are neither selected nor staged.
        hash_columns: Columns in place of whose values their HMAC-SHA-256 is staged.
    """

    key: Sequence[str] | None = None
    target: str | None = None
    on_foreign_write: str | None = None
    on_nul: str | None = None
    mode: str | None = None
    deletes: str | None = None
    metadata: bool | None = None
    prefix: str | None = None
    history_columns: Sequence[str] | None = None
    track_columns: Sequence[str] | None = None
    cluster_by: Sequence[str] | None = None
    partition_by: Sequence[str] | None = None
    sort_by: Sequence[str] | None = None
    properties: dict[str, str] | None = None
    comments: bool | None = None
    exclude_columns: Sequence[str] | None = None
    hash_columns: Sequence[str] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not None, by name."""
        values = ((name, getattr(self, name)) for name in _hints())
        return {name: value for name, value in values if value is not None}


_JOINED = ("exclude_columns", "hash_columns")


@dataclass(frozen=True)
class ColumnOptions:
    """The protected columns of the tables that a glob matches: excluded ones, and hashed ones."""

    tables: str
    exclude: Sequence[str] = ()
    hash: Sequence[str] = ()

    def concern(self, name: tuple[str, str]) -> bool:
        """Whether the glob matches a table."""
        return _matches(self.tables, name)

    @property
    def table(self) -> tuple[str, str] | None:
        """The table that it names without a wildcard; None if it is a glob."""
        return split_table_name(self.tables) if is_exact_glob(self.tables) else None


@dataclass(frozen=True)
class TableRules:
    """Options by globs of tables, in order."""

    by_glob: Mapping[str, TableOptions] = field(default_factory=dict)

    @classmethod
    def read(cls, value: object) -> TableRules:
        """Return rules that are given as objects, or in their JSON form, checked."""
        if not isinstance(value, dict):
            raise ConfigurationError("the options of tables are an object by globs", given=value)
        return cls({_read_glob(glob): _read_options(glob, own) for glob, own in value.items()})

    @classmethod
    def from_text(cls, text: str) -> TableRules:
        """Return rules from JSON, checked."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ConfigurationError("the options of tables are not JSON", given=text) from error
        return cls.read(value)

    def to_text(self) -> str:
        """Return the rules as JSON, for a command line."""
        value = {glob: options.given for glob, options in self.by_glob.items()}
        # YARN takes two braces in a command for those of a variable, and removes them. With line
        # feeds between all elements, two that are left are part of a text.
        text = json.dumps(value, indent=0).replace("{{", "{\\u007b").replace("}}", "}\\u007d")
        return text.replace("\n", " ")

    def of(self, name: tuple[str, str]) -> TableOptions:
        """Return the options of a table."""
        matching = [glob for glob in self.by_glob if _matches(glob, name)]
        resolved: dict[str, Any] = {}
        for glob in sorted(matching, key=lambda glob: glob in _texts(name)):
            given = self.by_glob[glob].given
            for option in given.keys() & _JOINED:
                joined = (*resolved.get(option, ()), *given[option])
                given[option] = tuple(dict.fromkeys(joined))
            resolved |= given
        return TableOptions(**resolved)

    @property
    def columns(self) -> tuple[ColumnOptions, ...]:
        """The columns that rules exclude or hash, rule by rule."""
        columns = (
            ColumnOptions(glob, options.exclude_columns or (), options.hash_columns or ())
            for glob, options in self.by_glob.items()
        )
        return tuple(own for own in columns if own.exclude or own.hash)

    def unmatched(self, names: Collection[tuple[str, str]]) -> list[str]:
        """Return the globs that match none of these tables."""
        texts = {text for name in names for text in _texts(name)}
        return find_unmatched(self.by_glob, texts)

    def check_format(self, format_: str) -> None:
        """Refuse layouts and properties that a format does not have."""
        for glob, options in self.by_glob.items():
            for name in options.given:
                if format_ not in _FORMATS.get(name, (format_,)):
                    raise ConfigurationError(
                        f"an option of {' and '.join(_FORMATS[name])} tables alone",
                        table=glob,
                        option=name,
                        format=format_,
                    )

    @property
    def targets(self) -> dict[str, str]:
        """The names of lake tables that are given, by glob."""
        targets = ((glob, options.target) for glob, options in self.by_glob.items())
        return {glob: target for glob, target in targets if target is not None}


_CHOICES = {
    "on_foreign_write": ("warn", "stale", "ignore"),
    "on_nul": ("fail", "strip", "replace"),
    "mode": ("current", "history", "multiset"),
    "deletes": ("hard", "soft", "ignore"),
}

_FORMATS = {
    "cluster_by": ("delta",),
    "partition_by": ("delta", "iceberg"),
    "sort_by": ("iceberg",),
    "properties": ("delta", "iceberg"),
    "on_nul": ("postgresql",),
}
_LAYOUTS = ("cluster_by", "partition_by", "sort_by")

_OWN_PROPERTIES = "binlog."
_TRANSFORM = re.compile(
    r"(years|months|days|hours|bucket|truncate)\((?:(\d+), ?)?(.+)\)", re.DOTALL
)
_WITH_WIDTH = frozenset({"bucket", "truncate"})
_ORDER = re.compile(
    r"(.+?)((?: (?:asc|desc))?(?: nulls (?:first|last))?)", re.DOTALL | re.IGNORECASE
)


class LayoutTerm(NamedTuple):
    """A column that rows are laid out by.

    Attributes:
        transform: What is taken of its values: `days`, `bucket`, ...; empty for the whole.
        width: The number of buckets, or of characters that are kept.
        order: How they are sorted, in words of SQL; empty if as usual.
    """

    column: str
    transform: str = ""
    width: int | None = None
    order: str = ""


def read_term(text: str, *, sorts: bool = False) -> LayoutTerm:
    """Return what an element of `partition_by` says, or of `sort_by` if it `sorts`."""
    order = ""
    if sorts and (ordered := _ORDER.fullmatch(text)) is not None:
        text, order = ordered[1], ordered[2].strip().upper()
    match = _TRANSFORM.fullmatch(text)
    if match is None:
        return LayoutTerm(text, order=order)
    transform, width, column = match.groups()
    if (width is not None) != (transform in _WITH_WIDTH):
        raise ConfigurationError(
            "not a transform of a column: years(c), months(c), days(c), hours(c), bucket(16, c) or "
            "truncate(4, c)",
            given=text,
        )
    return LayoutTerm(column, transform, None if width is None else int(width), order)


def _texts(name: tuple[str, str]) -> set[str]:
    return {".".join(name), join_table_name(name)}


def _matches(glob: str, name: tuple[str, str]) -> bool:
    return glob in _texts(name) or fnmatchcase(".".join(name), glob)


@cache
def _hints() -> dict[str, Any]:
    hints = get_type_hints(TableOptions)
    return {option.name: hints[option.name] for option in fields(TableOptions)}


def _read_glob(glob: object) -> str:
    if not isinstance(glob, str) or (is_exact_glob(glob) and "." not in glob.strip(".")):
        raise ConfigurationError("not database.table, or a glob of it", table=glob)
    return glob


def _read_options(glob: str, value: object) -> TableOptions:
    given = value.given if isinstance(value, TableOptions) else value
    if not isinstance(given, dict):
        raise ConfigurationError("the options of a table are an object", table=glob, given=value)
    options = TableOptions(**{name: _read_option(glob, name, own) for name, own in given.items()})
    for name, values in _CHOICES.items():
        if (chosen := getattr(options, name)) not in (None, *values):
            *others, last = values
            raise ConfigurationError(
                f"{name} is {', '.join(others)} or {last}", table=glob, given=chosen
            )
    if options.key is not None and not all(options.key):
        raise ConfigurationError("a column of the key has no name", table=glob, key=options.key)
    _check_layout(glob, options)
    names = options.history_columns
    if names is not None and (len(names), len({*map(str.lower, names)} - {""})) != (2, 2):
        raise ConfigurationError(
            "history_columns are two names: of the start of a version, and of its end",
            table=glob,
            given=names,
        )
    for option in (*_JOINED, "track_columns"):
        if not all(options.given.get(option, ())):
            raise ConfigurationError("a column has no name", table=glob, option=option)
    if options.target is not None and not is_exact_glob(glob) and "{table}" not in options.target:
        raise ConfigurationError(
            "a name for several lake tables needs {table}", table=glob, target=options.target
        )
    return options


def _check_layout(glob: str, options: TableOptions) -> None:
    if options.cluster_by and options.partition_by:
        raise ConfigurationError(
            "a table is clustered or partitioned, not both", table=glob, given=options.given
        )
    for name in _LAYOUTS:
        for text in getattr(options, name) or ():
            try:
                term = read_term(text, sorts=name == "sort_by")
            except ConfigurationError as error:
                error.context |= {"table": glob, "option": name}
                raise
            if not term.column:
                raise ConfigurationError("a column has no name", table=glob, option=name)
    for name in options.properties or ():
        if not name or name.startswith(_OWN_PROPERTIES):
            raise ConfigurationError(
                "not a property that can be given: a name, but none of the merge's own",
                table=glob,
                option="properties",
                given=name,
            )


def _read_option(glob: str, name: str, value: object) -> Any:
    kind = _hints().get(name)
    if kind is None:
        raise ConfigurationError(
            "a table has no such option", table=glob, option=name, options=", ".join(_hints())
        )
    try:
        return from_json(kind, list(value) if isinstance(value, tuple) else value)
    except MALFORMED as error:
        raise ConfigurationError(
            f"the option is of another type: {error}", table=glob, option=name, given=value
        ) from error
